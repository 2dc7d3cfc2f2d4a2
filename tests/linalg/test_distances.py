"""The one linear map and its adjoint."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from instances import assert_close

from sdpmetric.linalg import distances as dist

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
