"""Dual refinement: from nearly feasible multipliers to a lower bound as good as the point they come from.

Near an optimum the multipliers of a first-order method violate the cone, ``I - sum a_t B_t >= 0``, by far more than
the point's objective is off: the violation in a direction goes like the square root of what is left to gain there.
Scaling by the largest eigenvalue pays for the worst direction with the whole bound. Multipliers strictly inside
their box are free to move, though, and there are enough of them to set the few eigenvalues near 1 to exactly 1: a
least-squares problem in as many dimensions as the optimal face has.

With Q the eigenvectors of ``sum a_t B_t`` for eigenvalues near 1, E what these are above 1, and D the room of each
multiplier to its bounds, the change ``c = D A y`` with ``A(y)_t = <B_t, Q y Q^T>`` and ``A* D A y = E`` is the one with
``Q^T (sum c_t B_t) Q = E`` and the least ``sum c_t^2 / D_t``. See ``docs/lmnn_solvers.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg

from sdpmetric.arrays import FloatArray
from sdpmetric.core.certificate import Dual
from sdpmetric.engine.threads import check_deadline
from sdpmetric.lmnn.problem import LargeMarginProblem
from sdpmetric.lmnn.solvers.hinges import Hinges


@dataclass(frozen=True)
class RefinementOptions:
    """Which eigenvalues of ``sum a_t B_t`` are brought to 1, and how exactly."""

    rounds: int = 3
    face: float = 0.9  # eigenvalues above this belong to the face if the metric has weight there
    few_dimensions: int = 100  # from here on the eigenvalues of a face take half the time of all
    hopeless: float = 1.2  # from this eigenvalue on multipliers run into their box before they can reach the cone
    tolerance: float = 0.02  # remaining violations, as a share of what the smoothing leaves of the gap
    metric_share: float = 3.0  # a direction is the metric's if its relative weight exceeds its slack by this factor
    iterations: int = 60  # of conjugate gradients,
    residual: float = 1e-6  # down to this share of the squared residual
    dense_work: int = 100_000_000  # most multiplications to form the matrix of ``A* D A``,
    ridge: float = 1e-6  # with a ridge of this share of its trace: directions that hardly any multiplier changes stay


OPTIONS = RefinementOptions()


@dataclass(frozen=True)
class Bound:
    """A proven lower bound and what proves it.

    Eigenvalues, (c, k), and eigenvectors are the last of ``sum a_t B_t`` before refinement, in increasing order. The
    metric has too little along directions above 1.
    """

    value: float
    multipliers: FloatArray  # of the candidates, (nnz, K); a multiple of them is dual feasible
    smoothing_loss: float  # sum mu w [u]_+ - a u: what the width of the smoothing alone keeps the gap from closing
    eigenvalues: FloatArray
    eigenvectors: FloatArray


def prove(hinges: Hinges, L: FloatArray, gamma: float) -> Bound:
    """Prove a bound by the slopes at factors, (c, r, rank), smoothed over a width, refined."""
    losses, slopes = hinges.slopes(L, gamma)
    return refined(hinges, L, slopes, None if hinges.push.squared else float(losses.sum()))


def refined(hinges: Hinges, L: FloatArray, multipliers: FloatArray, loss: float | None = None) -> Bound:
    """Prove a bound by multipliers, refined at factors near the optimum; it is never below that of the given ones.

    A loss, that of the hinges at the factors, gives multipliers that are slopes a smoothing loss.
    """
    matrix = hinges.margin_sums(multipliers)
    w, V = _leading(matrix)
    total, largest, smoothing_loss = float(multipliers.sum()), float(w.max(initial=0.0)), 0.0
    if loss is not None:
        smoothing_loss = loss - total + float(np.sum((L @ matrix) * L))  # sum a_t u_t = sum a_t - <sum a_t B_t, M>
    best = Bound(hinges.bound(hinges.sums(multipliers), largest), multipliers, smoothing_loss, w, V)
    is_movable = np.asarray((hinges.room(multipliers) > 0.0).any(axis=1))
    if largest > OPTIONS.hopeless or not is_movable.any():
        return best
    tolerance = OPTIONS.tolerance * smoothing_loss / max(total, 1e-300)
    movable, values = hinges.select(is_movable), multipliers[is_movable]
    for _ in range(OPTIONS.rounds):
        Q, E = _face(w, V, L)
        if not Q.shape[2]:
            break
        room = movable.room(values)
        change = least_change(replace(movable, points=movable.blocks.times(movable.points, Q)), room, E, tolerance)
        next_values = np.clip(values - change, 0.0, np.inf if hinges.push.squared else movable.ceilings)
        matrix, values = matrix + movable.margin_sums(next_values - values), next_values
        w, V = _leading(matrix)
        multipliers = multipliers.copy()
        multipliers[is_movable] = values
        value = hinges.bound(hinges.sums(multipliers), float(w.max(initial=0.0)))
        if value > best.value:
            best = replace(best, value=value, multipliers=multipliers)
        if w.max(initial=0.0) <= 1.0 + max(tolerance, 1e-9):
            break
    return best


def refined_dual(problem: LargeMarginProblem, L: FloatArray, dual: Dual) -> Dual:
    """Refine multipliers of triplets of the problem, at factors near the optimum."""
    hinges = Hinges.of_triplets(problem.push, problem.points, dual.triplets)
    values = np.clip(dual.values[:, None], 0.0, np.inf if problem.squared else hinges.ceilings)
    return hinges.dual(refined(hinges, L, values).multipliers)


def _leading(matrices: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the eigenvalues of each matrix that may belong to a face, or more, and their eigenvectors.

    If the former are fewer than those of another matrix, or none, their largest possible value comes before them.
    """
    if matrices.shape[1] < OPTIONS.few_dimensions:
        values, vectors = np.linalg.eigh(matrices)
        return values, vectors
    pairs = [scipy.linalg.eigh(A, subset_by_value=(OPTIONS.face, np.inf), check_finite=False) for A in matrices]
    width = max(1, *(len(w) for w, _ in pairs))
    w = np.stack([np.pad(w, (width - len(w), 0), constant_values=OPTIONS.face) for w, _ in pairs])
    return w, np.stack([np.pad(V, ((0, 0), (width - V.shape[1], 0))) for _, V in pairs])


