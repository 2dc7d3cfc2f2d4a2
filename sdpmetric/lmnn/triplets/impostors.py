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
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.neighbors import BallTree

from sdpmetric.arrays import FloatArray, IndexArray, LongArray
from sdpmetric.core.triplets import Candidates
from sdpmetric.engine import threads
from sdpmetric.engine.interface import FULL_SHARE, Share, in_share
from sdpmetric.lmnn.loops import TILE_COLUMNS, TILE_ROWS, scan_tiles

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
    work_at_once: int = 1 << 34  # multiplications between two looks at the clock
    max_slices: int = 128  # of the work: each yields a row for every anchor
    fewest_anchors: int = 1 << 5  # that ball trees are asked for at once, and the most
    anchors_at_once: int = 1 << 12


OPTIONS = SearchOptions()
_SHARE: ContextVar[Share] = ContextVar("share", default=FULL_SHARE)


class TooManyCandidates(Exception):
    """A search has met more candidates than it may collect; `blocks` are those it has."""

    def __init__(self, blocks: list[Candidates]) -> None:
        super().__init__("more candidate triplets than the solver may hold at once")
        self.blocks = blocks


@contextmanager
def searching(share: Share) -> Iterator[None]:
    """Let searches list only a share of the pairs of their anchors; not across a ``yield``.

    Searches with the same anchors list every pair in exactly one of the shares that make up the whole.
    """
    token = _SHARE.set(share)
    try:
        yield
    finally:
        _SHARE.reset(token)


def searched_share() -> Share:
    return _SHARE.get()


def capacity(n_target_pairs: int) -> int:
    """Largest number of candidate pairs in memory for so many target pairs."""
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


def search(
    Z: NDArray[np.floating],
    labels: IndexArray,
    groups: IndexArray,
    anchors: IndexArray,
    limits: FloatArray,
    columns: IndexArray,
    method: SearchMethod,
) -> Iterator[SearchRows]:
    """Yield, by blocks, the points of `columns` within the limit of each anchor, of its group and of another label."""
    if method == "auto":
        few_dimensions = 0 < Z.shape[1] <= OPTIONS.tree_dimension and len(Z) >= OPTIONS.tree_rows
        method = "ball_tree" if few_dimensions else "brute"
    # The zero metric embeds into no dimension at all, which trees refuse.
    by_trees = method == "ball_tree" and Z.shape[1] > 0
    share = searched_share()
    if share != FULL_SHARE and (by_trees or not _measures_once(Z, anchors, columns)):
        mine = in_share(len(anchors), share)
        anchors, limits = anchors[mine], limits[mine]
    by_method = search_trees if by_trees else search_tiles
    yield from by_method(Z, labels, groups, anchors, limits, columns)


