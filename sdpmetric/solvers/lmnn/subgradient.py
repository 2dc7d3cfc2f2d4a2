"""The projected subgradient method: Algorithm 1 of Weinberger and Saul 2009, as printed and so that it converges.

Comments name the lines of Algorithm 1 and the equations of its appendix. See ``docs/subgradient.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar

from sdpmetric.core import run as base
from sdpmetric.core import validation
from sdpmetric.core.certificate import relative_gap
from sdpmetric.core.registry import solver
from sdpmetric.linalg import psd
from sdpmetric.linalg.distances import Blocks, distances
from sdpmetric.problems.lmnn import LMNNProblem
from sdpmetric.problems.multi_lmnn import MultiMetricLMNNProblem
from sdpmetric.solvers.lmnn.active_set import ActiveSet
from sdpmetric.solvers.lmnn.coordinates import Coordinates, OneMetric, OneMetricAsGiven, SeveralMetrics
from sdpmetric.solvers.lmnn.ergodic import ErgodicDual
from sdpmetric.triplets.margins import hinge_slopes

FloatArray = NDArray[np.float64]
StepName = Literal["polyak", "paper"]

# The paper's rule: iterations between searches, growth of the step on a decrease of the objective, and its reduction on
# an increase. The paper does not print the first step: it moves the metric by this share of its norm.
SEARCH_EVERY, GROW, SHRINK, FIRST_MOVE = 10, 1.01, 0.5, 1e-2
# The Polyak rule: iterations between searches at most; the share of the objective that may be missing from the list
# before searches come closer together; and the share of its norm that a step moves the metric by at most.
LONGEST, HIDDEN, LONGEST_MOVE = 15, 1.0, 0.25
# The method has converged when a step moves the metric by no more than this share of its norm: by rounding.
NO_MOVE = 1e-16
# Pairs of an anchor and an impostor that one search may find: a number, a number for each anchor and metric, or a
# multiple of those at the best metric so far. A metric with more of them is left by half the way back.
FEWEST_PAIRS, PAIRS_PER_ROW, PAIRS_MULTIPLE = 100_000, 16, 4
# Several metrics start from a single one that is proven to be within this gap.
TIED_GAP = 1e-2
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
    step: StepName = "polyak",
    start: ArrayLike | None = None,
    check_every: int | None = None,
) -> Iterator[base.Step]:
    """Projected subgradients with an active set (Weinberger and Saul 2009, Algorithm 1) [WS2009].

    Parameters
    ----------
    problem : LMNNProblem
        Either loss, labels or listed triplets, with or without ridge.
    budget : Budget
        Spent once per iteration.
    tol : float
        Relative gap to prove.
    step : {"polyak", "paper"}, default "polyak"
        "polyak" moves by ``(objective - best lower bound) / ||G||^2`` along the subgradient G, in coordinates in which
        the pull cost is the identity, and converges. "paper" is Algorithm 1 as printed: in the coordinates of the data,
        from the identity, with a step that grows by 1.01 and shrinks by 0.5; it stalls above the optimum.
    start : (r, d) array, optional
        Factor L of a metric to start from, in the data's coordinates; "polyak" rescales it where that helps. Default:
        the identity, for "polyak" that of its own coordinates, rescaled.
    check_every : int, optional
        Iterations from one exhaustive impostor search to the next, at most. Only searched points are reported. Default:
        15 for "polyak", 10 for "paper".

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
    whole = isinstance(check_every, int | np.integer) and not isinstance(check_every, bool)
    if check_every is not None and not (whole and check_every >= 1):
        raise ValueError(f"check_every must be a positive integer or None, got {check_every!r}.")
    given = None if start is None else validation.check_point(start, None, problem.X.shape[1])[0]
    if given is not None and not given.any():  # every triplet is active at the zero metric
        given = None
    zero = problem.lift(np.zeros((0, problem.coordinates.rank)))
    solved = _solved_by_zero(problem, zero, problem.coordinates.null.shape[1], tol)
    if solved is not None:
        yield solved
    elif step == "paper":
        L = np.eye(problem.X.shape[1]) if given is None else given  # line 1
        yield base.Step(L)
        yield from _iterate(OneMetricAsGiven(problem), L[None], budget, PaperStep(check_every or SEARCH_EVERY))
    else:
        rank = problem.coordinates.rank
        L = np.eye(rank) if given is None else problem.pull_cost.whitened(given)
        yield base.Step(problem.lift(L))
        L = _rescaled(problem, L, budget, keep=given is not None)
        yield from _iterate(OneMetric(problem), L[None], budget, PolyakStep(check_every or LONGEST))


