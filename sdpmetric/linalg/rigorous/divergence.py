"""The LogDet divergence from a given metric, and log determinants relative to it, all rounding included."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sdpmetric.arrays import FloatArray
from sdpmetric.engine.lazy import cached
from sdpmetric.linalg import psd
from sdpmetric.linalg.rigorous.directed import (
    above,
    below,
    congruence,
    gamma,
    log_det,
    log_det_balanced,
    log_det_gram,
    norm_above,
    sum_above,
    sum_below,
)
from sdpmetric.linalg.rigorous.forms import Form


@dataclass(frozen=True, eq=False)
class LogDetPrior:
    """A positive definite matrix of floats A_0, the prior of LogDet divergences.

    With K about ``T^-T`` and ``K^T A_0 K = I + Y``, ``||Y|| <= r``, the inverse of A_0 lies between ``K K^T / (1 + r)``
    and ``K K^T / (1 - r)``.
    """

    matrix: FloatArray  # (d, d): A_0, symmetric, taken as exact
    root: FloatArray  # (d, d): T with ``T T^T`` about it

    @cached
    def _is_identity(self) -> bool:
        """Whether matrix and root are the identity, so nothing is rounded."""
        eye = np.eye(len(self.matrix))
        return np.array_equal(self.matrix, eye) and np.array_equal(self.root, eye)

    @cached
    def _inverse(self) -> tuple[FloatArray, FloatArray, float, float]:
        """K, ``K^T A_0 K`` as computed, a bound of its error in the Frobenius norm, and r; infinite if unknown."""
        eye = np.eye(len(self.matrix))
        if self._is_identity:
            return eye, eye, 0.0, 0.0
        try:
            K = np.ascontiguousarray(np.linalg.inv(self.root).T)
        except np.linalg.LinAlgError:
            return eye, eye, math.inf, math.inf
        B, E = congruence(self.matrix, K)
        error = norm_above(E)
        return K, B, error, above(norm_above(B - eye) + error, 3)

    @cached
    def inverse_diagonal(self) -> tuple[FloatArray, FloatArray] | None:
        """Floats below and above the diagonal of the inverse of A_0.

        Return None if A_0 is singular up to rounding, as every divergence from it then counts as infinite, or if the
        diagonal is below 1e-300.
        """
        K, _, _, r = self._inverse
        if not r < 0.5:
            return None
        if self._is_identity:
            return np.ones(len(K)), np.ones(len(K))
        squares, g = np.einsum("ij,ij->i", K, K), gamma(len(K) + 8)
        if not (squares > 1e-300).all():
            return None
        return squares * (1.0 - g) / (1.0 + r), squares * (1.0 + g) / (1.0 - r)

    @cached
    def log_det_matrix(self) -> tuple[float, float]:
        return (0.0, 0.0) if self._is_identity else log_det(self.matrix)

    def divergence(self, components: FloatArray) -> float:
        """Return a float not below ``trace(A A_0^-1) - log det(A A_0^-1) - d``, A the exact metric of a factor.

        Near A_0 it is bounded by ``||X||_F^2 / (2 (1 - ||X||))``, with ``I + X`` the metric in coordinates
        that turn A_0 into the identity.
        """
        K, _, _, r = self._inverse
        if not r < 0.5:
            return math.inf
        B, E = self._product(components, K)
        size = np.abs(B) + E
        trace, volume = above(float(np.sum(size * size)), B.size + 8), log_det_gram(components)[0]
        return self._divergence(trace, volume, B.T @ B, norm_above(self._gram_errors(size, E)))

    def divergence_of(self, metric: FloatArray) -> float:
        """Return a float not below the divergence of a metric of floats, infinite if it is not proven to be regular."""
        K, _, _, r = self._inverse
        if not r < 0.5:
            return math.inf
        B, E = congruence(psd.symmetrize(metric), K)
        trace = above(sum_above(np.append(np.diag(B), np.diag(E))), 2)
        return self._divergence(trace, log_det_balanced(psd.symmetrize(metric))[0], B, norm_above(E))

    def _divergence(self, trace: float, volume: float, gram: FloatArray, radius: float) -> float:
        """Bound the divergence by trace and ``log det``, or near A_0 by the distance of the metric from it."""
        _, inner, error, r = self._inverse
        terms = [above(trace / (1.0 - r), 4), -volume, self.log_det_matrix[1], -len(inner)]
        by_terms = sum_above(np.array(terms)) if volume > -math.inf else math.inf
        radius = above((norm_above(gram - inner) + error + radius) / (1.0 - r), 12)
        return min(by_terms, above(radius * radius / (2.0 * (1.0 - radius)), 8)) if radius < 0.5 else by_terms

    def log_det(self, P: FloatArray, form: Form) -> float:
        """Return a float not above ``log det(I + A_0 F)``, minus infinity if nothing is proven.

        As ``A_0^-1 >= K K^T / (1 + r)``, it is at least
        ``log det(P^T (K K^T / (1 + r) + F) P) - log det(P^T P) + log det A_0``.
        """
        K, _, _, r = self._inverse
        if not r < 0.5:
            return -math.inf
        N, E = self._product(np.ascontiguousarray(K.T), P)
        size = np.abs(N) + E
        inner = Form(N.T @ N, norm_above(self._gram_errors(size, E)), above(float(np.sum(size * size)), N.size + 4))
        value, scale = (inner.times(below(1.0 / (1.0 + r), 2)) + form).log_det[0], log_det_gram(P)[1]
        if not (math.isfinite(value) and math.isfinite(scale)):
            return -math.inf
        return sum_below(np.array([value, -scale, self.log_det_matrix[0]]))

    def _product(self, A: FloatArray, B: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return a product with the factor K, and the largest errors of its entries."""
        product = A @ B
        if self._is_identity:
            return product, np.zeros_like(product)
        return product, gamma(len(B) + 4) * (np.abs(A) @ np.abs(B)) + 1e-300

    @staticmethod
    def _gram_errors(size: FloatArray, errors: FloatArray) -> FloatArray:
        """Bound the errors of a Gram matrix's entries, by errors of the rows' entries and sizes that include these."""
        bounds = gamma(len(size) + 8) * (size.T @ size) + 2.0 * (size.T @ errors)
        return np.asarray(np.maximum(bounds, bounds.T) * (1.0 + gamma(len(size) + 8)))
