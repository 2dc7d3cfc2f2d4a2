"""Triplets that are listed one by one, with weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray, IndexArray
from sdpmetric.core.triplets import Candidates, Triplets
from sdpmetric.engine.interface import dealt
from sdpmetric.linalg.distances import distances
from sdpmetric.linalg.rigorous import Form, Images
from sdpmetric.lmnn.triplets.impostors import SearchMethod, part_of_pairs
from sdpmetric.lmnn.triplets.margins import furthest_target, slope_form


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
        new = np.ones(len(array), dtype=bool)
        new[1:] = (array[1:] != array[:-1]).any(axis=1)
        sums = np.add.reduceat(weights, np.flatnonzero(new)) if len(array) else weights
        array = array[new]
        head = np.ones(len(array), dtype=bool)
        head[1:] = (array[1:, :2] != array[:-1, :2]).any(axis=1)
        starts = np.flatnonzero(head)
        columns = np.ascontiguousarray(array.T)
        return cls(
            Candidates(
                columns[0][starts],
                np.ascontiguousarray(columns[1][starts][:, None]),
                np.concatenate([starts, [len(array)]]).astype(np.int64),
                columns[2],
                sums,
            )
        )

    def check(self, n: int) -> None:
        """Refuse rows that are none of n examples; see `LabeledTriplets.check`."""
        for rows in (self.candidates.anchors, self.candidates.targets, self.candidates.impostors):
            if rows.dtype.kind not in "iu" or (rows.size and (rows.min() < 0 or rows.max() >= n)):
                raise ValueError(f"listed triplets must name rows 0..{n - 1} of X by integers.")
        if self.pulls is not None and self.pulls.shape != self.candidates.anchors.shape:
            raise ValueError(
                f"listed triplets have {len(self.candidates.anchors)} target pairs, and pulls of shape "
                f"{self.pulls.shape}; pass one weight for each pair."
            )

    @property
    def size(self) -> int:
        """Number of distinct triplets."""
        return len(self.candidates.impostors)

    @property
    def total_weight(self) -> float:
        """Sum of the weights of all triplets."""
        weights = self.candidates.weights
        return float(weights.sum()) if weights is not None else 0.0

    @property
    def least_weight(self) -> float:
        """The least positive weight of a triplet."""
        weights = np.ones(self.size) if self.candidates.weights is None else self.candidates.weights
        return float(weights[weights > 0.0].min(initial=np.inf))

    def target_pairs(self) -> tuple[IndexArray, IndexArray]:
        """The (anchor, target) pairs, each once."""
        return self.candidates.anchors, self.candidates.targets[:, 0]

    def target_weights(self) -> FloatArray | None:
        """Weights of the (anchor, target) pairs."""
        return self.pulls

    def weights_of(self, triplets: Triplets) -> FloatArray:
        """Weight of each triplet, (t,); 0 for those that are not in the set."""
        C, weights = self.candidates, np.zeros(len(triplets))
        if self.size and C.weights is not None:
            n = 1 + max(
                int(part.max()) for part in (C.anchors, C.targets, C.impostors, *triplets.to_array().T) if part.size
            )
            rows = C.rows
            own = Triplets(C.anchors[rows], C.targets[rows, 0], C.impostors).keys(n)
            asked = triplets.keys(n)
            at = np.minimum(np.searchsorted(own, asked), len(own) - 1)
            weights = np.where(own[at] == asked, C.weights[at], 0.0)
        return weights

    def totals_within(self, groups: Sequence[IndexArray], regions: IndexArray | None = None) -> tuple[float, int]:
        """Weight and number of all listed triplets within the groups of one metric; see `LabeledTriplets`."""
        weights = self._weights_within(groups[0])
        return float(weights.sum()), int(np.count_nonzero(weights))

    def forms_within(
        self, images: Sequence[Images], groups: Sequence[IndexArray], regions: IndexArray | None = None
    ) -> list[Form]:
        """``sum_t w_t B_t`` of all listed triplets within the groups of one metric; see `LabeledTriplets`."""
        return [slope_form(images[0], self.candidates, self._weights_within(groups[0])[:, None])]

    def _weights_within(self, groups: IndexArray) -> FloatArray:
        C = self.candidates
        weights = np.ones(self.size) if C.weights is None else C.weights
        return np.where(groups[C.anchors[C.rows]] == groups[C.impostors], weights, 0.0)

    def capacity(self, among: IndexArray) -> int:
        """All that is listed."""
        return self.size

    def sample(self, size: int, rng: np.random.Generator) -> tuple[Triplets, float]:
        """All triplets where they are at most `size`, else a uniform draw; also their share of all. Ignores weights."""
        C = self.candidates
        chosen = np.arange(self.size) if self.size <= size else np.sort(rng.choice(self.size, size, replace=False))
        rows = C.rows[chosen]
        return Triplets(C.anchors[rows], C.targets[rows, 0], C.impostors[chosen]), len(chosen) / max(self.size, 1)

    def near(
        self,
        Z: NDArray[np.floating],
        groups: IndexArray,
        *,
        widen: float = 0.0,
        among: IndexArray | None = None,
        method: SearchMethod = "auto",
    ) -> Iterator[Candidates]:
        """Measure every listed triplet; see `LabeledTriplets.near`."""
        C = self.candidates
        if not len(C.impostors):
            return
        limits = (1.0 + furthest_target(Z, C.anchors, C.targets)) * (1.0 + widen)
        rows = C.rows
        anchors = C.anchors[rows]
        keep = (distances(Z, anchors, C.impostors) <= limits[rows]) & (groups[anchors] == groups[C.impostors])
        keep &= dealt(len(keep), part_of_pairs())
        if among is not None:
            keep &= np.isin(anchors, among)
        yield C.select(keep)
