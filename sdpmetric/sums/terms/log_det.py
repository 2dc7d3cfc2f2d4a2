"""The LogDet divergence ``D(M, M0) = tr(M M0^-1) - log det(M M0^-1) - d`` of a metric from a given one.

Its part of the dual value is, with ``N = I + R S R / w`` for the symmetric root R of M0::

    min over M PD of  <S, M> + w D(M, M0)  =  w log det N

if N is positive definite, as the gradient ``S + w M0^-1 - w M^-1`` is 0 at ``M = R N^-1 R``, and minus infinity if not.
Along a segment ``N(t) = N(0) + t N_1``. With the Cholesky factor L of N(0) and the spectrum ``V diag(s) V^T`` of
``L^-1 N_1 L^-T``::

    log det N(t) = log det N(0) + sum_j log(1 + t s_j),     N(t)^-1 = L^-T V diag(1 / (1 + t s)) V^T L^-1

The proof at t takes ``P = R L^-T V diag(1 + t s)^(-1/2)``, with ``P P^T`` the minimizer M(t), and ``P^T (M0^-1
+ S(t) / w) P`` the identity up to rounding: its log det, which `LogDetPrior.log_det` bounds, is known to all digits.

In coordinates of a `Span`, let M0 be ``c I``, the spill of S be (e, f), and ``A = I + c F / w`` for the form F of S
there. In an exact orthonormal basis it is ``H^-1 (A + G) H^-1`` with ``G = H^2 - I = Q^T Q - I``. So the log det there
is at least ``log det A - ||G|| ||A^-1|| - x^2 / (2 (1 - x)) - sqrt(r) ||G||``, with Frobenius norms and ``x = ||G||
||A^-1||_2``. Of all directions it is less by at most ``-log det(I - Y)`` for the Schur complement ``I - Y`` of those
outside, with ``trace Y <= y = c f / w + (c e / w)^2 (1 + ||G||) / (1 / ||A^-1||_2 - ||G||)``: by ``y / (1 - y)``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import ModuleType
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation
from sdpmetric.core.files import ProofTerm
from sdpmetric.engine.lazy import cached, published
from sdpmetric.linalg import psd
from sdpmetric.linalg.rigorous.directed import (
    U,
    above,
    gamma,
    log1p_bounds,
    log_bounds,
    metric_norm_above,
    norm_above,
    product_above,
    squares_above,
    sum_below,
)
from sdpmetric.linalg.rigorous.divergence import LogDetPrior
from sdpmetric.linalg.rigorous.forms import Form, Span
from sdpmetric.lines import divided, matrix, times
from sdpmetric.losses import Expression
from sdpmetric.sums.terms.base import DualText, InnerMinimum, Regularizer

if TYPE_CHECKING:
    from sdpmetric.sums.segment import Segment

# Singular values and eigenvalues that are divided by are at least this.
SMALLEST_DIVISOR = 1e-100
# Quotients below this count as 0, or as minus this: underflow is not relative to them.
UNDERFLOW = 1e-290


@dataclass(frozen=True, eq=False, repr=False)
class LogDet(Regularizer):
    """``trace(M M0^-1) - log det(M M0^-1) - d``, as in ITML [DKJSD2007] and LEGO [JKDG2008].

    It is infinite for singular metrics, and does not change if data and M0 are expressed in other coordinates.

    Parameters
    ----------
    to : (d, d) array, optional
        Positive definite ``M0``; default: the identity.
    weight : float, default 1

    Raises
    ------
    ValueError
        If the weight is 0.

    Examples
    --------
    >>> import sdpmetric as sm
    >>> from sdpmetric import terms
    >>> X, y = sm.datasets.load("iris")
    >>> pairs, similar = sm.constraints.pairs(y, 30)
    >>> near = terms.DistanceBounds(pairs[similar], at_most=1.0, loss="log_ratio")
    >>> stated = sm.MetricProblem(X, 0.1 * near + terms.LogDet())
    >>> bool(sm.solve(stated).relative_gap <= 1e-3)
    True
    """

    to: ArrayLike | None = None

    name: ClassVar[str] = "log_det"

    def bind(self, X: NDArray[np.floating]) -> Self:
        d = X.shape[1]
        if self.weight == 0.0:
            raise ValueError(f"the weight of {self.name} is 0; leave the term out.")
        M0 = np.eye(d) if self.to is None else validation.check_positive_definite(f"to= of {self.name}", self.to, d)
        return replace(self, to=M0)

    def describe(self) -> str:
        return f"LogDet divergence from {'the identity' if self._is_identity else 'a given metric'}"

    @cached
    def target(self) -> FloatArray:
        return np.asarray(self.to, dtype=np.float64)

    @published
    def root(self) -> FloatArray:
        """A symmetric square root of M0, (d, d)."""
        return psd.root(self.target)

    @cached
    def prior(self) -> LogDetPrior:
        """M0 for bounds in floating point."""
        return LogDetPrior(self.target, self.root)

    @cached
    def inverse_root(self) -> FloatArray:
        """A symmetric square root of the inverse of M0, (d, d)."""
        return psd.root(self.target, -0.5)

    @property
    def zero(self) -> FloatArray:
        return self.target

    @property
    def outside(self) -> tuple[float, NDArray[np.intp]] | None:
        multiple, axes = psd.multiple_of_identity(self.target)
        return None if len(axes) else (multiple, axes)

    def toward(self, target: FloatArray) -> Self:
        return replace(self, to=target)

    def upper_bound_near(self, components: FloatArray, distance: float) -> float:
        """See `Regularizer.upper_bound_near`.

        With l the smallest eigenvalue of M, ``D(M + E, M0) <= D(M, M0) + <M0^-1 - M^-1, E> + x^2 / (2 (1 - x))`` for
        ``x = ||E|| / l < 1``, and ``M0^-1 - M^-1 = M0^-1 (M - M0) M^-1`` is 0 outside.
        """
        gram, c = Form.congruent(np.eye(len(components)), components), float(self.target[0, 0])
        smallest = min(gram.smallest_eigenvalue, c)
        share = above(distance / smallest, 2) if smallest > 0.0 else math.inf
        if not share < 0.5:
            return math.inf
        slope = above((norm_above(gram.matrix - self.target) + math.sqrt(len(self.target)) * gram.error) / c, 8)
        return above(self.upper_bound(components) + product_above(self.weight, share, above(slope + share, 4)), 2)

    @property
    def start(self) -> FloatArray:
        return self.root

    @property
    def linear_cost_root(self) -> FloatArray:
        return math.sqrt(self.weight) * self.inverse_root

    def value(self, components: FloatArray) -> float:
        """Return ``weight`` times the divergence; infinity for a singular metric."""
        return self._value(np.asarray(np.linalg.svd(components @ self.inverse_root, compute_uv=False)))

    def _value(self, sigma: FloatArray) -> float:
        if len(sigma) < len(self.target) or not (sigma > 0.0).all():
            return math.inf
        excess = sigma * sigma - 1.0
        # log1p keeps the digits near 1, log those near 0.
        logs = np.where(excess > -0.5, np.log1p(np.maximum(excess, -0.5)), 2.0 * np.log(sigma))
        return self.weight * float(np.sum(excess - logs))

    def upper_bound(self, components: FloatArray, errors: FloatArray | None = None) -> float:
        """See `Regularizer.upper_bound`.

        A factor within E of L has a metric between ``(1 - e)^2`` and ``(1 + e)^2`` of that of L, e being at least
        ``||E|| / sigma`` with the least singular value of L.
        """
        if len(components) < len(self.target):
            return math.inf
        divergence = self.prior.divergence(components)
        if errors is not None and errors.any():
            gram = Form.congruent(np.eye(len(components)), components).smallest_eigenvalue
            e = norm_above(errors) / math.sqrt(gram) * (1.0 + 1e-15) if gram > 0.0 else math.inf
            if not e < 0.5:
                return math.inf
            # The trace is at most twice the divergence plus 2 d, as x - log x - 1 >= x / 2 - 1.
            d = len(self.target)
            divergence += 2.0 * d * e / (1.0 - e) + (2.0 * e + e * e) * 2.0 * (divergence + d)
        return above(product_above(self.weight, divergence), 16)

    def upper_bound_at(self, metric: FloatArray, components: FloatArray) -> float:
        at_metric = above(product_above(self.weight, self.prior.divergence_of(metric)), 16)
        return max(at_metric, self.upper_bound(components))

    def slope(self, components: FloatArray) -> tuple[float, FloatArray]:
        """Return value and gradient from one singular value decomposition."""
        W, d = self.inverse_root, len(self.target)
        padded = np.zeros((max(d, len(components)), d))
        padded[: len(components)] = components @ W
        if not np.isfinite(padded).all():
            return math.inf, np.zeros((d, d))
        _, sigma, Vt = np.linalg.svd(padded, full_matrices=False)
        inverse = (Vt.T / np.maximum(sigma, SMALLEST_DIVISOR) ** 2) @ Vt
        return self._value(sigma), np.asarray(self.weight * (W @ (np.eye(d) - inverse) @ W))

    def inner_gap(self, components: FloatArray, gradient: FloatArray, tolerance: float) -> float:
        """Return ``w |e|^2 >= w sum(e - log(1 + e))`` for the eigenvalues e of ``L G L^T / w``, if ``|e| <= 1/2``."""
        residual = float(np.linalg.norm(components @ gradient @ components.T))
        return residual / self.weight * residual if residual <= 0.5 * self.weight else math.inf

    def conjugate(self, U: FloatArray) -> float:
        """Return ``-weight log det(I - R U R / weight)``, R a root of M0; infinity if that is not positive definite."""
        values, vectors = np.linalg.eigh(self.root @ (U / -self.weight) @ self.root)
        if not values[0] > -1.0:
            return math.inf
        P = np.ascontiguousarray(self.root @ (vectors / np.sqrt(1.0 + values)))
        return -self.minimum_below(Form.congruent(-U, P), P)

    def minimum(self, segment: Segment) -> InnerMinimum:
        return LogDetMinimum(self, segment)

    def minimum_below(self, S: Form, P: FloatArray) -> float:
        """Return a float not above ``w log det(I + M0 S / w)``, from the form ``P^T S P``.

        It is best for P with ``P^T (M0^-1 + S / w) P`` about the identity.
        """
        size = above(S.size / self.weight)
        scaled = Form(S.matrix / self.weight, above(S.error / self.weight + U * size, 3), size)
        return self._weighted_below(self.prior.log_det(P, scaled))

    def minimizer(self, S: FloatArray) -> FloatArray | None:
        values, vectors = np.linalg.eigh(S / self.weight + self.inverse_root @ self.inverse_root)
        return np.asarray((vectors / np.sqrt(values)).T) if values[0] > 0.0 else None

    def proof_slope(self, S: FloatArray, restricted: Callable[[FloatArray], FloatArray], margin: float) -> FloatArray:
        """Return ``w (M0^-1 - M^-1)`` at the minimizer, less a share m of ``w M^-1``, a margin of cost ``w d m``."""
        inverse = self.inverse_root @ self.inverse_root
        return psd.symmetrize(self.weight * (inverse - (1.0 - margin) * restricted(inverse + S / self.weight)))

    def minimum_over_weights(self, slack: FloatArray) -> float:
        """Return ``weight (sum_j log(K_jj + s_j / weight) + log det M0)``, rounded downward."""
        K = self.prior.inverse_diagonal
        if K is None:
            return -math.inf
        values = _without_underflow(slack / self.weight, slack)
        values = _without_underflow(values / np.where(slack > 0.0, K[1], K[0]), slack)
        values -= gamma(4) * np.abs(values)
        if not (values > -1.0).all():
            return -math.inf
        shift = [self.prior.log_det_matrix[0], *log_bounds(K[0])[0]]
        return self._weighted_below(sum_below(np.append(log1p_bounds(values)[0], shift)))

    def _weighted_below(self, divergence: float) -> float:
        value = self.weight * divergence
        return value - 2.0 * U * abs(value) if math.isfinite(divergence) else -math.inf

    def proof_term(self, a: FloatArray) -> ProofTerm:
        return ProofTerm({"term": self.name, "weight": self.weight}, {"slope": a, "to": self.target})

    def expression(self, M: Expression, cp: ModuleType) -> Expression:
        inverse = self.inverse_root @ self.inverse_root
        constant = -float(np.linalg.slogdet(inverse)[1]) - len(inverse)
        divergence: Expression = self.weight * (cp.sum(cp.multiply(inverse, M)) - cp.log_det(M) + constant)
        return divergence

    def dual_expression(self, U: Expression, cp: ModuleType) -> Expression:
        """See `conjugate`: ``weight * log det(I - R U R / weight)``."""
        R = cp.Constant(self.root)
        N = np.eye(len(self.root)) - R @ U @ R / self.weight
        value: Expression = self.weight * cp.log_det(0.5 * (N + N.T))
        return value

    def text(self) -> tuple[float, str]:
        product = "M" if self._is_identity else "M M0^-1"
        return self.weight, f"tr({product}) - log det({product}) - {len(self.target)}"

    def definitions(self, symbol: str) -> list[str]:
        return [] if self._is_identity else [f"M0 = {matrix(self.target)}"]

    def dual_text(self, name: str) -> DualText:
        product = divided(name if self._is_identity else f"M0 {name}", self.weight)
        return DualText(times(self.weight, f"log det(I - {product})"), name)

    @property
    def _is_identity(self) -> bool:
        return np.array_equal(self.target, np.eye(len(self.target)))


class LogDetMinimum(InnerMinimum):
    """``w log det N(t)``; its value leaves out ``w log det N(0)``. The spectrum is that of the head of this file.

    Near the end of a segment the proof may need a smaller multiple, by `retreats` as shares of the one before.
    """

    retreats: ClassVar[tuple[float, ...]] = (0.0, 1e-9, 1e-6, 1e-3, 1.0)

    def __init__(self, term: LogDet, segment: Segment) -> None:
        self.term, self.segment, R = term, segment, term.root
        start, stop = (segment.matrix(t) for t in (0.0, 1.0))
        N, direction = (R @ A @ R / term.weight for A in (start, stop - start))
        inverse = np.linalg.inv(np.linalg.cholesky(np.eye(len(R)) + N))
        self.spectrum, vectors = np.linalg.eigh(inverse @ direction @ inverse.T)
        self.transform = R @ inverse.T, vectors
        smallest = float(self.spectrum.min(initial=0.0))
        self.furthest = (1.0 - 1e-12) / -smallest if smallest < 0.0 else math.inf

    def value(self, t: float) -> float:
        return self.term.weight * float(np.log1p(np.maximum(t * self.spectrum, -1.0 + 1e-15)).sum())

    def proven(self, t: float) -> tuple[float, float]:
        root, vectors = self.transform
        for share in self.retreats:
            t = t * (1.0 - share)
            P = root @ (vectors / np.sqrt(np.maximum(1.0 + t * self.spectrum, SMALLEST_DIVISOR)))
            form = self.segment.form(self.segment.images(P), t)
            bound = self.term.minimum_below(form, P)
            if math.isfinite(bound) and self.segment.span is not None:
                bound = sum_below(np.array([bound, -self._outside(form, P, t, self.segment.span)]))
            if math.isfinite(bound):
                return t, bound
        return t, -math.inf

    def _outside(self, form: Form, P: FloatArray, t: float, span: Span) -> float:
        """Return how far the minimum over all metrics may be below that in coordinates of a span."""
        c, weight, (first, second) = span.multiple, self.term.weight, self.segment.spill(t)
        unit = product_above(c, above(1.0 / weight))
        scaled = replace(form, error=above(form.error + 32.0 * U * form.size, 2)).times(unit)  # unit: by up to 17 u
        smallest = (Form.congruent(np.eye(len(P)), P) + scaled).smallest_eigenvalue  # of P^T A P
        size = squares_above(P)
        if not (smallest > 0.0 and span.skew < min(0.5, 0.5 * smallest / size)):
            return math.inf
        norm = above(metric_norm_above(P.T) / smallest, 2)  # of A^-1
        largest = above(size / smallest, 2)
        skewed = product_above(span.skew, largest)
        complement = above(product_above(unit, second) + 4.0 * product_above(unit, first, unit, first, largest), 4)
        if not complement < 0.5:
            return math.inf
        roots = math.sqrt(len(P)) * (1.0 + 1e-15)
        return product_above(weight, above(span.skew * (norm + roots) + skewed * skewed + 2.0 * complement, 8))


def _without_underflow(values: FloatArray, signs: FloatArray) -> FloatArray:
    """Return quotients of given signs, lowered if they may have underflowed."""
    return np.where(np.abs(values) < UNDERFLOW, np.where(signs < 0.0, -UNDERFLOW, 0.0), values)
