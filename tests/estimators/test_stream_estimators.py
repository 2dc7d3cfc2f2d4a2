"""LEGO and FRML as estimators, beyond what every estimator promises."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import scale

import sdpmetric as sm
from sdpmetric import ranking
from sdpmetric.classification import knn_predict
from sdpmetric.estimators import FRML, LEGO, POLA


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    return scale(X), y


def test_a_fit_is_the_problem_of_its_targets(wine):
    X, _ = wine
    pairs, targets, sides = [[0, 60], [3, 4], [100, 170]], [9.0, 1.0, 4.0], [-1, 1, 0]
    fitted = LEGO(learning_rate=0.02).fit_targets(X, pairs, targets, sides)
    stated = sm.solve(sm.LEGOProblem(X, pairs, targets, sides, learning_rate=0.02))
    np.testing.assert_array_equal(fitted.components_, stated.components)
    assert fitted.solution_.status is sm.Status.STREAM_ENDED
    assert fitted.solution_.certificate.kind == "regret"


def test_batches_go_on_where_the_last_one_ended(wine):
    X, y = wine
    pairs = np.array([[0, 60], [3, 4], [100, 170], [5, 9], [70, 150], [20, 130]])
    similar = y[pairs[:, 0]] == y[pairs[:, 1]]
    once = LEGO(learning_rate=0.01, upper=2.0, lower=30.0).partial_fit_pairs(X, pairs, similar)
    twice = LEGO(learning_rate=0.01, upper=2.0, lower=30.0)
    twice.partial_fit_pairs(X, pairs[:2], similar[:2]).partial_fit_pairs(X, pairs[2:], similar[2:])
    np.testing.assert_allclose(twice.metric_, once.metric_, rtol=1e-12)
    assert twice.n_iter_ == 6
    assert not hasattr(twice, "solution_")
    np.testing.assert_allclose(twice.metric_, once.metric_)
    with pytest.raises(ValueError, match="features"):
        twice.partial_fit(X[:, :4], y)
    assert not hasattr(twice.fit_targets(X, pairs, 9.0), "stream_")


def test_what_was_not_named_is_chosen_by_the_first_batch(wine):
    X, y = wine
    lego = LEGO(n_pairs=300).partial_fit(X[::2], y[::2])
    chosen = lego.learning_rate_, lego.upper_, lego.lower_
    lego.partial_fit(5 * X[1::2], y[1::2])
    assert (lego.learning_rate_, lego.upper_, lego.lower_) == chosen
    assert 0 < lego.upper_ < lego.lower_
    assert not hasattr(lego.fit(X, y), "stream_")


def test_lego_classifies_better_than_the_initial_metric(wine):
    X, y = wine
    train = np.arange(len(y)) % 2 == 0
    L = LEGO().fit(X[train], y[train]).components_
    wrong = [np.mean(knn_predict(K, X[train], y[train], X[~train]) != y[~train]) for K in (L, np.eye(13))]
    assert wrong[0] < wrong[1]


def test_equal_examples_of_two_labels_do_not_stop_a_fit(wine):
    X, y = wine
    assert np.isfinite(LEGO().fit(np.vstack([X, X[:1]]), np.append(y, 2)).components_).all()


def test_lego_learns_in_any_units_or_says_why_not(wine):
    X, y = wine
    metric, plain = (LEGO(n_pairs=200).fit(size * X, y).metric_ for size in (1e60, 1.0))
    np.testing.assert_allclose(metric, plain, rtol=1e-6, atol=1e-6)
    for size in (1e100, 1e160):
        for learn in (LEGO().fit, LEGO().partial_fit):
            with pytest.raises(ValueError, match=r"too large .* scale the features"):
                learn(size * X, y)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_relevance_by_lists_and_by_matrix_is_the_same(wine):
    X, y = wine
    lists = [np.flatnonzero((y == c) & (np.arange(len(y)) != i)) for i, c in enumerate(y)]
    matrix = sp.csr_array((y[:, None] == y[None]) & ~np.eye(len(y), dtype=bool))
    arguments = {"n_components": 2, "passes": 3, "random_state": 4}
    fits = [
        FRML(**arguments).fit(X, y),
        FRML(**arguments).fit_relevance(X, lists),
        FRML(**arguments).fit_relevance(X, matrix),
        FRML(**arguments).fit_relevance(X, sm.Relevance.from_labels(y)),
    ]
    for fitted in fits[1:]:
        np.testing.assert_allclose(fitted.components_, fits[0].components_)
    assert fits[0].solution_.certificate.kind == "stationarity"
    assert not fits[0].solution_.certificate.proves_optimal(0.9)


def test_frml_ranks_better_than_principal_components(wine):
    X, y = wine
    fitted = FRML(n_components=2).fit(X, y)
    related = sm.Relevance.from_labels(y)
    start = np.linalg.svd(X, full_matrices=False)[2][:2]
    learned, principal = (ranking.evaluate(X, related, components=L).map for L in (fitted.components_, start))
    assert learned > principal


def test_passes_that_run_out_are_warned_about(wine):
    with pytest.warns(ConvergenceWarning, match="ended with status user_limit. A limit"):
        FRML(n_components=2, passes=1).fit(*wine)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_queries_may_be_others_than_the_items(wine):
    X, y = wine
    lists = [np.flatnonzero(y[:100] == c) for c in y[100:130]]
    fitted = FRML(n_components=2, passes=2).fit_relevance(X[:100], lists, queries=X[100:130])
    assert fitted.components_.shape == (2, 13)
    with pytest.raises(ValueError, match="n_components"):
        FRML(n_components=14).fit(X, y)
    with pytest.raises(ValueError, match="irrelevant"):
        FRML().fit_relevance(X[:5], [np.arange(5)], queries=X[5:6])


@pytest.mark.parametrize("estimator", [POLA, LEGO])
def test_batches_without_pairs(estimator, wine):
    X, y = wine
    with pytest.raises(ValueError, match="first batch has no pairs of different examples"):
        estimator().partial_fit(X[:1], y[:1])
    learner = estimator().partial_fit(X[:30], y[:30])
    before = learner.components_.copy()
    assert learner.partial_fit(X[30:31], y[30:31]) is learner
    np.testing.assert_array_equal(learner.components_, before)
    with pytest.raises(ValueError, match="y mixes labels that have no order"):
        learner.partial_fit(X[:2], np.array(["a", 1], dtype=object))
