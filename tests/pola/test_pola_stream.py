"""Online POLA as a stream, in a feature space, and as a solver: against dense projections, programs and theorems."""

import pickle

import numpy as np
import pytest
from instances import assert_sandwich, rounding
from pola_oracle import Threshold, project_cone, project_margin, separable, update
from seeds import blocks

import sdpmetric as sm
from sdpmetric.core.steps import Budget
from sdpmetric.lmnn.kernel import FeatureSpace
from sdpmetric.pola.problem import POLAProblem
from sdpmetric.pola.regret import comparator, least_loss


def distance(first: Threshold, second: Threshold) -> float:
    """Squared distance of two points."""
    return float(np.sum((first.metric - second.metric) ** 2) + (first.threshold - second.threshold) ** 2)


def random_stream(seed: int, noise: float = 0.0) -> tuple[POLAProblem, np.ndarray]:
    """Pairs, separable but for a share of noise, and an order in which they arrive, some of them often."""
    rng = np.random.default_rng(seed)
    n, d, p = int(rng.integers(6, 20)), int(rng.integers(1, 6)), int(rng.integers(4, 40))
    X, L = rng.normal(size=(n, d)) * 10 ** rng.uniform(-0.5, 0.5), rng.normal(size=(int(rng.integers(1, d + 1)), d))
    pairs = np.array([rng.choice(n, 2, replace=False) for _ in range(p)])
    q = np.sum(((X[pairs[:, 0]] - X[pairs[:, 1]]) @ L.T) ** 2, axis=1)
    similar = (q < np.quantile(q, rng.uniform(0.2, 0.8))) ^ (rng.random(p) < noise)
    start = 1.0 if seed % 2 else float(1 + rng.exponential(2))
    return POLAProblem(X, pairs, similar, None, start), rng.integers(0, p, 4 * p)


def in_order(problem: POLAProblem, order: np.ndarray) -> POLAProblem:
    """The stream itself as a problem."""
    return POLAProblem(problem.X, problem.pairs[order], problem.similar[order], None, problem.initial_threshold)


def state_of(stream: sm.POLAStream) -> Threshold:
    return Threshold(stream.metric, stream.threshold)


def check_theorems(problem: POLAProblem, order: np.ndarray) -> float:
    """Run a stream against the optimum; the share of Theorem 1's bound that it used up."""
    optimum = sm.solve(problem)
    assert optimum.status is sm.Status.OPTIMAL
    best = Threshold(optimum.metric, optimum.extras["threshold"])
    stream = sm.POLAStream(problem.X.shape[1], problem.initial_threshold)
    squared, mistakes = 0.0, 0
    for t in order:
        v, sign, before = problem.differences[t], float(problem.signs[t]), state_of(stream)
        loss = before.loss(v, sign)
        squared += loss**2
        mistakes += sign * (before.threshold - v @ before.metric @ v) <= 0
        outcome = stream.update(problem.X[problem.pairs[t, 0]], problem.X[problem.pairs[t, 1]], problem.similar[t])
        assert abs(outcome - loss) <= rounding(loss)
        projected, step = project_margin(before, v, sign)
        after, scale = state_of(stream), max(1.0, np.abs(projected.metric).max())
        # Section 3.2: the projection onto both sets, at most one eigenvalue below 0, after similar pairs only, and a
        # threshold that only dissimilar pairs can bring down to 1.
        full = project_cone(projected)
        assert np.abs(full.metric - after.metric).max() <= 1e-9 * scale
        assert abs(full.threshold - after.threshold) <= rounding(full.threshold)
        assert (np.linalg.eigvalsh(projected.metric) < -1e-9 * scale).sum() <= (sign > 0)
        # Each update comes nearer to the comparator by the squared length of its first projection, at least.
        size = distance(before, best)
        assert size - distance(after, best) >= step * loss - 1e-8 * max(1.0, size)
    bound = problem.update_bound(optimum.objective)
    assert abs(stream.cumulative_loss - squared) <= rounding(squared)
    assert stream.cumulative_loss <= bound + rounding(bound)  # Theorem 1
    assert stream.bound(optimum.objective) <= bound + rounding(bound)
    assert stream.mistakes == mistakes <= squared + rounding(squared)  # a mistake costs 1 at least
    return squared / bound


