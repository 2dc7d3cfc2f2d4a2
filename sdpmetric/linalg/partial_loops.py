"""Compiled loop of nearest neighbors by partial distances."""

from __future__ import annotations

import numpy as np

from sdpmetric.arrays import FloatArray, LongArray
from sdpmetric.engine.compiled import loop

# Coordinates that are added up before the sum is compared.
CHUNK = 4


@loop()
def nearest(
    train: FloatArray,
    queries: FloatArray,
    turned_train: FloatArray,
    turned_queries: FloatArray,
    turning_error: float,
    k: int,
) -> tuple[FloatArray, LongArray, int]:
    """The k nearest rows of `train` for each query; a distance is given up once its partial sum exceeds the k-th best.

    Partial sums are those of the turned points, the same ones along axes of which the leading ones have the largest
    variance; squared distances there are off by `turning_error` at most. Distances that are not given up are computed
    from the points themselves. Ties of these stay ties: of equal ones the first rows are nearest.
    """
    m, (n, d) = len(queries), train.shape
    distances, rows = np.full((m, k), np.inf), np.zeros((m, k), dtype=np.int64)
    spent = 0
    for t in range(m):
        best, neighbors = distances[t], rows[t]
        for i in range(n):
            total, first = 0.0, 0
            while first < d and total <= best[k - 1] + turning_error:
                last = min(first + CHUNK, d)
                for c in range(first, last):
                    step = turned_queries[t, c] - turned_train[i, c]
                    total += step * step
                first = last
            spent += first
            if total > best[k - 1] + turning_error:
                continue
            total = 0.0
            for c in range(d):
                step = queries[t, c] - train[i, c]
                total += step * step
            if total < best[k - 1]:
                slot = k - 1
                while slot > 0 and best[slot - 1] > total:
                    best[slot], neighbors[slot] = best[slot - 1], neighbors[slot - 1]
                    slot -= 1
                best[slot], neighbors[slot] = total, i
    return distances, rows, spent
