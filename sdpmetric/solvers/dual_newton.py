"""The maximum of a concave dual over a box of multipliers: L-BFGS-B, then proximal semismooth Newton steps.

The dual is once differentiable, with bounds on each multiplier and nothing else, so that every iterate is dual
feasible. The duals of POLA and of LMNN with a Frobenius term are of this kind.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.optimize import minimize

from sdpmetric.arrays import FloatArray
from sdpmetric.core.run import Budget

# Proximal centers, and Newton steps for each of them, at most.
CENTERS, NEWTON = 12, 12
# Weights of the proximal term, where the curvature along each multiplier is at most 1: from first to last.
PROXIMAL, LEAST_PROXIMAL = 1e-2, 1e-8
# Newton's equations are solved up to this size, and the root of the curvature has at most so many entries (400 MB).
MAX_EQUATIONS, MAX_ENTRIES = 2500, 5 * 10**7
# A Newton direction is tried at so many lengths, each this share of the one before.
LENGTHS, SHORTER = 8, 0.4
# Multipliers within this share of the largest one of a bound may count as at it.
NEAR = 1e-3
# The share of the ascent that the gradient promises which a step has to bring (Armijo).
ARMIJO = 1e-4
# Dual values are compared up to this share of the numbers they are the difference of.
ROUNDING = 1e-14


@dataclass(frozen=True)
class Evaluation:
    """The dual at one point of its box.

    Attributes
    ----------
    gradient : (t,) array
    values, vectors : (d,) and (d, d) arrays
        Eigenvalues and eigenvectors of the matrix whose positive part the metric is; the curvature depends on them.
    """

    value: float
    gradient: FloatArray
    values: FloatArray
    vectors: FloatArray


E = TypeVar("E", bound=Evaluation)


class BoxDual(ABC, Generic[E]):
    """A concave dual ``g(a)`` over ``0 <= a <= ceilings``."""

    @property
    @abstractmethod
    def ceilings(self) -> FloatArray:
        """Upper bounds of the multipliers, possibly infinite, (t,)."""

    @property
    @abstractmethod
    def units(self) -> FloatArray:
        """Positive units of the multipliers in which the curvature along each is at most 1, (t,)."""

    @abstractmethod
    def at(self, a: FloatArray) -> E:
        """The dual at multipliers of the box, (t,)."""

    @abstractmethod
    def curvature_root(self, here: E, free: NDArray[np.intp]) -> FloatArray:
        """A root F of the generalized negative Hessian ``F F^T`` on some multipliers, in units, (f, m)."""

    def gap(self, a: FloatArray, gradient: FloatArray) -> float:
        """How far the dual can rise in the box, at most: a sum of terms that are not negative."""
        up = np.zeros_like(a)
        np.multiply(self.ceilings, gradient, out=up, where=gradient > 0.0)
        return float(np.sum(up - a * gradient))

    def ascend(self, a: FloatArray, budget: Budget, *, evaluations: int, memory: int) -> FloatArray:
        """A better point by L-BFGS-B in units, or the given one where numbers overflow on the way."""
        units, ceilings = self.units, self.ceilings

        def negative(scaled: FloatArray) -> tuple[float, FloatArray]:
            budget.spend()
            here = self.at(units * scaled)
            return -here.value, -units * here.gradient

        found = minimize(
            negative,
            a / units,
            jac=True,
            method="L-BFGS-B",
            bounds=np.stack([np.zeros(len(units)), ceilings / units], axis=1),
            options={"maxfun": evaluations, "maxiter": evaluations, "maxcor": memory, "ftol": 1e-15, "gtol": 1e-12},
        )
        better: FloatArray = np.clip(units * found.x, 0.0, ceilings)
        return better if np.isfinite(better).all() else a

    def newton(self, a: FloatArray, budget: Budget) -> Iterator[tuple[FloatArray, E]]:
        """Iterates of the proximal point method, each center found by projected semismooth Newton steps.

        Optimal multipliers are not unique in general, and the Hessian singular; the proximal term makes it regular.
        """
        here, weight = self.at(a), PROXIMAL
        yield a, here
        for _ in range(CENTERS):
            center, before = a, self.gap(a, here.gradient)
            for _ in range(NEWTON):
                new = self._newton_step(a, here, center, weight, budget)
                if new is None:
                    break
                moved = float(np.linalg.norm((new[0] - a) / self.units))
                a, here = new
                yield a, here
                if moved <= 1e-3 * float(np.linalg.norm((a - center) / self.units)):
                    break
            weight = max(LEAST_PROXIMAL, weight * (0.1 if self.gap(a, here.gradient) < 0.5 * before else 0.3))

    def _newton_step(
        self, a: FloatArray, here: E, center: FloatArray, weight: float, budget: Budget
    ) -> tuple[FloatArray, E] | None:
        """One projected Newton step on ``g(a) - weight / 2 ||a - center||^2``, in units; None: no ascent."""
        unit, ceiling = self.units, self.ceilings
        gradient = unit * here.gradient - weight * (a - center) / unit
        # Near-active multipliers are fixed at their bound, so that projection does not distort the Newton step
        # (Bertsekas 1982).
        ascent = np.clip(a / unit + gradient, 0.0, ceiling / unit) - a / unit
        size = float((np.where(np.isfinite(ceiling), ceiling, a) / unit).max())
        near = min(NEAR * size, float(np.linalg.norm(ascent))) * unit
        down, up = (a <= np.minimum(near, 0.5 * ceiling)) & (gradient <= 0.0), (a >= ceiling - near) & (gradient >= 0.0)
        free = np.flatnonzero(~(down | up))
        direction = np.where(down, -a, 0.0)
        direction[up] = ceiling[up] - a[up]
        if len(free):
            d, positive = len(here.values), int(np.count_nonzero(here.values > 0.0))
            entries = positive * (2 * d - positive + 1) // 2  # of the projection's derivative that are not 0
            if min(len(free), entries) > MAX_EQUATIONS or len(free) * entries > MAX_ENTRIES:
                return None
            F = self.curvature_root(here, free)
            if not np.isfinite(np.sum(F * F) + np.sum(gradient)):  # products of such data overflow
                return None
            direction[free] = unit[free] * _damped(F, weight, gradient[free])
        rounding = ROUNDING * (abs(here.value) + float(a.sum()))
        value = here.value - 0.5 * weight * float(np.sum(((a - center) / unit) ** 2))
        for trial in range(LENGTHS):
            new = np.clip(a + SHORTER**trial * direction, 0.0, ceiling)
            promised = float(gradient @ ((new - a) / unit))
            if promised <= 0.0:
                continue
            budget.spend()
            there = self.at(new)
            gained = there.value - 0.5 * weight * float(np.sum(((new - center) / unit) ** 2)) - value
            if gained >= ARMIJO * promised - rounding:
                return new, there
        return None


def _damped(F: FloatArray, weight: float, right: FloatArray) -> FloatArray:
    """Solve ``(F F^T + weight I) x = right`` on the smaller side of F."""
    rows, columns = F.shape
    if rows <= columns:
        return np.asarray(scipy.linalg.solve(F @ F.T + weight * np.eye(rows), right, assume_a="pos"))
    inner = scipy.linalg.solve(F.T @ F + weight * np.eye(columns), F.T @ right, assume_a="pos")
    return np.asarray(right - F @ inner) / weight
