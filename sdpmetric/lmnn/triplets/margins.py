"""Margins of triplets, their hinges and sums over them, and what bounds these with rounding."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

from sdpmetric.arrays import FloatArray, IndexArray
from sdpmetric.core.triplets import Candidates, Triplets
from sdpmetric.engine import threads
from sdpmetric.engine.compiled import fixed
from sdpmetric.linalg.distances import adjoint, distances
from sdpmetric.linalg.rigorous import ACCURACY, Form, Images, above, gamma, norms_above, square, sum_above
from sdpmetric.lmnn import loops as hinges

# Squared distances up to this count as 0 beside the margin, which is 1: the objective of such a metric is rounded up by
# as much. Groups that are close in the null space are separated by factors up to 1e10, which magnify rounding errors.
COINCIDENT = 1e-6


def are_unit_hinges(Z: FloatArray, groups: IndexArray, near: float, error: float = 0.0) -> bool:
    """Whether every hinge within a group is 1 up to rounding, and every hinge across groups is 0.

    It is so where the points of each group coincide and groups are farther apart than every margin.
    """
    if not len(Z) or near > COINCIDENT:
        return False
    _, first = np.unique(groups, return_index=True)
    centers = Z[first]
    radius = math.sqrt(float(np.square(Z - centers[groups]).sum(axis=1).max()))
    if not 4.0 * radius * radius <= COINCIDENT:
        return False
    if len(centers) == 1 or not Z.shape[1]:
        return len(centers) == 1
    apart, _ = NearestNeighbors(n_neighbors=2, algorithm="kd_tree").fit(centers).kneighbors(centers)
    return bool(apart[:, 1].min() - 2.0 * radius - 4.0 * error > (1.0 + 1e-12) * math.sqrt(1.0 + near))


@dataclass(frozen=True, eq=False)
class Cells:
    """The intersections of groups and classes, which are called cells here."""

    cell: NDArray[np.intp]  # (n,) int: cell of each example
    group: NDArray[np.intp]  # (c,) int: group of each cell

    @classmethod
    def of(cls, labels: IndexArray, groups: IndexArray) -> Cells:
        """Cells of examples with these labels and groups, (n,) each."""
        classes = int(labels.max(initial=0)) + 1
        keys, cell = np.unique(groups.astype(np.int64) * classes + labels, return_inverse=True)
        return cls(cell.ravel(), keys // classes)

    def others(self, weights: FloatArray) -> FloatArray:
        """For each cell, the weight of the examples in the other cells of its group, (c,)."""
        own: FloatArray = np.bincount(self.cell, weights, minlength=len(self.group)).astype(np.float64)
        rest: FloatArray = np.bincount(self.group, own)[self.group] - own
        return rest

    def means(self, points: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Weight (c,) and weighted mean (c, d) of each cell; the mean is 0 where the weight is."""
        n = len(points)
        indicator = sp.csr_array((weights, (self.cell, np.arange(n))), shape=(len(self.group), n))
        total = np.asarray(indicator.sum(axis=1)).ravel()
        return total, (indicator @ points) / np.where(total > 0.0, total, 1.0)[:, None]


def impostor_counts(
    labels: IndexArray, groups: IndexArray, impostors: NDArray[np.bool_] | None = None
) -> NDArray[np.int64]:
    """Number of differently labeled examples in the group of each example, (n,)."""
    cells = Cells.of(labels, groups)
    counted = np.ones(len(labels)) if impostors is None else impostors.astype(np.float64)
    counts: NDArray[np.int64] = np.rint(cells.others(counted)).astype(np.int64)[cells.cell]
    return counts


def impostor_weights(labels: IndexArray, groups: IndexArray, weights: FloatArray) -> FloatArray:
    """Weight of the differently labeled examples in the group of each example, (n,).

    Nothing is subtracted, so each sum is accurate relative to itself.
    """
    cells = Cells.of(labels, groups)
    n = len(cells.group)
    member = sp.csr_array((np.ones(n), (np.arange(n), cells.group)))
    together = (member @ member.T).tolil()
    together.setdiag(0.0)
    own = np.bincount(cells.cell, weights, minlength=n)
    others: FloatArray = np.asarray(together.tocsr() @ own, dtype=np.float64)
    return others[cells.cell]


