"""The one linear map of every convex method here: pair distances ``D(M)`` and its adjoint, and loops over pairs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray, IndexArray, LongArray
from sdpmetric.engine import threads
from sdpmetric.engine.lazy import FAST, fixed, loop
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
    """Write squared Euclidean distances between rows of Z."""
    for p in range(run[0], run[1]):
        out[p] = distance(Z, first[p], second[p])


@in_parts(_of_pairs)
@loop(nogil=True, fastmath=FAST)
def forms_of_pairs(
    run: Run, P: FloatArray, first: IndexArray, second: IndexArray, W: FloatArray, out: FloatArray
) -> None:
    """Write the forms ``(P_i - P_j) . (W_i - W_j)``."""
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
    """Write to Y the product of X with the weighted graph Laplacian of the pairs."""
    Y[:] = 0.0
    for p in range(run[0], run[1]):
        i, j, w = first[p], second[p], weights[p]
        for q in range(X.shape[1]):
            g = w * (X[i, q] - X[j, q])
            Y[i, q] += g
            Y[j, q] -= g


@loop(nogil=True, fastmath=FAST, inline="always")
def length_bounds(length: float, g: float, error: float) -> tuple[float, float]:
    """Return squares of the least and the largest length, for a computed length with a relative and an absolute error.

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
    """Write bounds of squared distances of exact points within `errors` of rows of P."""
    for p in range(run[0], run[1]):
        length = math.sqrt(distance(P, first[p], second[p]))
        low[p], high[p] = length_bounds(length, g, errors[first[p]] + errors[second[p]])


@loop(nogil=True, fastmath=FAST)
def squares_by_coordinate(
    P: NDArray[np.floating],
    first: IndexArray,
    second: IndexArray,
    weights: FloatArray,
    weight_errors: FloatArray,
    units: FloatArray,
    errors: FloatArray,
    sums: FloatArray,
    differs: NDArray[np.bool_],
) -> None:
    """Add what pairs contribute to three sums over each coordinate, (3, r), and note in which coordinates pairs differ.

    With u the difference in units and e its error, the sum of those of two rows of P, the sums are those of ``w u^2``,
    of ``|w| u^2``, and of ``|w| (2 |u| + e) e + w_e (|u| + e)^2``. Errors of length 0 are zeros.
    """
    for p in range(len(first)):
        i, j, w = first[p], second[p], weights[p]
        for q in range(P.shape[1]):
            u = abs(np.float64(P[i, q]) - np.float64(P[j, q]))
            e = errors[i, q] + errors[j, q] if len(errors) else 0.0
            differs[q] |= u != 0.0 or e != 0.0  # before units, under which differences may vanish
            u *= units[q]
            sums[0, q] += w * (u * u)
            sums[1, q] += abs(w) * (u * u)
            sums[2, q] += abs(w) * ((2.0 * u + e) * e)
            if len(weight_errors):
                sums[2, q] += weight_errors[p] * ((u + e) * (u + e))


