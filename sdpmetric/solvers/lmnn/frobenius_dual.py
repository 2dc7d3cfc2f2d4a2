"""The dual of LMNN with a Frobenius term over an active set of triplets, and its maximum by proximal Newton steps.

The dual is concave and once differentiable, with a box for each multiplier and nothing else. See ``docs/frobenius.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from sdpmetric.core.multipliers import Dual
from sdpmetric.core.run import Budget
from sdpmetric.linalg import psd
from sdpmetric.linalg.distances import distances
from sdpmetric.problems import screening
from sdpmetric.problems.frobenius import FrobeniusLMNNProblem
from sdpmetric.solvers.bounded import ascend
from sdpmetric.triplets.margins import margin_adjoint, margins
from sdpmetric.triplets.triplets import Triplets

FloatArray = NDArray[np.float64]

# Evaluations of L-BFGS-B at first, and the most proximal centers and Newton steps for each of them.
FIRST_ORDER, CENTERS, NEWTON = 100, 12, 12
# Weights of the proximal term, where the curvature along each multiplier is at most 1: from first to last.
PROXIMAL, LEAST_PROXIMAL = 1e-2, 1e-8
# Newton's equations are solved up to this size; beyond it L-BFGS-B is on its own.
MAX_EQUATIONS = 2500
# An active set is solved to the asked gap, or to this share of the gap that it began with.
RELATIVE = 3e-2


@dataclass(frozen=True, eq=False)
class Nearness:
    """A proximal term ``weight / 2 ||M - center||_F^2``, for problems whose own Frobenius term is slight.

    Attributes
    ----------
    weight : float
    center : (d, d) array
    """

    weight: float
    center: FloatArray

    @classmethod
    def of(cls, problem: FrobeniusLMNNProblem, L: FloatArray, wanted: float) -> Nearness:
        """As much as brings the quadratic terms of a metric to a wanted size, around this metric."""
        M = L.T @ L
        # A metric next to zero says nothing about the size of the optimal one: distances of about 1 do.
        spread = 2.0 * float(np.sum(np.var(problem.base.centered, axis=0)))
        size = max(float(np.sum(M**2)), 1.0 / spread**2) if spread > 0.0 else math.inf
        return cls(max(0.0, 2.0 * wanted / size - problem.frobenius), M)


@dataclass(frozen=True)
class DualValue:
    """The dual at some multipliers: value and gradient, the metric, and the eigenvalues behind the curvature."""

    value: float
    gradient: FloatArray
    values: FloatArray
    vectors: FloatArray
    components: FloatArray


@dataclass(frozen=True, eq=False)
class ActiveDual:
    """Multipliers of an active set of triplets; beside them those that screening has fixed at their upper bounds.

    Attributes
    ----------
    problem : FrobeniusLMNNProblem
    triplets : Triplets
        The active set.
    a : (t,) array
        Its multipliers, in their boxes.
    nearness : Nearness
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

    @cached_property
    def gap(self) -> float:
        """The gap over the active set, as a sum of terms that are not negative."""
        gradient = self.here.gradient
        return float(np.sum(self.ceilings * np.maximum(gradient, 0.0) - self.a * gradient))

    def at(self, a: FloatArray) -> DualValue:
        """The dual at other multipliers."""
        problem, (total, W) = self.problem, self.fixed
        X, lam = problem.base.centered, self.quadratic
        values, vectors = np.linalg.eigh(W + margin_adjoint(X, self.triplets, a))
        kept = values > 0.0
        L = np.sqrt(values[kept] / lam)[:, None] * vectors[:, kept].T
        value = total + float(a.sum()) - 0.5 * float(np.sum(values[kept] ** 2)) / lam
        return DualValue(value, 1.0 - margins(X @ L.T, self.triplets), values, vectors, L)

    def moved(self, a: FloatArray) -> ActiveDual:
        """The same active set at other multipliers; what depends on the set is kept."""
        new = replace(self, a=a)
        for name in ("ceilings", "fixed", "units"):
            new.__dict__[name] = getattr(self, name)
        return new


