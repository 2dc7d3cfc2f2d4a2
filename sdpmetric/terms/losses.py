"""Losses of one number, the excess u of a constraint ``u <= 0``: value, smoothing, conjugate and CVXPY form of each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import ModuleType
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr, expit

from sdpmetric.terms.base import Expression

FloatArray = NDArray[np.float64]


class ScalarLoss(ABC):
    """A convex, nondecreasing function l of one number that vanishes far below 0."""

    name: ClassVar[str]
    highest: ClassVar[float] = np.inf  # of the slopes
    hard: ClassVar[bool] = False

    @abstractmethod
    def values(self, u: FloatArray) -> FloatArray:
        """``l(u)``."""

    @abstractmethod
    def slopes(self, u: FloatArray, width: float) -> FloatArray:
        """The s that attains the largest ``s u - l*(s) - width / 2 s^2``, ``l'(u)`` where l has no kink."""

    @abstractmethod
    def conjugates(self, s: FloatArray) -> FloatArray:
        """``l*(s)`` for slopes between 0 and `highest`."""

    @abstractmethod
    def expression(self, u: Expression, cp: ModuleType) -> Expression:
        """The elementwise loss of a CVXPY vector."""


class Hinge(ScalarLoss):
    """``[u]_+``, conjugate 0 on [0, 1]."""

    name = "hinge"
    highest = 1.0

    def values(self, u: FloatArray) -> FloatArray:
        """``[u]_+``."""
        return np.maximum(u, 0.0)

    def slopes(self, u: FloatArray, width: float) -> FloatArray:
        """``u / width`` between 0 and 1."""
        return np.clip(u / width, 0.0, 1.0)

    def conjugates(self, s: FloatArray) -> FloatArray:
        """0."""
        return np.zeros_like(s)

    def expression(self, u: Expression, cp: ModuleType) -> Expression:
        """``[u]_+``."""
        found: Expression = cp.pos(u)
        return found


class SquaredHinge(ScalarLoss):
    """``[u]_+^2``, conjugate ``s^2 / 4`` for ``s >= 0``."""

    name = "squared hinge"

    def values(self, u: FloatArray) -> FloatArray:
        """``[u]_+^2``."""
        return np.asarray(np.maximum(u, 0.0) ** 2)

    def slopes(self, u: FloatArray, width: float) -> FloatArray:
        """``2 [u]_+``; there is no kink."""
        return 2.0 * np.maximum(u, 0.0)

    def conjugates(self, s: FloatArray) -> FloatArray:
        """``s^2 / 4``."""
        return 0.25 * s * s

    def expression(self, u: Expression, cp: ModuleType) -> Expression:
        """``[u]_+^2``."""
        found: Expression = cp.square(cp.pos(u))
        return found


class SmoothHinge(ScalarLoss):
    """``u^2 / 2`` between 0 and 1 and ``u - 1/2`` above, conjugate ``s^2 / 2`` on [0, 1]."""

    name = "smooth hinge"
    highest = 1.0

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

    def expression(self, u: Expression, cp: ModuleType) -> Expression:
        """Half of Huber's function of the positive part."""
        found: Expression = 0.5 * cp.huber(cp.pos(u), 1)
        return found


class Logistic(ScalarLoss):
    """``log(1 + exp u)``, conjugate ``s log s + (1 - s) log(1 - s)`` on [0, 1]."""

    name = "logistic"
    highest = 1.0

    def values(self, u: FloatArray) -> FloatArray:
        """``log(1 + exp u)``."""
        return np.logaddexp(0.0, u)

    def slopes(self, u: FloatArray, width: float) -> FloatArray:
        """``1 / (1 + exp(-u))``; there is no kink."""
        return np.asarray(expit(u))

    def conjugates(self, s: FloatArray) -> FloatArray:
        """Minus the entropy of s and 1 - s."""
        return np.asarray(-entr(s) - entr(1.0 - s))

    def expression(self, u: Expression, cp: ModuleType) -> Expression:
        """``log(1 + exp u)``."""
        found: Expression = cp.logistic(u)
        return found


class Hard(ScalarLoss):
    """0 where ``u <= 0``, infinite elsewhere; conjugate 0 for ``s >= 0``."""

    name = "hard"
    hard = True

    def values(self, u: FloatArray) -> FloatArray:
        """0; what is violated is told apart by `violation`."""
        return np.zeros_like(u)

    def slopes(self, u: FloatArray, width: float) -> FloatArray:
        """``[u]_+ / width``, those of a quadratic penalty."""
        return np.asarray(np.maximum(u, 0.0) / width)

    def conjugates(self, s: FloatArray) -> FloatArray:
        """0."""
        return np.zeros_like(s)

    def expression(self, u: Expression, cp: ModuleType) -> Expression:
        """Nothing; the constraint is listed beside it."""
        raise NotImplementedError("a hard constraint has no expression")


LOSSES: dict[str, ScalarLoss] = {
    "hinge": Hinge(),
    "squared_hinge": SquaredHinge(),
    "smooth_hinge": SmoothHinge(),
    "logistic": Logistic(),
}


def find_loss(loss: str, of: str) -> ScalarLoss:
    """A loss by name.

    Raises
    ------
    ValueError
        If there is none of that name.
    """
    if loss not in LOSSES:
        raise ValueError(f"loss of {of} must be one of {', '.join(map(repr, LOSSES))}, got {loss!r}.")
    return LOSSES[loss]
