"""Numbers that are proven: balls of python-flint where there are few, and floats with bounds of their rounding."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from flint import arb, arb_mat, ctx, fmpq, fmpq_mat
from numpy.typing import NDArray

from sdpmetric.check.files import Refused

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.int64]

# Examples up to which balls are used, the bits of their midpoints, and rows of a block of floats.
SMALL, BITS, ROWS = 500, 320, 512
U = 2.0**-53
ctx.prec = BITS


def gamma(n: int) -> float:
    """A sum of n products of floats errs by at most this share of the sum of their absolute values."""
    return 1.01 * n * U


def balls(A: FloatArray) -> arb_mat:
    """A matrix of floats as exact balls."""
    return arb_mat(A.shape[0], A.shape[1], [arb(value) for value in A.ravel().tolist()])


def form(V: arb_mat, weights: list[arb]) -> arb_mat:
    """``sum_q w_q v_q v_q^T`` over the rows v of a matrix."""
    return V.transpose() * arb_mat([[w * x for x in row] for w, row in zip(weights, V.tolist(), strict=True)])


def squares(A: arb_mat) -> list[arb]:
    """The squared lengths of the rows."""
    return [sum(entry * entry for entry in row) for row in A.tolist()]


def ends(ball: arb) -> tuple[float, float]:
    """Floats below and above all numbers of a ball."""
    return math.nextafter(float(ball.lower()), -math.inf), math.nextafter(float(ball.upper()), math.inf)


def distances(X: FloatArray, L: FloatArray) -> Iterator[tuple[int, FloatArray, FloatArray]]:
    """Bounds of ``|L (x_a - x_b)|^2``: the first a of a block, and two (rows, n) arrays of its a and all b."""
    n, L = len(X), L if len(L) else np.zeros((1, X.shape[1]))
    if n <= SMALL:
        images = balls(X) * balls(L).transpose()
        G = (images * images.transpose()).tolist()
        bounds = np.array([[ends(G[a][a] + G[b][b] - 2 * G[a][b]) for b in range(n)] for a in range(n)])
        yield 0, np.maximum(bounds[:, :, 0], 0.0), bounds[:, :, 1]
        return
    centered = X - X.mean(axis=0)  # one shift for all; each entry is rounded once
    Z, error = centered @ L.T, gamma(X.shape[1] + 3) * np.linalg.norm(np.abs(centered) @ np.abs(L).T, axis=1)
    norms, reach, share = np.sum(Z**2, axis=1), np.linalg.norm(Z, axis=1) + error, gamma(2 * L.shape[0] + 12)
    for start in range(0, n, ROWS):
        some = slice(start, start + ROWS)
        D, long = norms[some, None] + norms - 2.0 * (Z[some] @ Z.T), reach[some, None] + reach
        off = share * long**2 + 2.02 * long * (error[some, None] + error)
        yield start, np.maximum(D - off, 0.0) * (1 - 4 * U), (np.maximum(D, 0.0) + off) * (1 + 4 * U)


def require_psd(
    X: FloatArray, first: IndexArray, second: IndexArray, weights: FloatArray, V: FloatArray, ridge: float
) -> None:
    """Refuse ``S = sum_q w_q v_q v_q^T + ridge I`` that is not proven PSD, v_q the difference of pair q.

    It is PSD if ``V^T S V > 0`` and V has as many columns as the v span dimensions: for each x there is then a y with
    the same products ``v^T V y = v^T x``. With a ridge V must be regular where anything differs, by however little.
    """
    differ = (X[first] != X[second]).any(axis=0)
    if V.shape[0] != X.shape[1] or (ridge > 0.0 and V.shape[1] != differ.sum()):
        raise Refused("coordinates: not a row for each feature or, with a ridge, a column for each that differs")
    V = np.where(differ[:, None], V, 0.0)  # any V will do
    if not _rank_is_at_most(X[:, differ], first, second, V.shape[1]):
        raise Refused("coordinates: differences that count are not proven to lie in as many dimensions")
    if len(X) <= SMALL and V.shape[1]:
        B, w = balls(V), [arb(weight) for weight in weights.tolist()]
        rows = (form((balls(X[first]) - balls(X[second])) * B, w) + B.transpose() * B * arb(ridge)).tolist()
        proven = all(arb_mat([row[:k] for row in rows[:k]]).det() > 0 for k in range(1, len(rows) + 1))
    else:
        proven = _factorizes(X, first, second, weights, V, ridge)
    if not proven:
        raise Refused("dual cone: the slack matrix is not proven to be positive semidefinite")


def _factorizes(
    X: FloatArray, first: IndexArray, second: IndexArray, weights: FloatArray, V: FloatArray, ridge: float
) -> bool:
    """Whether Cholesky's method succeeds on ``V^T S V`` less its rounding, and less its own (Rump 2006)."""
    size = ridge * float(np.sum(V**2))
    T, error, terms = ridge * (V.T @ V), gamma(len(V) + 4) * size, gamma(ROWS + len(first) // ROWS + 8)
    for start in range(0, len(first), ROWS):
        some = slice(start, start + ROWS)
        D, w = X[first[some]] - X[second[some]], weights[some]
        P, off = D @ V, gamma(len(V) + 3) * np.linalg.norm(np.abs(D) @ np.abs(V), axis=1)
        T, long = T + (P * w[:, None]).T @ P, np.linalg.norm(P, axis=1)
        error += float(np.abs(w) @ (terms * long**2 + 2.0 * long * off + off**2)) * 1.01
        size += float(np.abs(w) @ (long + off) ** 2)
    shift = 1.01 * (error + gamma(3 * len(T) + 20) * (float(np.trace(T)) + size * U))
    try:
        return bool(np.isfinite(np.linalg.cholesky(0.5 * (T + T.T) - shift * np.eye(len(T)))).all())
    except np.linalg.LinAlgError:
        return False


def _rank_is_at_most(X: FloatArray, first: IndexArray, second: IndexArray, rank: int) -> bool:
    """Whether the differences of pairs span no more dimensions than `rank`, exactly."""
    points = np.unique(X[np.unique(np.concatenate([first, second]))], axis=0)
    if min(X.shape[1], len(points) - 1) <= rank or len(X) > SMALL:
        return bool(min(X.shape[1], len(points) - 1) <= rank)
    exact = [[fmpq(*value.as_integer_ratio()) for value in row] for row in X.tolist()]
    pairs = np.unique(np.stack([first, second], axis=1), axis=0).tolist()
    differences = fmpq_mat([[a - b for a, b in zip(exact[i], exact[j], strict=True)] for i, j in pairs])
    return bool(differences.rank() <= rank)
