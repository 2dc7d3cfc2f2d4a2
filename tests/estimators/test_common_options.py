"""The options that estimators share, tested over all of them: components, starts, limits, weights, refusals."""

from __future__ import annotations

import inspect
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

import sdpmetric as sm
from sdpmetric import estimators
from sdpmetric.estimators import ITML, LMNN, MCML, MMC, MultiMetricLMNN, base

RNG = np.random.default_rng(4)
Y = np.repeat([0, 1, 2], [20, 16, 12])
X = RNG.normal(size=(48, 4)) + np.outer(Y, [1.4, -0.9, 0.0, 0.0])
WITH_LEARNER = ("EnergyClassifier", "PairClassifier", "TripletClassifier", "QuadrupletClassifier")
ALL = [getattr(estimators, name)() for name in estimators.__all__ if name not in WITH_LEARNER]


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


def test_which_options_there_are():
    def names(option: str) -> set[str]:
        return {name_of(e) for e in having(option)}

    every = {name_of(e) for e in ALL}
    closed = {"RCA", "LFDA"}
    assert names("n_components") == every - {"MultiMetricLMNN", "LEGO"}  # a metric each; a stream
    assert names("max_time") == names("max_iter") == names("verbose") == every - closed
    assert names("warm_start") == {"LMNN", "KernelLMNN", "MultiMetricLMNN", "NCA", "MLKR", "MLR"}
    assert names("early_stopping") == {"LMNN", "MultiMetricLMNN"}
    for estimator in ALL:  # documented, each of them
        documented = inspect.getdoc(type(estimator)) or ""
        for option in estimator.get_params():
            assert option in documented, f"{name_of(estimator)} does not document {option}"


@pytest.mark.parametrize("estimator", having("n_components"), ids=name_of)
def test_components_are_as_many_as_asked_for(estimator):
    fitted = quiet(clone(estimator).set_params(n_components=2), X, Y)
    Z = fitted.transform(X)
    assert Z.shape == (48, 2)
    assert len(fitted.get_feature_names_out()) == 2
    if name_of(estimator) in ("MMC", "ITML", "MCML", "POLA", "RCA", "MLR"):
        whole = X @ fitted.solution_.components.T
        spread = np.linalg.svd(whole - whole.mean(axis=0), compute_uv=False)
        found = np.linalg.svd(Z - Z.mean(axis=0), compute_uv=False)
        np.testing.assert_allclose(found, spread[:2], rtol=1e-6)
    for wrong in (0, 2.5) if name_of(estimator) == "KernelLMNN" else (0, 5, 2.5):
        with pytest.raises((ValueError, TypeError), match="n_components"):
            quiet(clone(estimator).set_params(n_components=wrong), X[:, :4], Y)


@pytest.mark.parametrize("estimator", having("max_time"), ids=name_of)
def test_a_limit_on_time_leaves_a_fitted_estimator(estimator):
    fitted = quiet(clone(estimator).set_params(max_time=1e-6), X, Y)
    assert np.isfinite(fitted.transform(X)).all()
    with pytest.raises(ValueError, match="max_time"):
        quiet(clone(estimator).set_params(max_time=-1.0), X, Y)


@pytest.mark.parametrize("estimator", having("warm_start", "tol"), ids=name_of)
def test_a_warm_start_is_the_last_metric(estimator, monkeypatch):
    starts = []

    def spy(problem, *arguments, **options):
        starts.append(options.get("start"))
        return solve(problem, *arguments, **options)

    solve = base.solve
    monkeypatch.setattr(base, "solve", spy)
    fitted = quiet(clone(estimator).set_params(warm_start=True), X, Y)
    last, first = np.array(fitted.solution_.components), fitted.solution_.objective
    quiet(fitted, X, Y)
    np.testing.assert_allclose(starts[-1], last)
    assert fitted.solution_.objective <= first + 1e-2 * abs(first)
    with pytest.raises(ValueError, match="warm_start=True"):
        quiet(fitted, X[:30, :3], Y[:30])


def test_components_to_start_from(monkeypatch):
    starts = []
    solve = base.solve
    monkeypatch.setattr(base, "solve", lambda *a, **o: starts.append(o.get("start")) or solve(*a, **o))
    given = np.eye(4)[:3]
    LMNN(init=given).fit(X, Y)
    np.testing.assert_array_equal(starts[-1], given)
    with pytest.raises(ValueError, match="start"):
        LMNN(init=np.eye(3)).fit(X, Y)


@pytest.mark.parametrize(("kind", "dtype"), [(sp.csr_array, np.float64), (sp.csc_matrix, np.float32)])
@pytest.mark.parametrize("estimator", ALL, ids=name_of)
def test_sparse_data_are_learned_from_as_dense_ones_are(estimator, kind, dtype):
    dense = np.where(np.abs(X) < 0.5, 0.0, X).astype(dtype)
    one, two = quiet(clone(estimator), dense, Y), quiet(clone(estimator), kind(dense), Y)
    assert str(one.solution_.certificate) == str(two.solution_.certificate)
    np.testing.assert_array_equal(one.components_, two.components_)
    Z = two.transform(kind(dense))
    assert Z.dtype == dtype
    assert isinstance(Z, np.ndarray)
    np.testing.assert_allclose(Z, one.transform(dense), rtol=1e-4, atol=1e-4 * np.abs(Z).max())
    if name_of(estimator) != "MultiMetricLMNN":
        found = two.pair_distance(kind(dense), [[0, 5]])
        np.testing.assert_allclose(found, one.pair_distance(dense, [[0, 5]]), rtol=1e-3)


