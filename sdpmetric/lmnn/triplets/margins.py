"""Margins ``<B_t, M> = D(i, l) - D(i, j)`` of triplets (i, j, l), their hinges ``[1 - margin]_+``, and sums over them.

With ``s_l`` and ``s_j`` the computed distances (not squared) of an impostor and a target neighbor, g their relative
error and e the largest error of an image, the exact hinge is 0 if

    ``s_l (1 - g) - 2 e >= sqrt(1 + (s_j (1 + g) + 2 e)^2)``.

The right side is at most ``(1 + g) sqrt(1 + s_j^2) + 2 e``, and the root is at least 1, so it suffices that ``s_l >=
sqrt(1 + s_j^2) (1 + g + 4 e) / (1 - g)``: see `inactive_beyond`. With a metric near that of the images, squared
distances differ by up to `Images.distance_error` besides, and the factor ``1 + 2 distance_error`` is enough.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

from sdpmetric.arrays import FloatArray, IndexArray
from sdpmetric.core.triplets import Candidates, Triplets
from sdpmetric.engine.lazy import fixed
from sdpmetric.linalg.distances import distances
from sdpmetric.linalg.rigorous.directed import above, gamma, square, sum_above
from sdpmetric.linalg.rigorous.forms import Images
from sdpmetric.lmnn import loops


def signed_pairs(triplets: Triplets, values: FloatArray) -> tuple[IndexArray, IndexArray, FloatArray]:
    """Pairs (first, second) and weights w with ``sum_t a_t B_t = D*(w)``: of impostors, then of target neighbors."""
    first = np.concatenate([triplets.anchors, triplets.anchors])
    second = np.concatenate([triplets.impostors, triplets.targets])
    return first, second, np.concatenate([values, -values])


def target_distances(Z: NDArray[np.floating], anchors: IndexArray, targets: IndexArray) -> FloatArray:
    """Squared distances to `targets`, (m, K), from anchors, (m,) or (m, K); -1 where there is no target."""
    first = np.broadcast_to(anchors if anchors.ndim == 2 else anchors[:, None], targets.shape)
    D = distances(Z, np.where(targets >= 0, first, 0).ravel(), np.maximum(targets, 0).ravel()).reshape(targets.shape)
    D[targets < 0] = -1.0
    return D


def compressed(candidates: Candidates) -> loops.Pairs:
    weights = np.zeros(0) if candidates.weights is None else candidates.weights
    return fixed(candidates.anchors), candidates.indptr, candidates.impostors, weights


@dataclass(frozen=True)
class HingeSums:
    """Sums over the triplets of a candidate set, weights included and the push weight left out."""

    loss: float  # ``sum w h(u)`` with ``u = 1 - margin`` and h the hinge or its square, without smoothing
    slopes: float  # ``sum a`` of the slopes a of the (smoothed) loss
    squares: float  # ``sum a^2 / w`` of the slopes
    n_active: int  # triplets with ``u > 0``


def hinge_slopes(
    Z: NDArray[np.floating], candidates: Candidates, gamma: float, squared: bool, target_D: FloatArray | None = None
) -> tuple[HingeSums, FloatArray]:
    """Sums over candidate triplets, and the slope of the loss of each, (nnz, K), smoothed over a width gamma."""
    C, Z = candidates, np.ascontiguousarray(Z, dtype=np.float64)
    target_D = target_distances(Z, C.anchors, C.targets) if target_D is None else target_D
    slopes = np.empty((len(C.impostors), C.targets.shape[1]))
    loss, slope, square, active = loops.hinge_slopes(Z, compressed(C), target_D, gamma, squared, slopes)
    return HingeSums(loss, slope, square, round(active)), slopes


def slope_pairs(
    candidates: Candidates, slopes: FloatArray, anchors_by_target: IndexArray | None = None
) -> tuple[IndexArray, IndexArray, FloatArray]:
    """The pairs and weights w with ``sum_t a_t B_t = D*(w)`` for the slopes that `hinge_slopes` returns."""
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
    """How much wider than the computed limits to search, so the exact hinge of every triplet beyond is 0, proven."""
    g = gamma(images.map.shape[1] + 8)
    e = float(images.errors.max(initial=0.0))
    return above((1.0 + 2.0 * images.distance_error) * square(1.0 + g + 4.0 * e) / (1.0 - g) ** 2 - 1.0 + 1e-15, 10)


def with_error(target_D_above: FloatArray, metric_error: float) -> FloatArray:
    """Upper bounds of distances to target neighbors, for hinges with impostors that are nearer by an error."""
    return np.nextafter(target_D_above + metric_error, np.inf) if metric_error else target_D_above


def loss_above(
    images: Images, candidates: Candidates, target_D: FloatArray, target_D_above: FloatArray, *, squared: bool
) -> tuple[float, int]:
    """An upper bound of the weighted sum of hinges of candidate triplets, and how many of them are positive."""
    C, D, points = candidates, (target_D, target_D_above), (images.points, images.errors, gamma(len(images.map.T) + 8))
    losses, active = np.zeros(len(C.anchors)), np.zeros(len(C.anchors), dtype=np.int64)
    loops.largest_hinges(points, compressed(C), D, squared, losses, active)
    n_terms = int(np.diff(C.indptr).max(initial=0)) * C.targets.shape[1]
    return above(sum_above(losses), n_terms + 12), int(active.sum())


# Squared distances up to this count as 0 beside the margin, which is 1: the objective of such a metric is rounded up by
# as much. Groups that are close in the null space are separated by factors up to 1e10, which magnify rounding errors.
COINCIDENT = 1e-6


def are_unit_hinges(Z: FloatArray, groups: IndexArray, furthest_target: float, error: float = 0.0) -> bool:
    """Whether every hinge within a group is 1 up to rounding, and every hinge across groups is 0.

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
