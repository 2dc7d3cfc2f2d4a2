"""Rows of the softmax of NCA and MLKR, a block at a time: distances, log-sum-exp, value, weights of the gradient.

Each part of the work takes every so-many-th block of rows and keeps one (block, n) buffer, which fits the cache of a
core as long as n is moderate; nothing is ever (n, n). Sums are in float64 and in a fixed order.
The exponential is a polynomial that the compiler vectorizes, within 1e-15 of the exact one, relatively.
"""

from __future__ import annotations

import numpy as np

from sdpmetric.arrays import FloatArray, LongArray
from sdpmetric.engine import threads
from sdpmetric.engine.compiled import FAST, fixed, loop

# No reassociation in the exponential: its rounding by a large constant depends on the order of the operations.
STRICT = {"contract", "nsz"}
# What the sums are of: minus a probability, minus its logarithm, or the squared error of a prediction.
PROBABILITY, LOGARITHM, SQUARED_ERROR = 0, 1, 2
# Entries of the buffer: what a core's second-level cache holds, beside what is multiplied with it.
BUFFER = 80_000
# Rows of a block at least and at most.
FEWEST, MOST = 16, 128
# exp(-708) is the smallest normal number; below it the polynomial's exponent would wrap around.
LOWEST = -708.0
# Minima are taken of so many columns side by side; compilers vectorize that, and not one running minimum.
LANES = 64


@loop(fastmath=STRICT, inline="always")
def _exp(x: float) -> float:
    """The exponential of a number that is not positive, without a branch; 0 where it would not be a normal number."""
    y = max(x, LOWEST)
    # Adding 1.5 * 2^52 rounds to an integer, which is then in the low bits.
    shifted = y * 1.4426950408889634 + 6755399441055744.0
    k = shifted - 6755399441055744.0
    r = (y - k * 0.693147180369123816490) - k * 1.90821492927058770002e-10
    # Taylor's polynomial; |r| <= log(2) / 2, so what is cut off is below 3e-17.
    p = 1.6059043836821613e-10
    p = p * r + 2.08767569878681e-09
    p = p * r + 2.505210838544172e-08
    p = p * r + 2.755731922398589e-07
    p = p * r + 2.7557319223985893e-06
    p = p * r + 2.48015873015873e-05
    p = p * r + 0.0001984126984126984
    p = p * r + 0.001388888888888889
    p = p * r + 0.008333333333333333
    p = p * r + 0.041666666666666664
    p = p * r + 0.16666666666666666
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    power = np.int64((np.float64(shifted).view(np.int64) + 1023) << 52).view(np.float64)
    return p * power if x > LOWEST else 0.0


# The loops below run over whole rows, of which callers pass parts: a loop from a variable on is not vectorized, as an
# index might be negative, which means "from the end".


@loop(fastmath=STRICT)
def _exponentials(row: FloatArray, shift: float) -> None:
    """``row = exp(shift - row)``."""
    for j in range(len(row)):
        row[j] = _exp(shift - row[j])


@loop(fastmath=FAST)
def _sum(row: FloatArray) -> float:
    total = 0.0
    for j in range(len(row)):
        total += row[j]
    return total


@loop(fastmath=FAST)
def _smallest(row: FloatArray) -> float:
    lanes = np.full(LANES, np.inf)
    whole = len(row) // LANES
    for start in range(whole):
        part = row[start * LANES : (start + 1) * LANES]
        for c in range(LANES):
            lanes[c] = min(lanes[c], part[c])
    least = np.inf
    for c in range(LANES):
        least = min(least, lanes[c])
    rest = row[whole * LANES :]
    for j in range(len(rest)):
        least = min(least, rest[j])
    return least


@loop(fastmath=FAST)
def _squares(row: FloatArray, own: float, norms: FloatArray) -> None:
    """Squared distances from inner products, in place."""
    for j in range(len(row)):
        row[j] = max(own + norms[j] - 2.0 * row[j], 0.0)


