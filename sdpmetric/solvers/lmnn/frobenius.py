"""LMNN with a Frobenius term on its dual: rounds of an active set of triplets, exhaustive search and safe screening.

Every iterate is dual feasible. The primal point is ``M(a)``. See ``docs/frobenius.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from scipy.optimize import minimize_scalar

from sdpmetric.arrays import FloatArray
from sdpmetric.core.multipliers import Dual
from sdpmetric.core.registry import solver
from sdpmetric.core.run import Budget, Step
from sdpmetric.problems.frobenius import FrobeniusLMNNProblem
from sdpmetric.problems.screening import Screening
from sdpmetric.solvers.lmnn.frobenius_dual import ActiveDual, Nearness, solve
from sdpmetric.triplets.limits import TooManyCandidates
from sdpmetric.triplets.margins import margins
from sdpmetric.triplets.triplets import Triplets

# Triplets whose margin is missed by no more than this beyond 1 join the active set, and the search is as much wider.
BAND = 0.3
# Inactive triplets leave the active set beyond this margin.
DROP = 2.0
# Anchors on which the scale of the first metric is found.
SAMPLE = 300
# Rounds of search, and rounds without a better gap, before giving up.
ROUNDS, PATIENCE = 100, 8
# Quadratic terms are brought up to this share of the objective by a proximal term.
SHARE = 0.03
# Where a round leaves more than SLOW of the gap, the proximal term holds the metric back: it shrinks to FADE of itself.
SLOW, FADE = 0.5, 0.3
# An active set is solved to this share of the asked gap.
INNER = 0.2
# All triplets are screened again where the gap is this share of what it was.
RESCREEN = 0.2
# A screening that leaves more undecided triplets than this for each active one is not used.
USEFUL = 10


@solver(FrobeniusLMNNProblem, "dual", tol=1e-6, default=True)
def steps(
    problem: FrobeniusLMNNProblem, budget: Budget, tol: float, *, start: FloatArray | None = None
) -> Iterator[Step]:
    """Solve LMNN with a Frobenius term."""
    base = problem.base
    L = _scaled_identity(problem) if start is None else start
    begun = Step.certified(problem, L)
    yield begun
    most = base.source.capacity(np.arange(len(problem.X), dtype=np.int32))
    triplets = _near(problem, L, most)
    missed = 1.0 - margins(base.embed(L), triplets)
    share = SHARE
    nearness = Nearness.of(problem, L, share * begun.objective)
    nothing_fixed = Triplets.from_array(np.zeros((0, 3), dtype=np.int32))
    a = base.push.ceilings(triplets) * np.clip(missed, 0.0, 1.0)
    state = ActiveDual(problem, triplets, a, nearness, nothing_fixed)
    found: Screening | None = None
    best_gap, screened_at, patience = math.inf, math.inf, PATIENCE
    for _ in range(ROUNDS):
        state = solve(state, budget, INNER * tol)
        dual = state.dual
        points = [state.here.components, problem.dual_point(dual).components]
        # The second case: the proximal term no longer has an effect.
        L = min(points if nearness.weight > 0.0 else points[:1], key=lambda point: problem.objective(point))
        step = Step.certified(problem, L, dual)
        gap = step.objective - step.lower_bound
        if gap <= RESCREEN * screened_at:
            found, screened_at = _screened(problem, L, dual, most), gap
        yield replace(step, extras={"screened": 0.0 if found is None else found.share})
        patience = PATIENCE if gap < 0.9 * best_gap else patience - 1
        if patience == 0:
            return
        share *= 1.0 if gap < SLOW * best_gap else FADE
        best_gap = min(best_gap, gap)
        nearness = Nearness.of(problem, L, share * step.objective)
        state = _renewed(state, nearness, found, most)


def _screened(problem: FrobeniusLMNNProblem, L: FloatArray, dual: Dual, most: int) -> Screening | None:
    try:
        return problem.screen(L, dual=dual, most=most)
    except TooManyCandidates:
        return None


def _scaled_identity(problem: FrobeniusLMNNProblem) -> FloatArray:
    """The multiple of the identity with about the smallest objective, on some anchors."""
    base, n = problem.base, len(problem.X)
    among = np.unique(np.linspace(0, n - 1, min(n, SAMPLE)).astype(np.int32))
    identity = np.eye(problem.X.shape[1])
    units = float(np.sqrt(np.mean(base.centered**2))) or 1.0

    def objective(log_scale: float) -> float:
        L = math.exp(log_scale) / units * identity
        return base.partial_objective(base.embed(L), L, among) + problem.penalty(L) * len(among) / n

    found = minimize_scalar(objective, bounds=(-5.0, 3.0), method="bounded", options={"xatol": 0.05})
    scaled: FloatArray = math.exp(found.x) / units * identity
    return scaled


def _near(problem: FrobeniusLMNNProblem, L: FloatArray, most: int) -> Triplets:
    """The triplets whose margin is below 1 at a metric, or a little above; where there are more than `most`, a half.

    Those with the smallest margins stay. The margin up to which triplets are listed is tightened as the search goes on.
    """
    base, limit = problem.base, 1.0 + BAND
    Z = base.embed(L)
    found, sizes, count = [Triplets.from_array(np.zeros((0, 3), dtype=np.int32))], [np.zeros(0)], 0
    for part in base.push.near(Z, widen=BAND):
        weights = np.ones(len(part.impostors)) if part.weights is None else part.weights
        listed, _ = part.triplets((part.targets >= 0)[part.rows] * weights[:, None])
        own = margins(Z, listed)
        found.append(listed[own <= limit])
        sizes.append(own[own <= limit])
        count += len(found[-1])
        if count > most:
            joined, margin, count = Triplets.join(*found), np.concatenate(sizes), most // 2
            smallest = np.sort(np.argpartition(margin, count)[:count])
            found, sizes, limit = [joined[smallest]], [margin[smallest]], float(margin[smallest].max(initial=-math.inf))
    return Triplets.join(*found)


def _renewed(state: ActiveDual, nearness: Nearness, found: Screening | None, most: int) -> ActiveDual:
    """The next active set: what is used or nearly so, what an exhaustive search finds, less what is screened.

    Where the first are more than `most`, only those that are used stay; what a search finds is as few as they leave.
    """
    problem, n, point = state.problem, len(state.problem.X), state.here
    retained = (state.a > 0.0) | (point.gradient > 1.0 - DROP)
    if np.count_nonzero(retained) > most:
        retained = state.a > 0.0
    own = state.triplets[retained]
    near = _near(problem, point.components, max(most - len(own), 0))
    if found is not None and len(found.undecided) > USEFUL * max(len(own), 1):
        found = None
    fixed = state.violated if found is None else found.violated
    near = near[~np.isin(near.keys(n), np.concatenate([own.keys(n), fixed.keys(n)]))]
    joined = Triplets.from_array(np.concatenate([own.to_array(), near.to_array()]))
    a = np.concatenate([state.a[retained], np.zeros(len(near))])
    if found is not None:
        undecided = np.isin(joined.keys(n), found.undecided.keys(n))
        joined, a = joined[undecided], a[undecided]
    return ActiveDual(problem, joined, a, nearness, fixed)
