"""The parts of an index: a table of examples, hyperplanes, the entries near them, and the ranking of candidates."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dger

from sdpmetric.arrays import FloatArray, LongArray
from sdpmetric.lego import hash_loops as loops
from sdpmetric.lego.logdet import MetricStep
from sdpmetric.linalg.rigorous.directed import norm_above, norms_above

Rows = NDArray[np.floating]

# Rows per block, so its part of every array stays in the cache.
BLOCK = 1024


@dataclass(frozen=True)
class UpkeepOptions:
    """Constants of the upkeep of keys.

    If one bit of each changed example flips, a share of ``rehash_share / n_bits`` of the entries flips, and about five
    times as many are within reach of an average hyperplane (2 * reach / 0.8); hyperplanes that move more than others
    need longer lists, hence `list_length`.
    """

    unlisted_share: float = 0.1  # of examples added after the list was made, all checked: from here on a new list
    fresh_every: int = 1024  # rehashes, of which one computes all from scratch: rounding errors do not accumulate
    sample: int = 512  # examples that shares and quantiles are estimated on
    reach: float = 2.0  # root mean squares of an entry's movement, within which it is checked
    list_length: float = 16.0  # entries that are listed, in units of rehash_share / n_bits of all


OPTIONS = UpkeepOptions()


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


class Table:
    """Rows in order of insertion, in arrays that grow by half."""

    def __init__(self, d: int, b: int, r: int, dtype: np.dtype[np.floating]) -> None:
        self._held: dict[str, NDArray[np.generic]] = {
            "X": np.empty((0, d), dtype),
            "projections": np.empty((0, b), dtype),
            "images": np.empty((0, r), dtype),
            "keys": np.empty((0, -(-b // 64)), np.uint64),
            "ids": np.empty(0, np.int64),
        }
        self.size = 0
        self.names: set[int] = set()
        self.largest = np.zeros(d)  # of each feature, in absolute value, before it was stored
        self.reach = 0.0  # at least the Euclidean norm of every row
        self._show()

    def __len__(self) -> int:
        return self.size

    def append(self, ids: NDArray[np.int64], X: Rows, planes: Planes) -> None:
        """Add rows, with projections to the base, so the pending steps apply to them, too."""
        self.reach = max(self.reach, float(norms_above(X.astype(np.float64)).max()))
        normals, base = (N.T.astype(X.dtype) for N in (planes.normals, planes.base_normals))
        keys = np.zeros((len(X), self.keys.shape[1]), np.uint64)
        loops.pack_signs(X @ normals, keys)
        new: dict[str, NDArray[np.generic]] = {"X": X, "projections": X @ base, "keys": keys, "ids": ids}
        new_size = self.size + len(ids)
        for name, held in self._held.items():
            if new_size > len(held):
                grown = np.empty((max(new_size, 3 * len(held) // 2), *held.shape[1:]), held.dtype)
                grown[: self.size] = held[: self.size]
                self._held[name] = grown
            if name in new:  # images are computed by a ranking
                self._held[name][self.size : new_size] = new[name]
        self.names.update(ids.tolist())
        self.size = new_size
        self._show()

    def _show(self) -> None:
        rows = slice(self.size)
        self.X = cast(Rows, self._held["X"][rows])
        self.projections = cast(Rows, self._held["projections"][rows])
        self.images = cast(Rows, self._held["images"][rows])
        self.keys = cast(NDArray[np.uint64], self._held["keys"][rows])
        self.ids = cast(NDArray[np.int64], self._held["ids"][rows])


class Planes:
    """Normals ``R G`` of b hyperplanes under a factor G that moves by rank-one steps: at the last `settle`, and now."""

    def __init__(self, components: FloatArray, directions: FloatArray) -> None:
        self.components = np.array(components, dtype=np.float64, order="C")
        self.directions = directions
        self.renew()
        self.settle()

    def push(self, step: MetricStep) -> None:
        column, row = step.column, step.row
        image = self.directions @ column
        self.pending += 1
        if self.is_stale:
            self._forget()
        else:
            self._step_rows.append(row)
            self._images.append(image)
        for matrix, vector in ((self.components, column), (self.normals, image)):
            dger(1.0, row, vector, a=matrix.T, overwrite_a=1)  # in place: the transpose has Fortran's order

    @property
    def is_stale(self) -> bool:
        """Whether the base can no longer be brought up to date step by step."""
        return self.pending > int(self.components.shape[1])

    @property
    def change(self) -> FloatArray:
        """Change of the normals, (b, d): its inner product with an example is the change of the projection."""
        change: FloatArray = self.normals - self.base_normals
        return change

    def steps(self, dtype: np.dtype[np.floating]) -> tuple[Rows, Rows]:
        """Rows (K, d) and images (K, b) of the pending steps, which add ``images.T @ rows`` to the normals."""
        step_rows = np.array(self._step_rows, dtype=dtype).reshape(-1, self.components.shape[1])
        return step_rows, np.array(self._images, dtype=dtype).reshape(-1, len(self.base_normals))

    def renew(self) -> None:
        """Recompute the normals, so rounding errors do not accumulate."""
        self.normals = np.ascontiguousarray(self.directions @ self.components)

    def settle(self) -> None:
        self.base_normals = self.normals.copy()
        self.pending = 0
        self._forget()

    def _forget(self) -> None:
        self._step_rows: list[FloatArray] = []
        self._images: list[FloatArray] = []


class NearPlanes:
    """The entries (example, bit) nearest to their hyperplane when all keys were last made."""

    def __init__(self, table: Table, normals: Rows, rehash_share: float) -> None:
        chosen = np.linspace(0, table.size - 1, min(OPTIONS.sample, table.size)).astype(np.intp)
        self._sample = table.X[chosen]
        self._projections = self._sample @ normals
        self._searched = self._now = self._projections > 0.0  # bits of the sample at the last search, and seen last
        share = min(1.0, OPTIONS.list_length * rehash_share / normals.shape[1])
        room = int(2.0 * share * table.size * normals.shape[1]) + 8 * normals.shape[1] if share > 0.0 else 0
        self._entries = np.empty(room, np.int32), np.empty(room, np.int16), np.empty(room, normals.dtype)
        if len(chosen):
            self._cuts = np.quantile(np.abs(self._projections), share, axis=0).astype(normals.dtype)
        self._count = self.rows = 0

    def take(self, P: Rows, first: int) -> None:
        """List the near entries of a block of projections whose first slot is `first`; blocks come in order."""
        if self.rows < first or not len(self._entries[0]):
            return  # the list is full
        self._count, done = loops.list_near(P, self._cuts, first, self._entries, self._count)
        self.rows += done

    def shares(self, planes: Planes) -> tuple[float, float, Rows]:
        """Shares of the sample that have changed since the list was made and since the last search, and reach.

        The reach is how far the projections of each bit move, (b,), at most.
        """
        shift = self._sample @ planes.change.T.astype(self._sample.dtype)
        self._now = self._projections + shift > 0.0
        changed, unsearched = ((bits != self._now).any(axis=1) for bits in (self._projections > 0.0, self._searched))
        reach: Rows = OPTIONS.reach * np.sqrt(np.mean(shift.astype(np.float64) ** 2, axis=0))
        return float(changed.mean()), float(unsearched.mean()), reach.astype(shift.dtype)

    def search(self, table: Table, planes: Planes, reach: Rows) -> tuple[int, int, int]:
        """Flip the bits whose sign has changed; returns flips, changed examples, and entries checked."""
        dtype, self._searched = table.X.dtype, self._now
        entries, changes = (self._entries, self._count), planes.change.astype(dtype)
        flips, changed, looked = loops.flip_bits(table.X, *entries, changes, reach, table.keys)
        if self.rows < table.size:  # all bits of examples added after the list was made
            new = slice(self.rows, table.size)
            P = table.X[new] @ planes.normals.T.astype(dtype)
            flips += loops.pack_signs(P, table.keys[new])
        return flips, changed, looked


class Ranking:
    """The nearest of some candidates under one factor G, first by images in the type of the rows, of roundoff u.

    The images z of a row x and w of a query q, and the differences ``G (x - q)`` in float64, are rounded so that

        | |z - w| - |G (x - q)| |  <=  E = (gamma_(d + 3)(u) + gamma_(d + 3)(2^-53)) |G|_F (max |x| + |q|) .

    So one of the k nearest is at most 2 E farther by its image than the k-th nearest image. These few candidates are
    ranked by their differences: ``|x|^2 - 2 x q`` cancels if features have offsets.

    Images are computed for the candidates of each query, and for all rows and kept once that is no more work than was
    done under this factor.
    """

    def __init__(self, components: FloatArray, table: Table) -> None:
        norm = norm_above(components)
        size = math.frexp(norm)[1] + math.frexp(table.reach)[1] if norm > 0.0 and table.reach > 0.0 else 0
        self._power = -size  # of 2, by which the factor is multiplied: images of rows are about 1 or shorter then
        self._factor, self._norm = np.ldexp(components, self._power), math.ldexp(norm, self._power)
        self._stored_factor: Rows = self._factor.T.astype(table.X.dtype)
        self._reach = table.reach
        self._n_images = self._n_ranked = 0

    def fits(self, table: Table) -> bool:
        """Return whether the rows are not much longer than those that the unit of images was made for."""
        return table.reach <= 2.0 * self._reach

    def nearest(self, table: Table, slots: NDArray[np.int32], q: FloatArray, k: int) -> tuple[LongArray, FloatArray]:
        """Ids of the k nearest of the candidates in some slots, of equal ones the smallest, and squared distances."""
        if k < len(slots):
            squares = self._image_distances(table, slots, q)
            epsilon, d = float(np.finfo(squares.dtype).eps), len(q)
            error = (d + 4) * (epsilon + 2.0**-52) * self._norm * (table.reach + norm_above(q))
            rounding = 1.0 + (len(self._factor) + 4) * epsilon  # of the sum and the root of squares
            with np.errstate(over="ignore", invalid="ignore"):
                limit = rounding * (rounding * np.sqrt(float(np.partition(squares, k - 1)[k - 1])) + 2.0 * error)
                slots = slots[~(squares > limit * limit)]  # all of them if a square overflows
        distances = np.empty(len(slots))
        for first in range(0, len(slots), BLOCK):
            rows = slice(first, first + BLOCK)
            Z = (table.X[slots[rows]] - q) @ self._factor.T
            distances[rows] = np.einsum("ij,ij->i", Z, Z)
        ids = table.ids[slots]
        order = np.lexsort((ids, distances))[:k]
        return ids[order], np.ldexp(distances[order], -2 * self._power)

    def _image_distances(self, table: Table, slots: NDArray[np.int32], q: FloatArray) -> Rows:
        """Squared distances of the images of candidates to that of a query, (m,)."""
        factor = self._stored_factor
        image, squares = (self._factor @ q).astype(factor.dtype), np.empty(len(slots), factor.dtype)
        self._n_ranked += len(slots)
        missing = slice(self._n_images, table.size)
        if self._n_ranked >= missing.stop - missing.start > 0:
            np.matmul(table.X[missing], factor, out=table.images[missing])
            self._n_images, self._n_ranked = table.size, 0
        if self._n_images == table.size:
            loops.squared_distances(table.images, slots, image, squares)
        else:
            loops.squared_distances(table.X[slots] @ factor, np.arange(len(slots), dtype=np.int32), image, squares)
        return squares
