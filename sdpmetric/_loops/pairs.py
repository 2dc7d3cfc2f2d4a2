"""Compiled loops over pairs of points: distances, quadratic forms, graph Laplacians, and products in blocks of rows."""

from __future__ import annotations

import numba as nb
import numpy as np
from numpy.typing import NDArray

from sdpmetric._loops import FAST, SMALL_WORK

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.int32]


@nb.njit(cache=True, fastmath=FAST, inline="always")
def distance(Z: NDArray[np.floating], i: int, j: int) -> float:
    """Squared Euclidean distance between two rows of Z."""
    s = 0.0
    for q in range(Z.shape[1]):
        u = Z[i, q] - Z[j, q]
        s += u * u
    return s


@nb.njit(parallel=True, cache=True, fastmath=FAST)
def pair_distances(Z: NDArray[np.floating], first: IndexArray, second: IndexArray, out: NDArray[np.floating]) -> None:
    """Squared Euclidean distances between rows of Z, pair by pair."""
    if len(first) * Z.shape[1] <= SMALL_WORK:
        for p in range(len(first)):
            out[p] = distance(Z, first[p], second[p])
    else:
        for p in nb.prange(len(first)):
            out[p] = distance(Z, first[p], second[p])


@nb.njit(cache=True, fastmath=FAST)
def pair_forms_of(
    P: FloatArray, W: FloatArray, first: IndexArray, second: IndexArray, begin: int, end: int, out: FloatArray
) -> None:
    """`pair_forms` for a run of pairs, on the calling thread."""
    for p in range(begin, end):
        i, j, s = first[p], second[p], 0.0
        for q in range(P.shape[1]):
            s += (P[i, q] - P[j, q]) * (W[i, q] - W[j, q])
        out[p] = s


@nb.njit(parallel=True, cache=True, fastmath=FAST)
def pair_forms(
    P: FloatArray, W: FloatArray, first: IndexArray, second: IndexArray, out: FloatArray, parts: int
) -> None:
    """The forms ``(P_i - P_j) . (W_i - W_j)`` of all pairs."""
    m = len(first)
    for t in nb.prange(parts):
        pair_forms_of(P, W, first, second, t * m // parts, (t + 1) * m // parts, out)


@nb.njit(cache=True, fastmath=FAST)
def laplacian_times_of(
    X: FloatArray, first: IndexArray, second: IndexArray, weights: FloatArray, begin: int, end: int, Y: FloatArray
) -> None:
    """`laplacian_times` for a run of pairs, on the calling thread."""
    Y[:] = 0.0
    for p in range(begin, end):
        i, j, w = first[p], second[p], weights[p]
        for q in range(X.shape[1]):
            g = w * (X[i, q] - X[j, q])
            Y[i, q] += g
            Y[j, q] -= g


@nb.njit(parallel=True, cache=True, fastmath=FAST)
def laplacian_times(X: FloatArray, first: IndexArray, second: IndexArray, weights: FloatArray, Y: FloatArray) -> None:
    """The product of the weighted graph Laplacian of the pairs with X, as the sum of the parts ``Y[t]``."""
    m, parts = len(first), len(Y)
    for t in nb.prange(parts):
        laplacian_times_of(X, first, second, weights, t * m // parts, (t + 1) * m // parts, Y[t])


@nb.njit(parallel=True, cache=True)
def rows_times(
    X: NDArray[np.floating], Lt: NDArray[np.floating], tasks: NDArray[np.int64], out: NDArray[np.floating]
) -> None:
    """``out[rows] = X[rows] @ Lt[block]`` for tasks (first row, last row, block), BLAS held to one thread."""
    for t in nb.prange(len(tasks)):
        first, last, block = tasks[t, 0], tasks[t, 1], tasks[t, 2]
        out[first:last] = np.dot(X[first:last], Lt[block])


@nb.njit(parallel=True, cache=True)
def transposed_times(
    Y: NDArray[np.floating], X: NDArray[np.floating], tasks: NDArray[np.int64], n_blocks: int
) -> NDArray[np.floating]:
    """``Y.sum(0)[rows].T @ X[rows]`` added up for each block, for Y of shape (threads, n, r); tasks as before."""
    G = np.empty((len(tasks), Y.shape[2], X.shape[1]), dtype=X.dtype)
    for t in nb.prange(len(tasks)):
        first, last = tasks[t, 0], tasks[t, 1]
        S = Y[0, first:last].copy()
        for u in range(1, len(Y)):
            S += Y[u, first:last]
        G[t] = np.dot(S.T, X[first:last])
    total = np.zeros((n_blocks, Y.shape[2], X.shape[1]), dtype=X.dtype)
    for t in range(len(tasks)):
        total[tasks[t, 2]] += G[t]
    return total
