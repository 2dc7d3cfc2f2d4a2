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
from sdpmetric.lmnn.margins import within_limits

SearchMethod = Literal["auto", "brute", "ball_tree"]
Factors = NDArray[np.floating]
# Anchors and points of one tile of the distance matrix, which stays in the cache of its core in single precision.
TILE_ANCHORS, TILE_POINTS = 256, 512
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
    max_blocks: int = 32  # of anchors: each yields a row for every anchor
    rows_at_once: int = 1 << 14  # of points that are centered
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
class Tiling:
    """Anchors and points, both sorted by class: the distance matrix is searched by tiles.

    With factors ``[z, low, 1]`` of points, (m, r + 2) and (n, r + 2), `low` a lower bound of ``|z|^2``, the products
    ``[-2 z_i, 1, low_i] . [z_l, low_l, 1]`` are never above the squared distances.
    """

    anchors: Factors
    points: Factors
    anchor_limits: Factors  # (m,)
    point_limits: Factors  # (n,): -infinity, or those of the anchors if each pair is measured once for both
    classes: LongArray  # (m, 2): where the points of the class of an anchor begin and end
    is_symmetric: bool  # the points are the anchors


@dataclass(frozen=True, eq=False)
class AnchorBlock:
    """A block of anchors whose tiles are to be scanned."""

    tops: Sequence[LongArray]  # the first rows of tiles, in parts of about equal work
    n_scanned: Sequence[int]  # tiles of each part that have been scanned
    max_pairs: int  # that a part may collect at once


