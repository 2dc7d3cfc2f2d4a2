"""Every compiled loop of the package: impostor scanning, hinge slopes, and the smoothed objective.

All loops walk *candidates* (see `sdpmetric.neighbors.Candidates`): row ``r`` holds an anchor, up to K target
neighbors (padded with -1), and a slice of possible impostors. Rows are split over threads so that each thread meets
about as many impostors as the next; every thread sums in a fixed order, so that results repeat exactly for a given
number of threads.
"""

from __future__ import annotations

import numba as nb
import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.int32]

# "Reassociate and contract" lets the compiler vectorize the sums; NaN and infinity keep their meaning.
FAST = {"reassoc", "contract", "nsz"}
CHUNK = 32
# Below this many coordinate differences (half a millisecond) one thread does the work: waking the others costs tens of
# microseconds, and milliseconds on a machine that is busy with something else.
SMALL_WORK = 500_000


@nb.njit(cache=True, fastmath=FAST)
def _scan_row(
    distances: NDArray[np.floating],
    limit: float,
    label: int,
    stratum: int,
    labels: IndexArray,
    strata: IndexArray,
    start: int,
    out: IndexArray | None,
) -> int:
    """Count the columns that `count_within` speaks of, and write them from `start` on where there is an `out`."""
    n, p = len(distances), start
    for first in range(0, n, CHUNK):
        last = min(first + CHUNK, n)
        near = 0
        for j in range(first, last):
            near += distances[j] <= limit
        if near > 0:
            for j in range(first, last):
                if distances[j] <= limit and labels[j] != label and strata[j] == stratum:
                    if out is not None:
                        out[p] = j
                    p += 1
    return p - start


