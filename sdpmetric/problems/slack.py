"""The dual slack matrix of a sum of terms on the domain of its metrics, with bounds of its eigenvalues."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from sdpmetric.linalg import psd, rigorous
from sdpmetric.linalg.rigorous import Form, Images
from sdpmetric.problems.bound_terms import BoundTerms
from sdpmetric.problems.domains import Domain
from sdpmetric.terms.base import Regularizer
from sdpmetric.terms.log_det import LogDet

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Slack:
    """``S = sum_q w_q v_q v_q^T + ridge I + (a matrix)`` as a form on the domain: ``B S B^T`` in given coordinates.

    It has to be PSD there; for diagonal metrics only its diagonal counts.

    Attributes
    ----------
    X : (n, d) array
        The exact data.
    total : BoundTerms
    domain : Domain
    """

    X: NDArray[np.floating]
    total: BoundTerms
    domain: Domain

    @cached_property
    def basis(self) -> tuple[FloatArray, FloatArray]:
        """Coordinates (k, p) of the domain in which the data have unit variance, and their inverse (p, k).

        Where terms look at the metric itself there are k of them; else directions without variation are left out.
        """
        Y = self.total.centered @ self.domain.basis.T
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
        return Images.of(self.X, self.total.centered, self.domain.basis.T @ T)

    def form(self, images: Images, weights: FloatArray, ridge: float, matrix: FloatArray) -> Form:
        """``T^T B (sum_q w_q v_q v_q^T + ridge I + matrix) B^T T`` and its error; blocks of it."""
        if not self.domain.blocks:
            return self._form(images, weights, ridge, matrix)
        total = Form.zero(images.map.shape[1])
        for part in self.domain.blocks:
            own = np.zeros_like(images.map)
            own[part] = images.map[part]
            total += self._form(Images.of(images.X, images.centered, own), weights, ridge, matrix)
        return total

    def _form(self, images: Images, weights: FloatArray, ridge: float, matrix: FloatArray) -> Form:
        used = np.flatnonzero(weights)
        V, pairs = images.map, self.total.pairs[used]
        form = images.form(pairs[:, 0], pairs[:, 1], weights[used], roundings=2, accuracy=math.inf)
        d = len(V)
        if ridge:
            size = rigorous.above(ridge * float(np.sum(V * V)), V.size + 4)
            form += Form(ridge * (V.T @ V), rigorous.above(rigorous.gamma(d + 4) * size, 2), size)
        if matrix.any():
            size = rigorous.above(float(np.sum((np.abs(V).T @ np.abs(matrix)) * np.abs(V).T)), V.size * d)
            moved = V.T @ matrix @ V
            form += Form(0.5 * (moved + moved.T), rigorous.above(rigorous.gamma(2 * d + 8) * size, 2), size)
        return form

    def least(self, form: Form) -> float:
        """A number below the least eigenvalue of a form, or below its least diagonal entry."""
        if self.domain.diagonal:
            return float(np.diag(form.matrix).min(initial=math.inf)) - form.error
        return form.least

    def coordinates(self, weights: FloatArray, final: Regularizer | None) -> tuple[FloatArray, FloatArray]:
        """Coordinates in which the cost of the anchor is about the identity, and directions of no cost, (k, .)."""
        basis, inverse = self.basis
        used = np.flatnonzero(weights > 0.0)
        rows = self.total.pairs[used]
        Y = self.total.centered @ self.domain.basis.T @ basis
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

    @cached_property
    def descent_coordinates(self) -> FloatArray:
        """Coordinates (k, p) for solvers: linear costs are whitened, other directions have unit variance."""
        logdet = next((term for term in self.total.regularizers if isinstance(term, LogDet)), None)
        costs = self.total.pair_weights([np.zeros(loss.size) for loss in self.total.losses])
        white, null = self.coordinates(costs, logdet)
        if not self.domain.diagonal:
            return np.concatenate([white, null], axis=1)
        return np.diag(np.sum(np.abs(white), axis=1) + np.sum(np.abs(null), axis=1))

    def relative(self, base: FloatArray, way: FloatArray) -> FloatArray:
        """Eigenvalues of the way relative to the base, which is nearly the identity."""
        if self.domain.diagonal:
            return np.diag(way) / np.maximum(np.diag(base), 1e-300)
        try:
            root = np.linalg.inv(np.linalg.cholesky(base))
        except np.linalg.LinAlgError:
            root = np.eye(len(base))
        return np.asarray(np.linalg.eigvalsh(root @ way @ root.T))
