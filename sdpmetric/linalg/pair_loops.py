"""Compiled loops over pairs of points: distances, quadratic forms, graph Laplacians; nearest points."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray, IndexArray, LongArray
from sdpmetric.engine.lazy import FAST, loop
from sdpmetric.engine.threads import Workload, in_parts, of_equal_items

SQUARE_ERROR = 1e-15  # more than the relative rounding of squaring, and of adding 1


Run = tuple[int, int]  # of pairs: the first, and the first behind it


def _of_pairs(P: NDArray[np.floating], first: IndexArray, *_: object) -> Workload:
    return of_equal_items(len(first), P.shape[1])


@loop(fastmath=FAST, inline="always")
def distance(Z: NDArray[np.floating], i: int, j: int) -> float:
    s = 0.0
    for q in range(Z.shape[1]):
        u = Z[i, q] - Z[j, q]
        s += u * u
    return s


@in_parts(_of_pairs)
@loop(nogil=True, fastmath=FAST)
def pair_distances(run: Run, Z: FloatArray, first: IndexArray, second: IndexArray, out: FloatArray) -> None:
    """Squared Euclidean distances between rows of Z."""
    for p in range(run[0], run[1]):
        out[p] = distance(Z, first[p], second[p])


@in_parts(_of_pairs)
@loop(nogil=True, fastmath=FAST)
def pair_forms(run: Run, P: FloatArray, first: IndexArray, second: IndexArray, W: FloatArray, out: FloatArray) -> None:
    """The forms ``(P_i - P_j) . (W_i - W_j)``."""
    for p in range(run[0], run[1]):
        i, j, s = first[p], second[p], 0.0
        for q in range(P.shape[1]):
            s += (P[i, q] - P[j, q]) * (W[i, q] - W[j, q])
        out[p] = s


@in_parts(_of_pairs, accumulates=True)
@loop(nogil=True, fastmath=FAST)
def laplacian_times(
    run: Run, X: FloatArray, first: IndexArray, second: IndexArray, weights: FloatArray, Y: FloatArray
) -> None:
    """In Y the product of X with the weighted graph Laplacian of the pairs."""
    Y[:] = 0.0
    for p in range(run[0], run[1]):
        i, j, w = first[p], second[p], weights[p]
        for q in range(X.shape[1]):
            g = w * (X[i, q] - X[j, q])
            Y[i, q] += g
            Y[j, q] -= g


@loop(nogil=True, fastmath=FAST, inline="always")
def length_bounds(length: float, g: float, error: float) -> tuple[float, float]:
    """Squares of the least and the largest length, for a computed length with a relative and an absolute error.

    The error is 0, for images without any, or has room for underflow, of the length and of these squares.
    """
    shortest, longest = max(0.0, length * (1.0 - g) - error), length * (1.0 + g) + error
    return shortest * shortest * (1.0 - SQUARE_ERROR), longest * longest * (1.0 + SQUARE_ERROR)


@in_parts(_of_pairs)
@loop(nogil=True, fastmath=FAST)
def distance_bounds(
    run: Run,
    P: FloatArray,
    first: IndexArray,
    second: IndexArray,
    errors: FloatArray,
    g: float,
    low: FloatArray,
    high: FloatArray,
) -> None:
    """Bounds of squared distances of exact points within `errors` of rows of P."""
    for p in range(run[0], run[1]):
        length = math.sqrt(distance(P, first[p], second[p]))
        low[p], high[p] = length_bounds(length, g, errors[first[p]] + errors[second[p]])


@in_parts(_of_pairs)
@loop(nogil=True, fastmath=FAST)
def form_error(
    run: Run,
    P: FloatArray,
    first: IndexArray,
    second: IndexArray,
    weights: FloatArray,
    lengths: FloatArray,
    errors: FloatArray,
) -> tuple[float, float]:
    """The sums over pairs of ``|w| (|p| + e) (l_a + l_b + 2 e)`` and ``|w| (|p| + e)^2``.

    Here p is the difference of two rows of P, e the sum of their errors, with room for underflow, and l the entries of
    `lengths`. Rounded to nearest.
    """
    error = size = 0.0
    for p in range(run[0], run[1]):
        a, b, w = first[p], second[p], abs(weights[p])
        pair_error = errors[a] + errors[b]
        longest = math.sqrt(distance(P, a, b)) + pair_error
        error += w * longest * (lengths[a] + lengths[b] + 2.0 * pair_error)
        size += w * longest * longest
    return error, size


# Coordinates that are added up before the sum is compared.
CHUNK = 4


@loop()
def nearest(
    train: FloatArray,
    queries: FloatArray,
    turned_train: FloatArray,
    turned_queries: FloatArray,
    turning_error: float,
    k: int,
) -> tuple[FloatArray, LongArray, int]:
    """The k nearest rows of `train` for each query; a distance is given up once its partial sum exceeds the k-th best.

    Partial sums are those of the turned points, with the axes sorted by variance, the largest first. Squared distances
    there err by at most `turning_error`. All other distances are computed from the points themselves. Ties stay ties:
    among equal distances the first rows are nearest.
    """
    m, (n, d) = len(queries), train.shape
    distances, rows = np.full((m, k), np.inf), np.zeros((m, k), dtype=np.int64)
    spent = 0
    for t in range(m):
        best, neighbors = distances[t], rows[t]
        for i in range(n):
            total, first = 0.0, 0
            while first < d and total <= best[k - 1] + turning_error:
                last = min(first + CHUNK, d)
                for c in range(first, last):
                    step = turned_queries[t, c] - turned_train[i, c]
                    total += step * step
                first = last
            spent += first
            if total > best[k - 1] + turning_error:
                continue
            total = 0.0
            for c in range(d):
                step = queries[t, c] - train[i, c]
                total += step * step
            if total < best[k - 1]:
                slot = k - 1
                while slot > 0 and best[slot - 1] > total:
                    best[slot], neighbors[slot] = best[slot - 1], neighbors[slot - 1]
                    slot -= 1
                best[slot], neighbors[slot] = total, i
    return distances, rows, spent
