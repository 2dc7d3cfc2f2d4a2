"""Compiled loops of ranking metrics: scores of items for a query, and measures of one ranking after another."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray, LongArray
from sdpmetric.engine.compiled import FAST, loop


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


@loop()
def measure(
    relevant: FloatArray,
    irrelevant: FloatArray,
    n_relevant: LongArray,
    n_irrelevant: LongArray,
    ks: LongArray,
    out: FloatArray,
) -> None:
    """AUC, average precision and precision at each k of rankings by increasing score, ties as in scikit-learn."""
    for q in range(len(relevant)):
        hit_scores, miss_scores = relevant[q, : n_relevant[q]], irrelevant[q, : n_irrelevant[q]]
        i = j = place = 0
        ordered = average = 0.0
        while i < len(hit_scores) or j < len(miss_scores):
            score = (
                hit_scores[i]
                if j == len(miss_scores) or (i < len(hit_scores) and hit_scores[i] <= miss_scores[j])
                else miss_scores[j]
            )
            hits, misses = 0, 0
            while i + hits < len(hit_scores) and hit_scores[i + hits] == score:
                hits += 1
            while j + misses < len(miss_scores) and miss_scores[j + misses] == score:
                misses += 1
            ordered += hits * (len(miss_scores) - j - misses + 0.5 * misses)
            before, after = i + j, i + j + hits + misses
            if hits:
                average += hits * (i + hits) / after
            while place < len(ks) and ks[place] <= after:  # within a tie every order is as likely as the next
                out[q, 2 + place] = (i + (ks[place] - before) * hits / (after - before)) / ks[place]
                place += 1
            i += hits
            j += misses
        while place < len(ks):
            out[q, 2 + place] = len(hit_scores) / ks[place]
            place += 1
        out[q, 0] = ordered / (len(hit_scores) * len(miss_scores))
        out[q, 1] = average / len(hit_scores)


@loop()
def expected_losses(
    relevant: FloatArray,
    irrelevant: FloatArray,
    n_relevant: LongArray,
    n_irrelevant: LongArray,
    weights: FloatArray,
    regularization: float,
    out: FloatArray,
) -> None:
    """Mean over a query's relevant items of ``weight(v) / v * sum of its v positive h + regularization * distance``."""
    for q in range(len(relevant)):
        relevant_distances, irrelevant_distances = relevant[q, : n_relevant[q]], irrelevant[q, : n_irrelevant[q]]
        weight = weights[q if len(weights) > 1 else 0]
        total, violator_sum, v = 0.0, 0.0, 0
        for distance in relevant_distances:
            limit = 1.0 + distance
            while v < len(irrelevant_distances) and irrelevant_distances[v] < limit:
                violator_sum += irrelevant_distances[v]
                v += 1
            total += regularization * distance
            if v:
                total += weight[v] * (limit - violator_sum / v)
        out[q] = total / len(relevant_distances)


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
    relevant: FloatArray,
    irrelevant: FloatArray,
    n_relevant: LongArray,
    n_irrelevant: LongArray,
    weights: FloatArray,
    regularization: float,
    out: FloatArray,
) -> int:
    """Derivatives of `expected_losses` in every distance, (m, n); the number of positive hinges."""
    active = 0
    for q in range(len(scores)):
        relevant_distances, irrelevant_distances = relevant[q, : n_relevant[q]], irrelevant[q, : n_irrelevant[q]]
        weight = weights[q if len(weights) > 1 else 0]
        relevant_slopes, violator_slopes = np.empty(len(relevant_distances)), np.empty(len(relevant_distances) + 1)
        v = 0
        for i in range(len(relevant_distances)):
            while v < len(irrelevant_distances) and irrelevant_distances[v] < 1.0 + relevant_distances[i]:
                v += 1
            active += v
            relevant_slopes[i] = (regularization + weight[v]) / len(relevant_distances)
            violator_slopes[i] = weight[v] / (v * len(relevant_distances)) if v else 0.0
        violator_slopes[len(relevant_distances)] = 0.0
        for i in range(
            len(relevant_distances) - 1, -1, -1
        ):  # an irrelevant item violates for every relevant one beyond it
            violator_slopes[i] += violator_slopes[i + 1]
        for j in range(scores.shape[1]):
            if members[q, j]:
                out[q, j] = (
                    0.0
                    if j == query_items[q]
                    else relevant_slopes[count_below(relevant_distances, scores[q, j], False)]
                )
            else:
                low, high = 0, len(relevant_distances)
                while low < high:  # the first relevant item with 1 + its distance beyond this one
                    position = (low + high) // 2
                    if scores[q, j] < 1.0 + relevant_distances[position]:
                        high = position
                    else:
                        low = position + 1
                out[q, j] = -violator_slopes[low]
    return active
