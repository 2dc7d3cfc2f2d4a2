"""The classifier of least energy: what it keeps, what it refuses, and that it asks `energy` the right question."""

import pickle

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from sdpmetric.classification import energy
from sdpmetric.estimators import LMNN, EnergyClassifier, MultiMetricLMNN


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    names = np.array(["a", "b", "c"])[y]
    return train_test_split(StandardScaler().fit_transform(X), names, test_size=0.4, random_state=3, stratify=y)


@pytest.mark.parametrize("learner", [LMNN(push_weight=0.3), MultiMetricLMNN(push_weight=0.3), LMNN(n_passes=2)])
@pytest.mark.parametrize("dtype", [pytest.param(np.float32, marks=pytest.mark.slow), np.float64])
def test_it_asks_with_the_targets_and_the_weight_of_the_metric(learner, dtype, wine):
    X, X_test, y, y_test = wine
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


def test_a_pickle_classifies_alike_and_the_metric_given_is_left_alone(wine):
    X, X_test, y, _ = wine
    learner = LMNN()
    classifier = EnergyClassifier(learner).fit(X, y)
    assert not hasattr(learner, "components_")
    restored = pickle.loads(pickle.dumps(classifier))
    assert restored.estimator_.solution_.problem is None
    np.testing.assert_array_equal(restored.energies(X_test), classifier.energies(X_test))


def test_examples_held_back_are_left_out(wine):
    X, X_test, y, y_test = wine
    classifier = EnergyClassifier(LMNN(early_stopping=True, tol=1e-2, random_state=0)).fit(X, y)
    assert 60 < len(classifier.X_fit_) < len(X) == 106
    label_of = {tuple(row): label for row, label in zip(X, y, strict=True)}
    assert [label_of[tuple(row)] for row in classifier.X_fit_] == classifier.y_fit_.tolist()
    assert classifier.score(X_test, y_test) > 0.9
