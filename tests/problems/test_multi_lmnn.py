"""Multi-metric LMNN: what it is for, regions, neighbors by several metrics."""

from __future__ import annotations

import numpy as np
import oracles
import pytest
from sklearn.datasets import load_iris, load_wine
from sklearn.preprocessing import StandardScaler

import sdpmetric as sm
from sdpmetric import classification, datasets


def wine(mu: float = 0.3, **options) -> sm.MultiMetricLMNNProblem:
    X, y = load_wine(return_X_y=True)
    return sm.MultiMetricLMNNProblem.from_labels(StandardScaler().fit_transform(X), y, 3, mu, **options)


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


@pytest.mark.parametrize("solver", ["factored", "conic"])
def test_more_features_than_a_region_has_pulls_are_solved_at_sight(solver: str) -> None:
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(60, 50)), np.repeat([0, 1, 2], 20)
    solution = sm.solve(sm.MultiMetricLMNNProblem.from_labels(X, y, 1, 0.3), solver)
    assert 0.0 == solution.lower_bound <= solution.objective <= 1e-15  # rounded upward
    assert solution.trace["iteration"].tolist() == [0]


def test_a_budget_that_ends_within_the_single_metric_leaves_that_metric() -> None:
    problem = wine()
    solution = sm.solve(problem, "factored", max_iter=3)
    assert solution.status is sm.Status.USER_LIMIT
    euclidean = problem.objective(np.stack([np.eye(13)] * 3))
    nothing = problem.objective(np.zeros((3, 1, 13)))
    assert solution.objective < 0.8 * min(euclidean, nothing)
