"""Every setting of an estimator arrives in its statement or its solver: none is dropped on the way."""

import numpy as np
import pytest
from sklearn.model_selection import train_test_split

import sdpmetric as sm
from sdpmetric.classification.nearest import knn_predict
from sdpmetric.estimators import FRML, ITML, LMNN, MMC, NCA, POLA, KernelLMNN, MultiMetricLMNN

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
RNG = np.random.default_rng(8)
Y = RNG.choice(3, 40, p=[0.5, 0.3, 0.2])
X = RNG.normal(size=(40, 3)) + np.outer(Y, [1.5, 0.0, 0.7])
PRIOR = np.diag([0.5, 1.0, 3.0])
ITML_ = {"gamma": 0.3, "prior": PRIOR, "upper": 0.7, "lower": 4.0}
POLY = {"kernel": "poly", "degree": 2, "coef0": 2.5, "gamma": 0.1, "ridge": 0.2, "loss": "squared_hinge"}
LMNN_SETTINGS = {"push_weight": 0.3, "ridge": 0.02, "loss": "squared_hinge"}


@pytest.mark.parametrize(
    ("estimator", "state"),
    [
        (
            ITML(**ITML_, n_pairs=9, random_state=4),
            lambda: sm.ITMLProblem.from_labels(X, Y, 9, **ITML_, random_state=4),
        ),
        (MMC(n_pairs=9, random_state=4), lambda: sm.MMCProblem.from_labels(X, Y, 9, random_state=4)),
        (
            LMNN(n_neighbors=2, search="brute", **LMNN_SETTINGS),
            lambda: sm.LMNNProblem.from_labels(X, Y, 2, 0.3, ridge=0.02, loss="squared_hinge", search="brute"),
        ),
        (
            KernelLMNN(n_neighbors=2, push_weight=0.3, **POLY),
            lambda: sm.KernelLMNNProblem.from_labels(X, Y, 2, 0.3, **POLY),
        ),
        (
            MultiMetricLMNN(regions="kmeans", n_regions=2, n_neighbors=2, random_state=3, **LMNN_SETTINGS),
            lambda: sm.MultiMetricLMNNProblem.from_labels(
                X, Y, 2, regions="kmeans", n_regions=2, random_state=3, **LMNN_SETTINGS
            ),
        ),
        (NCA(2, objective="log"), lambda: sm.NCAProblem(X, Y, 2, "log")),
        (NCA(diagonal=True), lambda: sm.NCAProblem(X, Y, diagonal=True)),
        (
            FRML(2, loss="auc", gamma=2.5, regularization=0.03, passes=2),
            lambda: sm.FRMLProblem(X, sm.Relevance.from_labels(Y, unanswerable="exclude"), 2, "auc", 2.5, 0.03),
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_settings_are_those_of_the_statement(estimator, state):
    if "tol" in estimator.get_params():
        estimator.set_params(tol=0.5)
    fitted = estimator.fit(X, Y)
    assert fitted.solution_.problem.fingerprint() == state().fingerprint()
    default = type(estimator)().set_params(**({"tol": 0.5} if "tol" in estimator.get_params() else {})).fit(X, Y)
    assert default.solution_.problem.fingerprint() != state().fingerprint()


PAIRS = np.array([[0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [10, 11]])
WITH_PAIRS = (X, PAIRS, Y[PAIRS[:, 0]] == Y[PAIRS[:, 1]])
WITH_TRIPLETS = (X, [[0, 1, 2], [3, 4, 5], [6, 7, 8]], [1.0, 2.0, 0.5])


@pytest.mark.parametrize(
    ("fitted", "state"),
    [
        (lambda: MMC(tol=0.5).fit_pairs(*WITH_PAIRS), lambda: sm.MMCProblem(*WITH_PAIRS)),
        (lambda: ITML(tol=0.5, **ITML_).fit_pairs(*WITH_PAIRS), lambda: sm.ITMLProblem(*WITH_PAIRS, **ITML_)),
        (
            lambda: POLA(slack_weight=0.3, initial_threshold=2.5).fit_pairs(*WITH_PAIRS),
            lambda: sm.POLAProblem(*WITH_PAIRS, 0.3, 2.5),
        ),
        (
            lambda: LMNN(push_weight=0.3, tol=0.5, ridge=0.1).fit_triplets(*WITH_TRIPLETS),
            lambda: sm.LMNNProblem.from_triplets(*WITH_TRIPLETS, 0.3, ridge=0.1),
        ),
        (
            lambda: KernelLMNN(push_weight=0.3, tol=0.5, **POLY).fit_triplets(*WITH_TRIPLETS),
            lambda: sm.KernelLMNNProblem.from_triplets(*WITH_TRIPLETS, 0.3, **POLY),
        ),
    ],
)
def test_pairs_and_triplets_state_the_problem_that_they_are_for(fitted, state):
    assert fitted().solution_.problem.fingerprint() == state().fingerprint()


def test_frml_s_start_and_patience_arrive():
    start = np.array([[1.0, 0.2, 0.0], [0.0, 1.0, -0.4]])
    problem = sm.FRMLProblem(X, sm.Relevance.from_labels(Y, unanswerable="exclude"), 2)
    lengths = set()
    for patience in (1, 9):
        fitted = FRML(2, init=start, n_iter_no_change=patience).fit(X, Y)
        solution = sm.solve(problem, init=start, stop_after=patience, random_state=0)
        np.testing.assert_array_equal(fitted.solution_.components, solution.components)
        lengths.add(len(fitted.solution_.trace))
    assert len(lengths) == 2


def test_the_validation_score_is_that_of_the_metric_that_was_kept():
    rng = np.random.default_rng(5)
    y = np.repeat([0, 1, 2], [30, 24, 18])
    data = rng.normal(size=(72, 4)) + np.outer(y, [1.2, 0.0, 0.6, 0.0])
    lmnn = LMNN(n_passes=3, early_stopping=True, validation_fraction=0.3, random_state=2).fit(data, y)
    rows, held = train_test_split(np.arange(72), test_size=0.3, random_state=2, stratify=y)
    rows = np.sort(rows)

    def accuracy(components: np.ndarray) -> float:
        return float(np.mean(knn_predict(components, data[rows], y[rows], data[held], 3) == y[held]))

    passes = [accuracy(solution.components) for solution in lmnn.solutions_]
    assert passes[-1] < max(passes)
    assert lmnn.validation_score_ == accuracy(lmnn.components_) == max(passes)
