"""The factored solver: proofs at known optima, refinement, warm starts, bounded rank, limits."""

from __future__ import annotations

import numpy as np
import pytest
from instances import rounding
from sklearn.datasets import load_digits, load_iris, load_wine, make_blobs
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

import sdpmetric as sm
from sdpmetric import terms
from sdpmetric.engine import threads
from sdpmetric.linalg import psd
from sdpmetric.solvers.lmnn import factored
from sdpmetric.solvers.lmnn.refinement import prove, refined_dual
from sdpmetric.solvers.lmnn.working_set import WorkingSet
from sdpmetric.triplets import neighbors
from sdpmetric.triplets.sources import LabeledTriplets

KNOWN = {("iris", 0.5): 234.33451, ("iris", 0.3): 201.99893, ("wine", 0.5): 208.91116, ("wine", 0.3): 217.49151}


def standardised(name: str, push_weight: float, scale: float = 1.0) -> sm.LMNNProblem:
    X, y = (load_iris if name == "iris" else load_wine)(return_X_y=True)
    return sm.LMNNProblem.from_labels(scale * StandardScaler().fit_transform(X), y, 3, push_weight)


def blobs(seed: int = 0, n: int = 90, d: int = 6, push_weight: float = 0.3) -> sm.LMNNProblem:
    rng = np.random.default_rng(seed)
    y = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    X = rng.normal(size=(n, d)) + np.outer(y, np.linspace(0, 1, d))
    return sm.LMNNProblem.from_labels(X, y, 2, push_weight)


@pytest.mark.parametrize(("name", "push_weight"), KNOWN)
def test_tight_gaps_at_known_optima(name: str, push_weight: float) -> None:
    solution = sm.solve(standardised(name, push_weight), tol=1e-6)
    assert solution.status is sm.Status.OPTIMAL
    assert solution.relative_gap <= 1e-6
    assert solution.lower_bound <= KNOWN[name, push_weight] * (1 + 1e-7)
    assert solution.objective >= KNOWN[name, push_weight] * (1 - 1e-7)


@pytest.mark.parametrize("scale", [1e-4, 1e-2, 1e2, 1e4])
def test_the_scale_of_the_data_does_not_matter(scale: float) -> None:
    plain, scaled = (sm.solve(standardised("wine", 0.3, s), tol=1e-3) for s in (1.0, scale))
    assert scaled.status is sm.Status.OPTIMAL
    assert abs(scaled.objective - plain.objective) <= 2e-3 * plain.objective


@pytest.mark.parametrize("several", [False, True])
def test_gradient_is_that_of_the_smoothed_objective(several: bool) -> None:
    X, y = load_wine(return_X_y=True)
    several_metrics = sm.MultiMetricLMNNProblem.from_labels(StandardScaler().fit_transform(X), y, 3, 0.3)
    problem, rng = several_metrics if several else blobs(), np.random.default_rng(1)
    working = WorkingSet(problem, np.arange(len(problem.X), dtype=np.int32))
    L = rng.normal(size=(problem.n_regions, 3, problem.points.shape[1])) * (1 if several else 3)
    working.search(L, 1.0)
    direction = rng.normal(size=L.shape)
    for gamma in (1.0, 0.05):
        gradient = working.value(L, gamma).gradient
        ahead, behind = (working.value(L + h * direction, gamma).smoothed for h in (1e-6, -1e-6))
        assert (ahead - behind) / 2e-6 == pytest.approx(np.sum(gradient * direction), rel=1e-5)
    assert working.value(L, 0.05).objective == pytest.approx(problem.objective(problem.lift(L)), rel=1e-12)


def test_refinement_tightens_the_bound_and_stays_valid() -> None:
    problem = blobs()
    loose = sm.solve(problem, tol=3e-2)
    tight = sm.solve(problem, tol=1e-5)
    working = WorkingSet(problem, np.arange(90, dtype=np.int32))
    L = problem.pull_cost.whitened(loose.components)[None]
    working.search(L, 0.2)
    plain, refined = prove(working, L, 0.01, rounds=0), prove(working, L, 0.01)
    assert plain.value <= refined.value <= tight.objective + rounding(tight.objective)
    judged = problem.certify(loose.components, dual=working.dual(refined.multipliers)())
    assert judged.lower_bound == pytest.approx(refined.value, rel=1e-9)


