"""Candidate pairs that stay in a working set although the last search has not found them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import IndexArray
from sdpmetric.triplets.sources import LabeledTriplets, TripletSource
from sdpmetric.triplets.triplets import Candidates

Keys = NDArray[np.int64]

# Searches whose pairs are remembered.
SEARCHES = 10


class PairMemory:
    """Pairs that had a positive hinge at earlier searches, the newest first, and pairs drawn at random.

    Without them the iterates go back and forth between regions where one set of pairs costs and the other is out of
    sight. A pair is a number, ``anchor n + impostor``. Listed triplets were never seen to need a memory.

    Parameters
    ----------
    null_groups : list of (n,) int32 arrays
        For each metric, the groups that its null directions leave together.
    regions : (n,) int32 array
        Region of each example.
    most : int
        Pairs that are remembered at most.
    """

    def __init__(self, source: TripletSource, null_groups: list[IndexArray], regions: IndexArray, most: int) -> None:
        self._source = source if isinstance(source, LabeledTriplets) else None
        self._groups, self._regions, self._most = null_groups, regions, most
        self._searches: list[list[Keys]] = []
        self._rng = np.random.default_rng(0)

    def add(self, keys: list[Keys], most: int | None = None) -> None:
        """Remember the pairs of one more search, one array for each region; of more than `most` a random part."""
        most = self._most // 4 if most is None else most
        size = sum(len(part) for part in keys)
        if size > most:
            keys = [part[self._rng.random(len(part)) < most / size] for part in keys]
        self._searches = [keys, *self._searches][:SEARCHES]
        while sum(len(part) for search in self._searches for part in search) > self._most:
            self._searches.pop()

    def add_found(self, found: list[tuple[int, Candidates]], most: int) -> None:
        """Remember about `most` of the pairs that a search has found before there were too many."""
        n, size = len(self._regions), sum(len(part.impostors) for _, part in found)
        keys: list[list[Keys]] = [[] for _ in self._groups]
        for region, part in found:
            chosen = np.sort(self._rng.integers(len(part.impostors), size=int(most * len(part.impostors) / size)))
            rows = np.searchsorted(part.indptr, chosen, side="right") - 1
            keys[region].append(part.anchors[rows].astype(np.int64) * n + part.impostors[chosen])
        self.add([np.unique(np.concatenate(parts)) if parts else np.zeros(0, np.int64) for parts in keys])

    def draw(self, anchors: IndexArray, each: int) -> None:
        """Remember pairs of every anchor with about `each` examples drawn at random."""
        if self._source is None:
            return
        labels, n = self._source.labels, len(self._regions)
        first = np.repeat(self._source.anchors(anchors), each)
        second = self._rng.integers(n, size=len(first)).astype(np.int32)
        keys: list[Keys] = []
        for region, groups in enumerate(self._groups):
            valid = (labels[first] != labels[second]) & (self._regions[second] == region)
            valid &= groups[first] == groups[second]
            keys.append(np.unique(first[valid].astype(np.int64) * n + second[valid]))
        self.add(keys)

    def extend(self, found: list[Candidates]) -> list[Candidates]:
        """Add to the candidates of each region the remembered pairs that are not among them, as rows of their own."""
        if self._source is None or not self._searches:
            return found
        n, extended = len(self._regions), []
        for region, part in enumerate(found):
            keys = np.unique(np.concatenate([search[region] for search in self._searches]))
            keys = keys[~np.isin(keys, part.anchors[part.rows].astype(np.int64) * n + part.impostors)]
            anchors, counts = np.unique(keys // n, return_counts=True)
            impostors = (keys % n).astype(np.int32)
            more = Candidates(
                anchors.astype(np.int32),
                self._source.targets[anchors],
                np.concatenate([[0], np.cumsum(counts)]),
                impostors,
                self._source.pair_weights((keys // n).astype(np.int32), impostors),
            )
            extended.append(Candidates.concatenate([part, more]))
        return extended
