"""The certified factored solver: L-BFGS on a smoothed hinge in the factor of the metric, with a proof.

Coarse to fine in the anchors and in the smoothing width; see ``docs/lmnn_solvers.md`` for what each part is good for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation
from sdpmetric.core.certificate import Dual, relative_gap
from sdpmetric.core.registry import solver
from sdpmetric.core.run import Budget, BudgetSpent, Step, in_dtype
from sdpmetric.engine.interface import deadline
from sdpmetric.linalg import psd
from sdpmetric.lmnn.problem import LargeMarginProblem, LMNNProblem
from sdpmetric.lmnn.solvers.refinement import Bound, prove
from sdpmetric.lmnn.solvers.working_set import WorkingSet
from sdpmetric.lmnn.triplets.margins import margins

# Share of anchors and smoothing width of the early levels, which only have to find the region of the optimum.
COARSE = ((1 / 16, 1.0), (1 / 16, 0.1), (1 / 4, 0.03))
# Fewest anchors of an early level, in all and for each entry of the metrics: fewer are fitted by a metric of their own.
FEWEST, FEWEST_PER_ENTRY = 1000, 0.1
# Candidate pairs of an anchor, on average, that an early level has at least.
FEWEST_CANDIDATES = 8
# Smoothing widths of the levels over all anchors: where they begin, how fast they shrink, where they end.
FIRST_WIDTH, SHRINK, LAST_WIDTH = 0.03, 0.3, 1e-8
# A smoothing width is finished when the gap is at most this multiple of the gap due to smoothing alone.
CLOSE, CLOSE_TIGHT, TIGHT = 5.0, 1.5, 1e-5
# A proof is made when the descent is so much slower than at the last one, whatever is expected of it.
AT_LEAST = 0.3
# A round ends when the objective falls more slowly than this share of the gap; less after each round without progress.
STALL, LEAST_STALL = 1e-2, 1e-10
# Candidates are searched again when a round has lowered the objective by this share of it.
SMALL_STEP = 1e-3
# Rounds without such a gap, after which the width shrinks nevertheless.
PATIENCE = 16
# Of the time that is reserved for the certificate, what is left after the solver's own.
LATE = 0.25
# Down to this relative gap, values in single precision are good enough; certificates are in double precision.
SINGLE = 1e-4
# Triplets that the starting scale is chosen by.
SAMPLE = 30_000
# Directions of a factor that descent starts with; those that it lacks are added where they pay.
LEADING = 96
# Smoothing width of the early level, which leaves the single metric, and the share of that one that the metrics keep
# after it: along directions that a factor does not have its gradient is 0.
EARLY_WIDTH, SINGLE_SHARE = 0.2, 0.1
# L-BFGS: iterations between two looks at the progress, pairs it remembers, iterations of one round.
LOOK_EVERY, MEMORY, ROUND = 10, 20, 400
# By the precision of the values: rows of the factor shorter than this share of the longest are dropped, and an
# iteration that lowers the value by less than this share of it is the last of its round.
NEGLIGIBLE: dict[type[np.floating], float] = {np.float32: 5e-3, np.float64: 1e-3}
ROUNDING: dict[type[np.floating], float] = {np.float32: 1e-8, np.float64: 0.0}
# A factor is taken to have fallen to zero below this share of where it began: steps have no size there.
COLLAPSED = 1e-12


@dataclass
class State:
    """Where a solve is, kept current so that an interrupted one can still be certified."""

    L: FloatArray  # factors on `LargeMarginProblem.points`, (c, r, rank)
    gamma: float = math.inf  # smoothing width of the latest round
    lower_bound: float = -math.inf  # the best one so far
    proof: Callable[[], Dual] | None = None  # lists the multipliers behind it


@solver(LargeMarginProblem, "factored", tol=1e-3, rank=1, engines=True, when=lambda problem: not problem.frobenius)
def steps(
    problem: LargeMarginProblem,
    budget: Budget,
    tol: float,
    *,
    init: FloatArray | None = None,
    random_state: int = 0,
) -> Iterator[Step]:
    """Solve LMNN in the factors of its metrics; several are started from a single one."""
    if (trivial := solved_by_zero(problem, tol)) is not None:
        yield trivial
        return
    state = State(np.zeros((problem.n_regions, 1, problem.points.shape[1])))
    dtype = np.float32 if tol >= SINGLE else np.float64
    whole = WorkingSet(problem, np.arange(len(problem.X), dtype=np.int32), dtype)
    try:
        yield from _begin(problem, state, budget, init, validation.generator(random_state))
        yield from refine_until_proven(problem, state, whole, budget, tol)
    except (BudgetSpent, KeyboardInterrupt):
        yield last_step(problem, state, whole, budget)
        raise


def _begin(
    problem: LargeMarginProblem, state: State, budget: Budget, init: FloatArray | None, rng: np.random.Generator
) -> Iterator[Step]:
    """Set the factors to start from: what is given, or a rough solution, with several metrics of a single one."""
    tied, c = problem.tied, problem.n_regions
    if tied is problem or init is None:
        L, warm = scaled_start(tied, init, rng)
        single = State(L[None])
    if tied is problem:
        state.L = single.L
        if not warm:
            yield from approach(tied, state, budget, rng)
    elif init is not None:
        state.L = problem.whitened(problem.check_point(init, None)[0])
    else:
        try:
            if single.L.size:
                for step in approach(tied, single, budget, rng):
                    yield replace(step, components=psd.stack([step.components] * c))
        finally:
            state.L = problem.whitened(psd.stack([tied.lift(single.L)] * c))
        _leave_single(problem, state, budget)
        yield Step(problem.lift(state.L), step_size=EARLY_WIDTH)


def _leave_single(problem: LargeMarginProblem, state: State, budget: Budget) -> None:
    """From one metric for all regions roughly to one for each."""
    single, working = state.L, WorkingSet(problem, np.arange(len(problem.X), dtype=np.int32), np.float32)
    search(state, working, 0.3, budget)
    descend(state, working, EARLY_WIDTH, budget, Slow(1e-3))
    both = [math.sqrt(1.0 - SINGLE_SHARE) * state.L, math.sqrt(SINGLE_SHARE) * single]
    _, sigma, rows = np.linalg.svd(np.concatenate(both, axis=1), full_matrices=False)
    rank = max(1, int((sigma > NEGLIGIBLE[working.dtype] * sigma.max(axis=1, keepdims=True)).sum(axis=1).max()))
    state.L = np.ascontiguousarray((sigma[:, :, None] * rows)[:, :rank])


def solved_by_zero(problem: LargeMarginProblem, tol: float) -> Step | None:
    """The answer where nothing pushes, or where null directions of the costs separate anchors from all impostors."""
    push, rank = problem.push, problem.points.shape[1]
    idle = push.weight == 0.0 or push.source.size == 0
    if not idle and rank and not problem.null_dimension:
        return None
    zero = problem.lift(np.zeros((problem.n_regions, 0, rank)))
    zero = zero[..., :0, :] if idle else zero
    certificate = problem.certify(zero)
    if not idle and rank and not certificate.proves_optimal(tol):
        return None
    return Step.of_certificate(zero, certificate, n_active=0)


def scaled_start(problem: LMNNProblem, init: FloatArray | None, rng: np.random.Generator) -> tuple[FloatArray, bool]:
    """A factor on `LMNNProblem.points` at the scale that is best for a sample of triplets, and whether it is `init`.

    From a start at the wrong scale the first level can wander off by orders of magnitude. A given start competes with
    the Euclidean metric and the whitened one, so a bad one does no harm.
    """
    inverse = problem.coordinates.inverse[: problem.coordinates.rank]
    euclidean = psd.factor(inverse @ inverse.T)
    shapes = [euclidean, np.eye(problem.coordinates.rank)] + ([] if init is None else [init @ inverse.T])
    triplets, share = problem.source.sample(SAMPLE, rng)
    best, chosen, warm = math.inf, euclidean, False
    for L in shapes:
        trace = float(np.sum(L**2))
        if not trace > 0.0:
            continue
        margin = margins(problem.points @ L.T, triplets)
        for s in np.geomspace(1e-4, 1e8, 49) / trace:
            loss = np.maximum(0.0, 1.0 - s * margin)
            value = s * trace + problem.push_weight / share * float(np.sum(loss**2 if problem.squared else loss))
            if value < best:
                best, chosen, warm = value, math.sqrt(s) * L, L is shapes[-1] and init is not None
    return chosen if warm else _leading(problem.points, chosen), warm


def _leading(points: FloatArray, L: FloatArray) -> FloatArray:
    """The part of a factor (r, rank) along the directions in which the embedded points vary most."""
    if len(L) <= LEADING:
        return L
    _, directions = np.linalg.eigh(np.cov(points @ L.T, rowvar=False))
    return np.ascontiguousarray(directions[:, -LEADING:].T @ L)


def approach(problem: LargeMarginProblem, state: State, budget: Budget, rng: np.random.Generator) -> Iterator[Step]:
    """Few anchors, wide smoothing, single precision: into the region of the optimum."""
    n = len(problem.X)
    order = rng.permutation(n).astype(np.int32)
    fewest = max(FEWEST, math.ceil(FEWEST_PER_ENTRY * state.L.shape[0] * state.L.shape[2] ** 2))
    first, accepted = COARSE[0][1], None
    for share, gamma in COARSE:
        m = min(max(math.ceil(share * n), fewest), n)
        working = WorkingSet(problem, np.sort(order[:m]), np.float32, FEWEST_CANDIDATES, accepted)
        for _ in range(2 if gamma == first else 1):  # the first steps are long: candidates are soon out of date
            search(state, working, 0.3 if gamma == first else 0.1, budget)
            accepted = working.accepted
            descend(state, working, gamma, budget, Slow(1e-3))
            yield Step(problem.lift(state.L), step_size=gamma)


def last_step(problem: LargeMarginProblem, state: State, working: WorkingSet, budget: Budget) -> Step:
    """Where the budget ends in the middle of a round: the factor, and what it proves if there is time for that.

    Where there is no time for a search besides the certificate's own, the candidates of the last one make the bound.
    """
    with suppress(BudgetSpent):
        search(state, working, 0.0, budget, budget.last - budget.reserve)
    if working.accepted is None or not working.whole:
        return Step(problem.lift(state.L))
    gamma = min(state.gamma, FIRST_WIDTH)
    try:
        with deadline(budget.last - LATE * budget.reserve):
            _keep(working, state, prove(working, state.L, gamma))
        return _certified(problem, state, gamma, budget)
    except BudgetSpent:
        return Step(problem.lift(state.L))


def search(state: State, working: WorkingSet, widen: float, budget: Budget, until: float | None = None) -> None:
    """Search around the factor, and note how long a certificate, which takes a search of all anchors, will take.

    What a set's first search takes, compilation for example, says little where it is of few anchors.
    """
    first = working.accepted is None
    with deadline(budget.ends if until is None else until):
        state.L = working.search(state.L, widen)
    if working.whole or not first:
        budget.reserve = 2.0 * working.seconds * len(working.problem.X) / len(working.anchors)


def refine_until_proven(
    problem: LargeMarginProblem, state: State, working: WorkingSet, budget: Budget, tol: float
) -> Iterator[Step]:
    """Rounds over all anchors, each from an exhaustive search, until the gap is proven."""
    gamma = FIRST_WIDTH
    patience, stall = PATIENCE, STALL
    search(state, working, 0.1, budget)
    first = working.value(state.L, gamma)
    objective = first.objective if working.whole else math.inf
    yield Step(problem.lift(state.L), objective=objective, step_size=gamma, n_active=first.n_active)
    while gamma >= LAST_WIDTH:
        watch = _StopRule(working, gamma, tol, state.lower_bound, stall)
        before, began = working.value(state.L, gamma).objective, state.L.copy()
        descend(state, working, gamma, budget, watch)
        if working.value(state.L, gamma).objective <= 0:  # no candidate is active: the iterate has collapsed
            state.L = 0.5 * began
            search(state, working, 1.0, budget)
            continue
        bound = watch.best or prove(working, state.L, gamma)
        # A round that did not improve the bound has stopped too early: the next one is longer.
        stall = stall if bound.value > state.lower_bound else max(0.1 * stall, LEAST_STALL)
        _keep(working, state, bound)
        seen = working.value(state.L, gamma).objective
        # Candidates are valid for small steps; without a search the objective is too low, and only a large gap counts.
        moved = before - seen > SMALL_STEP * seen
        least = bound.smoothing_loss / seen
        patience = patience - 1 if _gap(seen, bound.value) > _close(tol) * least else 0
        ended = _gap(seen, state.lower_bound) <= tol
        if ended and working.whole:  # the certificate searches by itself, and candidates are seldom missing here
            step = _certified(problem, state, gamma, budget)
            yield step
            if step.certificate is not None and step.certificate.proves_optimal(tol):
                return
        listed = moved or patience <= 0 or ended
        yield _step(problem, working, state, bound, gamma, 0.1 + 0.5 * gamma if listed else None, budget)
        if ended and not working.whole:
            return
        if patience <= 0:
            # Not below what the tolerance needs: wider smoothing is better conditioned.
            enough = 0.4 * max(tol, LAST_WIDTH) / max(least, 1e-300)
            gamma, patience = gamma * min(SHRINK, max(SHRINK / 3, enough)), PATIENCE
        if stall < STALL and working.dtype == np.float32:  # what is left may be hidden by rounding
            working = WorkingSet(problem, working.anchors)
            search(state, working, 0.1, budget)
        state.L = escape(working, state.L, gamma, bound)


def _keep(working: WorkingSet, state: State, bound: Bound) -> None:
    """Keep a bound that is better than those before it; of fewer than all anchors it is an estimate."""
    if bound.value > state.lower_bound:
        state.lower_bound, state.proof = bound.value, working.dual(bound.multipliers) if working.whole else None


def _certified(problem: LargeMarginProblem, state: State, gamma: float, budget: Budget) -> Step:
    """Report factors with their certificate, in the dtype of the data, in which they are returned."""
    components = cast(FloatArray, in_dtype(problem.lift(state.L), problem.X.dtype))
    with deadline(budget.last - LATE * budget.reserve):
        found = problem.certify(components, dual=None if state.proof is None else state.proof())
    return Step(
        components,
        objective=found.objective,
        lower_bound=state.lower_bound,
        multipliers=state.proof,
        certificate=found,
        step_size=gamma,
        n_active=found.n_active,
    )


def _gap(objective: float, bound: float) -> float:
    """The gap of estimates; single precision may put the bound above the objective, which counts as closed."""
    return relative_gap(objective, min(bound, objective))


def _close(tol: float) -> float:
    """How many times the loss of the smoothing a gap may be before the width shrinks."""
    return CLOSE if tol >= TIGHT else CLOSE_TIGHT


@dataclass
class _StopRule:
    """Enough when the gap is proven, or most of it is the smoothing's, or the descent is slow beside the rest."""

    working: WorkingSet
    gamma: float
    tol: float
    lower_bound: float
    stall: float
    before: float = math.inf
    best: Bound | None = None
    # At the last proof: what more than the smoothing kept the gap open. The next one is made at such a decrease.
    excess: float = 0.0
    due: float = math.inf

    def __call__(self, L: FloatArray, value: float) -> bool:
        if value <= 0:  # no loss is below 0
            return True
        decrease, self.before = (self.before - value) / value, value
        if decrease > 1e-2:  # the gap is far from the tolerance
            return False
        # A proof costs as much as many steps: the next one waits until it can be expected to be enough.
        if decrease > self.due:
            return decrease < self.stall * self.excess
        bound = prove(self.working, L, self.gamma)
        if self.best is None or bound.value > self.best.value:
            self.best = bound
        objective = self.working.value(L, self.gamma).objective
        gap, least = _gap(objective, bound.value), bound.smoothing_loss / objective
        self.excess = gap - least
        goal = max(0.9 * self.tol - least, (_close(self.tol) - 1.0) * least if least > 0.5 * self.tol else 0.0)
        self.due = decrease * max(AT_LEAST, goal / max(self.excess, 1e-300))
        proven = _gap(objective, max(self.lower_bound, self.best.value)) <= 0.9 * self.tol
        # Where the gap due to smoothing exceeds the tolerance, the next width begins when the gap is close to it.
        close = least > 0.5 * self.tol and gap < _close(self.tol) * least
        return proven or close or decrease < self.stall * (gap - least) or least > 0.7 * gap


