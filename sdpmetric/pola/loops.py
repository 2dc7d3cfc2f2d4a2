"""Compiled loops of online POLA: one pair after another (Shalev-Shwartz, Singer and Ng 2004, Fig. 1) [SSN2004].

For a pair with difference v and sign y the metric A and the threshold b move, if their loss is positive, by::

    l = max(0, y (v^T A v - b) + 1)
    alpha = l / (||v||^4 + 1 + gamma)                      Eq. 12; without gamma, as in Fig. 1, a projection
    A^ = A - y alpha v v^T,   b^ = b + y alpha             Eq. 4

and then onto PSD matrices and ``b >= 1``. A dissimilar pair, ``y = -1``, leaves the metric PSD and lowers the
threshold. A similar one raises the threshold, and ``A^`` has at most one negative eigenvalue lambda, with a unit
eigenvector u: then A becomes ``A^ - lambda u u^T``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import BoolArray, FloatArray, IndexArray, LongArray
from sdpmetric.engine import threads
from sdpmetric.engine.lazy import FAST, fixed, loop
from sdpmetric.pola.eigenpair import EXACT, add_outer, dot, negative_pair, shifted_pair, times

# A stream: the metric A, numbers, counts, and the inverse B of ``A + s I``; the leading (d, d) parts are in use.
State = tuple[FloatArray, FloatArray, NDArray[np.int64], FloatArray]
# Data, pairs of their rows, and whether each is similar.
Pairs = tuple[NDArray[np.floating], IndexArray, BoolArray]
# Inner products of points with each other and with differences of the basis so far, pairs of points, similar or not.
KernelPairs = tuple[FloatArray, FloatArray, LongArray, BoolArray]
# Numbers of a stream: b; the sum of squared losses; the largest ||v||^4 + 1; the shift s, 0 without an inverse; the
# geometric mean of the last negative eigenvalues.
THRESHOLD, LOSS, RADIUS, SHIFT, TYPICAL, N_NUMBERS = range(6)
# Counts of a stream: pairs, updates, mistakes, updates since the last projection by a full decomposition, and steps of
# Lanczos' method with A since the last inversion.
ITEMS, UPDATES, MISTAKES, DRIFT, STEPS, N_COUNTS = range(6)
# Work of LAPACK after an update, done between two runs of a loop: compiling calls of it takes ten seconds.
NOTHING, PROJECTION, INVERSION = range(3)
# After this many updates for each dimension a full projection removes rounding errors, at a cost of about d^2 per
# update.
REFRESH = 64
# From this dimension on the inverse is made, again after d steps with A, which take several times as long.
SHIFTED_FROM = 24
# Share of ``k(x, x) + k(x', x')``: a difference lies in the basis if its squared part outside is at most this.
DEPENDENT = 1e-10
# The same share: a squared part below minus this shows that the kernel is not PSD.
INDEFINITE = 1e-8


def new_state(d: int, initial_threshold: float) -> State:
    """A stream that has taken nothing, with room for d dimensions: ``A_1 = 0``."""
    numbers = np.zeros(N_NUMBERS)
    numbers[THRESHOLD], numbers[RADIUS] = initial_threshold, 1.0
    return np.zeros((d, d)), numbers, np.zeros(N_COUNTS, dtype=np.int64), np.zeros((d, d))


@loop(fastmath=FAST)
def update(
    stream: State, d: int, v: FloatArray, similar: bool, gamma: float, beta: float, space: FloatArray, Q: FloatArray
) -> tuple[float, float, int]:
    """Take one pair, unless its loss is at most beta; returns the loss, alpha, and what is due."""
    A, numbers, counts, B = stream
    sign = 1.0 if similar else -1.0
    Av, u, Bv = space[4], space[5], space[6]
    times(A, v, d, Av)
    square, distance = dot(v, v, d), max(0.0, dot(v, Av, d))
    margin = sign * (numbers[THRESHOLD] - distance)
    loss = max(0.0, 1.0 - margin)
    numbers[RADIUS] = max(numbers[RADIUS], square**2 + 1.0)
    numbers[LOSS] += loss**2
    counts[ITEMS] += 1
    counts[MISTAKES] += 1 if margin <= 0.0 else 0
    if loss <= beta:
        return loss, 0.0, NOTHING
    alpha = loss / (square**2 + 1.0 + gamma)
    shift, eigenvalue = numbers[SHIFT], 0.0
    if shift > 0.0:
        times(B, v, d, Bv)
    if similar and square > 0.0:
        if shift > 0.0:
            eigenvalue = shifted_pair((A, B, shift), d, v, square, alpha, Q, space)
        if eigenvalue == 0.0:
            eigenvalue, steps = negative_pair(A, d, v, square, alpha, Q, space)
            counts[STEPS] += steps if eigenvalue < 0.0 else 0
    if eigenvalue < 0.0:
        typical = numbers[TYPICAL]
        numbers[TYPICAL] = -eigenvalue if typical == 0.0 else typical**0.9 * (-eigenvalue) ** 0.1
    else:
        for i in range(d):  # scratch of the searches
            u[i] = 0.0
    root, up = np.sqrt(alpha), np.sqrt(-eigenvalue)
    for i in range(d):
        a, c = -sign * (root * v[i]), up * u[i]
        for j in range(d):
            A[i, j] += a * (root * v[j]) + c * (up * u[j])
    if shift > 0.0:  # Sherman and Morrison; the part that keeps the metric PSD comes first
        if eigenvalue < 0.0:
            Bu = Q[0]
            times(B, u, d, Bu)
            factor = eigenvalue / (1.0 - eigenvalue * dot(u, Bu, d))
            along_v = factor * dot(Bu, v, d)
            add_outer(B, d, factor, Bu)
            for i in range(d):
                Bv[i] += along_v * Bu[i]
        add_outer(B, d, sign * alpha / (1.0 - sign * alpha * dot(v, Bv, d)), Bv)
    numbers[THRESHOLD] = max(1.0, numbers[THRESHOLD] + sign * alpha)
    counts[UPDATES] += 1
    counts[DRIFT] += 1
    due = PROJECTION if counts[DRIFT] >= REFRESH * d else NOTHING
    if d >= SHIFTED_FROM and (counts[STEPS] >= d or (shift > 0.0 and due == PROJECTION)):
        due |= INVERSION
    return loss, alpha, due


def settle(stream: State, d: int, due: int) -> None:
    """Project the leading (d, d) part of A onto the cone by a full decomposition, or invert it again into B."""
    A, numbers, counts, B = stream
    with threads.one_pool():
        if due & PROJECTION:
            values, vectors = np.linalg.eigh(0.5 * (A[:d, :d] + A[:d, :d].T))
            roots = vectors * np.sqrt(np.maximum(values, 0.0))
            A[:d, :d] = roots @ roots.T
            counts[DRIFT] = 0
        if due & INVERSION:
            # A smaller shift than rounding in A would leave it singular.
            numbers[SHIFT], counts[STEPS] = max(numbers[TYPICAL], EXACT * float(np.trace(A[:d, :d]))), 0
            inverse = np.linalg.inv(A[:d, :d] + numbers[SHIFT] * np.eye(d))
            B[:d, :d] = 0.5 * (inverse + inverse.T)


@loop()
def _run(
    data: Pairs, first: int, last: int, gamma: float, beta: float, stream: State, losses: FloatArray, alphas: FloatArray
) -> tuple[int, int]:
    """`run` up to `last` updates in all, or the first after which something is due; returns that, too."""
    (X, pairs, similar), counts = data, stream[2]
    d = X.shape[1]
    v, space, Q = np.empty(d), np.zeros((7, d + 1)), np.empty((d, d))
    for t in range(first, len(pairs)):
        if counts[UPDATES] >= last:
            return t, NOTHING
        for i in range(d):
            v[i] = np.float64(X[pairs[t, 0], i]) - np.float64(X[pairs[t, 1], i])
        losses[t], alpha, due = update(stream, d, v, similar[t], gamma, beta, space, Q)
        alphas[t] += alpha
        if due:
            return t + 1, due
    return len(pairs), NOTHING


def run(data: Pairs, first: int, max_updates: int, gamma: float, beta: float, stream: State, *out: FloatArray) -> int:
    """Take pairs from number `first` on; the number of the next pair, after `max_updates` at most.

    The losses before the updates go into the first of `out`; the multiples of ``v v^T`` that were added or taken away
    are added to the second one. Both are (p,) arrays.
    """
    rows, last, due = tuple(map(fixed, data)), int(stream[2][UPDATES]) + max_updates, INVERSION
    while due:
        first, due = _run(rows, first, last, gamma, beta, stream, *out)
        if due:
            settle(stream, data[0].shape[1], due)
    return first


@loop()
def _run_kernel(
    data: KernelPairs,
    start: int,
    rank: int,
    gamma: float,
    R: FloatArray,
    stream: State,
    losses: FloatArray,
    support: LongArray,
) -> tuple[int, int, int]:
    """`run_kernel` from pair `start` on, up to an update with something due."""
    (G, K, pairs, similar), (A, numbers, _, B) = data, stream
    size, first = len(A), K.shape[1]
    v, space, Q = np.empty(size), np.zeros((7, size + 1)), np.empty((size, size))
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
        outside = G[i, i] + G[j, j] - 2.0 * G[i, j] - inside
        if not outside >= -INDEFINITE * scale:
            return t, rank, NOTHING
        d = rank
        if outside > DEPENDENT * scale:
            v[rank] = np.sqrt(outside)
            d = rank + 1
            if numbers[SHIFT] > 0.0:  # the metric is 0 in a new direction
                B[rank, :d] = 0.0
                B[:d, rank] = 0.0
                B[rank, rank] = 1.0 / numbers[SHIFT]
        losses[t], alpha, due = update(stream, d, v, similar[t], gamma, 0.0, space, Q)
        if d > rank and alpha > 0.0:
            R[rank, :d] = v[:d]
            support[rank - first] = t
            rank = d
        if due:
            return t + 1, rank, due
    return len(pairs), rank, NOTHING


def run_kernel(
    data: KernelPairs, gamma: float, R: FloatArray, stream: State, losses: FloatArray, support: LongArray
) -> tuple[int, int]:
    """Take pairs of points that are known by their inner products alone; how many were taken, and the rank then.

    The coordinates of a difference are those in the basis that the differences updated with span, orthonormalized by
    Cholesky's method: ``R @ coordinates`` are its inner products with these. A difference that has a part outside adds
    to the basis when it brings an update. A pair that shows that the kernel is not PSD is not taken.
    """
    n_taken, rank, due = 0, data[1].shape[1], INVERSION
    while due:
        n_taken, rank, due = _run_kernel(data, n_taken, rank, gamma, R, stream, losses, support)
        if due:
            settle(stream, rank, due)
    return n_taken, rank