def impostor_scatter(
    points: FloatArray, labels: IndexArray, groups: IndexArray, anchors: FloatArray, impostors: FloatArray
) -> FloatArray:
    """``sum_il v_i w_l (x_i - x_l)(x_i - x_l)^T`` over all pairs of one group and different labels, (d, d).

    With V, W the weights, a, b the means and S, T the scatter matrices of a cell under the weights v and w, two cells
    c and e of a group add ``W_e S_c + V_c T_e + V_c W_e (a_c - b_e)(a_c - b_e)^T``. All terms are PSD, so
    distant means cost no accuracy.
    """
    cells = Cells.of(labels, groups)
    V, a = cells.means(points, anchors)
    W, b = cells.means(points, impostors)
    G = np.zeros((points.shape[1], points.shape[1]))
    for weights, means, rest in ((anchors, a, cells.others(impostors)), (impostors, b, cells.others(anchors))):
        scale = weights * rest[cells.cell]
        used = np.flatnonzero(scale > 0.0)
        centered = (points[used] - means[cells.cell[used]]) * np.sqrt(scale[used])[:, None]
        G += centered.T @ centered
    # Between cells: with means taken from the group's mean under w, the mixed terms of all pairs of cells sum to 0.
    group = Cells(cells.group, np.arange(int(cells.group.max(initial=-1)) + 1))
    V_all, W_all = np.bincount(cells.group, V), np.bincount(cells.group, W)
    _, middle = group.means(b, W)
    for weights, means, total in ((V * W_all[cells.group], a, V), (W * V_all[cells.group], b, W)):
        off = (means - middle[cells.group]) * np.where(total > 0.0, 1.0, 0.0)[:, None]
        G += off.T @ (weights[:, None] * off)
    own = a - b
    return G - own.T @ ((V * W)[:, None] * own)


def margin_adjoint(X: FloatArray, triplets: Triplets, values: FloatArray) -> FloatArray:
    """The matrix ``sum_t a_t B_t``, where ``B_t = C_il - C_ij`` belongs to triplet t = (i, j, l)."""
    first = np.concatenate([triplets.anchors, triplets.anchors])
    second = np.concatenate([triplets.impostors, triplets.targets])
    return adjoint(X, first, second, np.concatenate([values, -values]))


def margins(Z: NDArray[np.floating], triplets: Triplets) -> FloatArray:
    """The margin ``<B_t, M> = D_il - D_ij`` of every triplet; the hinge is ``[1 - margin]_+``."""
    far = distances(Z, triplets.anchors, triplets.impostors)
    return far - distances(Z, triplets.anchors, triplets.targets)


def furthest_target(Z: NDArray[np.floating], anchors: IndexArray, targets: IndexArray) -> FloatArray:
    """Largest squared distance from each anchor to its target neighbors, (m,) float64."""
    furthest = np.zeros(len(anchors))
    for column in targets.T:
        np.maximum(furthest, distances(Z, anchors, np.where(column >= 0, column, anchors)), out=furthest)
    return furthest


@dataclass(frozen=True)
class HingeSums:
    """Sums over the triplets of a candidate set, weights included and the push weight left out."""

    loss: float  # ``sum w h(u)`` with ``u = 1 - margin`` and h the hinge or its square, without smoothing
    slopes: float  # ``sum a`` of the slopes a of the (smoothed) loss
    squares: float  # ``sum a^2 / w`` of the slopes
    n_active: int  # Triplets with ``u > 0``


def target_distances(Z: NDArray[np.floating], bases: IndexArray, targets: IndexArray) -> FloatArray:
    """Squared distances from ``bases`` to ``targets``, both (m, K) and padded with -1; -1 there."""
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
    """Slopes of the loss of every candidate triplet."""
    C, Z = candidates, np.ascontiguousarray(Z, dtype=np.float64)
    near = target_distances(Z, C.anchors, C.targets) if near is None else near
    rows = fixed(C.anchors), near, C.indptr, C.impostors, C.weights
    slopes = np.empty((len(C.impostors), C.targets.shape[1]))
    cuts = C.bounds(threads.parts(len(C.impostors) * Z.shape[1]))
    sums = np.empty((len(cuts) - 1, 4))
    threads.run(
        lambda t: hinges.hinge_slopes(Z, *rows, cuts[t], cuts[t + 1], gamma, squared, slopes, sums[t]), len(sums)
    )
    loss, slope, square, active = sums.sum(axis=0)
    return HingeSums(float(loss), float(slope), float(square), round(active)), slopes


