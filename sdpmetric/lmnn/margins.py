"""Margins ``<B_t, M> = D(i, l) - D(i, j)`` of triplets (i, j, l), their hinges ``[1 - margin]_+``, and sums over them.

The compiled loops over triplets stand here, too, with that of the search for impostors.

With ``s_l`` and ``s_j`` the computed distances (not squared) of an impostor and a target neighbor, g their relative
error and e the largest error of an image, the exact hinge is 0 if

    ``s_l (1 - g) - 2 e >= sqrt(1 + (s_j (1 + g) + 2 e)^2)``.

The right side is at most ``(1 + g) sqrt(1 + s_j^2) + 2 e``, and the root is at least 1, so it suffices that ``s_l >=
sqrt(1 + s_j^2) (1 + g + 4 e) / (1 - g)``: see `inactive_beyond`. With a metric near that of the images, squared
distances differ by up to `Images.distance_error` besides, and the factor ``1 + 2 distance_error`` is enough.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

from sdpmetric.arrays import FloatArray, IndexArray, LongArray
from sdpmetric.core.triplets import Candidates, Triplets
from sdpmetric.engine.lazy import FAST, fixed, loop
from sdpmetric.engine.threads import Workload, in_parts
from sdpmetric.linalg.distances import SQUARE_ERROR, Run, distance, distance_bounds, distances
from sdpmetric.linalg.rigorous.directed import above, gamma, square, sum_above
from sdpmetric.linalg.rigorous.forms import Images

# Candidate pairs in compressed rows: the anchor of each row, where its pairs begin, impostors, weights or none at all.
Pairs = tuple[IndexArray, LongArray, IndexArray, FloatArray]
# Pairs that are looked at together.
CHUNK = 128


def _of_rows(pairs: Pairs, targets: NDArray[np.generic], differences: float) -> Workload:
    """Return the work of rows of candidates, cut where parts have about as many pairs and targets."""
    indptr = pairs[1]

    def cut(n_parts: int) -> LongArray:
        work = indptr + np.arange(len(indptr)) * targets.shape[1]
        cuts = np.searchsorted(work, np.linspace(0, work[-1], n_parts + 1)[1:-1])
        return np.concatenate([[0], cuts, [len(indptr) - 1]]).astype(np.int64)

    return differences, len(indptr) - 1, cut


@loop(nogil=True, fastmath=FAST)
def within_limits(
    D: NDArray[np.floating],
    top: int,
    first: int,
    row_limits: NDArray[np.floating],
    column_limits: NDArray[np.floating],
    classes: LongArray,
    symmetric: bool,
    pairs: IndexArray,
    used: int,
) -> int:
    """Append the pairs of a tile of the distance matrix, from row `top` and column `first` on, within their limits.

    Columns ``classes[row, 0]`` to ``classes[row, 1]`` are of the class of a row and left out. In a `symmetric` search,
    where rows and columns are the same points, only columns behind these are looked at, and an entry within the limit
    of its column is listed as the pair (column, row) too. Returns how many pairs there are now.
    """
    last = first + D.shape[1]
    for k in range(D.shape[0]):
        row, limit = top + k, row_limits[top + k]
        class_begin, class_end = classes[row, 0], classes[row, 1]
        for side in range(2):
            start, stop = first, last
            if side == 1:
                start = class_end if class_end > first else first
            elif symmetric or class_begin < last:
                stop = first if symmetric else class_begin
            for low in range(start, stop, CHUNK):
                high = low + CHUNK if low + CHUNK < stop else stop
                values, ceilings = D[k, low - first : high - first], column_limits[low:high]
                count = np.float32(0.0)  # without a branch, so it is vectorized
                for j in range(len(values)):
                    ceiling = ceilings[j] if ceilings[j] > limit else limit
                    count += np.float32(1.0) if values[j] <= ceiling else np.float32(0.0)
                if not count > 0.0:
                    continue
                for j in range(len(values)):
                    if values[j] <= limit:
                        pairs[used, 0], pairs[used, 1] = row, low + j
                        used += 1
                    if symmetric and values[j] <= ceilings[j]:
                        pairs[used, 0], pairs[used, 1] = low + j, row
                        used += 1
    return used


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
    width: float,
    steepest: float,
    Y: NDArray[np.floating],
) -> tuple[float, float, float]:
    """Return sums over rows of hinges with slopes ``min(u / width, steepest)``; write half the gradient to Y.

    The hinge has a slope of at most 1, and its square is ``width = 1 / 2`` without a limit. Target ``[r, j]`` is
    compared with the point ``bases[r, j]``, the anchor, possibly under another metric. The sums are: smoothed loss,
    hinges, active triplets. Y is the graph Laplacian of the slopes times Z.
    """
    (anchors, indptr, impostors, weights), (bases, targets) = pairs, target_pairs
    K, R, steepness = targets.shape[1], Z.shape[1], 1.0 / width
    Y[:] = 0.0
    dT, wT = np.empty(K), np.empty(K)
    dP, wP = np.empty(CHUNK), np.empty(CHUNK)
    smooth = total = active = 0.0
    for r in range(run[0], run[1]):
        if indptr[r] == indptr[r + 1]:
            continue
        i, size = anchors[r], 0
        while size < K and targets[r, size] >= 0:
            dT[size], wT[size] = distance(Z, bases[r, size], targets[r, size]), 0.0
            size += 1
        for low in range(indptr[r], indptr[r + 1], CHUNK):
            n = min(CHUNK, indptr[r + 1] - low)
            for p in range(n):
                dP[p], wP[p] = distance(Z, i, impostors[low + p]), 0.0
            for j in range(size):
                limit, pull = 1.0 + dT[j], 0.0
                for p in range(n):
                    u = limit - dP[p] if limit > dP[p] else 0.0
                    w = weights[low + p] if len(weights) else 1.0
                    slope = u * steepness if u * steepness < steepest else steepest
                    smooth += w * slope * (u - 0.5 * slope * width)
                    total += w * u
                    active += 1.0 if w * slope > 0.0 else 0.0
                    wP[p] += w * slope
                    pull += w * slope
                wT[j] += pull
            for p in range(n):
                if wP[p] > 0.0:
                    l, push = impostors[low + p], Z.dtype.type(wP[p])
                    for q in range(R):
                        g = push * (Z[i, q] - Z[l, q])
                        Y[i, q] -= g
                        Y[l, q] += g
        for j in range(size):
            if wT[j] > 0.0:
                b, l, attraction = bases[r, j], targets[r, j], Z.dtype.type(wT[j])
                for q in range(R):
                    g = attraction * (Z[b, q] - Z[l, q])
                    Y[b, q] += g
                    Y[l, q] -= g
    return smooth, total, active


def signed_pairs(triplets: Triplets, values: FloatArray) -> tuple[IndexArray, IndexArray, FloatArray]:
    """Return pairs and weights w with ``sum_t a_t B_t = D*(w)``: those of impostors, then those of target neighbors."""
    first = np.concatenate([triplets.anchors, triplets.anchors])
    second = np.concatenate([triplets.impostors, triplets.targets])
    return first, second, np.concatenate([values, -values])


def target_distances(Z: NDArray[np.floating], anchors: IndexArray, targets: IndexArray) -> FloatArray:
    """Return squared distances to `targets`, (m, K), from anchors, (m,) or (m, K); -1 where there is no target."""
    first = np.broadcast_to(anchors if anchors.ndim == 2 else anchors[:, None], targets.shape)
    D = distances(Z, np.where(targets >= 0, first, 0).ravel(), np.maximum(targets, 0).ravel()).reshape(targets.shape)
    D[targets < 0] = -1.0
    return D


def compressed(candidates: Candidates) -> Pairs:
    weights = np.zeros(0) if candidates.weights is None else candidates.weights
    return fixed(candidates.anchors), candidates.indptr, candidates.impostors, weights


@np.errstate(all="ignore")  # infinite margins have no hinge
def hinge_slopes(
    Z: NDArray[np.floating], candidates: Candidates, gamma: float, squared: bool, target_D: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return the weighted loss of each candidate triplet and its slope, smoothed over a width gamma, (nnz, K) each."""
    C = candidates
    target_D = target_distances(Z, C.anchors, C.targets) if target_D is None else target_D
    u: FloatArray = 1.0 + target_D[C.rows]  # in place from here on: these arrays are the largest of a solve
    u -= distances(Z, C.anchors[C.rows], C.impostors)[:, None]
    np.fmax(u, 0.0, out=u)  # padding, a squared distance of -1, has no hinge
    slopes = 2.0 * u if squared else np.minimum(u, gamma) if gamma else (u > 0.0).astype(np.float64)
    slopes /= 1.0 if squared or not gamma else gamma
    losses = np.multiply(u, u, out=u) if squared else u
    if C.weights is not None:
        losses *= C.weights[:, None]
        slopes *= C.weights[:, None]
    return losses, slopes


