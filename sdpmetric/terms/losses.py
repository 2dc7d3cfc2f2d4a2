"""Losses of one number, the excess u of a constraint ``u <= 0``: value, smoothing, conjugate and CVXPY form of each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr, expit, logit

from sdpmetric.core.certificate import Rigor
from sdpmetric.linalg.rigorous import all_above, all_below, exp_bounds, log1p_bounds, log_bounds
from sdpmetric.terms.base import Expression

FloatArray = NDArray[np.float64]

# Losses that say nothing else may be off by so much relative to value, argument and 1; smaller squares may underflow.
ACCURACY, SMALL = 2e-15, 1e-290


class ScalarLoss(ABC):
    """A convex function l of one number.

    Attributes
    ----------
    name : str
        Class attribute.
    kinked : bool
        Class attribute: whether the slopes jump, so that smoothing is needed.
    hard : bool
        Class attribute: whether the loss is infinite for ``u > 0``.
    steep : bool
        Class attribute: whether the conjugate's slopes are infinite at the ends of its domain.
    boxed : bool
        Class attribute: whether `conjugate_slopes` are known, as solvers on the dual need them.
    roundings : int or None
        Class attribute: how many relative roundings computed values and conjugates are off by at most. None, the
        default: they are taken to be accurate to 2e-15 of themselves, of the argument and of 1.
    """

    name: ClassVar[str]
    kinked: ClassVar[bool] = False
    hard: ClassVar[bool] = False
    steep: ClassVar[bool] = False
    boxed: ClassVar[bool] = True
    roundings: ClassVar[int | None] = None

    @property
    def rigor(self) -> Rigor:
        """The grade is "rounding" without `roundings` or `values_above` of its own, else "float"."""
        guessed = self.roundings is None and type(self).values_above is ScalarLoss.values_above
        return "rounding" if guessed else "float"

    @property
    def lowest(self) -> float | FloatArray:
        """Slopes are at least this, a number or (m,)."""
        return 0.0

    @property
    def highest(self) -> float | FloatArray:
        """Slopes are at most this, a number or (m,)."""
        return np.inf

    @abstractmethod
    def values(self, u: FloatArray) -> FloatArray:
        """``l(u)``."""

    def values_above(self, u: FloatArray) -> FloatArray:
        """Floats not below the exact ``l(u)`` of floats."""
        return self._above(self.values(u), u, self.values(np.sign(u)) > 0.0)

    def conjugates_above(self, s: FloatArray) -> FloatArray:
        """Floats not below the exact ``l*(s)`` of floats."""
        return self._above(self.conjugates(s), s, s != 0.0)

    def _above(self, found: FloatArray, u: FloatArray, costs: NDArray[np.bool_]) -> FloatArray:
        if self.roundings is None:
            return np.asarray(found + ACCURACY * (np.abs(found) + np.abs(u) + 1.0))
        return np.where(costs, np.maximum(all_above(found, self.roundings), SMALL), found) if self.roundings else found

    @abstractmethod
    def slopes(self, u: FloatArray, width: float) -> FloatArray:
        """The s that attains the largest ``s u - l*(s) - width / 2 s^2``, ``l'(u)`` where l has no kink."""

    @abstractmethod
    def conjugates(self, s: FloatArray) -> FloatArray:
        """``l*(s)`` for slopes between 0 and `highest`."""

    def conjugate_slopes(self, s: FloatArray) -> FloatArray:
        """The u at which the slope is s; by default 0, for losses that are linear on either side of 0."""
        return np.zeros_like(s)

    def slope_rates(self, u: FloatArray) -> FloatArray:
        """The second derivative of a steep loss."""
        raise NotImplementedError(f"{self.name} is not steep")

    @abstractmethod
    def expression(self, u: Expression, cp: ModuleType) -> tuple[Expression | None, list[object]]:
        """The elementwise loss of a CVXPY vector, None for 0, and constraints that belong to it."""


