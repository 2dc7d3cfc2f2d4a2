"""Numbers beyond eigenvalues, norms and log determinants of matrices of floats, all rounding included."""

from __future__ import annotations

import math

import numpy as np
import scipy.linalg

from sdpmetric.arrays import FloatArray
from sdpmetric.linalg.rigorous.directed import (
    TINY,
    U,
    above,
    all_above,
    gamma,
    log_bounds,
    scaled_above,
    sum_above,
    sum_below,
)

# Sums of squares that may miss some by underflow.
SMALL_SQUARE = 1e-260


def least_eigenvalue(A: FloatArray) -> float:
    """A float not above the least eigenvalue of a symmetric matrix of floats [R2006]; infinity for the empty matrix.

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
    """A float not below the largest eigenvalue of a symmetric matrix of floats; minus infinity for the empty matrix."""
    return -least_eigenvalue(-A)


def norms_above(A: FloatArray) -> FloatArray:
    """Floats not below the Euclidean norms of the rows of a matrix of floats, (n,)."""
    squares = np.einsum("ij,ij->i", A, A)
    norms: FloatArray = np.sqrt(squares) * (1.0 + gamma(A.shape[1] + 4))
    if squares.min(initial=1.0) < SMALL_SQUARE:  # some may have underflowed
        small = squares < SMALL_SQUARE
        top = np.abs(A[small]).max(axis=1, initial=0.0)
        rows = A[small] / np.where(top > 0.0, top, 1.0)[:, None]
        norms[small] = all_above(top * np.sqrt(np.einsum("ij,ij->i", rows, rows)), A.shape[1] + 6)
    return norms


def squares_above(A: FloatArray) -> float:
    """A float not below the sum of the squares of floats."""
    found, power = _squares(A)
    return scaled_above(above(found, A.size + 1), 2 * power)


def norm_above(A: FloatArray) -> float:
    """A float not below the Frobenius norm of a matrix of floats."""
    found, power = _squares(A)
    return scaled_above(above(math.sqrt(found), A.size + 2), power)


def _squares(A: FloatArray) -> tuple[float, int]:
    """The sum of squares of floats divided by ``2^power``, and the power, 0 unless they over- or underflow."""
    with np.errstate(over="ignore"):
        found = float(np.sum(A * A))
    if SMALL_SQUARE < found < 1.0 / SMALL_SQUARE:
        return found, 0
    top = float(np.abs(A).max(initial=0.0))
    power = math.frexp(top)[1] if 0.0 < top < math.inf else 0
    return float(np.sum(np.ldexp(A, -power) ** 2)), power


def metric_norm_above(L: FloatArray, metric: FloatArray | None = None) -> float:
    """A float not below ``||L^T L||_F`` for a factor of floats, (r, d), nor below the norm of a metric near it."""
    short = L if len(L) <= L.shape[1] else L.T
    total, power = _squares(short)
    short = np.ldexp(short, -power) if power else short
    rounding = gamma(short.shape[1] + 2) * total
    found = scaled_above(above(norm_above(short @ short.T) + rounding, L.size + 4), 2 * power)
    return found if metric is None else max(found, norm_above(metric))


def trace_above(L: FloatArray, metric: FloatArray | None = None) -> float:
    """A float not below ``trace(L^T L)`` for a factor of floats, (r, d), nor below that of a metric near it."""
    found = squares_above(L)
    return found if metric is None else max(found, sum_above(np.diag(metric)))


def gram_off(L: FloatArray, metric: FloatArray) -> FloatArray:
    """How far the entries of ``L^T L`` may be from those of a metric of floats, (d, d)."""
    size = np.abs(L).T @ np.abs(L) + np.abs(metric)
    return np.asarray((np.abs(metric - L.T @ L) + gamma(len(L) + 6) * size) * (1.0 + gamma(4))) + 4.0 * len(L) * TINY


def _log_det_near_identity(B: FloatArray, errors: FloatArray) -> tuple[float, float]:
    """Floats below and above ``log det`` of every symmetric matrix within `errors` of B, entry by entry.

    With ``I + X`` the matrix and ``||X||_F <= r < 1``, ``trace(X) - ||X||_F^2 / (2 (1 - r)) <= log det <= trace(X)``.
    Infinite where r is not below 1/2.
    """
    X = B - np.eye(len(B))  # exact where B is between 1/2 and 2
    off = above(norm_above(X) + norm_above(errors), 2)
    if not off < 0.5:
        return -math.inf, math.inf
    diagonal, error = np.diag(X), above(float(np.trace(errors)), len(B) + 1)
    second = above(off * off / (2.0 * (1.0 - off)), 6)
    return sum_below(np.append(diagonal, [-error, -second])), sum_above(np.append(diagonal, error))


def log_det_gram(L: FloatArray) -> tuple[float, float]:
    """Floats below and above ``log det(L^T L)`` for a matrix of floats, (m, r).

    With any upper triangular W it is ``log det(W^T L^T L W) - 2 sum log |w_kk|``; the inverse of a computed R of L
    makes ``L W`` nearly orthonormal. Minus infinity and infinity where nothing is proven, as for singular matrices.
    """
    m, r = L.shape
    if r == 0:
        return 0.0, 0.0
    if m < r or not np.isfinite(L).all():
        return -math.inf, math.inf
    R = np.asarray(np.linalg.qr(L, mode="r"))
    if not (np.abs(np.diag(R)) > 1e-150).all():
        return -math.inf, math.inf
    W = np.triu(scipy.linalg.solve_triangular(R, np.eye(r)))
    if not np.isfinite(W).all():
        return -math.inf, math.inf
    B, E = L @ W, gamma(r + 2) * (np.abs(L) @ np.abs(W)) + _underflow(r, L, W)
    size = np.abs(B) + E
    errors = (gamma(m + 4) * (size.T @ size) + 2.0 * (size.T @ E)) * (1.0 + gamma(m + 8)) + _underflow(m, B, B)
    low, high = _log_det_near_identity(0.5 * (B.T @ B + (B.T @ B).T), np.maximum(errors, errors.T))
    logs = log_bounds(np.abs(np.diag(W)))
    return sum_below(np.append(-2.0 * logs[1], low)), sum_above(np.append(-2.0 * logs[0], high))


def congruence(A: FloatArray, W: FloatArray, error: float = 0.0) -> tuple[FloatArray, FloatArray]:
    """``W^T A W`` and how far its entries may be off, for a symmetric matrix within `error` of A."""
    n, T, sizes = len(A), A @ W, np.abs(W)
    B = W.T @ T
    E = gamma(2 * n + 8) * (sizes.T @ (np.abs(A) @ sizes)) * (1.0 + gamma(2 * n + 8))
    E += _underflow(n, A, W) * (1.0 + sizes.sum()) + _underflow(n, W, T)
    if error:
        long = norms_above(W.T)
        E += np.outer(long, long) * above(error, 6)
    return 0.5 * (B + B.T), np.maximum(E, E.T) * (1.0 + gamma(8))


def log_det(A: FloatArray, error: float = 0.0, rank: int | None = None) -> tuple[float, float]:
    """Floats below and above ``log det`` of a symmetric matrix that is within `error` of a matrix of floats.

    With W the eigenvectors over the roots of the eigenvalues, as computed, ``W^T A W`` is nearly the identity, and
    ``log det(A) = log det(W^T A W) - log det(W^T W)``.
    """
    n = len(A)
    r = n if rank is None else rank
    if r == 0:
        return 0.0, 0.0
    if r > n or not (np.isfinite(A).all() and math.isfinite(error)):
        return -math.inf, math.inf
    values, vectors = np.linalg.eigh(A)
    values, vectors = values[n - r :], vectors[:, n - r :]
    if not values[0] > 1e-290:
        return -math.inf, math.inf
    W = vectors / np.sqrt(values)
    low, high = _log_det_near_identity(*congruence(A, W, error))
    scale = log_det_gram(W)
    if not (math.isfinite(low) and math.isfinite(scale[0])):
        return -math.inf, math.inf
    return (
        math.nextafter(low - scale[1], -math.inf),
        math.nextafter(high - scale[0], math.inf) if r == n else math.inf,
    )


def log_det_balanced(A: FloatArray) -> tuple[float, float]:
    """`log_det` of a symmetric matrix of floats, in units, powers of 2, in which its diagonal is about 1."""
    sizes = np.diag(A)
    if not (sizes > 0.0).all():
        return -math.inf, math.inf
    powers = np.frexp(np.sqrt(sizes))[1]
    balanced, both = np.ldexp(A, -powers - powers[:, None]), 2 * int(powers.sum())
    if not both or not np.array_equal(np.ldexp(balanced, powers + powers[:, None]), A):
        return log_det(A)
    shift = sorted(both * float(end) for end in log_bounds(np.array(2.0)))
    low, high = log_det(balanced)
    return (
        sum_below(np.array([low, math.nextafter(shift[0], -math.inf)])) if math.isfinite(low) else low,
        sum_above(np.array([high, math.nextafter(shift[1], math.inf)])) if math.isfinite(high) else high,
    )


def _underflow(n: int, A: FloatArray, B: FloatArray) -> float:
    """More than underflow may take from an entry of a product with n summands, 0 where no product is that small."""
    least = [float(np.abs(M[M != 0.0]).min(initial=math.inf)) for M in (A, B)]
    return 0.0 if least[0] * least[1] >= 1e-290 else n * 1e-307


def off_orthonormal(A: FloatArray, errors: FloatArray) -> float:
    """A float not below ``||A^T A - I||_F`` for matrices within `errors` of A, entry by entry."""
    long, off = norm_above(A), norm_above(errors)
    found = norm_above(A.T @ A - np.eye(len(A.T))) + gamma(len(A) + 8) * long * long
    return above(found + (2.0 * long + off) * off, 12)
