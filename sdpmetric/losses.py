"""Losses of one number, the excess u of a constraint ``u <= 0``: value, slope, conjugate, bounds and CVXPY of each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import entr, expit, logit

from sdpmetric.arrays import LARGEST_VALUE, FloatArray
from sdpmetric.linalg.rigorous.directed import Rigor, all_above, all_below, exp_bounds, log1p_bounds, log_bounds
from sdpmetric.lines import divided, number, times, total

# Slacks, as shares of their bounds, are clipped to this range for slopes.
SMALLEST_RATIO = 1e-100


class Expression(Protocol):
    """A CVXPY expression, as far as losses and terms look at it; they do not import CVXPY."""

    def __add__(self, operand: Expression | ArrayLike, /) -> Expression: ...
    def __sub__(self, operand: Expression | ArrayLike, /) -> Expression: ...
    def __rmul__(self, operand: float, /) -> Expression: ...
    def __neg__(self) -> Expression: ...
    def __rsub__(self, operand: float, /) -> Expression: ...
    def __le__(self, operand: float, /) -> object: ...
    def __getitem__(self, key: tuple[NDArray[np.int32], NDArray[np.int32]], /) -> Expression: ...


Program = tuple[Expression | None, list[object]]


class ScalarLoss(ABC):
    """A convex function l of one number; by default smooth, with slopes of at least 0 and no largest one.

    Attributes
    ----------
    name : str
        Class attribute.
    kinked : bool
        Class attribute: whether the slopes jump, so smoothing is needed.
    hard : bool
        Class attribute: whether the loss is infinite for ``u > 0``.
    steep : bool
        Class attribute: whether the conjugate's slopes are infinite at the ends of its domain.
    boxed : bool
        Class attribute: whether `conjugate_slopes` are known, as solvers on the dual need them.
    in_proof_files : bool
        Class attribute: whether `sdpmetric.check` knows the loss.
    curvature : float
        Class attribute: c if the conjugate is ``c s^2 / 2``; by default 0, for losses linear on either side of 0.
    form : str
        Class attribute: the loss in a printed program, ``{u}`` being its number and ``{v}`` that times -1.
    roundings : int or None
        Class attribute: how many relative roundings computed values and conjugates are off by at most. None, the
        default: they are taken to be accurate to 2e-15 of themselves, of the argument and of 1.
    """

    name: ClassVar[str]
    kinked: ClassVar[bool] = False
    hard: ClassVar[bool] = False
    steep: ClassVar[bool] = False
    boxed: ClassVar[bool] = True
    in_proof_files: ClassVar[bool] = False
    curvature: ClassVar[float] = 0.0
    form: ClassVar[str] = "l({u})"
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
        """Return ``l(u)``."""

    def values_above(self, u: FloatArray) -> FloatArray:
        """Return floats not below the exact ``l(u)`` of floats."""
        return self._above(self.values(u), u, self.values(np.sign(u)) > 0.0)

    def conjugates_above(self, s: FloatArray) -> FloatArray:
        """Return floats not below the exact ``l*(s)`` of floats."""
        return self._above(self.conjugates(s), s, s != 0.0)

    def is_in_proof_files(self, offset: FloatArray) -> bool:
        """Return whether `sdpmetric.check` knows the loss, for numbers with an offset."""
        return self.in_proof_files

    def dual_values_below(self, s: FloatArray, offset: FloatArray) -> FloatArray | None:
        """Return floats not above ``s c - l*(s)`` at offsets c that nearly cancel it, or None if they do not."""
        return None

    def _above(self, values: FloatArray, u: FloatArray, costs: NDArray[np.bool_]) -> FloatArray:
        if self.roundings is None:
            # Error of losses without `roundings`, relative to value, argument and 1.
            return np.asarray(values + 2e-15 * (np.abs(values) + np.abs(u) + 1.0))
        if not self.roundings:
            return values
        # Squares below this may have underflowed.
        return np.where(costs, np.maximum(all_above(values, self.roundings), 1e-290), values)

    @abstractmethod
    def slopes(self, u: FloatArray, width: float) -> FloatArray:
        """Return the s that attains the largest ``s u - l*(s) - width / 2 s^2``, ``l'(u)`` if l has no kink."""

    def conjugates(self, s: FloatArray) -> FloatArray:
        """Return ``l*(s)`` for slopes between `lowest` and `highest`."""
        return 0.5 * self.curvature * s * s if self.curvature else np.zeros_like(s)

    def conjugate_slopes(self, s: FloatArray) -> FloatArray:
        """Return the u with the slope s."""
        return self.curvature * s if self.curvature else np.zeros_like(s)

    def conjugate_curvatures(self, s: FloatArray) -> FloatArray:
        """Return ``l*''(s)``."""
        return np.full_like(s, self.curvature)

    @property
    def parameters(self) -> dict[str, FloatArray]:
        """The arrays that it depends on, (m,) each."""
        return {}

    def of_rows(self, rows: NDArray[np.integer]) -> ScalarLoss:
        """Return the loss of some of the numbers."""
        parameters = {name: values[rows] for name, values in self.parameters.items()}
        return type(self)(**parameters) if parameters else self

    def slope_interval(self, u: FloatArray, gap: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return an interval that holds all slopes s with ``l(u) + l*(s) - s u <= gap``; by default all slopes."""
        return np.broadcast_to(self.lowest, u.shape), np.broadcast_to(self.highest, u.shape)

    @abstractmethod
    def expression(self, u: Expression, cp: ModuleType) -> Program:
        """Return the elementwise loss of a CVXPY vector, None for 0, and constraints that belong to it."""

    def dual_expression(self, s: Expression, offset: FloatArray, cp: ModuleType) -> Expression:
        """Return ``s c - l*(s)`` of a CVXPY vector of slopes between `lowest` and `highest`, for offsets c."""
        if type(self).conjugates is not ScalarLoss.conjugates:
            raise TypeError(f"the loss {self.name!r} does not say its conjugate in CVXPY; define dual_expression.")
        value: Expression = cp.multiply(offset, s)
        return value - 0.5 * self.curvature * cp.square(s) if self.curvature else value

    def dual_text(self, a: str, weight: float, offset: float) -> str:
        """Return ``a c - w l*(a / w)`` in a printed program."""
        summands = [(offset, a), (-0.5 * self.curvature / weight, f"{a}^2")]
        return total(summand for summand in summands if summand[0])


class Hinge(ScalarLoss):
    """``[u]_+``, conjugate 0 on [0, 1]."""

    name = "hinge"
    form = "[{u}]_+"
    in_proof_files = True
    roundings = 0
    kinked = True
    highest = 1.0

    def values(self, u: FloatArray) -> FloatArray:
        return np.maximum(u, 0.0)

    def slopes(self, u: FloatArray, width: float) -> FloatArray:
        """Return ``u / width`` clipped to [0, 1]; for width 0, 1 if u is positive."""
        return np.clip(u / width, 0.0, 1.0) if width else (u > 0.0).astype(np.float64)

    def slope_interval(self, u: FloatArray, gap: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the slopes with ``(1 - s) [u]_+ <= gap``."""
        return np.where(u > 0.0, 1.0 - gap / np.maximum(u, 0.0), 0.0), np.ones_like(u)

    def expression(self, u: Expression, cp: ModuleType) -> Program:
        return cp.pos(u), []


class Linear(ScalarLoss):
    """``u``, with the one slope 1 and conjugate 0."""

    name = "linear"
    form = "{u}"
    in_proof_files = True
    roundings = 0
    lowest = 1.0
    highest = 1.0

    def values(self, u: FloatArray) -> FloatArray:
        return u

    def slopes(self, u: FloatArray, width: float) -> FloatArray:
        return np.ones_like(u)

    def expression(self, u: Expression, cp: ModuleType) -> Program:
        return u, []


class Absolute(ScalarLoss):
    """``|u|``, conjugate 0 on [-1, 1]."""

    name = "absolute value"
    form = "|{u}|"
    roundings = 0
    kinked = True
    boxed = False  # of entries of the metric
    lowest = -1.0
    highest = 1.0

    def values(self, u: FloatArray) -> FloatArray:
        return np.abs(u)

    def slopes(self, u: FloatArray, width: float) -> FloatArray:
        return np.clip(u / width, -1.0, 1.0)

    def expression(self, u: Expression, cp: ModuleType) -> Program:
        return cp.abs(u), []


class SquaredHinge(ScalarLoss):
    """``[u]_+^2``, conjugate ``s^2 / 4`` for ``s >= 0``."""

    name = "squared hinge"
    form = "[{u}]_+^2"
    in_proof_files = True
    curvature = 0.5
    roundings = 3

    def values(self, u: FloatArray) -> FloatArray:
        return np.asarray(np.maximum(u, 0.0) ** 2)

    def slopes(self, u: FloatArray, width: float) -> FloatArray:
        return 2.0 * np.maximum(u, 0.0)

    def slope_interval(self, u: FloatArray, gap: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the slopes with ``(s - 2 [u]_+)^2 <= 4 gap``."""
        center, radius = self.slopes(u, 0.0), 2.0 * np.sqrt(gap)
        return center - radius, center + radius

    def expression(self, u: Expression, cp: ModuleType) -> Program:
        return cp.square(cp.pos(u)), []


class Logistic(ScalarLoss):
    """``log(1 + exp u)``, conjugate ``s log s + (1 - s) log(1 - s)`` on [0, 1]."""

    name = "logistic"
    form = "log(1 + exp({u}))"
    in_proof_files = True
    steep = True
    highest = 1.0

    def values(self, u: FloatArray) -> FloatArray:
        return np.logaddexp(0.0, u)

    def values_above(self, u: FloatArray) -> FloatArray:
        """Return ``[u]_+ + log(1 + exp -|u|)`` with all roundings."""
        logs = log1p_bounds(exp_bounds(-np.abs(u))[1])[1]
        return np.where(u > 0.0, np.nextafter(np.maximum(u, 0.0) + logs, np.inf), logs)

    def slopes(self, u: FloatArray, width: float) -> FloatArray:
        return np.asarray(expit(u))

    def conjugates(self, s: FloatArray) -> FloatArray:
        return np.asarray(-entr(s) - entr(1.0 - s))

    def conjugates_above(self, s: FloatArray) -> FloatArray:
        """Return minus the entropy, each summand of it rounded downward."""
        positive, below_one = np.where(s > 0.0, s, 1.0), np.where(s < 1.0, s, 0.0)
        entropy = all_below(s * -np.minimum(log_bounds(positive)[1], 0.0))
        return -all_below(entropy + all_below((1.0 - below_one) * -np.minimum(log1p_bounds(-below_one)[1], 0.0), 2))

    def conjugate_slopes(self, s: FloatArray) -> FloatArray:
        return np.asarray(logit(s))

    def conjugate_curvatures(self, s: FloatArray) -> FloatArray:
        """Return ``1 / (s (1 - s))``, infinity at its poles."""
        with np.errstate(divide="ignore"):
            return np.asarray(1.0 / (s * (1.0 - s)))

    def expression(self, u: Expression, cp: ModuleType) -> Program:
        return cp.logistic(u), []

    def dual_expression(self, s: Expression, offset: FloatArray, cp: ModuleType) -> Expression:
        value: Expression = cp.multiply(offset, s) + cp.entr(s) + cp.entr(1.0 - s)
        return value

    def dual_text(self, a: str, weight: float, offset: float) -> str:
        s = divided(a, weight)
        return total([(offset, a), (-weight, f"({s} * log({s}) + (1 - {s}) * log(1 - {s}))")])


class Hard(ScalarLoss):
    """0 if ``u <= 0``, else infinite; conjugate 0 for ``s >= 0``."""

    name = "hard"
    in_proof_files = True
    roundings = 0
    kinked = True
    hard = True

    def values(self, u: FloatArray) -> FloatArray:
        return np.zeros_like(u)

    def slopes(self, u: FloatArray, width: float) -> FloatArray:
        """Return ``[u]_+ / width``, the slopes of a quadratic penalty."""
        return np.asarray(np.maximum(u, 0.0) / width)

    def expression(self, u: Expression, cp: ModuleType) -> Program:
        return None, [u <= 0.0]


class NegativeRoot(ScalarLoss):
    """``-sqrt(-u)`` of ``u <= 0``, minus a distance, with conjugate ``1 / (4 s)`` for ``s > 0``."""

    name = "minus a root"
    form = "-sqrt({v})"
    in_proof_files = True
    boxed = False

    def values(self, u: FloatArray) -> FloatArray:
        return -np.sqrt(np.maximum(-u, 0.0))

    def values_above(self, u: FloatArray) -> FloatArray:
        return -all_below(-self.values(u))

    def slopes(self, u: FloatArray, width: float) -> FloatArray:
        return 0.5 / np.maximum(-self.values(u), SMALLEST_RATIO)

    def conjugates(self, s: FloatArray) -> FloatArray:
        """Return ``1 / (4 s)``, infinity for s = 0."""
        with np.errstate(divide="ignore", over="ignore"):
            return np.asarray(0.25 / s)

    def conjugates_above(self, s: FloatArray) -> FloatArray:
        return all_above(self.conjugates(s))

    def slope_interval(self, u: FloatArray, gap: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the slopes with a root x for which ``|1 / (2 x) - x sqrt(-u)| <= sqrt(gap)``."""
        root, g = np.sqrt(np.maximum(-u, 0.0)), np.sqrt(gap)
        largest = g + np.sqrt(gap + 2.0 * root)  # x between 1 / largest and largest / (2 sqrt(-u))
        with np.errstate(divide="ignore"):
            high = np.where(root > 0.0, largest / (2.0 * root), np.inf)
        return np.asarray((1.0 / largest) ** 2), np.asarray(high**2)

    def expression(self, u: Expression, cp: ModuleType) -> Program:
        return -cp.sqrt(-u), []

    def dual_expression(self, s: Expression, offset: FloatArray, cp: ModuleType) -> Expression:
        value: Expression = cp.multiply(offset, s) - 0.25 * cp.inv_pos(s)
        return value

    def dual_text(self, a: str, weight: float, offset: float) -> str:
        return f"-{number(0.25 * weight * weight)} / {a}"


@dataclass(frozen=True, eq=False)
class HalfSquare(ScalarLoss):
    """``u^2 / 2``, on one side or both; conjugate ``s^2 / 2`` for slopes of the signs allowed."""

    sides: FloatArray  # (m,): 1: only ``u > 0`` costs; -1: only ``u < 0``; 0: both

    name = "half square"
    curvature = 1.0
    roundings = 3

    @property
    def parameters(self) -> dict[str, FloatArray]:
        return {"sides": self.sides}

    @property
    def lowest(self) -> FloatArray:
        return np.where(self.sides > 0, 0.0, -np.inf)

    @property
    def highest(self) -> FloatArray:
        return np.where(self.sides < 0, 0.0, np.inf)

    def values(self, u: FloatArray) -> FloatArray:
        return np.asarray(0.5 * self.slopes(u, 0.0) ** 2)

    def slopes(self, u: FloatArray, width: float) -> FloatArray:
        return np.clip(u, self.lowest, self.highest)

    def expression(self, u: Expression, cp: ModuleType) -> Program:
        above, below = (self.sides >= 0).astype(float), (self.sides <= 0).astype(float)
        squares = cp.multiply(above, cp.square(cp.pos(u))) + cp.multiply(below, cp.square(cp.neg(u)))
        return 0.5 * squares, []


@dataclass(frozen=True, eq=False)
class LogRatio(ScalarLoss):
    """``r - log r - 1`` of ``r = 1 + s [u]_+ / b``, the divergence of a slack from its bound in ITML [DKJSD2007].

    Its conjugate is ``-s a b - log(1 - s a b)`` for ``a >= 0``, and below ``1 / b`` if s is 1.
    """

    # (m,): s: 1 if u is the excess over an upper bound, -1 if it is the shortfall below a lower bound
    sides: FloatArray
    bounds: FloatArray  # (m,): b, positive

    name = "log ratio"
    in_proof_files = True
    boxed = False

    @property
    def parameters(self) -> dict[str, FloatArray]:
        return {"sides": self.sides, "bounds": self.bounds}

    @property
    def highest(self) -> FloatArray:
        return np.where(self.sides > 0, (1.0 - 4e-15) / self.bounds, np.inf)

    def is_in_proof_files(self, offset: FloatArray) -> bool:
        """Return whether numbers are excesses over the bounds themselves."""
        return not (self.sides * self.bounds + offset).any()

    def _excess_ratio(self, u: FloatArray) -> FloatArray:
        """Return ``r - 1``, and -1 if the exact value is -1 or below."""
        with np.errstate(over="ignore"):
            return np.clip(self.sides * np.maximum(u, 0.0) / self.bounds, -1.0, LARGEST_VALUE)

    def values(self, u: FloatArray) -> FloatArray:
        """Return ``r - log r - 1``, infinity for a distance of 0 that should be large."""
        excess = self._excess_ratio(u)
        with np.errstate(divide="ignore"):
            return np.asarray(excess - np.log1p(excess))

    def values_above(self, u: FloatArray) -> FloatArray:
        """Bound the losses with all roundings; they grow with ``[u]_+``."""
        return _divergence_above(self.sides * all_above(np.maximum(u, 0.0) / self.bounds))

    def slopes(self, u: FloatArray, width: float) -> FloatArray:
        excess = self._excess_ratio(u)
        with np.errstate(over="ignore"):
            return np.minimum(np.abs(excess) / np.maximum(1.0 + excess, SMALLEST_RATIO) / self.bounds, LARGEST_VALUE)

    def conjugates(self, s: FloatArray) -> FloatArray:
        x = -self.sides * s * self.bounds
        with np.errstate(divide="ignore"):
            return np.asarray(x - np.log1p(x))

    def conjugates_above(self, s: FloatArray) -> FloatArray:
        return _divergence_above(-self.sides * all_above(s * self.bounds))

    def dual_values_below(self, s: FloatArray, offset: FloatArray) -> FloatArray | None:
        """Return floats not above ``log(1 - s a b)``, the dual value at the offset ``-s b``.

        That is ``-s a b - l*(a)``. The two summands cancel if a distance is far below its bound.
        """
        if not self.is_in_proof_files(offset):
            return None
        x = -self.sides * np.nextafter(s * self.bounds, self.sides * np.inf)
        is_valid, values = (x > -1.0) & (x < np.inf), np.full(len(x), -np.inf)
        values[is_valid] = log1p_bounds(x[is_valid])[0]
        return values

    def conjugate_slopes(self, s: FloatArray) -> FloatArray:
        return s * self.bounds**2 / (1.0 - self.sides * s * self.bounds)

    def conjugate_curvatures(self, s: FloatArray) -> FloatArray:
        return np.asarray((self.bounds / (1.0 - self.sides * s * self.bounds)) ** 2)

    def slope_interval(self, u: FloatArray, gap: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the slopes with ``y - log y - 1 <= gap`` for ``y = (1 - s a b) r``, which is 1 at the slope.

        Such a y is between ``max(1 - sqrt(2 gap), exp(-1 - gap))`` and ``1 + sqrt(2 gap) + gap``.
        """
        low, high = np.fmax(1 - np.sqrt(2 * gap), np.exp(-1 - gap)), 1 + np.sqrt(2 * gap) + gap
        slopes = [self.sides * (1 - y / (1.0 + self._excess_ratio(u))) / self.bounds for y in (low, high)]
        return np.fmin(*slopes), np.fmax(*slopes)

    def expression(self, u: Expression, cp: ModuleType) -> Program:
        """Return ``r - log r - 1`` of ``r = xi / b`` with ``s (xi - b) >= u``."""
        xi = cp.Variable(len(self.sides), name="xi")
        r = cp.multiply(1.0 / self.bounds, xi)
        return r - cp.log(r) - 1.0, [cp.multiply(self.sides, xi - self.bounds) >= u]

    def dual_expression(self, s: Expression, offset: FloatArray, cp: ModuleType) -> Expression:
        """Return ``log(1 - s a b)``, as both parts cancel at the offset ``-s b``, plus what is left of the offset."""
        shares = self.sides * self.bounds
        value: Expression = cp.multiply(offset + shares, s) + cp.log1p(cp.multiply(-shares, s))
        return value

    def dual_text(self, a: str, weight: float, offset: float) -> str:
        sign, size = ("+", offset) if offset > 0 else ("-", -offset)
        return times(weight, f"log(1 {sign} {times(size, divided(a, weight))})")


def _divergence_above(x: FloatArray) -> FloatArray:
    """Return floats not below ``x - log(1 + x)``, infinity unless x is above -1 and finite."""
    values = np.where((x > -1.0) & (x < np.inf), 0.0, np.inf)
    is_positive = (values == 0.0) & (x != 0.0)
    values[is_positive] = np.nextafter(x[is_positive] - log1p_bounds(x[is_positive])[0], np.inf)
    return values


@dataclass(frozen=True, eq=False)
class Weighted:
    """``c_t l(u_t)`` of each of some constraints; an infinite weight of a hinge makes a hard constraint."""

    scalar: ScalarLoss  # at least 0, and 0 for ``u <= 0``
    weights: FloatArray  # (p,): c

    @property
    def ceilings(self) -> FloatArray:
        """The largest multipliers that are attained, (p,); infinite if there is no upper bound."""
        return self.weights * self.scalar.highest if self.scalar.kinked else np.full(len(self.weights), np.inf)

    def values(self, excess: FloatArray) -> FloatArray:
        values = self.scalar.values(excess)
        return np.multiply(self.weights, values, out=np.zeros(len(excess)), where=values > 0.0)

    def slopes(self, excess: FloatArray) -> FloatArray:
        """Return the multipliers that belong to the excess, (p,)."""
        slopes = self.scalar.slopes(excess, 0.0)
        return np.multiply(self.weights, slopes, out=np.zeros(len(excess)), where=slopes > 0.0)

    def intervals(self, excess: FloatArray, gap: float) -> tuple[FloatArray, FloatArray]:
        """Enclose every optimal multiplier, if a point with this excess is within a gap of the optimum.

        The gap is a sum of terms that are not negative, one of them ``phi(u) + phi*(a) - a u`` for each constraint; as
        ``phi* >= -phi(0)``, ``a (-u) <= gap + phi(0) - phi(u)`` if the constraint holds.
        """
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            lower, upper = (self.weights * slope for slope in self.scalar.slope_interval(excess, gap / self.weights))
            product = gap + self.weights * (
                self.scalar.values(0.0 * excess) - np.minimum(self.scalar.values(excess), 0.0)
            )
            holding = np.where(excess < 0, product / np.maximum(-excess, 0.0), np.inf)
        return np.fmax(lower, 0.0), np.where(self.weights > 0.0, np.fmin(upper, holding), 0.0)


LOSSES: dict[str, ScalarLoss] = {
    "hinge": Hinge(),
    "squared_hinge": SquaredHinge(),
    "logistic": Logistic(),
}


def find_loss(loss: str, owner: str) -> ScalarLoss:
    """Return a loss by name."""
    if loss not in LOSSES:
        raise ValueError(f"loss of {owner} must be one of {', '.join(map(repr, LOSSES))}, got {loss!r}.")
    return LOSSES[loss]
