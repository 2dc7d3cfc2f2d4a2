"""The LogDet divergence of a metric from a given one."""

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
from sdpmetric.linalg.rigorous import (
    Form,
    U,
    above,
    gamma,
    log1p_bounds,
    log_bounds,
    norm_above,
    product_above,
    sum_below,
)
from sdpmetric.linalg.rigorous.divergence import LogDetPrior
from sdpmetric.losses import Expression
from sdpmetric.sums.terms.base import Regularizer

FloatArray = NDArray[np.float64]

# Singular values are taken as at least this where a slope is asked for at a singular metric.
SMALLEST = 1e-100
# Quotients below this count as 0, or as minus this: underflow is not relative to them.
FAINT = 1e-290


@dataclass(frozen=True, eq=False, repr=False)
class LogDet(Regularizer):
    """``trace(M M0^-1) - log det(M M0^-1) - d``, as in ITML [DKJSD2007] and LEGO [JKDG2008].

    It is infinite for singular metrics, and does not change if data and M0 are expressed in other coordinates.

    Parameters
    ----------
    to : (d, d) array, optional
        Positive definite ``M0``; default: the identity.
    weight : float, default 1
    """

    to: ArrayLike | None = None

    name: ClassVar[str] = "log_det"
    barrier: ClassVar[bool] = True

    def bind(self, X: NDArray[np.floating]) -> Self:
        """Check M0 against data."""
        d = X.shape[1]
        if self.weight == 0.0:
            raise ValueError(f"the weight of {self.name} is 0; leave the term out.")
        M0 = np.eye(d) if self.to is None else validation.check_positive_definite(f"to= of {self.name}", self.to, d)
        return replace(self, to=M0)

    def describe(self) -> str:
        """Say in a few words what the term is."""
        plain = np.array_equal(self.target, np.eye(len(self.target)))
        return f"LogDet divergence from {'the identity' if plain else 'a given metric'}"

    @cached
    def target(self) -> FloatArray:
        """``M0``."""
        return np.asarray(self.to, dtype=np.float64)

    @cached
    def root(self) -> FloatArray:
        """A symmetric square root of M0, (d, d)."""
        if np.array_equal(self.target, np.eye(len(self.target))):
            return self.target
        values, vectors = np.linalg.eigh(self.target)
        return np.asarray((vectors * np.sqrt(values)) @ vectors.T)

    @cached
    def prior(self) -> LogDetPrior:
        """M0 for bounds in floating point."""
        return LogDetPrior.of(self.target, self.root)

    @cached
    def inverse_root(self) -> FloatArray:
        """A symmetric square root of the inverse of M0, (d, d)."""
        values, vectors = np.linalg.eigh(self.target)
        return np.asarray((vectors / np.sqrt(values)) @ vectors.T)

    @property
    def zero(self) -> FloatArray:
        """``M0``."""
        return self.target

    def value(self, components: FloatArray) -> float:
        """``weight`` times the divergence; infinity for a singular metric."""
        return self._value(np.asarray(np.linalg.svd(components @ self.inverse_root, compute_uv=False)))

    def _value(self, sigma: FloatArray) -> float:
        if len(sigma) < len(self.target) or not (sigma > 0.0).all():
            return math.inf
        more = sigma * sigma - 1.0
        # log1p keeps the digits near 1, log those near 0.
        logs = np.where(more > -0.5, np.log1p(np.maximum(more, -0.5)), 2.0 * np.log(sigma))
        return self.weight * float(np.sum(more - logs))

    def highest(self, components: FloatArray, errors: FloatArray | None = None) -> float:
        """See `Regularizer.highest`.

        A factor within E of L has a metric between ``(1 - e)^2`` and ``(1 + e)^2`` of that of L, e being at least
        ``||E|| / sigma`` with the least singular value of L.
        """
        found = self.prior.divergence(components)
        if errors is not None and errors.any():
            gram = Form.congruent(np.eye(len(components)), components).least
            e = norm_above(errors) / math.sqrt(gram) * (1.0 + 1e-15) if gram > 0.0 else math.inf
            if not e < 0.5:
                return math.inf
            # The trace is at most twice the divergence plus 2 d, as x - log x - 1 >= x / 2 - 1.
            d = len(self.target)
            found += 2.0 * d * e / (1.0 - e) + (2.0 * e + e * e) * 2.0 * (found + d)
        return above(product_above(self.weight, found), 16)

    def highest_near(self, metric: FloatArray, components: FloatArray, off: FloatArray) -> float:
        """See `Regularizer.highest_near`."""
        return max(above(product_above(self.weight, self.prior.divergence_of(metric)), 16), self.highest(components))

    def gradient(self, components: FloatArray) -> FloatArray:
        """``weight (M0^-1 - M^-1)``."""
        return self.slope(components)[1]

    def slope(self, components: FloatArray) -> tuple[float, FloatArray]:
        """Value and gradient from one singular value decomposition."""
        W, d = self.inverse_root, len(self.target)
        padded = np.zeros((max(d, len(components)), d))
        padded[: len(components)] = components @ W
        if not np.isfinite(padded).all():
            return math.inf, np.zeros((d, d))
        _, sigma, Vt = np.linalg.svd(padded, full_matrices=False)
        inverse = (Vt.T / np.maximum(sigma, SMALLEST) ** 2) @ Vt
        return self._value(sigma), np.asarray(self.weight * (W @ (np.eye(d) - inverse) @ W))

    def conjugate(self, U: FloatArray) -> float:
        """``-weight log det(I - R U R / weight)`` for a root R of M0; infinity if that is not positive definite."""
        values, vectors = np.linalg.eigh(self.root @ (U / -self.weight) @ self.root)
        if not values[0] > -1.0:
            return math.inf
        P = np.ascontiguousarray(self.root @ (vectors / np.sqrt(1.0 + values)))
        return -self.least(Form.congruent(-U, P), P)

    def least(self, S: Form, P: FloatArray) -> float:
        """The least of ``<S, M> + value(M)``, ``weight log det(I + M0 S / weight)``, rounded downward.

        Parameters
        ----------
        S : Form
            ``P^T S P``.
        P : (d, d) array
            Best one for which ``P^T (M0^-1 + S / weight) P`` is about the identity.
        """
        size = above(S.size / self.weight)
        return self._weighted(
            self.prior.log_det(P, Form(S.matrix / self.weight, above(S.error / self.weight + U * size, 3), size))
        )

    @property
    def over_weights(self) -> tuple[float, FloatArray, float, float] | None:
        """``weight (K_jj w_j - log w_j)``, K the inverse of M0, and what does not depend on w."""
        K, constant = self.prior.inverse_diagonal, self.prior.log_det_matrix[0] - len(self.target)
        return None if K is None else (0.0, self.weight * K[0], self.weight, self.weight * constant)

    def least_over_weights(self, slack: FloatArray) -> float:
        """``weight (sum_j log(K_jj + s_j / weight) + log det M0)``, rounded downward."""
        K = self.prior.inverse_diagonal
        if K is None:
            return -math.inf
        values = _without_underflow(slack / self.weight, slack)
        values = _without_underflow(values / np.where(slack > 0.0, K[1], K[0]), slack)
        values -= gamma(4) * np.abs(values)
        if not (values > -1.0).all():
            return -math.inf
        shift = [self.prior.log_det_matrix[0], *log_bounds(K[0])[0]]
        return self._weighted(sum_below(np.append(log1p_bounds(values)[0], shift)))

    def _weighted(self, found: float) -> float:
        """A number times the weight, rounded downward."""
        value = self.weight * found
        return value - 2.0 * U * abs(value) if math.isfinite(found) else -math.inf

    def part(self, a: FloatArray) -> Part:
        """See `Term.part`."""
        return Part({"term": self.name, "weight": self.weight}, {"slope": a, "to": self.target})

    def expression(self, M: Expression, cp: ModuleType) -> Expression:
        """``weight`` times the divergence."""
        inverse = self.inverse_root @ self.inverse_root
        constant = -float(np.linalg.slogdet(inverse)[1]) - len(inverse)
        found: Expression = self.weight * (cp.sum(cp.multiply(inverse, M)) - cp.log_det(M) + constant)
        return found


def _without_underflow(values: FloatArray, signs: FloatArray) -> FloatArray:
    """Quotients of given signs, lowered where they may have underflowed."""
    return np.where(np.abs(values) < FAINT, np.where(signs < 0.0, -FAINT, 0.0), values)
