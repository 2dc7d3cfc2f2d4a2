"""A statement owns its data: nothing that a caller does to arrays afterwards changes it."""

from dataclasses import fields, is_dataclass
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from statements import FACTORIES, data, point

import sdpmetric as sm
from sdpmetric import terms
from sdpmetric.core.read_only import read_only
from sdpmetric.core.triplets import Triplets


def arrays_of(value, name=""):
    """Every array in a statement, with the way to it."""
    if isinstance(value, np.ndarray):
        yield name, value
    elif sp.issparse(value):
        yield from ((f"{name}.{item}", getattr(value, item)) for item in ("data", "indices", "indptr"))
    elif isinstance(value, tuple | list):
        for k, item in enumerate(value):
            yield from arrays_of(item, f"{name}[{k}]")
    elif is_dataclass(value):
        for f in fields(value):
            yield from arrays_of(getattr(value, f.name), f"{name}.{f.name}")


def claim(problem):
    certificate = problem.certify(point(problem))
    return problem.fingerprint(), problem.objective(point(problem)), certificate.objective, certificate.lower_bound


def assert_unchanged(state, *arrays):
    """What a problem says before its arguments are overwritten, as what it says after that; caches are filled late."""
    problem, fresh = state(*arrays), state(*(np.array(array) for array in arrays))
    for rows in arrays:
        rows[...] = rows[::-1].copy() if rows.dtype.kind in "biu" else -3 * rows[::-1] + 1
    assert claim(problem) == claim(fresh)
    for place, array in arrays_of(problem):
        assert not array.flags.writeable, place
        assert read_only(array) is array, place
        with pytest.raises(ValueError, match="WRITEABLE"):
            array.setflags(write=True)
    return problem


@pytest.mark.parametrize(("name", "dtype"), [*((name, "float64") for name in FACTORIES), ("lmnn", "float32")])
def test_statements_do_not_change_with_the_callers_data(name, dtype):
    X, y = data()
    assert_unchanged(FACTORIES[name], X.astype(dtype), y)


def test_pairs_triplets_targets_weights_kernels_and_terms_are_copied():
    X, y = data()
    rng = np.random.default_rng(0)
    pairs = np.stack([np.arange(26), (np.arange(26) + 5) % 26], axis=1).astype(np.int32)
    similar, sides = y[pairs[:, 0]] == y[pairs[:, 1]], np.ones(26)
    w, goals = rng.uniform(0.5, 2.0, 26), rng.uniform(1.0, 4.0, 26)
    rows = np.array([[0, 1, 12], [1, 0, 13], [2, 3, 22], [12, 13, 0]], dtype=np.int32)
    assert_unchanged(sm.LEGOProblem, X.copy(), pairs.copy(), goals.copy(), sides.copy())
    assert_unchanged(
        lambda *a: sm.POLAProblem(*a[:3], 0.5, 1.0, a[3]), X.copy(), pairs.copy(), similar.copy(), w.copy()
    )
    source = sm.LMNNProblem.from_labels(X, y, 2).source
    assert_unchanged(lambda X: sm.LMNNProblem(X, source), X.copy())
    assert_unchanged(sm.LMNNProblem.from_triplets, X.copy(), rows.copy(), np.arange(1.0, 5.0))
    assert_unchanged(lambda X, y, w: sm.LMNNProblem.from_labels(X, y, 2, sample_weight=w), X.copy(), y.copy(), w.copy())
    kernel = partial(sm.KernelLMNNProblem.from_labels, n_neighbors=2, kernel="precomputed", ridge=0.1)
    assert_unchanged(kernel, np.ascontiguousarray(X @ X.T), y.copy())
    assert_unchanged(
        lambda X, p, s, w, M: sm.MetricProblem(
            X, terms.PairHinge(p, s, weights=w) + terms.LogDet(to=M) + terms.Frobenius(to=M)
        ),
        *(X.copy(), pairs.copy(), similar.copy(), w.copy(), np.eye(3)),
    )
    triplets = Triplets.from_array(rows)
    problem = sm.MetricProblem(X, terms.TripletHinge(triplets) + terms.Trace())
    before = claim(problem)
    triplets.anchors[:] = 5
    assert claim(problem) == before


def test_a_read_only_array_is_copied_because_others_may_write_to_it(tmp_path):
    X, y = data()
    older = X.view()
    X.setflags(write=False)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    problems = [sm.LMNNProblem.from_labels(rows, y, 2, ridge=0.1) for rows in (X, mapped)]
    before = [claim(problem) for problem in problems]
    older[:] = 7.0
    np.load(tmp_path / "X.npy", mmap_mode="r+")[:] = 7.0
    assert (X == 7.0).all()
    assert (mapped == 7.0).all()
    fresh = [sm.LMNNProblem(problem.X, problem.source, ridge=0.1) for problem in problems]  # nothing is cached
    assert [claim(problem) for problem in fresh] == before
    assert np.shares_memory(problems[0].X, problems[0].with_weights(push_weight=0.2).X)


@pytest.mark.parametrize("name", ["lmnn", "multi-metric-lmnn", "itml", "pola"])
def test_nothing_is_claimed_about_data_that_were_changed_by_force(name):
    problem = FACTORIES[name](*data())
    L = point(problem)
    sm.certify(problem, L)
    stated = problem
    while "X" not in vars(stated):
        stated = next(value for value in vars(stated).values() if isinstance(value, sm.Problem))
    vars(stated)["X"] = -3.0 * stated.X
    for verb in (partial(sm.certify, problem, L), partial(sm.verify, problem, L), partial(sm.solve, problem)):
        with pytest.raises(ValueError, match="X changed since this"):
            verb()


@pytest.mark.parametrize("name", FACTORIES)
def test_arrays_that_a_statement_computes_cannot_be_written_to(name):
    """Later answers depend on those that are kept; others are made for each who reads them."""
    problem = FACTORIES[name](*data())
    claim(problem)
    for attribute in (name for name in dir(type(problem)) if not name.startswith("_")):
        first, second = getattr(problem, attribute), getattr(problem, attribute)
        arrays = first if isinstance(first, tuple) else (first,)
        assert first is not second or not any(isinstance(a, np.ndarray) and a.flags.writeable for a in arrays), (
            attribute
        )
    assert problem.centered is problem.centered
    with pytest.raises(ValueError, match="read-only"):
        problem.centered[:] = 0.0
