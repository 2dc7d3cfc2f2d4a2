"""The dual slack matrix of a sum of terms on the domain of its metrics, with bounds of its eigenvalues."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray

from sdpmetric.engine.cached import cached
from sdpmetric.engine.interface import check_deadline
from sdpmetric.linalg import psd
from sdpmetric.linalg.distances import PAIRS_AT_ONCE
from sdpmetric.linalg.rigorous import TINY, Form, Images, gamma
from sdpmetric.linalg.spans import dimension
from sdpmetric.sums.bound_terms import BoundTerms
from sdpmetric.sums.domains import Domain
from sdpmetric.sums.terms.base import ROUNDINGS, Regularizer
from sdpmetric.sums.terms.frobenius import Frobenius
from sdpmetric.sums.terms.log_det import LogDet

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Slack:
    """``S = sum_q w_q v_q v_q^T + ridge I + (a matrix)`` as a form on the domain: ``B S B^T`` in given coordinates.

    It has to be PSD there; for diagonal metrics only its diagonal counts.
    """

    X: NDArray[np.floating]
    total: BoundTerms
    domain: Domain

    @cached
    def basis(self) -> tuple[FloatArray, FloatArray]:
        """Coordinates (k, p) of the domain in which the data have unit variance, and their inverse (p, k).

        Where terms look at the metric itself there are k of them; else directions without variation are left out.
        """
        Y = self.points
        if self.domain.diagonal or self.total.whole:
            size = np.sqrt(np.mean(Y * Y, axis=0))
            size[size == 0.0] = 1.0
            return np.diag(1.0 / size), np.diag(size)
        if not self.domain.blocks:
            return psd.data_basis(Y)
        found = [psd.data_basis(Y[:, part]) for part in self.domain.blocks]
        return scipy.linalg.block_diag(*(T for T, _ in found)), scipy.linalg.block_diag(*(T for _, T in found))

    def images(self, T: FloatArray) -> Images:
        """The data in coordinates T, (k, p), of the domain."""
        return self.total.images(self.X, T)

    def form(self, images: Images, weights: FloatArray, errors: FloatArray | None, matrices: list[FloatArray]) -> Form:
        """``T^T B (sum_q w_q v_q v_q^T + matrices) B^T T`` and its error; blocks of it."""
        if not self.domain.blocks:
            return self._form(images, weights, errors, matrices)
        total = Form.zero(images.map.shape[1])
        for part in self.domain.blocks:
            own = np.zeros_like(images.map)
            own[part] = images.map[part]
            total += self._form(replace(images, map=own), weights, errors, matrices)
        return total

    @cached
    def points(self) -> FloatArray:
        """The data in coordinates of the basis, (n, k)."""
        B = self.total.centered
        return B if self.domain.plain else B @ self.domain.basis.T

    def squares(self, pairs: NDArray[np.integer], columns: NDArray[np.intp] | None = None) -> FloatArray:
        """What weights of rank-one metrics, by default all of them, add to the distances of pairs, (p, k)."""
        Y = self.points if columns is None else self.points[:, columns]
        return np.asarray((Y[pairs[:, 0]] - Y[pairs[:, 1]]) ** 2)

    def table(self, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> FloatArray:
        """What weights of rank-one metrics add to what losses are of: (m, k) for some of the losses and weights."""
        total, found, start = self.total, np.empty((len(rows), len(columns))), 0
        for loss, own in zip(total.losses, total.places, strict=True):
            mine, pairs = np.flatnonzero((rows >= start) & (rows < start + loss.size)), total.pairs[own]
            for first in range(0, len(mine), PAIRS_AT_ONCE):
                check_deadline()
                part = mine[first : first + PAIRS_AT_ONCE]
                K = sp.csr_array(loss.combination[rows[part] - start])
                used = np.unique(K.indices)
                found[part] = K[:, used] @ self.squares(pairs[used], columns)
            if loss.entrywise:
                B = self.domain.basis[columns]
                found[mine] += loss.entries(np.einsum("ki,kj->ijk", B, B))[rows[mine] - start]
            start += loss.size
        return found

    @cached
    def units(self) -> FloatArray:
        """Powers of 2, (k,), that bring what weights add to distances to moderate size."""
        span = np.ptp(self.X, axis=0).astype(np.float64)
        size = span if self.domain.plain else np.abs(self.domain.basis) @ span
        powers = np.frexp(np.where((size > 0.0) & (size < np.inf), size, 1.0))[1]
        found, B = np.ldexp(1.0, np.clip(-powers, -500, 500)), self.domain.basis
        exact = (B * found[:, None] / found[:, None] == B).all(axis=1)  # no entry underflows
        return np.where(exact, found, 1.0)

    @cached
    def _rank_one(self) -> tuple[Images, Images]:
        """The data along the basis, and in units."""
        B = self.domain.basis
        return self.total.images(self.X, B.T), self.total.images(self.X, (B * self.units[:, None]).T)

    def diagonal(
        self, a: list[FloatArray], matrices: list[FloatArray], in_units: bool
    ) -> tuple[FloatArray, FloatArray]:
        """``b_j^T S b_j`` of weights of rank-one metrics, and how far each may be from the exact one, (k,) each.

        In units the vectors b are multiplied by these, which leaves the signs as they are.
        """
        total, images = self.total, self._rank_one[in_units]
        weights, errors, d = total.pair_weights(a), total.weight_errors(a), len(images.map)
        used = np.flatnonzero(weights if errors is None else np.abs(weights) + errors)
        off = None if errors is None else errors[used]
        first, second = total.pairs[used].T
        value, error = images.diagonal(first, second, weights[used], off, ROUNDINGS)
        further = [A for A in (total.entry_matrix(a), *matrices) if A.any()]
        for A in [total.ridge * np.eye(d), *further] if total.ridge else further:
            one, size = (
                self._rank_one_forms(part, S) for part, S in ((A, images.map), (np.abs(A), np.abs(images.map)))
            )
            value = value + one
            error = error + gamma(2 * d + ROUNDINGS + 16) * (size + np.abs(value)) + 8.0 * d * TINY
        if not further and (weights >= (0.0 if errors is None else errors)).all():
            error = np.minimum(error, value)  # a sum of squares
        return value, error

    def _rank_one_forms(self, A: FloatArray, B: FloatArray) -> FloatArray:
        """``b_j^T A b_j`` of the columns of B, (k,)."""
        return np.asarray(np.diag(A) * np.diag(B) ** 2 if self.domain.plain else np.einsum("ij,ij->j", A @ B, B))

    def _form(self, images: Images, weights: FloatArray, errors: FloatArray | None, matrices: list[FloatArray]) -> Form:
        used = np.flatnonzero(weights)
        pairs = self.total.pairs[used]
        form = images.form(pairs[:, 0], pairs[:, 1], weights[used], roundings=ROUNDINGS, accuracy=math.inf)
        if errors is not None and errors.any():
            used = np.flatnonzero(errors)
            pairs = self.total.pairs[used]
            off = images.form(pairs[:, 0], pairs[:, 1], errors[used], accuracy=math.inf).size
            form += Form(np.zeros_like(form.matrix), off, off)
        for matrix in matrices:
            if matrix.any():
                form += Form.congruent(matrix, images.map)
        return form

    def spanned(self, weights: FloatArray, whole: bool, p: int) -> bool:
        """Whether p coordinates provably decide about the slack matrix of pairs with nonzero weights.

        A quadratic form of the products with some vectors is decided on coordinates on which another one of such
        products is proven to be positive definite, if the vectors span no more dimensions.
        """
        if p >= self.X.shape[1]:
            return True
        if whole:
            return False
        first, second = self.total.pairs[np.flatnonzero(weights)].T
        if self.domain.blocks:
            return sum(dimension(self.X[:, part], first, second, 0) for part in self.domain.blocks) <= p
        return dimension(self.X, first, second, p) <= p

    def coordinates(self, weights: FloatArray, final: Regularizer | None) -> tuple[FloatArray, FloatArray]:
        """Coordinates in which the cost of the anchor is about the identity, and directions of no cost, (k, .)."""
        basis, inverse = self.basis
        used = np.flatnonzero(weights > 0.0)
        rows = self.total.pairs[used]
        Y = self.points @ basis
        roots = [np.sqrt(weights[used])[:, None] * (Y[rows[:, 0]] - Y[rows[:, 1]])]
        if self.total.ridge:
            roots.append(math.sqrt(self.total.ridge) * self.domain.basis.T @ basis)
        if isinstance(final, LogDet):
            roots.append(math.sqrt(final.weight) * final.inverse_root @ self.domain.basis.T @ basis)
        if self.domain.diagonal:
            size = np.sqrt(sum(np.einsum("ij,ij->j", root, root) for root in roots))
            scaled = np.diag(basis) / np.where(size > 0.0, size, 1.0)
            nothing = size <= psd.RANK_TOLERANCE * size.max(initial=0.0)
            return np.diag(scaled)[:, ~nothing], np.diag(np.diag(basis))[:, nothing]
        ranges, nulls, first = list[FloatArray](), list[FloatArray](), 0
        for part in self.domain.parts:
            size = int(np.linalg.matrix_rank(basis[part])) if self.domain.blocks else basis.shape[1]
            own = slice(first, first + size)
            found = psd.whiten(basis[:, own], inverse[own], psd.triangle([root[:, own] for root in roots]))
            ranges, nulls, first = [*ranges, found.range], [*nulls, found.null], first + size
        return np.concatenate(ranges, axis=1), np.concatenate(nulls, axis=1)

    def extended(self, weights: FloatArray, matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Coordinates in which even the smallest costs are about 1, as far as floats go, and features without any."""
        used, d = np.flatnonzero(weights > 0.0), self.X.shape[1]
        (first, second), X = self.total.pairs[used].T, self.X.astype(np.float64)
        V = X[first] - X[second] if self.total.scales is None else (X[first] - X[second]) * self.total.scales
        root = np.concatenate([np.sqrt(weights[used])[:, None] * V, psd.factor(matrix)])
        scale = np.abs(root).max(axis=0, initial=0.0)
        costs, V = scale > 0.0, np.zeros((d, d))
        for part in self.domain.parts:
            own = part[costs[part]]
            if not len(own):
                continue
            unit = root[:, own] / scale[own]
            _, sigma, Vt = np.linalg.svd(psd.triangle([unit]), full_matrices=True)
            sizes = np.zeros(len(own))
            sizes[: len(sigma)] = sigma
            V[np.ix_(own, own)] = Vt.T / np.maximum(sizes, 1e-18 * sizes.max()) / scale[own, None]
        return V[:, costs], np.eye(d)[:, ~costs]

    @cached
    def descent_coordinates(self) -> FloatArray:
        """Coordinates (k, p) for solvers: linear costs are whitened, other directions have unit variance.

        Where a metric is to be near another one, small directions are not stretched beyond what that allows.
        """
        logdet = next((term for term in self.total.regularizers if isinstance(term, LogDet)), None)
        costs = self.total.pair_weights([np.zeros(loss.size) for loss in self.total.losses])
        white, null = self.coordinates(costs, logdet)
        if not self.domain.diagonal:
            T, B = np.concatenate([white, null], axis=1), self.domain.basis
            near = sum(
                term.weight * float(np.linalg.norm(B @ term.target @ B.T)) / math.sqrt(len(B))
                for term in self.total.regularizers
                if isinstance(term, Frobenius)
            )
            if not near or T.shape[0] != T.shape[1]:
                return T
            try:
                inverse = np.linalg.inv(T)
                root = np.linalg.cholesky(inverse.T @ inverse + near * np.eye(len(T)))
            except np.linalg.LinAlgError:
                return T
            return np.asarray(scipy.linalg.solve_triangular(root, np.eye(len(T)), lower=True).T)
        return np.diag(np.sum(np.abs(white), axis=1) + np.sum(np.abs(null), axis=1))

    def share(self, S: FloatArray, end: FloatArray, V: FloatArray) -> float:
        """The largest t <= 1 at which ``S + t (end - S)`` is about PSD in coordinates V, (k, p); 0 where S is not."""
        B = self.domain.basis
        base, last = (V.T @ self.domain.pinched(B @ A @ B.T) @ V for A in (S, end))
        if not (self.relative(np.eye(len(base)), base) > 0.0).all():
            return 0.0
        return 1.0 / max(1.0, -float(self.relative(base, last - base).min(initial=0.0)))

    def relative(self, base: FloatArray, way: FloatArray) -> FloatArray:
        """Eigenvalues of the way relative to the base, which is nearly the identity."""
        if self.domain.diagonal:
            return np.diag(way) / np.maximum(np.diag(base), 1e-300)
        try:
            root = np.linalg.inv(np.linalg.cholesky(base))
        except np.linalg.LinAlgError:
            root = np.eye(len(base))
        moved = root @ way @ root.T
        if not np.isfinite(moved).all():
            return np.full(len(moved), -np.inf)
        return np.asarray(np.linalg.eigvalsh(moved))
