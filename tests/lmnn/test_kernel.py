"""LMNN in a feature space, by kernels alone, and with several metrics: regions, and what they are for."""

import numpy as np
import oracles
import pytest
from instances import assert_close, assert_sandwich
from sklearn.datasets import load_iris, load_wine, make_circles
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.preprocessing import StandardScaler

import sdpmetric as sm
from sdpmetric.linalg.distances import distances


def circles(seed: int, n: int = 40) -> tuple[np.ndarray, np.ndarray]:
    return make_circles((n, n - 12), factor=0.4, noise=0.05, random_state=seed)


@pytest.mark.parametrize("solver", ["factored", "subgradient"])
def test_every_lmnn_solver_takes_it(solver: str) -> None:
    X, y = circles(0, 20)
    problem = sm.KernelLMNNProblem.from_labels(X, y, 2, 0.3, kernel="poly", degree=2, coef0=1.0, gamma=1.0, ridge=0.05)
    solution = sm.solve(problem, solver=solver)
    assert solution.status.ok
    assert solution.certificate == problem.certify(solution.components, dual=solution.dual)
    explicit = np.stack([X[:, 0] ** 2, X[:, 1] ** 2, *np.sqrt(2) * np.array([X[:, 0] * X[:, 1], X[:, 0], X[:, 1]])], 1)
    features = sm.solve(sm.LMNNProblem.from_labels(explicit, y, 2, 0.3, ridge=0.05), solver="conic")
    assert_sandwich(solution, features)


def test_distances_of_new_examples_from_kernels_alone(rng: np.random.Generator) -> None:
    X, y = circles(3, 25)
    problem = sm.KernelLMNNProblem.from_labels(X, y, 2, 0.3, kernel="rbf", gamma=1.5, ridge=0.1)
    solution = sm.solve(problem)
    A = problem.expansion(solution.components)
    assert A.shape == (len(X), len(X))
    assert_close(problem.expansion(metric=solution.metric), A)
    new = np.concatenate([circles(4, 25)[0], X[:5]])
    k = pairwise_kernels(new, X, metric="rbf", gamma=1.5)
    i, j = rng.integers(0, len(new), (2, 60))
    by_kernels = np.einsum("ij,jk,ik->i", k[i] - k[j], A, k[i] - k[j])
    points = problem.transform(new, solution.components)
    by_points = distances(points, i, j)
    # The weights of small eigenvalues are large: what counts is the size of the points.
    scale = max(1.0, float(np.abs(points).max()) ** 2)
    assert np.abs(by_kernels - by_points).max() <= 1e-7 * scale
    assert_close(points[-5:], problem.embed(solution.components)[:5], scale=100 * scale)
    # Training examples are where the feature space has them: distances of M = identity are the kernel's own.
    gram = pairwise_kernels(X, metric="rbf", gamma=1.5)
    expected = 2.0 - 2.0 * gram[0]
    assert np.abs(((problem.X - problem.X[0]) ** 2).sum(axis=1) - expected).max() <= 1e-9
    assert np.abs(problem.transform() - problem.X).max() <= 1e-6


def test_an_eigenvalue_below_zero_by_rounding_is_taken_for_zero() -> None:
    X, y = circles(8, 20)
    values, vectors = np.linalg.eigh(pairwise_kernels(X, metric="rbf", gamma=1.0))
    values[3] = -1e-13
    K = (vectors * values) @ vectors.T
    assert sm.KernelLMNNProblem.from_labels(K, y, 2, kernel="precomputed").X.shape[1] >= 10


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
