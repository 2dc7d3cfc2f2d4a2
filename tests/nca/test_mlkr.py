"""MLKR: hard cases and solves."""

import numpy as np
import pytest
from instances import assert_close, assert_same

import sdpmetric as sm

N = 13


def make(seed=0, d=3, **options):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, d)) * np.array([1.0, 3.0, 0.3])[:d] + 7.0
    return sm.MLKRProblem(X, X[:, 0] ** 2 + rng.normal(size=N) + 100.0, **options)


def test_the_zero_metric_predicts_the_mean_of_the_others_and_a_large_one_the_nearest():
    problem = make(3)
    y = problem.targets
    means = (y.sum() - y) / (N - 1)
    assert_close(problem.predictions(np.zeros((1, 3))), means)
    assert_same(problem.objective(np.zeros((1, 3))), float(np.sum((y - means) ** 2)))
    D = np.sum((problem.X[:, None] - problem.X) ** 2, axis=2) + np.diag([np.inf] * N)
    assert_same(problem.objective(1e6 * np.eye(3)), float(np.sum((y - y[D.argmin(axis=1)]) ** 2)))
    X = np.array([[0.0], [0.0], [1e9], [1e9]])
    assert sm.MLKRProblem(X, [1.0, 1.0, 5.0, 5.0]).objective([[1.0]]) == 0.0


@pytest.mark.parametrize("options", [{}, {"diagonal": True}, {"n_components": 1}])
def test_a_solve_finds_the_direction_that_tells(options):
    rng = np.random.default_rng(6)
    X = rng.normal(size=(90, 3))
    y = np.sin(2.0 * X[:, 1]) + 0.05 * rng.normal(size=90)
    problem = sm.MLKRProblem(X, y, **options)
    solution = sm.solve(problem, tol=1e-3)
    assert solution.status is sm.Status.STATIONARY
    assert solution.certificate.stationarity <= 1e-3
    assert solution.objective < 0.1 * problem.value.scale
    assert solution.metric[1, 1] > 0.8 * np.trace(solution.metric)
    assert 1.0 <= solution.extras["perplexity"] <= 89.0