@nb.njit(parallel=True, cache=True, fastmath=FAST)
def count_within(
    D: NDArray[np.floating],
    limits: NDArray[np.floating],
    labels: IndexArray,
    strata: IndexArray,
    rows: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> None:
    """Count, per row of D, the columns at or below the row's limit with another label and the same stratum."""
    if D.size <= SMALL_WORK:
        for r in range(D.shape[0]):
            i = rows[r]
            counts[r] = _scan_row(D[r], limits[r], labels[i], strata[i], labels, strata, 0, None)
    else:
        for r in nb.prange(D.shape[0]):
            i = rows[r]
            counts[r] = _scan_row(D[r], limits[r], labels[i], strata[i], labels, strata, 0, None)


@nb.njit(parallel=True, cache=True, fastmath=FAST)
def list_within(
    D: NDArray[np.floating],
    limits: NDArray[np.floating],
    labels: IndexArray,
    strata: IndexArray,
    rows: NDArray[np.int64],
    starts: NDArray[np.int64],
    out: IndexArray,
) -> None:
    """Write, per row of D, the columns that `count_within` counts, in increasing order."""
    if D.size <= SMALL_WORK:
        for r in range(D.shape[0]):
            i = rows[r]
            _scan_row(D[r], limits[r], labels[i], strata[i], labels, strata, starts[r], out)
    else:
        for r in nb.prange(D.shape[0]):
            i = rows[r]
            _scan_row(D[r], limits[r], labels[i], strata[i], labels, strata, starts[r], out)


@nb.njit(cache=True, fastmath=FAST, inline="always")
def _distance(Z: NDArray[np.floating], i: int, j: int) -> float:
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
            out[p] = _distance(Z, first[p], second[p])
    else:
        for p in nb.prange(len(first)):
            out[p] = _distance(Z, first[p], second[p])


@nb.njit(cache=True, inline="always")
def _loss(u: float, gamma: float, squared: bool) -> tuple[float, float]:
    """Value and slope at u > 0 of the squared hinge, or of the hinge made quadratic on [0, gamma]."""
    if squared:
        return u * u, 2.0 * u
    if u >= gamma:
        return u - 0.5 * gamma, 1.0
    return 0.5 * u * u / gamma, u / gamma


@nb.njit(cache=True, fastmath=FAST)
def hinge_slopes_of_rows(
    Z: NDArray[np.floating],
    anchors: IndexArray,
    targets: IndexArray,
    indptr: NDArray[np.int64],
    impostors: IndexArray,
    weights: FloatArray | None,
    begin: int,
    end: int,
    gamma: float,
    squared: bool,
    slopes: FloatArray,
    sums: FloatArray,
) -> None:
    """`hinge_slopes` for a run of rows, on the calling thread."""
    K = targets.shape[1]
    dT = np.empty(K)
    total = slope = square = active = 0.0
    for r in range(begin, end):
        if indptr[r] == indptr[r + 1]:
            continue
        i = anchors[r]
        size = 0
        while size < K and targets[r, size] >= 0:
            dT[size] = _distance(Z, i, targets[r, size])
            size += 1
        for p in range(indptr[r], indptr[r + 1]):
            dP = _distance(Z, i, impostors[p])
            w = 1.0
            if weights is not None:
                w = weights[p]
            for j in range(K):
                slopes[p, j] = 0.0
            for j in range(size):
                u = 1.0 + dT[j] - dP
                if u > 0.0:
                    a = w * _loss(u, gamma, squared)[1]
                    slopes[p, j] = a
                    total += w * (u * u if squared else u)
                    slope += a
                    if w > 0.0:
                        square += a * a / w
                        active += 1.0
    sums[0], sums[1], sums[2], sums[3] = total, slope, square, active


@nb.njit(parallel=True, cache=True, fastmath=FAST)
def hinge_slopes(
    Z: NDArray[np.floating],
    anchors: IndexArray,
    targets: IndexArray,
    indptr: NDArray[np.int64],
    impostors: IndexArray,
    weights: FloatArray | None,
    bounds: NDArray[np.int64],
    gamma: float,
    squared: bool,
    slopes: FloatArray,
) -> FloatArray:
    """Slope of every triplet's loss (rows of `slopes` are candidate pairs, columns targets); sums per thread.

    The sums are: loss without smoothing, slopes, slopes squared over weight, triplets with positive hinge.
    """
    sums = np.zeros((len(bounds) - 1, 4))
    for t in nb.prange(len(bounds) - 1):
        hinge_slopes_of_rows(
            Z, anchors, targets, indptr, impostors, weights, bounds[t], bounds[t + 1], gamma, squared, slopes, sums[t]
        )
    return sums


@nb.njit(cache=True, fastmath=FAST)
def smoothed_push_of_rows(
    Z: NDArray[np.floating],
    anchors: IndexArray,
    targets: IndexArray,
    indptr: NDArray[np.int64],
    impostors: IndexArray,
    weights: FloatArray | None,
    first: int,
    last: int,
    gamma: float,
    squared: bool,
    Y: NDArray[np.floating],
    sums: FloatArray,
) -> None:
    """`smoothed_push` for a run of rows: fills Y and sums."""
    K, R = targets.shape[1], Z.shape[1]
    Y[:] = 0.0
    dT = np.empty(K)
    wT = np.empty(K)
    smooth = total = active = 0.0
    for r in range(first, last):
        if indptr[r] == indptr[r + 1]:
            continue
        i = anchors[r]
        size, furthest = 0, 0.0
        while size < K and targets[r, size] >= 0:
            dT[size] = _distance(Z, i, targets[r, size])
            furthest = max(furthest, dT[size])
            wT[size] = 0.0
            size += 1
        for p in range(indptr[r], indptr[r + 1]):
            l = impostors[p]
            dP = _distance(Z, i, l)
            if dP < 1.0 + furthest:
                w = 1.0
                if weights is not None:
                    w = weights[p]
                push = 0.0
                for j in range(size):
                    u = 1.0 + dT[j] - dP
                    if u > 0.0:
                        value, a = _loss(u, gamma, squared)
                        smooth += w * value
                        total += w * (u * u if squared else u)
                        if w > 0.0:
                            active += 1.0
                        push += w * a
                        wT[j] += w * a
                for q in range(R):
                    g = push * (Z[i, q] - Z[l, q])
                    Y[i, q] -= g
                    Y[l, q] += g
        for j in range(size):
            if wT[j] > 0.0:
                l = targets[r, j]
                for q in range(R):
                    g = wT[j] * (Z[i, q] - Z[l, q])
                    Y[i, q] += g
                    Y[l, q] -= g
    sums[0], sums[1], sums[2] = smooth, total, active


@nb.njit(parallel=True, cache=True, fastmath=FAST)
def smoothed_push(
    Z: NDArray[np.floating],
    anchors: IndexArray,
    targets: IndexArray,
    indptr: NDArray[np.int64],
    impostors: IndexArray,
    weights: FloatArray | None,
    bounds: NDArray[np.int64],
    gamma: float,
    squared: bool,
    Y: NDArray[np.floating],
) -> FloatArray:
    """Sums of the smoothed loss, and in Y[t] the product of its weighted graph Laplacian with Z.

    The sums are: smoothed loss, loss without smoothing, active triplets. The gradient in the embedded points is
    ``2 * Y.sum(0)``.
    """
    sums = np.zeros((len(bounds) - 1, 3))
    for t in nb.prange(len(bounds) - 1):
        smoothed_push_of_rows(
            Z, anchors, targets, indptr, impostors, weights, bounds[t], bounds[t + 1], gamma, squared, Y[t], sums[t]
        )
    return sums


@nb.njit(parallel=True, cache=True)
def rows_times(X: NDArray[np.floating], Lt: NDArray[np.floating], out: NDArray[np.floating], parts: int) -> None:
    """``out = X @ Lt`` by runs of rows, each run in a thread of this pool with BLAS held to one thread."""
    n = len(X)
    for t in nb.prange(parts):
        first, last = t * n // parts, (t + 1) * n // parts
        out[first:last] = np.dot(X[first:last], Lt)


@nb.njit(parallel=True, cache=True)
def transposed_times(Y: NDArray[np.floating], X: NDArray[np.floating], parts: int) -> NDArray[np.floating]:
    """``Y.sum(0).T @ X`` by runs of rows, for Y of shape (threads, n, r)."""
    n = len(X)
    G = np.zeros((parts, Y.shape[2], X.shape[1]), dtype=X.dtype)
    for t in nb.prange(parts):
        first, last = t * n // parts, (t + 1) * n // parts
        S = Y[0, first:last].copy()
        for u in range(1, len(Y)):
            S += Y[u, first:last]
        G[t] = np.dot(S.T, X[first:last])
    total: NDArray[np.floating] = G.sum(axis=0)
    return total


def thread_count() -> int:
    """Threads that the compiled loops use; numba's setting decides."""
    return int(nb.get_num_threads())
