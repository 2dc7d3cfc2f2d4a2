"""NCA in place of scikit-learn's: the same arguments, starts, paths and tests; MLKR is kernel regression."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.neighbors import NeighborhoodComponentsAnalysis

from sdpmetric.estimators import NCA
from sdpmetric.nca.problem import NCAProblem

X, Y = load_wine(return_X_y=True)
X = (X - X.mean(axis=0)) / X.std(axis=0)
X, Y = X[::2], Y[::2]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("init", ["auto", "pca", "lda", "identity", "random", "array"])
@pytest.mark.parametrize("n_components", [None, 2, 5])
def test_from_the_same_start_it_ends_where_scikit_learn_ends(init, n_components):
    if init == "lda" and n_components != 2:  # where scikit-learn refuses too
        for kind in (NCA, NeighborhoodComponentsAnalysis):
            with pytest.raises(ValueError, match="n_components cannot be larger"):
                kind(n_components, init=init).fit(X, Y)
        return
    start = np.random.default_rng(3).normal(size=(n_components or 13, 13)) if init == "array" else init
    iterates, expected = [], []
    ours = NCA(n_components, init=start, max_iter=7, random_state=4, callback=lambda x, i: iterates.append((i, x)))
    theirs = NeighborhoodComponentsAnalysis(
        n_components, init=start, max_iter=7, random_state=4, callback=lambda x, i: expected.append((i, x))
    )
    ours.fit(X, Y), theirs.fit(X, Y)
    assert ours.components_ == pytest.approx(theirs.components_, rel=1e-6, abs=1e-8)
    assert ours.n_iter_ == theirs.n_iter_
    assert [i for i, _ in iterates] == [i for i, _ in expected]
    assert iterates[0][1] == pytest.approx(expected[0][1], rel=1e-8, abs=1e-10)
    assert ours.transform(X) == pytest.approx(theirs.transform(X), rel=1e-6, abs=1e-6)


def test_diagonal_and_log(capsys):
    model = NCA(diagonal=True, objective="log", verbose=1, max_iter=500).fit(X, Y)
    assert np.array_equal(model.components_, np.diag(np.diag(model.components_)))
    assert model.solution_.certificate.program == "NCA, log"
    assert not model.solution_.certificate.proves_optimal(0.5)
    assert "[NCA]          1" in capsys.readouterr().out
    for wrong in ({"init": "pca"}, {"n_components": 2}):
        with pytest.raises(ValueError, match="diagonal"):
            NCA(diagonal=True, **wrong).fit(X, Y)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("n_components", "init"), [(None, "identity"), (5, "pca")])
def test_large_distances_do_not_stop_it_at_its_start(n_components, init):
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(10), 8)
    data = 1e3 * (0.4 * rng.normal(size=(10, 30))[y] + rng.normal(size=(80, 30)))
    nca = NCA(n_components, init=init, max_iter=20).fit(data, y)
    stopped = NeighborhoodComponentsAnalysis(n_components, init=init, max_iter=20, random_state=0).fit(data, y)
    problem = NCAProblem(data, y, n_components)
    assert nca.solution_.objective < problem.objective(stopped.components_) - 5.0


IMPORT = """
from sdpmetric import NCAProblem
from sdpmetric.estimators import NCA


class NeighborhoodComponentsAnalysis(NCA):
    def _loss_grad_lbfgs(self, transformation, X, same_class_mask, sign=1.0):  # which two tests call
        classes = same_class_mask.argmax(axis=1)
        problem = NCAProblem(X, classes, transformation.size // X.shape[1])
        loss, gradient = problem.value_and_gradient(transformation.reshape(-1, X.shape[1]))
        return -sign * loss, -sign * gradient.ravel()
"""
# scikit-learn's own conftest has this fixture
FIXTURE = """

@pytest.fixture
def global_random_seed():
    return 42
"""


@pytest.mark.sklearn_checks
def test_scikit_learn_s_own_tests_of_nca_pass(tmp_path):
    tests = pytest.importorskip("sklearn.neighbors.tests.test_nca")
    source = Path(tests.__file__).read_text(encoding="utf-8")
    adapted, n = re.subn("from sklearn.neighbors import NeighborhoodComponentsAnalysis\n", IMPORT, source)
    assert n == 1
    adapted, wordings = re.subn(r", match=re\.escape\(msg\)", "", adapted)  # which error, not in which words
    assert wordings >= 5
    (tmp_path / "test_adapted.py").write_text(adapted + FIXTURE, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, "test_adapted.py"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout[-3000:]
    summary = re.search(r"(\d+) passed", run.stdout)
    assert summary is not None
    assert int(summary[1]) >= 150, run.stdout[-300:]
