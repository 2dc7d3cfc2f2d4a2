"""The dual of LMNN with a Frobenius term over an active set of triplets. See ``docs/frobenius.md``."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray
from sdpmetric.core.multipliers import Dual
from sdpmetric.core.run import Budget
from sdpmetric.linalg import psd
from sdpmetric.linalg.distances import distances
from sdpmetric.problems import screening
from sdpmetric.problems.frobenius import FrobeniusLMNNProblem
from sdpmetric.solvers.dual_newton import BoxDual, Evaluation
from sdpmetric.triplets.margins import margin_adjoint, margins
from sdpmetric.triplets.triplets import Triplets

# Evaluations of L-BFGS-B at first, and the pairs that it remembers.
FIRST_ORDER, MEMORY = 100, 20
# An active set is solved to the asked gap, or to this share of the gap that it began with.
RELATIVE = 3e-2


@dataclass(frozen=True, eq=False)
class Nearness:
    """A proximal term ``weight / 2 ||M - center||_F^2``, for problems whose own Frobenius term is slight.

    Attributes
    ----------
    center : (d, d) array
    """

    weight: float
    center: FloatArray

    @classmethod
    def of(cls, problem: FrobeniusLMNNProblem, L: FloatArray, wanted: float) -> Nearness:
        """As much as brings the quadratic terms of a metric to a wanted size, around this metric."""
        M = L.T @ L
        # A metric near 0 gives no scale for the optimal one: it is scaled to distances of about 1.
        spread = 2.0 * float(np.sum(np.var(problem.base.centered, axis=0)))
        size = max(float(np.sum(M**2)), 1.0 / spread / spread) if spread > 0.0 else math.inf
        return cls(max(0.0, 2.0 * wanted / size - problem.frobenius) if size > 0.0 else 0.0, M)


@dataclass(frozen=True)
class DualValue(Evaluation):
    """The dual at some multipliers, with a factor of the metric there."""

    components: FloatArray


@dataclass(frozen=True, eq=False)
class ActiveDual(BoxDual[DualValue]):
    """Multipliers of an active set of triplets; beside them those that screening has fixed at their upper bounds.

    Attributes
    ----------
    triplets : Triplets
        The active set.
    a : (t,) array
        Its multipliers, in their boxes.
    violated : Triplets
        Those that are fixed.
    """

    problem: FrobeniusLMNNProblem
    triplets: Triplets
    a: FloatArray
    nearness: Nearness
    violated: Triplets

    @cached_property
    def ceilings(self) -> FloatArray:
        """The upper ends of the boxes, (t,)."""
        return self.problem.base.push.ceilings(self.triplets)

    @cached_property
    def fixed(self) -> tuple[float, FloatArray]:
        """What the fixed multipliers add to ``sum a_t`` and ``sum a_t B_t - C``."""
        values = self.problem.base.push.ceilings(self.violated)
        B = margin_adjoint(self.problem.base.centered, self.violated, values)
        return float(values.sum()), B - self.problem.linear_cost + self.nearness.weight * self.nearness.center

    @property
    def quadratic(self) -> float:
        """Weight of all quadratic terms."""
        return self.problem.frobenius + self.nearness.weight

    @cached_property
    def units(self) -> FloatArray:
        """Units of the multipliers in which the curvature along each is at most 1."""
        X, T = self.problem.base.centered, self.triplets
        pairs = ((T.anchors, T.impostors), (T.anchors, T.targets), (T.targets, T.impostors))
        size = screening.norms(*(distances(X, *pair) for pair in pairs))
        units: FloatArray = math.sqrt(self.quadratic) / np.maximum(size, 1e-100)
        return np.where(size > 0.0, units, 1.0)

    @property
    def dual(self) -> Dual:
        """All multipliers, the fixed ones included."""
        both = np.concatenate([self.triplets.to_array(), self.violated.to_array()])
        return Dual(Triplets.from_array(both), np.concatenate([self.a, self.problem.base.push.ceilings(self.violated)]))

    @cached_property
    def here(self) -> DualValue:
        """The dual at the multipliers."""
        return self.at(self.a)

    def at(self, a: FloatArray) -> DualValue:
        """The dual at other multipliers."""
        problem, (total, W) = self.problem, self.fixed
        X, lam = problem.base.centered, self.quadratic
        values, vectors = np.linalg.eigh(W + margin_adjoint(X, self.triplets, a))
        positive = values > 0.0
        L = np.sqrt(values[positive] / lam)[:, None] * vectors[:, positive].T
        value = total + float(a.sum()) - 0.5 * float(np.sum(values[positive] ** 2)) / lam
        return DualValue(value, 1.0 - margins(X @ L.T, self.triplets), values, vectors, L)

    def curvature_root(self, here: DualValue, free: NDArray[np.intp]) -> FloatArray:
        """A root of the negative Hessian of the dual on some multipliers in units, (f, m)."""
        X, T = self.problem.base.centered, self.triplets[free]
        row, column, slopes = psd.projection_slopes(here.values)
        root = np.sqrt(slopes / self.quadratic)
        Y = X @ here.vectors
        U, V = Y[T.anchors] - Y[T.impostors], Y[T.anchors] - Y[T.targets]
        F: FloatArray = U[:, row] * U[:, column] - V[:, row] * V[:, column]
        F *= root
        F *= self.units[free][:, None]
        return F

    def moved(self, a: FloatArray, here: DualValue) -> ActiveDual:
        """The same active set at other multipliers, where the dual is known."""
        new = replace(self, a=a)
        for name in ("ceilings", "fixed", "units"):
            new.__dict__[name] = getattr(self, name)
        new.__dict__["here"] = here
        return new


def solve(state: ActiveDual, budget: Budget, tol: float) -> ActiveDual:
    """Maximize the dual over an active set, to a relative gap or to a share of the gap it begins with."""
    if not len(state.triplets):
        budget.spend()
        return state
    budget.spend()
    goal = max(tol * abs(state.here.value), RELATIVE * state.gap(state.a, state.here.gradient))
    start = state.ascend(state.a, budget, evaluations=FIRST_ORDER, memory=MEMORY)
    for a, here in state.newton(start, budget):
        if state.gap(a, here.gradient) <= goal:
            break
    return state.moved(a, here)
