"""Batch and online POLA: the statement, contradictions, and streams against dense projections and theorems."""

import pickle
from dataclasses import dataclass

import numpy as np
import pytest
from adversary import families, statements
from instances import assert_same, assert_sandwich, rounding, separable

import sdpmetric as sm
from sdpmetric.core.steps import Budget
from sdpmetric.linalg import psd
from sdpmetric.linalg.search import Stop
from sdpmetric.lmnn.kernel import FeatureSpace
from sdpmetric.pola.problem import POLAProblem
from sdpmetric.pola.program import comparator, least_loss
from sdpmetric.sums import feasibility

PROMISES = {"dual": 1e-6, "conic": 1e-6}


def contradicts(problem: sm.POLAProblem, dual: list[float]) -> bool:
    """Whether multipliers prove that the pairs contradict each other."""
    return feasibility.contradiction(problem.as_sum().dual, [np.array(dual)]) is not None


def assert_contradiction(problem: sm.POLAProblem, solution: sm.Solution) -> None:
    """The named pairs alone, with their multipliers, add up to what no point can keep."""
    named_pairs = list(solution.certificate.contradiction)
    assert named_pairs
    a = np.zeros(len(problem.pairs))
    a[named_pairs] = solution.dual[named_pairs]
    assert (a >= 0).all()
    V, y = problem.differences, problem.signs
    assert a @ y <= 1e-10 * a.sum()
    lengths = np.sum(V[named_pairs] ** 2, axis=1)
    assert np.linalg.eigvalsh((V * (a * y)[:, None]).T @ V)[0] >= -1e-10 * a.sum() * lengths.max()
    assert solution.objective == solution.lower_bound == np.inf


LINE, TWO_PAIRS = np.array([[0.0], [1.0], [2.0]]), [[0, 1], [0, 2]]


@pytest.mark.parametrize(
    ("start", "weight", "A", "b", "dual", "value"),
    [
        (1.0, None, 2 / 3, 5 / 3, [10 / 9, 4 / 9], 4 / 9),  # both margins hold with equality
        (3.0, None, 16 / 17, 47 / 17, [0.0, 4 / 17], 8 / 17),  # only the dissimilar pair matters
        (1.0, 0.1, 0.3, 1.0, [0.1, 0.1], 0.155),  # both slacks are used, and the threshold stays
    ],
)
@pytest.mark.parametrize("solver", PROMISES)
def test_one_pair_of_each_kind_by_hand(start, weight, A, b, dual, value, solver) -> None:
    problem = sm.POLAProblem(LINE, TWO_PAIRS, [True, False], weight, start)
    solution = sm.solve(problem, solver=solver)
    assert abs(solution.objective - value) <= 1e-6 * value
    assert_same(problem.objective(metric=[[A]], threshold=b), value)
    certificate = problem.certify(metric=[[A]], threshold=b, dual=dual)
    assert_same(certificate.lower_bound, value)
    assert certificate.relative_gap <= 1e-9
    perturbed = np.add(dual, [0.08, -0.03])
    assert problem.certify(metric=[[A]], threshold=b, dual=perturbed).lower_bound < value - 1e-4


@pytest.mark.parametrize("weight", [None, 1e-6, 1.0])
def test_the_last_step_says_why_it_is_the_last(weight: float | None) -> None:
    sound = separable(8)
    trace = sm.solve(sm.POLAProblem(sound.X, sound.pairs, sound.similar, weight)).trace
    assert [row.stop for row in trace if row.stop] == [trace[-1].stop] == [Stop.TOLERANCE]


def test_the_exact_program_proves_what_scales_of_features_leave_open() -> None:
    rng = np.random.default_rng(28)
    X, pairs = rng.normal(size=(9, 4)) * 10.0 ** rng.uniform(-4, 4, 4), rng.permuted(np.tile(range(9), (18, 1)), axis=1)
    assert sm.solve(sm.POLAProblem(X, pairs[:, :2], rng.random(18) < 0.5, slack_weight=0.1)).status is sm.Status.OPTIMAL


