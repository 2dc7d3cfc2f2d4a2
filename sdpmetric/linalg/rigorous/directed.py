"""Directed rounding: floats above and below sums, logarithms, exponentials, entropies."""

from __future__ import annotations

import math

import numpy as np

from sdpmetric.arrays import FloatArray

U = 2.0**-53
# The smallest positive float: underflow takes at most this from a sum, a product, a quotient or a square root.
TINY = 2.0**-1074
# From here on underflow is less than the rounding that is allowed for; sums with the smallest float are slow.
SMALL = 1e-290
# The logarithm of 2 in two parts: products of the first with whole numbers below 2^20 are exact.
LOG2 = (0.6931471803691238, 1.9082149292705877e-10)
# Shares of the largest entry of a distribution below the first count as 0; more than underflow takes from a sum.
SMALLEST_SHARE, UNDERFLOWN = 1e-280, 1e-290


def gamma(n: float) -> float:
    """``n u / (1 - n u)``, rounded upward; infinity where it says nothing."""
    return n * U / (1.0 - n * U) * (1.0 + 8.0 * U) if n * U < 0.5 else math.inf


def square(value: float) -> float:
    """A square, infinity where it is too large for a float; ``**`` raises an error there."""
    return value * value


def above(value: float, roundings: float = 1) -> float:
    """A float not below the exact value of a nonnegative expression, from its computed value.

    Of underflow only that of the last operations is allowed for, and a value of 0 counts as exact: where squares of
    small numbers meet large weights, take `product_above`, `products_above` and `squares_above`.
    """
    if not value > 0.0:
        return value
    return math.nextafter(value * (1.0 + gamma(roundings + 2)) + roundings * TINY, math.inf)


def product_above(*factors: float) -> float:
    """A float not below the exact product of nonnegative floats, whatever over- or underflows on the way."""
    if 0.0 in factors:
        return 0.0
    parts = [math.frexp(factor) for factor in factors]
    return scaled_above(above(math.prod(part for part, _ in parts), len(parts)), sum(power for _, power in parts))


def scaled_above(value: float, power: int) -> float:
    """A float not below ``2^power`` times a nonnegative one."""
    if not power or not 0.0 < value < math.inf:
        return value
    try:
        return math.nextafter(math.ldexp(value, power), math.inf)
    except OverflowError:
        return math.inf


def products_above(a: FloatArray, b: FloatArray) -> FloatArray:
    """Floats not below the exact products of nonnegative floats, entry by entry."""
    return np.where((a > 0.0) & (b > 0.0), np.nextafter(a * b, np.inf), 0.0)


def below(value: float, roundings: float = 1) -> float:
    """A float not above the exact value of a nonnegative expression; see `above`."""
    if not value > 0.0:
        return value
    return max(0.0, math.nextafter(value * (1.0 - gamma(roundings + 2)) - roundings * TINY, -math.inf))


def all_above(values: FloatArray, roundings: float = 1) -> FloatArray:
    """Floats not below nonnegative expressions, from their computed values; see `above`."""
    most = np.where(values > 0.0, np.nextafter(values * (1.0 + gamma(roundings + 2)), np.inf), values)
    small = (values > 0.0) & (values < SMALL)
    if small.any():
        most[small] += roundings * TINY
    return most


def all_below(values: FloatArray, roundings: float = 1) -> FloatArray:
    """Floats not above nonnegative expressions, from their computed values; see `below`."""
    least = np.where(values > 0.0, np.nextafter(values * (1.0 - gamma(roundings + 2)), 0.0), values)
    small = (values > 0.0) & (values < SMALL)
    if small.any():
        least[small] = np.maximum(0.0, least[small] - roundings * TINY)
    return least


def sum_above(values: FloatArray) -> float:
    """A float not below the exact sum of floats of any signs; infinity where partial sums are too large for floats."""
    try:
        total = math.fsum(values)  # the nearest float; 0 only where the exact sum is 0
    except (OverflowError, ValueError):
        return math.inf
    return math.nextafter(total, math.inf) if total else total


def sum_below(values: FloatArray) -> float:
    """A float not above the exact sum of floats of any signs."""
    return -sum_above(-np.asarray(values))


