"""What a point costs in ITML and what multipliers prove, rounded outwards."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from sdpmetric.linalg.distances import adjoint
from sdpmetric.linalg.rigorous import Images, LogDetPrior, U, above, log_bounds, sum_above, sum_below

if TYPE_CHECKING:
    from sdpmetric.problems.itml import ITMLProblem

FloatArray = NDArray[np.float64]

# Near a pole of the dual nothing is proven: multiples are then made shorter by these shares.
SHORTER = (1e-9, 1e-6, 1e-3)
# Distances over their bounds, and singular values, are taken as at least this where a solver looks at them.
SMALLEST = 1e-100


@dataclass(frozen=True, eq=False)
class ITMLBounds:
    """Bounds of a statement's objective and dual values.

    Attributes
    ----------
    problem : ITMLProblem
    """

    problem: ITMLProblem

    @cached_property
    def _prior(self) -> LogDetPrior:
        return LogDetPrior.of(self.problem.prior, self.problem.root)

    @cached_property
    def _power(self) -> int:
        """Distances are taken times ``4^power`` where those of the bounds could underflow or overflow."""
        power = -int(np.frexp(self.problem.bounds.max(initial=0.0) or 1.0)[1]) // 2
        return power if abs(power) > 100 else 0

    def highest(self, components: FloatArray) -> float:
        """A float not below the objective of exact components."""
        low, high = Images.of(self.problem.X, self.problem.centered, np.ldexp(components.T, self._power)).distances(
            *self.problem.ends
        )
        bounds = np.ldexp(self.problem.bounds, 2 * self._power)
        least, most = low / bounds * (1.0 - 4.0 * U), high / bounds * (1.0 + 4.0 * U)
        ratios = np.where(self.problem.similar, np.maximum(most, 1.0), np.minimum(least, 1.0))
        if not (ratios > 0.0).all():
            return math.inf
        # r - 1 - log r falls before 1 and rises after it.
        slacks = np.nextafter(np.nextafter(ratios - 1.0, np.inf) - log_bounds(ratios)[0], np.inf)
        slack = sum_above(self.problem.gammas * np.maximum(0.0, slacks))
        return sum_above(np.array([self._prior.divergence(components), above(slack, 4)]))

    def _lowest(self, a: FloatArray, P: FloatArray) -> float:
        """A float not above the dual value of multipliers; P makes ``P^T (A0^-1 + sum s a v v^T) P`` the identity."""
        signed = self.problem.signs * a
        images = Images.of(self.problem.X, self.problem.centered, np.ldexp(P, self._power))
        form = images.form(*self.problem.ends, np.ldexp(signed, -2 * self._power))
        shares = a * self.problem.bounds / self.problem.gammas
        rest = np.where(self.problem.similar, 1.0 - shares * (1.0 + 4.0 * U), 1.0 + shares * (1.0 - 4.0 * U))
        rest = np.where(a > 0.0, rest * (1.0 - 2.0 * U), 1.0)
        volume = self._prior.log_det(P, form)
        if not ((rest > 0.0).all() and math.isfinite(volume)):
            return -math.inf
        logs = self.problem.gammas * log_bounds(rest)[0]
        return sum_below(np.concatenate([[volume], logs - 4.0 * U * np.abs(logs)]))

    def lower_bound(self, a: FloatArray) -> tuple[float, float]:
        """The largest dual value along the multiples of given multipliers, rounded downwards, and the multiple.

        Along them the dual is a sum of logarithms, concave, and 0 at 0.
        """
        signed = self.problem.signs * a
        eigenvalues, vectors = np.linalg.eigh(adjoint(self.problem.points, *self.problem.ends, signed))
        slopes = np.concatenate([eigenvalues, -signed * self.problem.bounds / self.problem.gammas])
        weights = np.concatenate([np.ones(len(eigenvalues)), self.problem.gammas])

        def slope(multiple: float) -> float:
            return float(np.sum(weights * slopes / (1.0 + multiple * slopes)))

        if not np.isfinite(slopes).all() or slope(0.0) <= 0.0:
            return 0.0, 0.0
        lowest = float(slopes.min())
        # To the left of the pole the derivative falls from a positive value to minus infinity; without one, to 0.
        end = (1.0 - 1e-12) / -lowest if lowest < 0.0 else 1e6
        best = end if slope(end) >= 0.0 else float(brentq(slope, 0.0, end, xtol=1e-300, rtol=1e-14))
        for multiple in (best, *(best * (1.0 - less) for less in SHORTER)):
            P = self.problem.root @ (vectors / np.sqrt(np.maximum(1.0 + multiple * eigenvalues, SMALLEST)))
            bound = self._lowest(multiple * a, P)
            if bound > 0.0:
                return bound, multiple
        return 0.0, 0.0
