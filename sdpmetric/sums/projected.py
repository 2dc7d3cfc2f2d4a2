"""Sums of smooth losses and one Frobenius term, by spectral projected gradients in the metric [BMR2000]."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sdpmetric.arrays import FloatArray
from sdpmetric.core.certificate import relative_gap
from sdpmetric.core.registry import solver
from sdpmetric.core.run import Budget, Step
from sdpmetric.engine.cached import cached
from sdpmetric.linalg import psd
from sdpmetric.linalg.distances import Blocks, adjoint, pair_forms
from sdpmetric.sums.bound_terms import BoundTerms
from sdpmetric.sums.dual import PROVEN, SumDual, fits
from sdpmetric.sums.problem import MetricProblem
from sdpmetric.sums.terms.frobenius import Frobenius

# Values that a step may exceed, the share of the promised descent that it has to bring, and lengths that are tried.
MONOTONE, ARMIJO, LENGTHS = 8, 1e-4, 30
# Spectral steps are between these multiples of the weight's inverse.
SHORTEST, LONGEST = 1e-12, 1e12
# Steps between two estimates of the gap.
EVERY = 5
# The solver stops where so many estimates do not halve the gap between objective and bound.
PATIENCE = 20


def takes(problem: MetricProblem) -> bool:
    """Whether all losses are finite and without kinks, beside one Frobenius term, in orthonormal coordinates."""
    total = problem.total
    smooth = not any(
        loss.kinked or loss.hard or loss.has_infinite_slopes or loss.depends_on_entries for loss in total.losses
    )
    one = len(total.regularizers) == 1 and isinstance(problem.dual.minimized, Frobenius)
    finite = all(math.isfinite(loss.value(total.offset(loss))) for loss in total.losses)
    return bool(total.losses) and smooth and one and finite


@dataclass(frozen=True, eq=False)
class Iterate:
    """The sum at a metric of the domain (k, k), and the gradients with and without the Frobenius term."""

    metric: FloatArray
    value: float
    losses: float
    slopes: list[FloatArray]
    slack: FloatArray
    gradient: FloatArray


@dataclass(eq=False)
class Descent:
    """The sum as a function of the metric."""

    dual: SumDual

    @property
    def total(self) -> BoundTerms:
        """The sum."""
        return self.dual.total

    @cached
    def middle(self) -> FloatArray:
        """What the metric is near to, (k, k), and where descent starts after its projection."""
        return np.asarray(self.dual.target / self.dual.weight)

    @cached
    def constant(self) -> float:
        """The sum of regularizer and trace less half the weighted square of the distance to `middle`."""
        return self.dual.constant - 0.5 * self.dual.weight * float(np.sum(self.middle**2))

    def at(self, P: FloatArray) -> Iterate:
        """The sum at a metric; `middle` contains the cost of the trace."""
        (Y, first, second), total, weight = self.dual.points, self.total, self.dual.weight
        D = pair_forms(Y, P[None], Blocks.one(len(Y)), first, second)
        linear = len(total.costs[1])
        value, a = self.constant + float(total.costs[1] @ D[:linear]), list[FloatArray]()
        for loss, own in zip(total.losses, total.pair_slices, strict=True):
            part, slopes = loss.smoothed(total.offset(loss) + loss.combination @ D[own], 0.0)
            value, a = value + part, [*a, slopes]
        S = self.dual.domain.block_diagonal(adjoint(Y, first, second, total.pair_weights(a)))
        off = P - self.middle
        return Iterate(P, value + 0.5 * weight * float(np.sum(off * off)), value, a, S, S + weight * off)

    def bound(self, here: Iterate) -> float:
        """A lower bound, as floats see it: the losses are at least linear."""
        P, weight = self.dual.positive(self.dual.target - here.slack) / self.dual.weight, self.dual.weight
        moved, off = P - here.metric, P - self.middle
        return here.losses + float(np.sum(here.slack * moved)) + 0.5 * weight * float(np.sum(off * off))

    def components(self, here: Iterate) -> FloatArray:
        """A factor of the metric, in the data's coordinates, (r, d)."""
        return psd.factor(here.metric)

    def steps(self, first: FloatArray, budget: Budget) -> Iterator[Iterate]:
        """Iterates of the method from a metric; they end where rounding hides all descent."""
        here = self.at(first)
        yield here
        values, length = [here.value], 1.0 / self.dual.weight
        while True:
            direction = self.dual.positive(here.metric - length * here.gradient) - here.metric
            slope, share = float(np.sum(direction * here.gradient)), 1.0
            for _ in range(LENGTHS):
                budget.spend()
                there = self.at(here.metric + share * direction)
                if there.value <= max(values[-MONOTONE:]) + ARMIJO * share * slope:
                    break
                curved = -0.5 * share * slope / ((there.value - here.value) / share - slope)
                share *= min(max(curved, 0.1), 0.5) if math.isfinite(curved) else 0.1
            else:
                return
            moved, change = there.metric - here.metric, there.gradient - here.gradient
            curvature = float(np.sum(moved * change))
            length = float(np.sum(moved * moved)) / curvature if curvature > 0.0 else LONGEST
            length = min(max(length, SHORTEST / self.dual.weight), LONGEST / self.dual.weight)
            here = there
            values.append(here.value)
            yield here


def turn(problem: MetricProblem) -> int:
    """First where the metric stays near a given one, unless the dual is the smaller problem; else only by name.

    Descent in a factor is slow near a metric of full rank: for `Collapse` near I in 384 dimensions these gradients take
    3 s, and L-BFGS in the factor does not end in 14.
    """
    to_metric = bool(problem.dual.minimized.target.any()) if isinstance(problem.dual.minimized, Frobenius) else False
    return 1 if to_metric and not fits(problem) else 0


@solver(MetricProblem, "projected", tol=1e-4, rank=turn, when=takes)
def steps(problem: MetricProblem, budget: Budget, tol: float, *, init: FloatArray | None = None) -> Iterator[Step]:
    """Solve a sum of smooth losses and one Frobenius term by spectral projected gradients, from M0 or from `init`."""
    yield Step(problem.zero, objective=problem.objective(problem.zero))
    dual = SumDual(problem.total, problem.domain)
    first = None if init is None else dual.domain.block_diagonal(init.T @ init)
    yield from _iterates(problem, Descent(dual), first, budget, tol)


def _iterates(
    problem: MetricProblem, descent: Descent, first: FloatArray | None, budget: Budget, tol: float
) -> Iterator[Step]:
    """Steps from a metric, or from what it is to be near to, until the gap no longer falls."""
    gaps: list[float] = []
    start = descent.middle if first is None else first
    for k, iterate in enumerate(descent.steps(descent.dual.positive(start), budget)):
        if k % EVERY:
            continue
        bound = min(iterate.value, descent.bound(iterate))
        gaps.append(iterate.value - bound)
        stalled = len(gaps) > PATIENCE and min(gaps) > 0.5 * min(gaps[:-PATIENCE])
        proven = relative_gap(iterate.value, bound) <= PROVEN * tol
        yield _step(problem, descent, iterate, bound, proven=proven or stalled)
        if stalled:
            return
    yield _step(problem, descent, iterate, bound, proven=True)


def _step(problem: MetricProblem, descent: Descent, here: Iterate, low: float, *, proven: bool) -> Step:
    """The metric with the problem's certificate, or with what floating point says."""
    L, a = descent.components(here), np.concatenate([np.zeros(0), *here.slopes])
    if proven or not math.isfinite(here.value):
        return Step.certified(problem, L, a)
    return Step(L, objective=here.value, lower_bound=min(here.value, low), multipliers=lambda: a)