def solve(state: ActiveDual, budget: Budget, tol: float) -> ActiveDual:
    """Maximize the dual over an active set, to a relative gap or to a share of the gap it begins with.

    Parameters
    ----------
    state : ActiveDual
        Multipliers to start from.
    budget : Budget
        One iteration for each evaluation of the dual.
    tol : float
        Relative gap over the active set.
    """
    if not len(state.triplets):
        budget.spend()
        return state
    budget.spend()
    goal = max(tol * abs(state.here.value), RELATIVE * state.gap)
    state = _first_order(state, budget)
    weight = PROXIMAL
    for _ in range(CENTERS):
        if state.gap <= goal:
            break
        center, before = state.a, state.gap
        for _ in range(NEWTON):
            new = _newton(state, center, weight, budget)
            if new is None:
                break
            moved = float(np.linalg.norm((new.a - state.a) / state.units))
            state = new
            if state.gap <= goal or moved <= 1e-3 * float(np.linalg.norm((state.a - center) / state.units)):
                break
        weight = max(LEAST_PROXIMAL, weight * (0.1 if state.gap < 0.5 * before else 0.3))
    return state


def _first_order(state: ActiveDual, budget: Budget) -> ActiveDual:
    def function(a: FloatArray) -> tuple[float, FloatArray]:
        budget.spend()
        point = state.at(a)
        return point.value, point.gradient

    a = ascend(function, state.a, state.units, state.ceilings, evaluations=FIRST_ORDER, memory=20)
    return state.moved(a)


def _newton(state: ActiveDual, center: FloatArray, weight: float, budget: Budget) -> ActiveDual | None:
    """One projected semismooth Newton step on ``g(a) - weight / 2 ||a - center||^2``, in units; None: no ascent."""
    a, unit, ceiling, point = state.a, state.units, state.ceilings, state.here
    gradient = unit * point.gradient - weight * (a - center) / unit
    # Multipliers that are near a bound and pushed there go there, lest clipping bend the direction (Bertsekas 1982).
    ascent = np.clip(a / unit + gradient, 0.0, ceiling / unit) - a / unit
    near = min(1e-3 * float((ceiling / unit).max()), float(np.linalg.norm(ascent))) * unit
    down, up = (a <= np.minimum(near, 0.5 * ceiling)) & (gradient <= 0.0), (a >= ceiling - near) & (gradient >= 0.0)
    free = np.flatnonzero(~(down | up))
    direction = np.where(down, -a, np.where(up, ceiling - a, 0.0))
    if len(free):
        F = _curvature(state, free)
        if min(F.shape) > MAX_EQUATIONS:
            return None
        direction[free] = unit[free] * _damped(F, weight, gradient[free])
    rounding = 1e-14 * (abs(point.value) + float(a.sum()))
    value = point.value - 0.5 * weight * float(np.sum(((a - center) / unit) ** 2))
    for shorter in range(8):
        new = np.clip(a + 0.4**shorter * direction, 0.0, ceiling)
        promised = float(gradient @ ((new - a) / unit))
        if promised <= 0.0:
            continue
        budget.spend()
        moved = state.moved(new)
        gained = moved.here.value - 0.5 * weight * float(np.sum(((new - center) / unit) ** 2)) - value
        if gained >= 1e-4 * promised - rounding:
            return moved
    return None


def _damped(F: FloatArray, weight: float, right: FloatArray) -> FloatArray:
    """Solve ``(F F^T + weight I) x = right`` on the smaller side of F."""
    rows, columns = F.shape
    if rows <= columns:
        return np.asarray(scipy.linalg.solve(F @ F.T + weight * np.eye(rows), right, assume_a="pos"))
    inner = scipy.linalg.solve(F.T @ F + weight * np.eye(columns), F.T @ right, assume_a="pos")
    return np.asarray(right - F @ inner) / weight


def _curvature(state: ActiveDual, free: NDArray[np.intp]) -> FloatArray:
    """A root F of the negative Hessian of the dual on some multipliers in units, ``F F^T``."""
    X, T = state.problem.base.centered, state.triplets[free]
    row, column, slopes = psd.projection_slopes(state.here.values)
    root = np.sqrt(slopes / state.quadratic)
    Y = X @ state.here.vectors
    U, V = Y[T.anchors] - Y[T.impostors], Y[T.anchors] - Y[T.targets]
    F: FloatArray = U[:, row] * U[:, column] - V[:, row] * V[:, column]
    F *= root
    F *= state.units[free][:, None]
    return F
