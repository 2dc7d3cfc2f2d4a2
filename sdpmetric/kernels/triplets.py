"""Compiled loops over triplets: impostor scanning, hinge slopes, and the smoothed objective.

All loops walk *candidates* (see `sdpmetric.triplets.Candidates`): row ``r`` holds an anchor, up to K target
neighbors (padded with -1), and a slice of possible impostors. Rows are split over threads so that each thread meets
about as many impostors as the next; every thread sums in a fixed order, so that results repeat exactly for a given
number of threads.
"""

from __future__ import annotations

import numba as nb
import numpy as np
from numpy.typing import NDArray

from sdpmetric.kernels import FAST

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.int32]

# Rows and columns of one tile of the distance matrix, which stays in the cache of its core in single precision, and the
# columns that are looked at together.
TILE_ROWS, TILE_COLUMNS, CHUNK = 64, 1024, 64
# Below this many coordinate differences (half a millisecond) one thread does the work: waking the others costs tens of
# microseconds, and milliseconds on a machine that is busy with something else.
SMALL_WORK = 500_000


@nb.njit(cache=True, fastmath=FAST)
def _any_within(values: NDArray[np.floating], ceilings: NDArray[np.floating], limit: float) -> bool:
    """Whether any value is at or below its ceiling or the limit; without a branch, so that it is vectorized."""
    count = np.float32(0.0)
    for j in range(len(values)):
        count += np.float32(1.0) if values[j] <= max(ceilings[j], limit) else np.float32(0.0)
    return bool(count > 0.0)


