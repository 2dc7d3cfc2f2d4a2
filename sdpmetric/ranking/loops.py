"""Compiled loops of ranking metrics: scores of items for a query, and measures of one ranking after another."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray, LongArray
from sdpmetric.engine.compiled import FAST, loop

# Of m queries: scores of their relevant and of their irrelevant items, increasing, (m, n) each, and how many there are.
Sorted = tuple[FloatArray, FloatArray, LongArray, LongArray]


@loop(fastmath=FAST)
def distances_to(queries: FloatArray, columns: FloatArray, out: FloatArray, products: bool) -> None:
    """Squared distances, (m, n), or minus the inner products; equal items get equal numbers, unlike by a product."""
    for i in range(len(queries)):
        row = out[i]
        row[:] = 0.0
        for k in range(len(columns)):
            a, column = queries[i, k], columns[k]
            if products:
                for j in range(len(column)):
                    row[j] -= a * column[j]
            else:
                for j in range(len(column)):
                    difference = a - column[j]
                    row[j] += difference * difference


@loop(inline="always")
def _of_query(scores: Sorted, q: int) -> tuple[FloatArray, FloatArray]:
    relevant, irrelevant, n_relevant, n_irrelevant = scores
    return relevant[q, : n_relevant[q]], irrelevant[q, : n_irrelevant[q]]


@loop()
def measure(scores: Sorted, ks: LongArray, out: FloatArray) -> None:
    """AUC, average precision, NDCG and precision at each k of rankings by increasing score, ties as in scikit-learn."""
    for q in range(len(out)):
        relevant, irrelevant = _of_query(scores, q)
        i = j = place = 0
        ordered = average = discounted = ideal = 0.0
        while i < len(relevant) or j < len(irrelevant):
            is_relevant = j == len(irrelevant) or (i < len(relevant) and relevant[i] <= irrelevant[j])
            score = relevant[i] if is_relevant else irrelevant[j]
            hits, misses = 0, 0
            while i + hits < len(relevant) and relevant[i + hits] == score:
                hits += 1
            while j + misses < len(irrelevant) and irrelevant[j + misses] == score:
                misses += 1
            ordered += hits * (len(irrelevant) - j - misses + 0.5 * misses)
            before, after = i + j, i + j + hits + misses
            if hits:
                average += hits * (i + hits) / after
                for position in range(before, after):
                    discounted += hits / (after - before) / math.log2(position + 2.0)
            while place < len(ks) and ks[place] <= after:  # within a tie every order is as likely as the next
                out[q, 3 + place] = (i + (ks[place] - before) * hits / (after - before)) / ks[place]
                place += 1
            i += hits
            j += misses
        while place < len(ks):
            out[q, 3 + place] = len(relevant) / ks[place]
            place += 1
        out[q, 0] = ordered / (len(relevant) * len(irrelevant))
        out[q, 1] = average / len(relevant)
        for position in range(len(relevant)):
            ideal += 1.0 / math.log2(position + 2.0)
        out[q, 2] = discounted / ideal


@loop()
def expected_losses(distances: Sorted, weights: FloatArray, regularization: float, out: FloatArray) -> None:
    """Mean over a query's relevant items of ``weight(v) / v * sum of its v positive h + regularization * distance``."""
    for q in range(len(out)):
        relevant, irrelevant = _of_query(distances, q)
        total, violator_sum, v = 0.0, 0.0, 0
        for distance in relevant:
            limit = 1.0 + distance
            while v < len(irrelevant) and irrelevant[v] < limit:
                violator_sum += irrelevant[v]
                v += 1
            total += regularization * distance
            if v:
                total += weights[q, v] * (limit - violator_sum / v)
        out[q] = total / len(relevant)


@loop()
def count_below(ascending: FloatArray, value: float, equal: bool) -> int:
    """How many entries are below a value, or not above it; see `sdpmetric.engine.compiled` on np.searchsorted."""
    low, high = 0, len(ascending)
    while low < high:
        position = (low + high) // 2
        if ascending[position] < value or (equal and ascending[position] == value):
            low = position + 1
        else:
            high = position
    return low


@loop()
def expected_slopes(
    scores: FloatArray,
    members: NDArray[np.bool_],
    query_items: NDArray[np.int32],
    distances: Sorted,
    weights: FloatArray,
    regularization: float,
    out: FloatArray,
) -> int:
    """Derivatives of `expected_losses` in every distance, (m, n); the number of positive hinges."""
    active = 0
    for q in range(len(scores)):
        relevant, irrelevant = _of_query(distances, q)
        n, limits = len(relevant), 1.0 + relevant
        relevant_slopes, violator_slopes = np.empty(n), np.empty(n + 1)
        v = 0
        for i in range(n):
            while v < len(irrelevant) and irrelevant[v] < limits[i]:
                v += 1
            active += v
            relevant_slopes[i] = (regularization + weights[q, v]) / n
            violator_slopes[i] = weights[q, v] / (v * n) if v else 0.0
        violator_slopes[n] = 0.0
        for i in range(n - 1, -1, -1):  # an irrelevant item violates for every relevant one beyond it
            violator_slopes[i] += violator_slopes[i + 1]
        for j in range(scores.shape[1]):
            if members[q, j]:
                place = count_below(relevant, scores[q, j], False)
                out[q, j] = 0.0 if j == query_items[q] else relevant_slopes[place]
            else:
                out[q, j] = -violator_slopes[count_below(limits, scores[q, j], True)]
    return active
