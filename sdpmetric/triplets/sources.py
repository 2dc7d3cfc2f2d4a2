"""The triplets of a problem, implied by labels or listed one by one, and those among them that a metric may violate."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from sdpmetric.linalg.distances import distances
from sdpmetric.linalg.rigorous import Form, Images
from sdpmetric.triplets.bounds import scatter_form, slope_form
from sdpmetric.triplets.impostors import search_tiles, search_trees
from sdpmetric.triplets.limits import capacity, check_deadline
from sdpmetric.triplets.totals import impostor_counts
from sdpmetric.triplets.triplets import Candidates, Triplets

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.int32]
SearchMethod = Literal["auto", "brute", "ball_tree"]

# Up to this dimension a ball tree per class is the faster search (examples/benchmarks/impostor_search.py).
TREE_DIMENSION = 4


class TripletSource(Protocol):
    """A set of triplets that can be searched, however it is stored."""

    @property
    def size(self) -> int:
        """Number of triplets in all."""

    @property
    def total_weight(self) -> float:
        """Sum of the weights of all triplets."""

    def target_pairs(self) -> tuple[IndexArray, IndexArray]:
        """The (anchor, target) pairs, each once."""

    def weights_of(self, triplets: Triplets) -> FloatArray:
        """Weight of each triplet, (t,); 0 for those that are not in the set."""

    def totals_within(self, groups: IndexArray) -> tuple[float, int]:
        """Weight and number of all triplets whose anchor and impostor are of one group, groups (n,)."""

    def form_within(self, images: Images, groups: IndexArray) -> Form:
        """``sum_t w_t B_t`` over all triplets whose anchor and impostor are of one group, in coordinates of images.

        Parameters
        ----------
        images : Images
        groups : (n,) int32 array
        """

    def capacity(self, among: IndexArray) -> int:
        """Largest number of candidate pairs in memory for some anchors, (m,)."""

    def arrays(self) -> tuple[NDArray[np.generic], ...]:
        """The arrays that define the set."""

    def sample(self, size: int, rng: np.random.Generator) -> tuple[Triplets, float]:
        """Draw about `size` triplets uniformly; also their share of all."""

    def near(
        self,
        Z: NDArray[np.floating],
        groups: IndexArray,
        *,
        widen: float = 0.0,
        among: IndexArray | None = None,
        method: SearchMethod = "auto",
    ) -> Iterator[Candidates]:
        """Yield, block by block, all candidates that can violate their margin.

        Parameters
        ----------
        Z : (n, r) array
            Embedded points: squared Euclidean distances are the metric's.
        groups : (n,) int32 array
            Only impostors in the anchor's group are listed.
        widen : float, default 0
            List impostors up to ``(1 + max_j D_ij) * (1 + widen)``.
        among : (m,) int32 array, optional
            Only rows of these anchors.
        method : {"auto", "brute", "ball_tree"}
            How to search.
        """


@dataclass(frozen=True, eq=False, repr=False)
class LabeledTriplets:
    """All triplets (i, j, l) with j a target neighbor of i and l of another class than i.

    Attributes
    ----------
    targets : (n, K) int32 array
        Padded at the end with -1.
    labels : (n,) int32 array
    """

    targets: IndexArray
    labels: IndexArray

    @property
    def size(self) -> int:
        """Number of triplets in all."""
        counts = np.bincount(self.labels)
        others = len(self.labels) - counts[self.labels]
        return int(np.sum((self.targets >= 0).sum(axis=1) * others))

    @property
    def total_weight(self) -> float:
        """Sum of the weights of all triplets: their number."""
        return float(self.size)

    def target_pairs(self) -> tuple[IndexArray, IndexArray]:
        """The (anchor, target) pairs, each once."""
        anchors, slots = np.nonzero(self.targets >= 0)
        return anchors.astype(np.int32), self.targets[anchors, slots]

    def weights_of(self, triplets: Triplets) -> FloatArray:
        """Weight of each triplet: 1, or 0 for those that are not in the set."""
        member = (self.targets[triplets.anchors] == triplets.targets[:, None]).any(axis=1)
        other = self.labels[triplets.anchors] != self.labels[triplets.impostors]
        return np.asarray(member & other, dtype=np.float64)

    @cached_property
    def target_counts(self) -> NDArray[np.int64]:
        """Number of target neighbors of each example, (n,)."""
        counts: NDArray[np.int64] = np.count_nonzero(self.targets >= 0, axis=1)
        return counts

    def totals_within(self, groups: IndexArray) -> tuple[float, int]:
        """Weight and number of all triplets within groups; see `TripletSource.totals_within`."""
        total = int(self.target_counts @ impostor_counts(self.labels, groups))
        return float(total), total

    def form_within(self, images: Images, groups: IndexArray) -> Form:
        """``sum_t B_t`` of all triplets within groups; see `TripletSource.form_within`."""
        counts = self.target_counts.astype(np.float64)
        anchors, targets = self.target_pairs()
        weights = impostor_counts(self.labels, groups)[anchors].astype(np.float64)
        push = scatter_form(images, self.labels, groups, counts, np.ones(len(counts)))
        return push - images.form(anchors, targets, weights)

    def capacity(self, among: IndexArray) -> int:
        """Linear in the number of their target pairs; see `sdpmetric.triplets.limits`."""
        return capacity(int(self.target_counts[among].sum()))

    def arrays(self) -> tuple[NDArray[np.generic], ...]:
        """The arrays that define the set."""
        return self.targets, self.labels

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
        """Search exhaustively; see `TripletSource.near`."""
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
        """Yield the impostors within given limits.

        Parameters
        ----------
        Z, groups, method
            As in `near`.
        anchors : (m,) int32 array
            From `anchors`.
        limits : (m,) array
            Squared distances.
        columns : (p,) int32 array, optional
            Possible impostors, in order; default: all examples.
        """
        columns = np.arange(len(Z), dtype=np.int32) if columns is None else columns
        if not len(anchors) or not len(columns):
            return
        if method == "auto":
            method = "ball_tree" if 0 < Z.shape[1] <= TREE_DIMENSION else "brute"
        # The zero metric embeds into no dimension at all, which trees refuse.
        search = search_trees if method == "ball_tree" and Z.shape[1] > 0 else search_tiles
        for own, indptr, impostors in search(Z, self.labels, groups, anchors, limits, columns):
            check_deadline()
            yield Candidates(own, self.targets[own], indptr, impostors)


@dataclass(frozen=True, eq=False, repr=False)
class ListedTriplets:
    """An explicit list of triplets with weights, grouped by target pair.

    Attributes
    ----------
    candidates : Candidates
        One row per (anchor, target) pair, K = 1, with weights; rows sorted.
    """

    candidates: Candidates

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

    @property
    def size(self) -> int:
        """Number of distinct triplets."""
        return len(self.candidates.impostors)

    @property
    def total_weight(self) -> float:
        """Sum of the weights of all triplets."""
        weights = self.candidates.weights
        return float(weights.sum()) if weights is not None else 0.0

    def target_pairs(self) -> tuple[IndexArray, IndexArray]:
        """The (anchor, target) pairs, each once."""
        return self.candidates.anchors, self.candidates.targets[:, 0]

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

    def totals_within(self, groups: IndexArray) -> tuple[float, int]:
        """Weight and number of all listed triplets within groups; see `TripletSource.totals_within`."""
        weights = self._weights_within(groups)
        return float(weights.sum()), int(np.count_nonzero(weights))

    def form_within(self, images: Images, groups: IndexArray) -> Form:
        """``sum_t w_t B_t`` of all listed triplets within groups; see `TripletSource.form_within`."""
        return slope_form(images, self.candidates, self._weights_within(groups)[:, None])

    def _weights_within(self, groups: IndexArray) -> FloatArray:
        C = self.candidates
        weights = np.ones(self.size) if C.weights is None else C.weights
        return np.where(groups[C.anchors[C.rows]] == groups[C.impostors], weights, 0.0)

    def capacity(self, among: IndexArray) -> int:
        """All that is listed."""
        return self.size

    def arrays(self) -> tuple[NDArray[np.generic], ...]:
        """The arrays that define the set."""
        C = self.candidates
        return C.anchors, C.targets, C.indptr, C.impostors, C.weights if C.weights is not None else np.zeros(0)

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
        """Measure every listed triplet; see `TripletSource.near`."""
        C = self.candidates
        if not len(C.impostors):
            return
        limits = (1.0 + furthest_target(Z, C.anchors, C.targets)) * (1.0 + widen)
        rows = C.rows
        anchors = C.anchors[rows]
        keep = (distances(Z, anchors, C.impostors) <= limits[rows]) & (groups[anchors] == groups[C.impostors])
        if among is not None:
            keep &= np.isin(anchors, among)
        yield C.select(keep)


def furthest_target(Z: NDArray[np.floating], anchors: IndexArray, targets: IndexArray) -> FloatArray:
    """Largest squared distance from each anchor to its target neighbors, (m,) float64."""
    furthest = np.zeros(len(anchors))
    for column in targets.T:
        np.maximum(furthest, distances(Z, anchors, np.where(column >= 0, column, anchors)), out=furthest)
    return furthest
