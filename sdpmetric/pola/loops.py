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
from sdpmetric.engine.compiled import FAST, fixed, loop
from sdpmetric.pola.eigenpair import dot, negative_pair, times

# A stream: the metric A, of which the leading (d, d) part is in use, numbers and counts.
State = tuple[FloatArray, FloatArray, NDArray[np.int64]]
# Data, pairs of their rows, and whether each is similar.
Pairs = tuple[NDArray[np.floating], IndexArray, BoolArray]
# Inner products of points with each other and with differences of the basis so far, pairs of points, similar or not.
KernelPairs = tuple[FloatArray, FloatArray, LongArray, BoolArray]
# Numbers of a stream: b; the sum of squared losses; the largest ||v||^4 + 1.
THRESHOLD, LOSS, RADIUS, N_NUMBERS = range(4)
# Counts of a stream: pairs, updates, mistakes, updates since the last projection by a full decomposition.
ITEMS, UPDATES, MISTAKES, DRIFT, N_COUNTS = range(5)
# After this many updates for each dimension a full projection removes rounding errors, at a cost of about d^2 per
# update. LAPACK makes it between two runs of a loop: compiled calls of it take ten seconds to make.
REFRESH = 64
# Share of ``k(x, x) + k(x', x')``: a difference whose squared part outside the basis is up to it lies in it.
DEPENDENT = 1e-10
# The same share: a squared part below minus this shows that the kernel is not PSD.
INDEFINITE = 1e-8


def new_state(d: int, initial_threshold: float) -> State:
    """A stream that has taken nothing, with room for d dimensions: ``A_1 = 0``."""
    numbers = np.zeros(N_NUMBERS)
    numbers[THRESHOLD], numbers[RADIUS] = initial_threshold, 1.0
    return np.zeros((d, d)), numbers, np.zeros(N_COUNTS, dtype=np.int64)


@loop(fastmath=FAST)
def update(
    stream: State, d: int, v: FloatArray, similar: bool, gamma: float, beta: float, space: FloatArray, Q: FloatArray
) -> tuple[float, float, bool]:
    """Take one pair, unless its loss is at most beta; returns the loss, alpha, and whether a projection is due."""
    A, numbers, counts = stream
    sign = 1.0 if similar else -1.0
    Av, u = space[4], space[5]
    times(A, v, d, Av)
    square, distance = dot(v, v, d), max(0.0, dot(v, Av, d))
    margin = sign * (numbers[THRESHOLD] - distance)
    loss = max(0.0, 1.0 - margin)
    numbers[RADIUS] = max(numbers[RADIUS], square**2 + 1.0)
    numbers[LOSS] += loss**2
    counts[ITEMS] += 1
    counts[MISTAKES] += 1 if margin <= 0.0 else 0
    if loss <= beta:
        return loss, 0.0, False
    alpha = loss / (square**2 + 1.0 + gamma)
    root, up = np.sqrt(alpha), 0.0
    if similar and square > 0.0:
        up = np.sqrt(-negative_pair(A, d, v, square, alpha, Q, space))
    for i in range(d):
        a, c = -sign * (root * v[i]), up * u[i]
        for j in range(d):
            A[i, j] += a * (root * v[j]) + c * (up * u[j])
    numbers[THRESHOLD] = max(1.0, numbers[THRESHOLD] + sign * alpha)
    counts[UPDATES] += 1
    counts[DRIFT] += 1
    return loss, alpha, counts[DRIFT] >= REFRESH * d


def project(stream: State, d: int) -> None:
    """Project the leading (d, d) part of A onto the cone by a full decomposition."""
    A, _, counts = stream
    values, vectors = np.linalg.eigh(0.5 * (A[:d, :d] + A[:d, :d].T))
    roots = vectors * np.sqrt(np.maximum(values, 0.0))
    A[:d, :d] = roots @ roots.T
    counts[DRIFT] = 0


@loop()
def _run(
    data: Pairs, first: int, last: int, gamma: float, beta: float, stream: State, losses: FloatArray, alphas: FloatArray
) -> tuple[int, bool]:
    """`run` up to `last` updates in all, or the first after which a projection is due; returns whether it is, too."""
    (X, pairs, similar), counts = data, stream[2]
    d = X.shape[1]
    v, space, Q = np.empty(d), np.zeros((6, d + 1)), np.empty((d, d))
    for t in range(first, len(pairs)):
        if counts[UPDATES] >= last:
            return t, False
        for i in range(d):
            v[i] = np.float64(X[pairs[t, 0], i]) - np.float64(X[pairs[t, 1], i])
        losses[t], alpha, due = update(stream, d, v, similar[t], gamma, beta, space, Q)
        alphas[t] += alpha
        if due:
            return t + 1, due
    return len(pairs), False


def run(data: Pairs, first: int, max_updates: int, gamma: float, beta: float, stream: State, *out: FloatArray) -> int:
    """Take pairs from number `first` on; the number of the next pair, after `max_updates` at most.

    The losses before the updates go into the first of `out`; the multiples of ``v v^T`` that were added or taken away
    are added to the second one. Both are (p,) arrays.
    """
    rows, last, due = tuple(map(fixed, data)), int(stream[2][UPDATES]) + max_updates, True
    while due:
        first, due = _run(rows, first, last, gamma, beta, stream, *out)
        if due:
            project(stream, data[0].shape[1])
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
) -> tuple[int, int, bool]:
    """`run_kernel` from pair `start` on, up to an update after which a projection is due."""
    (G, K, pairs, similar), size = data, len(stream[0])
    first = K.shape[1]
    v, space, Q = np.empty(size), np.zeros((6, size + 1)), np.empty((size, size))
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
            return t, rank, False
        d = rank
        if outside > DEPENDENT * scale:
            v[rank] = np.sqrt(outside)
            d = rank + 1
        losses[t], alpha, due = update(stream, d, v, similar[t], gamma, 0.0, space, Q)
        if d > rank and alpha > 0.0:
            R[rank, :d] = v[:d]
            support[rank - first] = t
            rank = d
        if due:
            return t + 1, rank, due
    return len(pairs), rank, False


def run_kernel(
    data: KernelPairs, gamma: float, R: FloatArray, stream: State, losses: FloatArray, support: LongArray
) -> tuple[int, int]:
    """Take pairs of points that are known by their inner products alone; how many were taken, and the rank then.

    The coordinates of a difference are those in the basis that the differences updated with span, orthonormalized by
    Cholesky's method: ``R @ coordinates`` are its inner products with these. A difference that has a part outside adds
    to the basis when it brings an update. A pair that shows that the kernel is not PSD is not taken.
    """
    n_taken, rank, due = 0, data[1].shape[1], True
    while due:
        n_taken, rank, due = _run_kernel(data, n_taken, rank, gamma, R, stream, losses, support)
        if due:
            project(stream, rank)
    return n_taken, rank
