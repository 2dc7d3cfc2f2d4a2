"""Triplets that are listed one by one, with weights. Methods are those of `LabeledTriplets`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray, IndexArray
from sdpmetric.core.triplets import Candidates, Triplets
from sdpmetric.core.validation import check_rows
from sdpmetric.linalg.distances import distances
from sdpmetric.linalg.rigorous.forms import Form, Images
from sdpmetric.lmnn.triplets.impostors import SearchMethod
from sdpmetric.lmnn.triplets.margins import slope_pairs, target_distances


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
        C, rows = self.candidates, self.candidates.rows
        members = Triplets(C.anchors[rows], C.targets[rows, 0], C.impostors)
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

    def capacity(self, anchors: IndexArray) -> int:
        return self.size

    def sample(self, size: int, rng: np.random.Generator) -> tuple[Triplets, float]:
        """All triplets if they are at most `size`, else a uniform draw, whatever their weights; also their share."""
        C = self.candidates
        chosen = np.arange(self.size) if self.size <= size else np.sort(rng.choice(self.size, size, replace=False))
        rows = C.rows[chosen]
        return Triplets(C.anchors[rows], C.targets[rows, 0], C.impostors[chosen]), len(chosen) / max(self.size, 1)

    def candidate_blocks(
        self,
        Z: NDArray[np.floating],
        groups: IndexArray,
        *,
        widen: float = 0.0,
        among: IndexArray | None = None,
        method: SearchMethod = "auto",
    ) -> Iterator[Candidates]:
        C = self.candidates
        if not len(C.impostors):
            return
        limits = (1.0 + target_distances(Z, C.anchors, C.targets).max(axis=1, initial=0.0)) * (1.0 + widen)
        rows = C.rows
        anchors = C.anchors[rows]
        keep = (distances(Z, anchors, C.impostors) <= limits[rows]) & (groups[anchors] == groups[C.impostors])
        if among is not None:
            keep &= np.isin(anchors, among)
        yield C.select(keep)