def test_refined_dual_repairs_what_was_disturbed() -> None:
    problem = standardised("wine", 0.3)
    exact = sm.solve(problem, solver="conic")
    rng = np.random.default_rng(0)
    disturbed = sm.Dual(
        exact.dual.triplets, np.clip(exact.dual.values * rng.uniform(0.99, 1.01, len(exact.dual)), 0, 0.3)
    )
    L = problem.whitened(exact.components)
    before = problem.certify(exact.components, dual=disturbed)
    after = problem.certify(exact.components, dual=refined_dual(problem, L, disturbed))
    assert after.relative_gap < 0.5 * before.relative_gap
    assert after.lower_bound <= exact.objective + rounding(exact.objective)


def test_same_seed_same_result_and_another_seed_the_same_proof() -> None:
    problem = blobs(n=300)
    first, second, third = (sm.solve(problem, random_state=seed) for seed in (1, 1, 2))
    assert np.array_equal(first.components, second.components)
    assert abs(third.objective - first.objective) <= 2e-3 * first.objective


def test_warm_start_is_faster_and_a_bad_start_does_no_harm() -> None:
    problem = blobs(n=200)
    cold = sm.solve(problem, tol=1e-4)
    warm = sm.solve(problem, tol=1e-4, init=cold.components)
    assert warm.status is sm.Status.OPTIMAL
    assert warm.n_iter < cold.n_iter
    bad = sm.solve(problem, tol=1e-4, init=1e6 * np.eye(1, 6))
    assert bad.status is sm.Status.OPTIMAL


@pytest.mark.parametrize("name", ["push_weight", "ridge"])
def test_path(name: str) -> None:
    values = (0.2, 0.3, 0.5)
    solutions = sm.path(blobs(), **{name: values}, tol=1e-3)
    assert [getattr(s.problem, name) for s in solutions] == list(values)
    for solution in solutions:
        fresh = sm.solve(solution.problem, solver="conic")
        assert solution.status is sm.Status.OPTIMAL
        assert solution.lower_bound <= fresh.objective + rounding(fresh.objective)
        assert fresh.lower_bound <= solution.objective + rounding(solution.objective)
    with pytest.raises(ValueError, match="exactly one"):
        sm.path(blobs())


def test_bounded_rank_has_a_relaxation_gap() -> None:
    problem = blobs(n=150)
    full = sm.solve(problem, tol=1e-4)
    low = sm.solve(problem, n_components=2, tol=1e-4)
    truncated = problem.objective(psd.factor(full.metric)[:2])
    assert low.components.shape == (2, 6)
    assert low.certificate.kind == "relaxation"
    assert low.status is sm.Status.STATIONARY
    assert full.lower_bound <= low.objective <= truncated
    assert not low.certificate.proves_optimal(1e-4)


def test_bounded_rank_goes_on_from_a_full_solution_that_is_handed_in() -> None:
    problem = blobs(n=150)
    full = sm.solve(problem, tol=1e-4)
    low = sm.solve(problem, n_components=2, tol=1e-4)
    for stated in (problem, blobs(n=150)):  # the same data and parameters
        handed = sm.solve(stated, n_components=2, full=full, tol=1e-4)
        assert handed.objective == pytest.approx(low.objective, rel=1e-9)
        assert handed.lower_bound == pytest.approx(full.lower_bound, rel=1e-9)
        assert handed.certificate.kind == "relaxation"
        assert handed.n_iter == low.n_iter - full.n_iter
    assert sm.solve(problem, n_components=6, full=full) is full  # it has no more rows than that
    for wrong, options, words in (
        (full, {}, "full= is for a solve with n_components="),
        (full, {"n_components": 2, "init": full.components}, "leave it or init= out"),
        (sm.Solution(full.components, full.certificate, full.status, "factored"), {"n_components": 2}, "this very"),
        (sm.solve(problem, n_components=3, full=full), {"n_components": 2}, "no bound on the rank"),
    ):
        with pytest.raises(ValueError, match=words):
            sm.solve(problem, full=wrong, **options)
    with pytest.raises(ValueError, match="the same data and parameters"):
        sm.solve(problem.with_weights(push_weight=0.2), n_components=2, full=full)


def test_bounded_rank_is_refused_where_it_has_no_meaning() -> None:
    with pytest.raises(ValueError, match="n_components must be an integer between 1 and 6"):
        sm.solve(blobs(), n_components=7)
    with pytest.raises(ValueError, match="n_components"):
        sm.solve(blobs(), solver="conic", n_components=2)
    rng = np.random.default_rng(0)
    wide = sm.LMNNProblem.from_labels(rng.normal(size=(10, 30)), np.repeat([0, 1], 5), 1)
    with pytest.raises(ValueError, match="no pull cost"):
        sm.solve(wide, n_components=2)


