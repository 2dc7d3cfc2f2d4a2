"""Cones of metrics ``M = B^T N B`` with N PSD or diagonal, and the dual slack matrix of a sum on such a cone.

``S = sum_q w_q v_q v_q^T + ridge I + A`` has a weight for the difference ``v_q`` of each pair of examples, and a
matrix A from terms that look at entries of the metric. Metrics ``M = B^T N B`` of a domain have ``<S, M> = <B S B^T,
N>``: S must be PSD as a form in coordinates of the domain; for diagonal N only the diagonal of ``B S B^T`` counts.

Coordinates T, (k, p), make columns of ``B^T T`` of new features; the form is ``T^T B S B^T T`` there. In those that
whiten a PSD part of S this part is the identity, and eigenvalues of the rest are relative to it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import nnls

from sdpmetric.arrays import SMALLEST_DIVISOR, FloatArray, IndexArray
from sdpmetric.core import validation
from sdpmetric.engine.lazy import cached
from sdpmetric.engine.threads import check_deadline
from sdpmetric.linalg import exact, psd
from sdpmetric.linalg.distances import PAIRS_AT_ONCE
from sdpmetric.linalg.exact import dimension
from sdpmetric.linalg.rigorous.directed import TINY, gamma
from sdpmetric.linalg.rigorous.forms import Form, Images
from sdpmetric.sums.bound_terms import BoundTerms
from sdpmetric.sums.terms.base import ROUNDINGS, Regularizer

# How far a metric may be from the cone, relative to its size, and count as in it.
MEMBERSHIP_TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False)
class Domain:
    """A cone of metrics ``M = B^T N B``.

    Attributes
    ----------
    basis : (k, d) array
        B: the identity, or, if N is diagonal, vectors b_j of the combinations ``sum_j w_j b_j b_j^T``.
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
        """Return the domain that a sum is stated with; at most one of the arguments may be used."""
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
        """Return the entries of a (k, k) matrix that products with N depend on, 0 elsewhere."""
        return np.diag(np.diag(A)) if self.diagonal else A

    @cached
    def has_identity_basis(self) -> bool:
        k, d = self.basis.shape
        return k == d and psd.is_diagonal(self.basis) and bool((self.basis.diagonal() == 1.0).all())

    def member_beside(self, components: FloatArray) -> tuple[FloatArray, FloatArray | None] | None:
        """Return a factor of a near metric that is exactly in the domain, and its error; None if the given one is."""
        if not self.diagonal:
            return None
        if self.has_identity_basis:
            if (np.count_nonzero(components, axis=1) <= 1).all():
                return None
            return np.diag(np.sqrt(self.weights(components))), None
        rows, vectors, _ = self._nearest_vectors(components)
        R, B, k = exact.rationals(rows), exact.rationals(self.basis[vectors]), np.arange(len(rows))
        pivot = np.abs(rows).argmax(axis=1)
        if np.all(R * B[k, pivot][:, None] == B * R[k, pivot][:, None]):
            return None
        roots = np.sqrt(self.weights(components))[:, None]
        return roots * self.basis, gamma(4) * roots * np.abs(self.basis)

    def weights(self, components: FloatArray) -> FloatArray:
        """Return weights w >= 0 for which ``sum_j w_j b_j b_j^T`` is near the metric of a factor, (k,)."""
        if self.has_identity_basis:
            return np.asarray(np.einsum("rj,rj->j", components, components))
        rows, vectors, scale = self._nearest_vectors(components)
        errors = np.linalg.norm(rows - scale[:, None] * self.basis[vectors], axis=1)
        if (errors <= MEMBERSHIP_TOLERANCE * np.linalg.norm(rows, axis=1)).all():
            return np.bincount(vectors, scale * scale, len(self.basis)).astype(np.float64)
        return self.combination(components.T @ components)

    def _nearest_vectors(self, components: FloatArray) -> tuple[FloatArray, IndexArray, FloatArray]:
        """Return nonzero rows of a factor, the basis vector of the nearest direction for each, and its multiple."""
        rows = components[components.any(axis=1)]
        squares = np.maximum(np.einsum("ij,ij->i", self.basis, self.basis), SMALLEST_DIVISOR)
        products = rows @ self.basis.T
        vectors = np.argmax(products * products / squares, axis=1)
        return rows, vectors, products[np.arange(len(rows)), vectors] / squares[vectors]

    def combination(self, M: FloatArray) -> FloatArray:
        """Return the weights w >= 0 with ``sum_j w_j b_j b_j^T`` nearest a metric in the Frobenius norm, (k,)."""
        if self.has_identity_basis:
            return np.maximum(np.diag(M), 0.0)
        size = float(np.abs(M).max()) or 1.0
        products = (self.basis[:, :, None] * self.basis[:, None, :]).reshape(len(self.basis), -1)
        lengths = np.maximum(np.linalg.norm(products, axis=1), SMALLEST_DIVISOR)
        weights, _ = nnls((products / lengths[:, None]).T, (M / size).ravel(), maxiter=30 * len(products))
        return np.asarray(size * weights / lengths)

    def check(self, components: FloatArray) -> float:
        """Return the relative distance of a metric from the cone; raise an error if it is clearly outside."""
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


