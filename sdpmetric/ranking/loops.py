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
        near, far = relevant[q, : n_relevant[q]], irrelevant[q, : n_irrelevant[q]]
        i = j = at = 0
        ordered = average = 0.0
        while i < len(near) or j < len(far):
            score = near[i] if j == len(far) or (i < len(near) and near[i] <= far[j]) else far[j]
            hits, misses = 0, 0
            while i + hits < len(near) and near[i + hits] == score:
                hits += 1
            while j + misses < len(far) and far[j + misses] == score:
                misses += 1
            ordered += hits * (len(far) - j - misses + 0.5 * misses)
            before, after = i + j, i + j + hits + misses
            if hits:
                average += hits * (i + hits) / after
            while at < len(ks) and ks[at] <= after:  # within a tie every order is as likely as the next
                out[q, 2 + at] = (i + (ks[at] - before) * hits / (after - before)) / ks[at]
                at += 1
            i += hits
            j += misses
        while at < len(ks):
            out[q, 2 + at] = len(near) / ks[at]
            at += 1
        out[q, 0] = ordered / (len(near) * len(far))
        out[q, 1] = average / len(near)


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
        near, far = relevant[q, : n_relevant[q]], irrelevant[q, : n_irrelevant[q]]
        weight = weights[q if len(weights) > 1 else 0]
        total, below, v = 0.0, 0.0, 0
        for distance in near:
            limit = 1.0 + distance
            while v < len(far) and far[v] < limit:
                below += far[v]
                v += 1
            total += regularization * distance
            if v:
                total += weight[v] * (limit - below / v)
        out[q] = total / len(near)


@loop()
def count_below(ascending: FloatArray, value: float, equal: bool) -> int:
    """How many entries are below a value, or not above it; see `sdpmetric.engine.compiled` on np.searchsorted."""
    low, high = 0, len(ascending)
    while low < high:
        middle = (low + high) // 2
        if ascending[middle] < value or (equal and ascending[middle] == value):
            low = middle + 1
        else:
            high = middle
    return low


@loop()
def expected_slopes(
    scores: FloatArray,
    members: NDArray[np.bool_],
    own: NDArray[np.int32],
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
        near, far = relevant[q, : n_relevant[q]], irrelevant[q, : n_irrelevant[q]]
        weight = weights[q if len(weights) > 1 else 0]
        up, share = np.empty(len(near)), np.empty(len(near) + 1)
        v = 0
        for i in range(len(near)):
            while v < len(far) and far[v] < 1.0 + near[i]:
                v += 1
            active += v
            up[i] = (regularization + weight[v]) / len(near)
            share[i] = weight[v] / (v * len(near)) if v else 0.0
        share[len(near)] = 0.0
        for i in range(len(near) - 1, -1, -1):  # an irrelevant item violates for every relevant one beyond it
            share[i] += share[i + 1]
        for j in range(scores.shape[1]):
            if members[q, j]:
                out[q, j] = 0.0 if j == own[q] else up[count_below(near, scores[q, j], False)]
            else:
                low, high = 0, len(near)
                while low < high:  # the first relevant item with 1 + its distance beyond this one
                    middle = (low + high) // 2
                    if scores[q, j] < 1.0 + near[middle]:
                        high = middle
                    else:
                        low = middle + 1
                out[q, j] = -share[low]
    return active
