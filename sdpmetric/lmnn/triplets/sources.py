"""The triplets of a problem, implied by labels, and those among them that a metric may violate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import BoolArray, FloatArray, IndexArray
from sdpmetric.core.triplets import Candidates, Triplets
from sdpmetric.engine.cached import cached
from sdpmetric.engine.interface import WHOLE, check_deadline, dealt
from sdpmetric.linalg.rigorous import Form, Images
from sdpmetric.lmnn.triplets.impostors import (
    SearchMethod,
    capacity,
    measures_once,
    part_of_pairs,
    search_tiles,
    search_trees,
)
from sdpmetric.lmnn.triplets.listed import ListedTriplets
from sdpmetric.lmnn.triplets.margins import furthest_target, impostor_counts, impostor_weights, scatter_form

# Up to this dimension, and from so many rows, a ball tree per class is the faster search, unless classes overlap much
# (examples/benchmarks/impostor_search.py).
TREE_DIMENSION, TREE_ROWS = 4, 10_000


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
        """Refuse rows that are none of n examples; compiled loops check nothing."""
        targets, labels, weights = self.targets, self.labels, self.scales
        whole = targets.dtype.kind in "iu" and labels.dtype.kind in "iu" and targets.ndim == 2
        if not whole or len(targets) != n or labels.shape != (n,) or weights.shape != (n,):
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
        """Weight of each example, (n,)."""
        return np.ones(len(self.labels)) if self.example_weights is None else self.example_weights

    @cached
    def pulls(self) -> FloatArray:
        """The weight of each example times the number of its target neighbors, (n,)."""
        return self.scales * self.target_counts

    def pair_weights(self, anchors: IndexArray, impostors: IndexArray) -> FloatArray | None:
        """Weight of the triplets of pairs of an anchor and an impostor, (p,); None: all 1."""
        w = self.example_weights
        return None if w is None else w[anchors] * w[impostors]

    @property
    def size(self) -> int:
        """Number of triplets in all."""
        counts = np.bincount(self.labels)
        others = len(self.labels) - counts[self.labels]
        return int(np.sum((self.targets >= 0).sum(axis=1) * others))

    @property
    def total_weight(self) -> float:
        """Sum of the weights of all triplets."""
        return self.totals_within([np.zeros(len(self.labels), dtype=np.int32)])[0]

    @property
    def least_weight(self) -> float:
        """A number not above the positive weight of any triplet."""
        least = float(self.scales[self.scales > 0.0].min(initial=np.inf))
        return least * least

    def target_pairs(self) -> tuple[IndexArray, IndexArray]:
        """The (anchor, target) pairs, each once."""
        anchors, slots = np.nonzero(self.targets >= 0)
        return anchors.astype(np.int32), self.targets[anchors, slots]

    def target_weights(self) -> FloatArray | None:
        """The weight of the anchor."""
        return None if self.example_weights is None else self.example_weights[self.target_pairs()[0]]

    def weights_of(self, triplets: Triplets) -> FloatArray:
        """Weight of each triplet; 0 for those that are not in the set."""
        member = (self.targets[triplets.anchors] == triplets.targets[:, None]).any(axis=1)
        other = self.labels[triplets.anchors] != self.labels[triplets.impostors]
        weights = self.pair_weights(triplets.anchors, triplets.impostors)
        return np.where(member & other, 1.0 if weights is None else weights, 0.0)

    @cached
    def target_counts(self) -> NDArray[np.int64]:
        """Number of target neighbors of each example, (n,)."""
        counts: NDArray[np.int64] = np.count_nonzero(self.targets >= 0, axis=1)
        return counts

    def totals_within(self, groups: Sequence[IndexArray], regions: IndexArray | None = None) -> tuple[float, int]:
        """Weight and number of all triplets whose anchor and impostor are of one group.

        Groups, (n,) each, are those of the metric of the impostor's region; by default all are of one region.
        """
        members = _members(len(groups), len(self.labels), regions)
        counts = sum(impostor_counts(self.labels, g, own) for g, own in zip(groups, members, strict=True))
        total = int(self.target_counts @ counts)
        weighted = self.example_weights is not None
        return float(self.pulls @ self._impostor_weights(groups, members)) if weighted else float(total), total

    def _impostor_weights(self, groups: Sequence[IndexArray], members: list[BoolArray]) -> FloatArray:
        """Weight of the differently labeled examples in the group of each example, (n,)."""
        parts = [impostor_weights(self.labels, g, self.scales * own) for g, own in zip(groups, members, strict=True)]
        total: FloatArray = np.sum(parts, axis=0)
        return total

    def forms_within(
        self, images: Sequence[Images], groups: Sequence[IndexArray], regions: IndexArray | None = None
    ) -> list[Form]:
        """``sum_t w_t B_t`` of each metric, over all triplets within groups, in coordinates of its images."""
        anchors, targets = self.target_pairs()
        members, roundings = _members(len(groups), len(self.labels), regions), len(self.labels) + len(groups) + 4
        weights, forms = (self.scales * self._impostor_weights(groups, members))[anchors], []
        for own, group, among in zip(images, groups, members, strict=True):
            push, at = scatter_form(own, self.labels, group, self.pulls, self.scales * among), among[targets]
            forms.append(push - own.form(anchors[at], targets[at], weights[at], roundings=roundings))
        return forms

    def capacity(self, among: IndexArray) -> int:
        """Linear in the number of their target pairs; see `sdpmetric.lmnn.triplets.impostors`."""
        return capacity(int(self.target_counts[among].sum()))

    def sample(self, size: int, rng: np.random.Generator) -> tuple[Triplets, float]:
        """Draw `size` triplets or a few fewer uniformly, with repetition; also their share of all."""
        anchors, targets = self.target_pairs()
        pair, impostors = rng.integers(len(anchors), size=size), rng.integers(len(self.labels), size=size)
        valid = self.labels[anchors[pair]] != self.labels[impostors]
        drawn = Triplets(anchors[pair], targets[pair], impostors.astype(np.int32))[valid]
        return drawn, len(drawn) / max(self.size, 1)

    def near(
        self,
        Z: NDArray[np.floating],
        groups: IndexArray,
        *,
        widen: float = 0.0,
        among: IndexArray | None = None,
        method: SearchMethod = "auto",
    ) -> Iterator[Candidates]:
        """Yield, block by block, all candidates that can violate their margin."""
        anchors = self.anchors(among)
        limits = (1.0 + furthest_target(Z, anchors, self.targets[anchors])) * (1.0 + widen)
        yield from self.within(Z, groups, anchors, limits, method=method)

    def anchors(self, among: IndexArray | None = None) -> IndexArray:
        """The examples that have target neighbors, in order; those of `among` where it is given."""
        anchors = np.arange(len(self.labels), dtype=np.int32) if among is None else among
        return anchors[(self.targets[anchors] >= 0).any(axis=1)]

    def within(
        self,
        Z: NDArray[np.floating],
        groups: IndexArray,
        anchors: IndexArray,
        limits: FloatArray,
        *,
        columns: IndexArray | None = None,
        method: SearchMethod = "auto",
    ) -> Iterator[Candidates]:
        """Yield the impostors within given limits."""
        columns = np.arange(len(Z), dtype=np.int32) if columns is None else columns
        if not len(anchors) or not len(columns):
            return
        if method == "auto":
            method = "ball_tree" if 0 < Z.shape[1] <= TREE_DIMENSION and len(Z) >= TREE_ROWS else "brute"
        # The zero metric embeds into no dimension at all, which trees refuse.
        trees = method == "ball_tree" and Z.shape[1] > 0
        if (part := part_of_pairs()) != WHOLE and (trees or not measures_once(Z, anchors, columns)):
            here = dealt(len(anchors), part)
            anchors, limits = anchors[here], limits[here]
        search = search_trees if trees else search_tiles
        targets = self.targets[anchors]
        for own, indptr, impostors in search(Z, self.labels, groups, anchors, limits, columns):
            check_deadline()
            found = Candidates(own, targets if own is anchors else self.targets[own], indptr, impostors)
            weights = self.pair_weights(own[found.rows], impostors)
            yield found if weights is None else replace(found, weights=weights).select(weights > 0.0)


def _members(n_regions: int, n: int, regions: IndexArray | None) -> list[BoolArray]:
    """The examples of each region."""
    index = np.zeros(n, dtype=np.int32) if regions is None else regions
    return [index == region for region in range(n_regions)]


TripletSource = LabeledTriplets | ListedTriplets
