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

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from sdpmetric.arrays import FloatArray, LongArray
from sdpmetric.core.certificate import Dual
from sdpmetric.engine.threads import check_deadline
from sdpmetric.lmnn.bound import best_multiple_bound
from sdpmetric.lmnn.problem import LargeMarginProblem
from sdpmetric.lmnn.solvers.working_set import MovableTriplets, WorkingSet

# Which entries of an array of multipliers.
Entries = LongArray | tuple[LongArray, LongArray]


@dataclass(frozen=True)
class RefinementOptions:
    """Which eigenvalues of ``sum a_t B_t`` are brought to 1, and how exactly."""

    rounds: int = 3  # of multipliers that a descent proves its gap with,
    final_rounds: int = 5  # and of those that another solver ends with
    face: float = 0.9  # eigenvalues above this belong to the face if the metric has weight there
    hopeless: float = 1.2  # from this eigenvalue on multipliers run into their box before they can reach the cone
    tolerance: float = 0.02  # remaining violations, as a share of what the smoothing leaves of the gap
    metric_share: float = 3.0  # a direction is the metric's if its relative weight exceeds its slack by this factor
    iterations: int = 60  # of conjugate gradients,
    residual: float = 1e-6  # down to this share of the squared residual


OPTIONS = RefinementOptions()


@dataclass(frozen=True)
class Bound:
    """A proven lower bound and what proves it.

    Eigenvalues, (c, rank), and eigenvectors are those of ``sum a_t B_t`` before any refinement, in increasing order:
    the metric has too little along directions above 1.
    """

    value: float
    multipliers: FloatArray  # of the candidates of the last search, (nnz, K); a multiple of them is dual feasible
    smoothing_loss: float  # sum mu w [u]_+ - a u: what the width of the smoothing alone keeps the gap from closing
    eigenvalues: FloatArray
    eigenvectors: FloatArray


def prove(working: WorkingSet, L: FloatArray, gamma: float) -> Bound:
    """Prove a bound by the slopes at a factor, refined."""
    slopes = working.slopes(L, gamma)
    eigenvalues, eigenvectors = np.linalg.eigh(slopes.matrix)
    sum_a = float(slopes.multipliers.sum())
    sum_au = sum_a - float(np.sum((L @ slopes.matrix) * L))  # sum a_t u_t
    smoothing_loss = 0.0 if working.problem.squared else working.weight * slopes.loss - sum_au
    tolerance = OPTIONS.tolerance * smoothing_loss / max(sum_a, 1e-300)

    def bound(multipliers: FloatArray, largest: float) -> float:
        total, squares, coincident = working.totals(multipliers)
        return best_multiple_bound(total, squares, largest, working.weight, coincident=coincident)[0]

    multipliers, largest = slopes.multipliers, float(eigenvalues.max(initial=0.0))
    best = bound(multipliers, largest)
    if largest <= OPTIONS.hopeless:
        movable, entries = working.movable(multipliers)
        rounds = refinements(movable, slopes.matrix, (eigenvalues, eigenvectors), L, OPTIONS.rounds, tolerance)
        best, multipliers = best_of(rounds, movable, multipliers, entries, best, bound)
    return Bound(best, multipliers, smoothing_loss, eigenvalues, eigenvectors)


def refined_dual(problem: LargeMarginProblem, L: FloatArray, dual: Dual) -> Dual:
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

    def bound(multipliers: FloatArray, largest: float) -> float:
        at_anchors = float(multipliers[coincident].sum())
        return best_multiple_bound(float(multipliers.sum()), None, largest, push.weight, coincident=at_anchors)[0]

    T = dual.triplets[inside]
    pairs = push.point_pairs(T.anchors, T.impostors), push.point_pairs(T.anchors, T.targets)
    movable = MovableTriplets(points, push.blocks, *pairs, values[inside], ceiling[inside])
    eigenpairs = np.linalg.eigh(matrix)
    rounds = refinements(movable, matrix, eigenpairs, L, OPTIONS.final_rounds)
    best = bound(values, float(eigenpairs[0].max(initial=0.0)))
    return Dual(dual.triplets, best_of(rounds, movable, values, inside, best, bound)[1])


def best_of(
    rounds: Iterator[FloatArray],
    movable: MovableTriplets,
    multipliers: FloatArray,
    entries: Entries,
    best: float,
    bound: Callable[[FloatArray, float], float],
) -> tuple[float, FloatArray]:
    """The best bound of some rounds of refinement, which is not below that of the multipliers as they are, and those.

    The movable multipliers are some entries of the array. ``bound(multipliers, largest eigenvalue)`` judges a round.
    """
    refined, best_multipliers = multipliers.copy(), multipliers
    for eigenvalues in rounds:
        refined[entries] = movable.values
        if (value := bound(refined, float(eigenvalues.max()))) > best:
            best, best_multipliers = value, refined.copy()
    return best, best_multipliers


def refinements(
    movable: MovableTriplets,
    matrix: FloatArray,
    eigenpairs: tuple[FloatArray, FloatArray],
    L: FloatArray,
    rounds: int,
    tolerance: float = 0.0,
) -> Iterator[FloatArray]:
    """Move multipliers inside their box until ``I - sum a_t B_t`` is PSD, and complementary to the metric.

    The matrix, (c, rank, rank), is ``sum a_t B_t``, with its eigenvalues and eigenvectors. Yields the eigenvalues, (c,
    rank), after each round.
    """
    if not len(movable.values):
        return
    w, V = eigenpairs
    for _ in range(rounds):
        on_face = w > OPTIONS.face
        width = int(on_face.sum(axis=1).max())
        if width == 0:
            return
        # The last eigenvectors of each metric; those that do not belong to its face are set to 0.
        w, on_face = w[:, -width:], on_face[:, -width:]
        Q = np.where(on_face[:, None], V[:, :, -width:], 0.0)
        metric_weight = np.sum((L @ Q) ** 2, axis=1)
        change = np.where(on_face, w - 1.0, 0.0)
        # Where the metric has weight S must vanish; elsewhere it may be positive, and only violations are removed. Of
        # the two, the one that is the smaller in its own units is the one that vanishes at the optimum.
        threshold = -OPTIONS.metric_share * change * metric_weight.max(axis=1, keepdims=True)
        change[(change < 0) & (metric_weight < threshold)] = 0.0
        movable.set_face(Q)
        matrix = matrix + movable.move(_least_change(movable, change[:, :, None] * np.eye(width), tolerance))
        w, V = np.linalg.eigh(matrix)
        yield w
        if w.max() <= 1.0 + max(tolerance, 1e-9):
            return


def _least_change(movable: MovableTriplets, E: FloatArray, tolerance: float) -> FloatArray:
    """The y with ``A* D A y = E`` up to a tolerance, or a thousandth; by conjugate gradients if the map is large."""
    if (directly := movable.least_change(E)) is not None:
        return directly
    y, r = np.zeros_like(E), E.copy()
    d, rr = r.copy(), float(np.sum(r * r))
    first_rr = rr
    for _ in range(OPTIONS.iterations):
        check_deadline()
        done = rr <= max(OPTIONS.residual * first_rr, tolerance * tolerance)
        if done or rr == 0.0 or rr > 1e6 * first_rr:  # the last: broken down
            break
        Hd = movable.curvature(d)
        curvature = float(np.sum(d * Hd))
        if not curvature > 1e-30 * rr:  # no multiplier changes this direction
            break
        y += (rr / curvature) * d
        r -= (rr / curvature) * Hd
        rr, previous_rr = float(np.sum(r * r)), rr
        d = r + (rr / previous_rr) * d
    return y