def slope_pairs(
    candidates: Candidates, slopes: FloatArray, anchors_by_target: IndexArray | None = None
) -> tuple[IndexArray, IndexArray, FloatArray]:
    """Return the pairs and weights w with ``sum_t a_t B_t = D*(w)`` for the slopes that `hinge_slopes` returns."""
    C, rows = candidates, candidates.rows
    push = slopes.sum(axis=1)
    pull: FloatArray = np.zeros(C.targets.shape)
    for j in range(pull.shape[1]):
        pull[:, j] = np.bincount(rows, slopes[:, j], minlength=len(pull))
    row, slot = np.nonzero(pull)
    used = push != 0
    pull_anchors = C.anchors[row] if anchors_by_target is None else anchors_by_target[row, slot]
    first = np.concatenate([C.anchors[rows[used]], pull_anchors])
    second = np.concatenate([C.impostors[used], C.targets[row, slot]])
    return first, second, np.concatenate([push[used], -pull[row, slot]])


def inactive_beyond(images: Images) -> float:
    """Return how much wider than the computed limits to search, so every triplet beyond provably has no exact hinge."""
    g = gamma(images.map.shape[1] + 8)
    e = float(images.errors.max(initial=0.0))
    return above((1.0 + 2.0 * images.distance_error) * square(1.0 + g + 4.0 * e) / (1.0 - g) ** 2 - 1.0 + 1e-15, 10)


