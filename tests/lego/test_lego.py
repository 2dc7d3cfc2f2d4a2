"""LEGO: its step is the exact minimum, its theorem holds, a feature space is one of coordinates, bad input."""

import math
import pickle

import numpy as np
import pytest
from instances import few_and_many, rounding

import sdpmetric as sm


def divergence(A, A0):
    """D_ld by its definition, as numbers."""
    ratio = A @ np.linalg.inv(A0)
    return float(np.trace(ratio) - np.linalg.slogdet(ratio)[1] - len(A0))


def definite(rng, d, size=1.0):
    L = rng.normal(size=(d, d)) + np.eye(d)
    return size * (L.T @ L + 0.1 * np.eye(d))


def pair_loss(p, y, side):
    return 0.5 * (p - y) ** 2 if side == 0 else 0.5 * max(0.0, side * (p - y)) ** 2


def make_stream(seed, d=None, p=None):
    """A random stream that no metric fits, of all three kinds of targets."""
    rng = np.random.default_rng(seed)
    d, p = d or int(rng.integers(1, 5)), p or int(rng.integers(3, 40))
    n = int(rng.integers(5, 15))
    X = rng.normal(size=(n, d)) * 10 ** rng.uniform(-0.7, 0.7)
    pairs = np.array([rng.choice(n, 2, replace=False) for _ in range(p)])
    L = rng.normal(size=(int(rng.integers(1, d + 1)), d))
    y = np.sum(((X[pairs[:, 0]] - X[pairs[:, 1]]) @ L.T) ** 2, axis=1) * rng.uniform(0.3, 1.7, p)
    sides = rng.choice([-1, 0, 1], p) if seed % 3 else rng.choice([-1, 0, 1])
    rate = 10 ** rng.uniform(-3, 0.5) / max(np.mean(y**2), 1e-3)
    return sm.LEGOProblem(X, pairs, y, sides, rate, definite(rng, d, 10 ** rng.uniform(-0.5, 0.5)))


def run(problem, n_pairs=None):
    stream, first = sm.LEGOStream(problem.X.shape[1], problem.learning_rate, problem.prior), slice(n_pairs)
    return stream.partial_fit(problem.X, problem.pairs[first], problem.targets[first], problem.sides[first])