@loop()
def nearest(
    train: FloatArray,
    queries: FloatArray,
    turned_train: FloatArray,
    turned_queries: FloatArray,
    turning_error: float,
    k: int,
) -> tuple[FloatArray, LongArray, int]:
    """Return the k nearest rows of `train` for each query; a sum is given up once it exceeds the k-th best distance.

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
                last = min(first + 4, d)  # compared after four coordinates
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


# Pairs with differences in memory at the same time.
PAIRS_AT_ONCE = 1 << 14


@dataclass(frozen=True, eq=False)
class Blocks:
    """Points in consecutive blocks, each with a metric of its own; one block is the ordinary case."""

    bounds: NDArray[np.int64]  # (c + 1,) int64: block b holds rows ``bounds[b]`` to ``bounds[b + 1]``

    @classmethod
    def one(cls, n: int) -> Blocks:
        return cls(np.array([0, n], dtype=np.int64))

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def tasks(self, n_parts: int) -> list[tuple[int, int, int]]:
        """Return rows (first, last, block) in about `n_parts` parts of equal size; no part crosses blocks."""
        share = max(1, -(-int(self.bounds[-1]) // n_parts))
        rows: list[tuple[int, int, int]] = []
        for block, (first, last) in enumerate(pairwise(self.bounds.tolist())):
            cuts = threads.cuts(last - first, max(1, -(-(last - first) // share))).tolist()
            rows += [(first + a, first + b, block) for a, b in pairwise(cuts)]
        return rows

    def times(self, X: NDArray[np.floating], W: NDArray[np.floating]) -> NDArray[np.floating]:
        """Return ``X[rows] @ W[b]`` for the rows of each block b; X (n, d), W (c, d, r)."""
        n_parts, W = threads.part_count(X.size * W.shape[2], threads.PRODUCT_WORK), W.astype(X.dtype, copy=False)
        if n_parts == len(self) == 1:
            with threads.one_pool():
                return np.asarray(X @ W[0])
        tasks, out = self.tasks(n_parts), np.empty((len(X), W.shape[2]), X.dtype)

        def product(t: int) -> None:
            first, last, block = tasks[t]
            np.matmul(X[first:last], W[block], out=out[first:last])

        with threads.one_pool():
            threads.run(product, len(tasks), n_parts)
        return out

    def gram(self, Y: NDArray[np.floating], X: NDArray[np.floating]) -> NDArray[np.floating]:
        """Return ``Y[rows].T @ X[rows]`` for each block, (c, r, d); Y (parts, n, r) is summed over its parts first."""
        max_parts = max(1, 2 * len(X) // max(X.shape[1], 1))  # with more parts adding up takes longer than multiplying
        n_parts = threads.part_count(
            X.size * Y.shape[2], threads.PRODUCT_WORK, max_parts=min(threads.MOST_PARTS, max_parts)
        )
        if n_parts == len(self) == len(Y) == 1:
            with threads.one_pool():
                return np.asarray(Y[0].T @ X)[None]
        tasks = self.tasks(n_parts)
        products = np.empty((len(tasks), Y.shape[2], X.shape[1]), X.dtype)

        def product(t: int) -> None:
            first, last, _ = tasks[t]
            rows = Y[0, first:last] if len(Y) == 1 else Y[:, first:last].sum(axis=0)
            np.matmul(rows.T, X[first:last], out=products[t])

        with threads.one_pool():
            threads.run(product, len(tasks), n_parts)
        grams = np.zeros((len(self), *products.shape[1:]), X.dtype)
        for (_, _, block), product_of_rows in zip(tasks, products, strict=True):
            grams[block] += product_of_rows
        return grams


def distances(Z: NDArray[np.floating], first: NDArray[np.integer], second: NDArray[np.integer]) -> FloatArray:
    """Return squared Euclidean distances between rows of embedded points, pair by pair."""
    Z, out = fixed(np.asarray(Z, dtype=np.float64)), np.empty(len(first))
    a, b = fixed(first.astype(np.int32, copy=False)), fixed(second.astype(np.int32, copy=False))
    pair_distances(Z, a, b, out)
    return out


def times(X: FloatArray, T: FloatArray) -> FloatArray:
    """Return ``X T``. If each column of T has at most one entry (weights of features), select and scale columns."""
    if len(T) and (np.count_nonzero(T, axis=0) <= 1).all():
        rows = np.argmax(T != 0.0, axis=0)
        return np.asarray(np.take(X, rows, axis=1) * T[rows, np.arange(T.shape[1])])
    return np.asarray(X @ T)


def mean_squared_distance(X: NDArray[np.floating]) -> float:
    """Return the mean squared Euclidean distance between two different rows, in float64."""
    return 2.0 * float(np.var(X, axis=0, dtype=np.float64).sum()) * len(X) / max(1, len(X) - 1)


def adjoint(X: FloatArray, first: NDArray[np.integer], second: NDArray[np.integer], weights: FloatArray) -> FloatArray:
    """Return the adjoint ``D*(w) = sum_p w_p (x_a - x_b)(x_a - x_b)^T``, as ``X^T Lap(w) X``."""
    a, b = first.astype(np.int32), second.astype(np.int32)
    A: FloatArray = laplacian_form(X, a, b, np.asarray(weights, dtype=np.float64))[0]
    return 0.5 * (A + A.T)


def pair_forms(
    P: NDArray[np.floating], N: FloatArray, blocks: Blocks, first: IndexArray, second: IndexArray
) -> FloatArray:
    """Return ``<N, (p_a - p_b)(p_a - p_b)^T>`` of pairs, N the symmetric matrix of their block, PSD or not."""
    out = np.empty(len(first))
    forms_of_pairs(P, first, second, blocks.times(P, N), out)
    return out


def laplacian_form(
    X: NDArray[np.floating], first: IndexArray, second: IndexArray, weights: FloatArray, blocks: Blocks | None = None
) -> FloatArray:
    """Return ``X^T Lap(w) X`` of the pairs of each block, (c, d, d), not symmetrized; one block by default."""
    blocks, w = Blocks.one(len(X)) if blocks is None else blocks, weights.astype(X.dtype, copy=False)
    _, products = laplacian_times(fixed(X), fixed(first), fixed(second), fixed(w))
    return blocks.gram(products, X).astype(np.float64, copy=False)


def weighted_differences(
    X: FloatArray, first: NDArray[np.integer], second: NDArray[np.integer], weights: FloatArray
) -> Iterator[FloatArray]:
    """Yield the rows ``w_p (x_a - x_b)`` of all pairs, block by block; one empty block if there are no pairs."""
    for start in range(0, max(len(first), 1), PAIRS_AT_ONCE):
        block = slice(start, start + PAIRS_AT_ONCE)
        yield weights[block, None] * (X[first[block]] - X[second[block]])
