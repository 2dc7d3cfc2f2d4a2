"""Compiled loops of online POLA: one pair after another."""

from __future__ import annotations

import numba as nb
import numpy as np
from numpy.typing import NDArray

from sdpmetric._loops import FAST
from sdpmetric._loops.eigenpair import add_outer, dot, negative_pair, refresh, shifted_inverse, shifted_pair, times
from sdpmetric.arrays import FloatArray

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
# Shares of ``k(x, x) + k(x', x')``: a difference whose squared part outside the basis is up to the first lies in it;
# one below minus the second shows that the kernel is not PSD.
DEPENDENT, INDEFINITE = 1e-10, 1e-8


@nb.njit(cache=True, fastmath=FAST)
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
) -> tuple[float, float]:
    """One pair of the stream (Shalev-Shwartz, Singer and Ng 2004, Fig. 1) [SSN2004].

    Projects onto the pair's margin, then onto PSD metrics and thresholds of at least 1. A dissimilar pair leaves the
    metric in the cone and lowers the threshold, a similar one may take the metric out of it by one eigenvalue and
    raises the threshold, so that only half of the second projection is ever needed.
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
        return loss, 0.0
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
    drifted = counts[DRIFT] >= REFRESH * d
    if drifted:
        refresh(A, d)
        counts[DRIFT] = 0
    typical = state[TYPICAL]
    off = missed or not shift / OFF <= typical <= OFF * shift
    if d >= SHIFTED_FROM and typical > 0.0 and (drifted or (off and 4 * counts[AGE] >= d)):
        state[SHIFT] = typical
        shifted_inverse(A, d, typical, B)
        counts[AGE] = 0
    return loss, length


@nb.njit(cache=True)
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
    d = X.shape[1]
    v, space, Q = np.empty(d), np.empty((7, d + 1)), np.empty((d, d))
    ends = counts[UPDATES] + limit
    for t in range(first, len(pairs)):
        if counts[UPDATES] >= ends:
            return t
        for i in range(d):
            v[i] = np.float64(X[pairs[t, 0], i]) - np.float64(X[pairs[t, 1], i])
        losses[t], length = update(A, B, d, v, similar[t], gamma, beta, state, counts, space, Q)
        lengths[t] += length
    return len(pairs)


@nb.njit(cache=True)
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
    """Take pairs of points that are known by their inner products alone.

    The coordinates of a difference are those in the basis that the differences updated with span, orthonormalized by
    Cholesky's method: ``R @ coordinates`` are its inner products with these. A difference that has a part outside adds
    to the basis when it brings an update.
    """
    size, first = len(A), rank
    v, space, Q = np.empty(size), np.empty((7, size + 1)), np.empty((size, size))
    for t in range(len(pairs)):
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
            return t, rank
        d = rank
        if rest > DEPENDENT * scale:
            v[rank] = np.sqrt(rest)
            d = rank + 1
            if state[SHIFT] > 0.0:
                B[rank, :d] = 0.0
                B[:d, rank] = 0.0
                B[rank, rank] = 1.0 / state[SHIFT]
        losses[t], length = update(A, B, d, v, similar[t], gamma, 0.0, state, counts, space, Q)
        if d > rank and length > 0.0:
            R[rank, :d] = v[:d]
            support[rank - first] = t
            rank = d
    return len(pairs), rank
