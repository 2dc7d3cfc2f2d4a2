"""Where an optimum fits the training data only: a default that does not, and a warning where it is asked for."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier

import sdpmetric as sm
from sdpmetric.estimators import ITML, LFDA, LMNN, MCML, MMC, RCA, KernelLMNN, MultiMetricLMNN

LOOSE = {"tol": 1e-2}


@pytest.fixture(scope="module")
def wide():
    """Digits seen through 100 noisy units, 120 for training and 300 for testing."""
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    rows = rng.permutation(len(X))[:420]
    X = np.tanh(X[rows] / 16.0 @ rng.normal(size=(64, 100))) + 0.2 * rng.normal(size=(420, 100))
    return X[:120], y[rows[:120]], X[120:], y[rows[120:]]


def accuracy(learner, data) -> float:
    X, y, X_test, y_test = data
    votes = KNeighborsClassifier(3).fit(X if learner is None else learner.transform(X), y)
    return votes.score(X_test if learner is None else learner.transform(X_test), y_test)


@pytest.mark.parametrize(
    ("default", "without"),
    [(LMNN(**LOOSE), LMNN(ridge=0.0, **LOOSE)), (RCA(), RCA(ridge=1e-9)), (LFDA(), LFDA(ridge=1e-9))],
    ids=["LMNN", "RCA", "LFDA"],
)
def test_the_default_loses_no_accuracy_where_features_are_many(default, without, wide):
    with warnings.catch_warnings():
        warnings.simplefilter("error", sm.UselessOptimumWarning)
        default.fit(*wide[:2])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sm.UselessOptimumWarning)
        without.fit(*wide[:2])
    assert accuracy(default, wide) >= accuracy(None, wide) - 0.05
    assert accuracy(without, wide) < accuracy(None, wide) - 0.15


def test_directions_without_pull_are_warned_of(wide):
    with pytest.warns(
        sm.UselessOptimumWarning, match=r"cost no pull separate 100% of the triplets: reduce the dimension"
    ):
        lmnn = LMNN(n_neighbors=1, ridge=0.0).fit(wide[0][:40], wide[1][:40])
    assert lmnn.solution_.status.ok
    assert lmnn.solution_.certificate.info["null_dimension"] > 0
    assert lmnn.solution_.objective < 1e-9


def test_too_few_examples_are_warned_of(wide):
    X, y = wide[0][:36, :30], np.arange(36) % 3
    with pytest.warns(sm.UselessOptimumWarning, match=r"LMNN: 36 examples in 30 directions are too few"):
        LMNN(ridge=0.0, **LOOSE).fit(X, y)
    with pytest.warns(sm.UselessOptimumWarning, match=r"MMC: .* ITML"):
        MMC(n_pairs=300, tol=0.1).fit(X, y)
    with pytest.warns(sm.UselessOptimumWarning, match=r"MCML: 36 examples in 30 directions"):
        MCML(tol=10.0).fit(X, y)
    with pytest.warns(
        sm.UselessOptimumWarning, match=r"MultiMetricLMNN: directions .* that cost no pull separate 100%"
    ):
        MultiMetricLMNN(ridge=0.0, tol=0.5).fit(X, y)


@pytest.mark.parametrize("learner", [LMNN(**LOOSE), ITML(n_pairs=200), KernelLMNN(**LOOSE), RCA()])
def test_nothing_is_warned_of_by_default(learner, wide):
    with warnings.catch_warnings():
        warnings.simplefilter("error", sm.UselessOptimumWarning)
        learner.fit(*wide[:2])


def test_the_zero_metric_is_warned_of(wide):
    with pytest.warns(sm.UselessOptimumWarning, match=r"the metric is 0, under which all examples are equal"):
        lmnn = LMNN(push_weight=0.0).fit(*wide[:2])
    assert not lmnn.components_.any()


def test_the_ridge_is_what_the_docs_say(wide):
    X, y = wide[:2]
    problem = sm.LMNNProblem.from_labels(X, y, ridge="auto")
    anchors, targets = problem.target_pairs
    trace = 0.5 * np.sum((X[anchors] - X[targets]) ** 2)
    assert problem.ridge == pytest.approx((100 / 120) ** 2 * trace / 100, rel=1e-9)
    many = sm.LMNNProblem.from_labels(X[:, :2], y, ridge="auto")
    trace = 0.5 * np.sum((X[:, :2][many.target_pairs[0]] - X[:, :2][many.target_pairs[1]]) ** 2)
    assert many.ridge == pytest.approx((2 / 120) ** 2 * trace / 2, rel=1e-9)
    assert sm.LMNNProblem.from_labels(10.0 * X, y, ridge="auto").ridge == pytest.approx(100.0 * problem.ridge)
    padded = np.column_stack([X, np.full(120, 7.0)])
    assert sm.LMNNProblem.from_labels(padded, y, ridge="auto").ridge == pytest.approx(problem.ridge)
    assert LMNN(**LOOSE).fit(X, y).solution_.problem.fingerprint() == problem.fingerprint()
    rca = RCA().fit(X[:, :5], y)
    means = np.stack([X[y == c, :5].mean(axis=0) for c in range(10)])[y]
    assert rca.ridge_ == pytest.approx((5 / 120) ** 2 * np.mean((X[:, :5] - means) ** 2), rel=1e-9)


def test_the_ridge_is_chosen_by_examples_held_back():
    X, y = load_digits(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(X))
    X, y, n = X[rows] / 16.0, y[rows], 60
    chosen, auto = LMNN(ridge="cv").fit(X[:n], y[:n]), LMNN().fit(X[:n], y[:n])
    assert chosen.ridge_ == chosen.ridges_[np.argmax(chosen.scores_)] > auto.ridge_
    assert auto.ridge_ in chosen.ridges_
    given = LMNN(ridge=chosen.ridge_).fit(X[:n], y[:n])
    assert given.solution_.problem.fingerprint() == chosen.solution_.problem.fingerprint()
    assert chosen.score(X[n:], y[n:]) > auto.score(X[n:], y[n:])
    assert given.scores_.size == 0
    with pytest.raises(ValueError, match="ridge must be"):
        LMNN(ridge="cv").fit_triplets(X[:n], [[0, 1, 2]])
