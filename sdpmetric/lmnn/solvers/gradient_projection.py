"""Algorithm 1 of Weinberger and Saul 2009, gradient projection with an active set, as printed and so that it converges.

Comments name the lines of Algorithm 1 and the equations of its appendix. See ``docs/lmnn_solvers.md``.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation
from sdpmetric.core.certificate import relative_gap
from sdpmetric.core.registry import solver
from sdpmetric.core.steps import Budget, Step
from sdpmetric.linalg import psd
from sdpmetric.linalg.search import Stop
from sdpmetric.lmnn.problem import LargeMarginProblem
from sdpmetric.lmnn.solvers.active_set import ActiveSet, Coordinates, ErgodicDual
from sdpmetric.lmnn.solvers.factored import solved_by_zero


@dataclass(frozen=True)
class PaperOptions:
    """The paper's rule; it does not print the first step."""

    search_every: int = 10  # iterations
    grow: float = 1.01  # the step, on a decrease of the objective,
    shrink: float = 0.5  # and on an increase
    first_move: float = 1e-2  # the first step moves the metric by this share of its norm


@dataclass(frozen=True)
class PolyakOptions:
    longest_interval: int = 15  # iterations between searches at most,
    missing: float = 1.0  # searches come closer together if more than this share of the listed objective was missing
    longest_move: float = 0.25  # a step moves the metric by at most this share of its norm
    # Pairs of an anchor and an impostor that one search may find: a number, a number for each anchor and metric, or a
    # multiple of those at the best metric so far.
    fewest_pairs: int = 100_000
    pairs_per_row: int = 16
    pairs_multiple: int = 4


PAPER, POLYAK = PaperOptions(), PolyakOptions()


class PaperStep:
    """The rule of the paper: a small step that grows by 1.01 on a decrease and shrinks by 0.5 on an increase.

    A rule says when the loop searches all triplets, how much it lists, and how far it moves.

    Attributes
    ----------
    by_triplet : bool
        Class attribute: whether the list holds triplets, as the paper's, or pairs with all targets of their anchors.
    limit : float
        Pairs that a search may find: a metric with more of them is left by half the way back to the last searched one.
    """

    by_triplet: ClassVar[bool] = True

    def __init__(self, search_every: int | None = None) -> None:
        self._search_every = PAPER.search_every if search_every is None else search_every
        self._step, self._previous = math.nan, math.inf
        self.limit = math.inf  # the list of the paper only grows

    def search_is_due(self, t: int, since_search: int) -> bool:
        """Decide line 6 in iteration t, `since_search` iterations after the last search: by default in every tenth."""
        return t % self._search_every == 0

    def follow(self, listed_objective: float, objective: float, active: ActiveSet) -> None:
        """Note that a search changed the objective, from that of the listed triplets to that of all triplets."""

    def length(self, objective: float, bound: float, gradient: float, metric: float) -> float:
        """Return the step alpha of line 14; the last two arguments are the norms of gradient and metric."""
        if math.isnan(self._step):
            self._step = PAPER.first_move * metric / gradient if gradient > 0 else 0.0
        else:
            self._step *= PAPER.grow if objective < self._previous else PAPER.shrink
        self._previous = objective
        return self._step

    def restart(self) -> None:
        """Begin again with a first step at the metric at hand, as the final search has found new triplets."""
        self._step, self._previous = math.nan, math.inf


