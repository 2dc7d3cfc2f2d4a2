"""Covariance, RCA and LFDA: formulas in loops, eigenproblems by SciPy, tiny and constant features, refusals."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.linalg
from instances import assert_close
from scipy.spatial.distance import cdist, pdist
from sklearn.base import clone

from sdpmetric.estimators import LFDA, RCA, Covariance, closed

Y = np.repeat([0, 1, 2, 3], [9, 6, 3, 1])
N = len(Y)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3)) * [1.0, 30.0, 0.3] + 7.0 + np.arange(N)[:, None] % 3
CHUNKS = np.where((np.arange(N) % 5 > 0) & (Y < 3), Y, -1)
WEIGHTS = RNG.integers(1, 4, size=N)


def covariance(X, chunks) -> np.ndarray:
    """Section 2 of the paper, member by member."""
    groups = [X[chunks == c] for c in sorted(set(chunks.tolist()) - {-1}) if np.sum(chunks == c) > 1]
    return sum((G - G.mean(axis=0)).T @ (G - G.mean(axis=0)) for G in groups) / sum(map(len, groups))


def scatters(X, y, k) -> tuple[np.ndarray, np.ndarray]:
    """Section 3 of the paper, pair by pair: between and within classes."""
    D, n = cdist(X, X), len(X)
    s = np.array([np.sort(D[i, y == y[i]])[min(k, np.sum(y == y[i]) - 1)] for i in range(n)])
    B, W = np.zeros((2, X.shape[1], X.shape[1]))
    for i in range(n):
        for j in range(n):
            V, n_c = np.outer(X[i] - X[j], X[i] - X[j]) / 2, np.sum(y == y[i])
            if y[i] != y[j]:
                B += V / n
            elif s[i] * s[j] > 0:
                A = np.exp(-(D[i, j] ** 2) / (s[i] * s[j]))
                B, W = B + A * (1 / n - 1 / n_c) * V, W + A / n_c * V
    return B, W


@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_rca_is_the_inverse_of_the_paper_s_covariance(ridge):
    fitted = RCA(ridge=ridge).fit_chunks(X, CHUNKS)
    np.testing.assert_allclose(fitted.metric_, np.linalg.inv(covariance(X, CHUNKS) + ridge * np.eye(3)), rtol=1e-9)
    copies = np.repeat(np.arange(N), WEIGHTS)
    weighted, repeated = (
        RCA(ridge=ridge).fit_chunks(X, CHUNKS, WEIGHTS),
        RCA(ridge=ridge).fit_chunks(X[copies], CHUNKS[copies]),
    )
    np.testing.assert_allclose(weighted.metric_, repeated.metric_, rtol=1e-9)
    members = [np.flatnonzero(c == CHUNKS) for c in range(3)]
    pairs = [pair for rows in members for pair in pairwise(rows.tolist())] + [[int(members[0][0]), int(members[1][0])]]
    paired = RCA(ridge=ridge).fit_pairs(X, pairs, [True] * (len(pairs) - 1) + [False])
    np.testing.assert_allclose(paired.metric_, fitted.metric_, rtol=1e-9)
    labeled = RCA(ridge=ridge).fit(X, Y)
    np.testing.assert_allclose(labeled.metric_, RCA(ridge=ridge).fit_chunks(X, Y).metric_, rtol=1e-12)
    np.testing.assert_allclose(Covariance().fit(X).metric_, np.linalg.inv(np.cov(X.T, ddof=0)), rtol=1e-9)
    assert not {"solution_", "relative_gap_", "certificate_"} & set(vars(labeled))


@pytest.mark.parametrize(("k", "r", "ridge"), [(7, 1, 0.0), (2, 2, 0.0), (3, 3, 0.5)])
@pytest.mark.parametrize("block", [closed.BLOCK, 20])
def test_lfda_is_the_eigenproblem_of_the_paper(k, r, ridge, block, monkeypatch):
    monkeypatch.setattr(closed, "BLOCK", block)
    B, W = scatters(X, Y, k)
    W += ridge * np.eye(3)
    values, vectors = (array[..., ::-1][..., :r] for array in scipy.linalg.eigh(B, W))
    values = np.maximum(values, 0.0)
    weighted, unscaled, basis = (
        LFDA(r, n_neighbors=k, ridge=ridge, embedding=name).fit(X, Y)
        for name in ("weighted", "plain", "orthonormalized")
    )
    assert_close(weighted.metric_, (vectors * values) @ vectors.T)
    L = unscaled.components_[values > 0.0]
    assert_close(L @ W @ L.T, np.eye(len(L)))
    assert_close(basis.components_ @ basis.components_.T, np.diag((values > 0.0).astype(float)))
    assert np.linalg.matrix_rank(np.concatenate([L, basis.components_]), tol=1e-8) == len(L)
    copies = np.repeat(np.arange(N), WEIGHTS)  # scales of at least as many neighbors as there are members
    weighted_fit = LFDA(n_neighbors=100, ridge=ridge).fit(X, Y, WEIGHTS)
    repeated_fit = LFDA(n_neighbors=100, ridge=ridge).fit(X[copies], Y[copies])
    assert_close(weighted_fit.metric_, repeated_fit.metric_)


@pytest.mark.parametrize("estimator", [LFDA(), RCA(), Covariance(ridge="auto")], ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("n_rows", [False, True])
def test_features_of_a_tiny_spread_count_for_as_little_as_they_vary(estimator, n_rows):
    """Real embeddings have a feature of spread 1e-8 beside others of 0.1, and a feature of a single nonzero entry."""
    X, y = np.random.default_rng(1).normal(size=(60, 20)), np.arange(60) % 3
    X[:, 0] += y
    rows = slice(12 if n_rows else 60)
    X, y = X[rows], y[rows]
    narrow = X.copy()
    narrow[:, 7] *= 1e-8
    spike = X.copy()
    spike[:, 7] = 1e-8 * (np.arange(len(X)) == 5)
    constant = X.copy()
    constant[:, 7] = 0.1
    for ridge in (clone(estimator).fit(narrow, y).ridge_, 0.1, 1e-7):
        learned = [clone(estimator).set_params(ridge=ridge).fit(Z, y) for Z in (constant, narrow, spike)]
        expected, *distances_beside = (
            pdist(e.transform(Z)) for e, Z in zip(learned, (constant, narrow, spike), strict=True)
        )
        assert not learned[0].metric_[7].any()
        for distances in distances_beside:
            np.testing.assert_allclose(distances, expected, rtol=1e-5, atol=1e-7 * expected.max())
    if not n_rows:
        single = clone(estimator).fit(narrow.astype(np.float32), y)
        assert single.components_.dtype == single.transform(narrow.astype(np.float32)).dtype == np.float32
    if not (n_rows or isinstance(estimator, LFDA)):  # without a ridge units do not matter, but for LFDA's affinities
        unregularized = clone(estimator).set_params(ridge=0.0)
        np.testing.assert_allclose(
            pdist(clone(unregularized).fit(narrow, y).transform(narrow)),
            pdist(unregularized.fit(X, y).transform(X)),
            rtol=1e-9,
        )
