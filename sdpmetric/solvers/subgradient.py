"""The projected subgradient method of the LMNN paper, made to converge and to prove its answer.

Algorithm 1 of Weinberger and Saul 2009 with its book-keeping, in the coordinates of `LMNNProblem.points`, where the
cost is the identity: the problem is ``min trace(M) + mu sum_t w_t h(1 - <B_t, M>)`` over PSD matrices M, and slopes
``a`` of the hinges bound it from below by ``sum a`` wherever ``sum a_t B_t`` has no eigenvalue above 1. See
``docs/subgradient.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar

from sdpmetric import psd, validation
from sdpmetric.distances import HingeSums, distances, hinge_slopes, slope_adjoint
from sdpmetric.neighbors import Candidates, Triplets
from sdpmetric.problems.lmnn import LMNNProblem
from sdpmetric.solution import Dual
from sdpmetric.solvers import base

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
        nothing = Dual(Triplets.from_array(np.zeros((0, 3), dtype=np.int32)), np.zeros(0))
        yield base.Step(np.zeros((0, problem.X.shape[1])), 0.0, 0.0, lambda: nothing)
        return
    L = np.eye(rank) if given is None else given @ np.linalg.pinv(problem.coordinates.range).T
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
        # Where nothing but rounding is left the metric is zero, as it is where null directions silence every hinge.
        vanished = float(np.linalg.norm(moved)) <= 1e-14 * float(np.linalg.norm(M))
        L = np.zeros((0, rank)) if vanished else psd.factor(moved)
        M = L.T @ L


class ActiveSet:
    """The triplets that exhaustive searches have found, their slopes at the current metric, and averages of those.

    Parameters
    ----------
    problem : LMNNProblem

    Attributes
    ----------
    candidates : Candidates
        What was found, less what a restart dropped.
    slopes : (nnz, K) array
        Push weight times the slope of each triplet's loss.
    pushed : (rank, rank) array
        ``sum_t slope_t B_t`` in the whitened coordinates, kept up to date by what changes (Eq. 19).
    sums : HingeSums
        At the current metric.
    """

    slopes: FloatArray
    _rows: NDArray[np.int64]
    _slope_sums: FloatArray

    def __init__(self, problem: LMNNProblem) -> None:
        self.problem = problem
        self._replace(_no_candidates(), np.zeros((0, 1)))
        self.pushed: FloatArray = np.zeros((problem.coordinates.rank,) * 2)
        self.sums = HingeSums(0.0, 0.0, 0.0, 0)
        self._clear()

    def evaluate(self, Z: FloatArray, *, search: bool = False) -> float:
        """Update slopes and gradient for the embedded points Z.

        Parameters
        ----------
        Z : (n, r) array
        search : bool, default False
            Search all triplets first and add those that are active at Z.

        Returns
        -------
        loss : float
            Push weight times the loss: over all triplets after a search, over the active set otherwise.
        """
        if search:
            self._add(self.problem.candidates(Z))
        mu = self.problem.push_weight
        self.sums, slopes = hinge_slopes(Z, self.candidates, 0.0, self.problem.squared)
        slopes *= mu
        change = slopes - self.slopes
        self.slopes = slopes
        self.pushed += self._sum(np.flatnonzero(change.any(axis=1)), change)
        return mu * self.sums.loss

    def _sum(self, pairs: NDArray[np.int64], values: FloatArray) -> FloatArray:
        """``sum_t values_t B_t`` over some of the pairs."""
        points, C = self.problem.points, self.candidates
        if len(pairs) > len(points):
            keep = np.zeros(len(values), dtype=bool)
            keep[pairs] = True
            return slope_adjoint(points, C.select(keep), values[pairs])
        # So few that one small matrix product is cheaper than a graph Laplacian.
        values = values[pairs]
        pair, slot = np.nonzero(values)
        rows = self._rows[pairs]
        anchors = points[C.anchors[rows]]
        far = anchors - points[C.impostors[pairs]]
        near = anchors[pair] - points[C.targets[rows[pair], slot]]
        total: FloatArray = far.T @ (values.sum(axis=1)[:, None] * far) - near.T @ (values[pair, slot][:, None] * near)
        return total

    def _add(self, found: Candidates) -> None:
        """Merge newly found candidates into the set."""
        old = self.candidates
        if not len(old.anchors):
            self._replace(found, np.zeros((len(found.impostors), found.targets.shape[1])))
            self._clear()
            return
        # Every search lists the same rows, so that row and impostor name a pair.
        impostors = np.concatenate([old.impostors, found.impostors])
        keys = np.concatenate([self._rows, found.rows]) * len(self.problem.points) + impostors
        _, first = np.unique(keys, return_index=True)
        rows = np.concatenate([self._rows, found.rows])[first]
        indptr = np.searchsorted(rows, np.arange(len(found.anchors) + 1))
        weights = None
        if old.weights is not None and found.weights is not None:
            weights = np.concatenate([old.weights, found.weights])[first]
        news = np.zeros((len(found.impostors), found.targets.shape[1]))
        self._slope_sums = np.concatenate([self._slope_sums, news])[first]
        self._replace(
            Candidates(found.anchors, found.targets, indptr, impostors[first], weights),
            np.concatenate([self.slopes, news])[first],
        )

    def _replace(self, candidates: Candidates, slopes: FloatArray) -> None:
        self.candidates, self.slopes = candidates, slopes
        self._rows = candidates.rows

    def _clear(self) -> None:
        self._weight = 0.0
        self._slope_sums = np.zeros_like(self.slopes)
        self._pushed_sum = np.zeros_like(self.pushed)

    def average(self, weight: float) -> None:
        """Count the slopes at the current metric with a weight in the averages."""
        if self._weight == 0 and weight == 0:
            weight = 1.0  # whatever the step rule thinks of it, one set of slopes is an average
        self._weight += weight
        self._slope_sums += weight * self.slopes
        self._pushed_sum += weight * self.pushed

    def restart(self) -> None:
        """Forget the averages, and the pairs that were not active since they began; sum the gradient afresh."""
        keep = np.asarray(self._slope_sums.any(axis=1))
        self._replace(self.candidates.select(keep), self.slopes[keep])
        self.pushed = slope_adjoint(self.problem.points, self.candidates, self.slopes)
        self._clear()

    def averaged(self) -> tuple[float, FloatArray]:
        """A lower bound from the averaged slopes, and the averages, (nnz, K): feasible after scaling."""
        return self._bound(self._slope_sums / self._weight, self._pushed_sum / self._weight)

    def current(self) -> tuple[float, FloatArray]:
        """A lower bound from the slopes at the current metric, and the slopes, (nnz, K): feasible after scaling."""
        return self._bound(self.slopes, self.pushed)

    def _bound(self, values: FloatArray, pushed: FloatArray) -> tuple[float, FloatArray]:
        total = float(values.sum())
        if total == 0:
            return 0.0, values
        mu, weights = self.problem.push_weight, self.candidates.weights
        top = psd.largest_eigenvalue(pushed)
        scaling = 1.0 / (top * (1 + 1e-13)) if top > 0 else math.inf
        relative = values if weights is None else values / np.where(weights > 0, weights, 1.0)[:, None]
        if self.problem.squared:
            # sum a - sum a^2 / (4 mu w), a parabola along the multiple
            squares = float(np.sum(values * relative)) / (4 * mu)
            scaling = min(scaling, total / (2 * squares))
            return scaling * (total - scaling * squares), values
        return min(scaling, mu / float(relative.max())) * total, values


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
        self.dual = partial(_dual, _no_candidates(), np.zeros((0, 1)))
        self._objective, self._patience = math.inf, PATIENCE
        self._begin()

    def _begin(self) -> None:
        self._first = self._objective - self.bound
        self._own, self._stale, self._useful = -math.inf, 0, False

    def restart(self) -> None:
        """Judge the next average by itself; after one that was of no use, wait longer."""
        self._patience = PATIENCE if self._useful else 2 * self._patience
        self._begin()

    def watch(self, active: ActiveSet, objective: float) -> None:
        """Take note of an exhaustive search."""
        bound, values = active.averaged()
        if active.problem.squared:  # a smooth loss, whose slopes converge by themselves
            bound, values = max((bound, values), active.current(), key=lambda pair: pair[0])
        if bound > self.bound:
            self.bound, self.dual, self._useful = bound, partial(_dual, active.candidates, values), True
        self._stale = 0 if bound > self._own else self._stale + 1
        self._own = max(self._own, bound)
        self._objective = min(self._objective, objective)
        gap = self._objective - self.bound
        if math.isinf(self._first):
            self._first = gap
        self.over = gap <= STAGE_SHARE * self._first or self._stale >= self._patience


def _no_candidates() -> Candidates:
    none = np.zeros(0, dtype=np.int32)
    return Candidates(none, np.zeros((0, 1), dtype=np.int32), np.zeros(1, dtype=np.int64), none)


def _dual(candidates: Candidates, values: FloatArray) -> Dual:
    return Dual(*candidates.triplets(values))


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