def check_inseparable(problem: POLAProblem, order: np.ndarray, gamma: float) -> float:
    """The theorem with `gamma`, whatever the pairs; the share of its bound that was used up."""
    stream = sm.POLAStream(problem.X.shape[1], problem.initial_threshold, gamma)
    point = Threshold(np.zeros((stream.n_features,) * 2), problem.initial_threshold)
    for t in order:
        point, _ = update(point, problem.differences[t], float(problem.signs[t]), gamma)
    stream.partial_fit(problem.X, problem.pairs[order], problem.similar[order])
    assert np.abs(stream.metric - point.metric).max() <= 1e-9 * max(1.0, np.abs(point.metric).max())
    assert abs(stream.threshold - point.threshold) <= rounding(point.threshold)
    optimum = comparator(in_order(problem, order), gamma, Budget())
    objective, lower = optimum.objective, optimum.lower_bound
    assert lower - rounding(lower) <= objective <= lower + 1e-6 * objective
    assert stream.cumulative_loss <= stream.bound(objective) * (1 + 1e-9)
    return stream.cumulative_loss / stream.bound(objective)


def check_kernel(problem: POLAProblem, order: np.ndarray) -> None:
    """In a feature space whose coordinates are known: the same stream, and its theorem."""
    pairs, similar = problem.pairs[order], problem.similar[order]
    d, start = problem.X.shape[1], problem.initial_threshold
    for kernel, parameters in (("linear", {}), ("rbf", {"gamma": 0.5})):
        _, Z = FeatureSpace.of(problem.X, kernel, parameters)
        linear = sm.POLAStream(Z.shape[1], start).partial_fit(Z, pairs, similar)
        stream = sm.KernelPOLAStream(d, kernel, start, kernel_params=parameters)
        half = len(pairs) // 2
        stream.partial_fit(problem.X, pairs[:half], similar[:half]).partial_fit(problem.X, pairs[half:], similar[half:])
        accuracy = 1e-9 if kernel == "linear" else 1e-6
        q, expected = stream.distances(problem.X, pairs), linear.distances(Z, pairs)
        assert np.abs(q - expected).max() <= accuracy * max(1.0, expected.max())
        assert abs(stream.cumulative_loss - linear.cumulative_loss) <= accuracy * max(1.0, linear.cumulative_loss)
        assert stream.mistakes == linear.mistakes
        # Differences of n points span n - 1 dimensions at most.
        assert len(stream.support) <= (d if kernel == "linear" else len(problem.X) - 1)
        optimum = sm.solve(POLAProblem(Z, problem.pairs, problem.similar, None, start))
        if np.isfinite(optimum.objective):
            assert stream.cumulative_loss <= stream.bound(optimum.objective) * (1 + 1e-9)
    # Through the expansion over the support, kernel values give the distances.
    V = stream.support
    inner = stream.kernel(problem.X, V[:, 0]) - stream.kernel(problem.X, V[:, 1])
    difference = inner[pairs[:, 0]] - inner[pairs[:, 1]]
    through = np.einsum("ij,jk,ik->i", difference, stream.expansion(), difference)
    assert np.abs(through - q).max() <= 1e-6 * max(1.0, q.max())


@pytest.mark.parametrize("seed", range(2))
def test_theorem_1_and_the_mistake_bound(seed: int) -> None:
    check_theorems(*random_stream(seed))


@pytest.mark.parametrize("seed", range(2))
def test_theorem_for_inseparable_pairs(seed: int) -> None:
    check_inseparable(*random_stream(seed, 0.3), gamma=0.3 if seed % 2 else 20.0)


@pytest.mark.parametrize("seed", range(2))
def test_kernel_streams_are_streams_in_their_feature_space(seed: int) -> None:
    check_kernel(*random_stream(seed))


@pytest.mark.slow
@pytest.mark.parametrize("seeds", blocks(0, 200), ids=str)
def test_theorems_at_length(seeds: range) -> None:
    for seed in seeds:
        check_theorems(*random_stream(seed))
        check_inseparable(*random_stream(seed, 0.3), gamma=0.3 if seed % 2 else 20.0)
        check_kernel(*random_stream(seed))


def test_theorem_1_is_nearly_tight_for_one_long_dissimilar_pair() -> None:
    """The twin: with a bound 10 % smaller the theorem would be wrong."""
    problem = POLAProblem([[0.0], [3.0]], [[0, 1]], [False])
    share = check_theorems(problem, np.zeros(20, dtype=int))
    assert 0.9 < share <= 1.0


def test_regret_by_the_solver() -> None:
    problem = separable(4)
    solution = sm.solve(problem, solver="online")
    assert solution.status is sm.Status.STREAM_ENDED
    assert not solution.certificate.proves_optimal(1.0)
    stream = sm.POLAStream(3, 1.5).partial_fit(problem.X, problem.pairs, problem.similar)
    assert abs(solution.objective - stream.cumulative_loss) <= rounding(solution.objective)
    assert solution.trace["mistakes"][-1] == stream.mistakes
    assert (np.diff(solution.trace["objective"]) >= 0).all()
    assert solution.n_iter == len(problem.pairs)
    assert abs(solution.extras["threshold"] - stream.threshold) <= 1e-12
    judged = sm.regret(problem, solution)
    assert judged.kind == "regret"
    assert judged.lower_bound == 0.0
    assert abs(judged.regret_bound - problem.update_bound(sm.solve(problem).objective)) <= 1e-5 * judged.regret_bound
    assert judged.objective <= judged.regret_bound
    with_gamma = sm.solve(problem, solver="online", gamma=0.3)
    assert sm.regret(problem, with_gamma, gamma=0.3).regret_bound >= with_gamma.objective


