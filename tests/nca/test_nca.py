"""NCA and MLKR: digits of the gradient, hard cases, and NCA in place of scikit-learn's."""

import math
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from instances import assert_close, assert_same
from sklearn.datasets import load_iris, load_wine
from sklearn.model_selection import train_test_split
from sklearn.neighbors import NeighborhoodComponentsAnalysis

import sdpmetric as sm
from sdpmetric.datasets import concentric_rings
from sdpmetric.estimators import NCA
from sdpmetric.nca.problem import NCAProblem

# Unequal classes, out of order, and one of a single member.
Y = np.array(["b", "a", "c", "a", "b", "a", "a", "lone", "c", "b", "a"])
N = len(Y)


def make(seed=0, d=3, **options):
    X = np.random.default_rng(seed).normal(size=(N, d)) * np.array([1.0, 3.0, 0.3])[:d] + 7.0
    return sm.NCAProblem(X, Y, **options)


def test_gradient_keeps_its_digits_where_nearly_all_are_right():
    """Beside quadruple precision: scikit-learn's ``p_ij - p_ij p_i`` is good to 5e-10 here, since p_i is nearly 1."""
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(5).permutation(150)[:97]
    X, y = X[order], y[order]
    L = 5.0 * np.random.default_rng(4).normal(size=(4, 4))
    Z, same = (X.astype(np.longdouble) @ L.T.astype(np.longdouble)), y[:, None] == y
    D = ((Z[:, None] - Z) ** 2).sum(axis=2)
    np.fill_diagonal(D, np.inf)
    P = np.exp(D.min(axis=1, keepdims=True) - D)
    P /= P.sum(axis=1, keepdims=True)
    W = np.where(same, P * (P * ~same).sum(axis=1, keepdims=True), -P * (P * same).sum(axis=1, keepdims=True))
    exact = 2 * ((W + W.T).sum(axis=1)[:, None] * Z - (W + W.T) @ Z).T @ X
    gradient = sm.NCAProblem(X, y).value_and_gradient(L)[1]
    assert np.abs(gradient - exact).max() <= 1e-12 * np.abs(exact).max()


def test_far_points_underflow_and_values_stay_exact():
    """Two pairs: distances 1 within and more than exp can hold between; then the other way around."""
    X = np.array([[0.0], [1.0], [1000.0], [1001.0]])
    close, far = sm.NCAProblem(X, [0, 0, 1, 1], objective="log"), sm.NCAProblem(X, [0, 1, 1, 0], objective="log")
    assert close.objective([[1.0]]) == 0.0
    # the mate, less the nearest
    expected = sum((a - b) ** 2 - 1.0 for a, b in ((0, 1001), (1, 1000), (1000, 1), (1001, 0)))
    assert_same(far.objective([[1.0]]), expected)
    value, gradient = far.value_and_gradient([[1.0]])
    assert gradient[0, 0] == pytest.approx(2 * value, rel=1e-12)  # distances grow with the square of L
    assert sm.NCAProblem(X, [0, 1, 1, 0]).objective([[1.0]]) == 0.0
    assert np.isfinite(far.objective([[1e6]]))
    nearer = sm.NCAProblem([[0.0], [1.0], [9.0], [10.0]], [0, 0, 1, 1], objective="log")
    assert nearer.objective([[1.0]]) == pytest.approx(2 * (math.exp(-63) + 2 * math.exp(-80)), rel=1e-9, abs=0.0)


def test_duplicates_and_examples_without_a_match():
    X = np.array([[0.0, 1.0], [0.0, 1.0], [0.0, 1.0], [2.0, 0.0], [2.0, 0.5]])
    problem = sm.NCAProblem(X, [0, 0, 1, 2, 2])
    assert_same(problem.objective(30 * np.eye(2)), -(0.5 + 0.5 + 0.0 + 1.0 + 1.0))
    assert problem.certify(30 * np.eye(2)).lower_bound == -4.0  # the third example has no match
    logarithm = sm.NCAProblem(X, [0, 0, 1, 2, 2], objective="log")
    assert_same(logarithm.objective(30 * np.eye(2)), 2 * math.log(2))
    assert logarithm.certify(30 * np.eye(2)).lower_bound == 0.0
    one_class = sm.NCAProblem(X, ["only"] * 5)
    value, gradient = one_class.value_and_gradient(np.eye(2))
    assert_same(value, -5.0)
    assert np.abs(gradient).max() < 1e-12


STATIONARY = {
    "nca": lambda X: sm.NCAProblem(X, Y),
    "mlkr": lambda X: sm.MLKRProblem(X, np.arange(N) % 7 * 50.0),
    "frml": lambda X: sm.FRMLProblem(X, np.arange(N) % 2, 2),
}