def test_streams_queries_predictions_and_pairs_take_sparse_data():
    S = sp.csr_array(X)
    stream, other = estimators.POLA().partial_fit(S, Y), estimators.POLA().partial_fit(X, Y)
    np.testing.assert_array_equal(stream.components_, other.components_)
    relevant = [np.flatnonzero(y == Y) for y in (0, 1)]
    ranked = [estimators.MLR().fit_relevance(data, relevant, queries=data[:2]) for data in (S, X)]
    np.testing.assert_array_equal(ranked[0].components_, ranked[1].components_)
    for classifier in (MultiMetricLMNN(), estimators.EnergyClassifier()):
        classifier.fit(S, Y)
        np.testing.assert_array_equal(classifier.predict(S), classifier.predict(X))
    pairs, similar = [[0, 1], [2, 3], [0, 40], [1, 30]], [1, 1, -1, -1]
    one, two = (estimators.PairClassifier(ITML(), examples=data).fit(pairs, similar) for data in (S, X))
    np.testing.assert_array_equal(one.decision_function(pairs), two.decision_function(pairs))


def test_sparse_data_that_are_too_large_are_refused_with_advice():
    wide = sp.csr_array((48, 12_000))
    for estimator in (LMNN(), estimators.POLA(), estimators.EnergyClassifier()):
        with pytest.raises(ValueError, match=r"X is sparse, 48 x 12,000, .*TruncatedSVD"):
            estimator.fit(wide, Y)


@pytest.mark.parametrize("estimator", [e for e in ALL if name_of(e) != "MLKR"], ids=name_of)
def test_missing_labels_are_refused_with_advice(estimator):
    nothing, number, minus = Y.astype(object), Y.astype(float), Y.copy()
    nothing[3], number[3], minus[3] = None, np.nan, -1
    for labels in (nothing, number, minus):
        with pytest.raises(ValueError, match=r"(missing|NaN|unlabelled).* fit_pairs of ITML"):
            quiet(clone(estimator), X, labels)
    quiet(clone(estimator), X, np.where(Y == 0, -1, 1))  # two classes


WEIGHTED = [LMNN(tol=1e-2), MultiMetricLMNN(tol=1e-2), estimators.KernelLMNN(tol=1e-2)]


@pytest.mark.parametrize("estimator", WEIGHTED, ids=name_of)
def test_weights_reach_the_statement(estimator):
    weights = RNG.uniform(0.5, 2.0, size=48)
    fitted = clone(estimator).fit(X, Y, sample_weight=weights)
    np.testing.assert_array_equal(fitted.solution_.problem.source.example_weights, weights)
    plain = clone(estimator).fit(X, Y)
    same = clone(estimator).fit(X, Y, sample_weight=np.ones(48))
    assert plain.solution_.problem.fingerprint() == same.solution_.problem.fingerprint()
    assert plain.solution_.problem.fingerprint() != fitted.solution_.problem.fingerprint()
    with pytest.raises(ValueError, match="sample_weight"):
        clone(estimator).fit(X, Y, sample_weight=np.ones(47))


def test_weights_follow_the_rows_that_are_learned_from():
    weights = np.arange(1.0, 49.0)
    early = LMNN(early_stopping=True, n_passes=2, random_state=1, tol=1e-2)
    quiet(early, X, Y, sample_weight=weights)
    for solution in early.solutions_:
        problem = solution.problem
        rows = [int(np.flatnonzero((row == X).all(axis=1))[0]) for row in problem.X]
        np.testing.assert_array_equal(problem.source.example_weights, weights[rows])


def test_weights_go_through_pipelines():
    weights = RNG.uniform(0.5, 2.0, size=48)
    alone = LMNN(tol=1e-2).fit(X, Y, sample_weight=weights)
    pipe = make_pipeline(LMNN(tol=1e-2), KNeighborsClassifier(3)).fit(X, Y, lmnn__sample_weight=weights)
    np.testing.assert_array_equal(pipe[0].components_, alone.components_)
    with sklearn.config_context(enable_metadata_routing=True):
        learner = LMNN(tol=1e-2).set_fit_request(sample_weight=True)
        routed = make_pipeline(learner, KNeighborsClassifier(3)).fit(X, Y, sample_weight=weights)
    np.testing.assert_array_equal(routed[0].components_, alone.components_)


@pytest.mark.parametrize("estimator", [MMC(), ITML(), MCML()], ids=name_of)
def test_what_takes_no_weights_says_so(estimator):
    with pytest.raises(TypeError, match="sample_weight"):
        estimator.fit(X, Y, sample_weight=np.ones(48))
