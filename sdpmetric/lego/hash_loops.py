"""Compiled loops over hash keys: signs packed into words, Hamming distances, and flipped bits.

A key is a row of 64-bit words; bit j of a key is bit ``j % 64`` of word ``j // 64``, set where the projection is
positive. Machines store the lowest byte of a word first, so it is also bit ``j % 8`` of byte ``j // 8``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sdpmetric.engine.compiled import FAST, loop

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
    """64 flags of one byte each, eight to a number, as the bits of one word."""
    word = np.uint64(0)
    for t in range(8):
        # Moves flag i of the eight to bit 56 + i.
        byte = (packed[8 * w + t] * np.uint64(0x0102040810204080)) >> np.uint64(56)
        word |= byte << np.uint64(8 * t)
    return word


@loop(fastmath=FAST)
def _dot(row: Rows, vector: Rows) -> float:
    """Inner product, summed in float64."""
    s = 0.0
    for q in range(len(row)):
        s += row[q] * vector[q]
    return s


@loop(fastmath=FAST)
def _products(rows: Rows, x: Rows, out: Rows) -> None:
    """Inner products of x with the rows of a matrix, summed in their type; four at once, which share the loads of x."""
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
    """Write the keys of projections P (n, b) into `keys` (n, words); returns how many bits were different before."""
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
    """Entries of P (n, b) nearer to 0 than their column's cut, row by row; rows are numbered from `first`.

    Writes what fits behind the `count` entries so far, and returns how many there are then and how many rows it did.
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
    """Set the listed bits to the sign of ``value + changes[bit] . row``, where a flip is within reach."""
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
    """Total weight of the bits in which each value of each byte of a key differs from `key`, (256 * bytes,)."""
    n_bytes = (len(weights) + 7) // 8
    sums, table = np.zeros(256, dtype=np.uint16), np.empty(256 * n_bytes, dtype=np.uint16)
    for t in range(n_bytes):
        n_values = 1  # whose sums are known: those of the bits so far
        for j in range(8 * t, min(8 * t + 8, len(weights))):
            for value in range(n_values):
                sums[n_values + value] = sums[value] + weights[j]
            n_values *= 2
        own = np.int64((key[t >> 3] >> np.uint64(8 * (t & 7))) & np.uint64(255))
        for value in range(256):
            differs = value ^ own
            table[256 * t + value] = sums[differs] if differs < n_values else 0
    return table


@loop()
def nearest_keys(keys: NDArray[np.uint8], table: NDArray[np.uint16], top: int, wanted: int) -> NDArray[np.int32]:
    """The slots of the `wanted` keys that disagree least; of equal ones those that come first.

    `keys` are the bytes of the keys, `table` is that of `disagreements`, and `top` the sum of its weights.
    """
    n, n_bytes = len(keys), len(table) // 256
    disagreement = np.empty(n, dtype=np.uint16)
    i = 0
    while i + 4 <= n:  # four at once, whose loads do not wait for each other
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
