"""Constraints whose multipliers have a meaning, what their violation costs, and what a duality gap proves about them.

See ``docs/duals.md`` for the inequalities.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray
from sdpmetric.core.multipliers import Multipliers

IndexArray = NDArray[np.integer]


@dataclass(frozen=True, eq=False)
class Loss(ABC):
    """What violated constraints cost: convex functions ``phi_t(u_t)`` of their excess, 0 for ``u_t <= 0``."""

    weights: FloatArray  # (p,): of the constraints

    @property
    def ceilings(self) -> FloatArray:
        """The largest multipliers, (p,); infinite where there is no upper bound."""
        return np.full(len(self.weights), np.inf)

    @abstractmethod
    def values(self, excess: FloatArray) -> FloatArray:
        """``phi_t(u_t)``, (p,)."""

    @abstractmethod
    def slopes(self, excess: FloatArray) -> FloatArray:
        """Slopes of phi, (p,): the multipliers that belong to the excess."""

    @abstractmethod
    def _near_slopes(self, excess: FloatArray, gap: float) -> tuple[FloatArray, FloatArray]:
        """An interval that holds all multipliers with ``phi(u) + phi*(a) - a u <= gap``, as far as `slopes` say."""

    def intervals(self, excess: FloatArray, gap: float) -> tuple[FloatArray, FloatArray]:
        """Where every optimal multiplier lies if a point with this excess is within a gap of the optimum.

        The gap is a sum of terms that are not negative, one of them ``phi(u) + phi*(a) - a u`` for each constraint; as
        ``phi* >= 0``, ``a (-u) <= gap`` where the constraint holds.
        """
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            lower, upper = self._near_slopes(excess, gap)
            holding = np.where(excess < 0, gap / np.maximum(-excess, 0.0), np.inf)
        return np.fmax(lower, 0.0), np.fmin(upper, holding)


class Hinge(Loss):
    """``c [u]_+``; an infinite weight c makes a hard constraint."""

    @property
    def ceilings(self) -> FloatArray:
        """The weights."""
        return self.weights

    def values(self, excess: FloatArray) -> FloatArray:
        """``c [u]_+``."""
        return np.multiply(self.weights, excess, out=np.zeros(len(excess)), where=excess > 0)

    def slopes(self, excess: FloatArray) -> FloatArray:
        """C where the constraint is violated, else 0."""
        return np.where(excess > 0, self.weights, 0.0)

    def _near_slopes(self, excess: FloatArray, gap: float) -> tuple[FloatArray, FloatArray]:
        """``(c - a) [u]_+ <= gap``."""
        return np.where(excess > 0, self.weights - gap / np.maximum(excess, 0.0), 0.0), self.weights


class SquaredHinge(Loss):
    """``c [u]_+^2``."""

    def values(self, excess: FloatArray) -> FloatArray:
        """``c [u]_+^2``."""
        return np.asarray(self.weights * np.maximum(excess, 0.0) ** 2)

    def slopes(self, excess: FloatArray) -> FloatArray:
        """``2 c [u]_+``."""
        return 2 * self.weights * np.maximum(excess, 0.0)

    def _near_slopes(self, excess: FloatArray, gap: float) -> tuple[FloatArray, FloatArray]:
        """``(a - 2 c [u]_+)^2 <= 4 c gap``."""
        middle, radius = self.slopes(excess), 2 * np.sqrt(self.weights * gap)
        return middle - radius, middle + radius


@dataclass(frozen=True, eq=False)
class LogRatio(Loss):
    """``c (r - log r - 1)`` of the ratio ``r = 1 + s [u]_+ / xi`` of a slack to its bound, as in ITML [DKJSD2007]."""

    bounds: FloatArray  # xi, positive, (p,)
    signs: FloatArray  # s, (p,): 1 where the distance is to be at most the bound, -1 where at least

    def _ratios(self, excess: FloatArray) -> FloatArray:
        return 1.0 + self.signs * np.maximum(excess, 0.0) / self.bounds

    def values(self, excess: FloatArray) -> FloatArray:
        """``c (r - log r - 1)``."""
        with np.errstate(divide="ignore"):
            more = self._ratios(excess) - 1.0
            return np.asarray(self.weights * (more - np.log1p(more)))

    def slopes(self, excess: FloatArray) -> FloatArray:
        """``c |1 - 1 / r| / xi``."""
        with np.errstate(divide="ignore"):
            return np.asarray(self.weights * np.abs(1.0 - 1.0 / self._ratios(excess)) / self.bounds)

    def _near_slopes(self, excess: FloatArray, gap: float) -> tuple[FloatArray, FloatArray]:
        """``y - log y - 1 <= gap / c`` for ``y = (1 - s a xi / c) r``, which is 1 at the slope.

        For ``e = gap / c`` such a y is between ``max(1 - sqrt(2 e), exp(-1 - e))`` and ``1 + sqrt(2 e) + e``.
        """
        share, ratios = gap / self.weights, self._ratios(excess)
        least, most = np.fmax(1 - np.sqrt(2 * share), np.exp(-1 - share)), 1 + np.sqrt(2 * share) + share
        ends = [self.signs * self.weights * (1 - y / ratios) / self.bounds for y in (least, most)]
        return np.fmin(*ends), np.fmax(*ends)


@dataclass(frozen=True, eq=False, kw_only=True)
class Constraints:
    """Constraints of a statement at a point, with feasible multipliers: what `explain` sets out.

    Every violated constraint is listed, and every one with a positive multiplier.

    Attributes
    ----------
    dual : Dual or (p,) array
        The feasible multipliers as the statement's `certify` takes them.
    roles : mapping of str to (m,) int array
        Row numbers of X by role, for example ``anchor``, ``target`` and ``impostor``, or ``first`` and ``second``.
    columns : mapping of str to (m,) array
        Further attributes of the constraints, for example ``similar``.
    multipliers : (m,) array
        ``a_t >= 0``, derivatives of the optimum by a tightening of the single constraints.
    excess : (m,) array
        ``u_t``, in squared distances: by how much the point violates the constraint, negative where the constraint
        holds strictly.
    loss : Loss
        What that costs.
    stretch : sequence of ((m,) int array, (m,) int array, (m,) array)
        First rows, second rows and ``+D`` or ``-D``, the squared distances that each constraint asks to be larger or
        smaller.
    weights : (m,) array or None
        Factors of the single losses in the objective; None: 1.
    sums : mapping of str to float
        The sums that the objective is made of, by name.
    slopes : mapping of str to float
        Derivatives of the objective at the point by the statement's weights (`Problem.weights`).
    margin : bool
        Whether the constraints ask for a margin of 1, by which ``sum_t a_t`` is the derivative of the optimum.
    """

    dual: Multipliers
    roles: Mapping[str, IndexArray]
    columns: Mapping[str, NDArray[np.generic]] = field(default_factory=dict)
    multipliers: FloatArray
    excess: FloatArray
    loss: Loss
    stretch: Sequence[tuple[IndexArray, IndexArray, FloatArray]]
    weights: FloatArray | None = None
    sums: Mapping[str, float] = field(default_factory=dict)
    slopes: Mapping[str, float] = field(default_factory=dict)
    margin: bool = False
