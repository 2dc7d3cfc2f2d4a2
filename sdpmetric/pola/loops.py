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

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import BoolArray, FloatArray, IndexArray, LongArray
from sdpmetric.core.kernels import PSD_TOLERANCE
from sdpmetric.engine import threads
from sdpmetric.engine.lazy import FAST, fixed, loop
from sdpmetric.pola.eigenpair import EXACT, Workspace, dot, negative_pair, shifted_pair, times, workspace


class State(NamedTuple):
    """A stream in coordinates that may grow: the leading (d, d) parts of the matrices are in use."""

    metric: FloatArray
    inverse: FloatArray  # of ``metric + shift I``
    totals: FloatArray  # of the names below


# The threshold b; the sum of squared losses; the largest ||v||^4 + 1; pairs, updates and wrong predictions; the shift
# of the inverse, 0 without one; the geometric mean of the last negative eigenvalues, without their signs; updates since
# the last projection by a full decomposition; and steps of Lanczos' method with the metric since the last inversion.
THRESHOLD, LOSS, RADIUS, ITEMS, UPDATES, MISTAKES, SHIFT, TYPICAL, DRIFT, LANCZOS_STEPS, N_TOTALS = range(11)
# Data, pairs of their rows, and whether each is similar.
Pairs = tuple[NDArray[np.floating], IndexArray, BoolArray]
# Inner products of points with each other and with differences of the basis so far, pairs of points, similar or not.
KernelPairs = tuple[FloatArray, FloatArray, LongArray, BoolArray]
# Work of LAPACK after an update, done between two runs of a loop: compiling calls of it takes ten seconds.
NOTHING, PROJECTION, INVERSION = range(3)
# After this many updates for each dimension a full projection removes rounding errors, at a cost of about d^2 per
# update.
REFRESH = 64
# From this dimension on the inverse is made, again after d steps with A, which take several times as long.
SHIFTED_FROM = 24
# Share of ``k(x, x) + k(x', x')``: a difference lies in the basis if its squared part outside is at most this.
DEPENDENT = 1e-10


def new_state(d: int, initial_threshold: float) -> State:
    """Return a stream that has taken nothing, with room for d dimensions: ``A_1 = 0``."""
    state = State(np.zeros((d, d)), np.zeros((d, d)), np.zeros(N_TOTALS))
    state.totals[THRESHOLD], state.totals[RADIUS] = initial_threshold, 1.0
    return state


@loop(fastmath=FAST)
def update(
    stream: State, d: int, v: FloatArray, similar: bool, gamma: float, beta: float, work: Workspace
) -> tuple[float, float, int]:
    """Take one pair, unless its loss is at most beta; return the loss, alpha, and what is due."""
    A, totals, sign = stream.metric, stream.totals, 1.0 if similar else -1.0
    times(A, v, d, work.Av)
    square, distance = dot(v, v, d), max(0.0, dot(v, work.Av, d))
    margin = sign * (totals[THRESHOLD] - distance)
    loss = max(0.0, 1.0 - margin)
    totals[RADIUS] = max(totals[RADIUS], square**2 + 1.0)
    totals[LOSS] += loss**2
    totals[ITEMS] += 1
    totals[MISTAKES] += 1 if margin <= 0.0 else 0
    if loss <= beta:
        return loss, 0.0, NOTHING
    alpha = loss / (square**2 + 1.0 + gamma)
    if totals[SHIFT] > 0.0:
        times(stream.inverse, v, d, work.Bv)
    eigenvalue = _negative_eigenvalue(stream, d, v, square, alpha, work) if similar and square > 0.0 else 0.0
    # A - sign alpha v v^T - eigenvalue u u^T, the projection
    root, up = np.sqrt(alpha), np.sqrt(-eigenvalue)
    if eigenvalue == 0.0:
        work.u[:] = 0.0
    for i in range(d):
        a, c = -sign * (root * v[i]), up * work.u[i]
        for j in range(d):
            A[i, j] += a * (root * v[j]) + c * (up * work.u[j])
    if totals[SHIFT] > 0.0:
        _follow(stream.inverse, d, v, sign * alpha, eigenvalue, work)
    totals[THRESHOLD] = max(1.0, totals[THRESHOLD] + sign * alpha)
    totals[UPDATES] += 1
    totals[DRIFT] += 1
    due = PROJECTION if totals[DRIFT] >= REFRESH * d else NOTHING
    if d >= SHIFTED_FROM and (totals[LANCZOS_STEPS] >= d or (totals[SHIFT] > 0.0 and due == PROJECTION)):
        due |= INVERSION
    return loss, alpha, due