def _face(w: FloatArray, V: FloatArray, L: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return eigenvectors near 1 of each metric, (c, rank, width), and by how much to lower them, (c, width, width)."""
    on_face = w > OPTIONS.face
    width = int(on_face.sum(axis=1).max())
    # The last eigenvectors of each metric; those that do not belong to its face are set to 0.
    first = w.shape[1] - width
    w, on_face = w[:, first:], on_face[:, first:]
    Q = np.where(on_face[:, None], V[:, :, first:], 0.0)
    metric_weight = np.sum((L @ Q) ** 2, axis=1)
    change = np.where(on_face, w - 1.0, 0.0)
    # Where the metric has weight S must vanish; elsewhere it may be positive, and only violations are removed. Of
    # the two, the one that is the smaller in its own units is the one that vanishes at the optimum.
    threshold = -OPTIONS.metric_share * change * metric_weight.max(axis=1, keepdims=True, initial=0.0)
    change[(change < 0) & (metric_weight < threshold)] = 0.0
    return Q, change[:, :, None] * np.eye(width)


def least_change(face: Hinges, room: FloatArray, E: FloatArray, tolerance: float) -> FloatArray:
    """Return ``D A y``, (nnz, K), for hinges in the coordinates of a face: ``A* D A y = E``, up to a tolerance."""
    n_entries = len(E) * E.shape[1] * (E.shape[1] + 1) // 2
    directly = np.count_nonzero(room) * n_entries**2 <= OPTIONS.dense_work
    return room * face.forms(_by_matrix(face, room, E) if directly else _by_gradients(face, room, E, tolerance))


def _by_matrix(face: Hinges, room: FloatArray, E: FloatArray) -> FloatArray:
    """Return y by the matrix of ``A* D A``."""
    C, (pair, slot), (row, column) = face.candidates, np.nonzero(room), np.triu_indices(E.shape[1])
    scale = np.where(row == column, 1.0, math.sqrt(2.0)).astype(face.points.dtype)
    forms, rows = np.zeros((len(pair), len(E), len(scale)), scale.dtype), C.rows
    of_targets = face.bases.ravel(), C.targets.ravel(), rows[pair] * room.shape[1] + slot
    for sign, (first, second, place) in ((1, (C.anchors[rows], C.impostors, pair)), (-1, of_targets)):
        differences = face.points[first] - face.points[second]
        squares = differences[:, row] * differences[:, column] * scale
        block = np.searchsorted(face.blocks.bounds, second[place], side="right") - 1
        forms[np.arange(len(pair)), block] += sign * squares[place]
    A = forms.reshape(len(pair), len(E) * len(scale))
    H = (A.T @ (room[pair, slot].astype(A.dtype)[:, None] * A)).astype(np.float64)
    y = np.zeros_like(E)
    if (trace := float(np.trace(H))) > 0.0:  # else no multiplier changes any direction
        H[np.diag_indices_from(H)] += OPTIONS.ridge * trace
        y[:, row, column] = np.linalg.solve(H, (E[:, row, column] * scale).ravel()).reshape(len(E), -1) / scale
        y[:, column, row] = y[:, row, column]
    return y


def _by_gradients(face: Hinges, room: FloatArray, E: FloatArray, tolerance: float) -> FloatArray:
    """Return y by conjugate gradients, up to a tolerance or a thousandth."""
    y, r = np.zeros_like(E), E.copy()
    d, rr = r.copy(), float(np.sum(r * r))
    first_rr = rr
    for _ in range(OPTIONS.iterations):
        check_deadline()
        done = rr <= max(OPTIONS.residual * first_rr, tolerance * tolerance)
        if done or rr == 0.0 or rr > 1e6 * first_rr:  # the last: broken down
            break
        Hd = face.adjoint(room * face.forms(d))
        curvature = float(np.sum(d * Hd))
        if not curvature > 1e-30 * rr:  # no multiplier changes this direction
            break
        y += (rr / curvature) * d
        r -= (rr / curvature) * Hd
        rr, previous_rr = float(np.sum(r * r)), rr
        d = r + (rr / previous_rr) * d
    return y
