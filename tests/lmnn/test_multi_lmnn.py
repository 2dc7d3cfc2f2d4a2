"""Multi-metric LMNN: what it is for, regions, neighbors by several metrics."""

import numpy as np
import oracles
import pytest
from sklearn.datasets import load_iris, load_wine
from sklearn.preprocessing import StandardScaler

import sdpmetric as sm


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


def test_clusters_as_regions() -> None:
    X, y = load_iris(return_X_y=True)
    for regions in ("kmeans", "spectral"):
        problem = sm.MultiMetricLMNNProblem.from_labels(
            StandardScaler().fit_transform(X), y, 3, 0.3, regions=regions, n_regions=2
        )
        assert problem.n_regions == 2
        assert sm.solve(problem).certificate.proves_optimal(1e-3)


@pytest.mark.parametrize("solver", ["factored", "conic"])
def test_more_features_than_a_region_has_pulls_are_solved_at_sight(solver: str) -> None:
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(60, 50)), np.repeat([0, 1, 2], 20)
    solution = sm.solve(sm.MultiMetricLMNNProblem.from_labels(X, y, 1, 0.3), solver)
    assert 0.0 == solution.lower_bound <= solution.objective <= 1e-15  # rounded upward
    assert solution.trace["iteration"].tolist() == [0]
