"""The options of estimators: those they share, tested over all of them, and that every one arrives in its statement."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

import sdpmetric as sm
from sdpmetric import estimators
from sdpmetric.classification.nearest import knn_predict
from sdpmetric.estimators import ITML, LMNN, MMC, base
from sdpmetric.estimators.data import ENDPOINTS, divide_rows

RNG = np.random.default_rng(4)
Y = np.repeat([0, 1, 2], [20, 16, 12])
X = RNG.normal(size=(48, 4)) + np.outer(Y, [1.4, -0.9, 0.0, 0.0])
CLASSIFIERS = ("EnergyClassifier", "PairClassifier", "TripletClassifier", "QuadrupletClassifier")
MADE = {"SCML": estimators.SCML(bases=np.eye(4))}  # local discriminants take long
ALL = [MADE.get(name) or getattr(estimators, name)() for name in estimators.__all__ if name not in CLASSIFIERS]


def name_of(estimator) -> str:
    return type(estimator).__name__


def having(*options: str) -> list:
    """The estimators with these options, each with a loose tolerance where it has one."""
    return [clone(e) for e in ALL if set(options) <= set(e.get_params())]


def quiet(estimator, *arguments, **keywords):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", sm.UselessOptimumWarning)
        return estimator.fit(*arguments, **keywords)


@pytest.mark.parametrize("estimator", having("n_components"), ids=name_of)
def test_components_are_as_many_as_asked_for(estimator):
    fitted = quiet(clone(estimator).set_params(n_components=2), X, Y)
    Z = fitted.transform(X)
    assert Z.shape == (48, 2)
    assert len(fitted.get_feature_names_out()) == 2
    for wrong in (0, 2.5) if name_of(estimator) == "KernelLMNN" else (0, 5, 2.5):
        with pytest.raises((ValueError, TypeError), match="n_components"):
            quiet(clone(estimator).set_params(n_components=wrong), X[:, :4], Y)


@pytest.mark.parametrize("estimator", having("max_time"), ids=name_of)
def test_without_time_an_estimator_has_a_start_other_than_the_zero_metric(estimator):
    fitted = quiet(clone(estimator).set_params(max_time=1e-6), X, Y)
    certificate = fitted.solution_.certificate
    assert np.isfinite(fitted.transform(X)).all()
    assert fitted.components_.any()
    assert certificate.lower_bound <= certificate.objective < np.inf
    with pytest.raises(ValueError, match="max_time"):
        quiet(clone(estimator).set_params(max_time=-1.0), X, Y)


@pytest.mark.parametrize("estimator", having("warm_start", "tol"), ids=name_of)
def test_a_warm_start_is_the_last_metric(estimator, monkeypatch):
    starts = []

    def spy(problem, *arguments, **options):
        starts.append(options.get("init"))
        return solve(problem, *arguments, **options)

    solve = base.solve
    monkeypatch.setattr(base, "solve", spy)
    fitted = quiet(clone(estimator).set_params(warm_start=True), X, Y)
    last, first = np.array(fitted.solution_.components), fitted.solution_.objective
    quiet(fitted, X, Y)
    np.testing.assert_allclose(starts[-1], last)
    assert fitted.solution_.objective <= first + 1e-2 * abs(first)
    if name_of(estimator) != "SCML":  # its bases are of four features
        with pytest.raises(ValueError, match="warm_start=True"):
            quiet(fitted, X[:30, :3], Y[:30])


@pytest.mark.parametrize("estimator", having("early_stopping"), ids=name_of)
def test_early_stopping_holds_examples_back(estimator):
    y = X[:, 0] + Y if name_of(estimator) == "MLKR" else Y
    fitted = quiet(clone(estimator).set_params(early_stopping=True, validation_fraction=0.25, random_state=1), X, y)
    assert len(fitted.solution_.problem.X) == 36
    assert fitted.validation_score_ == np.nanmax(fitted.solution_.trace["score"])
    assert np.isfinite(fitted.transform(X)).all()
    unstopped = quiet(clone(fitted).set_params(early_stopping=False), X, y)
    assert len(unstopped.solution_.problem.X) == 48
    assert not hasattr(unstopped, "validation_score_")
    for wrong, value in (("validation_fraction", 0.0), ("n_iter_no_change", 0)):
        with pytest.raises(ValueError, match=wrong):
            quiet(clone(fitted).set_params(**{wrong: value}), X, y)


TRIPLETS = RNG.integers(0, 48, (600, 3))
TRIPLETS = TRIPLETS[
    (Y[TRIPLETS[:, 0]] == Y[TRIPLETS[:, 1]])
    & (Y[TRIPLETS[:, 0]] != Y[TRIPLETS[:, 2]])
    & (TRIPLETS[:, 0] != TRIPLETS[:, 1])
]
QUADRUPLETS = TRIPLETS[:, [0, 1, 0, 2]]
BASES = np.vstack([np.eye(4), RNG.normal(size=(6, 4))])
EARLY = {"early_stopping": True, "validation_fraction": 0.25}


PAIRS = np.stack(np.triu_indices(48, 1), axis=1)[::7]
SIMILAR = Y[PAIRS[:, 0]] == Y[PAIRS[:, 1]]
EARLY_TUPLES = [
    *((learner, PAIRS) for learner in (MMC(), ITML(), estimators.SDML(), estimators.POLA(), estimators.Adapter())),
    *((learner, TRIPLETS) for learner in (LMNN(), estimators.KernelLMNN(kernel="precomputed"), estimators.Adapter())),
    *((learner, QUADRUPLETS) for learner in (estimators.LSML(), estimators.SCML(bases=BASES))),
]


@pytest.mark.parametrize(("estimator", "tuples"), EARLY_TUPLES)
def test_early_stopping_holds_tuples_back(estimator, tuples):
    data, size = X @ X.T if name_of(estimator) == "KernelLMNN" else X, tuples.shape[1]
    answers = (SIMILAR,) if size == 2 else ()
    fitted = clone(estimator).set_params(**EARLY)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        getattr(fitted, {2: "fit_pairs", 3: "fit_triplets", 4: "fit_quadruplets"}[size])(data, tuples, *answers)
    assert fitted.validation_score_ == np.nanmax(fitted.solution_.trace["score"])
    held = divide_rows(len(tuples), 0.25, 0, *answers)[1]
    assert len(held) == -(-len(tuples) // 4)
    if size == 2:
        assert SIMILAR[held].mean() == pytest.approx(SIMILAR.mean(), abs=0.02)
        score = roc_auc_score(SIMILAR[held], -fitted.pair_distance(X, PAIRS[held]))
    else:
        first, second = (fitted.pair_distance(data, tuples[held][:, list(columns)]) for columns in ENDPOINTS[size])
        score = np.mean(first < second)
    assert score == pytest.approx(fitted.validation_score_)


FLOAT32 = pytest.param(sp.csc_matrix, np.float32, marks=pytest.mark.slow)


@pytest.mark.parametrize(("kind", "dtype"), [(sp.csr_array, np.float64), FLOAT32])
@pytest.mark.parametrize("estimator", ALL, ids=name_of)
def test_sparse_data_are_learned_from_as_dense_ones_are(estimator, kind, dtype):
    dense = np.where(np.abs(X) < 0.5, 0.0, X).astype(dtype)
    from_dense, from_sparse = quiet(clone(estimator), dense, Y), quiet(clone(estimator), kind(dense), Y)
    if hasattr(from_dense, "solution_"):
        assert str(from_dense.solution_.certificate) == str(from_sparse.solution_.certificate)
    np.testing.assert_array_equal(from_dense.components_, from_sparse.components_)
    Z = from_sparse.transform(kind(dense))
    assert Z.dtype == dtype
    assert isinstance(Z, np.ndarray)
    np.testing.assert_allclose(Z, from_dense.transform(dense), rtol=1e-4, atol=1e-4 * np.abs(Z).max())
    if name_of(estimator) != "MultiMetricLMNN":
        distances = from_sparse.pair_distance(kind(dense), [[0, 5]])
        np.testing.assert_allclose(distances, from_dense.pair_distance(dense, [[0, 5]]), rtol=1e-3)


@pytest.mark.parametrize("estimator", [e for e in ALL if name_of(e) not in ("MLKR", "Covariance")], ids=name_of)
def test_missing_labels_are_refused_with_advice(estimator):
    nothing, number = Y.astype(object), Y.astype(float)
    nothing[3], number[3] = None, np.nan
    for labels in (nothing, number):
        with pytest.raises(ValueError, match=r"(missing|NaN).* fit_pairs of ITML"):
            quiet(clone(estimator), X, labels)


STREAMS = ("LEGO", "FRML")  # items of a stream count once each


@pytest.mark.parametrize("estimator", ALL, ids=name_of)
def test_every_labeled_estimator_but_streams_takes_weights(estimator):
    y = X[:, 0] if name_of(estimator) == "MLKR" else Y
    weights = RNG.uniform(0.5, 2.0, size=48)
    weights[[3, 30]] = 0.0
    if name_of(estimator) in STREAMS:
        with pytest.raises(TypeError, match="sample_weight"):
            clone(estimator).fit(X, y, sample_weight=weights)
        return
    used = weights > 0.0
    weighted = quiet(clone(estimator), X, y, sample_weight=weights)
    subset = quiet(clone(estimator), X[used], y[used], sample_weight=weights[used])
    three, unweighted = quiet(clone(estimator), X, y, sample_weight=1.0), quiet(clone(estimator), X, y)
    for same, fitted in ((subset, weighted), (three, unweighted)):  # up to the order of sums
        np.testing.assert_allclose(fitted.components_, same.components_, rtol=1e-6, atol=1e-9)
    if hasattr(weighted, "solution_"):
        without = quiet(clone(estimator), X[used], y[used])
        assert weighted.solution_.problem.fingerprint() != without.solution_.problem.fingerprint()
    with pytest.raises(ValueError, match="sample_weight"):
        clone(estimator).fit(X, y, sample_weight=np.ones(47))


@pytest.mark.parametrize("estimator", ALL, ids=name_of)
def test_errors_of_numpy_that_a_user_asks_for_are_of_the_user_s_own_numbers(estimator):
    """Far examples are no neighbors at all: their shares underflow."""
    far, fitted = np.concatenate([X, 100.0 * X[:8]]), clone(estimator)
    limit = {"max_iter": 20} if "max_iter" in fitted.get_params() else {}
    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted.set_params(**limit).fit(far, np.concatenate([Y, Y[:8]]))
        assert np.isfinite(fitted.transform(far)).all()
        assert not hasattr(fitted, "score") or np.isfinite(fitted.score(far, np.concatenate([Y, Y[:8]])))


OF_LMNN = {"push_weight": 0.3, "ridge": 0.02, "loss": "squared_hinge"}
OF_ITML = {"gamma": 0.3, "prior": np.diag([0.5, 1.0, 3.0, 1.0]), "upper": 0.7, "lower": 4.0}
OF_FRML = {"n_components": 2, "loss": "auc", "gamma": 2.5, "regularization": 0.03}
ANSWERABLE = sm.Relevance.from_labels(Y, unanswerable="exclude")
POLY = {"kernel": "poly", "degree": 2, "coef0": 2.5, "gamma": 0.1} | OF_LMNN
KMEANS = {"regions": "kmeans", "n_regions": 2, "n_neighbors": 2, "random_state": 3} | OF_LMNN
# What is learned from; estimator, statement and settings of both.
GIVEN = {
    "fit": (X, Y),
    "fit_pairs": (X, PAIRS[:40], SIMILAR[:40]),
    "fit_triplets": (X, TRIPLETS[:9], np.linspace(0.5, 2.0, 9)),
}
SETTINGS = [
    ("fit", ITML, sm.ITMLProblem.from_labels, OF_ITML | {"n_pairs": 9, "random_state": 4}),
    ("fit", MMC, sm.MMCProblem.from_labels, {"n_pairs": 9, "random_state": 4}),
    ("fit", LMNN, sm.LMNNProblem.from_labels, OF_LMNN | {"n_neighbors": 2, "search": "brute"}),
    ("fit", estimators.KernelLMNN, sm.KernelLMNNProblem.from_labels, POLY | {"n_neighbors": 2}),
    ("fit", estimators.MultiMetricLMNN, sm.MultiMetricLMNNProblem.from_labels, KMEANS),
    ("fit", estimators.NCA, sm.NCAProblem, {"n_components": 2, "objective": "log"}),
    ("fit", estimators.NCA, sm.NCAProblem, {"diagonal": True}),
    ("fit", estimators.FRML, lambda X, y, **settings: sm.FRMLProblem(X, ANSWERABLE, **settings), OF_FRML),
    ("fit_pairs", MMC, sm.MMCProblem, {}),
    ("fit_pairs", ITML, sm.ITMLProblem, OF_ITML),
    ("fit_pairs", estimators.POLA, sm.POLAProblem, {"slack_weight": 0.3, "initial_threshold": 2.5}),
    ("fit_triplets", LMNN, sm.LMNNProblem.from_triplets, OF_LMNN),
    ("fit_triplets", estimators.KernelLMNN, sm.KernelLMNNProblem.from_triplets, POLY),
]


@pytest.mark.parametrize(("fit", "kind", "state", "settings"), SETTINGS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_settings_arrive_in_the_statement(fit, kind, state, settings):
    loose = {"tol": 0.5} if "tol" in kind().get_params() else {}
    stated, default = (
        getattr(kind(**options, **loose), fit)(*GIVEN[fit]).solution_.problem for options in (settings, {})
    )
    assert stated.fingerprint() == state(*GIVEN[fit], **settings).fingerprint()
    assert not settings or stated.fingerprint() != default.fingerprint()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_frml_s_start_and_patience_arrive():
    start = np.array([[1.0, 0.2, 0.0, 0.0], [0.0, 1.0, -0.4, 0.0]])
    problem = sm.FRMLProblem(X, sm.Relevance.from_labels(Y, unanswerable="exclude"), 2)
    lengths = set()
    for patience in (1, 9):
        fitted = estimators.FRML(2, init=start, n_iter_no_change=patience).fit(X, Y)
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
