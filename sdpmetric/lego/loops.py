"""Compiled loops of the LogDet learners: rank-one steps of a factor, one pair or comparison after another."""

from __future__ import annotations

import math

import numpy as np

from sdpmetric.arrays import FloatArray, IndexArray
from sdpmetric.engine.compiled import FAST, loop

# Totals of a stream: losses; steps that moved the metric; the largest prediction times the larger of prediction and
# target among them; and the logarithm of the metric's determinant, beside that of the first metric.
LOSS, MOVES, REACH, VOLUME, SIZE = 0, 1, 2, 3, 4
# Bisections of a comparison's step between the logarithms of LEAST and MOST, more than the digits of a float.
BISECTIONS = 80
LEAST, MOST = 1e-300, 1e300
# Entries of a step up to here are added; beyond, distances overflow soon.
LARGEST = 1e200


@loop(fastmath=FAST)
def image(G: FloatArray, z: FloatArray, left: FloatArray, right: FloatArray) -> float:
    """Write ``G z`` to `left` and ``G^T G z`` to `right`; return the squared length ``z^T G^T G z``."""
    right[:] = 0.0
    total = 0.0
    for i in range(len(G)):
        row = G[i]
        part = 0.0
        for j in range(len(z)):
            part += row[j] * z[j]
        left[i] = part
        total += part * part
        for j in range(len(z)):
            right[j] += part * row[j]
    return total


@loop(fastmath=FAST)
def move(G: FloatArray, alpha: float, left: FloatArray, right: FloatArray) -> None:
    """``G += alpha outer(left, right)``, `left` being scaled in place."""
    for i in range(len(G)):
        left[i] *= alpha
        row, part = G[i], left[i]
        for j in range(len(right)):
            row[j] += part * right[j]


@loop()
def implicit(distance: float, target: float, rate: float) -> float:
    """The distance after LEGO's step, Eq. 2.3: positive root x of ``rate d x^2 + (1 - rate y d) x - d = 0``."""
    linear = rate * target * distance - 1.0
    root = math.hypot(linear, 2.0 * math.sqrt(rate) * distance)
    # Of the two forms of the root, the one that adds.
    return 2.0 * distance / (root - linear) if linear < 0.0 else (linear + root) / (2.0 * rate * distance)


@loop()
def strength(distance: float, target: float, rate: float) -> tuple[float, float]:
    """Coefficient of a step of the inverse metric along the pair, Eq. 2.2, and the ratio of new to old distance."""
    new = implicit(distance, target, rate)
    return rate * (distance - target) / (1.0 + rate * distance * new), new / distance


@loop()
def satisfied(excess: float, side: float) -> bool:
    """Whether a target is satisfied; side is 0 for "equal", 1 for "at most", -1 for "at least"."""
    return excess == 0.0 or side * excess < 0.0


@loop()
def largest(v: FloatArray) -> float:
    """The largest absolute entry of a vector."""
    found = 0.0
    for entry in v:
        found = max(found, abs(entry))
    return found


@loop()
def book(distance: float, target: float, rate: float, size: float, totals: FloatArray) -> tuple[float, float]:
    """`strength` of the step of a pair that violates its target, and its contributions to the totals.

    The strength is infinite, and the totals stay, where they or a step with entries up to the strength times `size`
    overflow; it is 0 where the metric cannot move.
    """
    excess = distance - target
    loss = totals[LOSS] + 0.5 * excess * excess
    reach = max(totals[REACH], distance * max(distance, target))
    sigma, ratio = 0.0, 1.0
    if distance != 0.0:
        sigma, ratio = strength(distance, target, rate)
    # A comparison with NaN fails.
    if not (loss < np.inf and reach < np.inf and 0.0 < ratio < np.inf and abs(sigma) * ratio * size < LARGEST):
        return np.inf, 1.0
    totals[LOSS], totals[REACH] = loss, reach
    if sigma != 0.0:
        totals[MOVES] += 1
        totals[VOLUME] += math.log(ratio)
    return sigma, ratio


@loop()
def pair_step(
    G: FloatArray,
    z: FloatArray,
    target: float,
    side: float,
    rate: float,
    left: FloatArray,
    right: FloatArray,
    totals: FloatArray,
) -> tuple[float, bool]:
    """Take one pair; return its squared distance before the step, and whether the metric moved.

    The step is ``outer(left, right)``. If a number overflows, nothing changes and the distance is not finite.
    """
    distance = image(G, z, left, right)
    excess = distance - target
    if satisfied(excess, side) or not np.isfinite(distance):
        return distance, False
    size = largest(left) * largest(right)
    sigma, ratio = book(distance, target, rate, size, totals)
    if sigma == 0.0:
        return distance, False
    if not np.isfinite(sigma):
        return np.inf, False
    move(G, -sigma * ratio / (1.0 + math.sqrt(ratio)), left, right)
    return distance, True


@loop()
def take_pairs(
    G: FloatArray,
    X: FloatArray,
    pairs: IndexArray,
    targets: FloatArray,
    sides: FloatArray,
    rate: float,
    totals: FloatArray,
) -> int:
    """Take pairs of rows of X in turn; return how many were taken, all unless a number overflowed."""
    d = X.shape[1]
    z, left, right = np.empty(d), np.empty(len(G)), np.empty(d)
    for t in range(len(pairs)):
        first, second = X[pairs[t, 0]], X[pairs[t, 1]]
        for j in range(d):
            z[j] = first[j] - second[j]
        distance, _ = pair_step(G, z, targets[t], sides[t], rate, left, right, totals)
        if not np.isfinite(distance):
            return t
    return len(pairs)


