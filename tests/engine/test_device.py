"""The engine of a device of PyTorch, on the CPU: every loop against the compiled one, and the same proofs."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from instances import rounding
from sklearn.datasets import make_blobs

import sdpmetric as sm
from sdpmetric.engine import device, interface
from sdpmetric.linalg.distances import Blocks, laplacian_form, pair_forms
from sdpmetric.solvers.lmnn.refinement import prove
from sdpmetric.solvers.lmnn.working_set import WorkingSet
from sdpmetric.triplets.margins import hinge_slopes
from sdpmetric.triplets.triplets import Candidates


@pytest.fixture(autouse=True, scope="module")
def torch():
    """With one thread: PyTorch's threads spin while they wait for each other, for minutes on a busy machine."""
    found = pytest.importorskip("torch", reason="PyTorch is not installed")
    before = found.get_num_threads()
    found.set_num_threads(1)
    yield found
    found.set_num_threads(before)


@pytest.fixture(params=["in one piece", "in chunks"])
def engine(request, monkeypatch):
    if request.param == "in chunks":
        monkeypatch.setattr(device, "ENTRIES_ON_CPU", 900)
        monkeypatch.setattr(device, "PAIRS_AT_ONCE", 500)
    return sm.engines.Torch("cpu")


def blobs(n=300, d=6, dtype=np.float64, **options):
    X, y = make_blobs(n, d, centers=4, cluster_std=3.0, random_state=0)
    return sm.LMNNProblem.from_labels(X.astype(dtype), y, 3, 0.5, **options)


def both(engine, work):
    """What some work gives with compiled loops, and on the engine."""
    here = work()
    with interface.using(engine):
        return here, work()


def pairs(problem, Z, **options):
    C = problem.candidates(Z, **options)
    return set(zip(C.anchors[C.rows].tolist(), C.impostors.tolist(), strict=True))


@pytest.mark.parametrize("among", [None, np.arange(5, 200, 3, dtype=np.int32)])
@pytest.mark.parametrize("scale", [0.3, 1e6])
def test_the_search_finds_every_pair_within_its_limit(engine, among, scale):
    problem = blobs()
    Z = scale * problem.points
    y, targets = problem.source.labels, problem.source.targets
    here, there = both(engine, lambda: pairs(problem, Z, widen=0.2, among=among))
    distance = ((Z[:, None] - Z[None]) ** 2).sum(axis=2)
    limits = (1.0 + np.take_along_axis(distance, targets, axis=1).max(axis=1)) * 1.2
    anchors = range(300) if among is None else among.tolist()
    exact = {(i, l) for i in anchors for l in np.flatnonzero((y != y[i]) & (distance[i] <= limits[i])).tolist()}
    assert exact
    assert exact <= there
    assert len(there - exact) <= 0.01 * len(exact)
    assert len(here ^ there) <= 0.01 * len(exact)


def test_the_search_in_single_precision_is_not_rounded_to_fewer_digits(engine, torch):
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        problem = blobs()
        here, there = both(engine, lambda: pairs(problem, problem.points))
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision(before)
    assert len(here ^ there) <= 0.01 * len(here)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_values_gradients_and_bounds_are_those_of_the_compiled_loops(engine, loss, dtype):
    problem = blobs(loss=loss)
    L = 2.0 * np.random.default_rng(0).normal(size=(1, 4, 6))

    def work():
        working = WorkingSet(problem, np.arange(300, dtype=np.int32), dtype)
        working.search(L, 0.3)
        values = [working.value(0.9 * L, gamma) for gamma in (0.0, 0.1)]
        return values, prove(working, 0.9 * L, 0.1).value

    (values, bound), (other_values, other_bound) = both(engine, work)
    digits = 1e-11 if dtype == np.float64 else 1e-4
    for one, other in zip(values, other_values, strict=True):
        assert other.smoothed == pytest.approx(one.smoothed, rel=digits)
        assert other.objective == pytest.approx(one.objective, rel=digits)
        assert abs(other.n_active - one.n_active) <= (0 if dtype == np.float64 else 3)
        assert np.abs(other.gradient - one.gradient).max() <= 10 * digits * np.abs(one.gradient).max()
    assert other_bound == pytest.approx(bound, rel=1e-8 if dtype == np.float64 else 1e-4)


