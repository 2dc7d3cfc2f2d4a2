"""Rows of the softmax of NCA and MLKR, a block at a time: distances, log-sum-exp, value, weights of the gradient.

Each worker takes every so-many-th block of rows and keeps one (block, n) buffer, which fits the cache of a
core as long as n is moderate; nothing is ever (n, n). Sums are in float64 and in a fixed order.
The exponential is a polynomial that the compiler vectorizes, within 1e-15 of the exact one, relatively.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from sdpmetric.arrays import FloatArray, LongArray, allow_underflow
from sdpmetric.engine import threads
from sdpmetric.engine.lazy import FAST, fixed, loop
from sdpmetric.engine.threads import check_deadline
from sdpmetric.linalg.rigorous.directed import LOG2

# No reassociation in the exponential: its rounding by a large constant depends on the order of the operations.
STRICT = {"contract", "nsz"}
# The summands: minus a probability, minus its logarithm, or the squared error of a prediction.
PROBABILITY, LOGARITHM, SQUARED_ERROR = range(3)
# Of some examples the embedding and row numbers; all embeddings transposed, squared norms, and factors of products.
Embedding = tuple[FloatArray, LongArray, FloatArray, FloatArray, FloatArray]
# First and last but one row of each row's class, targets, the loss, and weights of the values.
Matches = tuple[LongArray, LongArray, FloatArray, int, FloatArray]
# What `weighted_rows` fills in: values, products, column sums, transposed products.
Sums = tuple[FloatArray, FloatArray, FloatArray, FloatArray]
# Pairs between two looks at the clock: 0.1 s.
PAIRS_AT_ONCE = 1 << 23
# exp(-708) is the smallest normal number; below it the polynomial's exponent would wrap around.
LOWEST = -708.0
# Of the exponential, the highest power first.
TAYLOR = tuple(1.0 / math.factorial(k) for k in range(13, -1, -1))
# Minima are taken of this many columns side by side; compilers vectorize that, but no running minimum.
LANES = 64


@loop(fastmath=STRICT, inline="always")
def _exp(x: float) -> float:
    """Return the exponential of a number that is not positive, without a branch, or 0 if it is no normal number."""
    y = max(x, LOWEST)
    # Adding 1.5 * 2^52 rounds to an integer, which is then in the low bits.
    shifted = y * 1.4426950408889634 + 6755399441055744.0
    k = shifted - 6755399441055744.0
    r = (y - k * LOG2[0]) - k * LOG2[1]
    p = 0.0
    for coefficient in TAYLOR:  # |r| <= log(2) / 2, so what is cut off is below 3e-17
        p = p * r + coefficient
    power = np.int64((np.float64(shifted).view(np.int64) + 1023) << 52).view(np.float64)
    return p * power if x > LOWEST else 0.0


# The loops below run over whole rows; callers pass parts of rows: a loop from a variable on is not vectorized, as an
# index might be negative, which means "from the end".


@loop(fastmath=STRICT)
def _exponentials(row: FloatArray, shift: float) -> None:
    """Set ``row = exp(shift - row)``."""
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
    n_blocks = len(row) // LANES
    for start in range(n_blocks):
        block = row[start * LANES : (start + 1) * LANES]
        for c in range(LANES):
            lanes[c] = min(lanes[c], block[c])
    minimum = np.inf
    for c in range(LANES):
        minimum = min(minimum, lanes[c])
    remainder = row[n_blocks * LANES :]
    for j in range(len(remainder)):
        minimum = min(minimum, remainder[j])
    return minimum


@loop(fastmath=FAST)
def _squares(row: FloatArray, norm: float, norms: FloatArray) -> None:
    """Replace inner products by squared distances."""
    for j in range(len(row)):
        row[j] = max(norm + norms[j] - 2.0 * row[j], 0.0)


@loop(fastmath=FAST)
def _weigh(row: FloatArray, factor: float, columns: FloatArray) -> None:
    for j in range(len(row)):
        weight = row[j] * factor
        row[j] = weight
        columns[j] += weight


@loop()
def _class_row(
    row: FloatArray, class_begin: int, class_end: int, logarithm: bool, weight: float, columns: FloatArray
) -> float:
    """Return the value of one example, matched by the rows of its class; `row`, its distances, becomes the weights."""
    nearest_match = _smallest(row[class_begin:class_end])
    nearest = min(nearest_match, _smallest(row[:class_begin]), _smallest(row[class_end:]))
    if nearest == np.inf or (logarithm and nearest_match == np.inf):  # no other example, or no match: a constant
        row[:] = 0.0
        return 0.0
    _exponentials(row[:class_begin], nearest)
    _exponentials(row[class_end:], nearest)
    other_sum = _sum(row[:class_begin]) + _sum(row[class_end:])
    matches = share = 0.0
    if nearest_match < np.inf:
        _exponentials(row[class_begin:class_end], nearest_match)
        matches, share = _sum(row[class_begin:class_end]), np.exp(nearest - nearest_match)
    else:
        row[class_begin:class_end] = 0.0
    total = other_sum + share * matches
    p = share * matches / total
    if logarithm:  # q - p, with q the softmax among the matches; 1 - p without cancellation
        slope_of_others, slope_of_matches = -weight / total, weight * other_sum / (matches * total)
    else:
        slope_of_others, slope_of_matches = -weight * p / total, weight * share * other_sum / total**2
    _weigh(row[:class_begin], slope_of_others, columns[:class_begin])
    _weigh(row[class_end:], slope_of_others, columns[class_end:])
    _weigh(row[class_begin:class_end], slope_of_matches, columns[class_begin:class_end])
    if not logarithm:
        return float(-weight * p)
    if share * matches > other_sum:  # log1p of the sum over the other classes keeps the digits of values near 0
        return float(weight * np.log1p(other_sum / (share * matches)))
    return float(weight * (nearest_match - nearest + np.log(total) - np.log(matches)))


@loop(fastmath=STRICT)
def _soft_row(
    row: FloatArray, i: int, targets: FloatArray, logarithm: bool, weight: float, columns: FloatArray, match: FloatArray
) -> float:
    """Return the value of an example with matches ``exp(-(t_i - t_j)^2)``; `row`, its distances, becomes weights."""
    n, nearest = len(row), _smallest(row)
    if nearest == np.inf:  # no other example that floats can tell from infinitely far
        row[:] = 0.0
        return 0.0
    for j in range(n):
        difference = targets[i] - targets[j]
        match[j] = difference * difference
    if logarithm:
        for j in range(n):
            match[j] += row[j]
        nearest_match = _smallest(match)
        _exponentials(match, nearest_match)
        _exponentials(row, nearest)
        total, matches = _sum(row), _sum(match)
        for j in range(n):
            row[j] = weight * (match[j] / matches - row[j] / total)
            columns[j] += row[j]
        return float(weight * (nearest_match - nearest + np.log(total) - np.log(matches)))
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
    row: FloatArray, i: int, targets: FloatArray, weight: float, columns: FloatArray, residuals: FloatArray
) -> float:
    """Return the squared error of the mean target of an example's neighbors; `row`, its distances, becomes weights."""
    nearest = _smallest(row)
    if nearest == np.inf:
        row[:] = 0.0
        return 0.0
    _exponentials(row, nearest)
    total, error = _sum(row), 0.0
    for j in range(len(row)):
        residuals[j] = targets[j] - targets[i]
        error += row[j] * residuals[j]
    error /= total
    for j in range(len(row)):
        row[j] *= -2.0 * weight * error * (residuals[j] - error) / total
        columns[j] += row[j]
    return float(weight * error * error)


