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

from sdpmetric.core.multipliers import Dual
from sdpmetric.linalg import psd
from sdpmetric.linalg.distances import Blocks, laplacian_form, pair_forms
from sdpmetric.problems.lmnn import LMNNProblem
from sdpmetric.problems.push_dual import best_multiple_bound
from sdpmetric.solvers.lmnn.working_set import Multipliers, WorkingSet
from sdpmetric.triplets.limits import check_deadline
from sdpmetric.triplets.margins import margin_adjoint

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.int32]

# Eigenvalues of sum a_t B_t above this belong to the face if the point has weight there.
FACE = 0.9
# Where cones are violated by more than this on average, multipliers run into their box before they can reach it.
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
    eigenvalues, eigenvectors : (c, rank), (c, rank, rank) arrays
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


def prove(working: WorkingSet, L: FloatArray, gamma: float, *, rounds: int = 3, refine: bool = True) -> Bound:
    """Lower bound from the slopes at a factor, refined.

    Parameters
    ----------
    working : WorkingSet
    L : (c, r, rank) array
    gamma : float
        Smoothing width; 0 < slope < push weight exactly on the width.
    rounds : int, default 3
        Refinements at most.
    refine : bool, default True
        Whether to refine at all.
    """
    a = working.multipliers(L, gamma)
    eigenvalues, eigenvectors = np.linalg.eigh(a.matrix)
    squared = working.problem.push.squared
    coincident = working.coincident
    ceiling = working.weight * (1.0 if working.candidates.weights is None else working.candidates.weights[:, None])

    def value(values: FloatArray, top: float) -> float:
        squares = None
        if squared:
            with np.errstate(divide="ignore", invalid="ignore"):
                squares = float(np.nansum(np.where(values > 0, values**2 / (ceiling / working.weight), 0.0)))
        return best_multiple_bound(
            float(values.sum()), squares, top, working.weight, coincident=float(values[coincident].sum())
        )[0]

    own = a.total - float(np.sum((L @ a.matrix) * L))  # sum a_t u_t
    smoothing_loss = 0.0 if squared else a.loss - own
    top = float(eigenvalues.max(initial=0.0))
    best = Bound(value(a.values, top), a, smoothing_loss, eigenvalues, eigenvectors)
    if not refine or eigenvalues[:, -1:].mean() > HOPELESS:
        return best
    room = np.minimum(a.values, ceiling - a.values) if not squared else a.values
    pair, slot = np.nonzero(room > 0)
    C = working.candidates
    row = C.rows[pair]
    far = (C.anchors[row], C.impostors[pair])
    inside = Movable(working.X, working.blocks, far, (working.bases[row, slot], C.targets[row, slot]))
    limits = np.broadcast_to(ceiling, a.values.shape)[pair, slot] if not squared else np.full(len(pair), np.inf)
    values = a.values.copy()
    for moved, matrix, w in refinements(inside, a.values[pair, slot], limits, a.matrix, L, rounds):
        values[pair, slot] = moved
        refined = value(values, float(w.max()))
        if refined > best.value:
            best = Bound(refined, Multipliers(values.copy(), matrix, a.loss), smoothing_loss, eigenvalues, eigenvectors)
    return best


@dataclass(frozen=True, eq=False)
class Movable:
    """Triplets whose multipliers may move.

    Attributes
    ----------
    X : (n, rank) array
        Whitened points.
    blocks : Blocks
        Points of one metric each.
    far, near : pairs of (t,) int32 arrays
        Rows of X: anchor and impostor, anchor and target neighbor.
    """

    X: NDArray[np.floating]
    blocks: Blocks
    far: tuple[IndexArray, IndexArray]
    near: tuple[IndexArray, IndexArray]

    def __len__(self) -> int:
        return len(self.far[0])

    def pairs(self) -> tuple[IndexArray, IndexArray]:
        """The far pairs, then the near pairs."""
        return np.concatenate([self.far[0], self.near[0]]), np.concatenate([self.far[1], self.near[1]])


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
    ceiling = problem.push.ceilings(dual.triplets)
    values = np.clip(dual.values, 0.0, ceiling)
    inside = np.flatnonzero(np.minimum(values, ceiling - values) > 1e-6 * ceiling)
    matrix = margin_adjoint(problem.points, dual.triplets, values)
    coincident = problem.push.coincident(dual.triplets)

    def bound(top: float) -> float:
        return best_multiple_bound(
            float(values.sum()), None, top, problem.push_weight, coincident=float(values[coincident].sum())
        )[0]

    best, chosen = bound(psd.largest_eigenvalue(matrix)), values.copy()
    T = dual.triplets[inside]
    movable = Movable(problem.points, Blocks.one(len(problem.X)), (T.anchors, T.impostors), (T.anchors, T.targets))
    for moved, _, w in refinements(movable, values[inside], ceiling[inside], matrix[None], L[None], rounds):
        values[inside] = moved
        if bound(float(w.max())) > best:
            best, chosen = bound(float(w.max())), values.copy()
    return Dual(dual.triplets, chosen)


