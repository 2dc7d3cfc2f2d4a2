"""The cones that metrics of a sum are taken from, in coordinates: ``M = B^T N B`` with N PSD, or diagonal and >= 0."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import nnls

from sdpmetric.core import validation
from sdpmetric.linalg import psd

FloatArray = NDArray[np.float64]

# How far a metric may be from the cone, relative to its size, and count as in it.
OUTSIDE = 1e-6


@dataclass(frozen=True, eq=False)
class Domain:
    """A cone of metrics ``M = B^T N B``.

    Attributes
    ----------
    basis : (k, d) array
        B: the identity for all metrics or those of features' weights, orthonormal rows for a subspace, or vectors b_j
        whose combinations ``sum_j w_j b_j b_j^T`` are meant.
    diagonal : bool
        Whether N is diagonal with entries >= 0; else it is PSD.
    kind : str
        In words.
    """

    basis: FloatArray
    diagonal: bool
    kind: str

    @classmethod
    def of(
        cls, d: int, diagonal: bool = False, subspace: ArrayLike | None = None, bases: ArrayLike | None = None
    ) -> Domain:
        """The domain of given arguments, of which one at most may be used.

        Raises
        ------
        ValueError
            If more than one is used, or an array has the wrong shape.
        """
        if bool(diagonal) + (subspace is not None) + (bases is not None) > 1:
            raise ValueError("diagonal=, subspace= and bases= exclude each other; pass one of them at most.")
        if subspace is not None:
            P = _matrix("subspace", subspace, d, "(d, k), its columns span the subspace", axis=0)
            Q, sigma, _ = np.linalg.svd(P, full_matrices=False)
            rank = int(np.count_nonzero(sigma > psd.RANK_TOLERANCE * sigma[0]))
            return cls(np.ascontiguousarray(Q[:, :rank].T), False, f"metrics of a subspace of dimension {rank}")
        if bases is not None:
            B = _matrix("bases", bases, d, "(k, d), a vector in each row", axis=1)
            return cls(B, True, f"nonnegative combinations of {len(B):,} rank-one metrics")
        return cls(np.eye(d), bool(diagonal), "weights of features" if diagonal else "all metrics")

    @property
    def plain(self) -> bool:
        """Whether B is the identity."""
        return self.basis.shape[0] == self.basis.shape[1] and np.array_equal(self.basis, np.eye(len(self.basis)))

    @property
    def orthonormal(self) -> bool:
        """Whether the rows of B are orthonormal, so that norms of M and N are the same."""
        return not self.diagonal or self.plain

    def residual(self, components: FloatArray) -> float:
        """How far a metric is from the cone, relative to its size."""
        M = components.T @ components
        size = float(np.abs(M).max(initial=0.0))
        if size == 0.0 or (self.plain and not self.diagonal):
            return 0.0
        if self.plain:
            nearest = np.diag(np.diag(M))
        elif not self.diagonal:
            nearest = self.basis.T @ (self.basis @ M @ self.basis.T) @ self.basis
        else:
            products = (self.basis[:, :, None] * self.basis[:, None, :]).reshape(len(self.basis), -1)
            lengths = np.maximum(np.linalg.norm(products, axis=1), 1e-300)
            weights, _ = nnls((products / lengths[:, None]).T, (M / size).ravel(), maxiter=30 * len(products))
            nearest = size * (weights @ (products / lengths[:, None])).reshape(M.shape)
        return float(np.abs(M - nearest).max()) / size

    def check(self, components: FloatArray) -> float:
        """The relative distance of a metric from the cone.

        Raises
        ------
        ValueError
            If it is not in the cone.
        """
        off = self.residual(components)
        if off > OUTSIDE:
            raise ValueError(
                f"metric is {off:.2g} of its size away from the domain of the problem ({self.kind}); pass one of them, "
                "or state the problem without that restriction."
            )
        return off


def _matrix(name: str, given: ArrayLike, d: int, wanted: str, axis: int) -> FloatArray:
    array = np.asarray(given, dtype=np.float64)
    if array.ndim != 2 or array.shape[axis] != d or not array.size or not np.isfinite(array).all() or not array.any():
        raise ValueError(f"{name} must be a finite array of shape {wanted}, with d = {d}; got shape {array.shape}.")
    validation.check_entries(name, array)
    return np.ascontiguousarray(array)