def _step(
    problem: LargeMarginProblem,
    working: WorkingSet,
    state: State,
    bound: Bound,
    gamma: float,
    widen: float | None,
    budget: Budget,
) -> Step:
    """Report a factor with a bound, and with its exact objective, which takes a search, where `widen` asks for it."""
    if bound.multipliers.generation != working.generation:  # lost with their shards
        bound = prove(working, state.L, gamma)
    dual = working.dual(bound.multipliers)
    objective, n_active = math.inf, 0
    if widen is not None:
        search(state, working, widen, budget)
        value = working.value(state.L, gamma)
        objective, n_active = value.objective, value.n_active
    if not working.whole:  # both are estimates
        return Step(problem.lift(state.L), step_size=gamma)
    return Step(
        problem.lift(state.L),
        objective=objective,
        lower_bound=bound.value,
        multipliers=dual,
        step_size=gamma,
        n_active=n_active,
    )


@dataclass
class Slow:
    """Enough when the value falls by less than a share of itself between two looks."""

    share: float
    before: float = math.inf

    def __call__(self, L: FloatArray, value: float) -> bool:
        """Look at a factor and its value; whether it is enough."""
        decrease, self.before = self.before - value, value
        return decrease < self.share * value


def descend(
    state: State,
    working: WorkingSet,
    gamma: float,
    budget: Budget,
    enough: Callable[[FloatArray, float], bool],
) -> None:
    """One round of L-BFGS on the smoothed objective; `enough` looks at the factor and the value now and then."""
    start, shape, iterations = state.L, state.L.shape, 0
    state.gamma = gamma

    def evaluate(v: FloatArray) -> tuple[float, FloatArray]:
        budget.spend()
        value = working.value(v.reshape(shape), gamma)
        return value.smoothed, value.gradient.ravel()

    def look(intermediate_result: OptimizeResult) -> None:
        nonlocal iterations
        iterations += 1
        state.L = intermediate_result.x.reshape(shape).copy()
        if iterations % LOOK_EVERY == 0 and enough(state.L, float(intermediate_result.fun)):
            raise StopIteration

    options = {"maxiter": ROUND, "maxfun": 10 * ROUND, "maxcor": MEMORY, "gtol": 0.0, "maxls": 60}
    options["ftol"] = ROUNDING[working.dtype]
    minimize(evaluate, state.L.ravel(), jac=True, method="L-BFGS-B", callback=look, options=options)
    _, sigma, rows = np.linalg.svd(state.L, full_matrices=False)
    longest = sigma.max(axis=1, keepdims=True)
    if not (longest > COLLAPSED * np.abs(start).max()).any():  # no candidate is active: a search will find others
        state.L = math.sqrt(0.5) * start
        return
    sigma[sigma <= NEGLIGIBLE[working.dtype] * longest] = 0.0
    rank = max(1, int((sigma > 0.0).sum(axis=1).max()))
    state.L = np.ascontiguousarray((sigma[:, :, None] * rows)[:, :rank])


