"""The one negative eigenpair of a PSD matrix minus a rank-one matrix, without a full decomposition.

The eigenvector of ``A - t v v^T`` lies in the Krylov space of A and v. With T the tridiagonal matrix of A there, the
eigenvalue x solves ``1 / (e_1^T (T - x)^-1 e_1) = t ||v||^2``; the left side is a continued fraction, concave and
decreasing for ``x < 0``, so Newton's method from the right never leaves the right side. A last coefficient changed
after Gauss and Radau makes it a lower bound for all further steps, which proves that there is no negative eigenvalue.

That needs many steps if the eigenvalue is small compared with the largest. With ``B = (A + s I)^-1`` at hand, s about
as large as the eigenvalue, the Krylov space of B and v holds the eigenvector after a few steps. B is kept up to date by
rank-one changes; the pair that it leads to is checked against A, so nothing depends on the rounding in it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sdpmetric.arrays import FloatArray
from sdpmetric.engine.lazy import FAST, loop

# Share of the trace: an eigenvalue above minus this counts as 0.
ZERO = 1e-13
# Share of the trace: an eigenpair with a residual below it counts as exact.
EXACT = 1e-11
# Steps of Lanczos' method from one look at the eigenvalue to the next, with A and with its shifted inverse.
LOOK, LOOK_SHIFTED = 4, 2
# Steps with the shifted inverse at most: then its shift is wrong.
SHIFTED_STEPS = 80


class Workspace(NamedTuple):
    """Arrays of a search in d dimensions, which all searches of a loop share."""

    diagonal: FloatArray  # of the tridiagonal matrix, and next to it
    off_diagonal: FloatArray
    pivots: FloatArray  # of its continued fraction
    coefficients: FloatArray  # of the eigenvector in the basis
    Av: FloatArray
    Bv: FloatArray
    u: FloatArray  # the unit eigenvector
    basis: FloatArray  # of the Krylov space, in rows


@loop()
def workspace(d: int) -> Workspace:
    rows = np.zeros((7, d + 1))
    return Workspace(rows[0], rows[1], rows[2], rows[3], rows[4], rows[5], rows[6], np.empty((d, d)))


@loop(fastmath=FAST)
def dot(x: FloatArray, y: FloatArray, d: int) -> float:
    """Return the inner product of the leading d entries."""
    total = 0.0
    for i in range(d):
        total += x[i] * y[i]
    return total


@loop(fastmath=FAST)
def times(A: FloatArray, x: FloatArray, d: int, out: FloatArray) -> None:
    """Set ``out = A[:d, :d] @ x``."""
    for i in range(d):
        total = 0.0
        for j in range(d):
            total += A[i, j] * x[j]
        out[i] = total


@loop(fastmath=FAST)
def _level_and_scale(A: FloatArray, d: int, square: float, length: float) -> tuple[float, float, float]:
    """Return ``length ||v||^2``, ``||v||``, and the scale of eigenvalues: the trace of A plus the first of these."""
    total = 0.0
    for i in range(d):
        total += A[i, i]
    return length * square, np.sqrt(square), total + length * square


@loop(fastmath=FAST)
def _next_vector(Q: FloatArray, k: int, w: FloatArray, d: int) -> tuple[float, float]:
    """Make w orthogonal to the rows of Q up to number k; the coefficients of Lanczos' method."""
    alpha = dot(Q[k], w, d)
    for i in range(d):
        w[i] -= alpha * Q[k, i]
    for j in range(k, -1, -1):  # against rounding, as the basis is used
        c = dot(Q[j], w, d)
        for i in range(d):
            w[i] -= c * Q[j, i]
    return alpha, np.sqrt(dot(w, w, d))


@loop(fastmath=FAST)
def _combine(Q: FloatArray, s: FloatArray, m: int, size: float, d: int, u: FloatArray) -> None:
    """Set ``u = sum_j s_j / size q_j`` over the first m rows of Q."""
    for i in range(d):
        u[i] = 0.0
    for j in range(m):
        c = s[j] / size
        for i in range(d):
            u[i] += c * Q[j, i]


@loop()
def _fraction(alpha: FloatArray, beta: FloatArray, m: int, last: float, x: float, deltas: FloatArray) -> float:
    """Return ``1 / (e_1^T (T - x)^-1 e_1)`` for m coefficients that end with `last`, and fill in its parts."""
    deltas[m - 1] = last - x
    for j in range(m - 2, -1, -1):
        deltas[j] = alpha[j] - x - beta[j] ** 2 / deltas[j + 1]
    return float(deltas[0])


@loop()
def _root(
    alpha: FloatArray, beta: FloatArray, m: int, level: float, x: float, zero: float, deltas: FloatArray
) -> float:
    """Return the x that gives the fraction the value `level`, by Newton's method from an x right of it."""
    for _ in range(60):
        value = _fraction(alpha, beta, m, alpha[m - 1], x, deltas) - level
        slope = -1.0
        for j in range(m - 2, -1, -1):
            slope = -1.0 + (beta[j] / deltas[j + 1]) ** 2 * slope
        change = value / slope
        x -= change
        if abs(change) <= 1e-3 * zero or not value < 0.0:
            break
    _fraction(alpha, beta, m, alpha[m - 1], x, deltas)
    return x