class Hinge(ScalarLoss):
    """``[u]_+``, conjugate 0 on [0, 1]."""

    name = "hinge"
    roundings = 0
    kinked = True

    @property
    def highest(self) -> float:
        """1."""
        return 1.0

    def values(self, u: FloatArray) -> FloatArray:
        """``[u]_+``."""
        return np.maximum(u, 0.0)

    def slopes(self, u: FloatArray, width: float) -> FloatArray:
        """``u / width`` between 0 and 1."""
        return np.clip(u / width, 0.0, 1.0)

    def conjugates(self, s: FloatArray) -> FloatArray:
        """0."""
        return np.zeros_like(s)

    def expression(self, u: Expression, cp: ModuleType) -> tuple[Expression | None, list[object]]:
        """``[u]_+``."""
        return cp.pos(u), []


class Linear(ScalarLoss):
    """``u``, with the one slope 1 and conjugate 0."""

    name = "linear"
    roundings = 0
    lowest = 1.0
    highest = 1.0

    def values(self, u: FloatArray) -> FloatArray:
        """U itself."""
        return u

    def slopes(self, u: FloatArray, width: float) -> FloatArray:
        """1."""
        return np.ones_like(u)

    def conjugates(self, s: FloatArray) -> FloatArray:
        """0."""
        return np.zeros_like(s)

    def expression(self, u: Expression, cp: ModuleType) -> tuple[Expression | None, list[object]]:
        """U itself."""
        return u, []


LINEAR = Linear()


class SquaredHinge(ScalarLoss):
    """``[u]_+^2``, conjugate ``s^2 / 4`` for ``s >= 0``."""

    name = "squared hinge"
    roundings = 3

    def values(self, u: FloatArray) -> FloatArray:
        """``[u]_+^2``."""
        return np.asarray(np.maximum(u, 0.0) ** 2)

    def slopes(self, u: FloatArray, width: float) -> FloatArray:
        """``2 [u]_+``; there is no kink."""
        return 2.0 * np.maximum(u, 0.0)

    def conjugates(self, s: FloatArray) -> FloatArray:
        """``s^2 / 4``."""
        return 0.25 * s * s

    def conjugate_slopes(self, s: FloatArray) -> FloatArray:
        """``s / 2``."""
        return 0.5 * s

    def expression(self, u: Expression, cp: ModuleType) -> tuple[Expression | None, list[object]]:
        """``[u]_+^2``."""
        return cp.square(cp.pos(u)), []


class SmoothHinge(ScalarLoss):
    """``u^2 / 2`` between 0 and 1 and ``u - 1/2`` above, conjugate ``s^2 / 2`` on [0, 1]."""

    name = "smooth hinge"
    roundings = 8

    @property
    def highest(self) -> float:
        """1."""
        return 1.0

    def values(self, u: FloatArray) -> FloatArray:
        """A half square, then linear."""
        s = np.clip(u, 0.0, 1.0)
        return np.asarray(s * u - 0.5 * s * s)

    def slopes(self, u: FloatArray, width: float) -> FloatArray:
        """U between 0 and 1; there is no kink."""
        return np.clip(u, 0.0, 1.0)

    def conjugates(self, s: FloatArray) -> FloatArray:
        """``s^2 / 2``."""
        return 0.5 * s * s

    def conjugate_slopes(self, s: FloatArray) -> FloatArray:
        """S itself."""
        return s

    def expression(self, u: Expression, cp: ModuleType) -> tuple[Expression | None, list[object]]:
        """Half of Huber's function of the positive part."""
        return 0.5 * cp.huber(cp.pos(u), 1), []


