"""The one linear map of every convex method here, pair distances ``D(M)``, its adjoint, and sums of hinges over it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from sdpmetric import kernels
from sdpmetric.kernels import hinges, pairs
from sdpmetric.triplets import Candidates, Triplets

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
        share = max(1, -(-int(self.bounds[-1]) // kernels.thread_count()))
        rows: list[tuple[int, int, int]] = []
        for block, (first, last) in enumerate(pairwise(self.bounds.tolist())):
            parts = -(-(last - first) // share)
            cuts = [first + part * (last - first) // parts for part in range(parts)] + [last] if parts else []
            rows += [(*cut, block) for cut in pairwise(cuts)]
        return np.array(rows, dtype=np.int64).reshape(-1, 3)

    def times(self, X: NDArray[np.floating], Lt: NDArray[np.floating]) -> NDArray[np.floating]:
        """``X[rows] @ Lt[b]`` for the rows of each block b; X (n, d), Lt (c, d, r)."""
        if X.size * Lt.shape[2] <= kernels.SMALL_WORK:
            return np.concatenate([X[a:b] @ Lt[c] for c, (a, b) in enumerate(pairwise(self.bounds))])
        out = np.empty((len(X), Lt.shape[2]), dtype=X.dtype)
        pairs.rows_times(X, np.ascontiguousarray(Lt, dtype=X.dtype), self.tasks, out)
        return out

    def gram(self, Y: NDArray[np.floating], X: NDArray[np.floating]) -> NDArray[np.floating]:
        """``Y[rows].T @ X[rows]`` for each block, (c, r, d); Y (parts, n, r) is summed over its parts first."""
        if Y.shape[0] == 1 and X.size * Y.shape[2] <= kernels.SMALL_WORK:
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
    out, threads = np.empty(len(first)), kernels.thread_count()
    W = blocks.times(P, N)
    if len(first) * P.shape[1] <= kernels.SMALL_WORK:
        pairs.pair_forms_of(P, W, first, second, 0, len(first), out)
    else:
        pairs.pair_forms(P, W, first, second, out, threads)
    return out


def laplacian_form(
    X: FloatArray, first: IndexArray, second: IndexArray, weights: FloatArray, blocks: Blocks | None = None
) -> FloatArray:
    """``X^T Lap(w) X`` of the pairs of each block, (c, d, d), not symmetrized; one block unless told otherwise."""
    blocks = Blocks.one(len(X)) if blocks is None else blocks
    if len(first) * X.shape[1] <= kernels.SMALL_WORK:
        parts = np.empty((1, *X.shape))
        pairs.laplacian_times_of(X, first, second, weights, 0, len(first), parts[0])
    else:
        parts = np.empty((kernels.thread_count(), *X.shape))
        pairs.laplacian_times(X, first, second, weights, parts)
    return blocks.gram(parts, X).astype(np.float64, copy=False)


def differences(X: FloatArray, first: NDArray[np.integer], second: NDArray[np.integer]) -> Iterator[FloatArray]:
    """The rows ``x_a - x_b`` of all pairs, block by block; one empty block if there are no pairs."""
    for block in _blocks(len(first)):
        yield X[first[block]] - X[second[block]]


def _blocks(n_pairs: int) -> list[slice]:
    return [slice(start, start + PAIRS_AT_ONCE) for start in range(0, max(n_pairs, 1), PAIRS_AT_ONCE)]


def margin_adjoint(X: FloatArray, triplets: Triplets, values: FloatArray, *, accuracy: float = np.inf) -> FloatArray:
    """The matrix ``sum_t a_t B_t``, where ``B_t = C_il - C_ij`` belongs to triplet t = (i, j, l)."""
    first = np.concatenate([triplets.anchors, triplets.anchors])
    second = np.concatenate([triplets.impostors, triplets.targets])
    return adjoint(X, first, second, np.concatenate([values, -values]), accuracy=accuracy)


def margins(Z: NDArray[np.floating], triplets: Triplets) -> FloatArray:
    """The margin ``<B_t, M> = D_il - D_ij`` of every triplet; the hinge is ``[1 - margin]_+``."""
    far = distances(Z, triplets.anchors, triplets.impostors)
    return far - distances(Z, triplets.anchors, triplets.targets)


@dataclass(frozen=True)
class HingeSums:
    """Sums over the triplets of a candidate set, weights included and the push weight left out.

    Attributes
    ----------
    loss : float
        ``sum w h(u)`` with ``u = 1 - margin`` and h the hinge or its square, without smoothing.
    slopes, squares : float
        ``sum a`` and ``sum a^2 / w`` of the slopes a of the (smoothed) loss.
    n_active : int
        Triplets with ``u > 0``.
    """

    loss: float
    slopes: float
    squares: float
    n_active: int


def target_distances(Z: NDArray[np.floating], bases: IndexArray, targets: IndexArray) -> FloatArray:
    """Squared distances from ``bases`` to ``targets``, both (m, K) and padded with -1; -1 there.

    Parameters
    ----------
    Z : (n, r) array
    bases : (m,) or (m, K) array
        The anchor of each row, or of each target.
    targets : (m, K) array
    """
    first = np.broadcast_to(bases if bases.ndim == 2 else bases[:, None], targets.shape)
    near = distances(Z, np.where(targets >= 0, first, 0).ravel(), np.maximum(targets, 0).ravel()).reshape(targets.shape)
    near[targets < 0] = -1.0
    return near


def hinge_slopes(
    Z: NDArray[np.floating],
    candidates: Candidates,
    gamma: float,
    squared: bool,
    near: FloatArray | None = None,
) -> tuple[HingeSums, FloatArray]:
    """Slopes of the loss of every candidate triplet.

    Parameters
    ----------
    Z : (n, r) array
        Embedded points.
    candidates : Candidates
    gamma : float
        Width of the quadratic part of the smoothed hinge; 0 for the hinge itself.
    squared : bool
        Take the squared hinge, which needs no smoothing.
    near : (m, K) array, optional
        Squared distances to the target neighbors of each row, where they are under another metric; see
        `target_distances`.

    Returns
    -------
    sums : HingeSums
    slopes : (nnz, K) array
        Weights included; 0 where the hinge is not active.
    """
    C, Z = candidates, np.ascontiguousarray(Z)
    near = target_distances(Z, C.anchors, C.targets) if near is None else near
    slopes = np.empty((len(C.impostors), C.targets.shape[1]))
    if len(C.impostors) * Z.shape[1] <= kernels.SMALL_WORK:
        sums = np.zeros((1, 4))
        hinges.hinge_slopes_of_rows(
            Z, C.anchors, near, C.indptr, C.impostors, C.weights, 0, len(C.anchors), gamma, squared, slopes,
            sums[0],
        )  # fmt: skip
    else:
        bounds = C.bounds(kernels.thread_count())
        sums = hinges.hinge_slopes(Z, C.anchors, near, C.indptr, C.impostors, C.weights, bounds, gamma, squared, slopes)
    loss, slope, square, active = sums.sum(axis=0)
    return HingeSums(float(loss), float(slope), float(square), round(active)), slopes


def slope_pairs(
    candidates: Candidates, slopes: FloatArray, bases: IndexArray | None = None
) -> tuple[IndexArray, IndexArray, FloatArray]:
    """The pairs and weights w with ``sum_t a_t B_t = D*(w)`` for the slopes that `hinge_slopes` returns.

    Parameters
    ----------
    candidates : Candidates
    slopes : (nnz, K) array
    bases : (m, K) array, optional
        What each target is compared with; default: the anchor of its row.
    """
    C, rows = candidates, candidates.rows
    push = slopes.sum(axis=1)
    pull: FloatArray = np.zeros(C.targets.shape)
    for j in range(pull.shape[1]):
        pull[:, j] = np.bincount(rows, slopes[:, j], minlength=len(pull))
    row, slot = np.nonzero(pull)
    used = push != 0
    base = C.anchors[row] if bases is None else bases[row, slot]
    first = np.concatenate([C.anchors[rows[used]], base])
    second = np.concatenate([C.impostors[used], C.targets[row, slot]])
    return first, second, np.concatenate([push[used], -pull[row, slot]])


def slope_adjoint(X: FloatArray, candidates: Candidates, slopes: FloatArray, *, accuracy: float = np.inf) -> FloatArray:
    """The matrix ``sum_t a_t B_t`` of the slopes that `hinge_slopes` returns, ``a_t`` being the entries.

    See `adjoint` for the accuracy.
    """
    return adjoint(X, *slope_pairs(candidates, slopes), accuracy=accuracy)