def escape(working: WorkingSet, L: FloatArray, gamma: float, bound: Bound) -> FloatArray:
    """Add the directions in which the dual slack is negative: there the gradient in the factor is blind.

    Along them the smoothed objective is convex in the square of the length; a search over powers finds a good one.
    """
    w, rank = bound.eigenvalues, L.shape[2]
    excess = np.where(w[:, ::-1] > 1.0 + 1e-4, w[:, ::-1] - 1.0, 0.0)
    width = int((excess > 0.0).sum(axis=1).max())
    if width == 0:
        return L
    D = np.sqrt(excess[:, :width, None]) * np.swapaxes(bound.eigenvectors[:, :, ::-1][:, :, :width], 1, 2)
    D *= math.sqrt(float(np.sum(L**2)) / float(np.sum(D**2)))
    best, grown = working.value(L, gamma).smoothed, L
    for t in np.geomspace(1e-4, 1.0, 9):
        longer = np.concatenate([L, t * D], axis=1)
        value = working.value(longer, gamma).smoothed
        if value < best:
            best, grown = value, longer
        elif grown is not L:  # before, what a short step gains may be less than rounding
            break
    if grown.shape[1] > rank:  # directions in which the metric is too small
        _, sigma, rows = np.linalg.svd(grown, full_matrices=False)
        grown = sigma[:, :, None] * rows
    return grown
