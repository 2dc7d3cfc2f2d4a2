"""Triplets of an anchor, a target neighbor and an impostor: listed one by one, or packed in rows of candidates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray, IndexArray


@dataclass(frozen=True, eq=False, repr=False)
class Triplets:
    """A list of (anchor, target neighbor, impostor) triplets, as three index arrays of one length.

    Attributes
    ----------
    anchors, targets, impostors : (t,) int32 arrays
        Row indices into the data.
    """

    anchors: IndexArray
    targets: IndexArray
    impostors: IndexArray

    def __len__(self) -> int:
        return len(self.anchors)

    def __getitem__(self, rows: NDArray[np.bool_] | NDArray[np.integer]) -> Triplets:
        return Triplets(self.anchors[rows], self.targets[rows], self.impostors[rows])

    @classmethod
    def from_array(cls, array: NDArray[np.integer]) -> Triplets:
        """Read a (t, 3) integer array with the columns anchor, target and impostor."""
        columns = np.asarray(array).reshape(-1, 3).astype(np.int32)
        return cls(*(np.ascontiguousarray(columns[:, c]) for c in range(3)))

    @classmethod
    def join(cls, *lists: Triplets) -> Triplets:
        return cls.from_array(
            np.concatenate([np.zeros((0, 3), np.int32), *(triplets.to_array() for triplets in lists)])
        )

    def to_array(self) -> IndexArray:
        """Return the (t, 3) array with the columns anchor, target and impostor."""
        return np.stack([self.anchors, self.targets, self.impostors], axis=1)

    def keys(self, n: int) -> NDArray[np.void] | NDArray[np.int64]:
        """Return one sortable key per triplet, distinct for distinct triplets of row indices below n."""
        if n < 2_000_000:  # n ** 3 fits in 63 bits
            return (self.anchors.astype(np.int64) * n + self.targets) * n + self.impostors
        fields = np.ascontiguousarray(self.to_array())
        return fields.view([("anchor", np.int32), ("target", np.int32), ("impostor", np.int32)]).ravel()


@dataclass(frozen=True, eq=False, repr=False)
class Candidates:
    """Triplets in compressed rows: one impostor pair serves every target neighbor of its row."""

    anchors: IndexArray  # (m,) int32: the anchor of each row
    targets: IndexArray  # (m, K) int32: target neighbors of each row, padded at the end with -1
    indptr: NDArray[np.int64]  # (m + 1,) int64: row r owns ``impostors[indptr[r]:indptr[r + 1]]``
    impostors: IndexArray  # (nnz,) int32: possible impostors
    weights: FloatArray | None = None  # (nnz,) float64 or None: weight of the triplets of each pair

    @property
    def rows(self) -> NDArray[np.int64]:
        """Row of each candidate pair, (nnz,)."""
        return np.repeat(np.arange(len(self.anchors)), np.diff(self.indptr))

    @property
    def first_triplets(self) -> Triplets:
        """The triplet of each candidate pair with the first target neighbor of its row."""
        rows = self.rows
        return Triplets(self.anchors[rows], self.targets[rows, 0], self.impostors)

    def has_rows_of(self, candidates: Candidates) -> bool:
        """Return whether the rows of both are those of the same anchors and targets, as they often are in a search."""
        return np.array_equal(self.anchors, candidates.anchors) and np.array_equal(self.targets, candidates.targets)

    def select(self, keep: NDArray[np.bool_]) -> Candidates:
        """Keep the candidate pairs that `keep`, (nnz,), selects; rows stay."""
        counts = np.concatenate([[0], np.cumsum(keep)])
        weights = None if self.weights is None else self.weights[keep]
        return Candidates(self.anchors, self.targets, counts[self.indptr], self.impostors[keep], weights)

    def triplets(self, values: FloatArray) -> tuple[Triplets, FloatArray]:
        """List the triplets with a nonzero entry in `values`, (nnz, K), and those entries."""
        pair, slot = np.nonzero(values)
        row = self.rows[pair]
        triplets = Triplets(self.anchors[row], self.targets[row, slot], self.impostors[pair])
        return triplets, values[pair, slot]

    @classmethod
    def none(cls, n_targets: int = 1) -> Candidates:
        empty = np.zeros(0, dtype=np.int32)
        return cls(empty, np.zeros((0, n_targets), np.int32), np.zeros(1, np.int64), empty)

    @classmethod
    def concatenate(cls, blocks: list[Candidates]) -> Candidates:
        """Stack the rows of several candidate sets; those that have the same rows are put together row by row."""
        blocks = [block for block in blocks if len(block.anchors)] or blocks[:1]
        first, impostors = blocks[0], np.concatenate([block.impostors for block in blocks])
        weights_by_block = [block.weights for block in blocks if block.weights is not None]
        weights = np.concatenate(weights_by_block) if weights_by_block else None
        if len(blocks) > 1 and all(block.anchors is first.anchors for block in blocks):
            order = np.argsort(np.concatenate([block.rows for block in blocks]), kind="stable")
            indptr = sum((block.indptr for block in blocks), np.zeros_like(first.indptr))
            weights = None if weights is None else weights[order]
            return cls(first.anchors, first.targets, indptr, impostors[order], weights)
        counts = np.concatenate([[0], *(np.diff(block.indptr) for block in blocks)])
        anchors = np.concatenate([block.anchors for block in blocks])
        targets = np.concatenate([block.targets for block in blocks])
        return cls(anchors, targets, np.cumsum(counts), impostors, weights)
