"""Sums over all triplets, without a list of them, where every hinge is 1, or 0 across groups: as under the zero metric.

Triplets pair an anchor i, of weight ``v_i``, with the impostors l of its group and of another label, of weight ``w_l``.
A *cell* is the intersection of a group and a class. With V, W the weights, a, b the means and S, T the scatter matrices
of the cells under the weights v and w, the pairs of two cells c and e of a group add up to

    ``sum_il v_i w_l (x_i - x_l)(x_i - x_l)^T = W_e S_c + V_c T_e + V_c W_e (a_c - b_e)(a_c - b_e)^T``.

All terms are PSD, so distant means cost no accuracy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray, IndexArray, LongArray
from sdpmetric.linalg.rigorous.directed import above, gamma, norms_above
from sdpmetric.linalg.rigorous.forms import Form, Images


@dataclass(frozen=True, eq=False)
class Cells:
    cell: NDArray[np.intp]  # (n,): cell of each example
    group: NDArray[np.intp]  # (c,): group of each cell

    @classmethod
    def of(cls, labels: IndexArray, groups: IndexArray) -> Cells:
        n_classes = int(labels.max(initial=0)) + 1
        keys, cell = np.unique(groups.astype(np.int64) * n_classes + labels, return_inverse=True)
        return cls(cell.ravel(), keys // n_classes)

    def weights_of_others(self, weights: FloatArray) -> FloatArray:
        """For each cell, the weight of the examples in the other cells of its group, (c,)."""
        totals: FloatArray = np.bincount(self.cell, weights, minlength=len(self.group)).astype(np.float64)
        group_totals = np.bincount(self.group, totals).astype(np.float64)[self.group]
        return group_totals - totals

    def means(self, points: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Weight (c,) and weighted mean (c, d) of each cell; the mean is 0 where the weight is."""
        n = len(points)
        indicator = sp.csr_array((weights, (self.cell, np.arange(n))), shape=(len(self.group), n))
        totals = np.asarray(indicator.sum(axis=1)).ravel()
        return totals, (indicator @ points) / np.where(totals > 0.0, totals, 1.0)[:, None]


def impostor_counts(labels: IndexArray, groups: IndexArray, impostors: NDArray[np.bool_]) -> LongArray:
    """Number of differently labeled examples, those that count as impostors, in the group of each example, (n,)."""
    cells = Cells.of(labels, groups)
    counts: LongArray = np.rint(cells.weights_of_others(impostors.astype(np.float64))).astype(np.int64)[cells.cell]
    return counts


def impostor_weights(labels: IndexArray, groups: IndexArray, weights: FloatArray) -> FloatArray:
    """Weight of the differently labeled examples in the group of each example, (n,).

    Nothing is subtracted, so each sum is accurate relative to itself.
    """
    cells = Cells.of(labels, groups)
    n_cells = len(cells.group)
    member = sp.csr_array((np.ones(n_cells), (np.arange(n_cells), cells.group)))
    same_group = (member @ member.T).tolil()
    same_group.setdiag(0.0)
    totals = np.bincount(cells.cell, weights, minlength=n_cells)
    of_cells: FloatArray = np.asarray(same_group.tocsr() @ totals, dtype=np.float64)
    return of_cells[cells.cell]


def impostor_scatter(
    points: FloatArray, labels: IndexArray, groups: IndexArray, v: FloatArray, w: FloatArray
) -> FloatArray:
    """``sum_il v_i w_l (x_i - x_l)(x_i - x_l)^T`` over all pairs of one group and different labels, (d, d)."""
    cells = Cells.of(labels, groups)
    V, a = cells.means(points, v)
    W, b = cells.means(points, w)
    G = np.zeros((points.shape[1], points.shape[1]))
    for weights, means, other_weights in ((v, a, cells.weights_of_others(w)), (w, b, cells.weights_of_others(v))):
        scale = weights * other_weights[cells.cell]
        used = np.flatnonzero(scale > 0.0)
        scatter_root = (points[used] - means[cells.cell[used]]) * np.sqrt(scale[used])[:, None]
        G += scatter_root.T @ scatter_root
    # Between cells: with means taken from the group's mean under w, the mixed terms of all pairs of cells sum to 0.
    cells_as_points = Cells(cells.group, np.arange(int(cells.group.max(initial=-1)) + 1))
    V_of_group, W_of_group = np.bincount(cells.group, V), np.bincount(cells.group, W)
    _, group_means = cells_as_points.means(b, W)
    for weights, means, totals in ((V * W_of_group[cells.group], a, V), (W * V_of_group[cells.group], b, W)):
        deviations = (means - group_means[cells.group]) * np.where(totals > 0.0, 1.0, 0.0)[:, None]
        G += deviations.T @ (weights[:, None] * deviations)
    # A cell is no pair with itself.
    difference = a - b
    return G - difference.T @ ((V * W)[:, None] * difference)


@np.errstate(over="ignore", invalid="ignore")  # a form that is not finite proves nothing
def scatter_form(images: Images, labels: IndexArray, groups: IndexArray, v: FloatArray, w: FloatArray) -> Form:
    """`impostor_scatter` of exact points whose images are given, with its error.

    Every sum in it errs by at most ``gamma_{n + c + 64}``, c the number of cells, of sums over pairs of one group of
    ``v_i w_l (|p_i| + |p_l|)^2``, fewer than 64 times. Errors of the images add what they add to a form; the sum over
    pairs of their distances is bounded by that of the squares.
    """
    P = images.points
    G = impostor_scatter(P, labels, groups, v, w)
    squares = norms_above(P) ** 2
    V, W, V_squares, W_squares = (np.bincount(groups, values) for values in (v, w, v * squares, w * squares))
    n, e = len(P), float(images.errors.max(initial=0.0))
    pairs, size = above(float(V @ W), 2 * n), above(2.0 * float(V_squares @ W + V @ W_squares), 2 * n + 8)
    rounding = 64.0 * gamma(2 * n + 64) * size
    return Form(0.5 * (G + G.T), above(rounding + 4.0 * e * (pairs * size) ** 0.5 + 4.0 * e * e * pairs, 8), size)