@loop()
def comparison_strength(near: float, far: float, cross: float, margin: float, rate: float) -> float:
    """What a comparison's step adds to the inverse metric along the near pair, and takes from it along the far one.

    With s that number, p and q the distances, D their Gram determinant and ``N(s) = 1 + (p - q) s - D s^2``, the
    distances' difference after the step is ``N'(s) / N(s)``; s solves ``s = rate (N'(s) / N(s) + margin)``, N > 0.
    Infinite where it is too large.
    """
    if max(near, far) == 0.0:
        return rate * margin
    # In units of the larger distance, rounded to a power of two, no product overflows.
    unit = math.ldexp(1.0, math.frexp(max(near, far))[1] - 1)
    near, far, cross, margin = near / unit, far / unit, cross / unit, margin / unit
    gap, gram = near - far, max(near * far - cross * cross, 0.0)
    low, high = LEAST, min(MOST, rate * unit * (gap + margin) * unit)
    if high <= low:
        return rate * (gap + margin) * unit
    for _ in range(BISECTIONS):
        middle = math.sqrt(low) * math.sqrt(high)
        volume = 1.0 + middle * (gap - middle * gram)
        if volume > 0.0 and middle / unit / rate / unit < (gap - 2.0 * middle * gram) / volume + margin:
            low = middle
        else:
            high = middle
    return low / unit if high < MOST else np.inf


@loop(error_model="numpy")
def along(G: FloatArray, z: FloatArray, sigma: float, left: FloatArray, right: FloatArray) -> float:
    """Add ``sigma z z^T`` to the inverse metric; the factor steps by ``outer(left, right)``. Return the distance."""
    distance: float = image(G, z, left, right)
    ratio = 1.0 / (1.0 + sigma * distance)
    move(G, -sigma * ratio / (1.0 + math.sqrt(ratio)), left, right)
    return distance


@loop()
def comparison_step(
    G: FloatArray,
    near: FloatArray,
    far: FloatArray,
    margin: float,
    rate: float,
    left: FloatArray,
    right: FloatArray,
    totals: FloatArray,
) -> tuple[float, bool]:
    """Take one comparison, ``d(near) + margin <= d(far)``; return the excess before, and whether the metric moved.

    `left` and `right` have two rows, one for each of the two steps of the factor, to be taken in this order.
    """
    q = image(G, far, left[1], right[1])
    p = image(G, near, left[0], right[0])
    excess = p - q + margin
    if excess <= 0.0 or not np.isfinite(excess):
        return excess, False
    loss = totals[LOSS] + 0.5 * excess * excess
    sigma = comparison_strength(p, q, float(np.dot(right[0], far)), margin, rate)
    if not np.isfinite(loss + sigma):
        return np.inf, False
    if sigma == 0.0:
        totals[LOSS] = loss
        return excess, False
    before = G.copy()
    p = along(G, near, sigma, left[0], right[0])
    q = along(G, far, -sigma, left[1], right[1])
    if not (sigma * p < np.inf and sigma * q < 1.0 and np.isfinite(G).all()):
        G[:] = before
        return np.inf, False
    totals[LOSS] = loss
    totals[MOVES] += 1
    totals[VOLUME] -= math.log1p(sigma * p) + math.log1p(-sigma * q)
    return excess, True


@loop()
def take_comparisons(
    G: FloatArray, X: FloatArray, comparisons: IndexArray, margin: float, rate: float, totals: FloatArray
) -> int:
    """Take comparisons of rows of X in turn; return how many were taken, all unless a number overflowed."""
    left, right = np.empty((2, len(G))), np.empty((2, X.shape[1]))
    for t in range(len(comparisons)):
        near = X[comparisons[t, 0]] - X[comparisons[t, 1]]
        far = X[comparisons[t, 2]] - X[comparisons[t, 3]]
        excess, _ = comparison_step(G, near, far, margin, rate, left, right, totals)
        if not np.isfinite(excess):
            return t
    return len(comparisons)


@loop()
def take_kernel_pairs(
    S: FloatArray,
    K: FloatArray,
    pairs: IndexArray,
    targets: FloatArray,
    sides: FloatArray,
    rate: float,
    totals: FloatArray,
) -> tuple[int, float]:
    """Take pairs of examples whose inner products are K, the metric being ``scale I + sum_lm S_lm phi_l phi_m^T``.

    The scale is part of K and S: in its coordinates it is 1. Return how many pairs were taken, and the last distance.
    """
    n, distance = len(K), 0.0
    z, c = np.empty(n), np.empty(n)
    for t in range(len(pairs)):
        a, b = pairs[t, 0], pairs[t, 1]
        for j in range(n):
            z[j] = K[a, j] - K[b, j]
        plain = K[a, a] + K[b, b] - 2.0 * K[a, b]
        for i in range(n):
            part = 0.0
            for j in range(n):
                part += S[i, j] * z[j]
            c[i] = part
        distance = plain
        for i in range(n):
            distance += c[i] * z[i]
        size = abs(K[a, a]) + abs(K[b, b])
        if not np.isfinite(distance) or plain < -1e-9 * size or distance < -1e-9 * size:
            return t, distance
        distance = max(distance, 0.0)
        excess = distance - targets[t]
        if satisfied(excess, sides[t]):
            continue
        c[a] += 1.0
        c[b] -= 1.0
        sigma, ratio = book(distance, targets[t], rate, largest(c) ** 2, totals)
        if not np.isfinite(sigma):
            return t, np.inf
        if sigma == 0.0:
            continue
        for i in range(n):
            part = sigma * ratio * c[i]
            for j in range(n):
                S[i, j] -= part * c[j]
    return len(pairs), distance
