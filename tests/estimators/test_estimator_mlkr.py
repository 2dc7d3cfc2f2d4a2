"""MLKR as an estimator: regression in a pipeline, starts, limits; NCA for continuous targets beside it."""

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsRegressor

from sdpmetric.estimators import MLKR


def data(n=80):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, 4)) * [1.0, 10.0, 0.1, 1.0]
    return X, np.sin(X[:, 0]) + 2.0 * X[:, 3] + 0.1 * rng.normal(size=n)


def test_the_regressor_of_the_docstring_is_kernel_regression():
    X, y = data(30)
    model = MLKR().fit(X, y)
    Z = model.transform(X)
    predictions = [
        KNeighborsRegressor(len(X) - 1, weights=lambda d: np.exp(-(d**2)))
        .fit(np.delete(Z, i, 0), np.delete(y, i))
        .predict(Z[i : i + 1])[0]
        for i in range(len(X))
    ]
    assert np.sum((predictions - y) ** 2) == pytest.approx(model.solution_.objective, rel=1e-6)


@pytest.mark.parametrize("init", ["auto", "pca", "identity", "random", np.eye(2, 4)], ids=str)
def test_starts(init):
    X, y = data()
    model = MLKR(2, init=init, random_state=3).fit(X, y)
    assert model.components_.shape == (2, 4)
    assert model.solution_.objective < 0.5 * np.sum((y - y.mean()) ** 2)