def scan(tiling: Tiling, block: AnchorBlock) -> tuple[IndexArray, AnchorBlock | None]:
    """Find the pairs of a block within their limits, (p, 2), as many as memory has room for, and what is left of it."""
    scans: list[tuple[IndexArray, int]] = [(np.zeros((0, 2), dtype=np.int32), 0)] * len(block.tops)

    def do(t: int) -> None:
        scans[t] = _scan_part(tiling, block.tops[t], block.n_scanned[t], block.max_pairs)

    with threads.one_pool():
        threads.run(do, len(scans))
    pairs, n_scanned = zip(*scans, strict=True)
    n_tiles = -(-len(tiling.points) // TILE_POINTS)
    is_done = all(n == len(tops) * n_tiles for n, tops in zip(n_scanned, block.tops, strict=True))
    return np.concatenate(pairs), None if is_done else replace(block, n_scanned=n_scanned)


def _scan_part(tiling: Tiling, tops: LongArray, tile: int, max_pairs: int) -> tuple[IndexArray, int]:
    """Scan tiles with the first rows `tops`, from a tile on, until `max_pairs` may not do; pairs and the next tile."""
    n, n_tiles, symmetric = len(tiling.points), -(-len(tiling.points) // TILE_POINTS), tiling.is_symmetric
    pairs, used, previous = np.empty((max_pairs, 2), dtype=np.int32), 0, -1
    while tile < len(tops) * n_tiles and used + 2 * TILE_ANCHORS * min(n, TILE_POINTS) <= max_pairs:
        top, first = int(tops[tile // n_tiles]), tile % n_tiles * TILE_POINTS
        tile += 1
        if top != previous:
            previous, factors, classes = top, tiling.anchors[top : top + TILE_ANCHORS], tiling.classes
            factors = np.concatenate([-2.0 * factors[:, :-2], factors[:, :-3:-1]], axis=1, dtype=factors.dtype)
            (class_begin, class_end), (last_begin, _) = classes[top].tolist(), classes[top + len(factors) - 1].tolist()
        last = min(first + TILE_POINTS, n)
        if last <= class_end and (symmetric or (first >= class_begin == last_begin)):
            continue  # all pairs are of one class, or measured for the other of the two
        D = factors @ tiling.points[first:last].T
        limits = tiling.anchor_limits, tiling.point_limits
        used = within_limits(D, top, first, *limits, tiling.classes, symmetric, pairs, used)
    return pairs[:used], tile


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

    def by_tiles(self) -> Iterator[SearchRows]:
        """Search by blocks of anchors, each by tiles of the distance matrix."""
        tiling, anchor_order, columns = self._tiling()
        for pairs, unscanned in mapped(scan, tiling, list(self._blocks(tiling))):
            while True:
                row, column = pairs.T
                yield self._in_rows(self.anchors, anchor_order[row], columns[column])
                if unscanned is None:
                    break
                pairs, unscanned = scan(tiling, unscanned)

    def _blocks(self, tiling: Tiling) -> Iterator[AnchorBlock]:
        """Yield blocks of anchors of about equal work, in parts for threads."""
        n_points, tops = len(tiling.points), np.arange(0, len(tiling.anchors), TILE_ANCHORS)
        n_parts = min(threads.part_count(len(self.anchors) * n_points), len(tops))
        work = np.concatenate([[0], np.cumsum(n_points - tiling.classes[tops, 1] * tiling.is_symmetric)])
        n_products = int(work[-1] * TILE_ANCHORS * tiling.points.shape[1])
        n_blocks = min(-(-n_products // OPTIONS.work_at_once), OPTIONS.max_blocks) or 1
        cuts = np.searchsorted(work, np.linspace(0, work[-1], n_blocks * n_parts + 1))
        cuts[[0, -1]] = 0, len(tops)
        runs = [tops[first:last] for first, last in pairwise(cuts)]
        max_pairs = 2 * TILE_ANCHORS * min(n_points, TILE_POINTS) + OPTIONS.pairs_at_once // n_parts
        for first in range(0, len(runs), n_parts):
            yield AnchorBlock(runs[first : first + n_parts], [0] * n_parts, max_pairs)

    def _tiling(self) -> tuple[Tiling, IndexArray, IndexArray]:
        """Return bounds below squared distances, and the positions of anchors and points in the order of the tiles.

        Single precision serves if the allowance for its rounding is small beside the limits.
        """
        Z, labels, anchors, is_symmetric = self.Z, self.labels, self.anchors, np.array_equal(self.anchors, self.columns)
        mean, starts, r = Z.mean(axis=0), range(0, len(Z), OPTIONS.rows_at_once), Z.shape[1]
        chunks = (Z[start : start + OPTIONS.rows_at_once] - mean for start in starts)
        norms = np.concatenate([np.einsum("ij,ij->i", chunk, chunk, dtype=np.float64) for chunk in chunks])
        allowance = 2.0 * (r + 4) * float(np.finfo(np.float32).eps)
        single = allowance * float(norms.max()) < 0.25 * float(np.median(self.limits)) and float(norms.max()) < 1e30
        if not single:
            allowance = 2.0 * (r + 4) * float(np.finfo(np.float64).eps)
        dtype: type[np.floating] = np.float32 if single else np.float64

        def factors(rows: IndexArray) -> Factors:
            made = np.empty((len(rows), r + 2), dtype=dtype)
            for start in range(0, len(rows), OPTIONS.rows_at_once):
                chunk = slice(start, start + OPTIONS.rows_at_once)
                made[chunk, :r] = Z[rows[chunk]] - mean
            made[:, r], made[:, r + 1] = (1 - allowance) * norms[rows], 1.0
            return made

        order = np.argsort(labels[anchors], kind="stable").astype(np.int32)
        rows = anchors[order]
        columns = rows if is_symmetric else self.columns[np.argsort(labels[self.columns], kind="stable")]
        limits = (self.limits[order] * (1 + 1e-12)).astype(dtype)
        np.nextafter(limits, dtype(np.inf), out=limits)
        points = factors(columns)
        tiling = Tiling(
            anchors=points if is_symmetric else factors(rows),
            points=points,
            anchor_limits=fixed(limits),
            point_limits=fixed(limits if is_symmetric else np.full(len(columns), -np.inf, dtype=dtype)),
            classes=fixed(
                np.stack([np.searchsorted(labels[columns], labels[rows], s) for s in ("left", "right")], axis=1)
            ),
            is_symmetric=is_symmetric,
        )
        return tiling, order, columns

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
        """Return pairs of an anchor's position and an impostor in compressed rows, only pairs within a group."""
        if self.groups.max(initial=0) > 0:
            same_group = self.groups[anchors[rows]] == self.groups[impostors]
            rows, impostors = rows[same_group], impostors[same_group]
        # From columns to rows: impostors come in increasing order.
        entries = np.ones(len(rows), np.int8), (rows, impostors)
        matrix = sp.csc_array(entries, shape=(len(anchors), len(self.groups))).tocsr()
        return anchors, matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32, copy=False)
