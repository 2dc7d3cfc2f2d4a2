"""LMNN with a Frobenius term on its dual: rounds of an active set of triplets and exhaustive search.

Any multipliers in their boxes are dual feasible. With ``lam`` the weight of the term, they prove

    ``g(a) = sum_t a_t - ||[sum_t a_t B_t - C]_+||_F^2 / (2 lam)``,  and  ``M(a) = [sum_t a_t B_t - C]_+ / lam``

is the metric that minimizes the Lagrangian. Over an active set this is the dual of a sum of terms, which is solved by
its own methods. Where lam is slight beside the optimal metric, a proximal term ``rho / 2 ||M - M_k||_F^2`` around the
latest metric stands beside it. See ``docs/duals.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Self

import numpy as np

from sdpmetric.arrays import FloatArray
from sdpmetric.core.certificate import Dual
from sdpmetric.core.registry import solver
from sdpmetric.core.steps import Budget, Step
from sdpmetric.core.triplets import Triplets
from sdpmetric.engine.cached import cached
from sdpmetric.linalg import psd
from sdpmetric.lmnn.problem import LMNNProblem
from sdpmetric.lmnn.triplets.margins import margin_adjoint
from sdpmetric.sums.bound_terms import BoundTerms
from sdpmetric.sums.domains import Domain
from sdpmetric.sums.dual import DualPoint, SumDual
from sdpmetric.sums.terms.comparisons import TripletHinge
from sdpmetric.sums.terms.frobenius import Frobenius


@dataclass(frozen=True)
class DualOptions:
    """Margins are in squared distances, gaps relative to the objective unless a line says otherwise."""

    band: float = 0.3  # triplets whose margin is up to this beyond 1 join the active set,
    dropped_slack: float = 1.0  # inactive ones leave it when it is further beyond 1 than this
    rounds: int = 100  # of search at most,
    patience: int = 8  # and so many without a better gap
    quadratic_share: float = 0.03  # of the objective, to which quadratic terms are brought by a proximal term
    slow: float = 0.5  # where a round leaves more of the gap than this share, the proximal term holds the metric back:
    fade: float = 0.3  # it shrinks to this share of itself
    round_tol: float = 0.2  # an active set is solved to this share of the tolerance,
    round_share: float = 3e-2  # or to this share of the gap that it begins with
    evaluations: int = 100  # of L-BFGS-B, before Newton steps


OPTIONS = DualOptions()


@dataclass(frozen=True, eq=False)
class ActiveSet:
    """Triplets, their multipliers, and ``proximal / 2 ||M - center||_F^2`` beside the problem's own term."""

    problem: LMNNProblem
    triplets: Triplets
    a: FloatArray
    proximal: float
    center: FloatArray  # (d, d)

    @cached
    def sum(self) -> SumDual:
        """The dual over the active set, as that of a sum."""
        problem, weight = self.problem, self.problem.frobenius + self.proximal
        hinge = TripletHinge(self.triplets.to_array(), weights=problem.push.ceilings(self.triplets))
        frobenius = Frobenius(self.proximal / weight * self.center, weight=weight)
        C = problem.pull_cost.matrix
        return SumDual(BoundTerms(problem.centered, (hinge, frobenius)), Domain.of(len(C)), C)

    @cached
    def point(self) -> DualPoint:
        return self.sum.evaluate(self.a, spectrum=True)

    @property
    def components(self) -> FloatArray:
        """A factor of the metric that the multipliers mean, with the proximal term."""
        return psd.factor(self.point.metric)

    def solved(self, budget: Budget, tol: float) -> Self:
        """The active set with better multipliers, to a relative gap or to a share of the gap it begins with."""
        budget.spend()
        if not len(self.a):
            return self
        goal = max(tol * abs(self.point.value), OPTIONS.round_share * self.sum.ascent_bound(self.point))
        start = self.sum.ascend(self.a, budget, OPTIONS.evaluations).multipliers
        for point in self.sum.newton(start, budget):
            if self.sum.ascent_bound(point) <= goal:
                break
        solved = replace(self, a=point.multipliers)
        solved.__dict__.update(sum=self.sum, point=point)
        return solved

    def renewed(self, proximal: tuple[float, FloatArray], capacity: int) -> ActiveSet:
        """The next active set: what is used or nearly so, and what an exhaustive search finds.

        Where the first exceed the capacity, only those that are used stay; a search finds as few as they leave.
        """
        retained = (self.a > 0.0) | (self.point.gradient > -OPTIONS.dropped_slack)
        if np.count_nonzero(retained) > capacity:
            retained = self.a > 0.0
        old = self.triplets[retained]
        new = _violated(self.problem, self.components, max(capacity - len(old), 0), old)
        a = np.concatenate([self.a[retained], np.zeros(len(new))])
        return ActiveSet(self.problem, Triplets.join(old, new), a, *proximal)


