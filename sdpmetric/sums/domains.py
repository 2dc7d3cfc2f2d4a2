"""The cones that metrics of a sum are taken from: ``M = B^T N B`` with N PSD or diagonal."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import nnls

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation
from sdpmetric.linalg import exact
from sdpmetric.linalg.rigorous.directed import gamma

# How far a metric may be from the cone, relative to its size, and count as in it.
MEMBERSHIP_TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False)
class Domain:
    """A cone of metrics ``M = B^T N B``.

    Attributes
    ----------
    basis : (k, d) array
        B: the identity for all metrics or those of features' weights, or vectors b_j whose combinations
        ``sum_j w_j b_j b_j^T`` are meant.
    diagonal : bool
        Whether N is diagonal with entries >= 0; else it is PSD.
    kind : str
        In words.
    """

    basis: FloatArray
    diagonal: bool
    kind: str

    @classmethod
    def of(cls, d: int, diagonal: bool = False, bases: ArrayLike | None = None) -> Domain:
        """The domain that a sum is stated with; at most one of the arguments may be used."""
        if diagonal and bases is not None:
            raise ValueError("diagonal= and bases= exclude each other; pass at most one of them.")
        if bases is not None:
            B = np.ascontiguousarray(validation.real_array("bases", bases))
            if B.ndim != 2 or B.shape[1] != d or not B.size or not np.isfinite(B).all() or not B.any():
                shape = f"(k, d), a vector in each row, with d = {d}"
                raise ValueError(f"bases must be a finite array of shape {shape}; got shape {B.shape}.")
            validation.check_entries("bases", B)
            return cls(B, True, f"nonnegative combinations of {len(B):,} rank-one metrics")
        return cls(np.eye(d), bool(diagonal), "weights of features" if diagonal else "all metrics")

    def restricted(self, A: FloatArray) -> FloatArray:
        """The entries of a (k, k) matrix that products with N depend on, 0 elsewhere."""
        return np.diag(np.diag(A)) if self.diagonal else A

    @property
    def is_full_cone(self) -> bool:
        return not self.diagonal

    @property
    def has_identity_basis(self) -> bool:
        return self.basis.shape[0] == self.basis.shape[1] and np.array_equal(self.basis, np.eye(len(self.basis)))

    @property
    def is_orthonormal(self) -> bool:
        """Whether the rows of B are orthonormal, so norms of M and N are the same."""
        return self.has_identity_basis

    def member_beside(self, components: FloatArray) -> tuple[FloatArray, FloatArray | None] | None:
        """A factor of a metric near by that is exactly in the domain, and its error; None where the given one is."""
        if self.is_full_cone:
            return None
        if self.has_identity_basis:
            if (np.count_nonzero(components, axis=1) <= 1).all():
                return None
            return np.diag(np.sqrt(np.diag(components.T @ components))), None
        if self._consists_of_basis(components):
            return None
        roots = np.sqrt(self._weights_of(components))[:, None]
        return roots * self.basis, gamma(4) * roots * np.abs(self.basis)

    def _consists_of_basis(self, components: FloatArray) -> bool:
        """Whether each row of a factor is exactly a multiple of a vector of the basis."""
        rows = components[components.any(axis=1)]
        lengths = np.maximum(np.linalg.norm(self.basis, axis=1), 1e-300)
        vectors = self.basis[np.argmax(np.abs(rows @ (self.basis / lengths[:, None]).T), axis=1)]
        (R, _), (B, _), k, pivot = exact.whole(rows), exact.whole(vectors), np.arange(len(rows)), np.abs(rows).argmax(1)
        return bool(np.all(R * B[k, pivot][:, None] == B * R[k, pivot][:, None]))

    def combination(self, M: FloatArray) -> FloatArray:
        """The weights w >= 0 with ``sum_j w_j b_j b_j^T`` nearest a metric in the Frobenius norm, (k,)."""
        if self.has_identity_basis:
            return np.maximum(np.diag(M), 0.0)
        size = float(np.abs(M).max()) or 1.0
        products = (self.basis[:, :, None] * self.basis[:, None, :]).reshape(len(self.basis), -1)
        lengths = np.maximum(np.linalg.norm(products, axis=1), 1e-300)
        weights, _ = nnls((products / lengths[:, None]).T, (M / size).ravel(), maxiter=30 * len(products))
        return np.asarray(size * weights / lengths)

    def _weights_of(self, components: FloatArray) -> FloatArray:
        """See `combination`; where the rows of a factor are multiples of vectors of the basis, from these."""
        B, rows = self.basis, components[components.any(axis=1)]
        squares, products = np.maximum(np.einsum("ij,ij->i", B, B), 1e-300), rows @ B.T
        vectors = np.argmax(products * products / squares, axis=1)
        scale = products[np.arange(len(rows)), vectors] / squares[vectors]
        errors = np.linalg.norm(rows - scale[:, None] * B[vectors], axis=1)
        if not (errors <= MEMBERSHIP_TOLERANCE * np.linalg.norm(rows, axis=1)).all():
            return self.combination(components.T @ components)
        return np.bincount(vectors, scale * scale, len(B)).astype(np.float64)

    def check(self, components: FloatArray) -> float:
        """How far a metric is from the cone, relative to its size, an error where it is clearly outside."""
        M, member = components.T @ components, self.member_beside(components)
        if member is None or not M.any():
            return 0.0
        residual = float(np.abs(M - member[0].T @ member[0]).max() / np.abs(M).max())
        if residual > MEMBERSHIP_TOLERANCE:
            raise ValueError(
                f"metric is {residual:.2g} of its size away from the domain of the problem ({self.kind}); pass a "
                "metric of that domain, or state the problem without the restriction."
            )
        return residual
