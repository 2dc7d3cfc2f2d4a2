"""When a gap counts as closed, and directions in which the data vary at (nearly) no pull cost."""

import math
from dataclasses import replace

import flint
import numpy as np
import oracles
import pytest
import scipy.sparse as sp
from instances import assert_same
from sklearn.datasets import load_iris

import sdpmetric as sm
from sdpmetric import terms
from sdpmetric.core.certificate import Dual
from sdpmetric.core.triplets import Triplets
from sdpmetric.linalg.exact import are_independent, separated
from sdpmetric.lmnn.problem import LMNNProblem


def made(objective, lower_bound, **options):
    return sm.DualityCertificate(objective=objective, lower_bound=lower_bound, program="p", **options)


def pairs_of(rng, m, n):
    return np.argsort(rng.random((m, n)), axis=1)[:, :2]


def test_a_resolution_closes_a_gap_and_the_text_says_so():
    assert not made(0.0, -4.6e-25).proves_optimal(1e-3)
    assert made(0.0, -4.6e-25, resolution=1e-15).proves_optimal(1e-3)
    assert not made(0.0, -4.6e-25, resolution=1e-30).proves_optimal(1e-3)
    assert not made(1.0, -math.inf, resolution=math.inf).proves_optimal(1e-3)
    certificate = made(0.0, -4.6e-25, resolution=1e-15)
    assert certificate.proves_optimal(1e-3)
    assert "gap 4.60e-25, below the resolution 1.00e-15 of this statement" in str(certificate)
    assert "resolution" not in str(made(2.0, 1.0, resolution=1e-15))


@pytest.mark.parametrize("factor", [1e-20, 1.0, 1e20])
def test_a_factor_of_a_sum_makes_nothing_optimal(factor):
    X, y = load_iris(return_X_y=True)
    problem = sm.MetricProblem(X, factor * (terms.Pull(labels=y) + terms.TripletHinge(labels=y)))
    assert not sm.certify(problem, metric=30 * np.eye(4)).proves_optimal(0.5)
    assert sm.solve(problem).status.ok


def test_a_fit_is_not_optimal_beside_large_targets(rng):
    X, pairs = rng.normal(size=(30, 2)), pairs_of(rng, 200, 30)
    targets = 1e8 * np.sum((X[pairs[:, 0]] - X[pairs[:, 1]]) ** 2, axis=1)
    problem = sm.MetricProblem(X, terms.DistanceTargets(pairs, targets) + 1e-15 * terms.Trace())
    certificate = sm.certify(problem, metric=1e8 * (1 - 1e-7) * np.eye(2))
    assert certificate.objective > 1e3
    assert not certificate.proves_optimal(0.5)
    problem_without_trace = sm.MetricProblem(
        X, terms.DistanceTargets(pairs, targets)
    )  # nothing says that it falls to 0
    assert sm.certify(problem_without_trace, metric=np.eye(2)).resolution == 0.0


LINE = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [2.0, 1.0]])
SMALL_MARGINS = {
    "hinge": terms.TripletHinge([[0, 1, 2]], margin=1e-12),
    "squared hinge": terms.TripletHinge([[0, 1, 2]], margin=1e-9, loss="squared_hinge"),
    "beside a heavy pull": terms.TripletHinge([[0, 1, 2]], margin=1e-12) + 1e9 * terms.Pull([[0, 1]]),
    "quadruplets": terms.QuadrupletHinge([[0, 1, 0, 2]], margin=1e-9, loss="squared_hinge"),
    "bounds": terms.DistanceBounds([[0, 1]], at_most=1e-13, loss="hinge")
    + terms.DistanceBounds([[0, 2]], at_least=1e-12, loss="hinge"),
    "pairs": terms.PairHinge([[0, 1], [0, 2]], [True, False], threshold=3e-12, margin=1e-12),
    "frobenius": terms.Frobenius(to=1e-9 * np.eye(2)),
}


@pytest.mark.parametrize("name", SMALL_MARGINS)
def test_the_resolution_is_of_what_a_constraint_costs(name):
    """Where every margin is missed, no metric is optimal while another one costs nothing."""
    problem = sm.MetricProblem(LINE, SMALL_MARGINS[name])
    optimum = math.sqrt(1e-9) * np.eye(2) if name == "frobenius" else np.diag([1e-4, 0.0])
    at_zero, at_optimum = sm.certify(problem, np.zeros((0, 2))), sm.certify(problem, optimum)
    assert at_optimum.objective < 1e-6 * at_zero.objective
    assert not at_zero.proves_optimal(0.5)
    assert at_optimum.proves_optimal(1e-3)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_a_statement_without_a_scale_has_no_resolution(scale):
    problem = sm.MetricProblem(scale * LINE, terms.Pull([[0, 1]]) + terms.TripletHinge([[0, 1, 2]], margin=0.0))
    assert not sm.certify(problem, np.eye(2)).proves_optimal(0.5)
    assert sm.certify(problem, np.zeros((0, 2))).proves_optimal(1e-9)
    bounded = problem.terms[0] + terms.Budget([[0, 1], [0, 2]], 1e-12 * scale**2) + terms.Trace()
    assert not sm.certify(sm.MetricProblem(scale * LINE, bounded), 1e-7 * np.eye(2)).proves_optimal(0.5)


