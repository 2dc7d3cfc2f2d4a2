"""The projected subgradient method of the LMNN paper, made to converge and to prove its answer.

Algorithm 1 of Weinberger and Saul 2009 with its book-keeping, in the coordinates of `LMNNProblem.points`, where the
cost is the identity: the problem is ``min trace(M) + mu sum_t w_t h(1 - <B_t, M>)`` over PSD matrices M, and slopes
``a`` of the hinges bound it from below by ``sum a`` wherever ``sum a_t B_t`` has no eigenvalue above 1. See
``docs/subgradient.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar

from sdpmetric.core import run as base
from sdpmetric.core import validation
from sdpmetric.core.multipliers import Dual
from sdpmetric.core.registry import solver
from sdpmetric.linalg import psd
from sdpmetric.linalg.distances import distances
from sdpmetric.problems.lmnn import LMNNProblem
from sdpmetric.solvers.lmnn.active_set import ActiveSet
from sdpmetric.triplets.margins import hinge_slopes
from sdpmetric.triplets.triplets import Triplets

FloatArray = NDArray[np.float64]
StepRule = Literal["polyak", "paper"]

# The paper's rule: the step grows by this on a decrease of the objective, and shrinks by that on an increase.
GROW, SHRINK = 1.01, 0.5
# An average starts afresh once the gap has fallen to this share of what it was when the average began, or once the
# average's own bound has not improved for so many checks.
STAGE_SHARE = 0.7
PATIENCE = 5
# The scale search begins where target neighbors are this far apart, in margins: few triplets are active there.
FIRST_DISTANCE = 8.0
# Anchors that the scale search looks at.
SCALE_ANCHORS = 500


@solver(LMNNProblem, "subgradient", tol=1e-3)
def steps(
    problem: LMNNProblem,
    budget: base.Budget,
    tol: float,
    *,
    step: StepRule = "polyak",
    start: ArrayLike | None = None,
    check_every: int = 15,
) -> Iterator[base.Step]:
    """Projected subgradients with an active set (Weinberger and Saul 2009, Algorithm 1).

    Parameters
    ----------
    problem : LMNNProblem
        Either loss, labels or listed triplets, with or without ridge.
    budget : Budget
        Spent once per iteration.
    tol : float
        Relative gap to prove. The caller stops at it; the method itself has no use for it.
    step : {"polyak", "paper"}, default "polyak"
        "polyak" moves by ``(objective - best lower bound) / ||G||^2`` along the subgradient G, and converges. "paper"
        is the rule of Algorithm 1, times 1.01 on a decrease and times 0.5 on an increase; it stalls above the optimum.
    start : (r, d) array, optional
        Factor L of a metric to start from, in the data's coordinates; it is rescaled where that helps. Default: the
        identity of the whitened coordinates, rescaled.
    check_every : int, default 15
        Iterations from one exhaustive impostor search to the next. Only searched points are reported.

    Yields
    ------
    Step
        First the start, not yet evaluated; then one per exhaustive search, with the best lower bound so far and its
        dual. Ends where no step can change the metric any more.

    Raises
    ------
    ValueError
        If an option is unknown or out of range, or `start` has the wrong shape or is not finite.
    """
    if step not in ("polyak", "paper"):
        raise ValueError(f"step must be 'polyak' or 'paper', got {step!r}.")
    if isinstance(check_every, bool) or not isinstance(check_every, int | np.integer) or check_every < 1:
        raise ValueError(f"check_every must be a positive integer, got {check_every!r}.")
    given = None if start is None else validation.check_point(start, None, problem.X.shape[1])[0]
    return _iterate(problem, budget, step, given, int(check_every))


def _iterate(
    problem: LMNNProblem, budget: base.Budget, rule: StepRule, given: FloatArray | None, check_every: int
) -> Iterator[base.Step]:
    rank = problem.coordinates.rank
    if problem.push_weight == 0 or problem.source.size == 0:  # nothing pushes, and M = 0 costs nothing
        yield base.Step(np.zeros((0, problem.X.shape[1])), 0.0, 0.0, _nothing)
        return
    L = np.eye(rank) if given is None else given @ np.linalg.pinv(problem.coordinates.range).T
    if not L.any():  # every triplet is active at the zero metric, and no multiple of it is another
        L = np.eye(rank)
    yield base.Step(problem.lift(L))
    L = _rescaled(problem, L, budget, keep=given is not None)
    M = L.T @ L
    active, stage = ActiveSet(problem), _Stage()
    eta, previous, since = math.nan, math.inf, check_every
    while True:
        budget.spend()
        Z = problem.points @ L.T
        searched = since >= check_every
        objective = float(np.trace(M)) + active.evaluate(Z, search=searched)
        if not searched and objective <= stage.bound:  # the active set must be hiding impostors
            searched = True
            objective = float(np.trace(M)) + active.evaluate(Z, search=True)
        G = np.eye(rank) - active.pushed
        square = float(np.sum(G * G))
        if rule == "polyak" or math.isnan(eta):
            eta = max(objective - stage.bound, 0.0) / square if square > 0 else 0.0
        else:
            eta *= GROW if objective < previous else SHRINK
        previous = objective
        active.average(eta)
        if searched:
            stage.watch(active, objective)
            # The point is rounded to the data's precision before it is judged.
            rounding = 8 * float(np.finfo(problem.X.dtype).eps) * objective
            yield base.Step(
                problem.lift(L), objective, stage.bound - rounding, stage.dual, None, eta, active.sums.n_active
            )
            if eta * math.sqrt(square) <= 1e-16 * float(np.linalg.norm(M)):
                return
            if stage.over:
                active.restart()
                stage.restart()
        since = 1 if searched else since + 1
        moved = M - eta * G
        # Where nothing but rounding is left the metric is zero, as it is where null directions remove every hinge.
        vanished = float(np.linalg.norm(moved)) <= 1e-14 * float(np.linalg.norm(M))
        L = np.zeros((0, rank)) if vanished else psd.factor(moved)
        M = L.T @ L


class _Stage:
    """The best lower bound so far and its dual, and whether the current average has done its service.

    Restarting the average is essential: it forgets the slopes at metrics that were far from the optimum.

    Attributes
    ----------
    bound : float
        Best lower bound.
    dual : callable returning Dual
        The multipliers behind it.
    over : bool
        Whether the average should start afresh.
    """

    def __init__(self) -> None:
        self.bound, self.over = 0.0, False
        self.dual: Callable[[], Dual] = _nothing
        self._objective, self._patience = math.inf, PATIENCE
        self._begin()

    def _begin(self) -> None:
        self._first = self._objective - self.bound
        self._stale, self._useful = 0, False

    def restart(self) -> None:
        """Judge the next average by itself; after one that was of no use, wait longer."""
        self._patience = PATIENCE if self._useful else 2 * self._patience
        self._begin()

    def watch(self, active: ActiveSet, objective: float) -> None:
        """Take note of an exhaustive search."""
        best = active.improve()
        self._stale += 1
        if best.bound > self.bound:
            self.bound, self.dual = best.bound, best.dual
            self._stale, self._useful = 0, True
        self._objective = min(self._objective, objective)
        gap = self._objective - self.bound
        if math.isinf(self._first):
            self._first = gap
        self.over = gap <= STAGE_SHARE * self._first or self._stale >= self._patience


def _nothing() -> Dual:
    """No multipliers at all: the bound is 0."""
    return Dual(Triplets.from_array(np.zeros((0, 3), dtype=np.int32)), np.zeros(0))


def _rescaled(problem: LMNNProblem, L: FloatArray, budget: base.Budget, *, keep: bool) -> FloatArray:
    """The multiple of a factor that costs least, found on some of the anchors.

    Parameters
    ----------
    problem : LMNNProblem
    L : (r, rank) array
        In whitened coordinates.
    budget : Budget
        Its time limit ends the search.
    keep : bool
        Whether to leave the factor as it is unless its objective is clearly worse.
    """
    Z = problem.points @ L.T
    anchors = np.unique(problem.target_pairs[0])
    among = anchors[:: -(-len(anchors) // SCALE_ANCHORS)]
    share = len(among) / len(anchors)
    reference = float(distances(Z, *problem.target_pairs).mean()) or float(np.square(Z).sum(axis=1).mean())
    if reference == 0:
        return L

    def objective(log_scale: float) -> float:
        budget.spend(0)
        scale = math.exp(log_scale)
        embedded = Z * math.sqrt(scale)
        sums, _ = hinge_slopes(embedded, problem.candidates(embedded, among=among), 0.0, problem.squared)
        return scale * share * float(np.sum(L * L)) + problem.push_weight * sums.loss

    # From large to small: small metrics make every triplet active.
    first = math.log(FIRST_DISTANCE / reference)
    grid = {first: objective(first)}
    for direction in (math.log(2), -math.log(2)):
        at = first
        while len(grid) < 60:
            grid[at + direction] = objective(at + direction)
            if grid[at + direction] >= grid[at]:
                break
            at += direction
        if at != first:
            break
    middle = min(grid, key=grid.__getitem__)
    found = minimize_scalar(
        objective, bounds=(middle - math.log(2), middle + math.log(2)), method="bounded", options={"xatol": 0.01}
    )
    if keep and objective(0.0) <= 1.01 * found.fun:
        return L
    return L * math.exp(0.5 * float(found.x))
