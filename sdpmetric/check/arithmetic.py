"""Numbers that are proven: balls of python-flint where there are few, and floats with bounds of their rounding."""

from __future__ import annotations

import math

import numpy as np
from flint import arb, arb_mat, ctx, fmpz_mat
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

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


def scaled(A: arb_mat, weights: list[arb]) -> arb_mat:
    """A matrix whose rows are multiplied by weights."""
    columns = range(A.ncols())
    return arb_mat(A.nrows(), A.ncols(), [w * A[t, k] for t, w in enumerate(weights) for k in columns])


def upper(ball: arb) -> float:
    """A float not below any number of a ball."""
    return math.nextafter(float(ball.upper()), math.inf)


def lower(ball: arb) -> float:
    """A float not above any number of a ball."""
    return math.nextafter(float(ball.lower()), -math.inf)


class Distances:
    """Bounds of the squared distances ``|L (x_a - x_b)|^2`` of all pairs of examples, row by row."""

    def __init__(self, X: FloatArray, L: FloatArray) -> None:
        self.n, self.small = len(X), len(X) <= SMALL
        centered = X - X.mean(axis=0)  # one shift for all; each entry is rounded once
        if not len(L):
            L = np.zeros((1, X.shape[1]))
        if self.small:
            Z = balls(X) * balls(L).transpose()
            G = (Z * Z.transpose()).entries()
            self.squares = [G[a * self.n + a] for a in range(self.n)]
            self.products = G
            return
        self.Z = centered @ L.T
        error = 1.01 * gamma(X.shape[1] + 2) * np.linalg.norm(np.abs(centered) @ np.abs(L).T, axis=1)
        self.norms = np.einsum("ij,ij->i", self.Z, self.Z)
        self.reach = np.sqrt(self.norms) + error
        self.error, self.share = error, gamma(2 * L.shape[0] + 12)

    def rows(self, first: int, last: int) -> tuple[FloatArray, FloatArray]:
        """Lower and upper bounds for examples `first` to `last` and all examples, two (rows, n) arrays."""
        if self.small:
            low, high = np.empty((last - first, self.n)), np.empty((last - first, self.n))
            for a in range(first, last):
                for b in range(self.n):
                    D = self.squares[a] + self.squares[b] - 2 * self.products[a * self.n + b]
                    low[a - first, b], high[a - first, b] = lower(D), upper(D)
            return np.maximum(low, 0.0), high
        some = slice(first, last)
        D = self.norms[some, None] + self.norms - 2.0 * (self.Z[some] @ self.Z.T)
        long = self.reach[some, None] + self.reach
        off = self.share * long**2 + 2.02 * long * (self.error[some, None] + self.error)
        return np.maximum(D - off, 0.0) * (1 - 4 * U), (np.maximum(D, 0.0) + off) * (1 + 4 * U)


def is_positive_definite(
    X: FloatArray, first: NDArray[np.int64], second: NDArray[np.int64], weights: FloatArray, V: FloatArray, ridge: float
) -> bool:
    """Whether ``V^T (sum_q w_q v_q v_q^T + ridge I) V`` is positive definite, v_q the difference of pair q."""
    if V.shape[1] == 0:
        return True
    if len(X) <= SMALL:
        B = balls(V)
        T = B.transpose() * B * arb(ridge)
        P = (balls(X[first]) - balls(X[second])) * B
        T += P.transpose() * scaled(P, [arb(w) for w in weights.tolist()])
        return _eliminates(T)
    T, error, size = ridge * (V.T @ V), gamma(len(V) + 4) * ridge * float(np.sum(V**2)), ridge * float(np.sum(V**2))
    terms = gamma(ROWS + len(first) // ROWS + 8)
    for start in range(0, len(first), ROWS):
        some = slice(start, start + ROWS)
        D, w = X[first[some]] - X[second[some]], np.abs(weights[some])
        P, off = D @ V, gamma(len(V) + 3) * np.linalg.norm(np.abs(D) @ np.abs(V), axis=1)
        T += (P * weights[some, None]).T @ P
        long = np.linalg.norm(P, axis=1)
        error += float(w @ (terms * long**2 + 2.0 * long * off + off**2)) * 1.01
        size += float(w @ (long + off) ** 2)
    # Cholesky's method in floats proves T - shift > 0 up to gamma trace (Rump 2006).
    shift = 1.01 * (error + gamma(3 * len(T) + 20) * (float(np.trace(T)) + size * U))
    try:
        np.linalg.cholesky(0.5 * (T + T.T) - shift * np.eye(len(T)))
    except np.linalg.LinAlgError:
        return False
    return True


def _eliminates(T: arb_mat) -> bool:
    """Whether all pivots of Gaussian elimination are positive balls: a symmetric matrix then is positive definite."""
    n = T.nrows()
    rows = [[T[i, j] for j in range(n)] for i in range(n)]
    for k in range(n):
        if not rows[k][k] > 0:
            return False
        for i in range(k + 1, n):
            share = rows[i][k] / rows[k][k]
            rows[i][k:] = [a - share * b for a, b in zip(rows[i][k:], rows[k][k:], strict=True)]
    return True


def differing(X: FloatArray, first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Features in which some pair differs."""
    differ = np.zeros(X.shape[1], dtype=bool)
    for start in range(0, len(first), ROWS):
        differ |= (X[first[start : start + ROWS]] != X[second[start : start + ROWS]]).any(axis=0)
    return differ


def rank_is_at_most(X: FloatArray, first: NDArray[np.int64], second: NDArray[np.int64], rank: int) -> bool:
    """Whether the differences of pairs span no more dimensions than `rank`, exactly."""
    ends = np.unique(np.concatenate([first, second]))
    if min(X.shape[1], len(np.unique(X[ends], axis=0)) - 1) <= rank:
        return True
    if len(X) > SMALL:
        return False
    columns = []
    for column in X.T.tolist():  # powers of two make them whole numbers
        ratios = [value.as_integer_ratio() for value in column]
        common = max(bottom for _, bottom in ratios)
        columns.append([top * (common // bottom) for top, bottom in ratios])
    pairs = np.unique(np.stack([first, second], axis=1), axis=0).tolist()
    return bool(fmpz_mat([[column[a] - column[b] for column in columns] for a, b in pairs]).rank() <= rank)
