"""LMNN with a Frobenius term on its dual: rounds of an active set of triplets and exhaustive search.

Every iterate is dual feasible. The primal point is ``M(a)``. See ``docs/duals.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.optimize import minimize_scalar

from sdpmetric.arrays import FloatArray
from sdpmetric.core.certificate import Dual
from sdpmetric.core.registry import solver
from sdpmetric.core.run import Budget, Step
from sdpmetric.core.triplets import Triplets
from sdpmetric.engine.cached import cached
from sdpmetric.linalg import psd
from sdpmetric.lmnn.problem import LMNNProblem
from sdpmetric.lmnn.triplets.margins import margin_adjoint, margins
from sdpmetric.sums.bound_terms import BoundTerms
from sdpmetric.sums.domains import Domain
from sdpmetric.sums.dual import DualValue, SumDual
from sdpmetric.sums.terms.comparisons import TripletHinge
from sdpmetric.sums.terms.frobenius import Frobenius

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
# An active set is solved to this share of the requested gap.
INNER = 0.2
# Evaluations of L-BFGS-B at first, and the share of the gap that it began with to which an active set is solved.
FIRST_ORDER, RELATIVE = 100, 3e-2


@dataclass(frozen=True, eq=False)
class Active:
    """An active set of triplets, a proximal term around a metric, and multipliers.

    Attributes
    ----------
    proximal : float
        Weight of ``1/2 ||M - center||_F^2``, for problems whose own Frobenius term is slight.
    center : (d, d) array
    """

    problem: LMNNProblem
    triplets: Triplets
    a: FloatArray
    proximal: float
    center: FloatArray

    @cached
    def sum(self) -> SumDual:
        """The dual over the active set, as that of a sum."""
        base, quadratic = self.problem, self.problem.frobenius + self.proximal
        hinge = TripletHinge(self.triplets.to_array(), weights=base.push.ceilings(self.triplets))
        near = Frobenius(self.proximal / quadratic * self.center, weight=quadratic)
        linear = base.pull_cost.matrix
        return SumDual(BoundTerms(base.centered, (hinge, near)), Domain.of(len(linear)), linear)

    @cached
    def here(self) -> DualValue:
        """The dual there."""
        return self.sum.at(self.a, spectrum=True)

    @property
    def components(self) -> FloatArray:
        """A factor of the metric there."""
        return self.sum.components(self.a, self.here)

    @property
    def dual(self) -> Dual:
        """The multipliers with their triplets."""
        return Dual(self.triplets, self.a)

    def solved(self, budget: Budget, tol: float) -> Self:
        """The active set with better multipliers, to a relative gap or to a share of the gap it begins with."""
        budget.spend()
        if not len(self.a):
            return self
        goal = max(tol * abs(self.here.value), RELATIVE * self.sum.gap(self.a, self.here.gradient))
        start, _ = self.sum.ascend(self.a, budget, 0.0, FIRST_ORDER, False)
        for a, here in self.sum.newton(start, budget):
            if self.sum.gap(a, here.gradient) <= goal:
                break
        found = replace(self, a=a)
        found.__dict__.update(sum=self.sum, here=here)
        return found


@solver(LMNNProblem, "dual", tol=1e-6, rank=1, when=lambda problem: problem.frobenius > 0.0)
def steps(problem: LMNNProblem, budget: Budget, tol: float, *, init: FloatArray | None = None) -> Iterator[Step]:
    """Solve LMNN with a Frobenius term."""
    L = _scaled_identity(problem) if init is None else init
    begun = Step.certified(problem, L)
    yield begun
    most = problem.source.capacity(np.arange(len(problem.X), dtype=np.int32))
    triplets = _near(problem, L, most, Triplets.join())
    missed = 1.0 - margins(problem.embed(L), triplets)
    share = SHARE
    a = problem.push.ceilings(triplets) * np.clip(missed, 0.0, 1.0)
    state = Active(problem, triplets, a, *_proximal(problem, L, share * begun.objective))
    best_gap, patience = math.inf, PATIENCE
    for _ in range(ROUNDS):
        state = state.solved(budget, INNER * tol)
        dual, points = state.dual, [state.components]
        if state.proximal > 0.0:
            points.append(lagrangian_minimizer(problem, dual))
        L = min(points, key=lambda point: problem.objective(point))
        step = Step.certified(problem, L, dual)
        gap = step.objective - step.lower_bound
        yield step
        patience = PATIENCE if gap < 0.9 * best_gap else patience - 1
        if patience == 0:
            return
        share *= 1.0 if gap < SLOW * best_gap else FADE
        best_gap = min(best_gap, gap)
        state = _renewed(state, _proximal(problem, L, share * step.objective), most)


def lagrangian_minimizer(problem: LMNNProblem, dual: Dual) -> FloatArray:
    """A factor of ``M(a) = [sum_t a_t B_t - C]_+ / frobenius``, with each multiplier clipped to its box."""
    clipped = problem.push.clipped(dual)
    B = margin_adjoint(problem.centered, clipped.triplets, clipped.values)
    return psd.factor(B - problem.pull_cost.matrix) / math.sqrt(problem.frobenius)


def _proximal(problem: LMNNProblem, L: FloatArray, wanted: float) -> tuple[float, FloatArray]:
    """The proximal term around a metric that brings its quadratic terms to a wanted size."""
    M = L.T @ L
    # A metric near 0 gives no scale for the optimal one: it is scaled to distances of about 1.
    spread = 2.0 * float(np.sum(np.var(problem.centered, axis=0)))
    size = max(float(np.sum(M**2)), 1.0 / spread / spread) if spread > 0.0 else math.inf
    return (max(0.0, 2.0 * wanted / size - problem.frobenius) if size > 0.0 else 0.0), M


def _scaled_identity(problem: LMNNProblem) -> FloatArray:
    """The multiple of the identity with about the smallest objective, on some anchors."""
    n = len(problem.X)
    among = np.unique(np.linspace(0, n - 1, min(n, SAMPLE)).astype(np.int32))
    identity = np.eye(problem.X.shape[1])
    units = float(np.sqrt(np.mean(problem.centered**2))) or 1.0

    def objective(log_scale: float) -> float:
        L = math.exp(log_scale) / units * identity
        return problem.partial_objective(problem.embed(L), L, among)

    found = minimize_scalar(objective, bounds=(-5.0, 3.0), method="bounded", options={"xatol": 0.05})
    scaled: FloatArray = math.exp(found.x) / units * identity
    return scaled


def _near(problem: LMNNProblem, L: FloatArray, most: int, known: Triplets) -> Triplets:
    """The triplets whose margin is below 1 at a metric, or a little above; if there are more than `most`, a half.

    Known ones are left out. Those with the smallest margins stay. The margin up to which triplets are listed is
    tightened as the search goes on.
    """
    limit, n = 1.0 + BAND, len(problem.X)
    Z, keys = problem.embed(L), known.keys(n)
    found, sizes, count = [Triplets.join()], [np.zeros(0)], 0
    for part in problem.push.candidate_blocks(Z, widen=BAND):
        weights = np.ones(len(part.impostors)) if part.weights is None else part.weights
        listed, _ = part.triplets((part.targets >= 0)[part.rows] * weights[:, None])
        listed = listed[~np.isin(listed.keys(n), keys)]
        own = margins(Z, listed)
        found.append(listed[own <= limit])
        sizes.append(own[own <= limit])
        count += len(found[-1])
        if count > most:
            joined, margin, count = Triplets.join(*found), np.concatenate(sizes), most // 2
            smallest = np.sort(np.argpartition(margin, count)[:count])
            found, sizes, limit = [joined[smallest]], [margin[smallest]], float(margin[smallest].max(initial=-math.inf))
    return Triplets.join(*found)


def _renewed(state: Active, proximal: tuple[float, FloatArray], most: int) -> Active:
    """The next active set: what is used or nearly so, and what an exhaustive search finds.

    Where the first are more than `most`, only those that are used stay; what a search finds is as few as they leave.
    """
    retained = (state.a > 0.0) | (state.here.gradient > 1.0 - DROP)
    if np.count_nonzero(retained) > most:
        retained = state.a > 0.0
    own = state.triplets[retained]
    near = _near(state.problem, state.components, max(most - len(own), 0), own)
    a = np.concatenate([state.a[retained], np.zeros(len(near))])
    return Active(state.problem, Triplets.join(own, near), a, *proximal)