@solver(MultiMetricLMNNProblem, "subgradient", tol=1e-3)
def several_steps(
    problem: MultiMetricLMNNProblem,
    budget: base.Budget,
    tol: float,
    *,
    start: ArrayLike | None = None,
    check_every: int = LONGEST,
) -> Iterator[base.Step]:
    """Projected subgradients in all metrics at once, with the Polyak step; see `steps`.

    Parameters
    ----------
    problem : MultiMetricLMNNProblem
    budget : Budget
        Spent once per iteration.
    tol : float
        Relative gap to prove.
    start : (c, r, d) array, optional
        Components to start from; default: a single metric for every region, solved roughly by the same method.
    check_every : int, default 15
        As in `steps`.

    Yields
    ------
    Step
    """
    c, rank = problem.n_regions, problem.regional_points[0].shape[1]
    zero = problem.lift_regional(np.zeros((c, 0, rank)))
    solved = _solved_by_zero(problem, zero, sum(cost.coordinates.null.shape[1] for cost in problem.pull_costs), tol)
    if solved is not None:
        yield solved
        return
    if start is None:
        components = psd.stack([np.eye(problem.X.shape[1])] * c)
        for tied in steps(problem.tied, budget, TIED_GAP):
            components = psd.stack([tied.components] * c)
            yield base.Step(components)
            if relative_gap(tied.objective, tied.lower_bound) <= TIED_GAP:
                break
    else:
        components, _ = problem.check_point(start, None)
    yield from _iterate(SeveralMetrics(problem), problem.whitened(components), budget, PolyakStep(check_every))


def _solved_by_zero(
    problem: LMNNProblem | MultiMetricLMNNProblem, zero: FloatArray, null_dimension: int, tol: float
) -> base.Step | None:
    """The zero metric, where that is proven: nothing pushes, or null directions of the cost remove every hinge."""
    if problem.push_weight > 0 and problem.source.size > 0 and null_dimension == 0:
        return None
    certificate = problem.certify(zero)
    if certificate.relative_gap > tol:
        return None
    return base.Step(zero, certificate.objective, certificate.lower_bound, certificate=certificate)


# -- Algorithm 1 -------------------------------------------------------------------------------------------------------


class StepRule(Protocol):
    """When the loop searches all triplets, and how far it moves."""

    def search_is_due(self, t: int, since: int) -> bool:
        """Line 6, in iteration t, `since` iterations after the last search."""

    def compare(self, listed: float, objective: float) -> None:
        """What a search has found: the objective before, over the triplets of the list, and after, over all."""

    def length(self, objective: float, bound: float, gradient: float, metric: float) -> float:
        """The step alpha of line 14; the last two arguments are the norms of gradient and metric."""

    def restart(self) -> None:
        """The final search has found new triplets."""


class PaperStep:
    """The rule of the paper: a small step that grows by 1.01 on a decrease and shrinks by 0.5 on an increase."""

    def __init__(self, every: int) -> None:
        self._every, self._step, self._previous = every, math.nan, math.inf

    def search_is_due(self, t: int, since: int) -> bool:
        """In every tenth iteration, or as often as asked for."""
        return t % self._every == 0

    def compare(self, listed: float, objective: float) -> None:
        """The rule does not depend on it."""

    def length(self, objective: float, bound: float, gradient: float, metric: float) -> float:
        """See `StepRule.length`."""
        if math.isnan(self._step):
            self._step = FIRST_MOVE * metric / gradient if gradient > 0 else 0.0
        else:
            self._step *= GROW if objective < self._previous else SHRINK
        self._previous = objective
        return self._step

    def restart(self) -> None:
        """Begin again with a first step, at the metric at hand."""
        self._step, self._previous = math.nan, math.inf


