"""The terms of sums: convex functions of the metric with their slopes, conjugates, and CVXPY forms.

A `MarginLoss` is ``sum_i l_i(u_i)`` of numbers ``u_i`` that are affine in the metric, its *excess*. Its multipliers are
the slopes ``a_i``; for every ``a`` in the domain of the conjugates, Fenchel and Young give ``l_i(u) >= a_i u -
l_i*(a_i)``, which is affine in the metric. That is all that the certificate of a sum needs. See ``docs/terms.md``.

The dual value holds a minimum over the metric. Multipliers ``a(t)`` that are affine in t have a dual slack matrix
``S(t)`` that is affine in t, and

    m(t) = min over the metrics M of the domain of  <S(t), M> + r(M)

is concave in t, as a minimum of functions that are affine in t. Without a regularizer r it is 0 if S(t) is positive
semidefinite on the domain, and minus infinity otherwise; `Regularizer.minimum` gives it in closed form otherwise.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import ModuleType
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray, IndexArray
from sdpmetric.core.files import ProofTerm
from sdpmetric.core.sample_weight import check_term_weight
from sdpmetric.linalg.rigorous.directed import Rigor
from sdpmetric.lines import times
from sdpmetric.losses import Expression

if TYPE_CHECKING:
    from sdpmetric.sums.segment import Segment
    from sdpmetric.sums.terms.margins import MarginLoss


class InnerMinimum(ABC):
    """``m(t)`` of one segment: in floats for the search of the best t, with all roundings for claims."""

    nearest: float = 0.0  # between these m is finite, as floats see it
    furthest: float = math.inf

    @abstractmethod
    def value(self, t: float) -> float:
        """Return ``m(t)`` up to a constant, in floats."""

    @abstractmethod
    def proven(self, t: float) -> tuple[float, float]:
        """Return some s, t itself or near it, and a float not above the exact ``m(s)``, possibly minus infinity."""


# Relative roundings between exact and computed multipliers.
ROUNDINGS = 6


@dataclass(frozen=True)
class DualText:
    """The share of a term in a printed dual program: of the objective, of the PSD matrix, and of the constraints."""

    value: str
    matrix: str
    constraints: Sequence[str] = ()


@contextmanager
def errors_of(name: str) -> Iterator[None]:
    """Put a name before the sentences of errors."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Term(ABC):
    """A convex function of the metric; terms can be added, and multiplied by nonnegative numbers.

    Attributes
    ----------
    weight : float, default 1
        What the function is multiplied by.
    name : str
        Class attribute: the term's name in error messages, in CVXPY programs, and in `path`.
    nonnegative : bool
        Class attribute: whether the function is at least 0 everywhere.

    Examples
    --------
    >>> from sdpmetric import terms
    >>> isinstance(terms.Trace(), terms.Term), (2 * terms.Trace()).weight
    (True, 2.0)
    """

    weight: float = 1.0
    name: ClassVar[str]
    nonnegative: ClassVar[bool] = True
    # NumPy scalars defer to the term's own multiplication.
    __array_ufunc__: ClassVar[None] = None

    @abstractmethod
    def bind(self, X: NDArray[np.floating]) -> Self:
        """Return the same term with its arguments checked against data (n, d), and with arrays in place of defaults."""

    @abstractmethod
    def describe(self) -> str:
        """Say in a few words what the term is, over how much data, without its weight."""

    @property
    def losses(self) -> tuple[MarginLoss, ...]:
        """The term itself, if it has multipliers."""
        return ()

    @property
    def regularizers(self) -> tuple[Regularizer, ...]:
        """The term itself, if it is strictly convex in the metric."""
        return ()

    @property
    def rigor(self) -> Rigor:
        """The grade of rigor of a certificate of the term alone; of linear terms "float"."""
        return "float"

    @property
    def ridge(self) -> float:
        """Its share of the weight of the trace."""
        return 0.0

    def smallest_cost(self, distance: float, trace: float) -> float:
        """Return the cost of a bound term's lightest summand when missed by its margin; infinity for hard constraints.

        Where a summand has no margin, it is what it costs at a squared distance, or a trace, of the statement's scale.
        By default the weight.
        """
        return self.weight

    def pair_costs(self) -> tuple[IndexArray, FloatArray]:
        """Return pairs (p, 2) with linear costs (p,), the term's weight included; of a bound term."""
        return np.zeros((0, 2), dtype=np.int32), np.zeros(0)

    def proof_term(self, a: FloatArray) -> ProofTerm:
        """Return what a proof file says of a bound term: multipliers a, of a regularizer its slope (d, d)."""
        raise ValueError(
            f"proof files support the terms of this package; {self.name} is not one of them: leave it out."
        )

    def stiffened(self, scale: float) -> Term:
        """Return the term for solvers, hard constraints smoothed in units of `scale`, the size of the objective."""
        return self

    # -- as printed ---------------------------------------------------------------------------------------------

    def text(self) -> tuple[float, str]:
        """Return a weight, and what a bound term adds to the objective of a printed program; see `sdpmetric.lines`."""
        return self.weight, self.describe()

    def constraint_text(self) -> list[str]:
        """Return the lines of its constraints."""
        return []

    def definitions(self, symbol: str) -> list[str]:
        """Return definitions of the symbols of the program, if `symbol` is "D", or of the dual program, if "V"."""
        return []

    def dual_text(self, name: str) -> DualText:
        """Return what it adds to the printed dual program, multipliers by name; default: that of a linear term."""
        return DualText("", times(*self.text()).replace("tr(M)", "I").replace("D(", "V("))

    def __mul__(self, factor: float) -> Self:
        return replace(self, weight=check_term_weight(self.name, factor, self.weight))

    __rmul__ = __mul__

    def __add__(self, summand: Term | Sum) -> Sum:
        return Sum((self,)) + summand

    def __radd__(self, summand: int) -> Sum:
        return Sum((self,)).__radd__(summand)

    def __neg__(self) -> Self:
        return self * -1.0

    def __repr__(self) -> str:
        return f"{self.weight:g} {type(self).__name__}"


