"""The triplets of a problem, implied by labels, and those among them that a metric may violate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import BoolArray, FloatArray, IndexArray, LongArray
from sdpmetric.core.triplets import Candidates, Triplets
from sdpmetric.engine.cached import cached
from sdpmetric.engine.threads import check_deadline
from sdpmetric.linalg.rigorous.forms import Form, Images
from sdpmetric.lmnn.triplets.impostors import Search, SearchMethod, capacity
from sdpmetric.lmnn.triplets.listed import ListedTriplets
from sdpmetric.lmnn.triplets.margins import target_distances
from sdpmetric.lmnn.triplets.unit_hinges import impostor_counts, impostor_weights, scatter_form


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
        """Triplets of weighted examples; those of weight 0 lose their target neighbors."""
        if weights is None:
            return cls(targets, labels)
        return cls(np.where(weights[:, None] > 0.0, targets, np.int32(-1)), labels, weights)

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
        """Weight of the triplets of pairs of an anchor and an impostor, (p,); None: all 1."""
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
        """The weight of the anchor of each target pair."""
        return self.scales[self.target_pairs()[0]]

    def weights_of(self, triplets: Triplets) -> FloatArray:
        """Weight of each triplet; 0 for those that are not in the set."""
        is_target = (self.targets[triplets.anchors] == triplets.targets[:, None]).any(axis=1)
        is_impostor = self.labels[triplets.anchors] != self.labels[triplets.impostors]
        weights = self.pair_weights(triplets.anchors, triplets.impostors)
        return np.where(is_target & is_impostor, 1.0 if weights is None else weights, 0.0)

    def weight_and_count(self, groups: Sequence[IndexArray], regions: IndexArray | None = None) -> tuple[float, int]:
        """Weight and number of all triplets whose anchor and impostor are of one group.

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
        """``sum_t w_t B_t`` of each metric, over all triplets within groups, in coordinates of its images."""
        anchors, targets = self.target_pairs()
        members, roundings = self._members(len(groups), regions), len(self.labels) + len(groups) + 4
        weights, forms = (self.scales * self._impostor_weights(groups, members))[anchors], []
        for image, group, member in zip(images, groups, members, strict=True):
            push = scatter_form(image, self.labels, group, self.pulls, self.scales * member)
            pulled = member[targets]
            forms.append(push - image.form(anchors[pulled], targets[pulled], weights[pulled], roundings=roundings))
        return forms

    def capacity(self, anchors: IndexArray) -> int:
        """How many candidate pairs of some anchors may be in memory, linear in the number of their target pairs."""
        return capacity(int(self.target_counts[anchors].sum()))

    def sample(self, size: int, rng: np.random.Generator) -> tuple[Triplets, float]:
        """Draw `size` triplets or a few fewer uniformly, with repetition; also their share of all."""
        anchors, targets = self.target_pairs()
        pair, impostors = rng.integers(len(anchors), size=size), rng.integers(len(self.labels), size=size)
        valid = self.labels[anchors[pair]] != self.labels[impostors]
        triplets = Triplets(anchors[pair], targets[pair], impostors.astype(np.int32))[valid]
        return triplets, len(triplets) / max(self.size, 1)

    # -- the search ---------------------------------------------------------------------------------------------------

    def candidate_blocks(
        self,
        Z: NDArray[np.floating],
        groups: IndexArray,
        *,
        widen: float = 0.0,
        among: IndexArray | None = None,
        method: SearchMethod = "auto",
        limits: FloatArray | None = None,
        columns: IndexArray | None = None,
    ) -> Iterator[Candidates]:
        """Yield, block by block, all candidates that can violate their margin, or one that is wider by a share.

        Impostors are those of `columns`; instead of those of margins there may be other limits for the `anchors`.
        """
        anchors = self.anchors(among)
        columns = np.arange(len(Z), dtype=np.int32) if columns is None else columns
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

    def anchors(self, among: IndexArray | None = None) -> IndexArray:
        """The examples that have target neighbors, in order; those of `among` where it is given."""
        anchors = np.arange(len(self.labels), dtype=np.int32) if among is None else among
        return anchors[(self.targets[anchors] >= 0).any(axis=1)]


TripletSource = LabeledTriplets | ListedTriplets
