"""The cones that metrics of a sum are taken from: ``M = B^T N B`` with N PSD, block diagonal, or diagonal.

Metrics of several tasks with a shared part, ``M_c = sharing M_0 + N_c``, are one block diagonal metric of lifted data:
each example is ``(x, 0, .., x, .., 0)`` with the second x in the block of its task. With the first block multiplied by
``sqrt(sharing)`` two examples of a task are at the squared distance that M_c gives them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import nnls

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation
from sdpmetric.core.problem import NOT_STATED
from sdpmetric.engine.cached import cached
from sdpmetric.engine.interface import check_last
from sdpmetric.linalg import exact
from sdpmetric.linalg.rigorous.directed import gamma
from sdpmetric.sums.terms.base import errors_of

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
    blocks : tuple of (k_b,) int arrays
        Coordinates of each diagonal block of N, () for one block.
    sharing : float
        Of metrics with a shared part, how much cheaper a trace of 1 is in it than in the parts of single tasks.
    tasks : (n,) int array or None
        The number of the task of each example.
    """

    basis: FloatArray
    diagonal: bool
    kind: str
    blocks: tuple[NDArray[np.intp], ...] = ()
    sharing: float = 1.0
    tasks: NDArray[np.intp] | None = field(default=None, metadata=NOT_STATED)

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

    @classmethod
    def of_tasks(cls, d: int, n_tasks: int, sharing: float) -> Domain:
        """Metrics ``M_c = sharing M_0 + N_c`` of tasks, as diagonal blocks ``M_0, N_1, N_2, ..``; see `lift_tasks`."""
        blocks = tuple(np.arange(b * d, (b + 1) * d) for b in range(n_tasks + 1))
        return cls(np.eye(d * (n_tasks + 1)), False, f"metrics of {n_tasks} tasks with a shared part", blocks, sharing)

    @cached
    def scales(self) -> FloatArray | None:
        """What metrics of tasks multiply the features by; None: nothing. It is not exact, so data are not scaled."""
        if self.sharing == 1.0:
            return None
        scales = np.ones(self.basis.shape[1])
        scales[self.blocks[0]] = math.sqrt(self.sharing)
        return scales

    @property
    def all_blocks(self) -> tuple[NDArray[np.intp], ...]:
        """The coordinates of each block, also where there is one."""
        return self.blocks or (np.arange(len(self.basis)),)

    def block_diagonal(self, A: FloatArray) -> FloatArray:
        """The entries of a (k, k) matrix that products with N depend on, 0 elsewhere."""
        if self.diagonal:
            return np.diag(np.diag(A))
        if not self.blocks:
            return A
        restricted = np.zeros_like(A)
        for block in self.blocks:
            restricted[np.ix_(block, block)] = A[np.ix_(block, block)]
        return restricted

    @property
    def is_full_cone(self) -> bool:
        return self.has_identity_basis and not self.diagonal and not self.blocks

    @property
    def has_identity_basis(self) -> bool:
        return self.basis.shape[0] == self.basis.shape[1] and np.array_equal(self.basis, np.eye(len(self.basis)))

    @property
    def is_orthonormal(self) -> bool:
        """Whether the rows of B are orthonormal, so norms of M and N are the same."""
        return not self.diagonal or self.has_identity_basis

    def member_beside(self, components: FloatArray) -> tuple[FloatArray, FloatArray | None] | None:
        """A factor of a metric near by that is exactly in the domain, and its error; None where the given one is."""
        if self.is_full_cone:
            return None
        if self.diagonal and self.has_identity_basis:
            if (np.count_nonzero(components, axis=1) <= 1).all():
                return None
            return np.diag(np.sqrt(np.diag(components.T @ components))), None
        if self.blocks:
            factors = np.zeros((len(self.blocks), *components.shape))
            for factor, block in zip(factors, self.blocks, strict=True):
                factor[:, block] = components[:, block]
            is_member = (factors.any(axis=2).sum(axis=0) <= 1).all()
            return None if is_member else (factors.reshape(-1, components.shape[1]), None)
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
        check_last(float(self.basis.size) ** 2)  # products of vectors' products with each other
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


def lift_tasks(
    X: NDArray[np.floating], tasks: ArrayLike, sharing: float
) -> tuple[NDArray[np.floating], NDArray[np.intp], Domain]:
    """Lifted data, the number of the task of each example, and the domain of block diagonal metrics."""
    validation.check_positive("sharing", sharing)
    with errors_of("tasks"):
        names, index = validation.check_labels(tasks, len(X), n_classes=1)
    n, d = X.shape
    lifted = np.zeros((n, len(names) + 1, d), dtype=X.dtype)
    lifted[:, 0] = X
    lifted[np.arange(n), index + 1] = X
    numbers = index.astype(np.intp)
    return lifted.reshape(n, -1), numbers, replace(Domain.of_tasks(d, len(names), float(sharing)), tasks=numbers)