@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize("rate", [1e-4, 50.0])
@pytest.mark.parametrize(("side", "share"), [(0, 0.3), (0, 2.5), (0, 0.0), (1, 0.3), (-1, 2.5)])
def test_step_is_the_minimum_of_divergence_and_loss(d, rate, side, share):
    rng = np.random.default_rng([d, int(share * 10), side + 1])
    A0, (u, v) = definite(rng, d), rng.normal(size=(2, d))
    z = u - v
    p = float(z @ A0 @ z)
    y = share * p
    stream = sm.LEGOStream(d, rate, A0)
    before = stream.components
    outcome = stream.update(u, v, y, side)
    assert outcome.prediction == pytest.approx(p, rel=1e-12)
    assert outcome.loss == pytest.approx(pair_loss(p, y, side), rel=1e-12)
    # Stationarity, to rounding: the gradient at the new metric is 0.
    A = stream.metric
    new = float(z @ A @ z)
    expected = np.linalg.inv(A0) + rate * (new - y) * np.outer(z, z)
    np.testing.assert_allclose(np.linalg.inv(A) / np.abs(expected).max(), expected / np.abs(expected).max(), atol=1e-9)
    # Eq. 2.2 and 2.3 as printed.
    root = rate * y * p - 1
    bar = (root + math.sqrt(root**2 + 4 * rate * p**2)) / (2 * rate * p)
    assert new == pytest.approx(bar, rel=1e-8)
    printed = A0 - rate * (bar - y) / (1 + rate * (bar - y) * p) * A0 @ np.outer(z, z) @ A0
    np.testing.assert_allclose(A, printed, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(outcome.steps[0].apply(before), stream.components, atol=1e-12)
    assert stream.drift() < 1e-10


def test_pretraining_takes_the_rate_with_the_least_loss():
    problem = make_stream(5, d=3, p=80)
    stream = (problem.X, problem.pairs, problem.targets, problem.sides)
    default = sm.LEGOStream.pretrained(*stream)
    rates = [default.learning_rate * 10.0 ** (k / 2) for k in (-2, -1, 0)]
    losses = [sm.LEGOStream(3, rate).partial_fit(*stream).cumulative_loss for rate in rates]
    assert losses[2] == min(losses)
    assert default.n_items == 0
    # The rates go with the units of the data.
    scaled = sm.LEGOStream.pretrained(10 * problem.X, problem.pairs, 100 * problem.targets, problem.sides)
    assert scaled.learning_rate == pytest.approx(default.learning_rate / 1e4, rel=1e-9)


def state(stream):
    """All that a stream learns."""
    return (*stream.components.ravel(), *stream._totals, stream.n_items)


@pytest.mark.parametrize(
    ("size", "target", "side"), [(1e80, 2.0, 0), (1e80, 2.0, 1), (1.0, 1e200, 0), (1.0, 1e200, -1)]
)
def test_a_pair_whose_loss_overflows_changes_nothing(size, target, side):
    stream = sm.LEGOStream(2, 0.3)
    stream.update([1.0, 0.5], [0.0, 0.0], 2.0)
    before = state(stream)
    with pytest.raises(ValueError, match="too large to learn from"):
        stream.update([size, 0.0], [0.0, 0.0], target, side)
    with pytest.raises(ValueError, match=r"pair \[0, 1\] is too large to learn from|has an entry of size"):
        stream.partial_fit([[0.0, 0.0], [size, 0.0]], [[0, 1]], target, side)
    assert state(stream) == before
    assert np.isfinite(stream.update([1.0, 0.0], [0.0, 0.0], 1.0).loss)


def test_linear_kernel_is_lego():
    problem = make_stream(7, d=3, p=80)
    rows = (problem.X, problem.pairs, problem.targets, problem.sides)
    linear = sm.LEGOStream(3, problem.learning_rate).partial_fit(*rows)
    kernel = sm.KernelLEGOStream(problem.learning_rate).partial_fit(*rows)
    kernelized = sm.KernelLEGOStream(problem.learning_rate, lambda X, Y: X @ Y.T)
    outcomes = [
        kernelized.update(problem.X[a], problem.X[b], y, int(side))
        for (a, b), y, side in zip(problem.pairs, problem.targets, problem.sides, strict=True)
    ]
    assert sum(outcome.loss for outcome in outcomes) == pytest.approx(linear.cumulative_loss, rel=1e-9)
    Z = (problem.X[problem.pairs[:, 0]] - problem.X[problem.pairs[:, 1]]) @ linear.components.T
    for stream in (kernel, kernelized):
        assert stream.cumulative_loss == pytest.approx(linear.cumulative_loss, rel=1e-9)
        assert stream.n_updates == linear.n_updates
        np.testing.assert_allclose(stream.distances(problem.X, problem.pairs), np.sum(Z**2, axis=1), rtol=1e-8)
        metric = np.eye(3) + stream.support.T @ stream.coefficients @ stream.support
        np.testing.assert_allclose(metric, linear.metric, atol=1e-9 * np.abs(linear.metric).max())
    assert len(kernel.support) == len(np.unique(problem.pairs))


def test_rbf_kernel_is_lego_in_its_feature_space(rng):
    X = rng.normal(size=(12, 2))
    pairs = np.array([rng.choice(12, 2, replace=False) for _ in range(50)])
    targets = rng.uniform(0.2, 2.0, 50)
    K = np.exp(-0.4 * np.sum((X[:, None] - X[None]) ** 2, axis=2))
    stream = sm.KernelLEGOStream(0.8, "rbf", {"gamma": 0.4}).partial_fit(X[:8], pairs[(pairs < 8).all(axis=1)], 0.5)
    stream = pickle.loads(pickle.dumps(stream)).partial_fit(X, pairs, targets)
    coordinates = np.linalg.cholesky(K)  # their inner products are the kernel's values
    twin = sm.LEGOStream(12, 0.8).partial_fit(coordinates[:8], pairs[(pairs < 8).all(axis=1)], 0.5)
    twin.partial_fit(coordinates, pairs, targets)
    assert stream.cumulative_loss == pytest.approx(twin.cumulative_loss, rel=1e-9)


def test_kernels_that_are_none_are_seen_one_example_at_a_time():
    def lorentz(A, B):
        return A @ np.diag([1.0, -1.0]) @ B.T

    stream = sm.KernelLEGOStream(0.1, lorentz)
    stream.update([1.0, 0.2], [0.0, 0.0], 1.0)  # of these two alone the kernel is positive semidefinite
    with pytest.raises(ValueError, match="not positive semidefinite"):
        stream.update([2.0, 1.9], [0.0, 0.0], 1.0)
    assert len(stream.support) == 2
    stream.update([1.0, 0.2], [0.0, 0.0], 0.5)


def test_what_came_before_a_pair_that_overflows_has_been_taken():
    X = [[1e120, 0.0], [0.0, 0.0], [1.0, 2.0], [3.0, 1.0]]
    stream = sm.KernelLEGOStream(0.3)
    with pytest.raises(ValueError, match=r"pair \[0, 1\]"):
        stream.partial_fit(X, [[2, 3], [1, 2], [0, 1]], 2.0)
    twin = sm.KernelLEGOStream(0.3).partial_fit(X[1:], [[1, 2], [0, 1]], 2.0)
    assert stream.n_items == 2
    for learner in (stream, twin):
        learner.update(X[2], [0.5, 0.5], 3.0)
    np.testing.assert_array_equal(stream.support, twin.support)
    np.testing.assert_array_equal(stream.coefficients, twin.coefficients)


def check_theorem(problem):
    """The corrected Theorem 2.2 with the exact comparator; the share of its allowance that was lost."""
    stream, eta, reach = run(problem), problem.learning_rate, run(problem).reach
    batch = sm.LEGOBatchProblem(problem)
    exact = sm.solve(batch, tol=1e-6)
    assert exact.status is sm.Status.OPTIMAL
    A = exact.metric
    expected = divergence(A, problem.prior) + eta * problem.objective(metric=A)
    assert exact.objective == pytest.approx(expected, rel=1e-6, abs=1e-9)
    allowed = problem.allowance(reach, metric=A)
    assert allowed == pytest.approx((1 / eta + reach) * expected, rel=1e-6, abs=1e-9)
    assert stream.cumulative_loss <= allowed + rounding(allowed)
    solution = sm.solve(problem)
    certificate = sm.regret(problem, solution)
    assert certificate.objective == pytest.approx(stream.cumulative_loss, rel=1e-12)
    assert certificate.objective <= certificate.regret_bound + rounding(certificate.regret_bound)
    assert certificate.regret_bound <= solution.certificate.regret_bound * (1 + 1e-6)
    assert certificate.regret_bound >= (1 / eta + reach) * exact.lower_bound * (1 - 1e-9)  # none is tighter
    assert certificate.kind == "regret"
    assert not certificate.proves_optimal(1.0)
    return stream.cumulative_loss / max(allowed, 1e-300)


@pytest.mark.parametrize("seeds", few_and_many(range(4), 200), ids=str)
def test_corrected_theorem_holds(seeds):
    for seed in seeds:
        assert check_theorem(make_stream(seed)) <= 1.0 + 1e-9, seed


def test_a_lower_bound_that_is_positive():
    """One pair is to be at least 4 and at most 1 apart: 1/2 (x - 4)^2 + 1/2 (x - 1)^2 is 2.25 at best."""
    problem = sm.LEGOProblem([[0.0], [1.0]], [[0, 1], [1, 0]], [4.0, 1.0], [-1, 1], 0.3)
    certificate = problem.certify(metric=[[2.5]])
    assert certificate.objective == pytest.approx(2.25, rel=1e-12)
    assert certificate.lower_bound == pytest.approx(2.25, rel=1e-9)
    assert problem.certify(metric=[[1.0]], dual=[-2.0, 1.0]).lower_bound <= 2.25
    solution = sm.solve(problem)
    assert 0.0 < solution.lower_bound <= 2.25 * (1 + 1e-9)


def test_solve_takes_the_stream_once():
    problem = make_stream(4, d=3, p=60)
    for solution, n_pairs, status in (
        (sm.solve(problem), 60, sm.Status.STREAM_ENDED),
        (sm.solve(problem, max_iter=25), 25, sm.Status.USER_LIMIT),
        (sm.solve(problem, max_time=1e-9), 0, sm.Status.USER_LIMIT),
    ):
        assert (solution.status, solution.certificate.kind) == (status, "regret")
        assert not solution.certificate.proves_optimal(1.0)
        assert solution.objective <= solution.certificate.regret_bound
        assert (np.diff(solution.trace["objective"]) >= 0).all()
        stream = run(problem, n_pairs)
        assert solution.objective == stream.cumulative_loss
        if n_pairs:
            assert solution.n_iter == n_pairs
            np.testing.assert_array_equal(solution.components, stream.components)
    assert "regret" in str(solution)


def test_reach_counts_targets_beyond_the_distance():
    """With p^2 in place of p max(p, y) the allowance would be 1.9, and 49 is lost."""
    problem = sm.LEGOProblem([[0.0], [math.sqrt(0.1)]], [[0, 1]], 10.0, None, 100.0)
    stream = run(problem)
    assert stream.reach == pytest.approx(1.0, rel=1e-12)
    assert check_theorem(problem) <= 1.0
    best = sm.solve(sm.LEGOBatchProblem(problem)).components
    assert problem.allowance(0.1**2, best) < 2.0 < 49.0 < stream.cumulative_loss