@loop(fastmath=FAST)
def negative_pair(
    A: FloatArray, d: int, v: FloatArray, square: float, length: float, work: Workspace
) -> tuple[float, int]:
    """Return the negative eigenvalue of ``A - length v v^T``, A PSD, or 0 without one, and the steps that it took.

    ``work.Av`` and `square`, ``||v||^2``, are given; the unit eigenvector goes into ``work.u``.
    """
    alpha, beta, deltas, s = work.diagonal, work.off_diagonal, work.pivots, work.coefficients
    w, Q = work.Av, work.basis
    level, root, scale = _level_and_scale(A, d, square, length)
    zero, exact = ZERO * scale, EXACT * scale
    x = -zero
    for i in range(d):
        Q[0, i] = v[i] / root
        w[i] /= root
    pivot = 1.0
    for k in range(d):
        alpha[k], beta[k] = _next_vector(Q, k, w, d)
        m = k + 1
        ended = m == d or beta[k] <= zero
        pivot = alpha[k] + 0.5 * zero - (beta[k - 1] ** 2 / pivot if k else 0.0)
        if not ended and k % LOOK:
            pass
        elif x < -zero or _fraction(alpha, beta, m, alpha[k], x, deltas) < level:
            x = _root(alpha, beta, m, level, x, zero, deltas)
            s[0] = 1.0
            total = 1.0
            for j in range(k):
                s[j + 1] = -beta[j] * s[j] / deltas[j + 1]
                total += s[j + 1] ** 2
            size = np.sqrt(total)
            if ended or beta[k] * abs(s[k]) <= exact * size:
                _combine(Q, s, m, size, d, work.u)
                return float(x), m
        elif ended:
            return 0.0, m
        else:  # Gauss and Radau, with a node at the lowest eigenvalue that A may have
            last = beta[k] ** 2 / pivot - 0.5 * zero
            if pivot > 0.0 and _fraction(alpha, beta, m + 1, last, x, deltas) >= level:
                return 0.0, m
        for i in range(d):
            Q[k + 1, i] = w[i] / beta[k]
        times(A, Q[k + 1], d, w)
    return 0.0, d


@loop()
def _shifted_solve(alpha: FloatArray, beta: FloatArray, m: int, y: float, deltas: FloatArray, z: FloatArray) -> float:
    """Write ``(I - y T)^-1 T e_1`` for m coefficients to z; return ``||z||^2``."""
    deltas[m - 1] = 1.0 - y * alpha[m - 1]
    for j in range(m - 2, -1, -1):
        deltas[j] = 1.0 - y * alpha[j] - (y * beta[j]) ** 2 / deltas[j + 1]
    if m == 1:
        z[0] = alpha[0] / deltas[0]
        return float(z[0] ** 2)
    z[0] = (alpha[0] + y * beta[0] ** 2 / deltas[1]) / deltas[0]
    z[1] = beta[0] * (1.0 + y * z[0]) / deltas[1]
    total = z[0] ** 2 + z[1] ** 2
    for j in range(1, m - 1):
        z[j + 1] = y * beta[j] * z[j] / deltas[j + 1]
        total += z[j + 1] ** 2
    return float(total)


@loop(fastmath=FAST)
def shifted_pair(
    A: FloatArray,
    B: FloatArray,
    shift: float,
    d: int,
    v: FloatArray,
    square: float,
    length: float,
    work: Workspace,
) -> float:
    """Do as `negative_pair`, with ``B = (A + shift I)^-1`` and ``work.Bv`` given; return 0 also if nothing was found.

    With ``y = shift + x`` the eigenvalue solves ``1 / (e_1^T (T^-1 - y)^-1 e_1) = length ||v||^2``, T now of B.
    """
    alpha, beta, deltas, z = work.diagonal, work.off_diagonal, work.pivots, work.coefficients
    u, Q = work.u, work.basis
    level, root, scale = _level_and_scale(A, d, square, length)
    zero, exact = ZERO * scale, EXACT * scale
    top = shift - zero
    y, w = top, u
    for i in range(d):
        Q[0, i] = v[i] / root
        w[i] = work.Bv[i] / root
    for k in range(min(d, SHIFTED_STEPS)):
        alpha[k], beta[k] = _next_vector(Q, k, w, d)
        m = k + 1
        ended = m == d or beta[k] * shift <= ZERO
        if ended or m % LOOK_SHIFTED == 0:
            total = 1.0
            for _ in range(30):
                total = _shifted_solve(alpha, beta, m, y, deltas, z)
                change = (z[0] - level * z[0] ** 2) / total
                y = min(y + change, top)
                if abs(change) <= 1e-2 * zero or (change > 0.0 and y == top):
                    break
            if y < top and abs(y) * beta[k] * abs(z[k]) <= EXACT * np.sqrt(total):
                size = np.sqrt(total)
                _combine(Q, z, m, size, d, u)
                # check the pair against A
                Au = Q[0]
                times(A, u, d, Au)
                along = length * dot(v, u, d)
                x = dot(u, Au, d) - along * dot(v, u, d)
                residual = 0.0
                for i in range(d):
                    residual += (Au[i] - along * v[i] - x * u[i]) ** 2
                return float(x) if x < -zero and np.sqrt(residual) <= 10.0 * exact else 0.0
        if ended:
            return 0.0
        if k + 1 < min(d, SHIFTED_STEPS):
            for i in range(d):
                Q[k + 1, i] = w[i] / beta[k]
            times(B, Q[k + 1], d, w)
    return 0.0
