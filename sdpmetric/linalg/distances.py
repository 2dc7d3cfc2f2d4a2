"""The one linear map of every convex method here: pair distances ``D(M)`` and its adjoint."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from sdpmetric import _loops
from sdpmetric._loops import pairs

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.int32]

# Pairs whose differences are held at once.
PAIRS_AT_ONCE = 1 << 14


@dataclass(frozen=True, eq=False)
class Blocks:
    """Points in consecutive blocks, each with a metric of its own; one block is the ordinary case.

    Attributes
    ----------
    bounds : (c + 1,) int64 array
        Block b holds rows ``bounds[b]`` to ``bounds[b + 1]``.
    """

    bounds: NDArray[np.int64]

    @classmethod
    def one(cls, n: int) -> Blocks:
        """A single block of n points."""
        return cls(np.array([0, n], dtype=np.int64))

    def __len__(self) -> int:
        return len(self.bounds) - 1

    @cached_property
    def tasks(self) -> NDArray[np.int64]:
        """Rows (first, last, block) that share the work among the threads evenly, (t, 3)."""
        share = max(1, -(-int(self.bounds[-1]) // _loops.thread_count()))
        rows: list[tuple[int, int, int]] = []
        for block, (first, last) in enumerate(pairwise(self.bounds.tolist())):
            parts = -(-(last - first) // share)
            cuts = [first + part * (last - first) // parts for part in range(parts)] + [last] if parts else []
            rows += [(*cut, block) for cut in pairwise(cuts)]
        return np.array(rows, dtype=np.int64).reshape(-1, 3)

    def times(self, X: NDArray[np.floating], Lt: NDArray[np.floating]) -> NDArray[np.floating]:
        """``X[rows] @ Lt[b]`` for the rows of each block b; X (n, d), Lt (c, d, r)."""
        if X.size * Lt.shape[2] <= _loops.SMALL_WORK:
            return np.concatenate([X[a:b] @ Lt[c] for c, (a, b) in enumerate(pairwise(self.bounds))])
        out = np.empty((len(X), Lt.shape[2]), dtype=X.dtype)
        pairs.rows_times(X, np.ascontiguousarray(Lt, dtype=X.dtype), self.tasks, out)
        return out

    def gram(self, Y: NDArray[np.floating], X: NDArray[np.floating]) -> NDArray[np.floating]:
        """``Y[rows].T @ X[rows]`` for each block, (c, r, d); Y (parts, n, r) is summed over its parts first."""
        if Y.shape[0] == 1 and X.size * Y.shape[2] <= _loops.SMALL_WORK:
            return np.stack([Y[0, a:b].T @ X[a:b] for a, b in pairwise(self.bounds)])
        grams: NDArray[np.floating] = pairs.transposed_times(Y, X, self.tasks, len(self))
        return grams


def distances(Z: NDArray[np.floating], first: NDArray[np.integer], second: NDArray[np.integer]) -> FloatArray:
    """Squared Euclidean distances between rows of embedded points, pair by pair.

    Parameters
    ----------
    Z : (n, r) array
        Embedded points ``X @ L.T``.
    first, second : (p,) integer arrays

    Returns
    -------
    D : (p,) array
        ``D(M)_p`` for ``M = L.T @ L``.
    """
    out = np.empty(len(first))
    pairs.pair_distances(np.ascontiguousarray(Z), first.astype(np.int32), second.astype(np.int32), out)
    return out


def mean_squared_distance(X: NDArray[np.floating]) -> float:
    """The mean squared Euclidean distance between two different rows, in float64."""
    return 2.0 * float(np.var(X, axis=0, dtype=np.float64).sum()) * len(X) / max(1, len(X) - 1)


def adjoint(
    X: FloatArray,
    first: NDArray[np.integer],
    second: NDArray[np.integer],
    weights: FloatArray,
    *,
    accuracy: float = np.inf,
) -> FloatArray:
    """The adjoint ``D*(w) = sum_p w_p (x_a - x_b)(x_a - x_b)^T``, as ``X^T Lap(w) X``.

    Parameters
    ----------
    X : (n, d) array
    first, second : (p,) integer arrays
        Row indices of the pairs; pairs may repeat, and their weights then add up.
    weights : (p,) array
    accuracy : float, default infinity
        Absolute error to keep to. If rows of X that are long beside their differences might cost more than this,
        differences are multiplied out pair by pair, which is slower.

    Returns
    -------
    A : (d, d) array
        Symmetric; ``<A, M> = sum_p w_p D(M)_p`` for every symmetric M.
    """
    a, b = first.astype(np.int32), second.astype(np.int32)
    weights = np.asarray(weights, dtype=np.float64)
    if np.isfinite(accuracy) and _rounding(X, a, b, weights) > accuracy:
        A = np.zeros((X.shape[1], X.shape[1]))
        for block, rows in zip(_blocks(len(weights)), differences(X, first, second), strict=True):
            A += (weights[block, None] * rows).T @ rows
    else:
        A = laplacian_form(X, a, b, weights)[0]
    return 0.5 * (A + A.T)


def _rounding(X: FloatArray, first: IndexArray, second: IndexArray, weights: FloatArray) -> float:
    """What `laplacian_form` may be off by: it multiplies differences by rows, which may be much longer."""
    lengths = np.sqrt(np.einsum("ij,ij->i", X, X))
    sizes = np.sqrt(distances(X, first, second)) * (lengths[first] + lengths[second])
    return 4 * float(np.finfo(float).eps) * float(np.abs(weights) @ sizes)


def pair_forms(P: FloatArray, N: FloatArray, blocks: Blocks, first: IndexArray, second: IndexArray) -> FloatArray:
    """``<N, (p_a - p_b)(p_a - p_b)^T>`` of all pairs, N the symmetric matrix of their block; N need not be PSD."""
    out, threads = np.empty(len(first)), _loops.thread_count()
    W = blocks.times(P, N)
    if len(first) * P.shape[1] <= _loops.SMALL_WORK:
        pairs.pair_forms_of(P, W, first, second, 0, len(first), out)
    else:
        pairs.pair_forms(P, W, first, second, out, threads)
    return out


def laplacian_form(
    X: FloatArray, first: IndexArray, second: IndexArray, weights: FloatArray, blocks: Blocks | None = None
) -> FloatArray:
    """``X^T Lap(w) X`` of the pairs of each block, (c, d, d), not symmetrized; one block unless told otherwise."""
    blocks = Blocks.one(len(X)) if blocks is None else blocks
    if len(first) * X.shape[1] <= _loops.SMALL_WORK:
        parts = np.empty((1, *X.shape))
        pairs.laplacian_times_of(X, first, second, weights, 0, len(first), parts[0])
    else:
        parts = np.empty((_loops.thread_count(), *X.shape))
        pairs.laplacian_times(X, first, second, weights, parts)
    return blocks.gram(parts, X).astype(np.float64, copy=False)


def differences(X: FloatArray, first: NDArray[np.integer], second: NDArray[np.integer]) -> Iterator[FloatArray]:
    """The rows ``x_a - x_b`` of all pairs, block by block; one empty block if there are no pairs."""
    for block in _blocks(len(first)):
        yield X[first[block]] - X[second[block]]


def _blocks(n_pairs: int) -> list[slice]:
    return [slice(start, start + PAIRS_AT_ONCE) for start in range(0, max(n_pairs, 1), PAIRS_AT_ONCE)]