def test_points_whose_rounding_stops_them_say_so() -> None:
    problem = sm.POLAProblem([[0, 0], [1, 0], [0.5, 1e-11]], [[0, 1], [0, 2]], [True, False])
    assert Stop.STALLED in [row.stop for row in sm.solve(problem, tol=1e-14).trace]


def test_a_contradiction_is_saved_and_loaded(tmp_path) -> None:
    problem = sm.POLAProblem(LINE, [[0, 1], [1, 0]], [True, False])
    solution = sm.solve(problem)
    solution.save(tmp_path / "solution.npz")
    loaded = sm.Solution.load(tmp_path / "solution.npz", problem)
    assert (loaded.certificate, loaded.status) == (solution.certificate, solution.status)
    assert np.array_equal(loaded.dual, solution.dual)


@pytest.mark.parametrize("solver", ["dual", "conic", "batch"])
def test_a_pair_that_is_similar_and_dissimilar_is_named(solver: str) -> None:
    sound = separable(8)
    i, j = sound.pairs[3]
    pairs = np.concatenate([sound.pairs, [[j, i]]])
    problem = sm.POLAProblem(sound.X, pairs, np.append(sound.similar, not sound.similar[3]))
    solution = sm.solve(problem, solver=solver)
    assert solution.status is sm.Status.INFEASIBLE
    named_pairs = set(solution.certificate.contradiction)
    assert {3, 25} <= named_pairs
    assert all(set(problem.pairs[t]) == {i, j} for t in named_pairs)
    assert "contradict" in str(solution)
    assert_contradiction(problem, solution)
    assert sm.solve(sm.POLAProblem(sound.X, pairs, problem.similar, 0.3), max_time=30).status is sm.Status.OPTIMAL


def test_dissimilar_pairs_of_equal_points() -> None:
    X = [[0.0, 1.0], [0.0, 1.0], [2.0, 1.0]]
    assert sm.solve(sm.POLAProblem(X, [[0, 1], [0, 2]], [True, False])).status is sm.Status.OPTIMAL
    solution = sm.solve(sm.POLAProblem(X, [[0, 2], [0, 1]], [False, False]))
    assert solution.certificate.contradiction == (1,)
    # One unit of slack beyond b = 1 for the pair that no metric can tell apart.
    soft = sm.solve(sm.POLAProblem(X, [[0, 1]], [False], 0.3))
    assert_same(soft.objective, 0.6)
    for weight in (None, 0.3):  # a similar pair costs nothing, and no coordinates whiten it
        assert sm.solve(sm.POLAProblem(X, [[0, 1]], [True], weight)).objective < 1e-12


@pytest.mark.parametrize("solver", PROMISES)
def test_a_contradiction_between_several_pairs(solver: str) -> None:
    # Similar along both axes, dissimilar along the diagonals, all equally long: the two sums of squares are equal.
    X = np.array([[0, 0], [1, 0], [0, 1], [1, 1], [1, -1]]) * [[1.0, 1.0]] / [1.0, 1.0]
    X[3:] /= np.sqrt(2)
    problem = sm.POLAProblem(X, [[0, 1], [0, 2], [0, 3], [0, 4]], [1, 1, -1, -1])
    solution = sm.solve(problem, solver=solver)
    assert solution.status is sm.Status.INFEASIBLE
    assert set(solution.certificate.contradiction) == {0, 1, 2, 3}
    assert_contradiction(problem, solution)
    # The twin: dissimilar pairs that are a little longer can be kept.
    X[3:] *= 1.1
    assert sm.solve(sm.POLAProblem(X, problem.pairs, problem.similar), solver=solver).status is sm.Status.OPTIMAL


def test_both_conditions_of_a_proof_are_needed() -> None:
    problem = sm.POLAProblem([[0.0], [1.0], [0.9]], [[0, 1], [0, 2]], [True, False])
    assert contradicts(problem, [1.0, 1.0])  # 1 - 0.81 >= 0 and 1 - 1 <= 0
    # The sum of a_t y_t is positive; 0.8 - 0.81 is not PSD; nothing is proven.
    assert not any(contradicts(problem, dual) for dual in ([1.0, 0.7], [0.8, 1.0], [0.0, 0.0]))


