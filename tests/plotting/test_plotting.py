"""Pictures show what they say: counts, places and limits of what is drawn, and sentences where nothing can be."""

from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.collections import PathCollection, PolyCollection
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import sdpmetric as sm
from sdpmetric import datasets
from sdpmetric.classification import knn_predict
from sdpmetric.core.steps import Trace, TraceRow
from sdpmetric.estimators import LMNN, POLA
from sdpmetric.plotting import ConvergenceDisplay, DistancesDisplay, EmbeddingDisplay


@pytest.fixture(autouse=True)
def agg():
    mpl.use("Agg")
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def stripes():
    """Five stripes of two classes in turn: neighbors along a stripe are farther than across."""
    rng, stripe = np.random.default_rng(2), np.repeat(np.arange(5), 12)
    along = 0.9 * (np.tile(np.arange(12), 5) + 5 * rng.random(5)[stripe])
    return np.stack([along, stripe], axis=1) + 0.12 * rng.normal(size=(60, 2)), stripe % 2


@pytest.fixture(scope="module")
def learned(stripes):
    return LMNN(n_neighbors=2).fit(*stripes)


@pytest.fixture(scope="module")
def wine():
    X, y = datasets.load("wine")
    return datasets.standardize(X), np.array(["a", "b", "c"])[y]


@pytest.fixture(scope="module")
def solved(wine):
    return sm.solve(sm.LMNNProblem.from_labels(*wine, 3, 0.3))


def with_components(solution, L):
    return replace(solution, components=np.asarray(L, dtype=float))


def impostors_by_hand(Z, X, y, k):
    """Pairs (i, l): l of another class, no further in Z than the furthest of the k target neighbors, which X names."""
    D, E = (((P[:, None] - P[None]) ** 2).sum(axis=2) for P in (X, Z))
    pairs = set()
    for i in range(len(y)):
        same = [j for j in np.argsort(D[i], kind="stable") if y[j] == y[i] and j != i][:k]
        pairs |= {(i, int(l)) for l in range(len(y)) if y[l] != y[i] and E[i, l] <= E[i, same].max()}
    return pairs


def scatters(ax):
    return {c.get_label(): c for c in ax.collections if isinstance(c, PathCollection)}


def test_embedding_draws_all_examples_and_rings_the_impostors(stripes, learned):
    X, y = stripes
    display = EmbeddingDisplay.from_estimator(learned, X, y, n_neighbors=2)
    Z = learned.transform(X)
    for ax, view, P, stage in zip(
        display.ax_, (display.before, display.after), (X, Z), ("before", "after"), strict=True
    ):
        expected = impostors_by_hand(P, X, y, 2)
        assert set(zip(*map(np.ndarray.tolist, np.nonzero(view.impostors(np.arange(60)))), strict=True)) == expected
        rings = len({l for _, l in expected})
        drawn = scatters(ax)
        assert [len(drawn[name].get_offsets()) for name in ("0", "1", "impostor")] == [36, 24, rings]
        title, scores = ax.get_title().split("\n", 1)
        assert title == f"{stage}: {rings} of 60 examples are impostors"
        accuracy = np.mean(knn_predict(np.eye(P.shape[1]), P, y, n_neighbors=2) == y)
        assert scores.startswith(f"{accuracy:.1%} training accuracy of nearest neighbors")
        assert ("relative gap" in scores) == (stage == "after")
    assert display.after.invaders.sum() < display.before.invaders.sum()
    np.testing.assert_array_equal(display.before.points, X)


def test_before_is_what_the_metric_of_a_pipeline_receives(wine):
    X, y = load_wine(return_X_y=True)
    pipeline = make_pipeline(StandardScaler(), LMNN(), KNeighborsClassifier(3)).fit(X, y)
    scaled = pipeline[0].transform(X)
    drawn = EmbeddingDisplay.from_estimator(pipeline, X, y)
    assert drawn.before.invaders.sum() == len({l for _, l in impostors_by_hand(scaled, scaled, y, 3)})
    display = DistancesDisplay.from_estimator(pipeline[1], scaled, y, random_state=0)
    np.testing.assert_allclose(DistancesDisplay.from_estimator(pipeline, X, y, random_state=0).areas, display.areas)
    final = make_pipeline(StandardScaler(), PCA(5), NeighborhoodComponentsAnalysis(max_iter=1, random_state=0))
    assert EmbeddingDisplay.from_estimator(final.fit(X, y), X, y).ax_[0].get_xlabel() == "first principal component"


def test_one_dimension_is_a_strip_for_each_class(wine):
    X, y = wine
    line = EmbeddingDisplay.from_estimator(LMNN().fit(X[:, :1], y), X[:, :1], y)
    assert sorted(set(line.after.points[:, 1])) == [0, 1, 2]
    assert texts(line.ax_[1].get_yticklabels()) == ["a", "b", "c"]


class Several:
    components_ = np.ones((2, 1, 13))