@loop(fastmath=FAST)
def _weigh(row: FloatArray, factor: float, columns: FloatArray) -> None:
    for j in range(len(row)):
        weight = row[j] * factor
        row[j] = weight
        columns[j] += weight


@loop()
def _class_row(
    row: FloatArray, i: int, begin: int, end: int, logarithm: bool, weight: float, columns: FloatArray
) -> float:
    """Value of one example, whose matches are rows `begin` to `end`; `row`, its distances, becomes the weights."""
    row[i] = np.inf
    own = _smallest(row[begin:end])
    nearest = min(own, _smallest(row[:begin]), _smallest(row[end:]))
    if nearest == np.inf or (logarithm and own == np.inf):  # no other example, or no match: a constant
        row[:] = 0.0
        return 0.0
    _exponentials(row[:begin], nearest)
    _exponentials(row[end:], nearest)
    others = _sum(row[:begin]) + _sum(row[end:])
    matches = share = 0.0
    if own < np.inf:
        _exponentials(row[begin:end], own)
        matches, share = _sum(row[begin:end]), np.exp(nearest - own)
    else:
        row[begin:end] = 0.0
    total = others + share * matches
    p = share * matches / total
    if logarithm:
        # q - p, where q is the softmax among the matches; 1 - p without cancellation.
        _weigh(row[:begin], -weight / total, columns[:begin])
        _weigh(row[end:], -weight / total, columns[end:])
        _weigh(row[begin:end], weight * others / (matches * total), columns[begin:end])
        # log1p of the sum over the other classes keeps the digits of values near 0.
        if share * matches > others:
            return float(weight * np.log1p(others / (share * matches)))
        return float(weight * (own - nearest + np.log(total) - np.log(matches)))
    _weigh(row[:begin], -weight * p / total, columns[:begin])
    _weigh(row[end:], -weight * p / total, columns[end:])
    _weigh(row[begin:end], weight * share * others / total**2, columns[begin:end])
    return float(-weight * p)


@loop(fastmath=STRICT)
def _soft_row(
    row: FloatArray, i: int, targets: FloatArray, logarithm: bool, weight: float, columns: FloatArray, match: FloatArray
) -> float:
    """Value of one example with soft matches ``exp(-(t_i - t_j)^2)``; `row`, its distances, becomes the weights."""
    n = len(row)
    row[i] = np.inf
    nearest = _smallest(row)
    if nearest == np.inf:  # no other example
        row[:] = 0.0
        return 0.0
    for j in range(n):
        difference = targets[i] - targets[j]
        match[j] = difference * difference
    if logarithm:
        for j in range(n):
            match[j] += row[j]
        own = _smallest(match)
        _exponentials(match, own)
        _exponentials(row, nearest)
        total, matches = _sum(row), _sum(match)
        for j in range(n):
            row[j] = weight * (match[j] / matches - row[j] / total)
            columns[j] += row[j]
        return float(weight * (own - nearest + np.log(total) - np.log(matches)))
    _exponentials(match, 0.0)
    _exponentials(row, nearest)
    total, matches = _sum(row), 0.0
    for j in range(n):
        matches += row[j] * match[j]
    p = matches / total
    for j in range(n):
        row[j] *= weight * (match[j] - p) / total
        columns[j] += row[j]
    return float(-weight * p)


@loop(fastmath=FAST)
def _regression_row(
    row: FloatArray, i: int, targets: FloatArray, weight: float, columns: FloatArray, away: FloatArray
) -> float:
    """Squared error of the mean target of one example's neighbors; `row`, its distances, becomes the weights."""
    row[i] = np.inf
    nearest = _smallest(row)
    if nearest == np.inf:  # no other example
        row[:] = 0.0
        return 0.0
    _exponentials(row, nearest)
    total, error = _sum(row), 0.0
    for j in range(len(row)):
        away[j] = targets[j] - targets[i]
        error += row[j] * away[j]
    error /= total
    for j in range(len(row)):
        row[j] *= -2.0 * weight * error * (away[j] - error) / total
        columns[j] += row[j]
    return float(weight * error * error)


