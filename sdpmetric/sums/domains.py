"""The cones that metrics of a sum are taken from, in coordinates.

``M = B^T N B`` with N PSD, or PSD and block diagonal, or diagonal with entries >= 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import nnls

from sdpmetric.core import validation
from sdpmetric.core.digest import NOT_STATED
from sdpmetric.engine.cached import cached
from sdpmetric.linalg.rigorous import gamma

FloatArray = NDArray[np.float64]

# How far a metric may be from the cone, relative to its size, and count as in it.
OUTSIDE = 1e-6


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
        """The domain of given arguments, of which one at most may be used."""
        if diagonal and bases is not None:
            raise ValueError("diagonal= and bases= exclude each other; pass at most one of them.")
        if bases is not None:
            B = _vectors(bases, d)
            return cls(B, True, f"nonnegative combinations of {len(B):,} rank-one metrics")
        return cls(np.eye(d), bool(diagonal), "weights of features" if diagonal else "all metrics")

    @classmethod
    def of_tasks(cls, d: int, n_tasks: int, sharing: float) -> Domain:
        """Metrics ``M_c = sharing M_0 + N_c`` of tasks, as diagonal blocks ``M_0, N_1, N_2, ..``; see `lift_tasks`."""
        blocks = tuple(np.arange(b * d, (b + 1) * d) for b in range(n_tasks + 1))
        return cls(np.eye(d * (n_tasks + 1)), False, f"metrics of {n_tasks} tasks with a shared part", blocks, sharing)

    @cached
    def scales(self) -> FloatArray | None:
        """What metrics of tasks multiply the features by: the root of `sharing` in the shared block; None: nothing."""
        if self.sharing == 1.0:
            return None
        scales = np.ones(self.basis.shape[1])
        scales[self.blocks[0]] = math.sqrt(self.sharing)
        return scales

    @property
    def parts(self) -> tuple[NDArray[np.intp], ...]:
        """The coordinates of each block; all of them if there is one."""
        return self.blocks or (np.arange(len(self.basis)),)

    def pinched(self, A: FloatArray) -> FloatArray:
        """The diagonal blocks of a (k, k) matrix, 0 elsewhere; of weights, its diagonal."""
        if self.diagonal:
            return np.diag(np.diag(A))
        if not self.blocks:
            return A
        out = np.zeros_like(A)
        for part in self.blocks:
            out[np.ix_(part, part)] = A[np.ix_(part, part)]
        return out

    @property
    def whole(self) -> bool:
        """Whether it is all metrics."""
        return self.plain and not self.diagonal and not self.blocks

    @property
    def plain(self) -> bool:
        """Whether B is the identity."""
        return self.basis.shape[0] == self.basis.shape[1] and np.array_equal(self.basis, np.eye(len(self.basis)))

    @property
    def orthonormal(self) -> bool:
        """Whether the rows of B are orthonormal, so norms of M and N are the same."""
        return not self.diagonal or self.plain

    def nearest(self, components: FloatArray) -> tuple[FloatArray, FloatArray | None] | None:
        """A factor of a metric near by that is exactly in the domain; None where that of the components is."""
        M = components.T @ components
        if self.whole:
            return None
        if self.diagonal and self.plain:
            alone = (np.count_nonzero(components, axis=1) <= 1).all()
            return None if alone else (np.diag(np.sqrt(np.diag(M))), None)
        if self.blocks:
            parts = np.zeros((len(self.blocks), *components.shape))
            for own, part in zip(parts, self.blocks, strict=True):
                own[:, part] = components[:, part]
            alone = (parts.any(axis=2).sum(axis=0) <= 1).all()
            return None if alone else (parts.reshape(-1, components.shape[1]), None)
        roots = np.sqrt(self._weights_of(components))[:, None]
        return roots * self.basis, gamma(4) * roots * np.abs(self.basis)

    def residual(self, components: FloatArray) -> float:
        """How far a metric is from the cone, relative to its size."""
        M = components.T @ components
        size = float(np.abs(M).max(initial=0.0))
        if size == 0.0 or self.whole:
            return 0.0
        if self.blocks:
            nearest = self.pinched(M)
        elif self.plain:
            nearest = np.diag(np.diag(M))
        else:
            nearest = (self.basis.T * self._weights_of(components)) @ self.basis
        return float(np.abs(M - nearest).max()) / size

    def combination(self, M: FloatArray) -> FloatArray:
        """The weights w >= 0 with ``sum_j w_j b_j b_j^T`` nearest a metric in the Frobenius norm, (k,)."""
        if self.plain:
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
        which = np.argmax(products * products / squares, axis=1)
        scale = products[np.arange(len(rows)), which] / squares[which]
        off = np.linalg.norm(rows - scale[:, None] * B[which], axis=1)
        if not (off <= OUTSIDE * np.linalg.norm(rows, axis=1)).all():
            return self.combination(components.T @ components)
        return np.bincount(which, scale * scale, len(B)).astype(np.float64)

    def check(self, components: FloatArray) -> float:
        """The relative distance of a metric from the cone."""
        off = self.residual(components)
        if off > OUTSIDE:
            raise ValueError(
                f"metric is {off:.2g} of its size away from the domain of the problem ({self.kind}); pass a metric "
                "of that domain, or state the problem without the restriction."
            )
        return off


def lift_tasks(
    X: NDArray[np.floating], tasks: ArrayLike, sharing: float
) -> tuple[NDArray[np.floating], NDArray[np.intp], Domain]:
    """Data in which several metrics with a shared part are one block diagonal metric.

    Each example is ``(x, 0, .., x, .., 0)`` with the second x in the block of its task. With the first block multiplied
    by ``sqrt(sharing)``, which is left to `Domain.scales` as it is not exact, two examples of one task are at the
    squared distance ``D`` under ``sharing M_0 + N_c``.
    """
    validation.check_positive("sharing", sharing)
    try:
        names, index = validation.check_labels(tasks, len(X), n_classes=1)
    except ValueError as error:
        raise ValueError(f"tasks: {error}") from error
    n, d = X.shape
    lifted = np.zeros((n, len(names) + 1, d), dtype=X.dtype)
    lifted[:, 0] = X
    lifted[np.arange(n), index + 1] = X
    number = index.astype(np.intp)
    return lifted.reshape(n, -1), number, replace(Domain.of_tasks(d, len(names), float(sharing)), tasks=number)


def _vectors(given: ArrayLike, d: int) -> FloatArray:
    array = np.asarray(given, dtype=np.float64)
    if array.ndim != 2 or array.shape[1] != d or not array.size or not np.isfinite(array).all() or not array.any():
        wanted = f"bases must be a finite array of shape (k, d), a vector in each row, with d = {d}"
        raise ValueError(f"{wanted}; got shape {array.shape}.")
    validation.check_entries("bases", array)
    return np.ascontiguousarray(array)
