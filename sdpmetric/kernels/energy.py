"""Compiled loops of energy-based classification: what a test example would pay under every label."""

from __future__ import annotations

import numba as nb
import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.int64]

# Most distances are too large to matter. Of so many at once it is counted, without a branch, how many do: mostly none.
CHUNK = 128


@nb.njit(cache=True)
def _any_below(some: NDArray[np.floating], limit: float) -> bool:
    count = 0
    for i in range(len(some)):
        if some[i] < limit:
            count += 1
    return count > 0


@nb.njit(cache=True)
def _any_within(some: NDArray[np.floating], limits: FloatArray) -> bool:
    count = 0
    for i in range(len(some)):
        if some[i] < limits[i]:
            count += 1
    return count > 0


@nb.njit(parallel=True, cache=True)
def invasions(D: NDArray[np.floating], reach: FloatArray, starts: IndexArray) -> FloatArray:
    """How deep queries lie within the margins of training examples, summed by class.

    Parameters
    ----------
    D : (m, n) array
        Squared distances of queries to training examples, which are sorted by class.
    reach : (n, k) array
        ``1 + D_ij`` for each target neighbor j of training example i, the largest first; -infinity where it has fewer.
    starts : (c + 1,) array
        Class c holds the training examples from ``starts[c]`` to ``starts[c + 1]``.

    Returns
    -------
    sums : (m, c) array
        ``sum_i sum_j [reach_ij - D_ti]_+`` over the examples i of each class.
    """
    classes = len(starts) - 1
    sums = np.zeros((len(D), classes))
    furthest = reach[:, 0].copy()
    for t in nb.prange(len(D)):
        for c in range(classes):
            total = 0.0
            for begin in range(starts[c], starts[c + 1], CHUNK):
                end = min(begin + CHUNK, starts[c + 1])
                if not _any_within(D[t, begin:end], furthest[begin:end]):
                    continue
                for i in range(begin, end):
                    distance = np.float64(D[t, i])
                    for j in range(reach.shape[1]):
                        if reach[i, j] <= distance:
                            break
                        total += reach[i, j] - distance
            sums[t, c] = total
    return sums


@nb.njit(cache=True)
def _nearest(row: NDArray[np.floating], first: int, last: int, nearest: FloatArray) -> None:
    """The smallest entries of a part of a row, ascending; infinity where there are too few."""
    k = len(nearest)
    nearest[:] = np.inf
    for begin in range(first, last, CHUNK):
        end = min(begin + CHUNK, last)
        if not _any_below(row[begin:end], nearest[k - 1]):
            continue
        for i in range(begin, end):
            value = np.float64(row[i])
            if value < nearest[k - 1]:
                slot = k - 1
                while slot > 0 and nearest[slot - 1] > value:
                    nearest[slot] = nearest[slot - 1]
                    slot -= 1
                nearest[slot] = value


@nb.njit(parallel=True, cache=True)
def own_terms(D: NDArray[np.floating], k: int, starts: IndexArray) -> tuple[FloatArray, FloatArray]:
    """What queries pay for themselves under every label: distances to target neighbors, and their own impostors.

    The impostors of all labels are counted in one pass: ``sum_l [a - D_tl]_+`` for many thresholds a is had from
    the number and the sum of the distances between one threshold and the next.

    Parameters
    ----------
    D : (m, n) array
        Squared distances of queries to training examples, which are sorted by class.
    k : int
        Target neighbors of a query: the nearest k examples of the label that it is tried with.
    starts : (c + 1,) array
        As in `invasions`.

    Returns
    -------
    pull, push : (m, c) arrays
        ``sum_j D_tj`` and ``sum_j sum_l [1 + D_tj - D_tl]_+`` over target neighbors j and examples l of other labels.
    """
    classes = len(starts) - 1
    pull, push = np.zeros((len(D), classes)), np.zeros((len(D), classes))
    for t in nb.prange(len(D)):
        near = np.empty((classes, k))
        for c in range(classes):
            _nearest(D[t], starts[c], starts[c + 1], near[c])
        thresholds = np.sort(near.ravel()) + 1.0
        used = np.searchsorted(thresholds, np.inf)
        thresholds = thresholds[:used]
        count, total = np.zeros(used), np.zeros(used)
        for c in range(classes):
            for i in range(starts[c], starts[c + 1]):
                distance = np.float64(D[t, i])
                if distance >= thresholds[used - 1]:
                    continue
                place = np.searchsorted(thresholds, distance, side="right")
                count[place] += 1.0
                total[place] += distance
                for j in range(k):  # the label's own examples are no impostors
                    a = 1.0 + near[c, j]
                    if near[c, j] < np.inf and distance < a:
                        push[t, c] -= a - distance
        count, total = np.cumsum(count), np.cumsum(total)
        for c in range(classes):
            for j in range(k):
                if near[c, j] < np.inf:
                    place = np.searchsorted(thresholds, 1.0 + near[c, j])
                    pull[t, c] += near[c, j]
                    push[t, c] += count[place] * (1.0 + near[c, j]) - total[place]
            push[t, c] = max(push[t, c], 0.0)
    return pull, push


@nb.njit(parallel=True, cache=True)
def cheapest_labels(D: NDArray[np.floating], k: int, starts: IndexArray, invaded: FloatArray, mu: float) -> IndexArray:
    """The label of least energy for each query, the first of equal ones, without most labels' impostors.

    Impostors only add to what a label costs. Labels are tried in the order of their other costs, until those alone are
    above the least energy so far.

    Parameters
    ----------
    D, k, starts
        As in `own_terms`.
    invaded : (m, c) array
        Sums of `invasions` over the other classes.
    mu : float

    Returns
    -------
    labels : (m,) array
    """
    classes = len(starts) - 1
    labels = np.zeros(len(D), dtype=np.int64)
    for t in nb.prange(len(D)):
        near = np.empty((classes, k))
        cost = mu * invaded[t]
        for c in range(classes):
            _nearest(D[t], starts[c], starts[c + 1], near[c])
            for j in range(k):
                if near[c, j] < np.inf:
                    cost[c] += (1.0 - mu) * near[c, j]
        least = np.inf
        for c in np.argsort(cost):
            if cost[c] > least:
                break
            push = 0.0
            used = 0
            while used < k and near[c, used] < np.inf:
                used += 1
            furthest = 1.0 + near[c, used - 1]
            for other in range(classes):
                if other == c:
                    continue
                for begin in range(starts[other], starts[other + 1], CHUNK):
                    end = min(begin + CHUNK, starts[other + 1])
                    if not _any_below(D[t, begin:end], furthest):
                        continue
                    for i in range(begin, end):
                        distance = np.float64(D[t, i])
                        if distance < furthest:
                            for j in range(used):
                                push += max(0.0, 1.0 + near[c, j] - distance)
            energy = cost[c] + mu * push
            if energy < least or (energy == least and c < labels[t]):
                least, labels[t] = energy, c
    return labels
