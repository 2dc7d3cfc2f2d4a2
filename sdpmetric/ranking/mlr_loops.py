"""Most violated rankings, one query after another: what each costs, and its slopes in the distances of the items."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import BoolArray, FloatArray, LongArray
from sdpmetric.engine.compiled import loop


@loop()
def most_violated(
    scores: FloatArray,
    order: LongArray,
    members: BoolArray,
    query_items: NDArray[np.int32],
    average: bool,
    slopes: FloatArray,
) -> FloatArray:
    """Losses of the rankings y of each query with the largest ``loss(y) - <W, psi(y*) - psi(y)>``, (m,)."""
    n = scores.shape[1]
    losses = np.zeros(len(scores))
    relevant, irrelevant = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    above = np.empty(n + 1, dtype=np.int64)
    for q in range(len(scores)):
        R = N = 0
        for item in order[q]:
            if not members[q, item]:
                irrelevant[N] = item
                N += 1
            elif item != query_items[q]:
                relevant[R] = item
                R += 1
        slopes[q] = 0.0
        above[: R + 1] = 0
        unit = 2.0 / (R * N)
        if average:
            _place_for_precision(scores[q], relevant[:R], irrelevant[:N], unit, above)
        else:
            _place_for_auc(scores[q], relevant[:R], irrelevant[:N], above)
        # above[i]: irrelevant items ranked above the i-th nearest relevant one; it does not decrease
        place = 0
        for i in range(R):
            slopes[q, relevant[i]] = unit * above[i]
            while place < above[i]:
                slopes[q, irrelevant[place]] = -unit * (R - i)
                place += 1
            losses[q] += above[i] / (above[i] + i + 1.0) / R if average else above[i] / (R * N)
    return losses


@loop()
def _place_for_auc(D: FloatArray, relevant: LongArray, irrelevant: LongArray, above: LongArray) -> None:
    """An irrelevant item is above a relevant one where that gains: where it is nearer than the margin of 1/2."""
    j = 0
    for i in range(len(relevant)):
        while j < len(irrelevant) and D[irrelevant[j]] < D[relevant[i]] + 0.5:
            j += 1
        above[i] = j


@loop()
def _place_for_precision(
    D: FloatArray, relevant: LongArray, irrelevant: LongArray, unit: float, above: LongArray
) -> None:
    """[YFRJ2007]: the best place of each irrelevant item, one after the other.

    The j-th one above the i-th relevant item and all after it gains ``sum_k (k / (k + j - 1) - k / (k + j)) / R -
    unit (D_j - D_k)`` over k >= i, all counted from 1; the best i does not decrease with j.
    """
    R, last = len(relevant), 0
    if D[irrelevant[-1]] <= D[relevant[0]]:  # as under the zero metric: all gain most above all
        above[:R] = len(irrelevant)
        return
    for j in range(len(irrelevant)):
        total = best = 0.0
        first = R
        for i in range(R - 1, last - 1, -1):
            k = i + 1.0
            total += k / ((k + j) * (k + j + 1.0) * R) - unit * (D[irrelevant[j]] - D[relevant[i]])
            if total > best:
                best, first = total, i
        if first == R:
            return
        last = first
        for i in range(first, R):
            above[i] = j + 1
