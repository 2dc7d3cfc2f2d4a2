"""The certified factored solver: L-BFGS on a smoothed hinge in the factor of the metric, with a proof.

In whitened coordinates LMNN minimizes ``trace(M) + mu sum_t w_t [u_t]_+`` with ``u_t = 1 - <B_t, M>``. A *level*
descends in the factor L, ``M = L^T L``, on hinges that are quadratic over a width gamma. Its slopes ``a_t = mu w_t
min(1, u_t / gamma)`` are the multipliers of a lower bound, and the gap that remains has two parts:

* that of the smoothing, ``sum_t mu w_t [u_t]_+ - a_t u_t``, which descending further at this width cannot close,
* that of the descent, which is the rest.

A level goes on until the gap is proven to be within the tolerance, until the part of the smoothing dominates, or until
the descent is slow beside its own part; see `StopRule`. Then the width shrinks, or the factor grows: the gradient ``2 L
S`` is blind to directions that L lacks, so those that make the dual slack S negative are added. An early level,
without proofs and on a share of many rows, finds the region of the optimum. See ``docs/lmnn_solvers.md`` for what
each part is good for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation
from sdpmetric.core.certificate import Dual, relative_gap
from sdpmetric.core.registry import solver
from sdpmetric.core.steps import Budget, Step
from sdpmetric.engine.threads import BudgetSpent
from sdpmetric.linalg import psd
from sdpmetric.linalg.search import Stop, lbfgs
from sdpmetric.lmnn.costs import SAMPLE
from sdpmetric.lmnn.problem import LargeMarginProblem, LMNNProblem
from sdpmetric.lmnn.solvers.refinement import Bound, prove
from sdpmetric.lmnn.solvers.working_set import WorkingSet, orthogonal_rows


@dataclass(frozen=True)
class FactoredOptions:
    """Widths are in margins, gaps and decreases are relative to the objective."""

    # The early level: beyond so many rows it looks at shares of them. Its searches are wider: first steps are long.
    early_rows: int = 20_000
    early_shares: tuple[float, ...] = (1 / 4, 1 / 2)
    early_widening: float = 0.5
    later_widening: float = 0.2  # of the second share
    # Levels over all anchors: the first width, its decrease, and the last width.
    first_width: float = 0.03
    shrink: float = 0.3
    last_width: float = 1e-8
    rounds: int = 32  # at one width without a gap close to that of the smoothing, after which it shrinks nevertheless
    # A width is finished when the gap is at most this multiple of the gap of the smoothing, and below which tolerance
    # that is which multiple.
    close: float = 5.0
    close_tight: float = 1.5
    tight: float = 1e-5
    stall: float = 1e-2  # a round ends when the objective falls more slowly than this share of the descent's gap,
    smallest_stall: float = 1e-10  # a tenth after each round without a better bound, down to this
    far: float = 1e-2  # an objective that falls by more than this share between two looks is far from the optimum
    aimed_share: float = 0.9  # of the tolerance: an estimated gap that ends a round
    smoothing_share: float = 0.7  # of the gap: if that of the smoothing is more, descent at this width is of no use
    rough: float = 1e-3  # decrease between two looks at which the early level ends
    next_proof: float = 0.3  # a proof is made when the descent is so much slower than at the last one
    new_search: float = 1e-3  # candidates are searched again when the objective has fallen by this share since then,
    rare_search: float = 0.1  # and those of many rows, whose searches take long, by this,
    rare_reach: float = 0.15  # as these reach farther; the descent then aims at this share of the tolerance, since
    rare_aim: float = 0.7  # a certificate that finds what the list lacks takes as long as all else
    # How far from the margin candidates are searched. If a search raises the objective of a round by more than one
    # factor, the round's candidates were too few: the width is not finished, and searches reach farther by the other.
    reach: float = 0.1
    misled: float = 2.0
    farther: float = 10.0
    single: float = 1e-4  # down to this gap single precision is good enough; certificates are in double
    # In more dimensions than `full` factors start with the `leading` ones; others are added where they pay.
    full: int = 96
    leading: int = 32
    # Several metrics: the width of the level that leaves the single metric, and the share of that one that they keep
    # after it: along directions that a factor does not have its gradient is 0.
    leaving_width: float = 0.2
    tied_share: float = 0.1
    # L-BFGS: iterations between two looks at the progress, iterations of one round.
    look_every: int = 10
    iterations: int = 400
    collapsed: float = 1e-12  # a factor below this share of where it began has fallen to zero

    # By the precision of the values: rows of the factor shorter than this share of the longest are dropped, and an
    # iteration that lowers the value by less than this share of it is the last of its round.
    negligible: ClassVar[dict[type[np.floating], float]] = {np.float32: 5e-3, np.float64: 1e-3}
    rounding: ClassVar[dict[type[np.floating], float]] = {np.float32: 1e-7, np.float64: 0.0}

    def close_ratio(self, tol: float) -> float:
        """Return how many times the gap of the smoothing a gap may be before the width shrinks."""
        return self.close if tol >= self.tight else self.close_tight


OPTIONS = FactoredOptions()


@dataclass
class State:
    """Where a solve is, kept current so that an interrupted one can still be certified."""

    problem: LargeMarginProblem
    budget: Budget
    L: FloatArray  # factors on `LargeMarginProblem.points`, (c, r, rank)
    gamma: float = math.inf  # smoothing width of the latest round
    objective: float = math.inf  # over the candidates of all anchors, if known
    lower_bound: float = -math.inf  # the best one so far
    dual: Dual | None = None  # the multipliers behind it

    @property
    def components(self) -> FloatArray:
        return self.problem.lift(self.L)


@solver(LargeMarginProblem, "factored", tol=1e-3, rank=1, engines=True)
def steps(
    problem: LargeMarginProblem, budget: Budget, tol: float, *, init: FloatArray | None = None, random_state: int = 0
) -> Iterator[Step]:
    if (trivial := solved_by_zero(problem, tol)) is not None:
        yield trivial
        return
    state = State(problem, budget, np.zeros((problem.n_regions, 1, problem.rank)))
    working = WorkingSet(problem, dtype=np.float32)
    try:
        yield from _begin(state, init, validation.generator(random_state))
        yield from refine_until_proven(state, working, tol)
    except (BudgetSpent, KeyboardInterrupt):  # in the middle of a round
        if state.L.any():
            yield Step(state.components, objective=state.objective, step_size=state.gamma)
        raise


# -- the start --------------------------------------------------------------------------------------------------------


def solved_by_zero(problem: LargeMarginProblem, tol: float) -> Step | None:
    """Return the answer if nothing pushes or null directions of the costs separate anchors from all impostors."""
    push, rank = problem.push, problem.rank
    idle = push.weight == 0.0 or push.source.size == 0
    if not idle and rank and not problem.null_dimension:
        return None
    zero = problem.lift(np.zeros((problem.n_regions, 0, rank)))
    zero = zero[..., :0, :] if idle else zero
    certificate = problem.certify(zero)
    if not idle and rank and not certificate.proves_optimal(tol):
        return None
    return replace(Step.of_certificate(zero, certificate), n_active=0)


def _begin(state: State, init: FloatArray | None, rng: np.random.Generator) -> Iterator[Step]:
    """Set the factors to start from: what is given, or a rough solution, with several metrics of a single one."""
    problem, tied, c = state.problem, state.problem.tied, state.problem.n_regions
    if tied is not problem and init is not None:
        state.L = problem.whitened(init)
        return
    L, warm = scaled_start(tied, init, rng)
    if tied is problem:
        state.L = L[None]
        if not warm:
            yield from approach(state, rng)
    else:
        single = State(tied, state.budget, L[None])
        try:
            if single.L.size:
                for step in approach(single, rng):
                    yield replace(step, components=psd.stack([step.components] * c))
        finally:
            state.L = problem.whitened(psd.stack([single.components] * c))
        _leave_single(state)
        yield Step(state.components, step_size=OPTIONS.leaving_width)


def scaled_start(problem: LMNNProblem, init: FloatArray | None, rng: np.random.Generator) -> tuple[FloatArray, bool]:
    """Return a factor on `LMNNProblem.points`, scaled best for a sample of triplets, and whether it is `init`.

    From a start at the wrong scale the first level can wander off by orders of magnitude. A given start competes with
    the Euclidean metric and the whitened one, so a bad one does no harm; in many dimensions with the leading directions
    of whitened data, alike or weighted by their variance.
    """
    rank, points = problem.coordinates.rank, problem.points
    inverse = problem.coordinates.inverse[:rank]
    if rank > OPTIONS.full:
        variances, directions = np.linalg.eigh(np.cov(points, rowvar=False))
        weighted = directions * np.sqrt(np.maximum(variances, 0.0))
        shapes = [np.ascontiguousarray(V.T[: -OPTIONS.leading - 1 : -1]) for V in (directions, weighted)]
    else:
        shapes = [psd.factor(inverse @ inverse.T), np.eye(rank)]
    shapes += [] if init is None else [init @ inverse.T]
    sample = problem.source.sample(SAMPLE, rng)
    best, start, warm = math.inf, shapes[0], False
    for L in shapes:
        trace = float(np.sum(L**2))
        if not trace > 0.0:
            continue
        s, value = problem.push.best_multiple(points @ L.T, trace, *sample)
        if value < best:
            best, start, warm = value, math.sqrt(s) * L, L is shapes[-1] and init is not None
    return start, warm


def approach(state: State, rng: np.random.Generator) -> Iterator[Step]:
    """Descend in single precision, without proofs, into the region of the optimum; of many rows on shares."""
    n = len(state.problem.X)
    order, widening = rng.permutation(n).astype(np.int32), OPTIONS.early_widening
    for share in OPTIONS.early_shares if n > OPTIONS.early_rows else (1.0,):
        working = WorkingSet(state.problem, np.sort(order[: math.ceil(share * n)]), np.float32)
        state.L = searched = working.search(state.L, widening, drawn=True)
        try:
            reason = descend(state, working, OPTIONS.first_width, SlowDecrease(OPTIONS.rough))
        except (BudgetSpent, KeyboardInterrupt):  # a share may have led it astray
            state.L = searched
            raise
        yield Step(state.components, step_size=OPTIONS.first_width, stop=reason)
        widening = OPTIONS.later_widening


def _leave_single(state: State) -> None:
    """Go from one metric for all regions roughly to one for each."""
    single, working = state.L, WorkingSet(state.problem, dtype=np.float32)
    state.L = working.search(state.L, OPTIONS.early_widening, drawn=True)
    descend(state, working, OPTIONS.leaving_width, SlowDecrease(OPTIONS.rough))
    mixed = [math.sqrt(1.0 - OPTIONS.tied_share) * state.L, math.sqrt(OPTIONS.tied_share) * single]
    state.L = _without_short_rows(*orthogonal_rows(np.concatenate(mixed, axis=1)), working)


# -- levels over all anchors ------------------------------------------------------------------------------------------


def refine_until_proven(state: State, working: WorkingSet, tol: float) -> Iterator[Step]:
    """Do rounds over all anchors, each from an exhaustive search, until the gap is proven."""
    gamma, has_many_rows = OPTIONS.first_width, len(working.rows) > OPTIONS.early_rows
    rounds, stall, aim, reach, share = OPTIONS.rounds, OPTIONS.stall, tol, OPTIONS.reach, 1.0
    if has_many_rows:
        reach, share = OPTIONS.rare_reach, OPTIONS.rare_aim
    state.L = working.search(state.L, reach)
    first = working.value(state.L, gamma)
    searched = first.objective  # right after the last search
    objective = searched if working.is_whole else math.inf
    yield Step(state.components, objective=objective, step_size=gamma, n_active=first.n_active)
    while gamma >= OPTIONS.last_width:
        rule = StopRule(working, gamma, aim, state.lower_bound, stall, share * OPTIONS.aimed_share * aim)
        reason = descend(state, working, gamma, rule)
        value = working.value(state.L, gamma)
        objective = value.objective
        bound = rule.best or prove(working.hinges, state.L, gamma)
        # A round that did not improve the bound has stopped too early: the next one is longer.
        stall = stall if bound.value > state.lower_bound else max(0.1 * stall, OPTIONS.smallest_stall)
        _keep(state, working, bound)
        # Candidates are valid for small steps; without a search the objective is too low, and only a large gap counts.
        went_far = searched - objective > (OPTIONS.rare_search if has_many_rows else OPTIONS.new_search) * objective
        gap_of_smoothing = bound.smoothing_loss / objective
        n_left = rounds - 1
        rounds = n_left if _gap(objective, bound.value) > OPTIONS.close_ratio(tol) * gap_of_smoothing else 0
        is_closed = _gap(objective, state.lower_bound) <= share * aim
        if is_closed and went_far and has_many_rows and working.is_whole:  # a certificate, too, takes long
            step, last_searched = _step(state, working, gamma, reach), searched
            searched, is_closed = step.objective, _gap(step.objective, state.lower_bound) <= aim
            if not is_closed and searched < last_searched:  # else lists may lead to and fro
                yield replace(step, stop=reason)
                continue
        if is_closed and working.is_whole:  # the certificate searches by itself: candidates are seldom missing
            step = _step(state, working, gamma, None)
            yield replace(step, objective=objective, n_active=value.n_active, stop=reason)
            # The run goes on, so the certificate proves less: single precision hides it, or the round was too short.
            aim, stall = 0.5 * aim, max(0.1 * stall, OPTIONS.smallest_stall)
            state.lower_bound, state.dual = -math.inf, None
        new_search = went_far or is_closed or (rounds <= 0 and not has_many_rows)
        step = _step(state, working, gamma, reach + 0.5 * gamma if new_search else None)
        yield replace(step, stop=reason)
        if OPTIONS.misled * objective < step.objective < math.inf:
            rounds, reach = n_left, OPTIONS.farther * reach
            state.L = working.search(state.L, reach, drawn=True)
        searched = working.value(state.L, gamma).objective if new_search else searched
        if is_closed and not working.is_whole:
            return
        if rounds <= 0:
            # Not below what the tolerance needs: wider smoothing is better conditioned.
            needed = 0.4 * max(tol, OPTIONS.last_width) / max(gap_of_smoothing, 1e-300)
            gamma, rounds = gamma * min(OPTIONS.shrink, max(OPTIONS.shrink / 3, needed)), OPTIONS.rounds
        is_hidden = stall < OPTIONS.stall or _gap(objective, state.lower_bound) <= OPTIONS.single
        if is_hidden and working.dtype == np.float32:  # what is left may be rounding
            working.use_double_precision()
        state.L = escape(working, state.L, gamma, bound)


def _gap(objective: float, bound: float) -> float:
    """Return the gap of estimates; single precision may put the bound above the objective, which counts as closed."""
    return relative_gap(objective, min(bound, objective))


@dataclass
class StopRule:
    """When a round ends; a proof costs as much as many steps, so the next one waits until it may change the answer."""

    working: WorkingSet
    gamma: float
    tol: float
    lower_bound: float
    stall: float
    aim: float  # a gap that ends the round
    best: Bound | None = None
    value: float = math.inf
    gap_of_descent: float = 0.0  # at the last proof
    proof_decrease: float = math.inf  # the next proof is made when the objective falls by no more than this

    def __call__(self, L: FloatArray, value: float) -> Stop:
        if value <= 0:  # no loss is below 0
            return Stop.COLLAPSED
        decrease, self.value = (self.value - value) / value, value
        if decrease > OPTIONS.far:
            return Stop.NONE
        if decrease <= self.proof_decrease and (reason := self._proven(L, decrease)):
            return reason
        return Stop.STALLED if decrease < self.stall * self.gap_of_descent else Stop.NONE

    def _proven(self, L: FloatArray, decrease: float) -> Stop:
        """Prove a bound, and say whether the gap ends the round; also when the next proof is due."""
        bound = prove(self.working.hinges, L, self.gamma)
        if self.best is None or bound.value > self.best.value:
            self.best = bound
        objective, aim = self.working.value(L, self.gamma).objective, self.aim
        gap, gap_of_smoothing = _gap(objective, bound.value), bound.smoothing_loss / objective
        self.gap_of_descent = gap - gap_of_smoothing
        # A narrower width is needed if the gap of the smoothing exceeds half the tolerance.
        shrinks, close_ratio = gap_of_smoothing > 0.5 * self.tol, OPTIONS.close_ratio(self.tol)
        to_gain = max(aim - gap_of_smoothing, (close_ratio - 1.0) * gap_of_smoothing if shrinks else 0.0)
        self.proof_decrease = decrease * max(OPTIONS.next_proof, to_gain / max(self.gap_of_descent, 1e-300))
        if _gap(objective, max(self.lower_bound, self.best.value)) <= aim:
            return Stop.TOLERANCE
        if (shrinks and gap < close_ratio * gap_of_smoothing) or gap_of_smoothing > OPTIONS.smoothing_share * gap:
            return Stop.SMOOTHING
        return Stop.NONE


@dataclass
class SlowDecrease:
    """A round ends when the value falls by less than a share of itself between two looks."""

    share: float
    value: float = math.inf

    def __call__(self, L: FloatArray, value: float) -> Stop:
        decrease, self.value = self.value - value, value
        return Stop.STALLED if decrease < self.share * value else Stop.NONE


def descend(state: State, working: WorkingSet, gamma: float, rule: Callable[[FloatArray, float], Stop]) -> Stop:
    """Do a round of L-BFGS on the smoothed objective, and return why it ended; the rule looks at it now and then."""
    start, shape, iterations, objective = state.L, state.L.shape, 0, math.inf
    state.gamma, state.objective = gamma, math.inf

    def evaluate(v: FloatArray) -> tuple[float, FloatArray]:
        nonlocal objective
        state.budget.spend()
        value = working.value(v.reshape(shape), gamma)
        objective = value.objective
        return value.smoothed, value.gradient.ravel()

    def look(x: FloatArray, value: float) -> Stop:
        nonlocal iterations
        iterations += 1
        state.L = x.reshape(shape).copy()
        state.objective = objective if working.is_whole else math.inf
        return Stop.NONE if iterations % OPTIONS.look_every else rule(state.L, value)

    limits = {"maxiter": OPTIONS.iterations, "maxfun": 10 * OPTIONS.iterations, "maxls": 60}
    _, reason = lbfgs(evaluate, state.L.ravel(), stop=look, **limits, ftol=OPTIONS.rounding[working.dtype])
    L, lengths = orthogonal_rows(state.L)
    if lengths.max() > OPTIONS.collapsed * np.abs(start).max():
        state.L = _without_short_rows(L, lengths, working)
        return reason
    state.L = math.sqrt(0.5) * start  # no candidate is active: a search will find others
    return Stop.COLLAPSED


def _without_short_rows(L: FloatArray, lengths: FloatArray, working: WorkingSet) -> FloatArray:
    """Return orthogonal rows, the longest first, without rows that are negligible compared with it."""
    used = lengths > OPTIONS.negligible[working.dtype] * lengths.max(axis=1, keepdims=True)
    return np.ascontiguousarray(np.where(used[:, :, None], L, 0.0)[:, : max(1, int(used.sum(axis=1).max()))])


def escape(working: WorkingSet, L: FloatArray, gamma: float, bound: Bound) -> FloatArray:
    """Add the directions that make the dual slack negative.

    Along them the smoothed objective is convex in the square of the length; a search over powers finds a good one.
    """
    w, rank = bound.eigenvalues, L.shape[2]
    violation = np.where(w[:, ::-1] > 1.0 + 1e-4, w[:, ::-1] - 1.0, 0.0)
    width = int((violation > 0.0).sum(axis=1).max())
    if width == 0:
        return L
    D = np.sqrt(violation[:, :width, None]) * np.swapaxes(bound.eigenvectors[:, :, ::-1][:, :, :width], 1, 2)
    D *= math.sqrt(float(np.sum(L**2)) / float(np.sum(D**2)))
    best, grown = working.value(L, gamma).smoothed, L
    for t in np.geomspace(1e-4, 1.0, 9):
        candidate = np.concatenate([L, t * D], axis=1)
        value = working.value(candidate, gamma).smoothed
        if value < best:
            best, grown = value, candidate
        elif grown is not L:  # before, what a short step gains may be less than rounding
            break
    return orthogonal_rows(grown)[0] if grown.shape[1] > rank else grown  # no more rows than dimensions


# -- steps ------------------------------------------------------------------------------------------------------------


def _keep(state: State, working: WorkingSet, bound: Bound) -> None:
    """Keep a bound that is better than those before it; of fewer than all anchors it is an estimate."""
    if bound.value > state.lower_bound:
        state.lower_bound = bound.value
        state.dual = working.hinges.dual(bound.multipliers) if working.is_whole else None


def _step(state: State, working: WorkingSet, gamma: float, widen: float | None) -> Step:
    """Report a factor with the best bound, and with its exact objective, which takes a search, if `widen` is given."""
    if widen is not None:
        state.L = working.search(state.L, widen)
    step = Step(state.components, step_size=gamma)
    if not working.is_whole:  # objective and bound are estimates
        return step
    if widen is not None:
        value = working.value(state.L, gamma)
        step = replace(step, objective=value.objective, n_active=value.n_active)
    dual = state.dual
    return replace(step, lower_bound=state.lower_bound, multipliers=None if dual is None else lambda: dual)
