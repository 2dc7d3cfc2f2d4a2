"""Weights, heat maps and spectra of features, distances of pairs, and errors along a path."""

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import sdpmetric as sm
from sdpmetric import plotting
from sdpmetric.classification import knn_predict
from sdpmetric.estimators import LMNN, POLA, MultiMetricLMNN
from sdpmetric.plotting import DistancesDisplay, FeaturesDisplay, PathDisplay

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

NAMES = load_wine().feature_names
X, y = load_wine(return_X_y=True)
X = StandardScaler().fit_transform(X)


@pytest.fixture(scope="module")
def lmnn():
    return LMNN().fit(X, y)


@pytest.fixture(autouse=True)
def closed():
    yield
    matplotlib.pyplot.close("all")


def texts(labels):
    return [label.get_text() for label in labels]


def test_weights_matrix_and_spectrum_are_those_of_the_metric(lmnn):
    display = FeaturesDisplay.from_estimator(lmnn, names=NAMES)
    weights, matrix, spectrum = display.ax_
    np.testing.assert_allclose(display.weights, np.sqrt(np.diag(lmnn.metric_)))
    order = np.argsort(display.weights)
    assert texts(weights.get_yticklabels()) == [NAMES[i] for i in order]
    np.testing.assert_allclose([bar.get_width() for bar in weights.patches], display.weights[order])
    np.testing.assert_allclose(matrix.images[0].get_array(), lmnn.metric_)
    assert texts(matrix.get_xticklabels()) == NAMES
    values = np.linalg.eigvalsh(lmnn.metric_)[::-1]
    drawn = spectrum.lines[0].get_ydata()
    np.testing.assert_allclose(drawn, values[: len(drawn)])
    assert spectrum.get_title() == f"spectrum: rank {len(drawn)} of 13"
    display.figure_.canvas.draw()


def test_weights_are_of_standard_deviations_where_data_are_given(lmnn):
    scaled = FeaturesDisplay.from_solution(lmnn.solution_, 3 * X, parts=["weights"])
    np.testing.assert_allclose(scaled.weights, 3 * np.sqrt(np.diag(lmnn.metric_)))
    assert scaled.ax_[0].get_xlabel() == "learned length of one standard deviation"
    assert set(texts(scaled.ax_[0].get_yticklabels())) == {str(i) for i in range(13)}


def test_names_come_through_a_pipeline():
    pytest.importorskip("pandas")
    frame = load_wine(as_frame=True).data
    pipe = make_pipeline(StandardScaler(), LMNN(), KNeighborsClassifier()).fit(frame, y)
    assert FeaturesDisplay.from_estimator(pipe).names == NAMES
    reduced = make_pipeline(StandardScaler(), PCA(3), LMNN()).fit(frame, y)
    assert FeaturesDisplay.from_estimator(reduced).names == ["pca0", "pca1", "pca2"]
    one = FeaturesDisplay.from_estimator(LMNN().fit(frame, y), frame, parts=["matrix"])
    assert one.names == NAMES


def test_what_has_no_single_metric_is_refused(lmnn):
    with pytest.raises(ValueError, match="3 metrics"):
        FeaturesDisplay.from_estimator(MultiMetricLMNN(tol=1e-2).fit(X, y))
    with pytest.raises(ValueError, match="StandardScaler has no solution_"):
        FeaturesDisplay.from_estimator(StandardScaler().fit(X))
    with pytest.raises(ValueError, match="parts must be some of weights, matrix, spectrum"):
        FeaturesDisplay.from_estimator(lmnn, parts=["bars"])
    with pytest.raises(ValueError, match="X has 5 features and the metric 13"):
        FeaturesDisplay.from_estimator(lmnn, X[:, :5])


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
    assert DistancesDisplay.from_estimator(lmnn, X, y, threshold=1.25, parts=["histogram"]).threshold == 1.25
    with pytest.raises(ValueError, match="parts must be some of histogram, roc"):
        DistancesDisplay.from_estimator(lmnn, X, y, parts=[])


def test_errors_along_a_path():
    train, test = np.arange(0, 178, 2), np.arange(1, 178, 2)
    problem = sm.LMNNProblem.from_labels(X[train], y[train])
    solutions = sm.path(problem, push_weight=[0.1, 0.5, 0.9], tol=1e-2)
    display = PathDisplay.from_solutions(solutions, y[train], X[test], y[test])
    assert list(display.values) == [0.1, 0.5, 0.9]
    for solution, error in zip(solutions, display.test, strict=True):
        predicted = knn_predict(solution.components, X[train], y[train], X[test], 3)
        assert error == np.mean(predicted != y[test])
    assert display.best == display.values[np.argmin(display.test)]
    assert texts(display.ax_.texts) == [str(rank) for rank in display.ranks]
    with pytest.raises(ValueError, match="with the weight 'slack_weight'"):
        PathDisplay.from_solutions(solutions, y[train], X[test], y[test], weight="slack_weight")


def test_ten_classes_have_ten_hues():
    assert len(set(plotting.COLOURS)) >= 10
    with matplotlib.pyplot.style.context(plotting.STYLE):
        assert [entry["color"] for entry in matplotlib.rcParams["axes.prop_cycle"]] == list(plotting.COLOURS)
