"""The one linear map of every convex method here: pair distances ``D(M)`` and its adjoint."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray, IndexArray
from sdpmetric.engine import threads
from sdpmetric.engine.lazy import fixed
from sdpmetric.linalg import pair_loops as pairs

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
        """Rows (first, last, block) in about `n_parts` parts of equal size; no part crosses blocks."""
        share = max(1, -(-int(self.bounds[-1]) // n_parts))
        rows: list[tuple[int, int, int]] = []
        for block, (first, last) in enumerate(pairwise(self.bounds.tolist())):
            cuts = threads.cuts(last - first, max(1, -(-(last - first) // share))).tolist()
            rows += [(first + a, first + b, block) for a, b in pairwise(cuts)]
        return rows

    def times(self, X: NDArray[np.floating], W: NDArray[np.floating]) -> NDArray[np.floating]:
        """``X[rows] @ W[b]`` for the rows of each block b; X (n, d), W (c, d, r)."""
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
        """``Y[rows].T @ X[rows]`` for each block, (c, r, d); Y (parts, n, r) is summed over its parts first."""
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
    """Squared Euclidean distances between rows of embedded points, pair by pair."""
    Z, out = fixed(np.asarray(Z, dtype=np.float64)), np.empty(len(first))
    a, b = fixed(first.astype(np.int32, copy=False)), fixed(second.astype(np.int32, copy=False))
    pairs.pair_distances(Z, a, b, out)
    return out


def times(X: FloatArray, T: FloatArray) -> FloatArray:
    """Return ``X T``. If each column of T has at most one entry (weights of features), select and scale columns."""
    if len(T) and (np.count_nonzero(T, axis=0) <= 1).all():
        rows = np.argmax(T != 0.0, axis=0)
        return np.asarray(np.take(X, rows, axis=1) * T[rows, np.arange(T.shape[1])])
    return np.asarray(X @ T)


def mean_squared_distance(X: NDArray[np.floating]) -> float:
    """The mean squared Euclidean distance between two different rows, in float64."""
    return 2.0 * float(np.var(X, axis=0, dtype=np.float64).sum()) * len(X) / max(1, len(X) - 1)


def adjoint(X: FloatArray, first: NDArray[np.integer], second: NDArray[np.integer], weights: FloatArray) -> FloatArray:
    """The adjoint ``D*(w) = sum_p w_p (x_a - x_b)(x_a - x_b)^T``, as ``X^T Lap(w) X``."""
    a, b = first.astype(np.int32), second.astype(np.int32)
    A: FloatArray = laplacian_form(X, a, b, np.asarray(weights, dtype=np.float64))[0]
    return 0.5 * (A + A.T)


def pair_forms(
    P: NDArray[np.floating], N: FloatArray, blocks: Blocks, first: IndexArray, second: IndexArray
) -> FloatArray:
    """``<N, (p_a - p_b)(p_a - p_b)^T>`` of all pairs, N the symmetric matrix of their block; N need not be PSD."""
    out = np.empty(len(first))
    pairs.pair_forms(P, first, second, blocks.times(P, N), out)
    return out


def laplacian_form(
    X: NDArray[np.floating],
    first: IndexArray,
    second: IndexArray,
    weights: FloatArray,
    blocks: Blocks | None = None,
) -> FloatArray:
    """``X^T Lap(w) X`` of the pairs of each block, (c, d, d), not symmetrized; one block by default."""
    blocks, w = Blocks.one(len(X)) if blocks is None else blocks, weights.astype(X.dtype, copy=False)
    _, products = pairs.laplacian_times(fixed(X), fixed(first), fixed(second), fixed(w))
    return blocks.gram(products, X).astype(np.float64, copy=False)


def weighted_differences(
    X: FloatArray, first: NDArray[np.integer], second: NDArray[np.integer], weights: FloatArray
) -> Iterator[FloatArray]:
    """The rows ``w_p (x_a - x_b)`` of all pairs, block by block; one empty block if there are no pairs."""
    for start in range(0, max(len(first), 1), PAIRS_AT_ONCE):
        block = slice(start, start + PAIRS_AT_ONCE)
        yield weights[block, None] * (X[first[block]] - X[second[block]])
