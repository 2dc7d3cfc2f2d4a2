"""A Frobenius term: the metric should be near a given one, entry by entry."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from types import ModuleType
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sdpmetric.core import validation
from sdpmetric.core.proof import Part
from sdpmetric.engine.cached import cached
from sdpmetric.linalg import psd
from sdpmetric.linalg.rigorous import TINY, above, below, gamma, product_above, squares_above, sum_below
from sdpmetric.losses import Expression
from sdpmetric.sums.terms.base import Regularizer

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Frobenius(Regularizer):
    """``1/2 ||M - M0||_F^2``, as in POLA [SSN2004] and Schultz and Joachims [SJ2003]; the optimum is unique.

    It depends on the coordinates: scale the features first.

    Parameters
    ----------
    to : (d, d) array, optional
        Symmetric ``M0``; default 0.
    weight : float, default 1
    """

    to: ArrayLike | None = None

    name: ClassVar[str] = "frobenius"

    def bind(self, X: NDArray[np.floating]) -> Self:
        """Check M0 against data."""
        d = X.shape[1]
        if self.to is None:
            return replace(self, to=np.zeros((d, d)))
        M0 = validation.check_matrix(f"to= of {self.name}", self.to, (d, d))
        if np.abs(M0 - M0.T).max() > 1e-9 * np.abs(M0).max():
            raise ValueError(f"to= of {self.name} must be symmetric.")
        validation.check_entries(f"to= of {self.name}", M0)
        return replace(self, to=psd.symmetrize(M0))

    def describe(self) -> str:
        """Say in a few words what the term is."""
        return "half the squared Frobenius norm" + (" of the difference to a given matrix" if self.target.any() else "")

    @cached
    def target(self) -> FloatArray:
        """``M0``."""
        return np.asarray(self.to, dtype=np.float64)

    @property
    def zero(self) -> FloatArray:
        """``M0``."""
        return self.target

    @property
    def over_weights(self) -> tuple[float, FloatArray, float, float]:
        """``weight / 2 (w_j^2 - 2 M0_jj w_j)``, and half the square of M0."""
        return self.weight, -self.weight * np.diag(self.target), 0.0, 0.5 * self.weight * float(np.sum(self.target**2))

    def least_over_weights(self, slack: FloatArray) -> float:
        """``weight / 2 ||M0||_F^2 - sum_j [weight M0_jj - s_j]_+^2 / (2 weight)``, rounded downward."""
        with np.errstate(over="ignore"):
            inner = np.nextafter(np.nextafter(self.weight * np.diag(self.target), np.inf) - slack, np.inf)
            lost = product_above(0.5, squares_above(np.maximum(inner, 0.0)), above(1.0 / self.weight))
            size = below(0.5 * self.weight * float(np.sum(self.target**2)), self.target.size + 4)
        return sum_below(np.array([size, -lost])) if math.isfinite(size) and lost < math.inf else -math.inf

    def smallest_cost(self, distance: float, trace: float) -> float:
        """See `Term.smallest_cost`: the value at the zero metric, or at a metric of that trace if M0 is zero."""
        squares = float(np.sum(self.target**2)) if self.target.any() else trace * trace
        return 0.5 * self.weight * squares

    def value(self, components: FloatArray) -> float:
        """``weight / 2 ||M - M0||_F^2``."""
        return 0.5 * self.weight * float(np.sum((components.T @ components - self.target) ** 2))

    def highest(self, components: FloatArray, errors: FloatArray | None = None) -> float:
        """See `Regularizer.highest`."""
        size = np.abs(components).T @ np.abs(components) + np.abs(self.target)
        entries = np.abs(components.T @ components - self.target) + gamma(len(components) + 6) * size
        if errors is not None:
            entries += (1.0 + gamma(len(components) + 6)) * (2.0 * np.abs(components) + errors).T @ errors
        lost = len(components) * TINY if components.any() else 0.0  # underflow of products
        return above(product_above(0.5, self.weight, squares_above(entries + lost)), 4)

    def highest_near(self, metric: FloatArray, components: FloatArray, off: FloatArray) -> float:
        """See `Regularizer.highest_near`."""
        given = above(product_above(0.5, self.weight, squares_above(metric - self.target)), 8)
        return max(given, self.highest(components))

    def gradient(self, components: FloatArray) -> FloatArray:
        """``weight (M - M0)``."""
        return np.asarray(self.weight * (components.T @ components - self.target))

    def conjugate(self, U: FloatArray) -> float:
        """``||U||_F^2 / (2 weight) + <U, M0>``."""
        square, inner = float(np.sum(U * U)), U * self.target
        value = 0.5 * square / self.weight + float(np.sum(inner))
        return value + above(float(0.5 * square / self.weight + np.abs(inner).sum()), U.size) * (U.size + 4) * 2.0**-52

    def part(self, a: FloatArray) -> Part:
        """See `Term.part`."""
        return Part({"term": self.name, "weight": self.weight}, {"slope": a, "to": self.target})

    def expression(self, M: Expression, cp: ModuleType) -> Expression:
        """``weight / 2 ||M - M0||_F^2``."""
        found: Expression = 0.5 * self.weight * cp.sum_squares(M - self.target)
        return found
