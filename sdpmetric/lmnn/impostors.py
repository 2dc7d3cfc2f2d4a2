"""The exact search for impostors: every pair of differently labeled points within the anchor's limit.

By tiles, a matrix product gives the squared distances ``D(i, l) = n_i + n_l - 2 z_i . z_l``, with ``n_i = |z_i|^2`` and
Z centered. No pair within its limit is missed: with u the unit roundoff of the product's precision, the computed entry
exceeds the exact distance by at most ``c u (n_i + n_l)``, where

* the product of r + 2 terms, whose absolute values add up to at most ``2 (n_i + n_l)``, adds ``2 (r + 2)`` to c,
* storing z and n in that precision adds 2 and 1,
* centering Z adds 4 and summing n adds r + 2, both in double precision, where c is ``3 r + 13`` in all.

So ``n_i`` and ``n_l`` are multiplied by ``1 - 4 (r + 4) u`` first, which makes every entry a lower bound of the
distance. Trees compare distances to centers of balls, which err by ``(r + 4) u`` of the longest point, for two points
each.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.neighbors import BallTree

from sdpmetric.arrays import FloatArray, IndexArray, LongArray
from sdpmetric.core.triplets import Candidates
from sdpmetric.engine import threads
from sdpmetric.engine.lazy import fixed
from sdpmetric.engine.threads import mapped
from sdpmetric.lmnn.margins import TILE_COLUMNS, TILE_ROWS, Tiling, scan_tiles

SearchMethod = Literal["auto", "brute", "ball_tree"]
# Anchors' row numbers, where each one's impostors begin and end, and the impostors.
SearchRows = tuple[IndexArray, LongArray, IndexArray]


@dataclass(frozen=True)
class SearchOptions:
    """Memory and methods of a search; its result does not depend on them."""

    pairs_per_target_pair: int = 32  # candidate pairs in memory for each target pair of the anchors,
    fewest_pairs: int = 1 << 20  # but never fewer than these
    tree_dimension: int = 4  # up to this dimension,
    tree_rows: int = 10_000  # from so many rows, ball trees are faster (examples/benchmarks/impostor_search.py)
    pairs_at_once: int = 1 << 21  # pairs that are collected before they are handed on
    work_at_once: int = 1 << 34  # multiplications of one block of anchors
    max_blocks: int = 128  # of anchors: each yields a row for every anchor
    fewest_anchors: int = 1 << 5  # that ball trees are asked for at once, and the most
    anchors_at_once: int = 1 << 12


OPTIONS = SearchOptions()


class TooManyCandidates(Exception):
    """A search has met more candidates than it may collect; `blocks` are those it has."""

    def __init__(self, blocks: list[Candidates]) -> None:
        super().__init__("more candidate triplets than the solver may hold at once")
        self.blocks = blocks


def capacity(n_target_pairs: int) -> int:
    """Return the largest number of candidate pairs in memory for so many target pairs."""
    return max(OPTIONS.fewest_pairs, OPTIONS.pairs_per_target_pair * n_target_pairs)


def collect(blocks: Iterable[Candidates], max_pairs: float = math.inf) -> list[Candidates]:
    collected: list[Candidates] = []
    n_pairs = 0
    for block in blocks:
        collected.append(block)
        n_pairs += len(block.impostors)
        if n_pairs > max_pairs:
            raise TooManyCandidates(collected)
    return collected


@dataclass(frozen=True, eq=False)
class AnchorBlock:
    """A block of anchors whose tiles are to be scanned."""

    tops: Sequence[LongArray]  # the first rows of tiles, in parts of about equal work
    n_scanned: LongArray  # tiles of each part that have been scanned
    max_pairs: int  # pairs that a part may collect at once


def scan(tiling: Tiling, block: AnchorBlock) -> tuple[IndexArray, AnchorBlock | None]:
    """Find the pairs of a block within their limits, (p, 2), as many as memory has room for, and what is left of it."""
    states = np.stack([block.n_scanned, np.zeros_like(block.n_scanned)], axis=1)
    pairs = np.empty((len(states), block.max_pairs, 2), dtype=np.int32)
    with threads.one_pool():
        threads.run(lambda t: scan_tiles(tiling, block.tops[t], states[t], pairs[t]), len(states))
    n_tiles, rows = len(tiling[1]), np.concatenate([pairs[t, :used] for t, used in enumerate(states[:, 1])])
    is_done = all(n == len(tops) * n_tiles for n, tops in zip(states[:, 0], block.tops, strict=True))
    return rows, None if is_done else replace(block, n_scanned=states[:, 0])


@dataclass(frozen=True, eq=False)
class Search:
    """The pairs of an anchor and a point of its group and of another label within the anchor's limit, by blocks."""

    Z: NDArray[np.floating]  # (n, r)
    labels: IndexArray  # (n,), as groups
    groups: IndexArray
    anchors: IndexArray
    limits: FloatArray  # of each anchor
    columns: IndexArray  # the points that are searched

    def blocks(self, method: SearchMethod) -> Iterator[SearchRows]:
        if method == "auto":
            few_dimensions = 0 < self.Z.shape[1] <= OPTIONS.tree_dimension and len(self.Z) >= OPTIONS.tree_rows
            method = "ball_tree" if few_dimensions else "brute"
        # The zero metric embeds into no dimension at all, which trees refuse.
        return self.by_trees() if method == "ball_tree" and self.Z.shape[1] > 0 else self.by_tiles()

    @property
    def measures_once(self) -> bool:
        """Whether every point is an anchor: each pair is measured once for both."""
        return len(self.anchors) == len(self.columns) == len(self.Z)

    def by_tiles(self) -> Iterator[SearchRows]:
        """Search by blocks of anchors, each by tiles of the distance matrix."""
        tiling, anchor_order, columns = self._tiling()
        for rows, unscanned in mapped(scan, tiling, list(self._blocks(tiling))):
            while True:
                row, column = rows.T
                yield self._in_rows(self.anchors, anchor_order[row], columns[column])
                if unscanned is None:
                    break
                rows, unscanned = scan(tiling, unscanned)

    def _blocks(self, tiling: Tiling) -> Iterator[AnchorBlock]:
        """Yield blocks of anchors of about equal work, in parts for threads."""
        _, tiles, _, _, class_bounds, symmetric = tiling
        n_columns, tops = len(self.columns), np.arange(0, len(self.anchors), TILE_ROWS)
        n_parts = min(threads.part_count(len(self.anchors) * n_columns), len(tops))
        work = np.concatenate([[0], np.cumsum(n_columns - (class_bounds[tops, 1] if symmetric else 0 * tops))])
        n_products = int(work[-1] * TILE_ROWS * tiles.shape[1])
        n_blocks = min(-(-n_products // OPTIONS.work_at_once), OPTIONS.max_blocks) or 1
        cuts = np.searchsorted(work, np.linspace(0, work[-1], n_blocks * n_parts + 1))
        cuts[[0, -1]] = 0, len(tops)
        pairs_of_a_tile = 2 * TILE_ROWS * tiles.shape[2]
        all_pairs = pairs_of_a_tile * int(np.diff(cuts).max()) * len(tiles)
        max_pairs = min(all_pairs, pairs_of_a_tile + OPTIONS.pairs_at_once // n_parts)
        runs = [tops[first:last] for first, last in pairwise(cuts)]
        for first in range(0, len(runs), n_parts):
            yield AnchorBlock(runs[first : first + n_parts], np.zeros(n_parts, dtype=np.int64), max_pairs)

    def _tiling(self) -> tuple[Tiling, IndexArray, IndexArray]:
        """Lower bounds of squared distances, and the positions of anchors and the points in the order of the tiles.

        Single precision serves if the allowance for its rounding is small beside the limits.
        """
        Z, labels, anchors = self.Z - self.Z.mean(axis=0), self.labels, self.anchors
        norms = np.einsum("ij,ij->i", Z, Z, dtype=np.float64)
        allowance = 2.0 * (Z.shape[1] + 4) * float(np.finfo(np.float32).eps)
        single = allowance * float(norms.max()) < 0.25 * float(np.median(self.limits)) and float(norms.max()) < 1e30
        if not single:
            allowance = 2.0 * (Z.shape[1] + 4) * float(np.finfo(np.float64).eps)
        dtype: type[np.floating] = np.float32 if single else np.float64
        low = (1 - allowance) * norms
        anchor_order = np.argsort(labels[anchors], kind="stable").astype(np.int32)
        columns = self.columns[np.argsort(labels[self.columns], kind="stable")]
        rows, n_columns = anchors[anchor_order], len(columns)
        # [-2 z_i, 1, low_i] . [z_l, low_l, 1] is never above the squared distance.
        column_factors = np.concatenate([Z, low[:, None], np.ones((len(Z), 1))], axis=1)[columns].astype(dtype)
        row_factors = np.concatenate([-2.0 * Z[rows], np.ones((len(rows), 1)), low[rows, None]], axis=1).astype(dtype)
        row_limits = (self.limits[anchor_order] * (1 + 1e-12)).astype(dtype)
        np.nextafter(row_limits, dtype(np.inf), out=row_limits)
        column_limits = row_limits if self.measures_once else np.full(n_columns, -np.inf, dtype=dtype)
        width = -(-n_columns // -(-n_columns // TILE_COLUMNS))  # equal tiles
        tiles = np.zeros((-(-n_columns // width), column_factors.shape[1], width), dtype=dtype)
        for t, tile in enumerate(tiles):
            block = column_factors[t * width : (t + 1) * width]
            tile[:, : len(block)] = block.T
        bounds = [np.searchsorted(labels[columns], labels[rows], side) for side in ("left", "right")]
        class_bounds = np.stack(bounds, axis=1)
        limits = fixed(row_limits), fixed(column_limits)
        tiling = fixed(row_factors), fixed(tiles), *limits, fixed(class_bounds), self.measures_once
        return tiling, anchor_order, columns

    def by_trees(self) -> Iterator[SearchRows]:
        """Search by one ball tree per class, asked by the anchors of every other class."""
        Z, labels, columns = self.Z, self.labels, self.columns
        classes = [(label, columns[labels[columns] == label]) for label in np.unique(labels[columns])]
        trees = [(label, members, BallTree(Z[members])) for label, members in classes]
        eps = float(np.finfo(np.float64).eps)
        allowance = 4.0 * (Z.shape[1] + 4) * eps * float(np.sqrt(np.einsum("ij,ij->i", Z, Z).max(initial=0.0)))
        first, size = 0, OPTIONS.fewest_anchors
        while first < len(self.anchors):
            block = slice(first, first + size)
            anchors, radii = self.anchors[block], np.sqrt(self.limits[block]) * (1 + 1e-12) + allowance
            rows, impostors = [np.zeros(0, dtype=np.int32)], [np.zeros(0, dtype=np.int32)]
            for label, members, tree in trees:
                queries = np.flatnonzero(labels[anchors] != label).astype(np.int32)
                if len(queries):
                    hits = tree.query_radius(Z[anchors[queries]], r=radii[queries])
                    rows.append(np.repeat(queries, [len(hit) for hit in hits]))
                    impostors.append(members[np.concatenate(hits)])
            row = np.concatenate(rows)
            # The next block has as many anchors as bound the number of pairs, at the rate of this one.
            first += size
            size = size * OPTIONS.pairs_at_once // max(len(row), 1) // 2
            size = min(max(size, OPTIONS.fewest_anchors), OPTIONS.anchors_at_once)
            yield self._in_rows(anchors, row, np.concatenate(impostors))

    def _in_rows(self, anchors: IndexArray, rows: IndexArray, impostors: IndexArray) -> SearchRows:
        """Pairs of an anchor's position and an impostor in compressed rows, without those of different groups."""
        if self.groups.max(initial=0) > 0:
            same_group = self.groups[anchors[rows]] == self.groups[impostors]
            rows, impostors = rows[same_group], impostors[same_group]
        # From columns to rows: impostors come in increasing order.
        entries = np.ones(len(rows), np.int8), (rows, impostors)
        matrix = sp.csc_array(entries, shape=(len(anchors), len(self.groups))).tocsr()
        return anchors, matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32, copy=False)
