"""Triplets of a problem: implied by labels, or listed one by one with weights.

Sums over all triplets need no list if every hinge is 1, or 0 across groups, as under the zero metric. Triplets pair an
anchor i, of weight ``v_i``, with the impostors l of its group and of another label, of weight ``w_l``. A *cell* is the
intersection of a group and a class. With V, W the weights, a, b the means and S, T the scatter matrices of the cells
under the weights v and w, the pairs of two cells c and e of a group add up to

    ``sum_il v_i w_l (x_i - x_l)(x_i - x_l)^T = W_e S_c + V_c T_e + V_c W_e (a_c - b_e)(a_c - b_e)^T``.

All terms are PSD, so distant means cost no accuracy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sdpmetric.arrays import BoolArray, FloatArray, IndexArray, LongArray
from sdpmetric.core.triplets import Candidates, Triplets
from sdpmetric.core.validation import check_rows
from sdpmetric.engine.lazy import cached
from sdpmetric.engine.threads import check_deadline
from sdpmetric.linalg.distances import distances
from sdpmetric.linalg.rigorous.directed import above, gamma, norms_above
from sdpmetric.linalg.rigorous.forms import Form, Images
from sdpmetric.lmnn.impostors import Search, SearchMethod, capacity
from sdpmetric.lmnn.margins import slope_pairs, target_distances


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
        """Return for each cell the weight of the examples in the other cells of its group, (c,)."""
        totals: FloatArray = np.bincount(self.cell, weights, minlength=len(self.group)).astype(np.float64)
        group_totals = np.bincount(self.group, totals).astype(np.float64)[self.group]
        return group_totals - totals

    def means(self, points: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the weight (c,) and weighted mean (c, d) of each cell; the mean is 0 if the weight is."""
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
    """Return the weight of the differently labeled examples in the group of each example, (n,).

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
    """Return ``sum_il v_i w_l (x_i - x_l)(x_i - x_l)^T`` over all pairs of one group and different labels, (d, d)."""
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
    """Return `impostor_scatter` of exact points whose images are given, with its error.

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