# Multipliers, or other arrays, of a sum: one array for each loss.
ByLoss = list[FloatArray]


@dataclass(frozen=True, eq=False)
class Slack:
    """Slack matrices of a sum over exact data X, (n, d), on a domain; of few rows in coordinates of their `Span`."""

    X: NDArray[np.floating]
    total: BoundTerms
    domain: Domain

    @property
    def d(self) -> int:
        return int(self.total.centered.shape[1])

    # -- coordinates --------------------------------------------------------------------------------------------

    @cached
    def points(self) -> FloatArray:
        """The centered data in coordinates of the domain, (n, k)."""
        X = self.total.centered
        return X if self.domain.has_identity_basis else X @ self.domain.basis.T

    @cached
    def basis(self) -> tuple[FloatArray, FloatArray]:
        """Coordinates (k, p) of the domain that give the data unit variance, and their inverse (p, k).

        Where terms look at the metric itself there are k of them; else directions without variation are left out.
        """
        Y, total = self.points, self.total
        if self.domain.diagonal or total.ridge or total.regularizers or total.depends_on_entries:
            size = np.sqrt(np.mean(Y * Y, axis=0))
            size[size == 0.0] = 1.0
            return np.diag(1.0 / size), np.diag(size)
        return psd.data_basis(Y)

    def coordinates(self, weights: FloatArray, regularizer: Regularizer | None) -> tuple[FloatArray, FloatArray]:
        """Return coordinates that whiten a cost, and directions of no cost, (k, .) each.

        The cost is that of pairs with positive weights, of the trace, and the linear cost of the regularizer.
        """
        basis, inverse = self.basis
        used = np.flatnonzero(weights > 0.0)
        i, j = self.total.pairs[used].T
        diagonal, B = self.domain.diagonal, self.domain.basis.T

        def mapped(A: FloatArray) -> FloatArray:
            return A * np.diag(basis) if diagonal else A @ basis

        Y = mapped(self.points)
        roots = [np.sqrt(weights[used])[:, None] * (Y[i] - Y[j])]
        if self.total.ridge:
            roots.append(mapped(math.sqrt(self.total.ridge) * B))
        if regularizer is not None and (root := regularizer.linear_cost_root) is not None:
            roots.append(mapped(root @ B))
        if diagonal:
            size = np.sqrt(sum(np.einsum("ij,ij->j", root, root) for root in roots))
            scaled = np.diag(basis) / np.where(size > 0.0, size, 1.0)
            is_null = size <= psd.RANK_TOLERANCE * size.max(initial=0.0)
            return np.diag(scaled)[:, ~is_null], np.diag(np.diag(basis))[:, is_null]
        whitening = psd.whiten(basis, inverse, psd.triangle(roots))
        return whitening.range, whitening.null

    def coordinates_of_smallest_costs(self, weights: FloatArray, matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return coordinates that whiten even the smallest costs, as far as floats go, and features without a cost."""
        used, d = np.flatnonzero(weights > 0.0), self.d
        (i, j), X = self.total.pairs[used].T, (self.X if self.total.span is None else self.points).astype(np.float64)
        root = np.concatenate([np.sqrt(weights[used])[:, None] * (X[i] - X[j]), psd.factor(matrix)])
        scale = np.abs(root).max(axis=0, initial=0.0)
        has_cost = scale > 0.0
        V = np.zeros((d, int(has_cost.sum())))
        if has_cost.any():
            V[has_cost] = psd.smallest_whitened([root[:, has_cost]], scale[has_cost])
        return V, np.eye(d)[:, ~has_cost]

    @cached
    def descent_coordinates(self) -> FloatArray:
        """Coordinates (k, p) for solvers: linear costs are whitened, other directions have unit variance."""
        regularizers = self.total.regularizers
        linear = next((term for term in regularizers if term.linear_cost_root is not None), None)
        costs = self.total.pair_weights([np.zeros(loss.size) for loss in self.total.losses])
        whitened, null = self.coordinates(costs, linear)
        if self.domain.diagonal:
            return np.diag(np.sum(np.abs(whitened), axis=1) + np.sum(np.abs(null), axis=1))
        return np.concatenate([whitened, null], axis=1)

    # -- forms --------------------------------------------------------------------------------------------------

    def images(self, T: FloatArray) -> Images:
        return self.total.images(self.X, T)

    def form(self, images: Images, a: ByLoss, slopes: ByLoss) -> Form:
        """Return the form of S at multipliers a, plus slopes of regularizers, with a bound of its error."""
        total = self.total
        matrices = [total.entry_matrix(a), *slopes, total.ridge * np.eye(self.d)]
        return self.weighted_form(images, total.pair_weights(a), total.weight_errors(a), matrices)

    def weighted_form(self, images: Images, weights: FloatArray, errors: FloatArray | None, matrices: ByLoss) -> Form:
        """Return the form of pairs with weights that are off by up to the errors, plus matrices."""
        used = np.flatnonzero(weights)
        i, j = self.total.pairs[used].T
        form = images.form(i, j, weights[used], roundings=ROUNDINGS, accuracy=math.inf)
        if errors is not None and errors.any():
            used = np.flatnonzero(errors)
            i, j = self.total.pairs[used].T
            error = images.size(i, j, errors[used])
            form += Form(np.zeros_like(form.matrix), error, error)
        for matrix in matrices:
            if matrix.any():
                form += Form.congruent(matrix, images.coordinates)
        return form

    def is_definite(self, S: FloatArray, a: ByLoss, slopes: ByLoss) -> bool:
        """Return whether the exact slack matrix, slopes included, is proven positive definite, by S of floats near it.

        Over diagonal metrics it is enough that no entry of its diagonal is negative.
        """
        if self.domain.diagonal:
            value, error = self.diagonal(a, slopes)
            return bool((value >= error).all())
        if not (np.diag(S) > 0.0).all():
            return False
        units = np.ldexp(1.0, -(np.frexp(np.diag(S))[1] // 2))
        values, vectors = np.linalg.eigh(S * units * units[:, None])
        if not values[0] > 0.0:
            return False
        V = units[:, None] * vectors / np.sqrt(values)
        return self.form(self.images(V), a, slopes).smallest_eigenvalue > 0.0

    def is_decided_by(self, n_coordinates: int, weights: FloatArray, has_matrix: bool) -> bool:
        """Return whether a form that is positive definite in `n_coordinates` coordinates decides about all of S.

        S is a form of the products of a metric with the differences of pairs with nonzero weights. If these span no
        more dimensions than there are coordinates, S is 0 in all other directions; an added matrix spans all, and
        that of a span all directions outside.
        """
        if n_coordinates >= self.d and (has_matrix or self.total.span is None):
            return True
        if has_matrix:
            return False
        i, j = self.total.pairs[np.flatnonzero(weights)].T
        return dimension(self.X, i, j, n_coordinates) <= n_coordinates

    # -- weights of rank-one metrics ----------------------------------------------------------------------------

    def squared_products(self, pairs: NDArray[np.integer], columns: NDArray[np.intp] | None = None) -> FloatArray:
        """Return what weights of rank-one metrics, by default all of them, add to the distances of pairs, (p, k)."""
        Y = self.points if columns is None else self.points[:, columns]
        return np.asarray((Y[pairs[:, 0]] - Y[pairs[:, 1]]) ** 2)

    def table(self, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> FloatArray:
        """Return what k weights of rank-one metrics add to the arguments of m losses, (m, k)."""
        total, table, start = self.total, np.empty((len(rows), len(columns))), 0
        for loss, pair_slice in zip(total.losses, total.pair_slices, strict=True):
            of_loss, pairs = np.flatnonzero((rows >= start) & (rows < start + loss.size)), total.pairs[pair_slice]
            for first in range(0, len(of_loss), PAIRS_AT_ONCE):
                check_deadline()
                batch = of_loss[first : first + PAIRS_AT_ONCE]
                K = sp.csr_array(loss.combination[rows[batch] - start])
                used = np.unique(K.indices)
                table[batch] = K[:, used] @ self.squared_products(pairs[used], columns)
            if loss.depends_on_entries:
                B = self.domain.basis[columns]
                table[of_loss] += loss.entries(np.einsum("ki,kj->ijk", B, B))[rows[of_loss] - start]
            start += loss.size
        return table

    @cached
    def _rank_one_images(self) -> Images:
        """The data along the basis."""
        return self.images(self.domain.basis.T)

    def diagonal(self, a: ByLoss, matrices: ByLoss) -> tuple[FloatArray, FloatArray]:
        """Return ``b_j^T S b_j`` for the rank-one metrics, and how far each may be from the exact one, (k,) each."""
        total, images = self.total, self._rank_one_images
        weights, errors, d = total.pair_weights(a), total.weight_errors(a), self.d
        used = np.flatnonzero(weights if errors is None else np.abs(weights) + errors)
        i, j = total.pairs[used].T
        value, error = images.diagonal(i, j, weights[used], None if errors is None else errors[used], ROUNDINGS)
        nonzero = [A for A in (total.entry_matrix(a), *matrices) if A.any()]
        for A in [total.ridge * np.eye(d), *nonzero] if total.ridge else nonzero:
            value = value + self._rank_one_forms(A, images.map)
            size = self._rank_one_forms(np.abs(A), np.abs(images.map))
            error = error + gamma(2 * d + ROUNDINGS + 16) * (size + np.abs(value)) + 8.0 * d * TINY
        if not nonzero and (weights >= (0.0 if errors is None else errors)).all():
            error = np.minimum(error, value)  # a sum of squares
        return value, error

    def _rank_one_forms(self, A: FloatArray, B: FloatArray) -> FloatArray:
        """Return ``b_j^T A b_j`` of the columns of B, (k,)."""
        if self.domain.has_identity_basis:
            return np.asarray(np.diag(A) * np.diag(B) ** 2)
        return np.asarray(np.einsum("ij,ij->j", A @ B, B))
