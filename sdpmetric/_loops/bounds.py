"""Compiled loops of proven bounds: distances between images with errors, largest possible hinges, errors of forms.

Every bound is an inequality that holds for the exact numbers; see `sdpmetric.linalg.rigorous` for the notation.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sdpmetric._loops import FAST, loop
from sdpmetric._loops.pairs import distance
from sdpmetric.arrays import FloatArray, IndexArray

# More than the rounding of squaring, and of adding 1.
SQUARE = 1e-15
# The smallest positive float, and squared distances that may miss some parts by underflow.
TINY, SMALL_SQUARE = 5e-324, 1e-260


@loop(nogil=True, fastmath=FAST, inline="always")
def _bounds(length: float, g: float, error: float) -> tuple[float, float]:
    """Squares of the least and the largest length, for a computed length with a relative and an absolute error."""
    near, far = max(0.0, length * (1.0 - g) - error), length * (1.0 + g) + error
    least, most = near * near * (1.0 - SQUARE), far * far * (1.0 + SQUARE)
    if most < SMALL_SQUARE and far > 0.0:  # sums with the smallest float take many times as long
        return max(0.0, least - TINY), most + TINY
    return least, most


@loop(nogil=True)
def _small_length(P: FloatArray, i: int, j: int) -> float:
    """The distance between two rows of P whose squares may underflow."""
    top = 0.0
    for q in range(P.shape[1]):
        top = max(top, abs(P[i, q] - P[j, q]))
    s = 0.0
    if top > 0.0:
        for q in range(P.shape[1]):
            u = (P[i, q] - P[j, q]) / top
            s += u * u
    return top * math.sqrt(s)


@loop(nogil=True, fastmath=FAST)
def distance_bounds(
    P: FloatArray,
    errors: FloatArray,
    first: IndexArray,
    second: IndexArray,
    begin: int,
    end: int,
    g: float,
    low: FloatArray,
    high: FloatArray,
) -> None:
    """Bounds of the squared distances of pairs `begin` to `end` of exact points, within `errors` of the rows of P."""
    for p in range(begin, end):
        d = distance(P, first[p], second[p])
        length = math.sqrt(d) if d >= SMALL_SQUARE else _small_length(P, first[p], second[p])
        low[p], high[p] = _bounds(length, g, errors[first[p]] + errors[second[p]])


@loop(nogil=True, fastmath=FAST)
def largest_hinges(
    P: FloatArray,
    errors: FloatArray,
    anchors: IndexArray,
    near: FloatArray,
    highest: FloatArray,
    indptr: NDArray[np.int64],
    impostors: IndexArray,
    weights: FloatArray | None,
    begin: int,
    end: int,
    squared: bool,
    g: float,
    losses: FloatArray,
    active: NDArray[np.int64],
) -> None:
    """The largest possible sum of hinges of rows `begin` to `end` of candidates, and how many hinges are positive.

    `near` holds computed squared distances to the target neighbors and `highest` upper bounds of the exact ones, both
    padded with -1. Sums are rounded to nearest.
    """
    for r in range(begin, end):
        i, total, count = anchors[r], 0.0, 0
        for p in range(indptr[r], indptr[r + 1]):
            d = distance(P, i, impostors[p])
            least, _ = _bounds(math.sqrt(d), g, errors[i] + errors[impostors[p]])
            w = 1.0
            if weights is not None:
                w = weights[p]
            for j in range(near.shape[1]):
                if near[r, j] < 0.0:
                    break
                u = (1.0 + highest[r, j]) * (1.0 + SQUARE) - least
                if u > 0.0:
                    total += w * (u * u if squared else u)
                if w > 0.0 and 1.0 + near[r, j] - d > 0.0:
                    count += 1
        losses[r], active[r] = total, count


@loop(nogil=True, fastmath=FAST)
def form_error(
    P: FloatArray,
    first: IndexArray,
    second: IndexArray,
    weights: FloatArray,
    lengths: FloatArray,
    errors: FloatArray,
    begin: int,
    end: int,
    sums: FloatArray,
) -> None:
    """In `sums` the sums over pairs of ``|w| (|p| (l_a + l_b + 2 e) + e^2)`` and ``|w| (|p| + e)^2``.

    Here p is the difference of two rows of P, e the sum of their errors and l the entries of `lengths`. Rounded to
    nearest.
    """
    error = size = 0.0
    for p in range(begin, end):
        a, b, w = first[p], second[p], abs(weights[p])
        d = distance(P, a, b)
        long = math.sqrt(d) if d >= SMALL_SQUARE else _small_length(P, a, b)
        off = errors[a] + errors[b]
        error += w * long * (lengths[a] + lengths[b] + 2.0 * off) + w * off * off
        size += w * (long + off) * (long + off)
    sums[0], sums[1] = error, size