def test_contradicting_pairs_cost_every_metric_something() -> None:
    X, pairs = [[0.0], [1.0]], [[0, 1], [1, 0], [0, 1]]
    problem = POLAProblem(X, pairs, [True, False, True])
    solution = sm.solve(problem, solver="online")
    assert solution.lower_bound == pytest.approx(8 / 3)  # 4 m n / (m + n), at z = 1 / 3
    judged = sm.regret(problem, solution)
    assert judged.regret_bound is None
    assert judged.lower_bound == pytest.approx(8 / 3, rel=1e-3)
    assert judged.lower_bound <= 8 / 3 + 1e-9


def test_batch_conversion_keeps_its_promises() -> None:
    problem = separable(2)
    optimum, batch = sm.solve(problem), sm.solve(problem, solver="batch", beta=0.1)
    assert 0 < batch.n_iter <= problem.update_bound(optimum.objective, 0.1)
    assert_sandwich(batch, optimum)
    assert problem.objective(batch.components, threshold=batch.extras["threshold"]) < np.inf


@pytest.mark.parametrize("d", [7, 40])
def test_streams_equal_full_decompositions(d: int) -> None:
    """From d = 24 on with a shifted inverse; halfway, the stream is saved and loaded."""
    rng = np.random.default_rng(d)
    X, pairs = rng.normal(size=(60, d)) * rng.uniform(0.1, 1, d), rng.integers(0, 60, (500, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    similar = rng.random(len(pairs)) < 0.6
    point = Threshold(np.zeros((d, d)), 1.0)
    stream = sm.POLAStream(d)
    for first in (0, 250):
        some = slice(first, first + 250)
        for (i, j), same in zip(pairs[some], similar[some], strict=True):
            point, _ = update(point, X[i] - X[j], 1.0 if same else -1.0)
        stream = pickle.loads(pickle.dumps(stream.partial_fit(X, pairs[some], similar[some])))
    assert np.abs(stream.metric - point.metric).max() <= 1e-9 * np.abs(point.metric).max()
    assert abs(stream.threshold - point.threshold) <= rounding(point.threshold)


@pytest.mark.parametrize("make", [sm.POLAStream, sm.KernelPOLAStream])
def test_bad_input_names_the_argument_and_changes_nothing(make, rng) -> None:
    X = rng.normal(size=(4, 2))
    stream = make(2).partial_fit(X, [[0, 1], [2, 3]], [-1, 1])
    before = stream.metric
    for arguments, words in (
        ((X[:, :1], [[0, 1]], [1]), "feature"),
        ((X, [[0, 4]], [1]), "pairs"),
        ((X, [[2, 2]], [1]), "pair"),
        ((X, [[0, 1]], [1, 1]), "similar"),
    ):
        with pytest.raises(ValueError, match=words):
            stream.partial_fit(*arguments)
    with pytest.raises(ValueError, match=r"\bu\b|vector"):
        stream.update([1.0], [2.0, 1.0], True)
    with pytest.raises(ValueError, match=r"\+1"):
        stream.update([1.0, 2.0], [2.0, 1.0], 2)
    assert np.array_equal(before, stream.metric)
    assert stream.n_pairs == 2


def test_regret_bound_with_gamma_counts_the_gamma() -> None:
    """Thirty times the same dissimilar pair: short steps lose much more than 2 R times the comparator's objective."""
    problem = sm.POLAProblem([[0.0], [0.3]], [[0, 1]] * 30, [False] * 30)
    solution = sm.solve(problem, solver="online", gamma=100.0)
    judged = sm.regret(problem, solution, gamma=100.0)
    optimum = comparator(problem, 100.0, Budget())
    assert judged.objective > 20.0 * 2.0 * problem.radius * optimum.objective
    assert judged.objective <= judged.regret_bound
    assert judged.regret_bound == pytest.approx(2.0 * (problem.radius + 100.0) * optimum.lower_bound, rel=1e-5)


def test_pairs_that_nearly_contradict_each_other_cost_nothing() -> None:
    problem = sm.POLAProblem([[0, 0], [1, 0], [0.5, 1e-11]], [[0, 1], [0, 2]], [True, False])
    assert least_loss(problem, Budget()) == 0.0
