"""Compiled loop of nearest neighbors by partial distances."""

from __future__ import annotations

import numpy as np

from sdpmetric.arrays import FloatArray, LongArray
from sdpmetric.engine.compiled import loop

# Coordinates that are added up before the sum is compared.
CHUNK = 4


@loop()
def nearest(
    train: FloatArray, queries: FloatArray, turned: FloatArray, asked: FloatArray, room: float, k: int
) -> tuple[FloatArray, LongArray, int]:
    """The k nearest rows of `train` for each query; a distance is given up once its partial sum exceeds the k-th best.

    Partial sums are those of `turned` and `asked`, the same points along axes of which the leading ones have the
    largest variance; squared distances there are off by `room` at most. Distances that are not given up are computed
    from the points themselves. Ties of these stay ties: of equal ones the first rows are nearest.
    """
    m, (n, d) = len(queries), train.shape
    distances, rows = np.full((m, k), np.inf), np.zeros((m, k), dtype=np.int64)
    spent = 0
    for t in range(m):
        best, found = distances[t], rows[t]
        for i in range(n):
            total, first = 0.0, 0
            while first < d and total <= best[k - 1] + room:
                last = min(first + CHUNK, d)
                for c in range(first, last):
                    step = asked[t, c] - turned[i, c]
                    total += step * step
                first = last
            spent += first
            if total > best[k - 1] + room:
                continue
            total = 0.0
            for c in range(d):
                step = queries[t, c] - train[i, c]
                total += step * step
            if total < best[k - 1]:
                slot = k - 1
                while slot > 0 and best[slot - 1] > total:
                    best[slot], found[slot] = best[slot - 1], found[slot - 1]
                    slot -= 1
                best[slot], found[slot] = total, i
    return distances, rows, spent