class PolyakStep:
    """``(objective - lower bound) / ||G||^2``: long if there is far to go, short near it; see `PaperStep`."""

    by_triplet: ClassVar[bool] = False

    def __init__(self, search_every: int | None = None) -> None:
        self._longest, self._interval = POLYAK.longest_interval if search_every is None else search_every, 1
        self._best_objective, self.limit = math.inf, math.inf

    def search_is_due(self, t: int, since_search: int) -> bool:
        """Search at intervals, and sooner while searches find many triplets."""
        return since_search >= self._interval

    def follow(self, listed_objective: float, objective: float, active: ActiveSet) -> None:
        """Double the interval if the list held most of the objective, else shorten it."""
        missing = objective > (1 + POLYAK.missing) * listed_objective
        self._interval = max(1, self._interval // 4) if missing else min(self._longest, 2 * self._interval)
        if objective <= self._best_objective:
            self._best_objective = objective
            self.limit = max(
                POLYAK.fewest_pairs, POLYAK.pairs_per_row * active.n_rows, POLYAK.pairs_multiple * active.n_searched
            )

    def length(self, objective: float, bound: float, gradient: float, metric: float) -> float:
        """See `PaperStep.length`."""
        if gradient == 0:
            return 0.0
        step = max(objective - bound, 0.0) / gradient / gradient
        return min(step, POLYAK.longest_move * metric / gradient) if metric > 0 else step

    def restart(self) -> None:
        """Do nothing: the step depends on the objective only, which has the new triplets in it."""


def gradient_projection(
    coordinates: Coordinates, L: FloatArray, budget: Budget, rule: PaperStep | PolyakStep
) -> Iterator[Step]:
    """Run Algorithm 1, with the lower bound that its slopes prove.

    A metric is reported when all triplets are searched: as the rule says, at the end, and at the last iteration of the
    budget. Its number in `Step.extras` is that of its evaluation, 1 for the first metric.
    """
    costs = coordinates.costs
    precision = 8 * float(np.finfo(coordinates.problem.X.dtype).eps)
    M = np.swapaxes(L, 1, 2) @ L  # line 1
    t = since_search = 0  # line 2
    active = ActiveSet(coordinates, rule.by_triplet)  # line 3
    dual = ErgodicDual(active, coordinates)
    searched_metric, search, converged = M, True, False
    while True:  # line 5
        budget.spend()
        linear = float(np.sum(costs * M))
        active.update(L, after_search=False)  # lines 10 and 11
        # Eq. 18, too low while there are active triplets that are not on the list.
        listed_objective = linear + active.loss
        is_last = budget.spent >= budget.max_iter
        search = search or is_last or rule.search_is_due(t, since_search) or listed_objective <= dual.bound  # line 6
        if search:
            positions = active.search(L, rule.limit)  # lines 7 and 8
            if positions is None:  # too many for the list: half the way back
                M = 0.5 * (M + searched_metric)
                L, t = psd.stack([psd.factor(A) for A in M]), t + 1
                continue
            dual.follow(positions)
            active.update(L, after_search=True)
            rule.follow(listed_objective, linear + active.loss, active)
            if converged and (positions < 0).any():
                rule.restart()
        objective = linear + active.loss
        G = costs - active.matrices  # lines 4 and 13, Eq. 19
        gradient, metric = float(np.linalg.norm(G)), float(np.linalg.norm(M))
        step = rule.length(objective, dual.bound, gradient, metric)
        dual.add(step)
        # Converged: a step moves the metric by no more than rounding does.
        converged = step * gradient <= 1e-16 * metric
        if search:
            average_ends = dual.improve(objective)
            # The point is rounded to the data's precision before it is certified.
            bound, multipliers = dual.bound - precision * objective, dual.multipliers()
            yield Step(
                coordinates.lift(L),
                objective=objective,
                lower_bound=bound,
                multipliers=multipliers,
                step_size=step,
                n_active=active.n_active,
                extras={"iterate": t + 1},
                stop=Stop.CONVERGED if converged else Stop.NONE,
            )
            if converged:
                return
            if average_ends or active.size > 2 * rule.limit:
                dual.restart(drop=math.isfinite(rule.limit))
            searched_metric, since_search = M, 0
        search = converged
        unprojected = M - step * G
        # If only rounding is left, the metric is zero, as it is if null directions remove every hinge.
        vanished = float(np.linalg.norm(unprojected)) <= 1e-14 * metric
        L = psd.stack([psd.factor(0.0 * A if vanished else A) for A in unprojected])  # line 14, Eq. 20
        M = np.swapaxes(L, 1, 2) @ L
        t, since_search = t + 1, since_search + 1  # line 15


StepName = Literal["polyak", "paper"]

# Several metrics start from a single one that is proven to be within this relative gap.
TIED_GAP = 1e-2


@solver(LargeMarginProblem, "subgradient", tol=1e-3)
def steps(
    problem: LargeMarginProblem,
    budget: Budget,
    tol: float,
    *,
    step: StepName = "polyak",
    init: FloatArray | None = None,
    check_every: int | None = None,
) -> Iterator[Step]:
    """Descend by projected subgradients with an active set (Weinberger and Saul 2009, Algorithm 1) [WS2009]."""
    validation.check_choice("step", step, ("polyak", "paper"))
    if check_every is not None:
        validation.check_integer("check_every", check_every)
    start = init if init is not None and init.any() else None  # every triplet is active at the zero metric
    if step == "paper":
        first = problem.euclidean if start is None else start
        yield Step(first)  # line 1
        data = Coordinates(problem, whitened=False)
        yield from gradient_projection(data, problem.stack(first), budget, PaperStep(check_every))
    elif (trivial := solved_by_zero(problem, tol)) is not None:
        yield trivial
    else:
        L = yield from _begin(problem, budget, start)
        yield from gradient_projection(Coordinates(problem), L, budget, PolyakStep(check_every))


def _begin(problem: LargeMarginProblem, budget: Budget, start: FloatArray | None) -> Generator[Step, None, FloatArray]:
    """Return factors to start from: the given or the whitened metric, rescaled; of several, a rough single one."""
    tied = problem.tied
    if tied is problem:
        L = np.eye(tied.coordinates.rank) if start is None else tied.pull_cost.whitened(start)
        components = tied.lift(L)
        yield Step(components)
        return tied.best_scale(components) * L[None]
    components = problem.euclidean if start is None else start
    for single in steps(tied, budget, TIED_GAP) if start is None else ():
        components = psd.stack([single.components] * problem.n_regions)
        yield Step(components)
        if relative_gap(single.objective, single.lower_bound) <= TIED_GAP:
            break
    return problem.whitened(components)