def slope_pairs(
    candidates: Candidates, slopes: FloatArray, bases: IndexArray | None = None
) -> tuple[IndexArray, IndexArray, FloatArray]:
    """The pairs and weights w with ``sum_t a_t B_t = D*(w)`` for the slopes that `hinge_slopes` returns."""
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


def inactive_beyond(images: Images) -> float:
    """How much wider than the computed limits to search, so every triplet not found has a hinge of 0, proven.

    With ``s_l`` and ``s_j`` the computed distances (not squared) of an impostor and a target neighbor, g their relative
    error and e the largest error of an image, the hinge is 0 if
    ``s_l (1 - g) - 2 e >= sqrt(1 + (s_j (1 + g) + 2 e)^2)``. The right side is at most
    ``(1 + g) sqrt(1 + s_j^2) + 2 e``, and the root is at least 1, so it suffices that
    ``s_l >= sqrt(1 + s_j^2) (1 + g + 4 e) / (1 - g)``. With a metric near that of the images, squared distances are off
    by a rest besides, and twice that beside 1 is enough.
    """
    g = gamma(images.map.shape[1] + 8)
    e = float(images.errors.max(initial=0.0))
    return above((1.0 + 2.0 * images.rest) * square(1.0 + g + 4.0 * e) / (1.0 - g) ** 2 - 1.0 + 1e-15, 10)


def with_rest(highest: FloatArray, rest: float) -> FloatArray:
    """Upper bounds of distances to target neighbors, for hinges with impostors that are nearer by a rest."""
    return np.nextafter(highest + rest, np.inf) if rest else highest


def largest_hinges(
    images: Images, candidates: Candidates, near: FloatArray, highest: FloatArray, *, squared: bool
) -> tuple[float, int]:
    """An upper bound of the weighted sum of hinges of candidate triplets, and how many of them are positive."""
    C, P, errors, g = candidates, images.points, images.errors, gamma(images.map.shape[1] + 8)
    losses, active = np.zeros(len(C.anchors)), np.zeros(len(C.anchors), dtype=np.int64)
    cuts = C.bounds(threads.parts(len(C.impostors) * P.shape[1]))
    rows = fixed(C.anchors), near, highest, C.indptr, C.impostors, C.weights
    threads.run(
        lambda t: hinges.largest_hinges(P, errors, *rows, cuts[t], cuts[t + 1], squared, g, losses, active),
        len(cuts) - 1,
    )
    most = int(np.diff(C.indptr).max(initial=0)) * C.targets.shape[1]
    return above(sum_above(losses), most + 12), int(active.sum())


def slope_form(images: Images, candidates: Candidates, slopes: FloatArray, *, accuracy: float = ACCURACY) -> Form:
    """``sum_t a_t B_t`` of the slopes that `hinge_slopes` returns, in the coordinates of the images, with its error."""
    most = int(np.bincount(candidates.rows).max(initial=0)) + slopes.shape[1]
    return images.form(*slope_pairs(candidates, slopes), roundings=most, accuracy=accuracy)


def unit_hinges(images: Images, groups: IndexArray, highest: float) -> bool:
    """`are_unit_hinges` of exact images."""
    error = float(images.errors.max(initial=0.0))
    return error * error <= COINCIDENT and are_unit_hinges(images.points, groups, highest, error)


def scatter_form(
    images: Images, labels: IndexArray, groups: IndexArray, anchors: FloatArray, impostors: FloatArray
) -> Form:
    """`impostor_scatter` of exact images, with its error.

    Every sum in it errs by at most ``gamma_{n + c + 64}``, c the number of cells, of sums over pairs of one group of
    ``v_i w_l (|p_i| + |p_l|)^2``, fewer than 64 times. Errors of the images add what they add to a form; the sum over
    pairs of their distances is bounded by that of the squares.
    """
    P = images.points
    G = impostor_scatter(P, labels, groups, anchors, impostors)
    lengths = norms_above(P) ** 2
    v, w, vp, wp = (np.bincount(groups, each) for each in (anchors, impostors, anchors * lengths, impostors * lengths))
    n, e = len(P), float(images.errors.max(initial=0.0))
    pairs, size = above(float(v @ w), 2 * n), above(2.0 * float(vp @ w + v @ wp), 2 * n + 8)
    own = 64.0 * gamma(2 * n + 64) * size
    return Form(0.5 * (G + G.T), above(own + 4.0 * e * (pairs * size) ** 0.5 + 4.0 * e * e * pairs, 8), size)
