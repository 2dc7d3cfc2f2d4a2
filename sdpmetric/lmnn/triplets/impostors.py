"""The exact search for impostors: every pair of differently labeled points within the anchor's limit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.neighbors import BallTree

from sdpmetric.arrays import FloatArray, IndexArray
from sdpmetric.core.triplets import Candidates
from sdpmetric.engine import threads
from sdpmetric.engine.interface import WHOLE, Part, dealt
from sdpmetric.lmnn.loops import TILE_COLUMNS, TILE_ROWS, scan_tiles

# Largest number of candidate pairs in memory: for each target pair of the anchors, and in all; the larger one counts.
CANDIDATES_PER_TARGET_PAIR, FEWEST_CANDIDATES = 32, 1 << 20

_PART: ContextVar[Part] = ContextVar("part", default=WHOLE)


class TooManyCandidates(Exception):
    """A search has met more candidates than it may list."""

    def __init__(self, found: list[Candidates]) -> None:
        super().__init__("more candidate triplets than the solver may hold at once")
        self.found = found


@contextmanager
def only_part(part: Part) -> Iterator[None]:
    """Let searches list only a part of the pairs of their anchors; not across a ``yield``.

    Searches with the same anchors list every pair in exactly one of the parts that make up the whole.
    """
    token = _PART.set(part)
    try:
        yield
    finally:
        _PART.reset(token)


def part_of_pairs() -> Part:
    """The part of the pairs that searches list."""
    return _PART.get()


def capacity(n_target_pairs: int) -> int:
    """Largest number of candidate pairs in memory for so many target pairs."""
    return max(FEWEST_CANDIDATES, CANDIDATES_PER_TARGET_PAIR * n_target_pairs)


def listed(blocks: Iterable[Candidates], most: float = math.inf) -> list[Candidates]:
    """The blocks of a search."""
    found: list[Candidates] = []
    count = 0
    for block in blocks:
        found.append(block)
        count += len(block.impostors)
        if count > most:
            raise TooManyCandidates(found)
    return found


SearchMethod = Literal["auto", "brute", "ball_tree"]
# Anchors' row numbers, where each one's impostors begin and end, and the impostors.
Found = tuple[IndexArray, NDArray[np.int64], IndexArray]

# Pairs that are listed before they are handed on, shared by the parts of the search; products until time is looked at.
# Each slice of the work yields a row for every anchor: their number is bounded, so memory is linear in the rows.
PAIRS_AT_ONCE, WORK_AT_ONCE, MOST_SLICES = 1 << 21, 1 << 34, 128
# Anchors that ball trees are asked for at once: as many as give a bounded number of pairs, by the last ones.
FEWEST_ANCHORS, ANCHORS_AT_ONCE = 1 << 5, 1 << 12


def search_tiles(
    Z: NDArray[np.floating],
    labels: IndexArray,
    groups: IndexArray,
    anchors: IndexArray,
    limits: FloatArray,
    columns: IndexArray,
) -> Iterator[Found]:
    """Search by tiles of the distance matrix, each made and looked at while it is in a core's cache.

    Points are sorted by class, so a class is not compared with itself. Where every point is an anchor, each pair
    is measured once for both. Single precision serves, with a proven allowance for its rounding, if that is small
    beside the limits.
    """
    Z = Z - Z.mean(axis=0)
    norms = np.einsum("ij,ij->i", Z, Z, dtype=np.float64)
    # No pair within its limit is missed. With n_i = |z_i|^2 and u the unit roundoff of the product's precision, the
    # computed entry is at most the exact distance less (n_i + n_l) times the allowance, plus what rounding adds, which
    # is at most (n_i + n_l) u times: 2 (r + 2) by the product of r + 2 terms, whose absolute values add up to at most
    # 2 (n_i + n_l); 2 and 1 where z and n are stored in it; 4 where Z is centered; r + 2 where n is summed up. The last
    # two are in double precision, where the sum is 3 r + 13. The allowance is 4 (r + 4) u.
    allowance = 2.0 * (Z.shape[1] + 4) * float(np.finfo(np.float32).eps)
    single = allowance * float(norms.max()) < 0.25 * float(np.median(limits)) and float(norms.max()) < 1e30
    if not single:
        allowance = 2.0 * (Z.shape[1] + 4) * float(np.finfo(np.float64).eps)
    dtype: type[np.floating] = np.float32 if single else np.float64
    low = (1 - allowance) * norms
    order = columns[np.argsort(labels[columns], kind="stable")]
    both = measures_once(Z, anchors, columns)
    # [-2 z_i, 1, low_i] . [z_l, low_l, 1] is never above the squared distance.
    right = np.concatenate([Z, low[:, None], np.ones((len(Z), 1))], axis=1)[order].astype(dtype)
    asked = np.argsort(labels[anchors], kind="stable").astype(np.int32)
    rows = anchors[asked]
    left = np.concatenate([-2.0 * Z[rows], np.ones((len(rows), 1)), low[rows, None]], axis=1).astype(dtype)
    ceiling = (limits[asked] * (1 + 1e-12)).astype(dtype)
    np.nextafter(ceiling, dtype(np.inf), out=ceiling)
    width = -(-len(order) // -(-len(order) // TILE_COLUMNS))  # equal tiles
    tiles = np.zeros((-(-len(order) // width), right.shape[1], width), dtype=dtype)
    for t, tile in enumerate(tiles):
        part = right[t * width : (t + 1) * width]
        tile[:, : len(part)] = part.T
    ceilings = ceiling if both else np.full(len(order), -np.inf, dtype=dtype)
    own = np.stack([np.searchsorted(labels[order], labels[rows], side) for side in ("left", "right")], axis=1)

    height = TILE_ROWS
    tops = np.arange(0, len(rows), height)
    tops = tops[dealt(len(tops), part_of_pairs() if both else WHOLE)]
    if not len(tops):
        return
    n_parts = min(threads.parts(len(rows) * len(order)), len(tops))
    shares = np.concatenate([[0], np.cumsum(len(order) - (own[tops, 1] if both else 0 * tops))])
    n_slices = min(-(-int(shares[-1] * height * right.shape[1]) // WORK_AT_ONCE), MOST_SLICES) or 1
    cuts = np.searchsorted(shares, np.linspace(0, shares[-1], n_slices * n_parts + 1))
    cuts[[0, -1]] = 0, len(tops)
    room = 2 * height * width
    most = min(room * int(np.diff(cuts).max()) * len(tiles), room + PAIRS_AT_ONCE // n_parts)
    pairs = np.empty((n_parts, most, 2), dtype=np.int32)
    for first in range(0, len(cuts) - 1, n_parts):
        bounds, states = cuts[first : first + n_parts + 1], np.zeros((n_parts, 2), dtype=np.int64)

        def scan(t: int, bounds: NDArray[np.int64] = bounds, states: NDArray[np.int64] = states) -> None:
            scan_tiles(left, tiles, ceiling, ceilings, own, both, tops[bounds[t] : bounds[t + 1]], states[t], pairs[t])

        tasks = np.diff(bounds) * len(tiles)
        while (states[:, 0] < tasks).any():
            with threads.one_pool():
                threads.run(scan, n_parts)
            found = np.concatenate([pairs[t, :used] for t, used in enumerate(states[:, 1])])
            yield _grouped(anchors, asked[found[:, 0]], order[found[:, 1]], groups)


def measures_once(Z: NDArray[np.floating], anchors: IndexArray, columns: IndexArray) -> bool:
    """Whether the search by tiles measures each pair once for both of its points."""
    return len(anchors) == len(columns) == len(Z)


def _grouped(anchors: IndexArray, rows: IndexArray, impostors: IndexArray, groups: IndexArray) -> Found:
    """Pairs of an anchor's place and an impostor in compressed rows, without those of different groups."""
    if groups.max(initial=0) > 0:
        keep = groups[anchors[rows]] == groups[impostors]
        rows, impostors = rows[keep], impostors[keep]
    # From columns to rows: impostors come in increasing order.
    entries = np.ones(len(rows), np.int8), (rows, impostors)
    grouped = sp.csc_array(entries, shape=(len(anchors), len(groups))).tocsr()
    return anchors, grouped.indptr.astype(np.int64), grouped.indices.astype(np.int32, copy=False)


