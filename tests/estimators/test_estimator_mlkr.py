"""MLKR as an estimator: regression in a pipeline, starts, limits; NCA for continuous targets beside it."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
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
    left = [
        KNeighborsRegressor(len(X) - 1, weights=lambda d: np.exp(-(d**2)))
        .fit(np.delete(Z, i, 0), np.delete(y, i))
        .predict(Z[i : i + 1])[0]
        for i in range(len(X))
    ]
    assert np.sum((left - y) ** 2) == pytest.approx(model.solution_.objective, rel=1e-6)


@pytest.mark.parametrize("init", ["auto", "pca", "identity", "random", np.eye(2, 4)], ids=str)
def test_starts(init):
    X, y = data()
    model = MLKR(2, init=init, random_state=3).fit(X, y)
    assert model.components_.shape == (2, 4)
    assert model.solution_.objective < 0.5 * np.sum((y - y.mean()) ** 2)


def test_warm_start_limits_and_refusals():
    X, y = data()
    with pytest.warns(ConvergenceWarning, match="MLKR ended with status user_limit"):
        model = MLKR(max_iter=3, warm_start=True).fit(X, y)
    first = model.solution_.objective
    assert model.set_params(max_iter=500).fit(X, y).solution_.objective <= first
    with pytest.raises(ValueError, match="4 features, and X has 3"):
        model.fit(X[:, :3], y)
    for wrong, words in (({"init": "lda"}, "'init' parameter"), ({"diagonal": True, "init": "pca"}, "diagonal")):
        with pytest.raises(ValueError, match=words):
            MLKR(**wrong).fit(X, y)
    assert MLKR(diagonal=True).fit(X, y).components_[0, 1] == 0.0
