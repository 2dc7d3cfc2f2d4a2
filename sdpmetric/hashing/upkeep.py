"""Keys that follow a moving metric: when to search for flipped bits, and when to recompute all keys."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sdpmetric._loops import hashing as loops
from sdpmetric.hashing.flips import NearPlanes
from sdpmetric.hashing.planes import Planes
from sdpmetric.hashing.table import Table

FloatArray = NDArray[np.float64]
Rows = NDArray[np.floating]

# Rows per block, so that its part of every array stays in the cache.
BLOCK = 1024
# All bits of examples added after the list was made are checked; at this share of examples a new list is made.
UNLISTED_SHARE = 0.1
# Every so many re-hashes everything is computed from scratch, so that rounding errors do not accumulate.
FRESH_EVERY = 1024


@dataclass
class Counters:
    """Counts of an index's work.

    Attributes
    ----------
    queries, updates : int
        Calls of `HashIndex.query`, steps given to `HashIndex.update`.
    examples_searched : int
        Candidates ranked, over all queries.
    bits_flipped : int
        Bits changed, by the search for flipped bits and by re-hashing.
    searches : int
        Searches for flipped bits.
    bits_checked : int
        Entries near their hyperplane that these searches checked, by one inner product each.
    full_rehashes : int
        How often all keys were recomputed.
    """

    queries: int = 0
    updates: int = 0
    examples_searched: int = 0
    bits_flipped: int = 0
    searches: int = 0
    bits_checked: int = 0
    full_rehashes: int = 0


class Upkeep:
    """A table of examples and the hyperplanes of their keys, updated on demand."""

    def __init__(
        self,
        planes: Planes,
        dtype: np.dtype[np.floating],
        *,
        rehash_share: float,
        search_share: float,
        max_pending: int,
    ) -> None:
        self.planes, self.max_pending = planes, max_pending
        self.rehash_share, self.search_share = rehash_share, search_share
        self.table = Table(planes.components.shape[1], len(planes.base), dtype)
        self.counters = Counters()
        self._behind, self._searched = False, 0.0
        self._forget_list()

    def add(self, ids: NDArray[np.int64], rows: Rows) -> None:
        """Add rows, with projections and norms of the base, so that the pending steps apply to them, too."""
        if self.planes.lost:
            self.rehash(keys=True, norms=True)
        alive = np.ones(len(rows), np.bool_)
        keys = np.zeros((len(rows), self.table.keys.shape[1]), np.uint64)
        loops.pack_signs(rows @ self.planes.now.T.astype(rows.dtype), alive, keys)
        rights, scales, mates = self.planes.steps(rows.dtype)
        norms = np.zeros(len(rows))
        nothing = np.empty((len(rows), 0), rows.dtype)
        loops.follow(rows, rights, scales, mates, nothing, alive, norms, nothing)
        norms = self.planes.norms(rows) - norms
        self.table.append(ids, rows, rows @ self.planes.base.T.astype(rows.dtype), keys, norms)

    def remove(self, ids: NDArray[np.int64]) -> None:
        """Remove rows by id."""
        if self.table.remove(ids):
            self._forget_list()

    def note_step(self) -> None:
        """Record that the planes have moved."""
        self.counters.updates += 1
        self._behind = True

    def catch_up(self) -> None:
        """Update the keys with the steps since the last call."""
        table, planes, near = self.table, self.planes, self._near
        if not self._behind or not len(table):
            return
        self._behind = False
        if self.rehash_share == 0.0 or planes.lost:
            self.rehash(keys=True, norms=planes.lost)
        elif planes.pending >= self.max_pending or near.rows < (1.0 - UNLISTED_SHARE) * table.size:
            self.rehash()
        else:
            share, reach = near.shares(planes)
            if share < self.rehash_share and abs(share - self._searched) >= self.search_share:
                self._searched = share
                flips, changed, checked = near.search(table, planes, reach)
                self.counters.searches += 1
                self.counters.bits_flipped += flips
                self.counters.bits_checked += checked
                share = changed / len(table)
            if share >= self.rehash_share:
                self.rehash()

    def rehash(self, *, keys: bool = False, norms: bool = False) -> None:
        """Recompute all keys, and list the entries nearest to their hyperplanes.

        Projections and norms are updated by the pending steps; with `keys` or `norms` they are computed from scratch.
        """
        table, planes, dtype = self.table, self.planes, self.table.X.dtype
        self.counters.full_rehashes += 1
        if self.counters.full_rehashes % FRESH_EVERY == 0:
            keys = norms = True
        if keys:
            planes.renew()
        steps, images, normals = planes.steps(dtype), planes.images(dtype), planes.now.T.astype(dtype)
        self._near = NearPlanes(table, normals, self.rehash_share)
        for first in range(0, table.size, BLOCK):
            rows = slice(first, min(first + BLOCK, table.size))
            X, P, alive = table.X[rows], table.projections[rows], table.alive[rows]
            if keys:
                np.matmul(X, normals, out=P)
            if norms:
                table.norms[rows] = planes.norms(X)
            if not (keys and norms):
                followed = (np.zeros(len(X)) if norms else table.norms[rows]), (P[:, :0] if keys else P)
                loops.follow(X, *steps, images, alive, *followed)
            self.counters.bits_flipped += loops.pack_signs(P, alive, table.keys[rows])
            self._near.take(P, alive, first)
        planes.settle()
        self._behind, self._searched = False, 0.0

    def _forget_list(self) -> None:
        self._near = NearPlanes(self.table, self.planes.now.T, 0.0)  # lists nothing
