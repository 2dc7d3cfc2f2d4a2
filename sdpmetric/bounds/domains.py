"""The cones that metrics of a sum are taken from, in coordinates.

``M = B^T N B`` with N PSD, or PSD and block diagonal, or diagonal with entries >= 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import nnls

from sdpmetric.bounds.spans import exact_rank
from sdpmetric.core import validation
from sdpmetric.core.digest import NOT_STATED
from sdpmetric.linalg import exact, psd
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
        B: the identity for all metrics or those of features' weights, orthonormal rows for a subspace, or vectors b_j
        whose combinations ``sum_j w_j b_j b_j^T`` are meant.
    diagonal : bool
        Whether N is diagonal with entries >= 0; else it is PSD.
    kind : str
        In words.
    blocks : tuple of (k_b,) int arrays
        Coordinates of each diagonal block of N, () for one block.
    sharing : float
        Of metrics with a shared part, how much cheaper a trace of 1 is in it than in the parts of single tasks.
    given : (d, q) array or None
        The columns P of a subspace as they were given: its metrics are exactly ``P N P^T``. The basis spans them up to
        rounding.
    tasks : (n,) int array or None
        The number of the task of each example.
    """

    basis: FloatArray
    diagonal: bool
    kind: str
    blocks: tuple[NDArray[np.intp], ...] = ()
    sharing: float = 1.0
    given: FloatArray | None = None
    tasks: NDArray[np.intp] | None = field(default=None, metadata=NOT_STATED)

    @classmethod
    def of(
        cls, d: int, diagonal: bool = False, subspace: ArrayLike | None = None, bases: ArrayLike | None = None
    ) -> Domain:
        """The domain of given arguments, of which one at most may be used."""
        if bool(diagonal) + (subspace is not None) + (bases is not None) > 1:
            raise ValueError("diagonal=, subspace= and bases= exclude each other; pass one of them at most.")
        if subspace is not None:
            P = _matrix("subspace", subspace, d, "(d, k), its columns span the subspace", axis=0)
            Q, sigma, _ = np.linalg.svd(P, full_matrices=False)
            rank = int(np.count_nonzero(sigma > psd.RANK_TOLERANCE * sigma[0]))
            words = f"metrics of a subspace of dimension {rank}"
            return cls(np.ascontiguousarray(Q[:, :rank].T), False, words, given=P)
        if bases is not None:
            B = _matrix("bases", bases, d, "(k, d), a vector in each row", axis=1)
            return cls(B, True, f"nonnegative combinations of {len(B):,} rank-one metrics")
        return cls(np.eye(d), bool(diagonal), "weights of features" if diagonal else "all metrics")

    @classmethod
    def of_tasks(cls, d: int, n_tasks: int, sharing: float) -> Domain:
        """Metrics ``M_c = sharing M_0 + N_c`` of tasks, as diagonal blocks ``M_0, N_1, N_2, ..``; see `lift_tasks`."""
        blocks = tuple(np.arange(b * d, (b + 1) * d) for b in range(n_tasks + 1))
        return cls(np.eye(d * (n_tasks + 1)), False, f"metrics of {n_tasks} tasks with a shared part", blocks, sharing)

    @cached_property
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

    @cached_property
    def complete(self) -> bool:
        """Whether the basis has as many rows as the domain has dimensions, exactly."""
        if self.given is None or self.given.shape[1] <= len(self.basis):
            return True
        return exact_rank(exact.integers(self.given)) <= len(self.basis)

    @cached_property
    def _combined(self) -> FloatArray:
        """The basis from the columns as they were given, up to rounding, (q, k)."""
        given = self.basis.T if self.given is None else self.given
        return np.asarray(np.linalg.lstsq(given, self.basis.T, rcond=None)[0])

    def map(self, T: FloatArray) -> tuple[FloatArray, FloatArray | None]:
        """``B^T T`` of exact vectors of the domain for coordinates (k, p), and how far its entries may be off.

        For a subspace these are ``P R T`` with P as given and any R for which ``P R`` is about the basis.
        """
        if self.plain:
            return T, None
        outer, inner = (self.basis.T, T) if self.given is None else (self.given, self._combined @ T)
        return outer @ inner, gamma(len(inner) + 4) * (np.abs(outer) @ np.abs(inner))

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
        if self.given is None:
            roots = np.sqrt(self._weights_of(components))[:, None]
            return roots * self.basis, gamma(4) * roots * np.abs(self.basis)
        C = np.linalg.lstsq(self.given, components.T, rcond=psd.RANK_TOLERANCE)[0].T
        return C @ self.given.T, gamma(C.shape[1] + 4) * (np.abs(C) @ np.abs(self.given.T))

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
        elif not self.diagonal:
            nearest = self.basis.T @ (self.basis @ M @ self.basis.T) @ self.basis
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
                f"metric is {off:.2g} of its size away from the domain of the problem ({self.kind}); pass one of them, "
                "or state the problem without that restriction."
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
    if validation.check_number("sharing", sharing, 0.0) == 0.0:
        raise ValueError("sharing must be positive; the larger it is, the more the metrics have in common.")
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


def _matrix(name: str, given: ArrayLike, d: int, wanted: str, axis: int) -> FloatArray:
    array = np.asarray(given, dtype=np.float64)
    if array.ndim != 2 or array.shape[axis] != d or not array.size or not np.isfinite(array).all() or not array.any():
        raise ValueError(f"{name} must be a finite array of shape {wanted}, with d = {d}; got shape {array.shape}.")
    validation.check_entries(name, array)
    return np.ascontiguousarray(array)
