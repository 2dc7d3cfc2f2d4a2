"""Compiled loops of energy-based classification: the energy of a test example under every label."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray, LongArray
from sdpmetric.engine.compiled import FAST, loop
from sdpmetric.ranking.loops import count_below

# Distances that are compared together, without a branch: mostly all of them are too large to matter.
CHUNK = 128
# Training examples whose distances to some queries are made and looked at while they are in a core's cache.
TILE = 8 * CHUNK
# Distances are never NaN (see `scan`), so the compiler may vectorize a minimum.
NUMBERS = FAST | {"nnan"}


@loop(fastmath=NUMBERS)
def _any_below(some: NDArray[np.floating], limits: NDArray[np.floating]) -> tuple[bool, float]:
    """Whether any distance is below its limit, and the smallest distance."""
    count, smallest = 0, some[0]
    for i in range(len(some)):
        if some[i] < limits[i]:
            count += 1
        smallest = min(smallest, some[i])
    return count > 0, smallest


@loop()
def _insert(some: NDArray[np.floating], nearest: FloatArray) -> None:
    """Keep the smallest of `nearest`, ascending, and some further distances."""
    k = len(nearest)
    for i in range(len(some)):
        value = np.float64(some[i])
        if value < nearest[k - 1]:
            slot = k - 1
            while slot > 0 and nearest[slot - 1] > value:
                nearest[slot] = nearest[slot - 1]
                slot -= 1
            nearest[slot] = value


@loop()
def _depth(some: NDArray[np.floating], reach: FloatArray) -> float:
    """Sum of ``[reach_ij - some_i]_+``."""
    total = 0.0
    for i in range(len(some)):
        distance = np.float64(some[i])
        for j in range(reach.shape[1]):
            if reach[i, j] <= distance:
                break
            total += reach[i, j] - distance
    return total


@loop(nogil=True)
def scan(
    queries: NDArray[np.floating],
    train: NDArray[np.floating],
    reach: FloatArray,
    ceilings: NDArray[np.floating],
    starts: LongArray,
    chunks: LongArray,
    c: int,
    mine: bool,
    D: NDArray[np.floating],
    smallest: NDArray[np.floating],
    nearest: FloatArray,
    sums: FloatArray,
) -> None:
    """Distances of queries to the training examples of one class, and sums of its hinges."""
    m = len(queries)
    scratch = np.empty(m * TILE, dtype=D.dtype)
    sums[:, c] = 0.0
    if mine:
        nearest[:, c] = np.inf
    for first in range(starts[c], starts[c + 1], TILE):
        last = min(first + TILE, starts[c + 1])
        tile = scratch[: m * (last - first)].reshape(m, last - first)
        np.dot(queries, train[first:last].T, tile)
        for begin in range(first, last, CHUNK):
            chunk_end = min(begin + CHUNK, last)
            chunk = chunks[c] + (begin - starts[c]) // CHUNK
            for t in range(m):
                distances = tile[t, begin - first : chunk_end - first]
                invades, chunk_smallest = _any_below(distances, ceilings[begin:chunk_end])
                if invades:
                    sums[t, c] += _depth(distances, reach[begin:chunk_end])
                if mine:
                    D[t, begin:chunk_end] = distances
                    smallest[t, chunk] = chunk_smallest
                    if chunk_smallest < nearest[t, c, nearest.shape[2] - 1]:
                        _insert(distances, nearest[t, c])


@loop(nogil=True)
def own_impostors(
    D: NDArray[np.floating],
    smallest: NDArray[np.floating],
    nearest: FloatArray,
    thresholds: FloatArray,
    starts: LongArray,
    chunks: LongArray,
) -> FloatArray:
    """The part of the energies of queries that comes from their own impostors, under every label.

    The impostors of all labels are counted in one pass: ``sum_l [a - D_tl]_+`` for many thresholds a is computed from
    the number and the sum of the distances between consecutive thresholds.
    """
    classes, k = nearest.shape[1:]
    push = np.zeros((len(D), classes))
    for t in range(len(D)):
        used = count_below(thresholds[t], np.inf, False)
        furthest = thresholds[t, used - 1]
        count, total = np.zeros(used), np.zeros(used)
        for c in range(classes):
            for chunk in range(chunks[c], chunks[c + 1]):
                if smallest[t, chunk] >= furthest:
                    continue
                begin = starts[c] + (chunk - chunks[c]) * CHUNK
                for i in range(begin, min(begin + CHUNK, starts[c + 1])):
                    distance = np.float64(D[t, i])
                    if distance >= furthest:
                        continue
                    place = count_below(thresholds[t], distance, True)
                    count[place] += 1.0
                    total[place] += distance
                    for j in range(k):  # examples of the label itself are not impostors
                        a = 1.0 + nearest[t, c, j]
                        if nearest[t, c, j] < np.inf and distance < a:
                            push[t, c] -= a - distance
        count, total = np.cumsum(count), np.cumsum(total)
        for c in range(classes):
            for j in range(k):
                if nearest[t, c, j] < np.inf:
                    place = count_below(thresholds[t], 1.0 + nearest[t, c, j], False)
                    push[t, c] += count[place] * (1.0 + nearest[t, c, j]) - total[place]
            push[t, c] = max(push[t, c], 0.0)
    return push


@loop(nogil=True)
def cheapest_labels(
    D: NDArray[np.floating],
    smallest: NDArray[np.floating],
    nearest: FloatArray,
    cost: FloatArray,
    order: LongArray,
    starts: LongArray,
    chunks: LongArray,
    mu: float,
) -> LongArray:
    """The label of least energy for each query, the first of equal ones, without most labels' impostors.

    Impostors only add to what a label costs. Labels are tried in the order of their other costs, until those alone are
    above the least energy so far.
    """
    classes, k = nearest.shape[1:]
    labels = np.zeros(len(D), dtype=np.int64)
    for t in range(len(D)):
        lowest_energy = np.inf
        for c in order[t]:
            if cost[t, c] > lowest_energy:
                break
            push = 0.0
            used = 0
            while used < k and nearest[t, c, used] < np.inf:
                used += 1
            furthest = 1.0 + nearest[t, c, used - 1]
            for rival in range(classes):
                if rival == c:
                    continue
                for chunk in range(chunks[rival], chunks[rival + 1]):
                    if smallest[t, chunk] >= furthest:
                        continue
                    begin = starts[rival] + (chunk - chunks[rival]) * CHUNK
                    for i in range(begin, min(begin + CHUNK, starts[rival + 1])):
                        distance = np.float64(D[t, i])
                        if distance < furthest:
                            for j in range(used):
                                push += max(0.0, 1.0 + nearest[t, c, j] - distance)
            energy = cost[t, c] + mu * push
            if energy < lowest_energy or (energy == lowest_energy and c < labels[t]):
                lowest_energy, labels[t] = energy, c
    return labels