@dataclass(frozen=True, eq=False, repr=False)
class Sum:
    """A sum of terms.

    Examples
    --------
    >>> import sdpmetric as sm
    >>> from sdpmetric import terms
    >>> X, y = sm.datasets.load("iris")
    >>> total = 0.5 * terms.Pull(labels=y) + terms.Trace()
    >>> type(total).__name__, sm.MetricProblem(X, total).weights
    ('Sum', ('pull', 'trace'))
    """

    terms: tuple[Term, ...]

    def __add__(self, summand: Term | Sum) -> Sum:
        if isinstance(summand, Term):
            return Sum((*self.terms, summand))
        return Sum((*self.terms, *summand.terms)) if isinstance(summand, Sum) else NotImplemented

    def __radd__(self, summand: int) -> Sum:
        return self if summand == 0 else NotImplemented  # for the builtin sum

    def __mul__(self, factor: float) -> Sum:
        return Sum(tuple(factor * term for term in self.terms))

    __rmul__ = __mul__

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.terms))


class Regularizer(Term):
    """A strictly convex function r of the metric as a matrix.

    Attributes
    ----------
    superlinear : bool
        Class attribute: whether it grows faster than linearly, so `minimum` is finite for every slack matrix.

    Examples
    --------
    >>> from sdpmetric import terms
    >>> issubclass(terms.Frobenius, terms.Regularizer), issubclass(terms.Pull, terms.Regularizer)
    (True, False)
    """

    superlinear: ClassVar[bool] = False

    @property
    def regularizers(self) -> tuple[Regularizer, ...]:
        return (self,)

    @property
    @abstractmethod
    def zero(self) -> FloatArray:
        """The matrix that makes a bound term exactly 0, (d, d)."""

    # -- the function -------------------------------------------------------------------------------------------

    @abstractmethod
    def value(self, components: FloatArray) -> float:
        """Return ``weight * r(M)`` at a factor (r, d) of the metric."""

    def along(self, components: FloatArray) -> Callable[[float], float]:
        """Return `value` of multiples of a factor."""
        return lambda scale: self.value(scale * components)

    @abstractmethod
    def upper_bound(self, components: FloatArray, errors: FloatArray | None = None) -> float:
        """Return a float not below the exact `value` of a factor of floats.

        With errors, not below that of any factor within these of the given one, entry by entry.
        """

    # -- in the span of few rows ----------------------------------------------------------------------------------

    @property
    def outside(self) -> tuple[float, NDArray[np.intp]] | None:
        """A number c, and the features with another row than c I in the matrix that r is near; None if not known."""
        return None

    def toward(self, target: FloatArray) -> Self:
        """Return the same bound term near another matrix, of a term that knows `outside`."""
        raise TypeError(f"{self.name} is near no matrix.")

    def upper_bound_near(self, components: FloatArray, distance: float) -> float:
        """Return a float not below the value of any metric within a distance of the one in a span with this factor."""
        return self.upper_bound(components) if distance == 0.0 else math.inf

    @abstractmethod
    def upper_bound_at(self, metric: FloatArray, components: FloatArray) -> float:
        """Return a float not below the exact `value` of a metric of floats, nor below that of its factor."""

    @abstractmethod
    def slope(self, components: FloatArray) -> tuple[float, FloatArray]:
        """Return `value`, and the gradient of ``weight * r`` by the metric, (d, d)."""

    def gradient(self, components: FloatArray) -> FloatArray:
        return self.slope(components)[1]

    @abstractmethod
    def inner_gap(self, components: FloatArray, gradient: FloatArray, tolerance: float) -> float:
        """Return ``<S, M> + weight * r(M)`` at a metric with this gradient, minus its minimum, in floats.

        Any upper bound that is at most `tolerance` will do.
        """

    # -- the dual -----------------------------------------------------------------------------------------------

    @abstractmethod
    def conjugate(self, U: FloatArray) -> float:
        """Return a float not below ``(weight * r)*(U)`` for a symmetric matrix; infinity outside its domain."""

    @abstractmethod
    def minimum(self, segment: Segment) -> InnerMinimum:
        """Return the minimum of ``<S(t), M> + weight * r(M)`` over PSD M along a segment of slack matrices."""

    @abstractmethod
    def minimizer(self, S: FloatArray) -> FloatArray | None:
        """Return a factor of the metric that minimizes ``<S, M> + weight * r(M)``, in floats; None if there is none."""

    @abstractmethod
    def proof_slope(self, S: FloatArray, restricted: Callable[[FloatArray], FloatArray], margin: float) -> FloatArray:
        """Return a slope U at about the minimizer that makes ``S + U`` PSD by a margin, a small share of U.

        `restricted` leaves those entries of a matrix that products with metrics of the domain depend on.
        """

    @property
    def start(self) -> FloatArray | None:
        """A factor with a finite value, for solvers, if the zero metric has none; else None."""
        return None

    @property
    def linear_cost_root(self) -> FloatArray | None:
        """A matrix R if r grows as ``<R^T R, M>`` for large metrics, weight included, else None."""
        return None

    # -- diagonal metrics ---------------------------------------------------------------------------------------

    @abstractmethod
    def minimum_over_weights(self, slack: FloatArray) -> float:
        """Return a float not above ``<s, w> + weight * r(diag w)`` for any ``w >= 0`` and s not below `slack`.

        Minus infinity says nothing.
        """

    @abstractmethod
    def expression(self, M: Expression, cp: ModuleType) -> Expression:
        """Return ``weight * r(M)`` of a CVXPY matrix, cp being the module cvxpy."""

    @abstractmethod
    def dual_expression(self, U: Expression, cp: ModuleType) -> Expression:
        """Return ``-(weight * r)*(U)`` of a CVXPY matrix."""
