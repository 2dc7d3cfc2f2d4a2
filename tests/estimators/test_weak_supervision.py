"""Estimators beyond labels: pairs, triplets, streams, regions, least energy."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from instances import assert_close, assert_same
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale

import sdpmetric as sm
from sdpmetric.classification import energy
from sdpmetric.estimators import FRML, LEGO, LMNN, POLA, EnergyClassifier, MultiMetricLMNN


@pytest.mark.parametrize(
    "learner", [POLA(gamma=0.3, initial_threshold=2.5), LEGO(learning_rate=0.01, upper=2.0, lower=30.0)]
)
def test_batches_go_on_where_the_last_one_ended(learner, data):
    X, y = data[0] / [1, 10, 1, 1], data[1]
    pairs = np.random.default_rng(1).integers(0, 60, (200, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    similar = y[pairs[:, 0]] == y[pairs[:, 1]]
    once = clone(learner).partial_fit_pairs(X, pairs, similar)
    twice = pickle.loads(pickle.dumps(clone(learner).partial_fit_pairs(X, pairs[:70], similar[:70])))
    twice.partial_fit_pairs(X, pairs[70:], similar[70:])
    assert_close(twice.metric_, once.metric_)
    assert twice.n_iter_ == len(pairs)
    assert not hasattr(twice, "solution_")
    if isinstance(learner, POLA):
        stream = sm.POLAStream(4, 2.5, 0.3).partial_fit(X, pairs, similar)
        assert_close(once.metric_, stream.metric)
        assert_same(once.threshold_, stream.threshold)
        np.testing.assert_array_equal(once.predict_pairs(X, pairs), stream.predict(X, pairs))
    with pytest.raises(ValueError, match="features"):
        twice.partial_fit_pairs(X[:, :3], pairs, similar)
    assert not hasattr(twice.fit(X, y), "stream_")
    assert twice.solution_.problem is not None


def test_several_metrics_classify_by_their_own_distance(data):
    X, y = data
    several = MultiMetricLMNN(push_weight=0.3).fit(X[:40], y[:40])
    problem = sm.MultiMetricLMNNProblem.from_labels(X[:40], y[:40], 3, 0.3, ridge="auto")
    assert several.solution_.problem.fingerprint() == problem.fingerprint()
    distances, rows = several.kneighbors(X[40:], 2)
    metrics = dict(zip(several.region_names_, several.metrics_, strict=True))
    gap = X[40:, None] - X[None, :40]
    D = np.stack([np.einsum("id,de,ie->i", gap[:, j], metrics[y[j]], gap[:, j]) for j in range(40)], axis=1)
    np.testing.assert_allclose(distances, np.sqrt(np.sort(D, axis=1)[:, :2]), rtol=1e-6)
    np.testing.assert_array_equal(rows[:, 0], D.argmin(axis=1))
    assert several.score(X, y) > 0.8
    c, r = several.components_.shape[:2]
    Z = several.transform(X)
    assert Z.shape == (60, c * r)
    np.testing.assert_allclose(Z[:, r : 2 * r], X @ several.components_[1].T)
    with pytest.raises(AttributeError, match="take one of metrics_"):
        _ = several.metric_
    with pytest.raises(ValueError, match="region of its second member"):
        several.pair_distance(X, [[0, 1]])


def test_regions_are_metadata_that_a_pipeline_passes_on(data):
    X, y = data
    regions = np.where(X[:, 0] > np.median(X[:, 0]), "high", "low")
    with sklearn.config_context(enable_metadata_routing=True):
        step = MultiMetricLMNN(n_neighbors=2).set_fit_request(regions=True)
        pipe = make_pipeline(StandardScaler(), step).fit(X, y, regions=regions)
        assert list(pipe[-1].region_names_) == ["high", "low"]
        assert [pipe[-1].region_names_[r] for r in pipe[-1].regions_] == regions.tolist()
        early = clone(step).set_params(early_stopping=True).fit(X, y, regions=regions)
        rows = [np.flatnonzero((x == X).all(axis=1))[0] for x in early.X_fit_]
        assert [early.region_names_[r] for r in early.regions_] == regions[rows].tolist()
    with pytest.raises(ValueError, match="regions"):
        MultiMetricLMNN().fit(X, y, regions=regions[:5])


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    return scale(X), y


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_relevance_by_lists_and_by_matrix_is_the_same(wine):
    X, y = wine
    lists = [np.flatnonzero((y == c) & (np.arange(len(y)) != i)) for i, c in enumerate(y)]
    matrix = sp.csr_array((y[:, None] == y[None]) & ~np.eye(len(y), dtype=bool))
    learner = FRML(n_components=2, passes=3, random_state=4)
    fitted = clone(learner).fit(X, y)
    for relevance in (lists, matrix, sm.Relevance.from_labels(y)):
        np.testing.assert_allclose(clone(learner).fit_relevance(X, relevance).components_, fitted.components_)
    apart = clone(learner).fit_relevance(X, [np.flatnonzero(y == c) for c in range(3)], X[[0, 60, 140]] + 0.1)
    assert apart.solution_.problem.relevance.n_queries == 3
    assert fitted.solution_.certificate.kind == "stationarity"
    assert not fitted.solution_.certificate.proves_optimal(0.9)


@pytest.mark.parametrize("estimator", [POLA, LEGO])
def test_batches_differ_in_order_and_may_have_no_pairs(estimator, wine):
    X, y = wine
    with pytest.raises(ValueError, match="first batch has no pairs of different examples"):
        estimator().partial_fit(X[:1], y[:1])
    learner = estimator().partial_fit(X[:30], y[:30])
    index = np.unique(y[:30], return_inverse=True)[1]
    first, second = (each._drawn(X[:30], index)[0].tolist() for each in (estimator(), learner))
    assert (first == second, sorted(first) == sorted(second)) == (False, True)  # the next batch has another order
    before = learner.components_.copy()
    assert learner.partial_fit(X[30:31], y[30:31]) is learner
    np.testing.assert_array_equal(learner.components_, before)
    with pytest.raises(ValueError, match="y mixes labels that have no order"):
        learner.partial_fit(X[:2], np.array(["a", 1], dtype=object))


@pytest.fixture(scope="module")
def split_wine():
    X, y = load_wine(return_X_y=True)
    names = np.array(["a", "b", "c"])[y]
    return train_test_split(StandardScaler().fit_transform(X), names, test_size=0.4, random_state=3, stratify=y)


@pytest.mark.parametrize("learner", [LMNN(push_weight=0.3), MultiMetricLMNN(push_weight=0.3), LMNN(n_passes=2)])
@pytest.mark.parametrize("dtype", [pytest.param(np.float32, marks=pytest.mark.slow), np.float64])
def test_it_asks_with_the_targets_and_the_weight_of_the_metric(learner, dtype, split_wine):
    X, X_test, y, y_test = split_wine
    classifier = EnergyClassifier(learner).fit(X.astype(dtype), y)
    metric = classifier.estimator_
    problem = metric.solution_.problem
    several = isinstance(metric, MultiMetricLMNN)
    expected = energy.energies(
        metric.components_,
        X.astype(dtype),
        y,
        X_test.astype(dtype),
        target_neighbors=problem.source.targets,
        push_weight=learner.push_weight,
        regions=problem.regions if several else None,
    )
    np.testing.assert_array_equal(classifier.energies(X_test.astype(dtype)), expected)
    predicted = classifier.predict(X_test.astype(dtype))
    np.testing.assert_array_equal(predicted, np.array(["a", "b", "c"])[expected.argmin(axis=1)])
    assert np.mean(predicted == y_test) > 0.93
    assert classifier.X_fit_.dtype == dtype


def test_examples_held_back_are_left_out(split_wine):
    X, X_test, y, y_test = split_wine
    classifier = EnergyClassifier(LMNN(early_stopping=True, tol=1e-2, random_state=0)).fit(X, y)
    assert 60 < len(classifier.X_fit_) < len(X) == 106
    label_of = {tuple(row): label for row, label in zip(X, y, strict=True)}
    assert [label_of[tuple(row)] for row in classifier.X_fit_] == classifier.y_fit_.tolist()
    assert classifier.score(X_test, y_test) > 0.9
