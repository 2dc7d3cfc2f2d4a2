"""Warnings name the line of the user and say what to do, as where an optimum fits the training data only."""

import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import sdpmetric as sm
from sdpmetric.estimators import ITML, LFDA, LMNN, MLKR, MMC, NCA, RCA, MultiMetricLMNN
from sdpmetric.linalg.dependence import dependent_features

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
    with pytest.warns(
        sm.UselessOptimumWarning, match=r"MultiMetricLMNN: directions .* that cost no pull separate 100%"
    ):
        MultiMetricLMNN(ridge=0.0, tol=0.5).fit(X, y)


def test_fewer_triplets_than_parameters_are_warned_of(wide):
    X, y, *_ = wide
    triplets = np.array([[0, 1, 2], [3, 4, 5], [6, 7, 8]])
    with pytest.warns(sm.UselessOptimumWarning, match=r"3 triplets, and 15 parameters of the metric.*Adapter"):
        LMNN(**LOOSE).fit_triplets(X, triplets)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LMNN(**LOOSE).fit(X, y)  # as many parameters beside few examples, but its neighbors are no worse


def test_methods_that_do_not_aim_at_neighbors_warn_where_these_get_worse():
    X, y = load_digits(return_X_y=True)
    with pytest.warns(sm.UselessOptimumWarning, match=r"3 nearest neighbors classify .* LMNN and NCA do"):
        MMC().fit(X[:300], y[:300])


def test_the_ridge_is_what_the_docs_say(wide):
    X, y = wide[:2]
    problem = sm.LMNNProblem.from_labels(X, y, ridge="auto")
    anchors, targets = problem.target_pairs
    trace = 0.5 * np.sum((X[anchors] - X[targets]) ** 2)
    assert problem.ridge == pytest.approx((100 / 120) ** 2 * trace / 100, rel=1e-9)
    problem_of_many = sm.LMNNProblem.from_labels(X[:, :2], y, ridge="auto")
    trace = 0.5 * np.sum((X[:, :2][problem_of_many.target_pairs[0]] - X[:, :2][problem_of_many.target_pairs[1]]) ** 2)
    assert problem_of_many.ridge == pytest.approx((2 / 120) ** 2 * trace / 2, rel=1e-9)
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
    fixed = LMNN(ridge=chosen.ridge_).fit(X[:n], y[:n])
    assert fixed.solution_.problem.fingerprint() == chosen.solution_.problem.fingerprint()
    assert chosen.score(X[n:], y[n:]) > auto.score(X[n:], y[n:])
    assert fixed.scores_.size == 0
    with pytest.raises(ValueError, match="ridge must be"):
        LMNN(ridge="cv").fit_triplets(X[:n], [[0, 1, 2]])


def standardized(X):
    return (X - X.mean(axis=0)) / X.std(axis=0)


IRIS, KINDS = load_iris(return_X_y=True)
DEPENDENT = {
    "sum": (np.c_[IRIS, IRIS[:, 0] + IRIS[:, 1]], {4: [0, 1]}),
    "standardized sum": (standardized(np.c_[IRIS, IRIS[:, 0] + IRIS[:, 1]]), {4: [0, 1]}),
    "mean": (np.c_[IRIS, IRIS.mean(axis=1)], {4: [0, 1, 2, 3]}),
    "fahrenheit": (np.c_[IRIS, 1.8 * IRIS[:, 0] + 32.0], {4: [0]}),
    "shares": (IRIS / IRIS.sum(axis=1, keepdims=True), {3: [0, 1, 2]}),
    "centered rows": (IRIS - IRIS.mean(axis=1, keepdims=True), {2: [0, 1, 3]}),
}


