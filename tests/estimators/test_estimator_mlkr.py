"""MLKR as an estimator: regression in a pipeline, starts, limits; NCA for continuous targets beside it."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from sdpmetric.estimators import MLKR, NCA


def data(n=80):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, 4)) * [1.0, 10.0, 0.1, 1.0]
    return X, np.sin(X[:, 0]) + 2.0 * X[:, 3] + 0.1 * rng.normal(size=n)


# A weight counts the term of an example; repeated rows are each other's neighbors.
UNLIKE_REPEATED_ROWS = {
    f"check_sample_weight_equivalence_on_{kind}_data": "neighbors are chosen without weights"
    for kind in ("dense", "sparse")
}


@pytest.mark.sklearn_checks
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    [MLKR(init="random", random_state=0), NCA(targets="continuous")],
    expected_failed_checks=lambda estimator: UNLIKE_REPEATED_ROWS,
)
def test_scikit_learn_accepts_it(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # wherever the descent stops
def test_neighbors_predict_better_under_it():
    X, y = load_diabetes(return_X_y=True)
    X, y = X[:200], y[:200]
    plain = make_pipeline(StandardScaler(), KNeighborsRegressor(10))
    learned = make_pipeline(StandardScaler(), MLKR(n_components=2), KNeighborsRegressor(10))
    assert cross_val_score(learned, X, y, cv=3).mean() > cross_val_score(plain, X, y, cv=3).mean()


def test_the_regressor_of_the_docstring_is_kernel_regression():
    X, y = data()
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
    for wrong, words in (
        ({"init": "lda"}, "'init' parameter"),
        ({"diagonal": True, "init": "pca"}, "diagonal"),
    ):
        with pytest.raises(ValueError, match=words):
            MLKR(**wrong).fit(X, y)
    assert MLKR(diagonal=True).fit(X, y).components_[0, 1] == 0.0


def test_nca_takes_continuous_targets():
    X, y = data()
    model = NCA(targets="continuous", max_iter=300).fit(X, y)
    shares = np.diag(model.metric_ * np.outer(X.std(axis=0), X.std(axis=0)))
    assert shares[[0, 3]].sum() > 0.8 * shares.sum()
    with pytest.raises(ValueError, match="targets"):
        NCA(targets="soft").fit(X, y)