def refinements(
    inside: Movable, values: FloatArray, limits: FloatArray, matrix: FloatArray, L: FloatArray, rounds: int
) -> Iterator[tuple[FloatArray, FloatArray, FloatArray]]:
    """Move multipliers inside their box until ``I - sum a_t B_t`` is PSD, and complementary to the metric.

    Parameters
    ----------
    inside : Movable
        The triplets whose multipliers may move.
    values, limits : (t,) arrays
        Their multipliers, and the upper ends of their box.
    matrix : (c, rank, rank) array
        ``sum a_t B_t`` over all triplets, for each metric.
    L : (c, r, rank) array
        Factors of the metrics.
    rounds : int

    Yields
    ------
    values, matrix, eigenvalues
        After each round; eigenvalues of the matrices in increasing order, (c, rank).
    """
    first, second = inside.pairs()
    X = np.asarray(inside.X, dtype=np.float64)
    w, V = np.linalg.eigh(matrix)
    for _ in range(rounds if len(inside) else 0):
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
        free = np.where(np.isinf(limits), values, np.minimum(values, limits - values))
        P = np.asarray(inside.blocks.times(X, Q), dtype=np.float64)
        change = _least_change(inside, P, free, off[:, :, None] * np.eye(width))
        new = np.clip(values - change, 0.0, limits)
        moved = laplacian_form(X, first, second, np.concatenate([new - values, values - new]), inside.blocks)
        matrix = matrix + 0.5 * (moved + np.swapaxes(moved, 1, 2))
        values = new
        w, V = np.linalg.eigh(matrix)
        yield values, matrix, w
        if w.max() <= 1.0 + 1e-9:
            return


def _least_change(inside: Movable, P: FloatArray, free: FloatArray, E: FloatArray) -> FloatArray:
    """The change c of multipliers with ``Q^T (sum c_t B_t) Q = E`` that is least in the norm ``sum c^2 / free``.

    Conjugate gradients on ``A* D A y = E`` with ``A(y)_t = <B_t, Q y Q^T>``, D the room to the bounds; ``c = D A y``.
    P holds the points in the coordinates Q.
    """
    first, second = inside.pairs()
    used, place = np.unique(np.concatenate([first, second]), return_inverse=True)
    first, second = place.astype(np.int32).reshape(2, -1)
    blocks = Blocks(np.searchsorted(used, inside.blocks.bounds).astype(np.int64))
    P = np.ascontiguousarray(P[used])

    def change(y: FloatArray) -> FloatArray:
        forms = pair_forms(P, y, blocks, first, second)
        c: FloatArray = free * (forms[: len(inside)] - forms[len(inside) :])
        return c

    y, r = np.zeros_like(E), E.copy()
    d, rr = r.copy(), float(np.sum(r * r))
    before_all = rr
    for _ in range(60):
        check_deadline()
        if rr <= 1e-6 * before_all or rr == 0.0 or rr > 1e6 * before_all:  # done, or broken down
            break
        c = change(d)
        Hd = laplacian_form(P, first, second, np.concatenate([c, -c]), blocks)
        curvature = float(np.sum(d * Hd))
        if not curvature > 1e-30 * rr:  # a direction in which no multiplier can do anything
            break
        y += (rr / curvature) * d
        r -= (rr / curvature) * Hd
        rr, before = float(np.sum(r * r)), rr
        d = r + (rr / before) * d
    return change(y)