@pytest.mark.parametrize("weighted", [False, True])
def test_slopes_forms_and_products_are_those_of_the_compiled_loops(engine, weighted, rng):
    Z, anchors = rng.normal(size=(40, 3)), np.array([3, 7, 7, 20], dtype=np.int32)
    targets = np.array([[1, 2], [4, -1], [5, 6], [8, 9]], dtype=np.int32)
    impostors = rng.integers(10, 40, 12).astype(np.int32)
    weights = rng.exponential(size=12) * (rng.random(12) < 0.8) if weighted else None
    C = Candidates(anchors, targets, np.array([0, 5, 5, 9, 12]), impostors, weights)
    for gamma, squared in ((0.0, False), (0.2, False), (0.0, True)):
        (sums, slopes), (other, others) = both(engine, lambda g=gamma, s=squared: hinge_slopes(Z, C, g, s))
        assert np.abs(slopes - others).max() <= 1e-12
        assert other.loss == pytest.approx(sums.loss)
        assert other.slopes == pytest.approx(sums.slopes)
        assert other.squares == pytest.approx(sums.squares)
        assert other.n_active == sums.n_active
    first, second, w = *rng.integers(0, 40, (2, 500)).astype(np.int32), rng.normal(size=500)
    blocks, N = Blocks(np.array([0, 15, 40])), rng.normal(size=(2, 3, 3))
    N = N + np.swapaxes(N, 1, 2)
    second = np.where(first < 15, second % 15, 15 + second % 25).astype(np.int32)
    for work in (lambda: laplacian_form(Z, first, second, w, blocks), lambda: pair_forms(Z, N, blocks, first, second)):
        one, other = both(engine, work)
        assert one.shape == other.shape
        assert np.abs(one - other).max() <= 1e-11 * np.abs(one).max()


def test_a_solve_is_certified_and_the_certificate_is_that_of_the_threads():
    engine = sm.engines.Torch("cpu")
    problem = blobs()
    local, there = sm.solve(problem, tol=1e-4), sm.solve(problem, tol=1e-4, engine=engine)
    assert there.status is sm.Status.OPTIMAL
    assert there.lower_bound <= local.objective + rounding(local.objective)
    assert local.lower_bound <= there.objective + rounding(there.objective)
    here, again = both(engine, lambda: problem.certify(there.components, dual=there.dual))
    for certificate in (here, again):
        assert abs(certificate.objective - there.objective) <= rounding(there.objective)
        assert abs(certificate.lower_bound - there.lower_bound) <= rounding(there.lower_bound)
    here, there = both(engine, lambda: problem.certify(problem.lift(2.0 * np.eye(6))))
    assert abs(here.objective - there.objective) <= rounding(here.objective)
    assert abs(here.lower_bound - there.lower_bound) <= rounding(here.lower_bound)


def test_single_precision_and_several_metrics():
    engine = sm.engines.Torch("cpu")
    single = sm.solve(blobs(dtype=np.float32), engine=engine)
    assert single.status is sm.Status.OPTIMAL
    assert single.components.dtype == np.float32
    X, y = make_blobs(150, 4, centers=3, cluster_std=3.0, random_state=0)
    several = sm.solve(sm.MultiMetricLMNNProblem.from_labels(X, y, 3, 0.5), tol=1e-2, engine=engine)
    assert several.status is sm.Status.OPTIMAL


def test_nothing_stays_on_the_device_after_a_solve():
    engine = sm.engines.Torch("cpu")
    sm.solve(blobs(), engine=engine)
    gc.collect()
    assert not engine.loops._kept


def test_devices_that_are_not_there_are_refused(torch):
    with pytest.raises(ValueError, match="no device 'abacus'"):
        sm.engines.Torch("abacus")
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="no device 'cuda'"):
            sm.solve(blobs(), engine="cuda")
