"""The terms of sums: convex functions of the metric with their slopes, conjugates, and CVXPY forms.

A `Loss` is ``sum_i l_i(u_i)`` of numbers ``u_i`` that are affine in the metric, its *excess*. Its multipliers are the
slopes ``a_i``; for every ``a`` in the domain of the conjugates, Fenchel and Young give ``l_i(u) >= a_i u - l_i*(a_i)``,
which is affine in the metric. That is all that the certificate of a sum needs. See ``docs/terms.md``.

The dual value holds a minimum over the metric. Multipliers ``a(t)`` that are affine in t have a dual slack matrix
``S(t)`` that is affine in t, and

    m(t) = min over the metrics M of the domain of  <S(t), M> + r(M)

is concave in t, as a minimum of functions that are affine in t. Without a regularizer r it is 0 if S(t) is positive
semidefinite on the domain, and minus infinity otherwise; `Regularizer.minimum` gives it in closed form otherwise.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import ModuleType
from typing import ClassVar, Protocol, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray, IndexArray
from sdpmetric.core.constraints import TermConstraints
from sdpmetric.core.files import ProofTerm
from sdpmetric.core.sample_weight import check_term_weight
from sdpmetric.linalg.rigorous.directed import Rigor, gamma, sum_below
from sdpmetric.linalg.rigorous.forms import Form, Images
from sdpmetric.lines import times
from sdpmetric.losses import Expression


class SlackSegment(Protocol):
    """``S(t)`` as regularizers see it; see `sdpmetric.sums.segment.Segment`."""

    def matrix(self, t: float) -> FloatArray:
        """``S(t)`` in floats, (d, d)."""

    def images(self, T: FloatArray) -> Images:
        """The data in coordinates T, (d, k)."""

    def form(self, images: Images, t: float) -> Form:
        """``T^T S(t) T`` in the coordinates of images, with a bound of its error."""


class InnerMinimum(ABC):
    """``m(t)`` of one segment: in floats for the search of the best t, with all roundings for claims."""

    nearest: float = 0.0  # between these m is finite, as floats see it
    furthest: float = math.inf

    @abstractmethod
    def value(self, t: float) -> float:
        """``m(t)`` up to a constant, in floats."""

    @abstractmethod
    def proven(self, t: float) -> tuple[float, float]:
        """Return some s, t itself or near it, and a float not above the exact ``m(s)``, possibly minus infinity."""


# Relative roundings between exact and computed multipliers.
ROUNDINGS = 6
# Relative error of values and conjugates that are computed without bounds.
ACCURACY = 1e-14


@dataclass(frozen=True)
class DualText:
    """What a term adds to a printed dual program: to the objective, to the matrix that is PSD, and constraints."""

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
        """The same term with its arguments checked against data (n, d), and with arrays in place of defaults."""

    @abstractmethod
    def describe(self) -> str:
        """Say in a few words what the term is, over how much data, without its weight."""

    @property
    def losses(self) -> tuple[Loss, ...]:
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
        """What it adds to the weight of the trace."""
        return 0.0

    @property
    def quadratic_weight(self) -> float:
        """The weight of ``1/2 ||M||_F^2`` in the term."""
        return 0.0

    def smallest_cost(self, distance: float, trace: float) -> float:
        """Return the cost of a bound term's lightest summand when missed by its margin; infinity for hard constraints.

        Where a summand has no margin, it is what it costs at a squared distance, or a trace, of the statement's scale.
        By default the weight.
        """
        return self.weight

    def pair_costs(self) -> tuple[IndexArray, FloatArray]:
        """Pairs (p, 2) with linear costs (p,), the term's weight included; of a bound term."""
        return np.zeros((0, 2), dtype=np.int32), np.zeros(0)

    def proof_term(self, a: FloatArray) -> ProofTerm:
        """What a proof file says of a bound term: multipliers a, of a regularizer its slope (d, d)."""
        raise ValueError(
            f"proof files support the terms of this package; {self.name} is not one of them: leave it out."
        )

    def stiffened(self, scale: float) -> Term:
        """For solvers: the same with hard constraints smoothed in units of `scale`, the size of the objective."""
        return self

    # -- as printed ---------------------------------------------------------------------------------------------

    def text(self) -> tuple[float, str]:
        """A weight, and what a bound term adds to the objective of a printed program; see `sdpmetric.lines`."""
        return self.weight, self.describe()

    def constraint_text(self) -> list[str]:
        """The lines of its constraints."""
        return []

    def definitions(self, symbol: str) -> list[str]:
        """Definitions of the symbols of the program, if `symbol` is "D", or of the dual program, if "V"."""
        return []

    def dual_text(self, name: str) -> DualText:
        """What it adds to the printed dual program, with multipliers of that name; by default that of a linear term."""
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
    def rigor(self) -> Rigor:
        """The grade is "rounding" with the `upper_bound` of this class, which guesses, else "float"."""
        return "rounding" if type(self).upper_bound is Regularizer.upper_bound else "float"

    @property
    def zero(self) -> FloatArray | None:
        """Return the matrix that makes a bound term exactly 0, (d, d), or None if it is not known."""
        return None

    # -- the function -------------------------------------------------------------------------------------------

    @abstractmethod
    def value(self, components: FloatArray) -> float:
        """``weight * r(M)`` at a factor (r, d) of the metric."""

    def along(self, components: FloatArray) -> Callable[[float], float]:
        """`value` of multiples of a factor."""
        return lambda scale: self.value(scale * components)

    def upper_bound(self, components: FloatArray, errors: FloatArray | None = None) -> float:
        """A float not below the exact `value` of a factor of floats.

        With errors, not below that of any factor within these of the given one, entry by entry. By default within 1e-14
        of the computed value, and infinity with errors, as the value at one factor says nothing about them.
        """
        value = self.value(components) if errors is None or not errors.any() else math.inf
        return value + ACCURACY * abs(value)

    def upper_bound_at(self, metric: FloatArray, components: FloatArray, error: FloatArray) -> float:
        """A float not below the exact `value` of a metric of floats, nor below that of a factor within `error` of it.

        By default `upper_bound` of the factor, and twice what the slope there says of the difference.
        """
        value = self.upper_bound(components)
        change = float(np.sum(np.abs(self.gradient(components)) * error)) if math.isfinite(value) else 0.0
        return value + 2.0 * change

    @abstractmethod
    def gradient(self, components: FloatArray) -> FloatArray:
        """The gradient of ``weight * r`` by the metric, (d, d)."""

    def slope(self, components: FloatArray) -> tuple[float, FloatArray]:
        """`value` and `gradient` at once."""
        return self.value(components), self.gradient(components)

    def inner_gap(self, components: FloatArray, gradient: FloatArray, tolerance: float) -> float:
        """Return ``<S, M> + weight * r(M)`` at a metric with this gradient, minus its minimum, in floats.

        Any upper bound that is at most `tolerance` will do. Infinity by default.
        """
        return math.inf

    # -- the dual -----------------------------------------------------------------------------------------------

    @abstractmethod
    def conjugate(self, U: FloatArray) -> float:
        """A float not below ``(weight * r)*(U)`` for a symmetric matrix; infinity outside its domain."""

    def minimum(self, segment: SlackSegment) -> InnerMinimum:
        """The minimum of ``<S(t), M> + weight * r(M)`` over PSD M along a segment of slack matrices."""
        raise NotImplementedError(
            f"{self.name} has no minimum(), so no certificate by itself; add terms.Frobenius(), beside which its "
            "conjugate() is enough."
        )

    def minimizer(self, S: FloatArray) -> FloatArray | None:
        """A factor of the metric that minimizes ``<S, M> + weight * r(M)``, in floats; None if none is known."""
        return None

    def proof_slope(self, S: FloatArray, restricted: Callable[[FloatArray], FloatArray], margin: float) -> FloatArray:
        """Return a slope U at about the minimizer that makes ``S + U`` PSD by a margin, a small share of U.

        `restricted` leaves those entries of a matrix that products with metrics of the domain depend on.
        """
        raise ValueError(f"proof files support the regularizers of this package; {self.name} is not one of them.")

    @property
    def start(self) -> FloatArray | None:
        """Return a factor with a finite value, for solvers, if the zero metric has none; None if not known."""
        return None

    @property
    def linear_cost_root(self) -> FloatArray | None:
        """Return R if r grows as ``<R^T R, M>`` for large metrics, weight included, else None."""
        return None

    @property
    def attraction(self) -> float:
        """The size of the slope at the zero metric toward another one, for each dimension."""
        return 0.0

    # -- diagonal metrics ---------------------------------------------------------------------------------------

    @property
    def over_weights(self) -> tuple[float, FloatArray, float, float] | None:
        """Numbers h, c (d,), g, e with ``weight * r(diag w) = h / 2 |w|^2 + <c, w> - g sum log w + e``, if any."""
        return None

    def minimum_over_weights(self, slack: FloatArray) -> float:
        """A float not above the minimum of ``<s, w> + weight * r(diag w)`` over ``w >= 0`` for any s not below `slack`.

        By default minus infinity, which says nothing.
        """
        return -math.inf

    @abstractmethod
    def expression(self, M: Expression, cp: ModuleType) -> Expression:
        """``weight * r(M)`` of a CVXPY matrix, cp being the module cvxpy."""

    def dual_expression(self, U: Expression, cp: ModuleType) -> Expression:
        """``-(weight * r)*(U)`` of a CVXPY matrix."""
        raise TypeError(f"{self.name} does not say its conjugate in CVXPY; define dual_expression.")


