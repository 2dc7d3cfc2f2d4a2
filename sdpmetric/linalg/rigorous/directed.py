"""Arithmetic, sums and matrices rounded outward."""

from __future__ import annotations

import math
from typing import Literal, get_args

import numpy as np
import scipy.linalg.lapack

from sdpmetric.arrays import FloatArray

# A proof accounts for every rounding; for those after a program was compiled; or up to an unproven allowance.
Rigor = Literal["float", "compiled", "rounding"]
# From the strongest to the weakest.
RIGORS: tuple[Rigor, ...] = get_args(Rigor)
U = 2.0**-53
# The smallest positive float: underflow takes at most this from a sum, a product, a quotient or a square root.
TINY = 2.0**-1074
# Above it underflow is less than the rounding that is allowed for; sums with the smallest float are slow.
SMALL = 1e-290
# The logarithm of 2 in two parts: products of the first with whole numbers below 2^20 are exact.
LOG2 = (0.6931471803691238, 1.9082149292705877e-10)


def gamma(n: float) -> float:
    """Return ``n u / (1 - n u)``, rounded upward, or infinity for ``n u >= 1``."""
    return n * U / (1.0 - n * U) * (1.0 + 8.0 * U) if n * U < 0.5 else math.inf


def square(value: float) -> float:
    """Return a square, infinity if it overflows; ``**`` would raise an error."""
    return value * value


def above(value: float, roundings: float = 1) -> float:
    """Return a float not below the exact value of a nonnegative expression, from its computed value.

    Only underflow of the last operations is allowed for, and a value of 0 counts as exact. For squares of small numbers
    with large weights use `product_above`, `products_above` and `squares_above`.
    """
    if not value > 0.0:
        return value
    return math.nextafter(value * (1.0 + gamma(roundings + 2)) + roundings * TINY, math.inf)


def product_above(*factors: float) -> float:
    """Return a float not below the exact product of nonnegative floats, whatever over- or underflows on the way."""
    if 0.0 in factors:
        return 0.0
    mantissas = [math.frexp(factor) for factor in factors]
    return scaled_above(
        above(math.prod(mantissa for mantissa, _ in mantissas), len(mantissas)), sum(power for _, power in mantissas)
    )


def scaled_above(value: float, power: int) -> float:
    """Return a float not below ``2^power`` times a nonnegative one."""
    if not power or not 0.0 < value < math.inf:
        return value
    try:
        return math.nextafter(math.ldexp(value, power), math.inf)
    except OverflowError:
        return math.inf


