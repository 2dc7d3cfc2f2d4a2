"""The one linear map and its adjoint, and sums of hinges over candidates."""

import numpy as np
import oracles
from hypothesis import given
from hypothesis import strategies as st
from instances import assert_close

from sdpmetric.linalg import distances as dist
from sdpmetric.triplets.margins import margin_adjoint, margins
from sdpmetric.triplets.triplets import Triplets

SEEDS = st.integers(0, 2**32 - 1)


def pairs_of(seed):
    rng = np.random.default_rng(seed)
    n, d, p = (int(v) for v in rng.integers([2, 1, 0], [12, 6, 40]))
    X = rng.normal(size=(n, d)) * 10 ** rng.uniform(-3, 3)
    return rng, X, rng.integers(0, n, p), rng.integers(0, n, p), rng.normal(size=p)


@given(SEEDS)
def test_adjoint_identity(seed):
    rng, X, a, b, w = pairs_of(seed)
    L = rng.normal(size=(rng.integers(0, 5), X.shape[1]))
    left = dist.distances(X @ L.T, a, b) @ w
    A = dist.adjoint(X, a, b, w)
    right = np.sum((L.T @ L) * A)
    size = np.abs(w).sum() * np.sum((X @ L.T) ** 2)
    assert abs(left - right) <= 1e-12 * max(size, 1e-300)
    assert_close(A, A.T)


def test_differences_come_block_by_block(rng, monkeypatch):
    X, a, b = rng.normal(size=(9, 3)), rng.integers(0, 9, 20), rng.integers(0, 9, 20)
    monkeypatch.setattr(dist, "PAIRS_AT_ONCE", 6)
    w = rng.random(20)
    blocks = list(dist.weighted_differences(X, a, b, w))
    assert [len(block) for block in blocks] == [6, 6, 6, 2]
    assert_close(np.concatenate(blocks), w[:, None] * (X[a] - X[b]))
    assert [block.shape for block in dist.weighted_differences(X, a[:0], b[:0], w[:0])] == [(0, 3)]


def test_distances_take_any_layout(rng):
    Z = rng.normal(size=(8, 6))
    a, b = np.array([0, 3, 3, 7]), np.array([1, 3, 4, 0])
    expected = np.sum((Z[a] - Z[b]) ** 2, axis=1)
    assert_close(dist.distances(np.asfortranarray(Z), a, b), expected)
    assert_close(dist.distances(np.repeat(Z, 2, axis=1)[:, ::2], a, b), expected)
    single = dist.distances(Z.astype(np.float32), a.astype(np.int32), b)
    assert single.dtype == np.float64
    assert np.abs(single - expected).max() < 1e-5
    assert dist.distances(np.zeros((4, 0)), np.array([1]), np.array([2])).tolist() == [0.0]


def test_margins_and_their_adjoint(rng):
    X = rng.normal(size=(7, 3))
    rows = np.array([[0, 1, 2], [3, 1, 6], [0, 1, 2], [5, 4, 0]])
    triplets, L = Triplets.from_array(rows), rng.normal(size=(2, 3))
    statement = oracles.Statement(X, [], [tuple(r) for r in rows], [1.0] * 4, 0.3)
    expected = np.array([np.sum(statement.margin_matrix(t) * (L.T @ L)) for t in rows])
    assert_close(margins(X @ L.T, triplets), expected)
    a = rng.random(4)
    total = sum(at * statement.margin_matrix(t) for at, t in zip(a, rows, strict=True))
    assert_close(margin_adjoint(X, triplets, a), total)