@nb.njit(cache=True, fastmath=FAST)
def scan_tiles(
    left: NDArray[np.floating],
    tiles: NDArray[np.floating],
    limits: NDArray[np.floating],
    ceilings: NDArray[np.floating],
    own: NDArray[np.int64],
    both: bool,
    begin: int,
    end: int,
    state: NDArray[np.int64],
    pairs: IndexArray,
) -> None:
    """Scan row tiles `begin` to `end` of ``D = left @ tiles`` for entries at or below their limit, on this thread.

    Row k of D belongs to columns ``own[k, 0]`` to ``own[k, 1]``, which are left out. Where ``both``, rows and columns
    are the same points: only columns from ``own[k, 1]`` on are looked at, and an entry at or below the ceiling of its
    column is listed as the pair (column, row) too. Starts at task ``state[0]``, stops early when `pairs` might
    overflow, and leaves the next task and the number of pairs in `state`.
    """
    n_tiles, width, n = len(tiles), tiles.shape[2], len(ceilings)
    height = TILE_ROWS
    D = np.empty((height, width), dtype=left.dtype)
    task, used = state[0], 0
    while task < (end - begin) * n_tiles and used + 2 * height * width <= len(pairs):
        top, first = (begin + task // n_tiles) * height, task % n_tiles * width
        task += 1
        rows, last = min(height, len(left) - top), min(first + width, n)
        inside = own[top, 0] == own[top + rows - 1, 0] and first >= own[top, 0] and last <= own[top, 1]
        if inside or (both and last <= own[top, 1]):
            continue
        np.dot(left[top : top + rows], tiles[first // width], D[:rows])
        for k in range(rows):
            row, limit = top + k, limits[top + k]
            for part in range(2):
                if part == 0:
                    start, stop = first, 0 if both else min(last, own[row, 0])
                else:
                    start, stop = max(first, own[row, 1]), last
                for low in range(start, stop, CHUNK):
                    high = min(low + CHUNK, stop)
                    if not _any_within(D[k, low - first : high - first], ceilings[low:high], limit):
                        continue
                    for j in range(low, high):
                        distance = D[k, j - first]
                        if distance <= limit:
                            pairs[used, 0], pairs[used, 1] = row, j
                            used += 1
                        if both and distance <= ceilings[j]:
                            pairs[used, 0], pairs[used, 1] = j, row
                            used += 1
    state[0], state[1] = task, used


@nb.njit(parallel=True, cache=True, fastmath=FAST)
def scan_tiles_in_parallel(
    left: NDArray[np.floating],
    tiles: NDArray[np.floating],
    limits: NDArray[np.floating],
    ceilings: NDArray[np.floating],
    own: NDArray[np.int64],
    both: bool,
    bounds: NDArray[np.int64],
    states: NDArray[np.int64],
    pairs: IndexArray,
) -> None:
    """`scan_tiles` with one run of row tiles for each thread."""
    for t in nb.prange(len(bounds) - 1):
        scan_tiles(left, tiles, limits, ceilings, own, both, bounds[t], bounds[t + 1], states[t], pairs[t])


@nb.njit(cache=True)
def group_pairs(
    rows: IndexArray, columns: IndexArray, n_rows: int, n_columns: int
) -> tuple[NDArray[np.int64], IndexArray]:
    """Compressed rows of (row, column) pairs, columns in increasing order, by counting twice."""
    place = np.zeros(n_columns + 1, dtype=np.int64)
    for p in range(len(columns)):
        place[columns[p] + 1] += 1
    place = np.cumsum(place)
    order = np.empty(len(rows), dtype=np.int64)
    for p in range(len(rows)):
        order[place[columns[p]]] = p
        place[columns[p]] += 1
    indptr = np.zeros(n_rows + 1, dtype=np.int64)
    for p in range(len(rows)):
        indptr[rows[p] + 1] += 1
    indptr = np.cumsum(indptr)
    place = indptr[:-1].copy()
    out = np.empty(len(rows), dtype=np.int32)
    for q in range(len(order)):
        p = order[q]
        out[place[rows[p]]] = columns[p]
        place[rows[p]] += 1
    return indptr, out


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
    near: FloatArray,
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
    K = near.shape[1]
    total = slope = square = active = 0.0
    for r in range(begin, end):
        if indptr[r] == indptr[r + 1]:
            continue
        i = anchors[r]
        size = 0
        while size < K and near[r, size] >= 0.0:
            size += 1
        for p in range(indptr[r], indptr[r + 1]):
            dP = _distance(Z, i, impostors[p])
            w = 1.0
            if weights is not None:
                w = weights[p]
            for j in range(K):
                slopes[p, j] = 0.0
            for j in range(size):
                u = 1.0 + near[r, j] - dP
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
    near: FloatArray,
    indptr: NDArray[np.int64],
    impostors: IndexArray,
    weights: FloatArray | None,
    bounds: NDArray[np.int64],
    gamma: float,
    squared: bool,
    slopes: FloatArray,
) -> FloatArray:
    """Slope of every triplet's loss (rows of `slopes` are candidate pairs, columns targets); sums per thread.

    `near` holds the squared distances to the target neighbors of each row, padded at the end with -1.

    The sums are: loss without smoothing, slopes, slopes squared over weight, triplets with positive hinge.
    """
    sums = np.zeros((len(bounds) - 1, 4))
    for t in nb.prange(len(bounds) - 1):
        hinge_slopes_of_rows(
            Z, anchors, near, indptr, impostors, weights, bounds[t], bounds[t + 1], gamma, squared, slopes, sums[t]
        )
    return sums


@nb.njit(cache=True, fastmath=FAST)
def smoothed_push_of_rows(
    Z: NDArray[np.floating],
    anchors: IndexArray,
    bases: IndexArray,
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
            dT[size] = _distance(Z, bases[r, size], targets[r, size])
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
                b, l = bases[r, j], targets[r, j]
                for q in range(R):
                    g = wT[j] * (Z[b, q] - Z[l, q])
                    Y[b, q] += g
                    Y[l, q] -= g
    sums[0], sums[1], sums[2] = smooth, total, active


@nb.njit(parallel=True, cache=True, fastmath=FAST)
def smoothed_push(
    Z: NDArray[np.floating],
    anchors: IndexArray,
    bases: IndexArray,
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

    The point that target ``[r, j]`` is compared with is ``bases[r, j]``: the anchor, under another metric perhaps. The
    sums are: smoothed loss, loss without smoothing, active triplets. The gradient in the embedded points is
    ``2 * Y.sum(0)``.
    """
    sums = np.zeros((len(bounds) - 1, 3))
    for t in nb.prange(len(bounds) - 1):
        smoothed_push_of_rows(
            Z,
            anchors,
            bases,
            targets,
            indptr,
            impostors,
            weights,
            bounds[t],
            bounds[t + 1],
            gamma,
            squared,
            Y[t],
            sums[t],
        )
    return sums


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


def thread_count() -> int:
    """Threads that the compiled loops use; numba's setting decides."""
    return int(nb.get_num_threads())
