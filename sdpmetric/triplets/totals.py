"""Sums over all triplets of labeled examples, or over those within groups of examples, without a list of them.

At the zero metric every hinge is 1, and what a certificate needs are sums over all (anchor, impostor) pairs. They have
closed forms in the counts, means and scatter matrices of the cells that groups and classes make.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

from sdpmetric.arrays import FloatArray, IndexArray

# Squared distances up to this count as 0 beside the margin, which is 1: the objective of such a metric is rounded up by
# as much. Groups that are close in the null space are separated by factors up to 1e10, which magnify rounding errors.
COINCIDENT = 1e-6


def unit_hinges(Z: FloatArray, groups: IndexArray, near: float, error: float = 0.0) -> bool:
    """Whether every hinge within a group is 1 up to rounding, and every hinge across groups is 0.

    It is so where the points of each group coincide and groups are further apart than every margin.
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
