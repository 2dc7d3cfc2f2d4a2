"""A warning names the line of the user, comes where something is wrong, and says what to do."""

import subprocess
import sys
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import sdpmetric as sm
from sdpmetric.estimators import ITML, LMNN, MLKR, NCA

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
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="the label -1")
        learner.fit(BLOBS[0], y)


def test_few_components_warn_where_the_bound_says_little():
    X, y = load_digits(return_X_y=True)
    with pytest.warns(ConvergenceWarning, match=r"stationary at a relative gap of 9.*leading\(r\)"):
        LMNN(n_components=2).fit(X[:300], y[:300])
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        wine = load_wine()
        LMNN(n_components=3).fit(StandardScaler().fit_transform(wine.data), wine.target)


def test_useless_optima_have_a_class_of_their_own():
    X, y = np.random.default_rng(0).normal(size=(12, 30)), np.arange(12) % 2
    with pytest.warns(sm.UselessOptimumWarning, match="reduce the dimension"):
        LMNN(ridge=0.0).fit(X, y)


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