@loop(nogil=True)
def weighted_rows(
    own: FloatArray,
    which: LongArray,
    transposed: FloatArray,
    norms: FloatArray,
    factors: FloatArray,
    begin: LongArray,
    end: LongArray,
    targets: FloatArray,
    loss: int,
    weights: FloatArray,
    height: int,
    part: int,
    values: FloatArray,
    products: FloatArray,
    columns: FloatArray,
    turned: FloatArray,
) -> None:
    """Values of some examples, and products of the weights ``w_ij = d value_i / d D_ij``.

    Row a of `products` becomes ``sum_j w_ij factors_j`` with ``i = which[a]``; part t adds ``sum_i w_ij`` to
    ``columns[t, j]`` and, where `turned` is not empty, ``sum_i w_ij own_i`` to ``turned[t, j]``.
    """
    n, m = len(norms), len(own)
    buffer = np.empty((height, n))
    match = np.empty(n if len(targets) else 0)
    for block in range(part, (m + height - 1) // height, len(columns)):
        top = block * height
        bottom = min(top + height, m)
        D = buffer[: bottom - top]
        np.dot(own[top:bottom], transposed, D)
        for k in range(bottom - top):
            i = which[top + k]
            _squares(D[k], norms[i], norms)
            if loss == SQUARED_ERROR:
                values[top + k] = _regression_row(D[k], i, targets, weights[i], columns[part], match)
            elif len(targets):
                values[top + k] = _soft_row(D[k], i, targets, loss == LOGARITHM, weights[i], columns[part], match)
            else:
                values[top + k] = _class_row(D[k], i, begin[i], end[i], loss == LOGARITHM, weights[i], columns[part])
        if len(products):
            np.dot(D, factors, products[top:bottom])
        if len(turned):
            turned[part] += np.dot(D.T, own[top:bottom])


def evaluate(
    X: FloatArray,
    L: FloatArray,
    begin: LongArray,
    end: LongArray,
    targets: FloatArray,
    loss: int,
    which: LongArray | None = None,
    *,
    weights: FloatArray | None = None,
    differentiate: bool = True,
) -> tuple[float, FloatArray]:
    """The sum of values of some examples, or of all, and its gradient in the factor L.

    The gradient is ``2 L X^T (diag(c) - W - W^T) X``, W the weights and c their column sums: two products with the
    embedding, or one with the data, whichever is less.
    """
    n, m = len(X), len(X) if which is None else len(which)
    height = max(FEWEST, min(MOST, BUFFER // n))
    parts = threads.parts(m // height, 1, most=threads.ACCUMULATORS)
    wide = X.shape[1] <= 2 * len(L)
    with threads.one_pool():
        Z = X @ L.T
        norms = np.einsum("ij,ij->i", Z, Z)
        everyone = which is None
        which = np.arange(n) if which is None else which
        own = Z if everyone else Z[which]
        factors = X if wide else Z
        values, products = np.zeros(m), np.zeros((m if differentiate else 0, factors.shape[1]))
        columns = np.zeros((parts, n))
        turned = np.zeros((parts if differentiate and not wide else 0, n, len(L)))
        matches = (begin, end, fixed(targets), int(loss), fixed(np.ones(n) if weights is None else weights))
        embedding = (np.ascontiguousarray(Z.T), norms, factors)
        rows, sums = (own, which, *embedding, *matches, height), (values, products, columns, turned)
        threads.run(lambda t: weighted_rows(*rows, t, *sums), parts)
        value, c = float(values.sum()), columns.sum(axis=0)
        if not differentiate:
            return value, np.zeros(L.shape)
        if wide:
            S = (X if everyone else X[which]).T @ products
            return value, 2 * L @ ((X.T * c) @ X - S - S.T)
        G = c[:, None] * Z - turned.sum(axis=0)
        if everyone:
            G -= products
        else:
            np.subtract.at(G, which, products)
        return value, 2 * G.T @ X
