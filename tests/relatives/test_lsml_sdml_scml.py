"""LSML, SDML and SCML: what each is for, and bad input."""

import numpy as np
import pytest
from instances import rounding
from sklearn.covariance import graphical_lasso
from sklearn.datasets import load_iris
from sklearn.preprocessing import StandardScaler

import sdpmetric as sm
from sdpmetric.estimators import SCML

X, Y = load_iris(return_X_y=True)
X, Y = StandardScaler().fit_transform(X)[::5], Y[::5]
RNG = np.random.default_rng(0)
A = RNG.normal(size=(4, 4))
M0 = A @ A.T + np.eye(4)


PAIRS, SIMILAR = sm.core.pairs.pairs_of_labels(np.searchsorted([0, 1, 2], Y).astype(np.int32), 60, 1)


def test_sdml_is_a_graphical_lasso():
    problem = sm.SDMLProblem(X, PAIRS, SIMILAR, M0, 0.01, 0.02)
    V = X[PAIRS[:, 0]] - X[PAIRS[:, 1]]
    S = np.linalg.inv(M0) + 0.01 / len(V) * (V.T * np.where(SIMILAR, 1.0, -1.0)) @ V
    _, precision = graphical_lasso(S, 0.02, tol=1e-5, max_iter=2000)
    solution = sm.solve(problem, tol=1e-7)
    assert problem.objective(metric=precision) >= solution.lower_bound - rounding(1.0)
    assert problem.objective(metric=precision) == pytest.approx(solution.objective, rel=1e-4)


def test_scml_keeps_few_directions_and_tells_the_feature_that_matters():
    rng = np.random.default_rng(3)
    y = np.repeat([0, 1, 2], 30)
    data = rng.normal(size=(90, 5))
    data[:, 0] += 6.0 * y
    problem = sm.SCMLProblem.from_labels(data, y, 40, sparsity=0.05)
    solution = sm.solve(problem, tol=1e-3)
    weights = problem.domain.combination(solution.metric)
    assert np.count_nonzero(weights > 1e-3 * weights.max()) < 0.5 * len(weights)
    assert solution.metric[0, 0] == np.diag(solution.metric).max()


def test_bases_of_triplets_need_labels_and_give_metrics_of_any_rank():
    triplets = sm.SCMLProblem.from_labels(X, Y, 12).terms[0].triplets
    wide = SCML(n_bases=24).fit_triplets(X, triplets, y=Y)
    assert wide.components_.shape[0] == wide.transform(X).shape[1] <= 4
    np.testing.assert_allclose(wide.metric_, wide.solution_.metric, rtol=1e-8, atol=1e-8 * abs(wide.metric_).max())


@pytest.mark.parametrize("scale", [1e-3, 1e4])
def test_the_identity_is_a_prior_in_the_units_of_the_data(scale):
    def metrics(X):
        problems = sm.LSMLProblem.from_labels(X, Y, 100), sm.SDMLProblem(X, PAIRS, SIMILAR, sparsity=0.0)
        return [sm.solve(problem, tol=1e-8).metric for problem in problems]

    for metric, expected in zip(metrics(scale * X), metrics(X), strict=True):
        np.testing.assert_allclose(scale**2 * metric, expected, rtol=1e-3, atol=1e-3 * abs(expected).max())