class Loss(Term):
    """``sum_i l_i(u_i)``, u affine in the metric; multipliers a are its slopes, weights included.

    Attributes
    ----------
    depends_on_entries : bool
        Class attribute: whether u depends on the metric beyond distances of pairs.
    has_infinite_slopes : bool
        Class attribute: whether slopes are infinite somewhere; then those of `smoothed` at several widths are tried.

    Examples
    --------
    >>> from sdpmetric import terms
    >>> issubclass(terms.Spread, terms.Loss), issubclass(terms.Trace, terms.Loss)
    (True, False)
    """

    depends_on_entries: ClassVar[bool] = False
    has_infinite_slopes: ClassVar[bool] = False

    @property
    def losses(self) -> tuple[Loss, ...]:
        return (self,)

    @property
    def rigor(self) -> Rigor:
        """The grade is "rounding" with the `upper_bound` of this class, which guesses, else "float"."""
        return "rounding" if type(self).upper_bound is Loss.upper_bound else "float"

    @property
    def kinked(self) -> bool:
        """Whether slopes jump, so `smoothed` depends on the width."""
        return False

    @property
    def steep(self) -> bool:
        """Whether slopes of the conjugate are infinite at the ends of its domain."""
        return False

    @property
    def hard(self) -> bool:
        """Whether it is a hard constraint, with multipliers of at least 0."""
        return False

    @property
    def unit(self) -> float:
        """A size of u that counts as large."""
        return 1.0

    @property
    @abstractmethod
    def size(self) -> int:
        """How many numbers u has, and how many multipliers there are."""

    @property
    @abstractmethod
    def offset(self) -> FloatArray:
        """``u`` at the zero metric, (m,)."""

    def check_weights(self) -> None:
        """Raise an error if weights of the single numbers of a bound term are wrong."""

    def distance_pairs(self) -> IndexArray:
        """Return the pairs with squared distances in a bound term, (p, 2). Default: none."""
        return np.zeros((0, 2), dtype=np.int32)

    @property
    def combination(self) -> sp.csr_array:
        """The matrix K, (m, p), with ``u = offset + K D + entries(M)`` for the distances D of those pairs."""
        return sp.csr_array((self.size, 0))

    def entries(self, M: FloatArray) -> FloatArray:
        """What u has of the metric besides distances, (m,), or of k metrics (d, d, k), (m, k). Default: 0."""
        return np.zeros(())

    def entry_matrix(self, a: FloatArray) -> FloatArray:
        """The adjoint of `entries`: a symmetric matrix (d, d) from multipliers (m,), or 0."""
        return np.zeros(())

    @abstractmethod
    def value(self, u: FloatArray) -> float:
        """Return ``weight * sum_i l_i(u_i)``, infinity if a hard constraint is violated."""

    def upper_bound_at_zero(self) -> float:
        """`upper_bound` at the zero metric."""
        error = gamma(ROUNDINGS + 2) * np.abs(self.offset)
        return self.upper_bound(self.offset - error, self.offset + error)

    def roles(self) -> Mapping[str, IndexArray]:
        """Row numbers of X by their role in each number, (m,). Default: none."""
        return {}

    def listed_constraints(self, a: FloatArray, u: FloatArray, D: FloatArray) -> TermConstraints | None:
        """Return the constraints on examples with multipliers a, at distances D, or None if a is not about examples."""
        return None

    def exact_rows(self, rows: NDArray[np.intp]) -> tuple[FloatArray, sp.csr_array]:
        """Offsets and rows of `combination`, free of rounding, of hard constraints that have the same signs."""
        return self.offset[rows], sp.csr_array(self.combination.tocsr()[rows])

    def upper_bound(self, low: FloatArray, high: FloatArray) -> float:
        """A float not below the exact `value` of all u between two arrays.

        By default the larger computed value of the two, which are taken to be accurate to 1e-14.
        """
        value = max(self.value(low), self.value(high))
        return value + ACCURACY * abs(value)

    @abstractmethod
    def smoothed(self, u: FloatArray, width: float, center: FloatArray | None = None) -> tuple[float, FloatArray]:
        """The largest ``<a, u> - l*(a) - width / 2 |a - center|^2``, suitably scaled, and the a that attains it.

        It is smooth in u, and a, its gradient, is in the domain of the conjugate whatever u is. Losses without kinks
        need no width, which is in units of the term; the center is 0 by default.
        """

    @abstractmethod
    def conjugates(self, a: FloatArray) -> FloatArray:
        """``l_i*(a_i)``, (m,)."""

    @abstractmethod
    def clip(self, a: FloatArray) -> FloatArray:
        """Return multipliers in the domain of the conjugates, near given multipliers."""

    def dual_value(self, a: FloatArray) -> float:
        """A float not above the exact ``sum_i (a_i c_i - l_i*(a_i))`` of some exact multipliers near clipped values.

        Those are within `ROUNDINGS` relative roundings of a. By default conjugates are taken to be accurate to 1e-14 of
        the largest part.
        """
        summands = np.concatenate([a * self.offset, -self.conjugates(a)])
        return -math.inf if not np.isfinite(summands).all() else sum_below(summands - ACCURACY * np.abs(summands))

    def anchor(self, a: FloatArray) -> FloatArray:
        """Return multipliers in the domain that add nothing negative to the dual slack matrix.

        Given multipliers are moved toward these until the slack matrix is positive semidefinite.
        """
        return np.zeros_like(a)

    def max_step(self, a: FloatArray, step: FloatArray) -> float:
        """Return the largest t that keeps ``a + t step`` in the domain, at least 0; possibly infinity."""
        return 1.0

    def violation(self, u: FloatArray) -> float:
        """How far hard constraints are violated, relatively; 0 without any."""
        return 0.0

    # -- optima of at most 0; see `sdpmetric.sums.feasibility` ----------------------------------------------

    @property
    def distance_scale(self) -> float:
        """Return the smallest squared distance that the term's numbers set as a scale, or infinity."""
        return math.inf

    def pulled_pairs(self) -> IndexArray:
        """Return the pairs with distances that must stay 0 for the loss to vanish, (p, 2)."""
        return np.zeros((0, 2), dtype=np.int32)

    def vanishes(self, groups: IndexArray) -> bool:
        """Return whether it tends to 0 when pairs within groups have distances of 0, and others grow."""
        return False

    @abstractmethod
    def expression(self, u: Expression, cp: ModuleType) -> tuple[Expression | float, list[object]]:
        """The loss of a CVXPY vector u, and constraints that belong to it, cp being the module cvxpy."""

    def dual_expression(self, a: Expression, cp: ModuleType) -> tuple[Expression, list[object]]:
        """``sum_i (a_i c_i - l_i*(a_i))`` of a CVXPY vector of multipliers, and the constraints of its domain."""
        raise TypeError(f"{self.name} does not say its conjugates in CVXPY; define dual_expression.")

    def entry_expression(self, M: Expression, cp: ModuleType) -> Expression | float:
        """`entries` of a CVXPY matrix."""
        return 0.0