def test_every_iteration_limit_gives_a_certified_point() -> None:
    problem = standardised("wine", 0.3)
    for max_iter in (1, 20, 60):
        solution = sm.solve(problem, max_iter=max_iter, tol=1e-9)
        assert solution.status is sm.Status.USER_LIMIT
        assert solution.n_iter <= max_iter
        assert solution.objective == pytest.approx(problem.objective(solution.components), rel=1e-12)
        assert 0 <= solution.lower_bound <= KNOWN["wine", 0.3] * (1 + 1e-7)
    assert solution.relative_gap < 0.9


def test_no_impostors_within_reach_is_the_zero_metric() -> None:
    X = np.array([[0.0], [0.1], [10.0], [10.1]])
    problem = sm.LMNNProblem(
        X, LabeledTriplets(np.array([[1], [0], [3], [2]], np.int32), np.array([0, 0, 1, 1], np.int32))
    )
    solution = sm.solve(problem, tol=1e-6)
    assert solution.status is sm.Status.OPTIMAL
    # One number m: pull 4 * 0.5 * 0.01 m, and the nearest impostors, 9.9 away, keep their margin at m = 1 / 98.
    assert solution.objective == pytest.approx(4 * 0.5 * 0.01 / (9.9**2 - 0.01), rel=1e-5)


def test_identical_classes_are_proven_to_be_hopeless() -> None:
    X = np.zeros((8, 3))
    problem = sm.LMNNProblem.from_labels(X, np.repeat([0, 1], 4), 2, 0.3)
    solution = sm.solve(problem)
    assert solution.status is sm.Status.OPTIMAL
    assert solution.objective == pytest.approx(0.3 * 8 * 2 * 4)


@pytest.mark.parametrize("case", ["many classes", "one large class", "wide"])
def test_hard_cases_end_with_a_proof(case: str) -> None:
    rng = np.random.default_rng(5)
    if case == "many classes":
        y = np.repeat(np.arange(100), 3)
        X = rng.normal(size=(300, 5)) + rng.normal(size=(100, 5))[y]
    elif case == "one large class":
        y = np.repeat([0, 1], [400, 4])
        X = rng.normal(size=(404, 4)) + 0.5 * y[:, None]
    else:
        y = np.repeat([0, 1], [12, 8])
        X = rng.normal(size=(20, 50))
    solution = sm.solve(sm.LMNNProblem.from_labels(X, y, 2, 0.3), tol=1e-3)
    assert solution.status is sm.Status.OPTIMAL


@pytest.mark.parametrize("rank", [1, 2])
def test_bounded_rank_begins_at_the_leading_eigenvectors_and_only_improves(rank):
    X, y = load_wine(return_X_y=True)
    problem = sm.LMNNProblem.from_labels(StandardScaler().fit_transform(X), y, 3, push_weight=0.3)
    full = sm.solve(problem)
    low = sm.solve(problem, n_components=rank)
    cut = full.leading(rank)
    assert cut.shape == (rank, X.shape[1])
    values = np.linalg.eigvalsh(full.metric)[::-1][:rank]
    assert np.allclose(np.linalg.eigvalsh(cut @ cut.T)[::-1], values)
    assert low.objective < problem.objective(cut)
    assert (np.diff(low.trace["objective"]) <= 1e-6 * low.objective).all()
    assert low.lower_bound <= full.objective
    with pytest.raises(ValueError, match="n_components must be between 1 and 13"):
        full.leading(14)


def test_work_in_parts_gives_the_same_value_to_rounding(monkeypatch) -> None:
    problem = blobs(n=400, d=5)
    L = np.random.default_rng(0).normal(size=(1, 3, problem.coordinates.rank)) * 3
    values = []
    for work in (10**12, 1):
        monkeypatch.setattr(threads, "LOOP_WORK", work)
        monkeypatch.setattr(threads, "PRODUCT_WORK", work)
        working = WorkingSet(problem, np.arange(400, dtype=np.int32))
        working.search(L, 0.5)
        values.append((working.value(L, 0.1), prove(working, L, 0.1).value, working.size))
    (one, bound, found), (many, same_bound, same_found) = values
    assert same_found == found
    assert many.smoothed == pytest.approx(one.smoothed, rel=1e-12)
    assert np.abs(many.gradient - one.gradient).max() <= 1e-10 * np.abs(one.gradient).max()
    assert same_bound == pytest.approx(bound, rel=1e-8)


@pytest.mark.parametrize("limit", [{"max_time": 0.05}, {"max_iter": 40}])
def test_limits_at_scale_return_a_certified_point(limit: dict) -> None:
    solution = sm.solve(blobs(n=3000, d=12), tol=1e-6, **limit)
    assert solution.status is sm.Status.USER_LIMIT
    assert 0.0 <= solution.lower_bound < solution.objective < np.inf


