"""The parts of an index, examples, hyperplanes, the entries near them and ranks, and compiled loops over hash keys.

A key is a row of 64-bit words; bit j of a key is bit ``j % 64`` of word ``j // 64``, set if the projection is
positive. Machines store the lowest byte of a word first, so it is also bit ``j % 8`` of byte ``j // 8``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dger

from sdpmetric.arrays import FloatArray, LongArray
from sdpmetric.engine.lazy import FAST, loop
from sdpmetric.linalg.rigorous.directed import norm_above, norms_above

if TYPE_CHECKING:
    from sdpmetric.lego.stream import MetricStep

Rows = NDArray[np.floating]
Keys = NDArray[np.uint64]
# Slots of examples, bits of their keys, and projections.
Entries = tuple[NDArray[np.int32], NDArray[np.int16], Rows]


@loop(inline="always")
def _bits_set(word: np.uint64) -> np.uint64:
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (word * np.uint64(0x0101010101010101)) >> np.uint64(56)


@loop(inline="always")
def _word(packed: Keys, w: int) -> np.uint64:
    """Return 64 flags of one byte each, eight to a number, as the bits of one word."""
    word = np.uint64(0)
    for t in range(8):
        # Moves flag i of the eight to bit 56 + i.
        byte = (packed[8 * w + t] * np.uint64(0x0102040810204080)) >> np.uint64(56)
        word |= byte << np.uint64(8 * t)
    return word


@loop(fastmath=FAST)
def _dot(row: Rows, vector: Rows) -> float:
    """Return the inner product, summed in float64."""
    s = 0.0
    for q in range(len(row)):
        s += row[q] * vector[q]
    return s


@loop(fastmath=FAST)
def _products(rows: Rows, x: Rows, out: Rows) -> None:
    """Write inner products of x with the rows of a matrix, summed in their type; four at once share the loads of x."""
    zero = x[0] - x[0]
    l = 0
    while l + 4 <= len(rows):
        a, b, c, d = zero, zero, zero, zero
        for q in range(len(x)):
            a += x[q] * rows[l, q]
            b += x[q] * rows[l + 1, q]
            c += x[q] * rows[l + 2, q]
            d += x[q] * rows[l + 3, q]
        out[l], out[l + 1], out[l + 2], out[l + 3] = a, b, c, d
        l += 4
    while l < len(rows):
        a = zero
        for q in range(len(x)):
            a += x[q] * rows[l, q]
        out[l] = a
        l += 1


@loop(fastmath=FAST)
def pack_signs(P: Rows, keys: Keys) -> int:
    """Write the keys of projections P (n, b) into `keys` (n, words); return how many bits were different before."""
    flips, b = 0, P.shape[1]
    flags = np.zeros(64 * keys.shape[1], dtype=np.uint8)
    packed = flags.view(np.uint64)
    for i in range(len(P)):
        for j in range(b):
            flags[j] = P[i, j] > 0.0
        for w in range(keys.shape[1]):
            word = _word(packed, w)
            flips += _bits_set(keys[i, w] ^ word)
            keys[i, w] = word
    return flips


@loop(fastmath=FAST)
def follow(X: Rows, step_rows: Rows, images: Rows, P: Rows) -> None:
    """Add the pending steps to the projections P (n, b): step l adds ``(row_l . x) image_l`` to those of x."""
    products = np.empty(len(step_rows), X.dtype)
    for i in range(len(X)):
        _products(step_rows, X[i], products)
        for l in range(len(step_rows)):
            for j in range(P.shape[1]):
                P[i, j] += products[l] * images[l, j]


@loop(fastmath=FAST)
def list_near(P: Rows, cuts: Rows, first: int, entries: Entries, count: int) -> tuple[int, int]:
    """List the entries of P (n, b) nearer to 0 than their column's cut, row by row; rows are numbered from `first`.

    Write what fits behind the `count` entries so far; return how many there are then, and how many rows are done.
    """
    (slots, bits, values), b = entries, P.shape[1]
    words = (b + 63) // 64
    flags = np.zeros(64 * words, dtype=np.uint8)
    packed = flags.view(np.uint64)
    for i in range(len(P)):
        if count + b > len(slots):
            return count, i
        for column in range(b):
            flags[column] = abs(P[i, column]) < cuts[column]
        for w in range(words):
            word = _word(packed, w)
            while word != np.uint64(0):
                lowest = word & (~word + np.uint64(1))
                j = np.int64(64 * w) + np.int64(_bits_set(lowest - np.uint64(1)))
                slots[count], bits[count], values[count] = first + i, j, P[i, j]
                count += 1
                word ^= lowest
    return count, len(P)


@loop(fastmath=FAST)
def flip_bits(X: Rows, entries: Entries, count: int, changes: Rows, reach: Rows, keys: Keys) -> tuple[int, int, int]:
    """Set the listed bits to the sign of ``value + changes[bit] . row``, if a flip is within reach."""
    slots, bits, values = entries
    flips = changed = looked = 0
    last = -1
    for e in range(count):
        i, j, value = slots[e], bits[e], values[e]
        positive = value > 0.0
        if abs(value) < reach[j]:
            looked += 1
            positive = value + _dot(X[i], changes[j]) > 0.0
            if positive != (value > 0.0) and i != last:
                changed += 1
                last = i
        word, place = j >> 6, np.uint64(j & 63)
        if positive != bool((keys[i, word] >> place) & np.uint64(1)):
            keys[i, word] ^= np.uint64(1) << place
            flips += 1
    return flips, changed, looked


@loop()
def disagreements(weights: NDArray[np.int64], key: Keys) -> NDArray[np.uint16]:
    """Return the total weight of the bits that differ from `key`, for each value of each byte, (256 * bytes,)."""
    n_bytes = (len(weights) + 7) // 8
    sums, table = np.zeros(256, dtype=np.uint16), np.empty(256 * n_bytes, dtype=np.uint16)
    for t in range(n_bytes):
        n_values = 1  # sums are known of the bits so far
        for j in range(8 * t, min(8 * t + 8, len(weights))):
            for value in range(n_values):
                sums[n_values + value] = sums[value] + weights[j]
            n_values *= 2
        key_byte = np.int64((key[t >> 3] >> np.uint64(8 * (t & 7))) & np.uint64(255))
        for value in range(256):
            differs = value ^ key_byte
            table[256 * t + value] = sums[differs] if differs < n_values else 0
    return table


@loop()
def nearest_keys(keys: NDArray[np.uint8], table: NDArray[np.uint16], top: int, wanted: int) -> NDArray[np.int32]:
    """Return the slots of the `wanted` keys that disagree least, the first among equals.

    `keys` are the bytes of the keys, `table` is that of `disagreements`, and `top` the sum of its weights.
    """
    n, n_bytes = len(keys), len(table) // 256
    disagreement = np.empty(n, dtype=np.uint16)
    i = 0
    while i + 4 <= n:  # four at once: their loads do not wait for each other
        a = b = c = d = np.uint32(0)
        for t in range(n_bytes):
            a += table[256 * t + keys[i, t]]
            b += table[256 * t + keys[i + 1, t]]
            c += table[256 * t + keys[i + 2, t]]
            d += table[256 * t + keys[i + 3, t]]
        disagreement[i], disagreement[i + 1], disagreement[i + 2], disagreement[i + 3] = a, b, c, d
        i += 4
    while i < n:
        a = np.uint32(0)
        for t in range(n_bytes):
            a += table[256 * t + keys[i, t]]
        disagreement[i] = a
        i += 1
    counts = np.zeros(top + 1, dtype=np.int32)
    for i in range(n):
        counts[disagreement[i]] += 1
    limit, remaining = 0, wanted
    while limit < top and counts[limit] < remaining:
        remaining -= counts[limit]
        limit += 1
    nearest = np.empty(wanted + 1, dtype=np.int32)  # one more: every slot is written, and kept if the next one is not
    size = 0
    for i in range(n):
        nearest[size] = i
        is_last = disagreement[i] == limit
        size += disagreement[i] < limit or (is_last and remaining > 0)
        remaining -= is_last
    return nearest[:wanted]


@loop(fastmath=FAST)
def squared_distances(images: Rows, slots: NDArray[np.int32], image: Rows, out: Rows) -> None:
    """Write the squared distances of an image to some images, (m,), summed in their type."""
    zero = image[0] - image[0]
    for i in range(len(slots)):
        row, s = images[slots[i]], zero
        for q in range(len(image)):
            difference = row[q] - image[q]
            s += difference * difference
        out[i] = s


# Rows per block, so its part of every array stays in the cache.
BLOCK = 1024


@dataclass(frozen=True)
class UpkeepOptions:
    """Constants of the upkeep of keys.

    If one bit of each changed example flips, a share of ``rehash_share / n_bits`` of the entries flips, and about five
    times as many are within reach of an average hyperplane (2 * reach / 0.8); hyperplanes that move more than others
    need longer lists, hence `list_length`.
    """

    search_share: float = 0.04  # of a sample of the examples that has changed: from here on flipped bits are sought
    max_pending: int = 12  # steps that projections are brought up to date by, at most: then all keys are made again
    unlisted_share: float = 0.1  # of examples added after the list was made, all checked: from here on a new list
    fresh_every: int = 1024  # rehashes until all is computed from scratch, so rounding errors do not accumulate
    sample: int = 512  # examples that shares and quantiles are estimated on
    reach: float = 2.0  # root mean squares of an entry's movement, within which it is checked
    list_length: float = 16.0  # entries that are listed, in units of rehash_share / n_bits of all


OPTIONS = UpkeepOptions()


@dataclass
class Counters:
    """Counts of an index's work."""

    queries: int = 0  # calls of `HashIndex.query`, steps given to `HashIndex.update`
    updates: int = 0
    examples_searched: int = 0  # candidates ranked, over all queries
    bits_flipped: int = 0  # bits changed, by the search for flipped bits and by re-hashing
    searches: int = 0  # searches for flipped bits
    bits_checked: int = 0  # entries near their hyperplane that these searches checked, by one inner product each
    full_rehashes: int = 0  # how often all keys were recomputed


