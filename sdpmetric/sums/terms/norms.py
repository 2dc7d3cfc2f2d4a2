"""Norms of the metric: the Frobenius norm of its difference from a given one, and the l1 norm off the diagonal.

The part of a Frobenius term in the dual value is, with the positive part ``[Q]_+`` of ``Q = w M0 - S``::

    min over M PSD of  <S, M> + w/2 ||M - M0||^2  =  w/2 ||M0||^2 - ||[Q]_+||^2 / (2 w)

as ``<S, M> + w/2 ||M - M0||^2 = w/2 ||M - Q / w||^2 + w/2 ||M0||^2 - ||Q||^2 / (2 w)``, which is least at the
projection ``M = [Q]_+ / w``. It is finite for every S.

In coordinates of a `Span`, let M0 be ``c I`` outside, and the spill of S be (e, f). With ``F = H T H`` the form of S
there and T that in an exact orthonormal basis, ``||F - T||_F <= 3 ||H^2 - I|| ||F||_F``. So the positive part of all of
Q is at most ``x = 3 ||H^2 - I|| ||F||_F + sqrt(2) e + f`` longer than that of ``w M0 - F`` inside with ``w c I``
outside, which costs as much as M0 has there: the square in the minimum grows by at most ``2 x (||[w M0 - F]_+|| +
w c sqrt(d)) + x^2``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import ModuleType
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation
from sdpmetric.core.files import ProofTerm
from sdpmetric.engine.lazy import cached
from sdpmetric.linalg import psd
from sdpmetric.linalg.distances import mean_squared_distance
from sdpmetric.linalg.rigorous.directed import TINY, above, below, gamma, norm_above, product_above, sum_below
from sdpmetric.linalg.rigorous.forms import Form
from sdpmetric.lines import divided, matrix, number
from sdpmetric.losses import Absolute, Expression
from sdpmetric.sums.terms.base import DualText, InnerMinimum, Regularizer
from sdpmetric.sums.terms.margins import MarginLoss, Rows

if TYPE_CHECKING:
    from sdpmetric.sums.segment import Segment


@dataclass(frozen=True, eq=False, repr=False)
class Frobenius(Regularizer):
    """``1/2 ||M - M0||_F^2``, as in POLA [SSN2004] and Schultz and Joachims [SJ2003]; the optimum is unique.

    It depends on the coordinates: scale the features first.

    Parameters
    ----------
    to : (d, d) array, optional
        Symmetric ``M0``; default 0.
    weight : float, default 1

    Raises
    ------
    ValueError
        If `to` is not symmetric.

    Examples
    --------
    >>> import sdpmetric as sm
    >>> from sdpmetric import terms
    >>> X, y = sm.datasets.load("iris")
    >>> pairs, similar = sm.constraints.pairs(y, 30)
    >>> stated = sm.MetricProblem(X, terms.PairHinge(pairs, similar, threshold=3.0) + 0.1 * terms.Frobenius())
    >>> bool(sm.solve(stated).relative_gap <= 1e-3)
    True
    """

    to: ArrayLike | None = None

    name: ClassVar[str] = "frobenius"
    superlinear: ClassVar[bool] = True

    def bind(self, X: NDArray[np.floating]) -> Self:
        d = X.shape[1]
        if self.to is None:
            return replace(self, to=np.zeros((d, d)))
        M0 = validation.check_matrix(f"to= of {self.name}", self.to, (d, d))
        if not psd.is_diagonal(M0):
            if np.abs(M0 - M0.T).max() > 1e-9 * np.abs(M0).max():
                raise ValueError(f"to= of {self.name} must be symmetric.")
            M0 = psd.symmetrize(M0)
        return replace(self, to=validation.check_prior(f"to= of {self.name}", M0))

    def describe(self) -> str:
        return "half the squared Frobenius norm" + (" of the difference to a given matrix" if self.target.any() else "")

    @cached
    def target(self) -> FloatArray:
        return np.asarray(self.to, dtype=np.float64)

    @property
    def zero(self) -> FloatArray:
        return self.target

    @property
    def outside(self) -> tuple[float, NDArray[np.intp]] | None:
        multiple, axes = psd.multiple_of_identity(self.target)
        return (multiple, axes) if multiple >= 0.0 else None

    def toward(self, target: FloatArray) -> Self:
        return replace(self, to=target)

    def upper_bound_near(self, components: FloatArray, distance: float) -> float:
        root = math.sqrt(self.upper_bound(components)) + product_above(math.sqrt(self.weight), distance)
        return above(product_above(root, root), 8)

    def smallest_cost(self, distance: float, trace: float) -> float:
        """Return the value at the zero metric, or at a metric of that trace if M0 is zero."""
        squares = float(np.sum(self.target**2)) if self.target.any() else trace * trace
        return 0.5 * self.weight * squares

    def value(self, components: FloatArray) -> float:
        return 0.5 * self.weight * float(np.sum((components.T @ components - self.target) ** 2))

    def along(self, components: FloatArray) -> Callable[[float], float]:
        metric = components.T @ components
        squares = [
            float(np.sum(A * B)) for A, B in ((metric, metric), (metric, self.target), (self.target, self.target))
        ]
        return lambda scale: (
            0.5 * self.weight * max(0.0, float(np.polyval(squares * np.array([1, -2, 1]), scale * scale)))
        )

    def upper_bound(self, components: FloatArray, errors: FloatArray | None = None) -> float:
        size = np.abs(components).T @ np.abs(components) + np.abs(self.target)
        entries = np.abs(components.T @ components - self.target) + gamma(len(components) + 6) * size
        if errors is not None:
            entries += (1.0 + gamma(len(components) + 6)) * (2.0 * np.abs(components) + errors).T @ errors
        underflow = len(components) * TINY if components.any() else 0.0
        norm = norm_above(entries + underflow)
        return above(product_above(0.5, self.weight, norm, norm), 4)

    def upper_bound_at(self, metric: FloatArray, components: FloatArray) -> float:
        norm = norm_above(metric - self.target)
        return max(above(product_above(0.5, self.weight, norm, norm), 8), self.upper_bound(components))

    def slope(self, components: FloatArray) -> tuple[float, FloatArray]:
        gradient = np.asarray(self.weight * (components.T @ components - self.target))
        return 0.5 * self.weight * float(np.sum((gradient / self.weight) ** 2)), gradient

    def inner_gap(self, components: FloatArray, gradient: FloatArray, tolerance: float) -> float:
        """Return ``|G|^2 / (2 w) - w / 2 |[M - G / w]_-|^2`` for the gradient G, or only its first part if enough."""
        steps = gradient / self.weight
        gap = 0.5 * self.weight * float(np.sum(steps * steps))
        if not tolerance < gap < math.inf or psd.is_definite(minimizer := components.T @ components - steps):
            return gap
        negative = np.minimum(np.linalg.eigvalsh(minimizer), 0.0)
        rounding = len(minimizer) * 2.0**-50 * gap  # the difference of large numbers may even be negative
        return gap - 0.5 * self.weight * float(np.sum(negative * negative)) + rounding

    def conjugate(self, U: FloatArray) -> float:
        """Return ``||U||_F^2 / (2 weight) + <U, M0>``."""
        inner, norm = U * self.target, norm_above(U)
        errors = gamma(4) * np.abs(inner) + TINY * self.target.any()
        return -sum_below(np.append(-inner - errors, -product_above(0.5, norm, norm, above(1.0 / self.weight))))

    def minimum(self, segment: Segment) -> InnerMinimum:
        return FrobeniusMinimum(self, segment)

    def minimizer(self, S: FloatArray) -> FloatArray:
        return psd.factor(self.target - S / self.weight)

    def proof_slope(self, S: FloatArray, restricted: Callable[[FloatArray], FloatArray], margin: float) -> FloatArray:
        """Return ``w (M - M0)`` at the minimizer, plus a multiple of the identity."""
        weight, d = self.weight, len(self.target)
        A = restricted(self.target - S / weight)
        L = psd.factor(A)
        shift = margin * d * weight * float(np.abs(A).max(initial=0.0))
        return psd.symmetrize(weight * (L.T @ L - self.target)) + shift * np.eye(d)

    def minimum_below(self, *factors: float) -> float:
        """Return a float not above ``w/2 ||M0||^2 - p / (2 w)`` for the product p of factors."""
        gain = product_above(0.5, *factors, above(1.0 / self.weight))
        constant = below(0.5 * self.weight * float(np.sum(self.target**2)), self.target.size + 4)
        return sum_below(np.array([constant, -gain])) if math.isfinite(constant) and gain < math.inf else -math.inf

    def proof_term(self, a: FloatArray) -> ProofTerm:
        return ProofTerm({"term": self.name, "weight": self.weight}, {"slope": a, "to": self.target})

    def minimum_over_weights(self, slack: FloatArray) -> float:
        """Return ``w/2 ||M0||^2 - sum_j [w M0_jj - s_j]_+^2 / (2 w)``, rounded downward."""
        with np.errstate(over="ignore"):
            inner = np.nextafter(np.nextafter(self.weight * np.diag(self.target), np.inf) - slack, np.inf)
            norm = norm_above(np.maximum(inner, 0.0))
            return self.minimum_below(norm, norm)

    def expression(self, M: Expression, cp: ModuleType) -> Expression:
        squares: Expression = 0.5 * self.weight * cp.sum_squares(M - self.target)
        return squares

    def dual_expression(self, U: Expression, cp: ModuleType) -> Expression:
        """See `conjugate`."""
        value: Expression = -0.5 / self.weight * cp.sum_squares(U) - cp.sum(cp.multiply(self.target, U))
        return value

    def text(self) -> tuple[float, str]:
        return self.weight, f"1/2 * ||{'M - M0' if self.target.any() else 'M'}||^2"

    def definitions(self, symbol: str) -> list[str]:
        return [f"M0 = {matrix(self.target)}"] if self.target.any() else []

    def dual_text(self, name: str) -> DualText:
        pull = f" - tr({name} M0)" if self.target.any() else ""
        return DualText(f"-1/2 * {divided(f'||{name}||^2', self.weight)}{pull}", name)


class FrobeniusMinimum(InnerMinimum):
    """``w/2 ||M0||^2 - ||[Q(t)]_+||^2 / (2 w)`` with ``Q(t) = w M0 - S(t)``; its value leaves out the constant."""

    def __init__(self, term: Frobenius, segment: Segment) -> None:
        self.term, self.segment, self.images = term, segment, segment.images(np.eye(len(term.target)))
        self.pull = Form.congruent(term.weight * term.target, self.images.coordinates)
        start, stop = (segment.form(self.images, t).matrix for t in (0.0, 1.0))
        self.start, self.direction = self.pull.matrix - start, start - stop
        self.multiple, axes = psd.multiple_of_identity(self.start)
        is_multiple = not len(axes) and np.isfinite(self.direction).all()  # one spectrum serves for all t
        self.spectrum = np.linalg.eigvalsh(self.direction) if is_multiple else None

    def value(self, t: float) -> float:
        if self.spectrum is not None:
            weights = np.maximum(self.multiple + t * self.spectrum, 0.0) / self.term.weight
            return -0.5 * self.term.weight * float(weights @ weights)
        Q = self.start + t * self.direction
        if not np.isfinite(Q).all():
            return -math.inf
        with np.errstate(over="ignore"):
            positive = Q if psd.is_definite(Q) else np.maximum(np.linalg.eigvalsh(Q), 0.0)
            return -0.5 * self.term.weight * float(np.sum((positive / self.term.weight) ** 2))

    def proven(self, t: float) -> tuple[float, float]:
        S = self.segment.form(self.images, t)
        norm, span = (self.pull - S).positive_part, self.segment.span
        if span is None:
            return t, self.term.minimum_below(norm, norm)
        if not span.skew < 0.1:
            return t, -math.inf
        first, second = self.segment.spill(t)
        outside = product_above(self.term.weight, span.multiple, math.sqrt(len(span.basis) + 1))
        excess = above(3.0 * span.skew * S.size + 1.5 * first + second, 4)
        square = product_above(norm, norm) + above(2.0 * excess * (norm + outside) + excess * excess, 4)
        return t, self.term.minimum_below(above(square))


@dataclass(frozen=True, eq=False, repr=False)
class OffDiagonal(MarginLoss):
    """``sum_{j != k} |M_jk|``: features that do not interact get an entry of 0, as in SDML [QTZCZ2009].

    Parameters
    ----------
    weight : float, default 1

    Attributes
    ----------
    d : int
        Number of features, for a bound term.
    scale : float
        A large entry: the inverse of the mean squared distance of the data.

    Examples
    --------
    >>> import sdpmetric as sm
    >>> from sdpmetric import terms
    >>> X, y = sm.datasets.load("iris")
    >>> pairs, similar = sm.constraints.pairs(y, 30)
    >>> stated = sm.MetricProblem(X, terms.PairHinge(pairs, similar) + 0.5 * terms.OffDiagonal() + terms.LogDet())
    >>> bool(sm.solve(stated).relative_gap <= 1e-3)
    True
    """

    d: int = 0
    scale: float = 1.0

    name: ClassVar[str] = "off_diagonal"
    depends_on_entries: ClassVar[bool] = True

    def bind(self, X: NDArray[np.floating]) -> Self:
        """Note the number of features, and that each entry has a mirror image."""
        d = X.shape[1]
        twice = np.full(d * (d - 1) // 2, 2.0)
        return replace(self, d=d, weights=twice, scale=1.0 / (mean_squared_distance(X) or 1.0))

    def describe(self) -> str:
        return "l1 norm off the diagonal"

    @cached
    def rows(self) -> Rows:
        size = len(np.asarray(self.weights))
        return Rows(Absolute(), np.zeros((0, 2), dtype=np.int32), sp.csr_array((size, 0)), 0.0, self.scale)

    def anchor(self, a: FloatArray) -> FloatArray:
        return np.zeros_like(a)

    def entries(self, M: FloatArray) -> FloatArray:
        return np.asarray(M[np.triu_indices(self.d, 1)])

    def entry_matrix(self, a: FloatArray) -> FloatArray:
        """Return half of each multiplier above and below the diagonal."""
        A = np.zeros((self.d, self.d))
        A[np.triu_indices(self.d, 1)] = 0.5 * a
        return A + A.T

    def proof_term(self, a: FloatArray) -> ProofTerm:
        """See `Term.proof_term`: its multipliers are a slope."""
        limit = (1.0 - 4e-16) * self.weight
        return ProofTerm(
            {"term": self.name, "weight": self.weight}, {"slope": np.clip(self.entry_matrix(a), -limit, limit)}
        )

    def entry_expression(self, M: Expression, cp: ModuleType) -> Expression:
        row, column = np.triu_indices(self.d, 1)
        return M[row.astype(np.int32), column.astype(np.int32)]

    def text(self) -> tuple[float, str]:
        return self.weight, "sum_jk |M_jk|"

    def definitions(self, symbol: str) -> list[str]:
        return ["sum_jk over j != k"] if symbol == "D" else ["tr(E(a) M) = sum_t a_t M_jk over j < k"]

    def dual_text(self, name: str) -> DualText:
        return DualText("", f"E({name})", [f"|{name}| <= {number(2.0 * self.weight)}"])