@loop(fastmath=FAST)
def _negative_eigenvalue(stream: State, d: int, v: FloatArray, square: float, alpha: float, work: Workspace) -> float:
    """Return that of ``A - alpha v v^T``, or 0 without one: by the inverse if there is one, else by A."""
    totals, eigenvalue = stream.totals, 0.0
    if totals[SHIFT] > 0.0:
        eigenvalue = shifted_pair(stream.metric, stream.inverse, totals[SHIFT], d, v, square, alpha, work)
    if eigenvalue == 0.0:
        eigenvalue, steps = negative_pair(stream.metric, d, v, square, alpha, work)
        totals[LANCZOS_STEPS] += steps if eigenvalue < 0.0 else 0
    if eigenvalue < 0.0:
        typical = totals[TYPICAL]
        totals[TYPICAL] = -eigenvalue if typical == 0.0 else typical**0.9 * (-eigenvalue) ** 0.1
    return eigenvalue


@loop(fastmath=FAST)
def _follow(B: FloatArray, d: int, v: FloatArray, change: float, eigenvalue: float, work: Workspace) -> None:
    """Move the inverse as A moves by ``-change v v^T - eigenvalue u u^T`` (Sherman and Morrison).

    The part that keeps the metric PSD comes first.
    """
    Bv, Bu = work.Bv, work.basis[0]
    if eigenvalue < 0.0:
        times(B, work.u, d, Bu)
        factor = eigenvalue / (1.0 - eigenvalue * dot(work.u, Bu, d))
        along_v = factor * dot(Bu, v, d)
        _add_outer(B, d, factor, Bu)
        for i in range(d):
            Bv[i] += along_v * Bu[i]
    _add_outer(B, d, change / (1.0 - change * dot(v, Bv, d)), Bv)


@loop()
def _add_outer(A: FloatArray, d: int, factor: float, v: FloatArray) -> None:
    """Add ``factor * outer(v, v)`` to ``A[:d, :d]``."""
    for i in range(d):
        a = factor * v[i]
        for j in range(d):
            A[i, j] += a * v[j]


def settle(stream: State, d: int, due: int) -> None:
    """Project the leading (d, d) part of A onto the cone by a full decomposition, or invert it again into B."""
    A, B, totals = stream.metric[:d, :d], stream.inverse[:d, :d], stream.totals
    with threads.one_pool():
        if due & PROJECTION:
            values, vectors = np.linalg.eigh(0.5 * (A + A.T))
            roots = vectors * np.sqrt(np.maximum(values, 0.0))
            A[:] = roots @ roots.T
            totals[DRIFT] = 0
        if due & INVERSION:
            # A smaller shift than rounding in A would leave it singular.
            totals[SHIFT], totals[LANCZOS_STEPS] = max(totals[TYPICAL], EXACT * float(np.trace(A))), 0
            inverse = np.linalg.inv(A + totals[SHIFT] * np.eye(d))
            B[:] = 0.5 * (inverse + inverse.T)


@loop()
def _run(
    data: Pairs, first: int, last: int, gamma: float, beta: float, stream: State, losses: FloatArray, alphas: FloatArray
) -> tuple[int, int]:
    """Do as `run` up to `last` updates in all, or the first after which something is due; return that, too."""
    (X, pairs, similar), totals = data, stream.totals
    d = X.shape[1]
    v, work = np.empty(d), workspace(d)
    for t in range(first, len(pairs)):
        if totals[UPDATES] >= last:
            return t, NOTHING
        for i in range(d):
            v[i] = np.float64(X[pairs[t, 0], i]) - np.float64(X[pairs[t, 1], i])
        losses[t], alpha, due = update(stream, d, v, similar[t], gamma, beta, work)
        alphas[t] += alpha
        if due:
            return t + 1, due
    return len(pairs), NOTHING


def run(data: Pairs, first: int, max_updates: int, gamma: float, beta: float, stream: State, *out: FloatArray) -> int:
    """Take pairs from number `first` on; the number of the next pair, after `max_updates` at most.

    The losses before the updates go into the first of `out`; the multiples of ``v v^T`` that were added or taken away
    are added to the second one. Both are (p,) arrays.
    """
    rows, last, due = tuple(map(fixed, data)), int(stream.totals[UPDATES]) + max_updates, INVERSION
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
    """Do as `run_kernel` from pair `start` on, up to an update with something due."""
    (G, K, pairs, similar), B, shift = data, stream.inverse, stream.totals[SHIFT]
    size, first = len(B), K.shape[1]
    v, work = np.empty(size), workspace(size)
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
        if not outside >= -PSD_TOLERANCE * scale:  # the kernel is not PSD
            return t, rank, NOTHING
        d = rank
        if outside > DEPENDENT * scale:
            v[rank] = np.sqrt(outside)
            d = rank + 1
            if shift > 0.0:  # the metric is 0 in a new direction
                B[rank, :d] = 0.0
                B[:d, rank] = 0.0
                B[rank, rank] = 1.0 / shift
        losses[t], alpha, due = update(stream, d, v, similar[t], gamma, 0.0, work)
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