class PolyakStep:
    """``(objective - lower bound) / ||G||^2``: long where there is far to go, short near the optimum."""

    def __init__(self, every: int) -> None:
        self._most, self._every = every, 1

    def search_is_due(self, t: int, since: int) -> bool:
        """Every so many iterations, and sooner while searches find a lot."""
        return t == 0 or since >= self._every

    def compare(self, listed: float, objective: float) -> None:
        """The interval doubles where the list has the objective nearly right, and shrinks where not."""
        wrong = objective > (1 + HIDDEN) * listed
        self._every = max(1, self._every // 4) if wrong else min(self._most, 2 * self._every)

    def length(self, objective: float, bound: float, gradient: float, metric: float) -> float:
        """See `StepRule.length`."""
        if gradient == 0:
            return 0.0
        step = max(objective - bound, 0.0) / gradient**2
        return min(step, LONGEST_MOVE * metric / gradient) if metric > 0 else step

    def restart(self) -> None:
        """The step depends on the objective only, which has the new triplets in it."""


def _iterate(coordinates: Coordinates, L: FloatArray, budget: base.Budget, rule: StepRule) -> Iterator[base.Step]:
    """Algorithm 1 from metrics with factors L, (c, r, p). Comments give its lines and the equations of its text."""
    points, cost = coordinates.points, coordinates.cost
    blocks = Blocks(np.arange(len(cost) + 1, dtype=np.int64) * len(coordinates.regions))
    precision = 8 * float(np.finfo(coordinates.dtype).eps)
    M = np.swapaxes(L, 1, 2) @ L  # line 1
    t = since = 0  # line 2
    active = ActiveSet(coordinates)  # line 3
    dual = ErgodicDual(active, coordinates.whiten)
    searched, limit, least = M, math.inf, math.inf
    search, converged = True, False
    while True:  # line 5
        budget.spend()
        Z = blocks.times(points, np.swapaxes(L, 1, 2)).astype(np.float64, copy=False)
        linear = float(np.sum(cost * M))
        active.update(Z, afresh=False)  # lines 10 and 11
        listed = linear + active.loss  # Eq. 18, too low while there are active triplets that are not on the list
        search = search or rule.search_is_due(t, since) or listed <= dual.bound  # line 6
        if search:
            positions = active.search(Z, limit)  # lines 7 and 8
            if positions is None:  # more than a list can hold: half the way back
                M = 0.5 * (M + searched)
                L, t = _factors(M), t + 1
                continue
            dual.follow(positions)
            active.update(Z, afresh=True)
            rule.compare(listed, linear + active.loss)
            if converged and (positions < 0).any():
                rule.restart()
        objective = linear + active.loss
        G = cost - active.matrices  # lines 4 and 13, Eq. 19
        gradient, metric = float(np.linalg.norm(G)), float(np.linalg.norm(M))
        step = rule.length(objective, dual.bound, gradient, metric)
        dual.add(step)
        converged = step * gradient <= NO_MOVE * metric
        if search:
            over = dual.improve(objective)
            if objective <= least:
                least = objective
                limit = max(FEWEST_PAIRS, PAIRS_PER_ROW * active.rows, PAIRS_MULTIPLE * active.n_found)
            bound = (
                dual.bound - precision * objective
            )  # the point is rounded to the data's precision before it is judged
            multipliers = dual.multipliers()
            yield base.Step(coordinates.lift(L), objective, bound, multipliers, None, step, active.n_active)
            if converged:
                return
            if over or active.size > 2 * limit:
                dual.restart()
            searched, since = M, 0
        search = converged
        moved_to = M - step * G
        # Where nothing but rounding is left the metric is zero, as it is where null directions remove every hinge.
        vanished = float(np.linalg.norm(moved_to)) <= 1e-14 * metric
        L = np.zeros((len(M), 0, M.shape[1])) if vanished else _factors(moved_to)  # line 14, Eq. 20
        M = np.swapaxes(L, 1, 2) @ L
        t, since = t + 1, since + 1  # line 15


def _factors(M: FloatArray) -> FloatArray:
    """Factors (c, q, p) of the projections of symmetric matrices onto the PSD cone (Eq. 20)."""
    values, vectors = np.linalg.eigh(M)
    some = (values > 0).any(axis=0)
    roots = np.sqrt(np.maximum(values[:, some], 0.0))
    L: FloatArray = roots[:, :, None] * np.swapaxes(vectors[:, :, some], 1, 2)
    return L


# -- where to start ----------------------------------------------------------------------------------------------------


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