@dataclass(frozen=True, eq=False, repr=False)
class ListedTriplets:
    """An explicit list of triplets with weights, grouped by target pair."""

    candidates: Candidates  # One row per (anchor, target) pair, K = 1, with weights
    pulls: FloatArray | None = None  # Positive weights of these pairs in the pull term; None: 1

    @classmethod
    def from_triplets(cls, triplets: Triplets, weights: FloatArray) -> ListedTriplets:
        """Group triplets by target pair; weights of repeated triplets add up."""
        order = np.lexsort((triplets.impostors, triplets.targets, triplets.anchors))
        array, weights = triplets.to_array()[order], weights[order]
        is_new = np.ones(len(array), dtype=bool)
        is_new[1:] = (array[1:] != array[:-1]).any(axis=1)
        sums = np.add.reduceat(weights, np.flatnonzero(is_new)) if len(array) else weights
        array = array[is_new]
        is_new_pair = np.ones(len(array), dtype=bool)
        is_new_pair[1:] = (array[1:, :2] != array[:-1, :2]).any(axis=1)
        starts = np.flatnonzero(is_new_pair)
        anchors, targets, impostors = np.ascontiguousarray(array.T)
        indptr = np.concatenate([starts, [len(array)]]).astype(np.int64)
        return cls(Candidates(anchors[starts], targets[starts, None], indptr, impostors, sums))

    def check(self, n: int) -> None:
        """Raise an error for rows that are none of n examples; compiled loops check nothing."""
        candidates = self.candidates
        check_rows("anchors of listed triplets", candidates.anchors, n)
        check_rows("targets of listed triplets", candidates.targets, n, ("m", "k"))
        check_rows("impostors of listed triplets", candidates.impostors, n)
        if self.pulls is not None and self.pulls.shape != self.candidates.anchors.shape:
            raise ValueError(
                f"listed triplets have {len(self.candidates.anchors)} target pairs, and pulls of shape "
                f"{self.pulls.shape}; pass one weight for each pair."
            )

    @property
    def size(self) -> int:
        return len(self.candidates.impostors)

    @property
    def _weights(self) -> FloatArray:
        return np.ones(self.size) if self.candidates.weights is None else self.candidates.weights

    @property
    def total_weight(self) -> float:
        return float(self._weights.sum())

    @property
    def smallest_weight(self) -> float:
        return float(self._weights[self._weights > 0.0].min(initial=np.inf))

    def target_pairs(self) -> tuple[IndexArray, IndexArray]:
        return self.candidates.anchors, self.candidates.targets[:, 0]

    def target_weights(self) -> FloatArray:
        return np.ones(len(self.candidates.anchors)) if self.pulls is None else self.pulls

    def weights_of(self, triplets: Triplets) -> FloatArray:
        if not self.size:
            return np.zeros(len(triplets))
        members = self.candidates.first_triplets
        arrays = [*members.to_array().T, *triplets.to_array().T]
        n = 1 + max(int(array.max()) for array in arrays if array.size)
        member_keys, keys = members.keys(n), triplets.keys(n)
        position = np.minimum(np.searchsorted(member_keys, keys), self.size - 1)
        return np.where(member_keys[position] == keys, self._weights[position], 0.0)

    def weight_and_count(self, groups: Sequence[IndexArray], regions: IndexArray | None = None) -> tuple[float, int]:
        weights = self._weights_within(groups[0])
        return float(weights.sum()), int(np.count_nonzero(weights))

    def margin_forms(
        self, images: Sequence[Images], groups: Sequence[IndexArray], regions: IndexArray | None = None
    ) -> list[Form]:
        pairs = slope_pairs(self.candidates, self._weights_within(groups[0])[:, None])
        n_terms = int(np.diff(self.candidates.indptr).max(initial=0)) + 1
        return [images[0].form(*pairs, roundings=n_terms)]

    def _weights_within(self, groups: IndexArray) -> FloatArray:
        C = self.candidates
        return np.where(groups[C.anchors[C.rows]] == groups[C.impostors], self._weights, 0.0)

    def sampled(self, is_sampled: BoolArray) -> ListedTriplets:
        """Return the triplets with anchor and impostor in a sample of the examples, weighted to stand for all."""
        C, share = self.candidates, float(is_sampled.mean())
        keep = is_sampled[C.anchors[C.rows]] & is_sampled[C.impostors]
        return replace(self, candidates=replace(C, weights=self._weights / share**2).select(keep))

    @property
    def capacity(self) -> int:
        return self.size

    def sample(self, size: int, rng: np.random.Generator) -> tuple[Triplets, float]:
        """Return all triplets if at most `size`, else a uniform draw, whatever their weights, and their share."""
        chosen = np.arange(self.size) if self.size <= size else np.sort(rng.choice(self.size, size, replace=False))
        return self.candidates.first_triplets[chosen], len(chosen) / max(self.size, 1)

    def drawn(self, per_anchor: int) -> Candidates:
        """Draw about so many triplets of each anchor."""
        share = per_anchor * len(np.unique(self.candidates.anchors)) / max(self.size, 1)
        return self.candidates.select(np.random.default_rng(0).random(self.size) < share)

    def candidate_blocks(
        self,
        Z: NDArray[np.floating],
        groups: IndexArray,
        *,
        widen: float = 0.0,
        method: SearchMethod = "auto",
    ) -> Iterator[Candidates]:
        C = self.candidates
        if not len(C.impostors):
            return
        limits = (1.0 + target_distances(Z, C.anchors, C.targets).max(axis=1, initial=0.0)) * (1.0 + widen)
        rows = C.rows
        anchors = C.anchors[rows]
        yield C.select((distances(Z, anchors, C.impostors) <= limits[rows]) & (groups[anchors] == groups[C.impostors]))