def search_trees(
    Z: NDArray[np.floating],
    labels: IndexArray,
    groups: IndexArray,
    anchors: IndexArray,
    limits: FloatArray,
    columns: IndexArray,
) -> Iterator[Found]:
    """Search by one ball tree per class, asked by the anchors of every other class; see `search_tiles`."""
    trees = [(label, columns[labels[columns] == label]) for label in np.unique(labels[columns])]
    built = [(label, members, BallTree(Z[members])) for label, members in trees]
    # Trees compare distances to centers of balls, which err by (r + 4) u of the longest point, for two points each.
    eps = float(np.finfo(np.float64).eps)
    allowance = 4.0 * (Z.shape[1] + 4) * eps * float(np.sqrt(np.einsum("ij,ij->i", Z, Z).max(initial=0.0)))
    first, size = 0, FEWEST_ANCHORS
    while first < len(anchors):
        block = slice(first, first + size)
        asked, radii = anchors[block], np.sqrt(limits[block]) * (1 + 1e-12) + allowance
        owners: list[NDArray[np.int64]] = []
        found: list[IndexArray] = []
        for label, members, tree in built:
            other = np.flatnonzero(labels[asked] != label)
            if not len(other):
                continue
            near = tree.query_radius(Z[asked[other]], r=radii[other])
            owners.append(np.repeat(other, [len(hit) for hit in near]))
            found.append(members[np.concatenate(near)] if len(near) else columns[:0])
        nothing = np.zeros(0, dtype=np.int32)
        owner = np.concatenate([nothing, *owners]).astype(np.int32)
        first += size
        size = min(max(size * PAIRS_AT_ONCE // max(len(owner), 1) // 2, FEWEST_ANCHORS), ANCHORS_AT_ONCE)
        yield _grouped(asked, owner, np.concatenate([nothing, *found]).astype(np.int32), groups)