class ExampleTable:
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
        pack_signs(X @ normals, keys)
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
        """Return rows (K, d) and images (K, b) of the pending steps, which add ``images.T @ rows`` to the normals."""
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

    def __init__(self, table: ExampleTable, normals: Rows, rehash_share: float) -> None:
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
        """List the near entries of a block of projections that begins at slot `first`; blocks come in order."""
        if self.rows < first or not len(self._entries[0]):
            return  # the list is full
        self._count, done = list_near(P, self._cuts, first, self._entries, self._count)
        self.rows += done

    def shares(self, planes: Planes) -> tuple[float, float, Rows]:
        """Return shares of the sample that have changed since the list was made and since the last search, and reach.

        The reach is how far the projections of each bit move, (b,), at most.
        """
        shift = self._sample @ planes.change.T.astype(self._sample.dtype)
        self._now = self._projections + shift > 0.0
        changed, unsearched = ((bits != self._now).any(axis=1) for bits in (self._projections > 0.0, self._searched))
        reach: Rows = OPTIONS.reach * np.sqrt(np.mean(shift.astype(np.float64) ** 2, axis=0))
        return float(changed.mean()), float(unsearched.mean()), reach.astype(shift.dtype)

    def search(self, table: ExampleTable, planes: Planes, reach: Rows) -> tuple[int, int, int]:
        """Flip the bits with a changed sign; return flips, changed examples, and entries checked."""
        dtype, self._searched = table.X.dtype, self._now
        entries, changes = (self._entries, self._count), planes.change.astype(dtype)
        flips, changed, looked = flip_bits(table.X, *entries, changes, reach, table.keys)
        if self.rows < table.size:  # all bits of examples added after the list was made
            new = slice(self.rows, table.size)
            P = table.X[new] @ planes.normals.T.astype(dtype)
            flips += pack_signs(P, table.keys[new])
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

    def __init__(self, components: FloatArray, table: ExampleTable) -> None:
        norm = norm_above(components)
        size = math.frexp(norm)[1] + math.frexp(table.reach)[1] if norm > 0.0 and table.reach > 0.0 else 0
        self._power = -size  # of 2: the factor times this power gives images of rows that are about 1 or shorter
        self._factor, self._norm = np.ldexp(components, self._power), math.ldexp(norm, self._power)
        self._stored_factor: Rows = self._factor.T.astype(table.X.dtype)
        self._reach = table.reach
        self._n_images = self._n_ranked = 0

    def fits(self, table: ExampleTable) -> bool:
        """Return whether the rows are not much longer than those that the unit of images was made for."""
        return table.reach <= 2.0 * self._reach

    def nearest(
        self, table: ExampleTable, slots: NDArray[np.int32], q: FloatArray, k: int
    ) -> tuple[LongArray, FloatArray]:
        """Return ids of the k nearest candidates in some slots, the smallest among equals, and squared distances."""
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

    def _image_distances(self, table: ExampleTable, slots: NDArray[np.int32], q: FloatArray) -> Rows:
        """Return squared distances of the images of candidates to that of a query, (m,)."""
        factor = self._stored_factor
        image, squares = (self._factor @ q).astype(factor.dtype), np.empty(len(slots), factor.dtype)
        self._n_ranked += len(slots)
        missing = slice(self._n_images, table.size)
        if self._n_ranked >= missing.stop - missing.start > 0:
            np.matmul(table.X[missing], factor, out=table.images[missing])
            self._n_images, self._n_ranked = table.size, 0
        if self._n_images == table.size:
            squared_distances(table.images, slots, image, squares)
        else:
            squared_distances(table.X[slots] @ factor, np.arange(len(slots), dtype=np.int32), image, squares)
        return squares