@dataclass(frozen=True, eq=False, repr=False)
class LabeledTriplets:
    """All triplets (i, j, l) with j a target neighbor of i and l of another class than i.

    With weights of examples a triplet weighs ``w_i w_l``, as if each row were repeated so many times, each copy with
    the same target neighbors.
    """

    targets: IndexArray  # (n, K) int32: padded at the end with -1
    labels: IndexArray  # (n,) int32
    example_weights: FloatArray | None = None  # (n,) or None

    def check(self, n: int) -> None:
        """Raise an error for rows that are none of n examples; compiled loops check nothing."""
        targets, labels, weights = self.targets, self.labels, self.scales
        integral = targets.dtype.kind in "iu" and labels.dtype.kind in "iu" and targets.ndim == 2
        if not integral or len(targets) != n or labels.shape != (n,) or weights.shape != (n,):
            raise ValueError(
                f"triplets of labels need integer targets ({n}, k), integer labels ({n},) and weights ({n},), got "
                f"shapes {targets.shape}, {labels.shape} and {weights.shape}."
            )
        if min(targets.min(initial=-1), labels.min(initial=0) - 1) < -1 or targets.max(initial=-1) >= n:
            raise ValueError(f"targets must be row numbers, 0..{n - 1}, or -1 for none, and labels at least 0.")

    @classmethod
    def weighted(cls, targets: IndexArray, labels: IndexArray, weights: FloatArray | None) -> LabeledTriplets:
        """Return triplets of weighted examples; those of weight 0 lose their target neighbors."""
        if weights is None:
            return cls(targets, labels)
        return cls(np.where(weights[:, None] > 0.0, targets, np.int32(-1)), labels, weights)

    def sampled(self, is_sampled: BoolArray) -> LabeledTriplets:
        """Return the triplets with anchor and impostor in a sample of the examples, weighted to stand for all."""
        weights = np.where(is_sampled, self.scales / is_sampled.mean(), 0.0)
        return self.weighted(self.targets, self.labels, weights)

    @cached
    def scales(self) -> FloatArray:
        return np.ones(len(self.labels)) if self.example_weights is None else self.example_weights

    @cached
    def pulls(self) -> FloatArray:
        """The weight of each example times the number of its target neighbors, (n,)."""
        return self.scales * self.target_counts

    @cached
    def target_counts(self) -> LongArray:
        counts: LongArray = np.count_nonzero(self.targets >= 0, axis=1)
        return counts

    def pair_weights(self, anchors: IndexArray, impostors: IndexArray) -> FloatArray | None:
        """Return the weight of the triplets of pairs of an anchor and an impostor, (p,), or None if all are 1."""
        w = self.example_weights
        return None if w is None else w[anchors] * w[impostors]

    # -- what is the same for listed triplets -------------------------------------------------------------------------

    @property
    def size(self) -> int:
        counts = np.bincount(self.labels)
        n_impostors = len(self.labels) - counts[self.labels]
        return int(np.sum(self.target_counts * n_impostors))

    @property
    def total_weight(self) -> float:
        return self.weight_and_count([np.zeros(len(self.labels), dtype=np.int32)])[0]

    @property
    def smallest_weight(self) -> float:
        """A number not above the positive weight of any triplet."""
        smallest = float(self.scales[self.scales > 0.0].min(initial=np.inf))
        return smallest * smallest

    def target_pairs(self) -> tuple[IndexArray, IndexArray]:
        anchors, slots = np.nonzero(self.targets >= 0)
        return anchors.astype(np.int32), self.targets[anchors, slots]

    def target_weights(self) -> FloatArray:
        """Return the weight of the anchor of each target pair."""
        return self.scales[self.target_pairs()[0]]

    def weights_of(self, triplets: Triplets) -> FloatArray:
        """Return the weight of each triplet; 0 for those that are not in the set."""
        is_target = (self.targets[triplets.anchors] == triplets.targets[:, None]).any(axis=1)
        is_impostor = self.labels[triplets.anchors] != self.labels[triplets.impostors]
        weights = self.pair_weights(triplets.anchors, triplets.impostors)
        return np.where(is_target & is_impostor, 1.0 if weights is None else weights, 0.0)

    def weight_and_count(self, groups: Sequence[IndexArray], regions: IndexArray | None = None) -> tuple[float, int]:
        """Return the weight and number of all triplets whose anchor and impostor are of one group.

        Groups, (n,) each, are those of the metric of the impostor's region; by default all are of one region.
        """
        members = self._members(len(groups), regions)
        counts = sum(impostor_counts(self.labels, g, m) for g, m in zip(groups, members, strict=True))
        total = int(self.target_counts @ counts)
        if self.example_weights is None:
            return float(total), total
        return float(self.pulls @ self._impostor_weights(groups, members)), total

    def _members(self, n_regions: int, regions: IndexArray | None) -> list[BoolArray]:
        index = np.zeros(len(self.labels), dtype=np.int32) if regions is None else regions
        return [index == region for region in range(n_regions)]

    def _impostor_weights(self, groups: Sequence[IndexArray], members: list[BoolArray]) -> FloatArray:
        weights = [impostor_weights(self.labels, g, self.scales * m) for g, m in zip(groups, members, strict=True)]
        total: FloatArray = np.sum(weights, axis=0)
        return total

    def margin_forms(
        self, images: Sequence[Images], groups: Sequence[IndexArray], regions: IndexArray | None = None
    ) -> list[Form]:
        """Return ``sum_t w_t B_t`` of each metric, over all triplets within groups, in coordinates of its images."""
        anchors, targets = self.target_pairs()
        members, roundings = self._members(len(groups), regions), len(self.labels) + len(groups) + 4
        weights, forms = (self.scales * self._impostor_weights(groups, members))[anchors], []
        for image, group, member in zip(images, groups, members, strict=True):
            push = scatter_form(image, self.labels, group, self.pulls, self.scales * member)
            pulled = member[targets]
            forms.append(push - image.form(anchors[pulled], targets[pulled], weights[pulled], roundings=roundings))
        return forms

    @property
    def capacity(self) -> int:
        """Number of candidate pairs that may be in memory, linear in the number of target pairs."""
        return capacity(int(self.target_counts.sum()))

    def sample(self, size: int, rng: np.random.Generator) -> tuple[Triplets, float]:
        """Draw `size` triplets or a few fewer uniformly, with repetition; also their share of all."""
        anchors, targets = self.target_pairs()
        pair, impostors = rng.integers(len(anchors), size=size), rng.integers(len(self.labels), size=size)
        valid = self.labels[anchors[pair]] != self.labels[impostors]
        triplets = Triplets(anchors[pair], targets[pair], impostors.astype(np.int32))[valid]
        return triplets, len(triplets) / max(self.size, 1)

    def drawn(self, per_anchor: int) -> Candidates:
        """Draw about so many impostors of each anchor, each once."""
        anchors, rng = self.anchors, np.random.default_rng(0)
        impostors = rng.integers(len(self.labels), size=(len(anchors), per_anchor), dtype=np.int32)
        impostors.sort(axis=1)
        keep = self.labels[impostors] != self.labels[anchors, None]
        keep[:, 1:] &= impostors[:, 1:] != impostors[:, :-1]
        C = Candidates(anchors, self.targets[anchors], per_anchor * np.arange(len(anchors) + 1), impostors.ravel())
        C = C.select(keep.ravel())
        weights = self.pair_weights(C.anchors[C.rows], C.impostors)
        return C if weights is None else replace(C, weights=weights).select(weights > 0.0)

    # -- the search ---------------------------------------------------------------------------------------------------

    def candidate_blocks(
        self,
        Z: NDArray[np.floating],
        groups: IndexArray,
        *,
        widen: float = 0.0,
        method: SearchMethod = "auto",
        limits: FloatArray | None = None,
        columns: IndexArray | None = None,
    ) -> Iterator[Candidates]:
        """Yield, block by block, all candidates that can violate their margin, or one that is wider by a share.

        Impostors are those of `columns`; instead of those of margins there may be other limits for the `anchors`.
        """
        anchors = self.anchors
        columns = np.flatnonzero(self.scales > 0.0).astype(np.int32) if columns is None else columns
        if not len(anchors) or not len(columns):
            return
        if limits is None:
            limits = 1.0 + target_distances(Z, anchors, self.targets[anchors]).max(axis=1, initial=0.0)
        search = Search(Z, self.labels, groups, anchors, limits * (1.0 + widen), columns)
        previous, targets = None, self.targets
        for block_anchors, indptr, impostors in search.blocks(method):
            check_deadline()
            if block_anchors is not previous:
                previous, targets = block_anchors, self.targets[block_anchors]
            block = Candidates(block_anchors, targets, indptr, impostors)
            weights = self.pair_weights(block_anchors[block.rows], impostors)
            yield block if weights is None else replace(block, weights=weights).select(weights > 0.0)

    @cached
    def anchors(self) -> IndexArray:
        """The examples that have target neighbors, in order."""
        return np.flatnonzero(self.target_counts).astype(np.int32)


TripletSource = LabeledTriplets | ListedTriplets