def test_a_pair_too_short_to_be_seen_beside_others_contradicts_nothing() -> None:
    problem = sm.POLAProblem([[0, 0], [1e11, 0], [0, 1.0]], [[0, 1], [0, 2]], [True, False])
    A = np.array([[0.0, 2**0.5]])
    assert problem.objective(A) == pytest.approx(2.0)
    assert not isinstance(problem.certify(A, dual=[0.5, 0.5]), sm.InfeasibilityCertificate)
    for solver in ("dual", "conic"):
        assert sm.solve(problem, solver, max_time=0.3).status is not sm.Status.INFEASIBLE


@pytest.mark.parametrize("solver", PROMISES)
@pytest.mark.parametrize(
    ("similar", "dissimilar", "truth"),
    [
        ([1, 0], [1, 1e-11], [0, 2e22]),
        ([1, 1], [1 + 2**-36, 1 - 2**-36], [2.0**73, -(2.0**73)]),  # the same between the axes
        ([1e17, 1e17], [1, -1], [1, -1]),
        ([1.0, 0], [1 + 2**-40, 0], [2.0**41, 0]),
    ],
)
def test_pairs_that_nearly_contradict_each_other_do_not(similar, dissimilar, truth, solver: str) -> None:
    """Some metric keeps the margins of each, exactly: a diagonal one, or one along ``(1, -1)``."""
    V = np.array([similar, dissimilar], dtype=float)
    A = np.diag(truth) if min(truth) >= 0 else truth[0] * np.array([[1.0, -1.0], [-1.0, 1.0]])
    first, second = (float(v @ A @ v) for v in V)
    assert second - first >= 2.0 - 1e-9
    problem = sm.POLAProblem(np.concatenate([V, [[0, 0]]]), [[0, 2], [1, 2]], [True, False])
    assert not contradicts(problem, [1.0, 1.0])
    assert not contradicts(problem, [1.0, 1.0 + 1e-9])
    assert sm.solve(problem, solver, max_time=0.3).status is not sm.Status.INFEASIBLE


def test_differences_that_are_equal_as_rounded_only_contradict_nothing() -> None:
    """1e16 - 1 is rounded to 1e16: a metric of 1e-16 has a gap of 2 between the two squares."""
    problem = sm.POLAProblem([[1e16], [1.0], [0.0]], [[0, 1], [0, 2]], [True, False])
    assert problem.differences[0] == problem.differences[1]
    assert not contradicts(problem, [1.0, 1.0])
    assert problem.certify(np.eye(1), dual=np.ones(2)).lower_bound < np.inf


def test_a_proof_of_many_pairs_needs_no_rational_numbers(rng) -> None:
    X = rng.normal(size=(60, 16)) * 10.0 ** rng.uniform(-1, 1, 16)
    pairs = rng.permutation(np.column_stack(np.triu_indices(60, 1)))[:400]
    problem = sm.POLAProblem(X, pairs, rng.random(400) < 0.5)
    solution = sm.solve(problem, max_time=30)
    assert solution.status is sm.Status.INFEASIBLE
    assert len(solution.certificate.contradiction) > 60
    assert_contradiction(problem, solution)


@pytest.mark.parametrize("family", ["last digits", "tiny", "scales"])
def test_hard_margins_are_kept_whatever_the_units(family: str) -> None:
    """Multipliers are as large as the objective, here up to 1e286, and far from 0 where solvers begin."""
    rng = np.random.default_rng({"last digits": 7, "tiny": 4, "scales": 9}[family])
    problem = statements.hard(*families.data(family, rng), rng).problem
    solution = sm.solve(problem, max_time=60, callback=lambda row: bool(np.isfinite(row.objective)))
    assert np.isfinite(solution.objective)


@dataclass(frozen=True, eq=False)
class Threshold:
    """A metric with its threshold: pairs nearer than the threshold are predicted similar."""

    metric: np.ndarray
    threshold: float

    def loss(self, v: np.ndarray, sign: float) -> float:
        """The hinge ``[1 - y (b - v^T A v)]_+`` of a pair with difference v; at least 1 if the pair is mistaken."""
        return max(0.0, 1.0 - sign * (self.threshold - float(v @ self.metric @ v)))