def log_bounds(x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Floats below and above the natural logarithms of positive floats, of any shape.

    With ``x = m 2^e``, m between 0.7 and 1.42, and ``s = (m - 1) / (m + 1)``, ``log m = 2 (s + s^3 / 3 + ...)``, whose
    terms have one sign; after 13 terms the rest is below ``2^-60`` of the first.
    """
    m, e = np.frexp(x)
    low = m < math.sqrt(0.5)
    m, e = np.where(low, 2.0 * m, m), np.where(low, e - 1, e).astype(np.float64)
    s = (m - 1.0) / (m + 1.0)  # m - 1 is exact
    square, series = s * s, np.zeros_like(s)
    for k in range(12, -1, -1):
        series = series * square + 1.0 / (2 * k + 1)
    part = 2.0 * s * series
    value = part + e * math.log(2.0)
    error = gamma(64) * np.abs(part) + gamma(8) * (np.abs(e) + np.abs(value))
    return np.nextafter(value - error, -np.inf), np.nextafter(value + error, np.inf)


def log1p_bounds(x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Floats below and above ``log(1 + x)`` for floats of at least -1, of any shape; minus infinity at -1.

    Where ``|x| <= 1/4``, by the series of `log_bounds` with ``s = x / (2 + x)``, of at most 1/7; relative errors stay
    small there. Tiny x lie between ``x - x^2`` and x.
    """
    x = np.asarray(x, dtype=np.float64)
    low, high = np.array(x), np.array(x)
    size = np.abs(x)
    near, apart = (size <= 0.25) & (size >= 1e-200), size > 0.25
    s = x[near] / (2.0 + x[near])
    square, series = s * s, np.zeros_like(s)
    for k in range(12, -1, -1):
        series = series * square + 1.0 / (2 * k + 1)
    part = 2.0 * s * series
    error = gamma(72) * np.abs(part)
    low[near], high[near] = part - error, part + error
    y = 1.0 + x[apart]
    ends = log_bounds(np.where(y > 0.0, y, 1.0))
    # 1 + x was rounded, by a share of u at most
    low[apart], high[apart] = (np.where(y > 0.0, end, -np.inf) for end in (ends[0] - 1.01 * U, ends[1] + 1.01 * U))
    return np.nextafter(low, -np.inf), np.where(size < 1e-200, high, np.nextafter(high, np.inf))


def exp_bounds(x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Floats below and above the exponentials of floats, of any shape; minus infinity is allowed, its exponential is 0.

    With ``x = k log 2 + r``, k whole and ``|r| <= 0.35``, the series of ``exp r`` is cut off after 13 powers, where the
    rest is below ``u / 10``. The subtraction of ``k log 2`` in two parts errs by less than u, the series by at most
    ``gamma_30 exp |r|``.
    """
    x = np.asarray(x, dtype=np.float64)
    within = np.clip(x, -800.0, 800.0)
    k = np.rint(within / math.log(2.0))
    r = (within - k * LOG2[0]) - k * LOG2[1]
    series = np.full_like(r, 1.0 / math.factorial(13))
    for power in range(12, -1, -1):
        series = series * r + 1.0 / math.factorial(power)
    g, power_of_two = gamma(96), k.astype(np.int32)
    with np.errstate(over="ignore"):
        low = np.nextafter(np.ldexp(series * (1.0 - g), power_of_two), -np.inf)
        high = np.nextafter(np.ldexp(series * (1.0 + g), power_of_two), np.inf)
    return np.where(x == -np.inf, 0.0, np.maximum(low, 0.0)), np.where(x == -np.inf, 0.0, high)


def log_sum_exp(low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Floats below and above ``log sum_k exp(x_k)`` over the last axis, for exact x between two arrays of floats."""
    top = high.max(axis=-1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    g = gamma(high.shape[-1] + 4)
    least = exp_bounds(np.nextafter(low - top, -np.inf))[0].sum(axis=-1) * (1.0 - g)
    most = exp_bounds(np.nextafter(high - top, np.where(high == -np.inf, -np.inf, np.inf)))[1].sum(axis=-1) * (1.0 + g)
    top = top[..., 0]
    with np.errstate(invalid="ignore"):
        below = np.nextafter(log_bounds(np.where(least > 0.0, least, 1.0))[0] + top, -np.inf)
        above = np.nextafter(log_bounds(np.where(most > 0.0, most, 1.0))[1] + top, np.inf)
    return np.where(least > 0.0, below, -np.inf), np.where(most > 0.0, above, -np.inf)


def distributions(q: FloatArray) -> FloatArray:
    """Nonnegative rows divided by their sums: an exact distribution lies within two roundings of each."""
    q = q / q.max(axis=1, keepdims=True)
    q[q < SMALLEST_SHARE] = 0.0
    return np.asarray(q / np.array([[math.fsum(row)] for row in q.tolist()]))


def entropies(q: FloatArray, roundings: int = 0) -> tuple[FloatArray, FloatArray]:
    """Floats below and above ``-sum_k p_k log p_k`` over the last axis, 0 log 0 = 0.

    As ``-p log p`` has the slope ``-log p - 1``, a relative change of p by g changes it by about ``p g |1 + log p|``.
    """
    logs = log_bounds(np.where(q > 0.0, q, 1.0))
    size = np.maximum(np.abs(logs[0]), np.abs(logs[1]))
    error = q * (gamma(roundings + 2) * (size + 2.0) + gamma(q.shape[-1] + 4) * size)
    slack = error.sum(axis=-1) * (1.0 + gamma(q.shape[-1] + 8)) + UNDERFLOWN
    low, high = (-q * logs[1]).sum(axis=-1) - slack, (-q * logs[0]).sum(axis=-1) + slack
    return np.nextafter(low, -np.inf), np.nextafter(high, np.inf)