@pytest.mark.parametrize("solver", ["factored", "conic"])
@pytest.mark.parametrize("factor", [1e-20, 1.0])
def test_an_optimum_of_0_at_the_zero_metric_is_proven(solver, factor):
    for seed in (0, 1, 4):  # Clarabel ends at 1e-11 for the second
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(30, 3))
        total = 10 ** rng.uniform(-1, 1) * terms.Trace() + terms.Pull(pairs_of(rng, 40, 30))
        total += terms.Budget(pairs_of(rng, 20, 30)) + terms.Frobenius() + 0.1 * terms.Repulsion(pairs_of(rng, 20, 30))
        problem = sm.MetricProblem(X, factor * total)
        solution = sm.solve(problem, solver=solver)
        assert solution.status.ok, solution
        assert solution.certificate.resolution <= 1e-9 * factor
        assert sm.certify(problem, metric=1e-3 * np.eye(3)).gap > solution.certificate.resolution


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_null_directions_that_separate_all_classes_prove_an_infimum_of_0(rng, loss):
    y = np.repeat([0, 1, 2], [4, 6, 5])
    split = np.column_stack([rng.normal(size=(15, 2)), [0.0, 1e-3, 5.0] @ np.eye(3)[y].T])
    spread = np.column_stack([split[:, 0], split[:, 1] + split[:, 2], 3 * split[:, 2]])  # a sum of features is null
    for X in (split, np.round(spread * 2**20), rng.normal(size=(15, 40)), rng.normal(size=(15, 300))):
        problem = sm.LMNNProblem.from_labels(X, y, 1, 0.3, loss=loss)
        solution = sm.solve(problem)
        assert solution.status.ok, solution
        assert 0.0 < solution.certificate.resolution <= 1e-9
    several = sm.solve(sm.MultiMetricLMNNProblem.from_labels(split, y, 1, 0.3))
    assert several.status.ok
    assert several.certificate.resolution > 0.0
    together = sm.MetricProblem(
        split, terms.Pull(labels=y, n_neighbors=3) + terms.TripletHinge(labels=y, n_neighbors=1, loss=loss)
    )
    assert sm.solve(together).status.ok


def test_without_such_directions_there_is_no_resolution(rng):
    y = np.repeat([0, 1, 2], [4, 6, 5])
    X = np.column_stack([rng.normal(size=(15, 2)), np.array([0.5, 0.5, 0.9])[y]])  # classes 0 and 1 are not apart
    noisy = np.column_stack([rng.normal(size=(15, 2)), y + 1e-12 * rng.normal(size=15)])  # hardly any pull is some
    for data, ridge in ((X, 0.0), (noisy, 0.0), (np.column_stack([X[:, :2], y]), 0.1)):
        problem = sm.LMNNProblem.from_labels(data, y, 1, 0.3, ridge=ridge)
        assert sm.certify(problem, metric=1e6 * np.eye(3)).resolution == 0.0
        assert sm.solve(problem, max_time=0.3).certificate.resolution == 0.0


@pytest.mark.parametrize("regularizer", [terms.LogDet, terms.Frobenius])
def test_the_target_of_the_only_regularizer_may_cost_nothing(rng, regularizer):
    X, A, pairs = rng.normal(size=(30, 3)), rng.normal(size=(3, 3)), pairs_of(rng, 20, 30)
    M0 = A @ A.T + np.eye(3)
    D = np.einsum("pi,ij,pj->p", X[pairs[:, 0]] - X[pairs[:, 1]], M0, X[pairs[:, 0]] - X[pairs[:, 1]])
    for share, free in ((2.0, True), (0.9, False)):
        problem = sm.MetricProblem(X, regularizer(to=M0) + terms.DistanceBounds(pairs, at_most=share * D, loss="hinge"))
        assert (sm.certify(problem, metric=M0).resolution > 0.0) is free
        assert sm.solve(problem).status.ok or not free


def test_separated_groups_are_those_of_exact_ranks():
    def rank(rows):
        return flint.fmpz_mat(rows.astype(int).tolist()).rank() if len(rows) else 0

    for seed in range(20):
        rng = np.random.default_rng(seed)
        n, d = 7, int(rng.integers(1, 9))
        X, pairs = rng.integers(-2, 3, size=(n, d)).astype(float), pairs_of(rng, 4, n)
        rows, groups = X[pairs[:, 0]] - X[pairs[:, 1]], separated(X, pairs[:, 0], pairs[:, 1])
        for a in range(n):
            for b in range(a):
                raises_the_rank = rank(np.vstack([rows, X[a] - X[b]])) > rank(rows)
                assert (groups[a] != groups[b]) == raises_the_rank
        assert not are_independent(X) or rank(X[1:] - X[0]) == n - 1