def with_error(target_D_above: FloatArray, metric_error: float) -> FloatArray:
    """Return upper bounds of distances to target neighbors, for hinges with impostors that are nearer by an error."""
    return np.nextafter(target_D_above + metric_error, np.inf) if metric_error else target_D_above


def loss_above(
    images: Images, candidates: Candidates, target_D: FloatArray, target_D_above: FloatArray, *, squared: bool
) -> tuple[float, int]:
    """Return an upper bound of the weighted sum of hinges of candidate triplets, and how many of them are positive."""
    C, rows = candidates, candidates.rows
    pairs = C.anchors[rows], C.impostors.copy()  # arrays that a loop may write to, as all that call it pass
    smallest, largest = np.empty((2, len(rows)))
    distance_bounds(images.points, *pairs, images.errors, gamma(len(images.map.T) + 8), smallest, largest)
    w = np.ones(len(rows)) if C.weights is None else C.weights
    with np.errstate(all="ignore"):  # infinite margins have no hinge
        excess = (1.0 + target_D_above[rows]) * (1.0 + SQUARE_ERROR) - smallest[:, None]
        u = np.where(excess > 0.0, excess, 0.0)
        losses = np.bincount(rows, w * (u * u if squared else u).sum(axis=1), len(C.anchors)).astype(np.float64)
        is_active = 1.0 + target_D[rows] - distances(images.points, *pairs)[:, None] > 0.0
    n_terms = int(np.diff(C.indptr).max(initial=0)) * C.targets.shape[1]
    return above(sum_above(losses), n_terms + 12), int(np.count_nonzero(is_active[w > 0.0]))


# Squared distances up to this count as 0 beside the margin, which is 1: the objective of such a metric is rounded up by
# as much. Groups that are close in the null space are separated by factors up to 1e10, which magnify rounding errors.
COINCIDENT = 1e-6


def are_unit_hinges(Z: FloatArray, groups: IndexArray, furthest_target: float, error: float = 0.0) -> bool:
    """Return whether every hinge within a group is 1 up to rounding, and every hinge across groups is 0.

    It is so where the points of each group coincide and groups are farther apart than every margin. Each point may be
    `error` away from the exact one, and target neighbors are no further than a squared distance.
    """
    if not len(Z) or furthest_target > COINCIDENT or error * error > COINCIDENT:
        return False
    _, first = np.unique(groups, return_index=True)
    centers = Z[first]
    radius = math.sqrt(float(np.square(Z - centers[groups]).sum(axis=1).max()))
    if not 4.0 * radius * radius <= COINCIDENT:
        return False
    if len(centers) == 1 or not Z.shape[1]:
        return len(centers) == 1
    distances, _ = NearestNeighbors(n_neighbors=2, algorithm="kd_tree").fit(centers).kneighbors(centers)
    clearance = distances[:, 1].min() - 2.0 * radius - 4.0 * error
    return bool(clearance > (1.0 + 1e-12) * math.sqrt(1.0 + furthest_target))
