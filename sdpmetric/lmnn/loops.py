"""Compiled loops over triplets: the search for impostors, hinges, and bounds that hold with rounding."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray, IndexArray, LongArray
from sdpmetric.engine.lazy import FAST, loop
from sdpmetric.engine.threads import Workload, in_parts
from sdpmetric.linalg.pair_loops import SQUARE_ERROR, Run, distance, length_bounds

Rows = NDArray[np.floating]
# What a search knows of the distance matrix ``row_factors @ tiles``, anchors by points, both sorted by class: row
# factors (m, r + 2), tiles (number, r + 2, width), limits of rows and of columns, the columns of each row's own class
# (m, 2), and whether each pair is measured once for both.
Tiling = tuple[Rows, Rows, Rows, Rows, LongArray, bool]
# Candidate pairs in compressed rows: the anchor of each row, where its pairs begin, impostors, weights or none at all.
Pairs = tuple[IndexArray, LongArray, IndexArray, FloatArray]
# Rows and columns of one tile of the distance matrix, which stays in the cache of its core in single precision, and the
# columns that are looked at together.
TILE_ROWS, TILE_COLUMNS, CHUNK = 64, 1024, 64


def _of_rows(pairs: Pairs, targets: NDArray[np.generic], differences: float) -> Workload:
    """The work of rows of candidates, cut where parts have about as many pairs and targets."""
    indptr = pairs[1]

    def cut(n_parts: int) -> LongArray:
        work = indptr + np.arange(len(indptr)) * targets.shape[1]
        cuts = np.searchsorted(work, np.linspace(0, work[-1], n_parts + 1)[1:-1])
        return np.concatenate([[0], cuts, [len(indptr) - 1]]).astype(np.int64)

    return differences, len(indptr) - 1, cut


@loop(fastmath=FAST)
def _any_within(values: NDArray[np.floating], limits_of_values: NDArray[np.floating], limit: float) -> bool:
    """Whether any value is at or below its ceiling or the limit; without a branch, so it is vectorized."""
    count = np.float32(0.0)
    for j in range(len(values)):
        count += np.float32(1.0) if values[j] <= max(limits_of_values[j], limit) else np.float32(0.0)
    return bool(count > 0.0)


@loop(nogil=True, fastmath=FAST)
def scan_tiles(tiling: Tiling, tops: LongArray, state: LongArray, pairs: IndexArray) -> None:
    """Scan the tiles with the first rows `tops` of ``D = row_factors @ tiles`` for entries at or below their limit.

    Columns ``class_bounds[k, 0]`` to ``class_bounds[k, 1]`` are of the class of row k and left out. Where rows and
    columns are the same points, in a `symmetric` search, only columns behind these are scanned, and an entry at or
    below the limit of its column is listed as the pair (column, row) too.
    Starts at task ``state[0]``,
    stops early when `pairs` might overflow, and leaves the next task and the number of pairs in `state`.
    """
    row_factors, tiles, row_limits, column_limits, class_bounds, symmetric = tiling
    n_tiles, width, n = len(tiles), tiles.shape[2], len(column_limits)
    height = TILE_ROWS
    D = np.empty((height, width), dtype=row_factors.dtype)
    task, used = state[0], 0
    while task < len(tops) * n_tiles and used + 2 * height * width <= len(pairs):
        top, first = tops[task // n_tiles], task % n_tiles * width
        task += 1
        rows, last = min(height, len(row_factors) - top), min(first + width, n)
        class_first, class_last = class_bounds[top, 0], class_bounds[top, 1]
        inside = class_first == class_bounds[top + rows - 1, 0] and first >= class_first and last <= class_last
        if inside or (symmetric and last <= class_last):
            continue
        np.dot(row_factors[top : top + rows], tiles[first // width], D[:rows])
        for k in range(rows):
            row, limit = top + k, row_limits[top + k]
            for side in range(2):
                if side == 0:
                    start, stop = first, 0 if symmetric else min(last, class_bounds[row, 0])
                else:
                    start, stop = max(first, class_bounds[row, 1]), last
                for low in range(start, stop, CHUNK):
                    high = min(low + CHUNK, stop)
                    if not _any_within(D[k, low - first : high - first], column_limits[low:high], limit):
                        continue
                    for j in range(low, high):
                        distance = D[k, j - first]
                        if distance <= limit:
                            pairs[used, 0], pairs[used, 1] = row, j
                            used += 1
                        if symmetric and distance <= column_limits[j]:
                            pairs[used, 0], pairs[used, 1] = j, row
                            used += 1
    state[0], state[1] = task, used


@loop(inline="always")
def _loss(u: float, gamma: float, squared: bool) -> tuple[float, float]:
    """Value and slope at u > 0 of the squared hinge, or of the hinge made quadratic on [0, gamma]."""
    if squared:
        return u * u, 2.0 * u
    if u >= gamma:
        return u - 0.5 * gamma, 1.0
    return 0.5 * u * u / gamma, u / gamma


@in_parts(lambda Z, pairs, target_D, *_: _of_rows(pairs, target_D, len(pairs[2]) * Z.shape[1]))
@loop(nogil=True, fastmath=FAST)
def hinge_slopes(
    run: Run,
    Z: NDArray[np.floating],
    pairs: Pairs,
    target_D: FloatArray,
    gamma: float,
    squared: bool,
    slopes: FloatArray,
) -> tuple[float, float, float, float]:
    """Slope of every triplet's loss in rows of candidates (rows of `slopes` are candidate pairs, columns targets).

    `target_D` holds the squared distances to the target neighbors of each row, padded at the end with -1.

    The sums are: loss without smoothing, slopes, slopes squared over weight, triplets with positive hinge.
    """
    anchors, indptr, impostors, weights = pairs
    K = target_D.shape[1]
    total = slope = square = active = 0.0
    for r in range(run[0], run[1]):
        if indptr[r] == indptr[r + 1]:
            continue
        i = anchors[r]
        size = 0
        while size < K and target_D[r, size] >= 0.0:
            size += 1
        for p in range(indptr[r], indptr[r + 1]):
            dP = distance(Z, i, impostors[p])
            w = weights[p] if len(weights) else 1.0
            for j in range(K):
                slopes[p, j] = 0.0
            for j in range(size):
                u = 1.0 + target_D[r, j] - dP
                if u > 0.0:
                    a = w * _loss(u, gamma, squared)[1]
                    slopes[p, j] = a
                    total += w * (u * u if squared else u)
                    slope += a
                    if w > 0.0:
                        square += a * a / w
                        active += 1.0
    return total, slope, square, active


@in_parts(
    lambda Z, pairs, target_pairs, *_: _of_rows(pairs, target_pairs[1], (len(pairs[2]) + len(Z)) * Z.shape[1]),
    accumulates=True,
)
@loop(nogil=True, fastmath=FAST)
def smoothed_push(
    run: Run,
    Z: NDArray[np.floating],
    pairs: Pairs,
    target_pairs: tuple[IndexArray, IndexArray],
    gamma: float,
    squared: bool,
    Y: NDArray[np.floating],
) -> tuple[float, float, float]:
    """Sums of the smoothed loss in rows of candidates, and in Y its weighted graph Laplacian times Z.

    Target ``[r, j]`` is compared with the point ``bases[r, j]``, the anchor, possibly under another metric. The sums
    are: smoothed loss, loss without smoothing, active triplets. The gradient in the embedded points is ``2 * Y``.
    """
    (anchors, indptr, impostors, weights), (bases, targets) = pairs, target_pairs
    K, R = targets.shape[1], Z.shape[1]
    Y[:] = 0.0
    dT = np.empty(K)
    wT = np.empty(K)
    smooth = total = active = 0.0
    for r in range(run[0], run[1]):
        if indptr[r] == indptr[r + 1]:
            continue
        i = anchors[r]
        size, furthest = 0, 0.0
        while size < K and targets[r, size] >= 0:
            dT[size] = distance(Z, bases[r, size], targets[r, size])
            furthest = max(furthest, dT[size])
            wT[size] = 0.0
            size += 1
        for p in range(indptr[r], indptr[r + 1]):
            l = impostors[p]
            dP = distance(Z, i, l)
            if dP < 1.0 + furthest:
                w = weights[p] if len(weights) else 1.0
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
                slope = Z.dtype.type(push)
                for q in range(R):
                    g = slope * (Z[i, q] - Z[l, q])
                    Y[i, q] -= g
                    Y[l, q] += g
        for j in range(size):
            if wT[j] > 0.0:
                b, l, slope = bases[r, j], targets[r, j], Z.dtype.type(wT[j])
                for q in range(R):
                    g = slope * (Z[b, q] - Z[l, q])
                    Y[b, q] += g
                    Y[l, q] -= g
    return smooth, total, active


@in_parts(lambda images, pairs, D, *_: _of_rows(pairs, D[0], len(pairs[2]) * images[0].shape[1]))
@loop(nogil=True, fastmath=FAST)
def largest_hinges(
    run: Run,
    images: tuple[FloatArray, FloatArray, float],
    pairs: Pairs,
    target_D: tuple[FloatArray, FloatArray],
    squared: bool,
    losses: FloatArray,
    active: LongArray,
) -> None:
    """The largest possible sum of hinges of rows of candidates, and how many hinges are positive.

    Images are points, their errors, and the relative error of a computed distance. `target_D` holds computed squared
    distances to the target neighbors and upper bounds of the exact ones, both padded with -1. Sums are rounded to
    nearest.
    """
    (P, errors, g), (anchors, indptr, impostors, weights) = images, pairs
    computed_D, D_above = target_D
    for r in range(run[0], run[1]):
        i, total, count = anchors[r], 0.0, 0
        for p in range(indptr[r], indptr[r + 1]):
            d = distance(P, i, impostors[p])
            smallest, _ = length_bounds(math.sqrt(d), g, errors[i] + errors[impostors[p]])
            w = weights[p] if len(weights) else 1.0
            for j in range(computed_D.shape[1]):
                if computed_D[r, j] < 0.0:
                    break
                u = (1.0 + D_above[r, j]) * (1.0 + SQUARE_ERROR) - smallest
                if u > 0.0:
                    total += w * (u * u if squared else u)
                if w > 0.0 and 1.0 + computed_D[r, j] - d > 0.0:
                    count += 1
        losses[r], active[r] = total, count