@pytest.mark.parametrize(
    ("draw", "sentence"),
    [
        (lambda s, X, y: EmbeddingDisplay.from_solution(s, X, y[:-1]), "177 entries"),
        (lambda s, X, y: EmbeddingDisplay.from_solution(s, X[:, 1:], y), "X has 12 features, and the metric has 13"),
        (lambda s, X, y: EmbeddingDisplay.from_solution(s, X, y, example=178), "example must be a row from 0 to 177"),
        (lambda s, X, y: EmbeddingDisplay.from_solution(s, X, y, n_neighbors=90), "n_neighbors=90"),
        (lambda s, X, y: EmbeddingDisplay.from_solution(s, X, y, ax=[pyplot.gca()]), "2 parts; .* got 1"),
        (lambda s, X, y: EmbeddingDisplay.from_solution(with_components(s, np.ones((2, 1, 13))), X, y), "2 metrics"),
        (lambda s, X, y: EmbeddingDisplay.from_estimator(Several(), X, y), "Several has no single embedding"),
        (lambda s, X, y: ConvergenceDisplay.from_estimator(PCA().fit(X)), "PCA has no solution_"),
        (lambda s, X, y: ConvergenceDisplay.from_trace(Trace()), "the trace is empty"),
        (lambda s, X, y: ConvergenceDisplay.from_estimator(LMNN()), "not fitted"),
        (lambda s, X, y: ConvergenceDisplay.from_solution(s, against="time"), "against must be 'seconds' or"),
    ],
)
def test_what_cannot_be_drawn_is_explained(solved, wine, draw, sentence):
    with pytest.raises(ValueError, match=sentence):
        draw(solved, *wine)


NAMES = load_wine().feature_names
X, y = load_wine(return_X_y=True)
X = StandardScaler().fit_transform(X)


@pytest.fixture(scope="module")
def lmnn():
    return LMNN().fit(X, y)


def texts(labels):
    return [label.get_text() for label in labels]


def test_distances_histogram_threshold_and_roc(lmnn):
    display = DistancesDisplay.from_estimator(lmnn, X, y, n_pairs=None)
    i, j = np.triu_indices(len(y), 1)
    Z = lmnn.transform(X)
    areas = [roc_auc_score(y[i] != y[j], np.linalg.norm(P[i] - P[j], axis=1)) for P in (X, Z)]
    np.testing.assert_allclose(display.areas, areas)
    histogram, roc = display.ax_
    assert texts(roc.get_legend().get_texts()) == [f"before, area {areas[0]:.3f}", f"after, area {areas[1]:.3f}"]
    balanced = [
        np.mean(display.after[display.similar] <= t) + np.mean(display.after[~display.similar] > t)
        for t in np.quantile(display.after, np.linspace(0.01, 0.99, 50))
    ]
    reached = np.mean(display.after[display.similar] <= display.threshold)
    reached += np.mean(display.after[~display.similar] > display.threshold)
    assert reached >= max(balanced) - 2 / display.similar.sum()
    assert f"threshold {display.threshold:.3g}" in texts(histogram.get_legend().get_texts())
    display.figure_.canvas.draw()


def test_a_threshold_that_was_learned_or_given_is_drawn(lmnn):
    pola = POLA(n_pairs=200).fit(X, y)
    learned = DistancesDisplay.from_solution(pola.solution_, X, y, n_pairs=500, random_state=0)
    assert learned.threshold == pytest.approx(np.sqrt(pola.solution_.extras["threshold"]))
    assert DistancesDisplay.from_estimator(lmnn, X, y, threshold=1.25).threshold == 1.25


def trace(*rows):
    return Trace([TraceRow(i, *row) for i, row in enumerate(rows)])


def test_convergence_draws_the_best_so_far_and_its_gap():
    rows = trace((0.5, 9.0, -np.inf), (1.0, 5.0, 3.0), (1.5, 6.0, 2.0), (2.0, np.inf, 4.0), (2.5, 4.5, 4.4))
    display = ConvergenceDisplay.from_trace(rows, name="ours")
    values, gaps = display.ax_
    curves = {line.get_label(): line.get_xydata().tolist() for line in values.lines}
    assert curves["ours: objective"] == [[0.5, 9], [1, 5], [1.5, 5], [2, 5], [2.5, 4.5]]
    assert curves["ours: lower bound"] == [[1, 3], [1.5, 3], [2, 4], [2.5, 4.4]]
    np.testing.assert_allclose(gaps.lines[0].get_ydata(), [2 / 5, 2 / 5, 1 / 5, 0.1 / 4.5])
    assert gaps.get_yscale() == "log"
    assert gaps.get_xlabel() == "seconds"
    assert values.get_xlim()[0] == 0
    assert sum(isinstance(c, PolyCollection) for c in values.collections) == 1
    assert display.gap[0] == np.inf


def test_curves_say_where_there_is_no_bound_and_where_no_gap():
    none = ConvergenceDisplay.from_trace(trace((1.0, 5.0, -np.inf), (2.0, 4.0, np.nan)), kind="stationarity")
    assert texts(none.ax_[1].texts) == ["no lower bound"]
    ConvergenceDisplay.from_trace(trace((1.0, 4.0, 4.0)), ax=none.ax_)
    assert texts(none.ax_[1].texts) == ["the gap is 0"]
