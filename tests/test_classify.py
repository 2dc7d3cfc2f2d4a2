"""Searching neighbors of learned metrics by every algorithm."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from sdpmetric import classify

rng = np.random.default_rng(0)
X, Q = rng.normal(size=(60, 4)), rng.normal(size=(9, 4))
L = rng.normal(size=(3, 4))


@pytest.mark.parametrize("algorithm", ["auto", "ball_tree", "kd_tree", "brute", "faiss"])
@pytest.mark.parametrize("queries", [Q, None])
def test_every_algorithm_finds_the_same_neighbors(algorithm, queries):
    asked = X if queries is None else queries
    D = np.sum(((asked[:, None] - X[None]) @ L.T) ** 2, axis=2)
    if queries is None:
        np.fill_diagonal(D, np.inf)
    expected = np.argsort(D, axis=1)[:, :5]
    distances, rows = classify.nearest_neighbors(L, X, queries, 5, algorithm=algorithm)
    assert np.array_equal(rows, expected)
    assert np.allclose(distances, np.take_along_axis(D, expected, axis=1), rtol=1e-5 if algorithm == "faiss" else 1e-10)


def test_an_algorithm_that_is_not_there(monkeypatch):
    with pytest.raises(ValueError, match="'ball_tree'"):
        classify.nearest_neighbors(L, X, Q, algorithm="annoy")
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(ImportError, match=r"sdpmetric\[faiss\]"):
        classify.knn_predict(L, X, X[:, 0] > 0, Q, algorithm="faiss")