@pytest.mark.parametrize("name", DEPENDENT)
def test_dependent_features_are_named_and_left_out(name):
    """MMC ends proven, the learned distances are those of the other columns, and statements say what to do."""
    Z, relations = DEPENDENT[name]
    assert dependent_features(Z) == relations
    independent = [j for j in range(Z.shape[1]) if j not in relations]
    learner = MMC(n_pairs=300)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "MMC: 3 nearest neighbors")
        fitted, fitted_without = learner.fit(Z, KINDS), clone(learner).fit(Z[:, independent], KINDS)
    assert fitted.relative_gap_ <= 1e-3
    assert not fitted.components_[:, list(relations)].any()
    assert fitted.solution_.objective == pytest.approx(fitted_without.solution_.objective, rel=2e-3)
    j, sources = next(iter(relations.items()))
    named = f"feature {j} of {', '.join(map(str, sources))}."
    assert sm.LMNNProblem.from_labels(Z, KINDS).dependence().startswith("Pass ridge='auto', or leave out features")
    assert named in (words := sm.MMCProblem.from_labels(Z, KINDS, 100).dependence())
    assert "ridge=" not in words
    names = [f"column {k}" for k in range(Z.shape[1])]
    with pytest.warns(ConvergenceWarning, match=r"gap of [^ ]*\. Pass ridge='auto', .* by PCA") as caught:
        LMNN(ridge=0.0).fit(pd.DataFrame(Z, columns=names), KINDS)
    words = " ".join(str(warning.message) for warning in caught)
    assert f"feature 'column {j}' of " in words
    assert "scale" not in words.lower()


@pytest.mark.parametrize("offset", [0.0, 1e6, 1e15])
def test_features_that_vary_by_themselves_are_kept(offset, rng):
    numbers = offset + rng.integers(0, 9, size=(60, 3))
    assert dependent_features(numbers) == {}
    assert dependent_features(np.c_[rng.normal(size=(60, 3)), numbers]) == {}
    assert dependent_features(rng.normal(size=(5, 9))) == {}  # in the sample only
    assert dependent_features(np.c_[numbers, np.ones(60)]) == {3: []}
    rows = rng.normal(size=(60, 2))
    assert dependent_features(np.c_[rows, rows.sum(axis=1) + 1e-9 * rng.normal(size=60)]) == {}


BLOBS = np.random.default_rng(0).normal(size=(30, 2)), np.repeat([-1, 0, 1], 10)


@pytest.mark.parametrize("fit", [LMNN(max_iter=1).fit, make_pipeline(StandardScaler(), LMNN(max_iter=1)).fit])
def test_a_warning_names_the_line_of_the_user(fit):
    with pytest.warns(ConvergenceWarning) as caught:
        fit(*load_wine(return_X_y=True))
    assert {warning.filename for warning in caught} == {__file__}


@pytest.mark.parametrize("estimator", [LMNN(), NCA(), ITML()])
def test_the_label_of_unlabeled_examples_is_warned_of_once(estimator):
    X, y = BLOBS
    with pytest.warns(UserWarning, match="the label -1") as caught:
        estimator.fit(X, y)
    told = [str(warning.message) for warning in caught if "y != -1" in str(warning.message)]
    assert len(told) == 1
    assert told[0].startswith("the label -1 of 10 examples is a class like any other here")
    assert isinstance(caught[0].message, UserWarning)


@pytest.mark.parametrize(("learner", "y"), [(LMNN(), np.where(BLOBS[1] == 0, 1, BLOBS[1])), (MLKR(), BLOBS[1])])
def test_two_classes_and_numbers_may_be_negative(learner, y):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        learner.fit(BLOBS[0], y)
    assert not [warning for warning in caught if "the label -1" in str(warning.message)]


def test_few_components_warn_where_the_bound_says_little():
    X, y = load_digits(return_X_y=True)
    with pytest.warns(ConvergenceWarning, match=r"stationary at a relative gap of 9.*leading\(r\)"):
        LMNN(n_components=2).fit(X[:300], y[:300])
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        wine = load_wine()
        LMNN(n_components=3).fit(StandardScaler().fit_transform(wine.data), wine.target)


def test_a_damaged_cache_of_numba_is_compiled_again(tmp_path):
    words = (
        "import numpy as np; from sdpmetric.linalg.distances import distances;"
        "print(distances(np.eye(2), np.array([0]), np.array([1]))[0])"
    )
    run = [sys.executable, "-c", words]
    environment = {"NUMBA_CACHE_DIR": str(tmp_path), "PATH": "", "PYTHONPATH": ":".join(sys.path)}
    assert float(subprocess.run(run, env=environment, capture_output=True, check=True, text=True).stdout) == 2.0
    damaged = [*tmp_path.rglob("*.nbi"), *tmp_path.rglob("*.nbc")]
    assert damaged
    for file in damaged:
        file.write_bytes(b"no pickle")
    again = subprocess.run(run, env=environment, capture_output=True, check=True, text=True)
    assert float(again.stdout) == 2.0
    assert "is damaged" in again.stderr