def test_compare_allows_no_absolute_slack():
    X, y = load_iris(return_X_y=True)
    solution = sm.solve(sm.LMNNProblem.from_labels(X, y))
    low, high = (replace(solution, certificate=made(1e-9, bound)) for bound in (0.0, 1.5e-9))
    assert sm.compare(low).consistent
    assert sm.compare(low, high).verdict.startswith("Contradiction")
    assert not sm.compare(low, high).consistent
    with pytest.raises(ValueError, match="at least one"):
        sm.compare()


def test_two_null_groups_as_near_as_rounding_are_still_separate(rng):
    """A difference of 1e-8 without pull is a difference; an equal value after another computation is none."""
    y = np.repeat([0, 1, 2], [5, 6, 7])
    X = rng.normal(size=(18, 2))
    for values, null_groups in (([1.0, 1.0 + 1e-8, 4.0], 3), ([0.3, 0.1 + 0.2, 4.0], 2)):
        problem = LMNNProblem.from_labels(np.column_stack([X, np.array(values)[y]]), y, 2, 0.3)
        assert problem.null_groups.max() + 1 == null_groups


def test_many_null_directions_keep_equal_rows_in_one_group(rng):
    """Regression: expanded squared distances told equal rows apart in 16 and more dimensions."""
    prototypes = 50 * rng.normal(size=(20, 18))
    group = np.arange(60) % 20
    y = (np.arange(60) // 20) % 2
    X = np.column_stack([rng.normal(size=60), prototypes[group]])
    graph = sp.csr_array((y[:, None] == y) & (group[:, None] == group) & ~np.eye(60, dtype=bool))
    problem = LMNNProblem.from_labels(X, y, push_weight=0.3, target_neighbors=graph)
    assert problem.coordinates.null.shape[1] == 18
    assert problem.null_groups.max() + 1 == 20


def test_examples_far_apart_do_not_blur_what_is_near(rng):
    """Pairs and multipliers stay within two groups: how far apart the groups are must not enter the bound."""
    y, group = np.arange(24) % 2, np.arange(24) // 12
    X = np.round(rng.normal(size=(24, 3)) * 2**20) / 2**20  # adding a power of two is exact
    graph = sp.csr_array(
        (y[:, None] == y) & (group[:, None] == group) & (rng.random((24, 24)) < 0.3) & ~np.eye(24, dtype=bool)
    )
    targets = [graph[[i]].nonzero()[1] for i in range(24)]
    rows = np.array([t for t in oracles.all_triplets(targets, y) if group[t[0]] == group[t[2]]])
    dual = Dual(Triplets.from_array(rows), 0.3 * rng.random(len(rows)))
    bounds = []
    for distance in (0.0, 2.0**25):
        far = X + np.outer(group, [0.0, 0.0, distance])
        bounds.append(
            LMNNProblem.from_labels(far, y, push_weight=0.3, target_neighbors=graph).certify(np.eye(3), dual=dual)
        )
    assert bounds[0].lower_bound > 1.0
    assert_same(bounds[1].lower_bound, bounds[0].lower_bound)


STAMPS = np.array([[1e15, 0.0], [1e15 + 8.0, 0.0], [1e15, 1.0], [1e15 + 4.0, 2.0]])
BESIDE_OFFSETS = {
    "comparisons": lambda X, y: sm.MetricProblem(STAMPS, terms.TripletHinge([[0, 2, 1]]) + terms.Trace(weight=0.1)),
    "diagonal": lambda X, y: sm.MetricProblem(
        STAMPS, terms.TripletHinge([[0, 2, 1]]) + terms.Trace(weight=0.1), diagonal=True
    ),
    "lmnn": sm.LMNNProblem.from_labels,
}


@pytest.mark.parametrize("name", BESIDE_OFFSETS)
def test_a_feature_beside_a_large_offset_is_learned_and_proven(name, rng):
    """Time stamps and identifiers: the optimum is that of the same feature without its offset."""
    y = np.repeat([0, 1, 2], 12)
    numbers = rng.integers(0, 5, size=36) + y
    X = np.round(rng.normal(size=(36, 2)), 2)
    offset_problem, centered = (
        BESIDE_OFFSETS[name](np.column_stack([X, offset + numbers]), y) for offset in (1e15, 0.0)
    )
    solution = sm.solve(offset_problem, tol=1e-3)
    assert solution.status is sm.Status.OPTIMAL
    if len(offset_problem.X) == len(STAMPS):
        assert solution.objective <= 0.003125 * 1.001  # at diag(1/32, 0)
    else:
        assert solution.lower_bound <= sm.solve(centered, tol=1e-3).objective
        assert centered.certify(solution.components).objective == pytest.approx(solution.objective, rel=1e-9)
