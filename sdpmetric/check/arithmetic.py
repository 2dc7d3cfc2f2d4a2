"""Numbers that are proven: balls of python-flint, and floats with bounds of their rounding that only select.

Floats: an operation is off by at most a share U of its result, or, below 2^-1022, by an absolute 2^-1074
(Higham, Accuracy and Stability, chapter 2). FAINT and TINY = FAINT^2 are far above all such absolute errors.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from flint import arb, arb_mat, fmpq, fmpq_mat

from sdpmetric.check.files import FloatArray, Refused, Work

U = 2.0**-53
FAINT = 2.0**-500
TINY = FAINT**2


def balls(A: FloatArray) -> arb_mat:
    return arb_mat(A.shape[0], A.shape[1], [arb(value) for value in A.ravel().tolist()])


def total(terms: Iterable[arb]) -> arb:
    return sum(terms, arb(0))


def square(x: arb) -> arb:
    """Return ``x^2``; FLINT's power of a ball about 0 is not finite."""
    return x * x


def inner(A: arb_mat, B: arb_mat) -> arb:
    return total(a * b for a, b in zip(A.entries(), B.entries(), strict=True))


def bounds(ball: arb) -> tuple[float, float]:
    """Return floats at or below, and at or above, all numbers of a ball: a conversion is off by less than a step."""
    if not ball.is_finite():
        raise Refused("numbers: one is infinite, or beyond the range in which anything is proven")
    low, high = float(ball.lower()), float(ball.upper())
    low = low if arb(low) <= ball else math.nextafter(low, -math.inf)
    return low, high if arb(high) >= ball else math.nextafter(high, math.inf)


def rounded(ball: arb) -> float:
    """Return a float off by at most little more than a share U, or NaN if the ball is too large."""
    return float(ball.mid()) if 2**60 * ball.rad() <= abs(ball.mid()) else math.nan


def distance_bounds(Z: FloatArray, i: int, shares: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return bounds of ``sum_k shares_jk (z_ik - z_jk)^2`` for all j, entries of z and shares off by a share U.

    Where floats overflow the bounds are 0 and infinity, which exclude nothing.
    """
    gap, errors = np.abs(Z[i] - Z), 4.0 * U * (np.abs(Z[i]) + np.abs(Z)) + FAINT
    low, high = (np.sum(shares * far**2, axis=1) for far in (np.maximum(gap - errors, 0.0), gap + errors))
    share = 2.0 * (Z.shape[1] + 8) * U
    low, high = np.maximum(low * (1.0 - share) - TINY, 0.0), high * (1.0 + share) + TINY
    is_finite = np.isfinite(low) & np.isfinite(high)
    return np.where(is_finite, low, 0.0), np.where(is_finite, high, np.inf)


def is_positive(S: arb_mat) -> bool:
    """Return whether a symmetric matrix is proven positive definite: a block of it, and the rest without it."""
    rows, k = S.tolist(), S.nrows() // 2
    if not k:
        return all(x > 0 for x in S.entries())
    A, B = arb_mat([row[:k] for row in rows[:k]]), arb_mat([row[k:] for row in rows[:k]])
    return is_positive(A) and is_positive(arb_mat([row[k:] for row in rows[k:]]) - B.transpose() * A.solve(B))


def diagonal(blocks: list[arb_mat]) -> arb_mat:
    """Return the block diagonal matrix of some square matrices."""
    d = blocks[0].nrows()
    rows = [(b, row) for b, M in enumerate(blocks) for row in M.tolist()]
    return arb_mat([[0] * (b * d) + row + [0] * ((len(blocks) - 1 - b) * d) for b, row in rows])


def is_psd(S: arb_mat, some: list[int] | None = None) -> bool:
    """Return whether a symmetric matrix is proven positive definite at some indices, by default of nonzero rows."""
    rows = S.tolist()
    if some is None:
        some = [k for k, row in enumerate(rows) if not all(x.is_zero() for x in row)]
    return not some or is_positive(arb_mat([[rows[i][j] for j in some] for i in some]))


def independent(D: arb_mat, work: Work) -> list[int] | None:
    """Return columns that span all columns of a matrix, in rational arithmetic, or None if it is not exact."""
    work.spend(8 * D.nrows() * D.ncols())
    if not all(x.is_exact() for x in D.entries()):
        return None
    mantissas = [x.mid().man_exp() for x in D.entries()]
    bit_ranges = [(int(e), int(e) + m.bit_length()) for m, e in mantissas if m]
    bits = max((last for _, last in bit_ranges), default=0) - min((start for start, _ in bit_ranges), default=0)
    work.spend(0, D.ncols() ** 2 * (D.ncols() + D.nrows() // 8) * (1 + bits // 32))
    E = fmpq_mat(D.nrows(), D.ncols(), [fmpq(m) * fmpq(2) ** int(e) for m, e in mantissas])
    R, rank = (E.transpose() * E).rref()
    return [next(j for j in range(D.ncols()) if R[i, j] != 0) for i in range(rank)]
