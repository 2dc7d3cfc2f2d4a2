"""Multi-metric LMNN: the statement against loops, identities with the single metric, certificates, and the sandwich."""

from __future__ import annotations

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from instances import rounding
from seeds import blocks
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris, load_wine
from sklearn.preprocessing import StandardScaler

import sdpmetric as sm
from sdpmetric import classification, datasets
from sdpmetric.solvers.lmnn.working_set import Shard, WorkingSet

PROMISES = {"conic": 1e-6, "factored": 1e-3, "subgradient": 1e-2}


def random_problem(seed: int) -> sm.MultiMetricLMNNProblem:
    """Small, unequal classes, regions by class, by clusters or at random; one or three dimensions; both losses."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(5, 11, size=int(rng.integers(2, 4)))
    y = np.repeat(np.arange(len(sizes)), sizes)[rng.permutation(sizes.sum())]
    d = int(rng.choice([1, 2, 3]))
    X = (rng.normal(size=(len(y), d)) + rng.uniform(0, 1.5) * y[:, None]) * 10 ** rng.uniform(-1, 1)
    if rng.random() < 0.2:
        X[rng.integers(0, len(y), 3)] = X[0]
    k, kind = int(rng.integers(1, 3)), int(rng.integers(0, 3))
    regions = (y, KMeans(2, random_state=0).fit_predict(X), np.arange(len(y)) % 2)[kind]
    if np.bincount(regions).min() <= k:  # an outlier has become a cluster of its own
        regions = y
    return sm.MultiMetricLMNNProblem.from_labels(
        X,
        y,
        n_neighbors=k,
        push_weight=float(rng.uniform(0.1, 0.9)),
        regions=regions,
        ridge=float(rng.choice([0.0, 0.05])) + (0.01 if kind == 1 else 0.0),
        loss=str(rng.choice(["hinge", "hinge", "squared_hinge"])),
    )


def wine(mu: float = 0.3, **options) -> sm.MultiMetricLMNNProblem:
    X, y = load_wine(return_X_y=True)
    return sm.MultiMetricLMNNProblem.from_labels(StandardScaler().fit_transform(X), y, 3, mu, **options)


def loop_objective(problem: sm.MultiMetricLMNNProblem, metrics: np.ndarray) -> float:
    """Eq. 16, triplet by triplet."""
    X, mu, r = np.asarray(problem.X, float), problem.push_weight, problem.regions
    labels, total = problem.source.labels, problem.ridge * sum(np.trace(M) for M in metrics)
    for i, row in enumerate(problem.source.targets):
        for j in row[row >= 0]:
            near = (X[i] - X[j]) @ metrics[r[j]] @ (X[i] - X[j])
            total += (1 - mu) * near
            for l in np.flatnonzero(labels != labels[i]):
                u = max(0.0, 1 + near - (X[i] - X[l]) @ metrics[r[l]] @ (X[i] - X[l]))
                total += mu * (u * u if problem.squared else u)
    return total


def random_components(problem: sm.MultiMetricLMNNProblem, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    d = problem.X.shape[1]
    return rng.normal(size=(problem.n_regions, int(rng.integers(1, d + 1)), d)) * 10 ** rng.uniform(-1, 1)


@given(st.integers(0, 10_000))
def test_objective_is_that_of_the_loops_and_no_certificate_passes_another_point(seed: int) -> None:
    problem = random_problem(seed)
    L, other = random_components(problem, seed), random_components(problem, seed + 1)
    expected = loop_objective(problem, np.swapaxes(L, 1, 2) @ L)
    certificate = problem.certify(L)
    assert problem.objective(L) == pytest.approx(expected, rel=1e-9)
    assert certificate.objective == pytest.approx(expected, rel=1e-9)
    assert problem.objective(metric=np.swapaxes(L, 1, 2) @ L) == pytest.approx(expected, rel=1e-6)
    assert certificate.lower_bound <= problem.objective(other) + rounding(problem.objective(other))
    rng = np.random.default_rng(seed)
    triplets = sm.Triplets.from_array(rng.integers(0, len(problem.X), size=(40, 3)))
    arbitrary = sm.Dual(triplets, rng.normal(size=40))
    assert problem.certify(L, dual=arbitrary).lower_bound <= problem.objective(other) * (1 + 1e-9) + 1e-9


def test_the_loops_notice_the_region_of_the_wrong_end() -> None:
    problem = random_problem(2)
    L = random_components(problem, 2)
    swapped = sm.MultiMetricLMNNProblem(problem.tied, (problem.n_regions - 1 - problem.regions), problem.region_names)
    assert swapped.objective(L) != pytest.approx(loop_objective(problem, np.swapaxes(L, 1, 2) @ L), rel=1e-3)


@pytest.mark.parametrize("seed", range(4))
def test_tied_metrics_cost_what_one_metric_costs(seed: int) -> None:
    problem = random_problem(seed)
    L = random_components(problem, seed)[0]
    tied = np.stack([L] * problem.n_regions)
    ridge = (problem.n_regions - 1) * problem.ridge * np.sum(L**2)
    assert problem.objective(tied) == pytest.approx(problem.tied.objective(L) + ridge, rel=1e-12)


@pytest.mark.parametrize("solver", ["factored", "conic", "subgradient"])
def test_one_region_is_the_single_metric_problem(solver: str) -> None:
    X, y = load_iris(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    one = sm.MultiMetricLMNNProblem.from_labels(X, y, 3, 0.3, regions=np.zeros(len(X)))
    single, several = sm.solve(one.tied, tol=1e-6), sm.solve(one, solver=solver, tol=1e-3)
    assert several.certificate.proves_optimal(1e-3)
    assert single.lower_bound <= several.objective + rounding(several.objective)
    assert several.lower_bound <= single.objective + rounding(single.objective)
    assert several.metrics.shape == (1, 4, 4)


def check_sandwich(problem: sm.MultiMetricLMNNProblem) -> None:
    solutions = {name: sm.solve(problem, solver=name, tol=tol) for name, tol in PROMISES.items()}
    for name, tol in PROMISES.items():
        assert solutions[name].certificate.proves_optimal(tol), f"{name}: {solutions[name]}"
        again = problem.certify(solutions[name].components, dual=solutions[name].dual)
        assert abs(again.objective - solutions[name].objective) <= rounding(again.objective)
    for below in solutions.values():
        for above in solutions.values():
            assert below.lower_bound <= above.objective + rounding(above.objective), sm.compare(below, above)


@pytest.mark.parametrize("seed", range(3))
def test_sandwich(seed: int) -> None:
    check_sandwich(random_problem(seed))


@pytest.mark.slow
@pytest.mark.parametrize("seeds", blocks(3, 1000), ids=str)
def test_sandwich_at_length(seeds: range) -> None:
    for seed in seeds:
        check_sandwich(random_problem(seed))


def test_more_metrics_cost_less_and_every_solver_proves_its_part() -> None:
    problem = wine()
    single = sm.solve(problem.tied)
    factored = sm.solve(problem, tol=1e-4)
    for solution in (factored, sm.solve(problem, tol=1e-4, init=factored.components)):
        assert solution.certificate.proves_optimal(1e-4)
    assert factored.objective < 0.7 * single.objective
    assert factored.metrics.shape == (3, 13, 13)
    with pytest.raises(ValueError, match="3 metrics"):
        _ = factored.metric


def test_budget_ends_with_a_certified_point(tmp_path) -> None:
    problem = wine()
    cut = sm.solve(problem, tol=1e-6, max_iter=60)
    assert cut.status is sm.Status.USER_LIMIT
    assert 0 < cut.lower_bound < cut.objective < np.inf
    cut.save(tmp_path / "cut.npz")
    again = sm.Solution.load(tmp_path / "cut.npz", problem)
    assert np.array_equal(again.components, cut.components)


def test_concentric_circles_need_a_metric_for_each() -> None:
    """Weinberger and Saul 2009, Fig. 7: the leave-one-out error falls from about 1 to 0 with the number of metrics."""
    X, y, regions = datasets.concentric_circles()
    errors = []
    for count in (1, 2, 3):
        own = np.minimum(regions, count - 1)
        problem = sm.MultiMetricLMNNProblem.from_labels(X, y, 1, 0.9, regions=own)
        solution = sm.solve(problem)
        predicted = classification.knn_predict(solution.components, X, y, n_neighbors=1, regions=problem.regions)
        errors.append(float(np.mean(predicted != y)))
    assert errors[0] > 0.9
    assert errors[0] > errors[1] > errors[2] == 0.0


def test_asymmetric_neighbors_match_a_loop_and_ties_shrink() -> None:
    rng = np.random.default_rng(0)
    X, Q, L = rng.normal(size=(12, 3)), rng.normal(size=(5, 3)), rng.normal(size=(2, 2, 3))
    regions = rng.integers(0, 2, 12)
    D = np.array([[np.sum((L[regions[l]] @ (q - X[l])) ** 2) for l in range(12)] for q in Q])
    found, rows = classification.nearest_neighbors(L, X, Q, 4, regions=regions)
    assert rows.tolist() == np.argsort(D, axis=1)[:, :4].tolist()
    assert np.allclose(found, np.sort(D, axis=1)[:, :4])
    line = np.array([[0.0], [1.0], [2.0], [3.0]])
    assert classification.knn_predict(np.eye(1), line, ["b", "a", "a", "b"], [[-1.0]], 4).tolist() == ["a"]
    assert classification.knn_predict(np.eye(1), line, ["b", "a", "a", "b"], [[-1.0]], 2).tolist() == ["b"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"regions": "nearest"}, "regions must be 'class', 'kmeans', 'spectral' or an array"),
        ({"regions": np.zeros(3)}, "one region for each of 150"),
        ({"regions": np.r_[np.zeros(148), 1, 1]}, "region 1.0 has 2 members"),
        ({"regions": "kmeans", "n_regions": 0}, "n_regions must be a positive integer and at most 150"),
        ({"n_regions": 3}, "one region for each class"),
    ],
)
def test_bad_regions_are_refused(options: dict, message: str) -> None:
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=message):
        sm.MultiMetricLMNNProblem.from_labels(X, y, 3, **options)


def test_a_region_without_pull_and_bad_points_are_refused() -> None:
    X, y = load_iris(return_X_y=True)
    targets = np.array(oracles.target_neighbors(X, y, 1))
    lonely = np.setdiff1d(np.arange(150), targets.ravel())[:4]
    regions = np.zeros(150)
    regions[lonely] = 1
    with pytest.raises(ValueError, match=r"no member of region 1.0 is a target neighbor"):
        sm.MultiMetricLMNNProblem.from_labels(X, y, 1, regions=regions)
    problem = sm.MultiMetricLMNNProblem.from_labels(X, y, 1, regions=regions, ridge=0.1)
    assert sm.solve(problem, tol=1e-3).certificate.proves_optimal(1e-3)
    with pytest.raises(ValueError, match="one matrix for each of 2 regions"):
        problem.objective(np.eye(4))
    with pytest.raises(ValueError, match="not positive semidefinite"):
        problem.objective(metric=-np.stack([np.eye(4)] * 2))
    with pytest.raises(ValueError, match="a program of one metric"):
        sm.solve(problem, solver="conic", program=sm.to_cvxpy(problem))


def test_clusters_as_regions() -> None:
    X, y = load_iris(return_X_y=True)
    for regions in ("kmeans", "spectral"):
        problem = sm.MultiMetricLMNNProblem.from_labels(
            StandardScaler().fit_transform(X), y, 3, 0.3, regions=regions, n_regions=2
        )
        assert problem.n_regions == 2
        assert sm.solve(problem).certificate.proves_optimal(1e-3)


@pytest.mark.parametrize("solver", ["factored", "subgradient", "conic"])
@pytest.mark.parametrize("limit", [{"max_iter": 1}, {"max_time": 0.01}])
def test_the_smallest_budget_ends_with_a_point(solver: str, limit: dict) -> None:
    solution = sm.solve(wine(), solver=solver, tol=1e-15, **limit)
    assert solution.status is sm.Status.USER_LIMIT
    assert solution.metrics.shape == (3, 13, 13)
    assert sm.certify(solution.problem, metric=solution.metrics).objective < np.inf


@pytest.mark.parametrize("regions", [np.where(np.arange(12) < 4, 0.5, 1.0), np.full(12, np.nan), np.full(12, 2)])
def test_regions_of_neighbors_are_integers_in_range(regions: np.ndarray) -> None:
    X = np.random.default_rng(0).normal(size=(12, 3))
    with pytest.raises(ValueError, match="regions must be 12 integers from 0 to 1"):
        classification.nearest_neighbors(np.ones((2, 1, 3)), X, X[:2], regions=regions)


@pytest.mark.parametrize(
    ("regions", "words"),
    [
        (np.where(np.arange(30) % 2, np.nan, 1.0), "regions contains NaN"),
        (np.array([None, "a"] * 15, dtype=object), "regions contains missing labels"),
        (np.array([1, "a"] * 15, dtype=object), "regions mixes labels that have no order"),
    ],
)
def test_regions_without_a_name_are_refused(regions, words):
    X = np.random.default_rng(0).normal(size=(30, 2))
    with pytest.raises(ValueError, match=words):
        sm.MultiMetricLMNNProblem.from_labels(X, np.repeat([0, 1], [12, 18]), 2, regions=regions)


def itself(shard: Shard) -> Shard:
    return shard


def test_pairs_that_once_cost_something_stay_candidates_and_count_once() -> None:
    problem = wine()
    working = WorkingSet(problem, np.arange(len(problem.X), dtype=np.int32))
    L = np.random.default_rng(0).normal(size=(3, 4, problem.points.shape[1]))
    narrow, wide = 0.03 * L, 3.0 * L

    def pairs() -> set[tuple[int, int]]:
        (shard,) = working.shards.each(itself)
        C, used = shard.candidates, shard.used
        found = list(zip(used[C.anchors[C.rows]].tolist(), used[C.impostors].tolist(), strict=True))
        assert len(set(found)) == len(found)
        return set(found)

    working.search(wide, 0.0)
    near = pairs()
    working.search(narrow, 0.0)
    cost = pairs()
    assert len(cost) > 2 * len(near)
    working.search(wide, 0.0)
    assert pairs() == cost | near
    assert working.value(wide, 0.0).objective == pytest.approx(problem.objective(problem.lift(wide)), rel=1e-12)
    working.search(narrow, 0.0)
    assert pairs() == cost | near
    values = working.dual(working.slopes(narrow, 0.05)[1])().values
    assert values.min() >= 0.0
    assert values.max() <= problem.push_weight


@pytest.mark.parametrize("solver", ["factored", "subgradient", "conic"])
def test_more_features_than_a_region_has_pulls_are_solved_at_sight(solver: str) -> None:
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(60, 50)), np.repeat([0, 1, 2], 20)
    solution = sm.solve(sm.MultiMetricLMNNProblem.from_labels(X, y, 1, 0.3), solver)
    assert 0.0 == solution.lower_bound <= solution.objective <= 1e-15  # rounded upwards
    assert solution.trace["iteration"].tolist() == [0]


def test_a_budget_that_ends_within_the_single_metric_leaves_that_metric() -> None:
    problem = wine()
    solution = sm.solve(problem, "factored", max_iter=3)
    assert solution.status is sm.Status.USER_LIMIT
    euclidean = problem.objective(np.stack([np.eye(13)] * 3))
    nothing = problem.objective(np.zeros((3, 1, 13)))
    assert solution.objective < 0.8 * min(euclidean, nothing)