class Logistic(ScalarLoss):
    """``log(1 + exp u)``, conjugate ``s log s + (1 - s) log(1 - s)`` on [0, 1]."""

    name = "logistic"
    steep = True

    @property
    def highest(self) -> float:
        """1."""
        return 1.0

    def values(self, u: FloatArray) -> FloatArray:
        """``log(1 + exp u)``."""
        return np.logaddexp(0.0, u)

    def values_above(self, u: FloatArray) -> FloatArray:
        """``[u]_+ + log(1 + exp -|u|)`` with all roundings."""
        rest = log1p_bounds(exp_bounds(-np.abs(u))[1])[1]
        return np.where(u > 0.0, np.nextafter(np.maximum(u, 0.0) + rest, np.inf), rest)

    def slopes(self, u: FloatArray, width: float) -> FloatArray:
        """``1 / (1 + exp(-u))``; there is no kink."""
        return np.asarray(expit(u))

    def conjugates(self, s: FloatArray) -> FloatArray:
        """Minus the entropy of s and 1 - s."""
        return np.asarray(-entr(s) - entr(1.0 - s))

    def conjugates_above(self, s: FloatArray) -> FloatArray:
        """Minus the entropy, each part of it rounded downwards."""
        inner, rest = np.where(s > 0.0, s, 1.0), np.where(s < 1.0, s, 0.0)
        first = all_below(s * -np.minimum(log_bounds(inner)[1], 0.0))
        return -all_below(first + all_below((1.0 - rest) * -np.minimum(log1p_bounds(-rest)[1], 0.0), 2))

    def conjugate_slopes(self, s: FloatArray) -> FloatArray:
        """``log(s / (1 - s))``."""
        return np.asarray(logit(s))

    def slope_rates(self, u: FloatArray) -> FloatArray:
        """``l''(u)``."""
        return np.asarray(expit(u) * expit(-u))

    def expression(self, u: Expression, cp: ModuleType) -> tuple[Expression | None, list[object]]:
        """``log(1 + exp u)``."""
        return cp.logistic(u), []


class Hard(ScalarLoss):
    """0 where ``u <= 0``, infinite elsewhere; conjugate 0 for ``s >= 0``."""

    name = "hard"
    roundings = 0
    kinked = True
    hard = True

    def values(self, u: FloatArray) -> FloatArray:
        """0; `violation` says what is violated."""
        return np.zeros_like(u)

    def slopes(self, u: FloatArray, width: float) -> FloatArray:
        """``[u]_+ / width``, those of a quadratic penalty."""
        return np.asarray(np.maximum(u, 0.0) / width)

    def conjugates(self, s: FloatArray) -> FloatArray:
        """0."""
        return np.zeros_like(s)

    def expression(self, u: Expression, cp: ModuleType) -> tuple[Expression | None, list[object]]:
        """The constraint ``u <= 0``."""
        return None, [u <= 0.0]


@dataclass(frozen=True, eq=False)
class HalfSquare(ScalarLoss):
    """``u^2 / 2``, on one side or both; conjugate ``s^2 / 2`` for slopes of the signs allowed.

    Attributes
    ----------
    sides : (m,) array
        1: only ``u > 0`` costs; -1: only ``u < 0``; 0: both.
    """

    sides: FloatArray

    name = "half square"
    roundings = 3

    @property
    def lowest(self) -> FloatArray:
        """0 where only ``u > 0`` costs."""
        return np.where(self.sides > 0, 0.0, -np.inf)

    @property
    def highest(self) -> FloatArray:
        """0 where only ``u < 0`` costs."""
        return np.where(self.sides < 0, 0.0, np.inf)

    def values(self, u: FloatArray) -> FloatArray:
        """Half the square of the part that costs."""
        return np.asarray(0.5 * self.slopes(u, 0.0) ** 2)

    def slopes(self, u: FloatArray, width: float) -> FloatArray:
        """The part of u that costs; there is no kink."""
        return np.clip(u, self.lowest, self.highest)

    def conjugates(self, s: FloatArray) -> FloatArray:
        """``s^2 / 2``."""
        return 0.5 * s * s

    def conjugate_slopes(self, s: FloatArray) -> FloatArray:
        """S itself."""
        return s

    def expression(self, u: Expression, cp: ModuleType) -> tuple[Expression | None, list[object]]:
        """Half the square of the part that costs."""
        above, below = (self.sides >= 0).astype(float), (self.sides <= 0).astype(float)
        squares = cp.multiply(above, cp.square(cp.pos(u))) + cp.multiply(below, cp.square(cp.neg(u)))
        return 0.5 * squares, []


LOSSES: dict[str, ScalarLoss] = {
    "hinge": Hinge(),
    "squared_hinge": SquaredHinge(),
    "smooth_hinge": SmoothHinge(),
    "logistic": Logistic(),
}


def find_loss(loss: str, of: str) -> ScalarLoss:
    """A loss by name."""
    if loss not in LOSSES:
        raise ValueError(f"loss of {of} must be one of {', '.join(map(repr, LOSSES))}, got {loss!r}.")
    return LOSSES[loss]