@dataclass(frozen=True, eq=False)
class Tiling:
    """Lower bounds of squared distances, ``row_factors @ tiles``: anchors by points, both sorted by class.

    Single precision serves if the allowance for its rounding is small beside the limits.
    """

    anchor_order: IndexArray  # positions among the anchors
    columns: IndexArray  # points
    row_factors: NDArray[np.floating]  # (m, r + 2)
    tiles: NDArray[np.floating]  # (number of tiles, r + 2, width)
    row_limits: NDArray[np.floating]
    column_limits: NDArray[np.floating]
    class_bounds: LongArray  # (m, 2): the columns of each row's own class
    symmetric: bool  # every point is an anchor: each pair is measured once for both

    @classmethod
    def of(
        cls, Z: NDArray[np.floating], labels: IndexArray, anchors: IndexArray, limits: FloatArray, columns: IndexArray
    ) -> Tiling:
        Z = Z - Z.mean(axis=0)
        norms = np.einsum("ij,ij->i", Z, Z, dtype=np.float64)
        allowance = 2.0 * (Z.shape[1] + 4) * float(np.finfo(np.float32).eps)
        single = allowance * float(norms.max()) < 0.25 * float(np.median(limits)) and float(norms.max()) < 1e30
        if not single:
            allowance = 2.0 * (Z.shape[1] + 4) * float(np.finfo(np.float64).eps)
        dtype: type[np.floating] = np.float32 if single else np.float64
        low = (1 - allowance) * norms
        symmetric = _measures_once(Z, anchors, columns)
        anchor_order = np.argsort(labels[anchors], kind="stable").astype(np.int32)
        columns, rows = columns[np.argsort(labels[columns], kind="stable")], anchors[anchor_order]
        # [-2 z_i, 1, low_i] . [z_l, low_l, 1] is never above the squared distance.
        column_factors = np.concatenate([Z, low[:, None], np.ones((len(Z), 1))], axis=1)[columns].astype(dtype)
        row_factors = np.concatenate([-2.0 * Z[rows], np.ones((len(rows), 1)), low[rows, None]], axis=1).astype(dtype)
        row_limits = (limits[anchor_order] * (1 + 1e-12)).astype(dtype)
        np.nextafter(row_limits, dtype(np.inf), out=row_limits)
        column_limits = row_limits if symmetric else np.full(len(columns), -np.inf, dtype=dtype)
        width = -(-len(columns) // -(-len(columns) // TILE_COLUMNS))  # equal tiles
        tiles = np.zeros((-(-len(columns) // width), column_factors.shape[1], width), dtype=dtype)
        for t, tile in enumerate(tiles):
            block = column_factors[t * width : (t + 1) * width]
            tile[:, : len(block)] = block.T
        bounds = [np.searchsorted(labels[columns], labels[rows], side) for side in ("left", "right")]
        class_bounds = np.stack(bounds, axis=1)
        return cls(anchor_order, columns, row_factors, tiles, row_limits, column_limits, class_bounds, symmetric)


def search_tiles(
    Z: NDArray[np.floating],
    labels: IndexArray,
    groups: IndexArray,
    anchors: IndexArray,
    limits: FloatArray,
    columns: IndexArray,
) -> Iterator[SearchRows]:
    """Search by tiles of the distance matrix, each made and scanned while it is in a core's cache."""
    tiling = Tiling.of(Z, labels, anchors, limits, columns)
    tiles, n_columns, symmetric = tiling.tiles, len(tiling.columns), tiling.symmetric
    tops = np.arange(0, len(anchors), TILE_ROWS)
    tops = tops[in_share(len(tops), searched_share() if symmetric else FULL_SHARE)]
    if not len(tops):
        return
    # Slices of about equal work, `n_threads` at a time.
    n_threads = min(threads.part_count(len(anchors) * n_columns), len(tops))
    work = np.concatenate([[0], np.cumsum(n_columns - (tiling.class_bounds[tops, 1] if symmetric else 0 * tops))])
    n_products = int(work[-1] * TILE_ROWS * tiles.shape[1])
    n_slices = min(-(-n_products // OPTIONS.work_at_once), OPTIONS.max_slices) or 1
    cuts = np.searchsorted(work, np.linspace(0, work[-1], n_slices * n_threads + 1))
    cuts[[0, -1]] = 0, len(tops)
    pairs_of_a_tile = 2 * TILE_ROWS * tiles.shape[2]
    all_pairs = pairs_of_a_tile * int(np.diff(cuts).max()) * len(tiles)
    size = min(all_pairs, pairs_of_a_tile + OPTIONS.pairs_at_once // n_threads)
    pairs = np.empty((n_threads, size, 2), dtype=np.int32)
    matrix = tiling.row_factors, tiles, tiling.row_limits, tiling.column_limits, tiling.class_bounds, symmetric
    for first in range(0, len(cuts) - 1, n_threads):
        bounds, states = cuts[first : first + n_threads + 1], np.zeros((n_threads, 2), dtype=np.int64)

        def scan(t: int, bounds: LongArray = bounds, states: LongArray = states) -> None:
            scan_tiles(*matrix, tops[bounds[t] : bounds[t + 1]], states[t], pairs[t])

        n_tasks = np.diff(bounds) * len(tiles)
        while (states[:, 0] < n_tasks).any():
            with threads.one_pool():
                threads.run(scan, n_threads)
            row, column = np.concatenate([pairs[t, :used] for t, used in enumerate(states[:, 1])]).T
            yield _in_rows(anchors, tiling.anchor_order[row], tiling.columns[column], groups)


def _measures_once(Z: NDArray[np.floating], anchors: IndexArray, columns: IndexArray) -> bool:
    return len(anchors) == len(columns) == len(Z)


def _in_rows(anchors: IndexArray, rows: IndexArray, impostors: IndexArray, groups: IndexArray) -> SearchRows:
    """Pairs of an anchor's position and an impostor in compressed rows, without those of different groups."""
    if groups.max(initial=0) > 0:
        same_group = groups[anchors[rows]] == groups[impostors]
        rows, impostors = rows[same_group], impostors[same_group]
    # From columns to rows: impostors come in increasing order.
    entries = np.ones(len(rows), np.int8), (rows, impostors)
    matrix = sp.csc_array(entries, shape=(len(anchors), len(groups))).tocsr()
    return anchors, matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32, copy=False)


def search_trees(
    Z: NDArray[np.floating],
    labels: IndexArray,
    groups: IndexArray,
    anchors: IndexArray,
    limits: FloatArray,
    columns: IndexArray,
) -> Iterator[SearchRows]:
    """Search by one ball tree per class, asked by the anchors of every other class."""
    classes = [(label, columns[labels[columns] == label]) for label in np.unique(labels[columns])]
    trees = [(label, members, BallTree(Z[members])) for label, members in classes]
    eps = float(np.finfo(np.float64).eps)
    allowance = 4.0 * (Z.shape[1] + 4) * eps * float(np.sqrt(np.einsum("ij,ij->i", Z, Z).max(initial=0.0)))
    first, size = 0, OPTIONS.fewest_anchors
    while first < len(anchors):
        block = slice(first, first + size)
        block_anchors, radii = anchors[block], np.sqrt(limits[block]) * (1 + 1e-12) + allowance
        rows, impostors = [np.zeros(0, dtype=np.int32)], [np.zeros(0, dtype=np.int32)]
        for label, members, tree in trees:
            queries = np.flatnonzero(labels[block_anchors] != label).astype(np.int32)
            if len(queries):
                hits = tree.query_radius(Z[block_anchors[queries]], r=radii[queries])
                rows.append(np.repeat(queries, [len(hit) for hit in hits]))
                impostors.append(members[np.concatenate(hits)])
        row = np.concatenate(rows)
        # Next, as many as give a bounded number of pairs, by these.
        first += size
        size = size * OPTIONS.pairs_at_once // max(len(row), 1) // 2
        size = min(max(size, OPTIONS.fewest_anchors), OPTIONS.anchors_at_once)
        yield _in_rows(block_anchors, row, np.concatenate(impostors), groups)
