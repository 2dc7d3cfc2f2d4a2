"""Compiled loops of the LogDet learners: rank-one steps of a factor, one pair after another."""

from __future__ import annotations

import math

import numpy as np

from sdpmetric.arrays import FloatArray, IndexArray
from sdpmetric.engine.lazy import FAST, loop

# Pairs of rows, target distances, and which side of each holds.
Goals = tuple[IndexArray, FloatArray, FloatArray]
# Totals of a stream: losses; steps that moved the metric; the largest prediction times the larger of prediction and
# target among them; and the logarithm of the metric's determinant, and that of the first metric.
LOSS, MOVES, REACH, VOLUME, N_TOTALS = range(5)
# Entries of a step up to here are added; beyond, distances overflow soon.
LARGEST_ENTRY = 1e200


@loop(fastmath=FAST)
def image(G: FloatArray, z: FloatArray, Gz: FloatArray, Az: FloatArray) -> float:
    """Write ``G z`` to `Gz` and ``G^T G z`` to `Az`; return the squared length ``z^T G^T G z``."""
    Az[:] = 0.0
    total = 0.0
    for i in range(len(G)):
        row = G[i]
        entry = 0.0
        for j in range(len(z)):
            entry += row[j] * z[j]
        Gz[i] = entry
        total += entry * entry
        for j in range(len(z)):
            Az[j] += entry * row[j]
    return total


@loop(fastmath=FAST)
def move(G: FloatArray, alpha: float, column: FloatArray, row: FloatArray) -> None:
    """Add ``alpha outer(column, row)`` to G; `column` is scaled in place."""
    for i in range(len(G)):
        column[i] *= alpha
        entries, scaled = G[i], column[i]
        for j in range(len(row)):
            entries[j] += scaled * row[j]


@loop()
def strength(distance: float, target: float, rate: float) -> tuple[float, float]:
    """Return the step of the inverse metric along the pair, Eq. 2.2, and the ratio of new to old distance.

    The new distance, Eq. 2.3, is the positive root x of ``rate d x^2 + (1 - rate y d) x - d = 0``.
    """
    linear = rate * target * distance - 1.0
    root = math.hypot(linear, 2.0 * math.sqrt(rate) * distance)
    # Of the two forms of the root, the one that adds.
    new = 2.0 * distance / (root - linear) if linear < 0.0 else (linear + root) / (2.0 * rate * distance)
    return rate * (distance - target) / (1.0 + rate * distance * new), new / distance


@loop()
def satisfied(excess: float, side: float) -> bool:
    """Return whether a target is satisfied; side is 0 for "equal", 1 for "at most", -1 for "at least"."""
    return excess == 0.0 or side * excess < 0.0


@loop()
def largest(v: FloatArray) -> float:
    maximum = 0.0
    for entry in v:
        maximum = max(maximum, abs(entry))
    return maximum


@loop()
def record(distance: float, target: float, rate: float, size: float, totals: FloatArray) -> tuple[float, float]:
    """Add a pair that violates its target to the totals; return the `strength` of its step.

    The strength is infinite, and the totals stay, if they or a step with entries up to the strength times `size`
    overflow. The strength is 0 if the metric cannot move.
    """
    excess = distance - target
    loss = totals[LOSS] + 0.5 * excess * excess
    reach = max(totals[REACH], distance * max(distance, target))
    sigma, ratio = 0.0, 1.0
    if distance != 0.0:
        sigma, ratio = strength(distance, target, rate)
    # A comparison with NaN fails.
    if not (loss < np.inf and reach < np.inf and 0.0 < ratio < np.inf and abs(sigma) * ratio * size < LARGEST_ENTRY):
        return np.inf, 1.0
    totals[LOSS], totals[REACH] = loss, reach
    if sigma != 0.0:
        totals[MOVES] += 1
        totals[VOLUME] += math.log(ratio)
    return sigma, ratio


@loop()
def pair_step(
    G: FloatArray, z: FloatArray, target: float, side: float, rate: float, step: FloatArray, totals: FloatArray
) -> tuple[float, bool]:
    """Take one pair; return its squared distance before the step, and whether the metric moved.

    The step is ``outer(step[0], step[1])``. If a number overflows, nothing changes and the distance is not finite.
    """
    column, row = step[0], step[1]
    distance = image(G, z, column, row)
    excess = distance - target
    if satisfied(excess, side) or not np.isfinite(distance):
        return distance, False
    size = largest(column) * largest(row)
    sigma, ratio = record(distance, target, rate, size, totals)
    if sigma == 0.0:
        return distance, False
    if not np.isfinite(sigma):
        return np.inf, False
    move(G, -sigma * ratio / (1.0 + math.sqrt(ratio)), column, row)
    return distance, True


@loop()
def take_pairs(G: FloatArray, X: FloatArray, goals: Goals, rate: float, totals: FloatArray) -> int:
    """Take pairs of rows of X in turn; return how many were taken, all unless a number overflowed."""
    (pairs, targets, sides), d = goals, X.shape[1]
    z, step = np.empty(d), np.empty((2, d))
    for t in range(len(pairs)):
        first, second = X[pairs[t, 0]], X[pairs[t, 1]]
        for j in range(d):
            z[j] = first[j] - second[j]
        distance, _ = pair_step(G, z, targets[t], sides[t], rate, step, totals)
        if not np.isfinite(distance):
            return t
    return len(pairs)


@loop()
def take_kernel_pairs(S: FloatArray, K: FloatArray, goals: Goals, rate: float, totals: FloatArray) -> tuple[int, float]:
    """Take pairs of examples with the inner products K, the metric being ``I + sum_lm S_lm phi_l phi_m^T``.

    Return how many pairs were taken, and the last distance.
    """
    (pairs, targets, sides), n, distance = goals, len(K), 0.0
    z, c = np.empty(n), np.empty(n)
    for t in range(len(pairs)):
        a, b = pairs[t, 0], pairs[t, 1]
        for j in range(n):
            z[j] = K[a, j] - K[b, j]
        prior_distance = K[a, a] + K[b, b] - 2.0 * K[a, b]
        for i in range(n):
            entry = 0.0
            for j in range(n):
                entry += S[i, j] * z[j]
            c[i] = entry
        distance = prior_distance
        for i in range(n):
            distance += c[i] * z[i]
        size = abs(K[a, a]) + abs(K[b, b])
        if not np.isfinite(distance) or prior_distance < -1e-9 * size or distance < -1e-9 * size:
            return t, distance
        distance = max(distance, 0.0)
        excess = distance - targets[t]
        if satisfied(excess, sides[t]):
            continue
        c[a] += 1.0
        c[b] -= 1.0
        sigma, ratio = record(distance, targets[t], rate, largest(c) ** 2, totals)
        if not np.isfinite(sigma):
            return t, np.inf
        if sigma == 0.0:
            continue
        for i in range(n):
            entry = sigma * ratio * c[i]
            for j in range(n):
                S[i, j] -= entry * c[j]
    return len(pairs), distance