@pytest.mark.parametrize("name", STATIONARY)
def test_a_certificate_of_stationarity_proves_nothing_and_has_no_units(name):
    X, L = make(3).X, np.random.default_rng(2).normal(size=(2, 3))
    certificate, scaled = STATIONARY[name](X).certify(L), STATIONARY[name](X * 1e3).certify(L / 1e3)
    assert certificate.kind == "stationarity"
    assert not certificate.proves_optimal(1e9)
    assert scaled.stationarity == pytest.approx(certificate.stationarity, rel=1e-6)


def test_diagonal_factors():
    problem = make(4, diagonal=True)
    L = np.diag([0.3, 0.1, 2.0])
    value, gradient = problem.value_and_gradient(L)
    full = make(4).value_and_gradient(L)
    assert_same(value, full[0])
    assert_close(gradient, np.diag(np.diag(full[1])))
    assert problem.certify(metric=L @ L).stationarity == pytest.approx(problem.certify(L).stationarity)


def test_a_line_search_that_ends_far_out_is_not_the_end():
    X, y = concentric_rings(random_state=1)
    X, _, y, _ = train_test_split(X, y, test_size=0.3, random_state=2, stratify=y)
    solution = sm.solve(sm.NCAProblem(X, y, 2), tol=1e-5)
    assert solution.status is sm.Status.STATIONARY
    assert solution.objective < -340


def test_the_zero_metric_predicts_the_mean_of_the_others_and_a_large_one_the_nearest():
    X = make(3).X
    y = X[:, 0] ** 2 + np.random.default_rng(4).normal(size=N) + 100.0
    problem, means = sm.MLKRProblem(X, y), (y.sum() - y) / (N - 1)
    assert_close(problem.predictions(np.zeros((1, 3))), means)
    assert_same(problem.objective(np.zeros((1, 3))), float(np.sum((y - means) ** 2)))
    D = np.sum((X[:, None] - X) ** 2, axis=2) + np.diag([np.inf] * N)
    assert_same(problem.objective(1e6 * np.eye(3)), float(np.sum((y - y[D.argmin(axis=1)]) ** 2)))
    X = np.array([[0.0], [0.0], [1e9], [1e9]])
    assert sm.MLKRProblem(X, [1.0, 1.0, 5.0, 5.0]).objective([[1.0]]) == 0.0


WINE, WINES = (rows[::2] for rows in load_wine(return_X_y=True))
WINE = (WINE - WINE.mean(axis=0)) / WINE.std(axis=0)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("init", ["auto", "pca", "lda", "identity", "random", "array"])
@pytest.mark.parametrize("n_components", [None, 2, 5])
def test_from_the_same_start_it_ends_where_scikit_learn_ends(init, n_components):
    if init == "lda" and n_components != 2:  # where scikit-learn refuses too
        for kind in (NCA, NeighborhoodComponentsAnalysis):
            with pytest.raises(ValueError, match="n_components cannot be larger"):
                kind(n_components, init=init).fit(WINE, WINES)
        return
    start = np.random.default_rng(3).normal(size=(n_components or 13, 13)) if init == "array" else init
    iterates, expected = [], []
    ours = NCA(n_components, init=start, max_iter=7, random_state=4, callback=lambda x, i: iterates.append((i, x)))
    theirs = NeighborhoodComponentsAnalysis(
        n_components, init=start, max_iter=7, random_state=4, callback=lambda x, i: expected.append((i, x))
    )
    ours.fit(WINE, WINES), theirs.fit(WINE, WINES)
    assert ours.components_ == pytest.approx(theirs.components_, rel=1e-6, abs=1e-8)
    assert ours.n_iter_ == theirs.n_iter_
    assert [i for i, _ in iterates] == [i for i, _ in expected]
    assert iterates[0][1] == pytest.approx(expected[0][1], rel=1e-8, abs=1e-10)
    assert ours.transform(WINE) == pytest.approx(theirs.transform(WINE), rel=1e-6, abs=1e-6)


def test_diagonal_and_log(capsys):
    model = NCA(diagonal=True, objective="log", verbose=1, max_iter=500).fit(WINE, WINES)
    assert np.array_equal(model.components_, np.diag(np.diag(model.components_)))
    assert model.solution_.objective < model.solution_.problem.objective(np.eye(13)) - 2
    assert model.solution_.certificate.program == "NCA, log"
    assert not model.solution_.certificate.proves_optimal(0.5)
    assert "[NCA]          1" in capsys.readouterr().out
    for wrong in ({"init": "pca"}, {"n_components": 2}):
        with pytest.raises(ValueError, match="diagonal"):
            NCA(diagonal=True, **wrong).fit(WINE, WINES)


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
