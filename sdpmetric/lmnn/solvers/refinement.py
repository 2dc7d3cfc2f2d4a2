"""Dual refinement: from nearly feasible multipliers to a lower bound as good as the point they come from.

Near an optimum the multipliers of a first-order method violate the cone, ``I - sum a_t B_t >= 0``, by far more than
the point's objective is off: the violation in a direction goes like the square root of what is left to gain there.
Scaling by the largest eigenvalue pays for the worst direction with the whole bound. Multipliers strictly inside
their box are free to move, though, and there are enough of them to set the few eigenvalues near 1 to exactly 1: a
least-squares problem in as many dimensions as the optimal face has. See ``docs/lmnn_solvers.md``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from sdpmetric.arrays import FloatArray
from sdpmetric.core.certificate import Dual
from sdpmetric.engine.interface import check_deadline
from sdpmetric.linalg import psd
from sdpmetric.lmnn.bound import best_multiple_bound
from sdpmetric.lmnn.problem import LargeMarginProblem
from sdpmetric.lmnn.solvers.working_set import Movable, Multipliers, WorkingSet

# Eigenvalues of sum a_t B_t above this belong to the face if the point has weight there.
FACE = 0.9
# Where a cone is violated by more than this, multipliers run into their box before they can reach it.
HOPELESS = 1.2
# What may be left of violations, as a share of what the smoothing leaves of the gap.
ENOUGH = 0.02
# A direction belongs to the metric if its weight, relative to the largest, exceeds its dual slack by this factor.
TO_THE_METRIC = 3.0


@dataclass(frozen=True)
class Bound:
    """A proven lower bound and what proves it.

    Eigenvalues, (c, rank), and eigenvectors are those of ``sum a_t B_t`` before any refinement, in increasing order:
    directions above 1 are where the metric has too little.
    """

    value: float
    multipliers: Multipliers  # a multiple of them is dual feasible
    smoothing_loss: float  # sum mu w [u]_+ - a u: what the width of the smoothing alone keeps the gap from closing
    eigenvalues: FloatArray
    eigenvectors: FloatArray


def prove(working: WorkingSet, L: FloatArray, gamma: float, *, rounds: int = 3) -> Bound:
    """Lower bound from the slopes at a factor, refined."""
    return working.again(partial(_prove, working, L, gamma, rounds))


def _prove(working: WorkingSet, L: FloatArray, gamma: float, rounds: int) -> Bound:
    a, held = working.slopes(L, gamma)
    eigenvalues, eigenvectors = np.linalg.eigh(a.matrix)
    squared = working.problem.push.squared

    def value(totals: FloatArray, top: float) -> float:
        total, coincident, squares = totals.tolist()
        return best_multiple_bound(total, squares if squared else None, top, working.weight, coincident=coincident)[0]

    own = float(a.totals[0]) - float(np.sum((L @ a.matrix) * L))  # sum a_t u_t
    smoothing_loss = 0.0 if squared else working.weight * a.loss - own
    top = float(eigenvalues.max(initial=0.0))
    best = Bound(value(a.totals, top), held, smoothing_loss, eigenvalues, eigenvectors)
    if not rounds or eigenvalues.max(initial=0.0) > HOPELESS or not working.free(held):
        return best
    enough = ENOUGH * smoothing_loss / max(float(a.totals[0]), 1e-300)
    for w in refinements(working, a.matrix, L, rounds, enough):
        refined = value(working.moved(), float(w.max()))
        if refined > best.value:
            best = Bound(refined, working.keep(), smoothing_loss, eigenvalues, eigenvectors)
    return best


def refined_dual(problem: LargeMarginProblem, L: FloatArray, dual: Dual, rounds: int = 5) -> Dual:
    """Refine given multipliers, at factors (c, r, rank) near the optimum; never for the worse.

    Multipliers of a squared hinge, which determine the metric's hinges, stay as they are.
    """
    if problem.squared:
        return dual
    push, points = problem.push, problem.points
    ceiling = push.ceilings(dual.triplets)
    values = np.clip(dual.values, 0.0, ceiling)
    inside = np.flatnonzero(np.minimum(values, ceiling - values) > 1e-6 * ceiling)
    matrix, coincident = push.adjoint(points, dual.triplets, values), push.coincident(dual.triplets)

    def bound(top: float) -> float:
        return best_multiple_bound(
            float(values.sum()), None, top, problem.push_weight, coincident=float(values[coincident].sum())
        )[0]

    best, chosen, T = bound(max(map(psd.largest_eigenvalue, matrix))), values.copy(), dual.triplets[inside]
    far, near = push.point_pairs(T.anchors, T.impostors), push.point_pairs(T.anchors, T.targets)
    movable = Movable(points, push.blocks, far, near, values[inside], ceiling[inside])
    for w in refinements(movable, matrix, L, rounds if len(inside) else 0):
        values[inside] = movable.values
        if bound(float(w.max())) > best:
            best, chosen = bound(float(w.max())), values.copy()
    return Dual(dual.triplets, chosen)


def refinements(
    free: Movable | WorkingSet, matrix: FloatArray, L: FloatArray, rounds: int, enough: float = 0.0
) -> Iterator[FloatArray]:
    """Move multipliers inside their box until ``I - sum a_t B_t`` is PSD, and complementary to the metric."""
    w, V = np.linalg.eigh(matrix)
    for _ in range(rounds):
        width = int((w > FACE).sum(axis=1).max())
        if width == 0:
            return
        # The last eigenvectors of each metric; those that do not belong to its face are set to 0.
        w, Q = w[:, -width:], np.where((w > FACE)[:, None, -width:], V[:, :, -width:], 0.0)
        mass = np.sum((L @ Q) ** 2, axis=1)
        off = np.where(w > FACE, w - 1.0, 0.0)
        # Where the metric has weight S must vanish; elsewhere it may be positive, and only violations are removed. Of
        # the two, the one that is the smaller in its own units is the one that vanishes at the optimum.
        off[(off < 0) & (mass < -TO_THE_METRIC * off * mass.max(axis=1, keepdims=True))] = 0.0
        free.face(Q)
        matrix = matrix + free.move(_least_change(free, off[:, :, None] * np.eye(width), enough))
        w, V = np.linalg.eigh(matrix)
        yield w
        if w.max() <= 1.0 + max(enough, 1e-9):
            return


def _least_change(free: Movable | WorkingSet, E: FloatArray, enough: float) -> FloatArray:
    """The y whose change ``c = D A y`` of multipliers has ``Q^T (sum c_t B_t) Q = E`` and is least for ``sum c^2 / D``.

    What is left of E is at most `enough`, or a thousandth.

    Conjugate gradients on ``A* D A y = E`` with ``A(y)_t = <B_t, Q y Q^T>``, D the room to the bounds.
    """
    y, r = np.zeros_like(E), E.copy()
    d, rr = r.copy(), float(np.sum(r * r))
    before_all = rr
    for _ in range(60):
        check_deadline()
        if rr <= max(1e-6 * before_all, enough * enough) or rr == 0.0 or rr > 1e6 * before_all:  # done, or broken down
            break
        Hd = free.curvature(d)
        curvature = float(np.sum(d * Hd))
        if not curvature > 1e-30 * rr:  # no multiplier changes this direction
            break
        y += (rr / curvature) * d
        r -= (rr / curvature) * Hd
        rr, before = float(np.sum(r * r)), rr
        d = r + (rr / before) * d
    return y