@solver(LMNNProblem, "dual", tol=1e-6, rank=1, takes=attrgetter("frobenius"))
def steps(problem: LMNNProblem, budget: Budget, tol: float, *, init: FloatArray | None = None) -> Iterator[Step]:
    L = init
    if L is None:
        L = np.eye(problem.X.shape[1]) / (float(np.sqrt(np.mean(problem.centered**2))) or 1.0)
        L *= problem.best_scale(L)
    first = Step.certified(problem, L)
    yield first
    capacity = problem.source.capacity(np.arange(len(problem.X), dtype=np.int32))
    triplets = _violated(problem, L, capacity, Triplets.join())
    a = problem.push.ceilings(triplets) * np.clip(1.0 - problem.push.margins(problem.embed(L), triplets), 0.0, 1.0)
    share = OPTIONS.quadratic_share
    active = ActiveSet(problem, triplets, a, *_proximal(problem, L, share * first.objective))
    best_gap, patience = math.inf, OPTIONS.patience
    for _ in range(OPTIONS.rounds):
        active = active.solved(budget, OPTIONS.round_tol * tol)
        dual, points = Dual(active.triplets, active.a), [active.components]
        if active.proximal > 0.0:
            points.append(lagrangian_minimizer(problem, dual))
        L = min(points, key=lambda point: problem.objective(point))
        step = Step.certified(problem, L, dual)
        gap = step.objective - step.lower_bound
        yield step
        patience = OPTIONS.patience if gap < 0.9 * best_gap else patience - 1
        if patience == 0:
            return
        share *= 1.0 if gap < OPTIONS.slow * best_gap else OPTIONS.fade
        best_gap = min(best_gap, gap)
        active = active.renewed(_proximal(problem, L, share * step.objective), capacity)


def lagrangian_minimizer(problem: LMNNProblem, dual: Dual) -> FloatArray:
    """A factor of ``M(a)``, with each multiplier clipped to its box."""
    clipped = problem.push.clipped(dual)
    B = margin_adjoint(problem.centered, clipped.triplets, clipped.values)
    return psd.factor(B - problem.pull_cost.matrix) / math.sqrt(problem.frobenius)


def _proximal(problem: LMNNProblem, L: FloatArray, size: float) -> tuple[float, FloatArray]:
    """Weight and center of the proximal term around a metric that brings its quadratic terms to a size."""
    M = L.T @ L
    # A metric near 0 gives no scale for the optimal one: it is scaled to distances of about 1.
    spread = 2.0 * float(np.sum(np.var(problem.centered, axis=0)))
    squared_norm = max(float(np.sum(M**2)), 1.0 / spread / spread) if spread > 0.0 else math.inf
    return (max(0.0, 2.0 * size / squared_norm - problem.frobenius) if squared_norm > 0.0 else 0.0), M


def _violated(problem: LMNNProblem, L: FloatArray, max_triplets: int, excluded: Triplets) -> Triplets:
    """The triplets whose margin is below 1 at a metric, or a little above; of too many half as many.

    Those with the smallest margins stay. The margin up to which triplets are listed is tightened as the search goes on.
    """
    limit, n = 1.0 + OPTIONS.band, len(problem.X)
    Z, excluded_keys = problem.embed(L), excluded.keys(n)
    lists, sizes, count = [Triplets.join()], [np.zeros(0)], 0
    for _, block in problem.push.blocks_by_region(Z, widen=OPTIONS.band):
        weights = np.ones(len(block.impostors)) if block.weights is None else block.weights
        triplets, _ = block.triplets((block.targets >= 0)[block.rows] * weights[:, None])
        triplets = triplets[~np.isin(triplets.keys(n), excluded_keys)]
        margin = problem.push.margins(Z, triplets)
        lists.append(triplets[margin <= limit])
        sizes.append(margin[margin <= limit])
        count += len(lists[-1])
        if count > max_triplets:
            triplets, margin, count = Triplets.join(*lists), np.concatenate(sizes), max_triplets // 2
            smallest = np.sort(np.argpartition(margin, count)[:count])
            lists, sizes = [triplets[smallest]], [margin[smallest]]
            limit = float(margin[smallest].max(initial=-math.inf))
    return Triplets.join(*lists)