def products_above(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return floats not below the exact products of nonnegative floats, entry by entry."""
    return np.where((a > 0.0) & (b > 0.0), np.nextafter(a * b, np.inf), 0.0)


def below(value: float, roundings: float = 1) -> float:
    """Return a float not above the exact value of a nonnegative expression; see `above`."""
    if not value > 0.0:
        return value
    return max(0.0, math.nextafter(value * (1.0 - gamma(roundings + 2)) - roundings * TINY, -math.inf))


def all_above(values: FloatArray, roundings: float = 1) -> FloatArray:
    """Return floats not below nonnegative expressions, from their computed values; see `above`."""
    bounds = np.where(values > 0.0, np.nextafter(values * (1.0 + gamma(roundings + 2)), np.inf), values)
    small = (values > 0.0) & (values < SMALL)
    if small.any():
        bounds[small] += roundings * TINY
    return bounds


def all_below(values: FloatArray, roundings: float = 1) -> FloatArray:
    """Return floats not above nonnegative expressions, from their computed values; see `below`."""
    bounds = np.where(values > 0.0, np.nextafter(values * (1.0 - gamma(roundings + 2)), 0.0), values)
    small = (values > 0.0) & (values < SMALL)
    if small.any():
        bounds[small] = np.maximum(0.0, bounds[small] - roundings * TINY)
    return bounds


def sum_above(values: FloatArray) -> float:
    """Return a float not below the exact sum of floats of any signs, or infinity if partial sums overflow."""
    try:
        total = math.fsum(values)  # the nearest float; 0 only if the exact sum is 0
    except (OverflowError, ValueError):
        return math.inf
    return math.nextafter(total, math.inf) if total else total


def sum_below(values: FloatArray) -> float:
    """Return a float not above the exact sum of floats of any signs."""
    return -sum_above(-np.asarray(values))


def _log_series(s: FloatArray) -> FloatArray:
    """Return ``2 (s + s^3 / 3 + ... + s^25 / 25)``, about ``log((1 + s) / (1 - s))``."""
    square, series = s * s, np.zeros_like(s)
    for k in range(12, -1, -1):
        series = series * square + 1.0 / (2 * k + 1)
    return 2.0 * s * series


def log_bounds(x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return floats below and above the natural logarithms of positive floats, of any shape.

    With ``x = m 2^e``, m between 0.7 and 1.42, and ``s = (m - 1) / (m + 1)``, ``log m = 2 (s + s^3 / 3 + ...)``. The
    terms have one sign; after 13 terms the rest is below ``2^-60`` of the first.
    """
    m, e = np.frexp(x)
    low = m < math.sqrt(0.5)
    m, e = np.where(low, 2.0 * m, m), np.where(low, e - 1, e).astype(np.float64)
    log_mantissa = _log_series((m - 1.0) / (m + 1.0))  # m - 1 is exact
    value = log_mantissa + e * math.log(2.0)
    error = gamma(64) * np.abs(log_mantissa) + gamma(8) * (np.abs(e) + np.abs(value))
    return np.nextafter(value - error, -np.inf), np.nextafter(value + error, np.inf)


def log1p_bounds(x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return floats below and above ``log(1 + x)`` for floats of at least -1, of any shape; minus infinity at -1.

    Where ``|x| <= 1/4``, by the series of `log_bounds` with ``s = x / (2 + x)``, of at most 1/7; relative errors stay
    small there. Tiny x lie between ``x - x^2`` and x.
    """
    x = np.asarray(x, dtype=np.float64)
    low, high = np.array(x), np.array(x)
    size = np.abs(x)
    is_small, is_large = (size <= 0.25) & (size >= 1e-200), size > 0.25
    log_small = _log_series(x[is_small] / (2.0 + x[is_small]))
    error = gamma(72) * np.abs(log_small)
    low[is_small], high[is_small] = log_small - error, log_small + error
    y = 1.0 + x[is_large]
    log_y = log_bounds(np.where(y > 0.0, y, 1.0))
    # 1 + x was rounded, by a share of u at most
    low[is_large], high[is_large] = (
        np.where(y > 0.0, bound, -np.inf) for bound in (log_y[0] - 1.01 * U, log_y[1] + 1.01 * U)
    )
    return np.nextafter(low, -np.inf), np.where(size < 1e-200, high, np.nextafter(high, np.inf))


def exp_bounds(x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return floats below and above the exponentials of floats, of any shape; that of minus infinity is 0.

    With ``x = k log 2 + r``, k whole and ``|r| <= 0.35``, the series of ``exp r`` is cut off after 13 powers; the
    rest is below ``u / 10``. The subtraction of ``k log 2`` in two parts errs by less than u, the series by at most
    ``gamma_30 exp |r|``.
    """
    x = np.asarray(x, dtype=np.float64)
    clipped = np.clip(x, -800.0, 800.0)
    k = np.rint(clipped / math.log(2.0))
    r = (clipped - k * LOG2[0]) - k * LOG2[1]
    series = np.full_like(r, 1.0 / math.factorial(13))
    for power in range(12, -1, -1):
        series = series * r + 1.0 / math.factorial(power)
    g, power_of_two = gamma(96), k.astype(np.int32)
    with np.errstate(over="ignore"):
        low = np.nextafter(np.ldexp(series * (1.0 - g), power_of_two), -np.inf)
        high = np.nextafter(np.ldexp(series * (1.0 + g), power_of_two), np.inf)
    return np.where(x == -np.inf, 0.0, np.maximum(low, 0.0)), np.where(x == -np.inf, 0.0, high)


# More than underflow takes from the root of a sum of fewer than 2^30 squares, and from a product of two floats.
ROOT = 2.0**-520
PRODUCT = 1e-307
# Entries of a matrix are at most this far from the identity's if its logarithm of the determinant is a short series.
NEAR_IDENTITY = 1e-4


def least_eigenvalue(A: FloatArray) -> float:
    """Return a float not above the least eigenvalue of a symmetric matrix of floats [R2006]; infinity if empty.

    A multiple of the identity is added until Cholesky's method succeeds. Its rounding is taken with a few operations
    to spare, for libraries that multiply by reciprocals.
    """
    n = len(A)
    if n == 0:
        return math.inf
    if not np.isfinite(A).all():
        return -math.inf
    values = np.linalg.eigvalsh(A)
    size = float(np.abs(values).max())
    slack = 2.0 * n * U * size + 1e-300
    for _ in range(40):
        shift = slack - float(values[0])
        shifted = A + shift * np.eye(n)
        try:
            np.linalg.cholesky(shifted)
        except np.linalg.LinAlgError:
            slack *= 2.0
            continue
        diagonal = np.diag(shifted)
        error = above(
            (gamma(n + 8) + gamma(2 * n + 16) ** 2) * float(diagonal.sum()) + U * float(diagonal.max()), 2 * n
        )
        return math.nextafter(-shift - math.nextafter(error + 1e-300, math.inf), -math.inf)
    return -math.inf


def largest_eigenvalue(A: FloatArray) -> float:
    """Return a float not below the largest eigenvalue of a symmetric matrix of floats; minus infinity if empty."""
    return -least_eigenvalue(-A)


def norms_above(A: FloatArray) -> FloatArray:
    """Return floats not below the Euclidean norms of the rows of a matrix of floats, (n,)."""
    norms: FloatArray = np.sqrt(np.einsum("ij,ij->i", A, A)) * (1.0 + gamma(A.shape[1] + 4))
    return norms + np.where(A.any(axis=1), ROOT, 0.0)


def squares_above(A: FloatArray) -> float:
    """Return a float not below the sum of the squares of floats."""
    return above(float(np.vdot(A, A)) + (PRODUCT if A.any() else 0.0), A.size + 2)


def norm_above(A: FloatArray) -> float:
    """Return a float not below the root of the sum of the squares of floats."""
    return above(math.sqrt(float(np.vdot(A, A))) + (ROOT if A.any() else 0.0), A.size + 3)


def metric_norm_above(L: FloatArray, metric: FloatArray | None = None) -> float:
    """Return a float not below ``||L^T L||_F`` for a factor of floats, (r, d), nor below the norm of a near metric."""
    short = L if len(L) <= L.shape[1] else L.T
    rounding = gamma(short.shape[1] + 2) * squares_above(short)
    norm = above(norm_above(short @ short.T) + rounding, L.size + 4)
    norm = norm if math.isfinite(norm) else math.inf  # products that overflow may be NaN
    return norm if metric is None else max(norm, norm_above(metric))


def trace_above(L: FloatArray, metric: FloatArray | None = None) -> float:
    """Return a float not below ``trace(L^T L)`` for a factor of floats, (r, d), nor below that of a metric near it."""
    trace = squares_above(L)
    return trace if metric is None else max(trace, sum_above(np.diag(metric)))


def gram_errors(L: FloatArray, metric: FloatArray) -> FloatArray:
    """Return how far the entries of ``L^T L`` may be from those of a metric of floats, (d, d)."""
    size = np.abs(L).T @ np.abs(L) + np.abs(metric)
    return np.asarray((np.abs(metric - L.T @ L) + gamma(len(L) + 6) * size) * (1.0 + gamma(4))) + 4.0 * len(L) * TINY


def _log_det_near_identity(B: FloatArray, errors: FloatArray) -> tuple[float, float]:
    """Return floats below and above ``log det`` of every symmetric matrix within `errors` of B, entry by entry.

    With ``I + X`` the matrix and ``||X||_F <= r < 1``, ``trace(X) - ||X||_F^2 / (2 (1 - r)) <= log det <= trace(X)``.
    Return infinite bounds unless r is below 1/2.
    """
    X = B - np.eye(len(B))  # exact for entries of B between 1/2 and 2
    radius = above(norm_above(X) + norm_above(errors), 2)
    if not radius < 0.5:
        return -math.inf, math.inf
    diagonal, error = np.diag(X), above(float(np.trace(errors)), len(B) + 1)
    second = above(radius * radius / (2.0 * (1.0 - radius)), 6)
    return sum_below(np.append(diagonal, [-error, -second])), sum_above(np.append(diagonal, error))


def log_det_gram(L: FloatArray) -> tuple[float, float]:
    """Return floats below and above ``log det(L^T L)`` for a matrix of floats, (m, r).

    With any upper triangular W it is ``log det(W^T L^T L W) - 2 sum log |w_kk|``; the inverse of a computed R of L
    makes ``L W`` nearly orthonormal. Return minus infinity and infinity if nothing is proven, as for singular matrices.
    """
    m, r = L.shape
    if r == 0:
        return 0.0, 0.0
    if m < r or not np.isfinite(L).all():
        return -math.inf, math.inf
    R = np.asarray(np.linalg.qr(L, mode="r"))
    if not (np.abs(np.diag(R)) > 1e-150).all():
        return -math.inf, math.inf
    W = np.triu(scipy.linalg.lapack.dtrtri(R)[0])
    if not np.isfinite(W).all():
        return -math.inf, math.inf
    B, E = L @ W, gamma(r + 2) * (np.abs(L) @ np.abs(W)) + r * PRODUCT
    size = np.abs(B) + E
    errors = (gamma(m + 4) * (size.T @ size) + 2.0 * (size.T @ E)) * (1.0 + gamma(m + 8)) + m * PRODUCT
    gram = B.T @ B
    low, high = _log_det_near_identity(0.5 * (gram + gram.T), np.maximum(errors, errors.T))
    logs = log_bounds(np.abs(np.diag(W)))
    return sum_below(np.append(-2.0 * logs[1], low)), sum_above(np.append(-2.0 * logs[0], high))


def congruence(A: FloatArray, W: FloatArray, error: float = 0.0) -> tuple[FloatArray, FloatArray]:
    """Return ``W^T A W`` and how far its entries may be off, for a symmetric matrix within `error` of A."""
    n, T, sizes = len(A), A @ W, np.abs(W)
    B = W.T @ T
    E = gamma(2 * n + 8) * (sizes.T @ (np.abs(A) @ sizes)) * (1.0 + gamma(2 * n + 8))
    E += n * PRODUCT * (2.0 + sizes.sum())
    if error:
        long = norms_above(W.T)
        E += np.outer(long, long) * above(error, 6)
    return 0.5 * (B + B.T), np.maximum(E, E.T) * (1.0 + gamma(8))


def log_det(A: FloatArray, error: float = 0.0) -> tuple[float, float]:
    """Return floats below and above ``log det`` of a symmetric matrix that is within `error` of a matrix of floats.

    With W the eigenvectors over the roots of the eigenvalues, as computed, ``W^T A W`` is nearly the identity, and
    ``log det(A) = log det(W^T A W) - log det(W^T W)``. A may be nearly the identity itself.
    """
    if len(A) == 0:
        return 0.0, 0.0
    if not (np.isfinite(A).all() and math.isfinite(error)):
        return -math.inf, math.inf
    if np.abs(A - np.eye(len(A))).max() < NEAR_IDENTITY:
        return _log_det_near_identity(A, error * np.eye(len(A)))  # of its norm and trace
    values, vectors = np.linalg.eigh(A)
    if not values[0] > 1e-290:
        return -math.inf, math.inf
    W = vectors / np.sqrt(values)
    low, high = _log_det_near_identity(*congruence(A, W, error))
    scale = log_det_gram(W)
    if not (math.isfinite(low) and math.isfinite(scale[0])):
        return -math.inf, math.inf
    return math.nextafter(low - scale[1], -math.inf), math.nextafter(high - scale[0], math.inf)


def log_det_balanced(A: FloatArray) -> tuple[float, float]:
    """Return `log_det` of a symmetric matrix of floats, in units, powers of 2, that make its diagonal about 1."""
    sizes = np.diag(A)
    if not (sizes > 0.0).all():
        return -math.inf, math.inf
    powers = np.frexp(np.sqrt(sizes))[1]
    balanced, power = np.ldexp(A, -powers - powers[:, None]), 2 * int(powers.sum())
    if not power or not np.array_equal(np.ldexp(balanced, powers + powers[:, None]), A):
        return log_det(A)
    shift = sorted(power * float(log_two) for log_two in log_bounds(np.array(2.0)))
    low, high = log_det(balanced)
    return (
        sum_below(np.array([low, math.nextafter(shift[0], -math.inf)])) if math.isfinite(low) else low,
        sum_above(np.array([high, math.nextafter(shift[1], math.inf)])) if math.isfinite(high) else high,
    )
