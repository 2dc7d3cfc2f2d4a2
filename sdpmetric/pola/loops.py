"""Compiled loops of online POLA: one pair after another."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray
from sdpmetric.engine.compiled import FAST, fixed, loop

# The one negative eigenpair of a PSD matrix less a rank-one matrix, without a full decomposition.
#
# The eigenvector of ``A - t v v^T`` lies in the Krylov space of A and v. With T the tridiagonal matrix of A there,
# the eigenvalue x solves ``1 / (e_1^T (T - x)^-1 e_1) = t ||v||^2``; the left side is a continued fraction, concave
# and decreasing for ``x < 0``, so Newton's method from the right never leaves the right side. A last
# coefficient changed after Gauss and Radau makes it a lower bound for all further steps, which proves that there is
# no negative eigenvalue.
#
# That needs many steps where the eigenvalue is small beside the largest one. With ``B = (A + s I)^-1`` at hand, s
# about as large as the eigenvalue, the Krylov space of B and v holds the eigenvector after a few steps. B is kept up
# to date by rank-one changes; the pair that it leads to is checked against A, so nothing depends on the
# rounding in it.

# Shares of the trace: an eigenvalue above minus the first is 0, and an eigenpair whose residual is below the second is
# exact.
ZERO, EXACT = 1e-13, 1e-11
# Steps of Lanczos' method from one look at the eigenvalue to the next, with A and with its shifted inverse.
LOOK, LOOK_SHIFTED = 4, 2
# Steps at most with the shifted inverse.
SHIFTED_STEPS = 40


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


@loop(fastmath=FAST)
def _combine(Q: FloatArray, s: FloatArray, m: int, size: float, d: int, u: FloatArray) -> None:
    """``u = sum_j s_j / size q_j`` over the first m rows of Q."""
    for i in range(d):
        u[i] = 0.0
    for j in range(m):
        c = s[j] / size
        for i in range(d):
            u[i] += c * Q[j, i]


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
    A: FloatArray,
    d: int,
    v: FloatArray,
    Av: FloatArray,
    square: float,
    length: float,
    Q: FloatArray,
    coefficients: FloatArray,
    u: FloatArray,
) -> float:
    """The negative eigenvalue of ``A - length v v^T``, A PSD, with its unit eigenvector in u; 0 without one."""
    alpha, beta, deltas, s = coefficients[0], coefficients[1], coefficients[2], coefficients[3]
    trace = 0.0
    for i in range(d):
        trace += A[i, i]
    level, w = length * square, Av
    scale = trace + level
    zero, exact = ZERO * scale, EXACT * scale
    root, x = np.sqrt(square), -zero
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
                _combine(Q, s, m, size, d, u)
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


@loop()
def _shifted_solve(alpha: FloatArray, beta: FloatArray, m: int, y: float, deltas: FloatArray, z: FloatArray) -> float:
    """``z = (I - y T)^-1 T e_1`` for m coefficients; returns ``||z||^2``."""
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
    Bv: FloatArray,
    square: float,
    length: float,
    Q: FloatArray,
    coefficients: FloatArray,
    u: FloatArray,
) -> float:
    """As `negative_pair`, with ``B = (A + shift I)^-1`` and ``B v`` at hand; 0 also where nothing was found.

    With ``y = shift + x`` the eigenvalue solves ``1 / (e_1^T (T^-1 - y)^-1 e_1) = length ||v||^2``, T now of B.
    """
    alpha, beta, deltas, z = coefficients[0], coefficients[1], coefficients[2], coefficients[3]
    trace = 0.0
    for i in range(d):
        trace += A[i, i]
    level, root = length * square, np.sqrt(square)
    scale = trace + level
    zero, exact = ZERO * scale, EXACT * scale
    top = shift - zero
    y, w = top, u
    for i in range(d):
        Q[0, i] = v[i] / root
        w[i] = Bv[i] / root
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
                rest = 0.0
                for i in range(d):
                    rest += (Au[i] - along * v[i] - x * u[i]) ** 2
                return float(x) if x < -zero and np.sqrt(rest) <= 10.0 * exact else 0.0
        if ended:
            return 0.0
        if k + 1 < min(d, SHIFTED_STEPS):
            for i in range(d):
                Q[k + 1, i] = w[i] / beta[k]
            times(B, Q[k + 1], d, w)
    return 0.0


@loop()
def add_outer(A: FloatArray, d: int, factor: float, v: FloatArray) -> None:
    """``A[:d, :d] += factor * outer(v, v)``."""
    for i in range(d):
        a = factor * v[i]
        for j in range(d):
            A[i, j] += a * v[j]


# Indices in the arrays of state: threshold, sum of squared losses, largest ||v||^4 + 1, shift of the inverse (0: there
# is none), typical size of the negative eigenvalues; items, updates, mistakes, updates since the last projection by a
# full decomposition, and since the last inversion.
THRESHOLD, LOSS, RADIUS, SHIFT, TYPICAL = 0, 1, 2, 3, 4
ITEMS, UPDATES, MISTAKES, DRIFT, AGE = 0, 1, 2, 3, 4
N_STATE, N_COUNTS = 5, 5
# After this many updates for each dimension a full projection removes rounding errors, at a cost of about d^2 per
# update.
REFRESH = 64
# From this dimension on a shifted inverse is stored; it is recomputed when its shift is wrong by this factor.
SHIFTED_FROM, OFF = 24, 8.0
# What is due after an update, done by LAPACK between two runs of a loop: compiled calls of it take ten seconds to make.
NOTHING, PROJECTION, INVERSION = 0, 1, 2
# Shares of ``k(x, x) + k(x', x')``: a difference whose squared part outside the basis is up to the first lies in it;
# one below minus the second shows that the kernel is not PSD.
DEPENDENT, INDEFINITE = 1e-10, 1e-8


@loop(fastmath=FAST)
def update(
    A: FloatArray,
    B: FloatArray,
    d: int,
    v: FloatArray,
    similar: bool,
    gamma: float,
    beta: float,
    state: FloatArray,
    counts: NDArray[np.int64],
    space: FloatArray,
    Q: FloatArray,
) -> tuple[float, float, int]:
    """One pair of the stream (Shalev-Shwartz, Singer and Ng 2004, Fig. 1) [SSN2004].

    Projects onto the pair's margin, then onto PSD metrics and thresholds of at least 1. A dissimilar pair leaves the
    metric in the cone and lowers the threshold, a similar one may take the metric out of it by one eigenvalue and
    raises the threshold, so only half of the second projection is ever needed. Returns the loss, the length of the
    step, and what is due.
    """
    sign = 1.0 if similar else -1.0
    Av, u, Bv = space[4], space[5], space[6]
    times(A, v, d, Av)
    square, near = dot(v, v, d), max(0.0, dot(v, Av, d))
    margin = sign * (state[THRESHOLD] - near)
    loss = max(0.0, 1.0 - margin)
    state[RADIUS] = max(state[RADIUS], square**2 + 1.0)
    state[LOSS] += loss**2
    counts[ITEMS] += 1
    counts[MISTAKES] += 1 if margin <= 0.0 else 0
    if loss <= beta:
        return loss, 0.0, NOTHING
    length = loss / (square**2 + 1.0 + gamma)
    root, down = np.sqrt(length), 0.0
    shift, missed = state[SHIFT], False
    if shift > 0.0:
        times(B, v, d, Bv)
    if similar and square > 0.0:
        if shift > 0.0:
            down = shifted_pair(A, B, shift, d, v, Bv, square, length, Q, space, u)
        if down == 0.0:
            down = negative_pair(A, d, v, Av, square, length, Q, space, u)
            missed = down < 0.0
    if down < 0.0:
        up = np.sqrt(-down)
        for i in range(d):
            a, c = root * v[i], up * u[i]
            for j in range(d):
                A[i, j] += c * (up * u[j]) - a * (root * v[j])
        state[TYPICAL] = -down if state[TYPICAL] == 0.0 else state[TYPICAL] ** 0.9 * (-down) ** 0.1
    else:
        for i in range(d):
            a = -sign * (root * v[i])
            for j in range(d):
                A[i, j] += a * (root * v[j])
    if shift > 0.0:  # Sherman and Morrison; the part that keeps the metric PSD comes first
        if down < 0.0:
            Bu = Q[0]
            times(B, u, d, Bu)
            factor = down / (1.0 - down * dot(u, Bu, d))
            along = factor * dot(Bu, v, d)
            add_outer(B, d, factor, Bu)
            for i in range(d):
                Bv[i] += along * Bu[i]
        add_outer(B, d, sign * length / (1.0 - sign * length * dot(v, Bv, d)), Bv)
    state[THRESHOLD] = max(1.0, state[THRESHOLD] + sign * length)
    counts[UPDATES] += 1
    counts[DRIFT] += 1
    counts[AGE] += 1
    due = PROJECTION if counts[DRIFT] >= REFRESH * d else NOTHING
    typical = state[TYPICAL]
    off = missed or not shift / OFF <= typical <= OFF * shift
    if d >= SHIFTED_FROM and typical > 0.0 and (due == PROJECTION or (off and 4 * counts[AGE] >= d)):
        due |= INVERSION
    return loss, length, due


def settle(A: FloatArray, B: FloatArray, d: int, state: FloatArray, counts: NDArray[np.int64], due: int) -> None:
    """Project the leading (d, d) part of A onto the cone by a full decomposition, or invert it again into B."""
    if due & PROJECTION:
        values, vectors = np.linalg.eigh(0.5 * (A[:d, :d] + A[:d, :d].T))
        roots = vectors * np.sqrt(np.maximum(values, 0.0))
        A[:d, :d] = roots @ roots.T
        counts[DRIFT] = 0
    if due & INVERSION:
        state[SHIFT], counts[AGE] = state[TYPICAL], 0
        inverse = np.linalg.inv(A[:d, :d] + state[SHIFT] * np.eye(d))
        B[:d, :d] = 0.5 * (inverse + inverse.T)


@loop()
def _run(
    X: NDArray[np.floating],
    pairs: NDArray[np.int32],
    similar: NDArray[np.bool_],
    first: int,
    limit: int,
    gamma: float,
    beta: float,
    A: FloatArray,
    B: FloatArray,
    state: FloatArray,
    counts: NDArray[np.int64],
    losses: FloatArray,
    lengths: FloatArray,
) -> tuple[int, int]:
    """`run` up to the first update after which something is due; returns that, too."""
    d = X.shape[1]
    v, space, Q = np.empty(d), np.empty((7, d + 1)), np.empty((d, d))
    ends = counts[UPDATES] + limit
    for t in range(first, len(pairs)):
        if counts[UPDATES] >= ends:
            return t, NOTHING
        for i in range(d):
            v[i] = np.float64(X[pairs[t, 0], i]) - np.float64(X[pairs[t, 1], i])
        losses[t], length, due = update(A, B, d, v, similar[t], gamma, beta, state, counts, space, Q)
        lengths[t] += length
        if due:
            return t + 1, due
    return len(pairs), NOTHING


def run(
    X: NDArray[np.floating],
    pairs: NDArray[np.int32],
    similar: NDArray[np.bool_],
    first: int,
    limit: int,
    gamma: float,
    beta: float,
    A: FloatArray,
    B: FloatArray,
    state: FloatArray,
    counts: NDArray[np.int64],
    losses: FloatArray,
    lengths: FloatArray,
) -> int:
    """Take pairs of rows of X from number `first` on, until there are no more or `limit` updates were made.

    Returns the number of the next pair. The losses before the updates go into `losses`; the multiples of ``v v^T`` that
    were added or taken away are added to `lengths`. Both are (p,) arrays.
    """
    ends, due = int(counts[UPDATES]) + limit, INVERSION
    rows = fixed(X), fixed(pairs), fixed(similar)
    while due:
        left = ends - int(counts[UPDATES])
        first, due = _run(*rows, first, left, gamma, beta, A, B, state, counts, losses, lengths)
        settle(A, B, X.shape[1], state, counts, due)
    return first


@loop()
def _run_kernel(
    G: FloatArray,
    K: FloatArray,
    pairs: NDArray[np.int64],
    similar: NDArray[np.bool_],
    start: int,
    first: int,
    rank: int,
    gamma: float,
    R: FloatArray,
    A: FloatArray,
    B: FloatArray,
    state: FloatArray,
    counts: NDArray[np.int64],
    losses: FloatArray,
    support: NDArray[np.int64],
) -> tuple[int, int, int]:
    """`run_kernel` from pair `start` on, with `first` in the basis before, up to an update with something due."""
    size = len(A)
    v, space, Q = np.empty(size), np.empty((7, size + 1)), np.empty((size, size))
    for t in range(start, len(pairs)):
        i, j = pairs[t]
        inside = 0.0
        for s in range(rank):
            if s < first:
                inner = K[i, s] - K[j, s]
            else:
                k, l = pairs[support[s - first]]
                inner = (G[i, k] - G[j, k]) - (G[i, l] - G[j, l])
            v[s] = (inner - dot(R[s], v, s)) / R[s, s]
            inside += v[s] ** 2
        scale = abs(G[i, i]) + abs(G[j, j])
        rest = G[i, i] + G[j, j] - 2.0 * G[i, j] - inside
        if not rest >= -INDEFINITE * scale:
            return t, rank, NOTHING
        d = rank
        if rest > DEPENDENT * scale:
            v[rank] = np.sqrt(rest)
            d = rank + 1
            if state[SHIFT] > 0.0:
                B[rank, :d] = 0.0
                B[:d, rank] = 0.0
                B[rank, rank] = 1.0 / state[SHIFT]
        losses[t], length, due = update(A, B, d, v, similar[t], gamma, 0.0, state, counts, space, Q)
        if d > rank and length > 0.0:
            R[rank, :d] = v[:d]
            support[rank - first] = t
            rank = d
        if due:
            return t + 1, rank, due
    return len(pairs), rank, NOTHING


def run_kernel(
    G: FloatArray,
    K: FloatArray,
    pairs: NDArray[np.int64],
    similar: NDArray[np.bool_],
    rank: int,
    gamma: float,
    R: FloatArray,
    A: FloatArray,
    B: FloatArray,
    state: FloatArray,
    counts: NDArray[np.int64],
    losses: FloatArray,
    support: NDArray[np.int64],
) -> tuple[int, int]:
    """Take pairs of points that are known by their inner products alone; how many were taken, and the rank then.

    The coordinates of a difference are those in the basis that the differences updated with span, orthonormalized by
    Cholesky's method: ``R @ coordinates`` are its inner products with these. A difference that has a part outside adds
    to the basis when it brings an update. A pair that shows that the kernel is not PSD is not taken.
    """
    taken, first, due = 0, rank, INVERSION
    while due:
        about = (taken, first, rank, gamma, R, A, B, state, counts, losses, support)
        taken, rank, due = _run_kernel(G, K, pairs, similar, *about)
        settle(A, B, rank, state, counts, due)
    return taken, rank
