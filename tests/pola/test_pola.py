"""Batch POLA: the statement, its certificate, its three solvers, and what it says of bad data."""

import numpy as np
import pytest
from adversary import families, statements
from instances import assert_same, rounding
from pola_oracle import separable

import sdpmetric as sm
from sdpmetric.sums import feasibility

PROMISES = {"dual": 1e-6, "conic": 1e-6}


def random_pola(seed: int) -> sm.POLAProblem:
    """Small and asymmetric: separable, contradictory or soft, features in other units, integers, repeated pairs."""
    rng = np.random.default_rng(seed)
    n, d, p = int(rng.integers(4, 15)), int(rng.integers(1, 5)), int(rng.integers(2, 40))
    X = rng.normal(size=(n, d)) * 10 ** rng.uniform(-1, 1, d)
    pairs = np.array([rng.choice(n, 2, replace=False) for _ in range(p)])
    if rng.random() < 0.2:
        X = np.round(2 * X / X.std(axis=0))
    similar = rng.random(p) < 0.4
    if rng.random() < 0.5:  # separable, where no two distances are equal
        q = np.sum(((X[pairs[:, 0]] - X[pairs[:, 1]]) @ rng.normal(size=(d, d))) ** 2, axis=1)
        similar = q < np.quantile(q, 0.4)
    weight = float(10 ** rng.uniform(-2, 2)) if rng.random() < 0.4 else None
    return sm.POLAProblem(X, pairs, similar, weight, float(rng.choice([1.0, 3.0])))


def check_sandwich(problem: sm.POLAProblem) -> None:
    solutions = {name: sm.solve(problem, solver=name, tol=tol) for name, tol in PROMISES.items()}
    (status,) = {solution.status for solution in solutions.values()}
    for name, solution in solutions.items():
        assert status in (sm.Status.OPTIMAL, sm.Status.INFEASIBLE), f"{name}: {solution}"
        if status is sm.Status.INFEASIBLE:
            assert problem.slack_weight is None
            assert_contradiction(problem, solution)
            continue
        assert solution.certificate.proves_optimal(PROMISES[name])
        for rival in solutions.values():
            assert solution.lower_bound <= rival.objective + rounding(rival.objective), sm.compare(solution, rival)


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


@pytest.mark.parametrize("seed", range(8))
def test_sandwich(seed: int) -> None:
    check_sandwich(random_pola(seed))


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
        assert sm.solve(problem, solver, max_time=1).status is not sm.Status.INFEASIBLE


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