@loop(nogil=True)
def weighted_rows(embedding: Embedding, matches: Matches, height: int, sums: Sums, worker: int) -> None:
    """Write values of some examples, and products of the weights ``w_ij = d value_i / d D_ij``.

    Row a of `products` becomes ``sum_j w_ij factors_j`` with ``i = anchor_rows[a]``; worker t adds ``sum_i w_ij`` to
    ``column_sums[t, j]`` and, if `transposed_products` is not empty, ``sum_i w_ij anchors_i`` to
    ``transposed_products[t, j]``.
    """
    anchors, anchor_rows, transposed, norms, factors = embedding
    class_begin, class_end, targets, loss, weights = matches
    values, products, column_sums, transposed_products = sums
    n, m = len(norms), len(anchors)
    buffer = np.empty((height, n))
    match = np.empty(n if len(targets) else 0)
    for block in range(worker, (m + height - 1) // height, len(column_sums)):
        top = block * height
        bottom = min(top + height, m)
        D = buffer[: bottom - top]
        np.dot(anchors[top:bottom], transposed, D)
        for k in range(bottom - top):
            i, row, columns = anchor_rows[top + k], D[k], column_sums[worker]
            _squares(row, norms[i], norms)
            row[i] = np.inf
            if loss == SQUARED_ERROR:
                values[top + k] = _regression_row(row, i, targets, weights[i], columns, match)
            elif len(targets):
                values[top + k] = _soft_row(row, i, targets, loss == LOGARITHM, weights[i], columns, match)
            else:
                own_class = class_begin[i], class_end[i]
                values[top + k] = _class_row(row, *own_class, loss == LOGARITHM, weights[i], columns)
        if len(products):
            np.dot(D, factors, products[top:bottom])
        if len(transposed_products):
            transposed_products[worker] += np.dot(D.T, anchors[top:bottom])


@allow_underflow
def evaluate(
    X: FloatArray,
    L: FloatArray,
    spans: tuple[LongArray, LongArray],
    targets: FloatArray,
    loss: int,
    weights: FloatArray,
    anchor_rows: LongArray | None = None,
    differentiate: bool = True,
) -> tuple[float, FloatArray]:
    """Return the sum of values of some examples, or of all, and its gradient in the factor L.

    The gradient is ``2 L X^T (diag(c) - W - W^T) X``, W the weights and c their column sums: two products with the
    embedding, or one with the data, whichever is less.
    """
    n, m = len(X), len(X) if anchor_rows is None else len(anchor_rows)
    height = max(16, min(128, 80_000 // n))  # a core's second-level cache holds the buffer and its other factor
    n_workers = threads.part_count(m // height, 1, max_parts=threads.ACCUMULATORS)
    in_features = X.shape[1] <= 2 * len(L)
    with threads.one_pool():
        Z = X @ L.T
        norms = np.einsum("ij,ij->i", Z, Z)
        is_full = anchor_rows is None
        anchor_rows = np.arange(n) if anchor_rows is None else anchor_rows
        anchors = Z if is_full else Z[anchor_rows]
        factors = X if in_features else Z
        values, products = np.zeros(m), np.zeros((m if differentiate else 0, factors.shape[1]))
        column_sums = np.zeros((n_workers, n))
        transposed_products = np.zeros((n_workers if differentiate and not in_features else 0, n, len(L)))
        columns, matches = np.ascontiguousarray(Z.T), (*spans, fixed(targets), loss, fixed(weights))
        n_rows = height * n_workers * max(1, PAIRS_AT_ONCE // (height * n_workers * n))
        for first in range(0, m, n_rows):
            check_deadline()
            rows = slice(first, first + n_rows)
            embedding = anchors[rows], anchor_rows[rows], columns, norms, factors
            sums = values[rows], products[rows], column_sums, transposed_products
            threads.run(partial(weighted_rows, embedding, matches, height, sums), n_workers)
        value, c = float(values.sum()), column_sums.sum(axis=0)
        if not differentiate:
            return value, np.zeros(L.shape)
        if in_features:
            S = (X if is_full else X[anchor_rows]).T @ products
            return value, 2 * L @ ((X.T * c) @ X - S - S.T)
        G = c[:, None] * Z - transposed_products.sum(axis=0)
        np.subtract.at(G, anchor_rows, products)
        return value, 2 * G.T @ X