def update(point: Threshold, v: np.ndarray, sign: float, gamma: float) -> Threshold:
    """One online step as the paper prints it: project onto the pair's margin, then onto metrics and thresholds."""
    step = sign * point.loss(v, sign) / (float(v @ v) ** 2 + 1.0 + gamma)
    return Threshold(psd.project(point.metric - step * np.outer(v, v)), max(1.0, point.threshold + step))


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


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 200))])
def test_kernel_streams_are_streams_in_their_feature_space(seed: int) -> None:
    """In a feature space whose coordinates are known: the same stream, and its theorem."""
    problem, order = random_stream(seed)
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


def test_theorem_1_is_nearly_tight_for_one_long_dissimilar_pair() -> None:
    """With a bound 10 % smaller the theorem would be wrong."""
    problem = POLAProblem([[0.0], [3.0]], [[0, 1]], [False])
    stream = sm.POLAStream(1).partial_fit(problem.X, [[0, 1]] * 20, [False] * 20)
    assert 0.9 < stream.cumulative_loss / problem.update_bound(sm.solve(problem).objective) <= 1.0


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


@pytest.mark.parametrize(("d", "unit", "gamma"), [(7, 1, None), (7, 1, 20), (40, 1, 0.3), (40, 1e3, None)])
def test_streams_equal_full_decompositions(d: int, unit: float, gamma: float | None) -> None:
    """From d = 24 on with a shifted inverse; halfway, the stream is saved and loaded."""
    rng = np.random.default_rng(d)
    X, pairs = unit * rng.normal(size=(60, d)) * rng.uniform(0.1, 1, d), rng.integers(0, 60, (500, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    similar = rng.random(len(pairs)) < 0.6
    point, stream, losses = Threshold(np.zeros((d, d)), 1.0), sm.POLAStream(d, gamma=gamma), []
    for first in (0, 250):
        some = slice(first, first + 250)
        for (i, j), same in zip(pairs[some], similar[some], strict=True):
            losses.append(point.loss(X[i] - X[j], 1.0 if same else -1.0))
            point = update(point, X[i] - X[j], 1.0 if same else -1.0, gamma or 0.0)
        stream = pickle.loads(pickle.dumps(stream.partial_fit(X, pairs[some], similar[some])))
    kernel = sm.KernelPOLAStream(d, "linear", gamma=gamma).partial_fit(X, pairs, similar)  # whose dimension grows
    assert kernel.distances(X, pairs) == pytest.approx(stream.distances(X, pairs), rel=1e-6, abs=1e-6)
    assert np.abs(stream.metric - point.metric).max() <= 1e-9 * np.abs(point.metric).max()
    assert stream.cumulative_loss == pytest.approx(np.sum(np.square(losses)), rel=1e-9)
    assert stream.mistakes == np.sum(np.array(losses) >= 1.0)
    assert abs(stream.threshold - point.threshold) <= rounding(point.threshold)


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


STREAMS = {
    "lego": lambda: sm.LEGOStream(3, 0.05),
    "lego, kernel": lambda: sm.KernelLEGOStream(0.3, "rbf", {"gamma": 0.4}),
    "pola": lambda: sm.POLAStream(3),
    "pola, kernel": lambda: sm.KernelPOLAStream(3, "rbf"),
}


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_can_be_read_before_its_first_pair(name: str, rng: np.random.Generator) -> None:
    X, stream = rng.normal(size=(20, 3)), STREAMS[name]()
    pairs = np.column_stack(np.triu_indices(20, 1))
    assert (stream.cumulative_loss, stream.n_updates) == (0.0, 0)
    if name == "lego":
        assert (stream.metric == np.eye(3)).all()
    elif name == "lego, kernel":  # the distances of the kernel's feature space
        squares = np.sum((X[pairs[:, 0]] - X[pairs[:, 1]]) ** 2, axis=1)
        assert stream.distances(X, pairs) == pytest.approx(2.0 - 2.0 * np.exp(-0.4 * squares))
    else:  # the zero metric
        assert not stream.distances(X, pairs).any()
        assert stream.predict(X, pairs).all()
        assert stream.transform(X).shape == (20, 0)
        assert not stream.metric.any()
        assert len(stream.components) == 0
