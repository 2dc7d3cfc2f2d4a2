"""Streams as river's transformers: river's own checks, and what they learn."""

import doctest

import numpy as np
import pytest

import sdpmetric as sm

river = pytest.importorskip("river")
checks, compose, preprocessing, stream = (
    pytest.importorskip(f"river.{name}") for name in ("checks", "compose", "preprocessing", "stream")
)
adapter = pytest.importorskip("sdpmetric.adapters.river")

LONG = [("ImageSegments", 1000), ("Phishing", 400)]
TRANSFORMERS = [adapter.POLATransformer(seed=1), adapter.LEGOTransformer(seed=1)]
CASES = [
    pytest.param(transformer, check, id=f"{type(transformer).__name__}-{getattr(check, '__name__', check)}")
    for transformer in TRANSFORMERS
    for check in checks.yield_checks(transformer)
]


def name_of(transformer) -> str:
    return type(transformer).__name__


@pytest.mark.parametrize(("transformer", "check"), CASES)
def test_passes_the_checks_of_river(transformer, check):
    check(transformer.clone())


def test_the_stream_of_the_package_takes_the_same_pairs():
    transformer = adapter.POLATransformer(gamma=0.5, memory=1, seed=0)
    stream = sm.POLAStream(2, gamma=0.5)
    rows = [({"a": 0.0, "b": 1.0}, 0), ({"a": 0.2, "b": 3.0}, 0), ({"a": 2.0, "b": 1.5}, 1)]
    for x, label in rows:
        transformer.learn_one(x, label)
    X = [list(x.values()) for x, _ in rows]
    stream.partial_fit(X, [[1, 0], [2, 1]], [True, False])
    z = np.array([list(transformer.transform_one(x).values()) for x, _ in rows])
    expected = np.asarray(X) @ (stream.metric * 2 / np.trace(stream.metric)) @ np.transpose(X)
    np.testing.assert_allclose(z @ z.T, expected, atol=1e-12)


def test_the_docstring_shows_what_happens():
    outcome = doctest.testmod(adapter)
    assert outcome.attempted
    assert not outcome.failed


@pytest.mark.parametrize(
    ("transformer", "data", "n"),
    [
        (TRANSFORMERS[1], "ImageSegments", 200),
        *(pytest.param(transformer, *data, marks=pytest.mark.slow) for transformer in TRANSFORMERS for data in LONG),
    ],
)
def test_what_follows_in_a_pipeline_learns_and_predicts_in_one_embedding(transformer, data, n):
    """Accuracy of a nearest neighbors classifier behind the transformer, at least 90 % of that without it."""
    datasets, neighbors = (pytest.importorskip(f"river.{name}") for name in ("datasets", "neighbors"))
    steps = [(), (transformer.clone(),)]
    models = [compose.Pipeline(preprocessing.StandardScaler(), *step, neighbors.KNNClassifier(3)) for step in steps]
    hits = np.zeros(2)
    for x, y in getattr(datasets, data)().take(n):
        for k, model in enumerate(models):
            hits[k] += model.predict_one(x) == y
            model.learn_one(x, y)
    assert hits[1] >= 0.9 * hits[0] > 0.6 * n
