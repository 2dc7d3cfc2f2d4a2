"""The one negative eigenpair of a PSD matrix minus a rank-one matrix, without a full decomposition.

The eigenvector of ``A - t v v^T`` lies in the Krylov space of A and v. With T the tridiagonal matrix of A there, the
eigenvalue x solves ``1 / (e_1^T (T - x)^-1 e_1) = t ||v||^2``; the left side is a continued fraction, concave and
decreasing for ``x < 0``, so Newton's method from the right never leaves the right side. A last coefficient changed
after Gauss and Radau makes it a lower bound for all further steps, which proves that there is no negative eigenvalue.
"""

from __future__ import annotations

import numpy as np

from sdpmetric.arrays import FloatArray
from sdpmetric.engine.compiled import FAST, loop

# Share of the trace: an eigenvalue above minus this counts as 0.
ZERO = 1e-13
# Share of the trace: an eigenpair whose residual is below this counts as exact.
EXACT = 1e-11
# Steps of Lanczos' method from one look at the eigenvalue to the next.
LOOK = 4


@loop(fastmath=FAST)
def dot(x: FloatArray, y: FloatArray, d: int) -> float:
    """Inner product of the leading d entries."""
    total = 0.0
    for i in range(d):
        total += x[i] * y[i]
    return total


@loop(fastmath=FAST)
def times(A: FloatArray, x: FloatArray, d: int, out: FloatArray) -> None:
    """``out = A[:d, :d] @ x``."""
    for i in range(d):
        total = 0.0
        for j in range(d):
            total += A[i, j] * x[j]
        out[i] = total


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


@loop()
def _fraction(alpha: FloatArray, beta: FloatArray, m: int, last: float, x: float, deltas: FloatArray) -> float:
    """``1 / (e_1^T (T - x)^-1 e_1)`` for m coefficients, the last of which is `last`; fills in its parts."""
    deltas[m - 1] = last - x
    for j in range(m - 2, -1, -1):
        deltas[j] = alpha[j] - x - beta[j] ** 2 / deltas[j + 1]
    return float(deltas[0])


@loop()
def _root(
    alpha: FloatArray, beta: FloatArray, m: int, level: float, x: float, zero: float, deltas: FloatArray
) -> float:
    """The x at which the fraction is `level`, by Newton's method from an x right of it."""
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
    A: FloatArray, d: int, v: FloatArray, square: float, length: float, Q: FloatArray, space: FloatArray
) -> float:
    """The negative eigenvalue of ``A - length v v^T``, A PSD, with its unit eigenvector in ``space[5]``; 0 without one.

    ``A v`` is in ``space[4]``, and ``||v||^2`` is `square`.
    """
    alpha, beta, deltas, s, w, u = space[0], space[1], space[2], space[3], space[4], space[5]
    level, root = length * square, np.sqrt(square)
    scale = level  # of the eigenvalues: with the trace of A
    for i in range(d):
        scale += A[i, i]
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
                for i in range(d):
                    u[i] = 0.0
                for j in range(m):
                    for i in range(d):
                        u[i] += s[j] / size * Q[j, i]
                return float(x)
        elif ended:
            return 0.0
        else:  # Gauss and Radau, with a node at the lowest eigenvalue that A may have
            last = beta[k] ** 2 / pivot - 0.5 * zero
            if pivot > 0.0 and _fraction(alpha, beta, m + 1, last, x, deltas) >= level:
                return 0.0
        for i in range(d):
            Q[k + 1, i] = w[i] / beta[k]
        times(A, Q[k + 1], d, w)
    return 0.0
