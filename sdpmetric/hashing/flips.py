"""The second level: which bits have flipped since all keys were made."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sdpmetric._loops import hashing as loops
from sdpmetric.hashing.planes import Planes
from sdpmetric.hashing.table import Table

Rows = NDArray[np.floating]

# Size of the sample of examples for shares and quantiles.
SAMPLE = 512
# An entry is checked if its distance to the hyperplane is below so many root mean squares of the entries' movement.
REACH = 2.0
# Share of all entries that is listed, in units of rehash_share / n_bits. If one bit of each changed example flips, one
# unit of entries flips, and about five times as many are within reach of an average hyperplane (2 * REACH / 0.8);
# hyperplanes that move more than others need longer lists.
LISTED = 16.0


class NearPlanes:
    """The entries (example, bit) nearest to their hyperplane when all keys were last made."""

    def __init__(self, table: Table, normals: Rows, rehash_share: float) -> None:
        chosen = np.linspace(0, table.size - 1, min(SAMPLE, table.size)).astype(np.intp)
        self._sample = table.X[chosen]
        self._projections = self._sample @ normals
        share = min(1.0, LISTED * rehash_share / normals.shape[1])
        room = int(2.0 * share * table.size * normals.shape[1]) + 8 * normals.shape[1] if share > 0.0 else 0
        self._slots, self._bits = np.empty(room, np.int32), np.empty(room, np.int16)
        self._values = np.empty(room, normals.dtype)
        if len(chosen):
            self._cuts = np.quantile(np.abs(self._projections), share, axis=0).astype(normals.dtype)
        self._count = self.rows = 0

    def take(self, P: Rows, alive: NDArray[np.bool_], first: int) -> None:
        """List the near entries of a block of projections whose first slot is `first`; blocks come in order."""
        if self.rows < first or not len(self._slots):
            return  # the list is full
        end = self._count
        written, done = loops.list_near(
            P, alive, self._cuts, first, self._slots[end:], self._bits[end:], self._values[end:]
        )
        self._count += written
        self.rows += done

    def shares(self, planes: Planes) -> tuple[float, Rows]:
        """Share of the sample that has changed, and how far the projections of each bit move, (b,), at most."""
        shift = self._sample @ planes.moved.T.astype(self._sample.dtype)
        changed = ((self._projections > 0.0) != (self._projections + shift > 0.0)).any(axis=1)
        reach: Rows = REACH * np.sqrt(np.mean(shift**2, axis=0))
        return float(changed.mean()), reach.astype(shift.dtype)

    def search(self, table: Table, planes: Planes, reach: Rows) -> tuple[int, int, int]:
        """Flip the bits whose sign has changed; returns flips, changed examples, and entries checked."""
        count, dtype = self._count, table.X.dtype
        listed = self._slots[:count], self._bits[:count], self._values[:count]
        moved = planes.moved.astype(dtype)
        flips, changed, looked = loops.flip_bits(table.X, *listed, moved, reach, table.keys, table.alive)
        if self.rows < table.size:  # all bits of examples added after the list was made
            new = slice(self.rows, table.size)
            P = table.X[new] @ planes.now.T.astype(dtype)
            flips += loops.pack_signs(P, table.alive[new], table.keys[new])
        return flips, changed, looked
