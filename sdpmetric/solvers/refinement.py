"""Dual refinement: from nearly feasible multipliers to a lower bound as good as the point they come from.

Near an optimum the multipliers of a first-order method violate the cone, ``I - sum a_t B_t >= 0``, by far more than
the point's objective is off: the violation in a direction goes like the square root of what is left to gain there.
Scaling by the largest eigenvalue pays for the worst direction with the whole bound. Multipliers strictly inside
their box are free to move, though, and there are enough of them to set the few eigenvalues near 1 to exactly 1: a
least-squares problem in as many dimensions as the optimal face has. See ``docs/factored.md``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sdpmetric import psd
from sdpmetric.distances import laplacian_form, margin_adjoint, pair_forms
from sdpmetric.neighbors import Triplets
from sdpmetric.problems.lmnn import LMNNProblem
from sdpmetric.solution import Dual
from sdpmetric.solvers.working_set import Multipliers, WorkingSet

FloatArray = NDArray[np.float64]

# Eigenvalues of sum a_t B_t above this belong to the face if the point has weight there.
FACE = 0.9
# Where the cone is violated by more than this, multipliers run into their box before they can mend it.
HOPELESS = 1.2
# A direction belongs to the metric if its weight, relative to the largest, exceeds its dual slack by this factor.
TO_THE_METRIC = 3.0


@dataclass(frozen=True)
class Bound:
    """A proven lower bound and what proves it.

    Attributes
    ----------
    value : float
    multipliers : Multipliers
        Their multiple ``scaling`` is dual feasible.
    eigenvalues, eigenvectors : (rank,), (rank, rank) arrays
        Of ``sum a_t B_t`` before any refinement, in increasing order: directions above 1 are where the metric has too
        little.
    smoothing_loss : float
        ``sum mu w [u]_+ - a u``, what the width of the smoothing alone keeps the gap from closing.
    """

    value: float
    multipliers: Multipliers
    smoothing_loss: float
    eigenvalues: FloatArray
    eigenvectors: FloatArray


def bound_of(total: float, squares: float, top: float, push_weight: float, squared: bool) -> float:
    """Lower bound from a multiple of multipliers: ``sum a``, ``sum a^2 / w``, largest eigenvalue of their matrix."""
    limit = 1.0 / max(top * (1 + 1e-13), np.finfo(float).tiny)
    if not squared:
        return min(1.0, limit) * total
    scaling = min(limit, 2 * push_weight * total / max(squares, np.finfo(float).tiny))
    return scaling * total - scaling**2 * squares / (4 * push_weight)


def prove(working: WorkingSet, L: FloatArray, gamma: float, *, rounds: int = 3, refine: bool = True) -> Bound:
    """Lower bound from the slopes at a factor, refined.

    Parameters
    ----------
    working : WorkingSet
    L : (r, rank) array
    gamma : float
        Smoothing width; 0 < slope < push weight exactly on the width.
    rounds : int, default 3
        Refinements at most.
    refine : bool, default True
        Whether to refine at all.
    """
    problem = working.problem
    a = working.multipliers(L, gamma)
    eigenvalues, eigenvectors = np.linalg.eigh(a.matrix)
    squared = problem.squared
    ceiling = working.weight * (1.0 if working.candidates.weights is None else working.candidates.weights[:, None])

    def value(values: FloatArray, top: float) -> float:
        squares = 0.0
        if squared:
            with np.errstate(divide="ignore", invalid="ignore"):
                squares = float(np.nansum(np.where(values > 0, values**2 / (ceiling / working.weight), 0.0)))
        return bound_of(float(values.sum()), squares, top, working.weight, squared)

    own = a.total - float(np.sum((L @ a.matrix) * L))  # sum a_t u_t
    smoothing_loss = 0.0 if squared else a.loss - own
    best = Bound(value(a.values, eigenvalues[-1]), a, smoothing_loss, eigenvalues, eigenvectors)
    if not refine or eigenvalues[-1] > HOPELESS:
        return best
    room = np.minimum(a.values, ceiling - a.values) if not squared else a.values
    pair, slot = np.nonzero(room > 0)
    C = working.candidates
    row = C.rows[pair]
    inside = Triplets(C.anchors[row], C.targets[row, slot], C.impostors[pair])
    limits = np.broadcast_to(ceiling, a.values.shape)[pair, slot] if not squared else np.full(len(pair), np.inf)
    values = a.values.copy()
    for moved, matrix, w in mended(working.X, inside, a.values[pair, slot], limits, a.matrix, L, rounds):
        values[pair, slot] = moved
        refined = value(values, w[-1])
        if refined > best.value:
            best = Bound(refined, Multipliers(values.copy(), matrix, a.loss), smoothing_loss, eigenvalues, eigenvectors)
    return best


def refined_dual(problem: LMNNProblem, L: FloatArray, dual: Dual, rounds: int = 5) -> Dual:
    """Refine given multipliers, at a factor on `LMNNProblem.points` near the optimum; never for the worse.

    Multipliers of a squared hinge, which determine the metric's hinges, stay as they are.

    Parameters
    ----------
    problem : LMNNProblem
    L : (r, rank) array
    dual : Dual
        Multipliers of triplets of the problem, nearly in their box and in the cone.
    rounds : int, default 5
    """
    if problem.squared:
        return dual
    ceiling = problem.push_weight * problem.source.weights_of(dual.triplets)
    values = np.clip(dual.values, 0.0, ceiling)
    inside = np.flatnonzero(np.minimum(values, ceiling - values) > 1e-6 * ceiling)
    matrix = margin_adjoint(problem.points, dual.triplets, values)
    best, chosen = values.sum() / max(1.0, psd.largest_eigenvalue(matrix)), values.copy()
    for moved, _, w in mended(
        problem.points, dual.triplets[inside], values[inside], ceiling[inside], matrix, L, rounds
    ):
        values[inside] = moved
        if values.sum() / max(1.0, w[-1]) > best:
            best, chosen = values.sum() / max(1.0, w[-1]), values.copy()
    return Dual(dual.triplets, chosen)


def mended(
    X: NDArray[np.floating],
    inside: Triplets,
    values: FloatArray,
    limits: FloatArray,
    matrix: FloatArray,
    L: FloatArray,
    rounds: int,
) -> Iterator[tuple[FloatArray, FloatArray, FloatArray]]:
    """Move multipliers inside their box until ``I - sum a_t B_t`` is PSD, and complementary to the metric.

    Parameters
    ----------
    X : (n, rank) array
        Whitened points.
    inside : Triplets
        Those whose multipliers may move, row numbers of X.
    values, limits : (t,) arrays
        Their multipliers, and the upper ends of their box.
    matrix : (rank, rank) array
        ``sum a_t B_t`` over all triplets.
    L : (r, rank) array
        Factor of the metric.
    rounds : int

    Yields
    ------
    values, matrix, eigenvalues
        After each round; eigenvalues of the matrix in increasing order.
    """
    w, V = np.linalg.eigh(matrix)
    for _ in range(rounds if len(inside) else 0):
        near = w > FACE
        if not near.any():
            return
        Q = V[:, near]
        mass = np.sum((L @ Q) ** 2, axis=0)
        off = w[near] - 1.0
        # Where the metric has weight S must vanish; elsewhere it may be positive, and only violations are mended. Of
        # the two, the one that is the smaller in its own units is the one that vanishes at the optimum.
        off[(off < 0) & (mass < -TO_THE_METRIC * off * mass.max(initial=0.0))] = 0.0
        free = np.where(np.isinf(limits), values, np.minimum(values, limits - values))
        new = np.clip(
            values - _least_change(np.asarray(X @ Q, dtype=np.float64), inside, free, np.diag(off)), 0.0, limits
        )
        matrix = matrix + margin_adjoint(np.asarray(X, dtype=np.float64), inside, new - values)
        values = new
        w, V = np.linalg.eigh(matrix)
        yield values, matrix, w
        if w[-1] <= 1.0 + 1e-9:
            return


def _least_change(XQ: FloatArray, inside: Triplets, free: FloatArray, E: FloatArray) -> FloatArray:
    """The change c of multipliers with ``Q^T (sum c_t B_t) Q = E`` that is least in the norm ``sum c^2 / free``.

    Conjugate gradients on ``A* D A y = E`` with ``A(y)_t = <B_t, Q y Q^T>``, D the room to the bounds; ``c = D A y``.
    """
    used, place = np.unique(inside.to_array(), return_inverse=True)
    anchors, targets, impostors = np.ascontiguousarray(place.reshape(-1, 3).T, dtype=np.int32)
    P = np.ascontiguousarray(XQ[used])
    first, second = np.concatenate([anchors, anchors]), np.concatenate([impostors, targets])

    def change(y: FloatArray) -> FloatArray:
        forms = pair_forms(P, y, first, second)
        c: FloatArray = free * (forms[: len(anchors)] - forms[len(anchors) :])
        return c

    y, r = np.zeros_like(E), E.copy()
    d, rr = r.copy(), float(np.sum(r * r))
    first_rr = rr
    for _ in range(60):
        if rr <= 1e-6 * first_rr or rr == 0.0:
            break
        c = change(d)
        Hd = laplacian_form(P, first, second, np.concatenate([c, -c]))
        curvature = float(np.sum(d * Hd))
        if curvature <= 0.0:
            break
        y += (rr / curvature) * d
        r -= (rr / curvature) * Hd
        rr, before = float(np.sum(r * r)), rr
        d = r + (rr / before) * d
    return change(y)
