"""Numbers that are proven: balls of python-flint, and floats with bounds of their rounding that only select.

Floats: an operation is off by at most a share U of its result, or, if that is below 2^-1022, by an absolute 2^-1074
(Higham, Accuracy and Stability, chapter 2). Sums and matrix products may take any order. Shares are counted by `gamma`,
absolute errors by FAINT, added to the length of each vector, and by TINY = FAINT^2, added to each sum.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from flint import arb, arb_mat, ctx, fmpq, fmpq_mat

from sdpmetric.check.files import FloatArray, IndexArray, Refused

# Bits of the midpoints of balls, and rows of a block of floats or balls.
BITS, ROWS = 320, 512
U, FAINT, TINY = 2.0**-53, 2.0**-500, 2.0**-1000
# The share up to which squared distances are ties, and what may be rounded where they were looked for.
TIES, SHARE = 1e-9, 1e-12
ctx.prec = BITS


def gamma(n: int) -> float:
    """A sum of n products of floats errs by at most this share of the sum of their absolute values."""
    return 1.01 * n * U


def balls(A: FloatArray) -> arb_mat:
    """A matrix of floats as exact balls."""
    return arb_mat(A.shape[0], A.shape[1], [arb(value) for value in A.ravel().tolist()])


def total(parts: list[arb]) -> arb:
    """Their sum."""
    return sum(parts, arb(0))


def inner(A: arb_mat, B: arb_mat) -> arb:
    """``<A, B>``."""
    return total([a * b for a, b in zip(A.entries(), B.entries(), strict=True)])


def ends(ball: arb) -> tuple[float, float]:
    """Floats below and above all numbers of a ball: a conversion is off by less than the step to the next float."""
    if not ball.is_finite():
        raise Refused("numbers: one is beyond the range in which anything is proven")
    return math.nextafter(float(ball.lower()), -math.inf), math.nextafter(float(ball.upper()), math.inf)


def rounded(ball: arb) -> float:
    """A float off by at most little more than a share U; NaN where the ball is too large to say so."""
    return float(ball.mid()) if 2**60 * ball.rad() <= abs(ball.mid()) else math.nan


def apart(Z: FloatArray) -> Iterator[tuple[int, FloatArray, FloatArray]]:
    """Bounds of ``|z_a - z_b|^2``, entries of z off by a share U: the first a of a block, and its a by all b.

    With e the error of z: ``|z_a|^2 + |z_b|^2 - 2 z_a z_b`` is off by a share gamma of ``(|z_a| + |z_b|)^2``, and the
    errors add at most ``2 |z_a - z_b| (e_a + e_b) + (e_a + e_b)^2``. What overflows is NaN, which excludes nothing.
    """
    Y = Z - Z.mean(axis=0)  # one shift for all; each entry is rounded once
    norms, reach = np.sum(Y**2, axis=1), np.linalg.norm(Y, axis=1)
    error = gamma(4) * (np.linalg.norm(Z, axis=1) + reach) + FAINT
    reach, share = reach + error, gamma(2 * Z.shape[1] + 12)
    for start in range(0, len(Z), ROWS):
        some = slice(start, start + ROWS)
        D, long = norms[some, None] + norms - 2.0 * (Y[some] @ Y.T), reach[some, None] + reach
        off = share * long**2 + 2.02 * long * (error[some, None] + error) + TINY
        yield start, np.maximum(D - off, 0.0) * (1 - 4 * U), (np.maximum(D, 0.0) + off) * (1 + 4 * U)


def is_positive(S: arb_mat) -> bool:
    """Whether a symmetric matrix is proven to be positive definite: a block of it, and what is left without it."""
    rows, k = S.tolist(), S.nrows() // 2
    if not k:
        return all(x > 0 for x in S.entries())
    A, B = arb_mat([row[:k] for row in rows[:k]]), arb_mat([row[k:] for row in rows[:k]])
    C = arb_mat([row[k:] for row in rows[k:]])
    return is_positive(A) and is_positive(C - B.transpose() * A.solve(B))


def diagonal(parts: list[arb_mat]) -> arb_mat:
    """The matrix with some square ones as its diagonal blocks."""
    d = parts[0].nrows()
    rows = [(b, row) for b, M in enumerate(parts) for row in M.tolist()]
    return arb_mat([[0] * (b * d) + row + [0] * ((len(parts) - 1 - b) * d) for b, row in rows])


def on(S: arb_mat, some: list[int]) -> arb_mat:
    """The rows and columns of a matrix at some indices."""
    rows = S.tolist()
    return arb_mat([[rows[i][j] for j in some] for i in some]) if some else arb_mat(0, 0)


def is_psd(S: arb_mat) -> bool:
    """Whether a symmetric matrix is proven to be positive definite but for rows of zeros."""
    return is_positive(on(S, [k for k, row in enumerate(S.tolist()) if not all(x.is_zero() for x in row)]))


def independent(D: arb_mat) -> list[int]:
    """Columns of a matrix of exact numbers of which the others are combinations, in rational arithmetic."""
    E = fmpq_mat(D.nrows(), D.ncols(), [_rational(x) for x in D.entries()])
    R, rank = (E.transpose() * E).rref()
    return [next(j for j in range(D.ncols()) if R[i, j] != 0) for i in range(rank)]


def _rational(x: arb) -> fmpq:
    mantissa, exponent = x.mid().man_exp()
    return fmpq(mantissa) * fmpq(2) ** int(exponent)


def origin_of_targets(X: FloatArray, y: IndexArray, targets: IndexArray) -> str:
    """In words, where the target pairs come from: the nearest other examples of a class, or the file.

    Of the k-th least distance, the clearly lesser ones are taken first, and then ties by their index. Only examples
    whose lower bound is below the upper bound of the k-th are looked at, by exact differences.
    """
    k, rows, chosen = targets.shape[1], balls(X).tolist(), "the file's own choice, not{} the {} nearest of the data"
    for own in (np.flatnonzero(y == c) for c in np.unique(y)):
        if len(own) <= k or (targets[own] < 0).any():
            return chosen.format("", k)
        for start, low, high in apart(X[own]):
            for at, (least, most) in enumerate(zip(low, high, strict=True), start):
                least[at] = most[at] = np.inf
                near = own[~(least > np.partition(most, k - 1)[k - 1] * (1.0 + 2.0 * TIES)) & (own != own[at])].tolist()
                D = [total([(a - b) ** 2 for a, b in zip(rows[own[at]], rows[j], strict=True)]) for j in near]
                kth, both = sorted(D)[k - 1], list(zip(D, near, strict=True))
                first = [j for x, j in both if x < kth * (1 - TIES - SHARE)]
                tied = [j for x, j in both if abs(x - kth) <= kth * (TIES - SHARE)]
                if len(first + tied) + sum(bool(x > kth * (1 + TIES + SHARE)) for x in D) < len(D):
                    return chosen.format(" proven to be", k)
                if {*(first + tied)[:k]} != {*targets[own[at]].tolist()}:
                    return chosen.format("", k)
    ties = f"squared distances equal to a relative {TIES!r} are ties, of which the lowest rows are taken"
    return f"the {k} nearest examples of the same class in these data ({ties})"