def test_interruption_returns_a_certified_point(monkeypatch) -> None:
    problem = blobs(n=600)
    real, calls = WorkingSet.value, []

    def value(self, L, gamma):
        calls.append(gamma)
        if len(calls) == 150:
            raise KeyboardInterrupt
        return real(self, L, gamma)

    monkeypatch.setattr(WorkingSet, "value", value)
    solution = sm.solve(problem, tol=1e-7)
    assert solution.status is sm.Status.INTERRUPTED
    assert 0.0 <= solution.lower_bound < solution.objective < np.inf


def test_mixed_units() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(24, 3)) * [1e-6, 1.0, 1e6]
    solution = sm.solve(sm.LMNNProblem.from_labels(X, np.arange(24) % 2))
    assert solution.status is sm.Status.OPTIMAL


def test_a_warm_start_that_loses_sight_of_all_impostors_does_not_end_at_zero():
    # The third pass over these rows once descended to the zero metric, where no candidate was left to hold it off.
    X, y = load_iris(return_X_y=True)
    X, _, y, _ = train_test_split(X, y, test_size=0.3, random_state=52)
    fit, _ = train_test_split(np.arange(len(y)), test_size=0.3, random_state=52, stratify=y)
    X, y = X[np.sort(fit)], y[np.sort(fit)]
    solution = sm.solve(sm.LMNNProblem.from_labels(X, y, 3))
    for _ in range(2):
        targets = neighbors.target_neighbors(X @ solution.components.T, y, 3)
        problem = sm.LMNNProblem.from_labels(X, y, 3, target_neighbors=targets)
        solution = sm.solve(problem, init=solution.components)
        assert solution.status is sm.Status.OPTIMAL


def test_a_factor_that_fell_to_nearly_zero_is_taken_up_again() -> None:
    # Two tight classes: the first candidates are soon out of sight, and then the trace alone is minimized.
    X, y = make_blobs(30, centers=[[0, 0, 0], [1, 1, 1]], random_state=0, cluster_std=0.1)
    for offset in (0.0, 0.1, 0.2):
        solution = sm.solve(sm.KernelLMNNProblem.from_labels(X + offset, y, ridge=0.1), tol=1e-3)
        assert solution.status is sm.Status.OPTIMAL
        assert solution.objective < 1.0


def test_leading_principal_components_of_the_transformed_inputs():
    """LMNN-S of section 5.4: the two readings agree where the inputs are whitened, and nowhere else."""
    X, y = load_wine(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    solution = sm.solve(sm.LMNNProblem.from_labels(X, y))
    cut = solution.leading(2, X)
    Z = PCA(2).fit_transform(X @ solution.components.T)
    np.testing.assert_allclose(np.abs((X - X.mean(axis=0)) @ cut.T), np.abs(Z), atol=1e-8)
    assert not np.allclose(cut.T @ cut, solution.leading(2).T @ solution.leading(2), atol=1e-3)
    values, vectors = np.linalg.eigh(np.cov(X.T, ddof=0))
    white = X @ (vectors / np.sqrt(values))
    solution = sm.solve(sm.LMNNProblem.from_labels(white, y))
    first, second = solution.leading(2), solution.leading(2, white)
    np.testing.assert_allclose(first.T @ first, second.T @ second, atol=1e-8)


@pytest.mark.parametrize("several", [False, True])
def test_directions_that_the_start_lacks_are_found(several, monkeypatch):
    monkeypatch.setattr(factored, "LEADING", 2)
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(4), 60)
    X = np.column_stack([0.5 * rng.normal(size=(240, 8)) + 0.8 * rng.normal(size=(4, 8))[y], rng.normal(size=(240, 4))])
    statement = sm.MultiMetricLMNNProblem if several else sm.LMNNProblem
    solution = sm.solve(statement.from_labels(X, y), solver="factored", tol=1e-3)
    assert solution.relative_gap <= 1e-3
    assert np.linalg.matrix_rank(solution.components, tol=1e-3).max() > 2


@pytest.mark.parametrize("scale", [1.0, 0.05, 1e-3])
@pytest.mark.parametrize("weight", [1e-3, 1.0])
def test_sums_near_a_metric_start_at_a_useful_scale(scale, weight):
    X, y = load_digits(return_X_y=True)
    X, y = scale * X[:60, :32], y[:60]
    total = terms.Collapse(y, weight=1 / 60) + weight * terms.Frobenius(to=np.eye(32))
    assert sm.solve(sm.MetricProblem(X, total), "factored", tol=1e-3).relative_gap <= 1e-3
