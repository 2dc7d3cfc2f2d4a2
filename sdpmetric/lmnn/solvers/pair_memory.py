"""Pairs that earlier searches found active, which stay candidates.

Without them the iterates go back and forth between regions where one set of pairs costs and the other is out of sight.
"""

from __future__ import annotations

import numpy as np

from sdpmetric.arrays import IndexArray, LongArray
from sdpmetric.core.triplets import Candidates
from sdpmetric.lmnn.push import Push
from sdpmetric.lmnn.triplets.sources import LabeledTriplets


class PairMemory:
    """Pairs of the latest searches, the newest first, and pairs drawn at random; none where triplets are listed.

    A pair of points is a number, its key: ``anchor c n + impostor``.

    Parameters
    ----------
    groups : (c n,) int32 array
        The groups that null directions of each metric leave together.
    capacity : int
        Pairs that are remembered at most.
    """

    def __init__(self, push: Push, groups: IndexArray, capacity: int) -> None:
        self._push, self._groups, self._capacity = push, groups, capacity
        self._source = push.source if isinstance(push.source, LabeledTriplets) else None
        self._searches: list[LongArray] = []
        self._rng = np.random.default_rng(0)

    def keys(self, anchors: IndexArray | LongArray, impostors: IndexArray | LongArray) -> LongArray:
        return anchors.astype(np.int64) * len(self._groups) + impostors

    def add(self, keys: LongArray, max_pairs: int | None = None) -> None:
        """Remember the pairs of one more search; of more than `max_pairs` a random selection."""
        max_pairs = self._capacity // 4 if max_pairs is None else max_pairs
        if len(keys) > max_pairs:
            keys = keys[self._rng.random(len(keys)) < max_pairs / len(keys)]
        # Each search may take a quarter of the memory.
        self._searches = [keys, *self._searches][:10]
        while sum(len(search) for search in self._searches) > self._capacity:
            self._searches.pop()

    def add_blocks(self, blocks: list[Candidates], n_pairs: int) -> None:
        size, keys = sum(len(block.impostors) for block in blocks), [np.zeros(0, dtype=np.int64)]
        for block in blocks:
            count = int(n_pairs * len(block.impostors) / size)
            chosen = np.sort(self._rng.integers(len(block.impostors), size=count))
            rows = np.searchsorted(block.indptr, chosen, side="right") - 1
            keys.append(self.keys(block.anchors[rows], block.impostors[chosen]))
        self.add(np.unique(np.concatenate(keys)))

    def draw(self, anchors: IndexArray, per_anchor: int) -> None:
        """Remember pairs of every anchor with about so many examples drawn at random."""
        if self._source is None:
            return
        labels = self._source.labels
        first = np.repeat(self._source.anchors(anchors), per_anchor)
        second = self._rng.integers(len(labels), size=len(first)).astype(np.int32)
        first_point, second_point = self._push.point_pairs(first, second)
        valid = (labels[first] != labels[second]) & (self._groups[first_point] == self._groups[second_point])
        self.add(np.unique(self.keys(first_point[valid], second_point[valid])))

    def extend(self, candidates: Candidates) -> Candidates:
        """Add the remembered pairs that are not among the candidates, as rows of their own."""
        if self._source is None or not self._searches:
            return candidates
        n, size = len(self._source.labels), len(self._groups)
        keys = np.unique(np.concatenate(self._searches))
        keys = keys[~np.isin(keys, self.keys(candidates.anchors[candidates.rows], candidates.impostors))]
        anchors, counts = np.unique(keys // size, return_counts=True)
        first, second = (keys // size % n).astype(np.int32), (keys % n).astype(np.int32)
        remembered = Candidates(
            anchors.astype(np.int32),
            self._push.target_points(self._source.targets[anchors % n]),
            np.concatenate([[0], np.cumsum(counts)]),
            (keys % size).astype(np.int32),
            self._source.pair_weights(first, second),
        )
        return Candidates.concatenate([candidates, remembered])
