"""Matrices that are proven to be positive definite."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from sdpmetric.arrays import FloatArray, LongArray
from sdpmetric.linalg.rigorous.directed import U, above, gamma, norm_above

SPARSE = 150  # Columns from which on sparse matrices are factorized as such
DENSE = 8000  # Columns of a dense factorization, at most
FACTOR = 40_000_000  # Entries of a sparse factor, at most: 320 MB

Solve = Callable[[FloatArray], FloatArray]


class OverSizeError(ValueError):
    """The enclosure needs too large a factorization."""


@dataclass(frozen=True, eq=False)
class Definite:
    """``W'W + P``, proven to be positive definite in units of its own, ``2^powers``.

    Attributes
    ----------
    bottom : float
        A float not above the least eigenvalue in these units.
    """

    powers: LongArray
    factor: Solve
    bottom: float

    @classmethod
    def of(cls, W: sp.csr_array, P: sp.csr_array | None = None) -> Definite | None:
        """Return None if the matrix is singular, as far as floats can tell."""
        n = W.shape[1]
        if n == 0:
            return cls.empty()
        squares = np.asarray(W.multiply(W).sum(axis=0)).ravel() + (0.0 if P is None else P.diagonal())
        if not (squares > 0.0).all() or not np.isfinite(squares).all():
            return None
        powers = -np.rint(0.5 * np.log2(squares)).astype(np.int64)
        unit = sp.diags_array(np.ldexp(1.0, powers))
        W = (W @ unit).tocsr()
        matrix = W.toarray() if W.nnz > 0.2 * W.shape[0] * n else W
        H = sp.csc_array(matrix.T @ matrix)
        terms = float(np.bincount(W.indices, minlength=1).max()) + 8.0
        trace = float(W.multiply(W).sum())
        rounding = gamma(terms) * trace
        if P is not None:
            H = H + unit @ P @ unit
            rounding += gamma(8) * float(abs(H).sum(axis=1).max(initial=0.0))
        dense = n <= SPARSE or H.nnz > 0.2 * n * n
        factor, bottom = _dense(H.toarray()) if dense else _sparse(sp.csc_array(H))
        bottom = math.nextafter(bottom - above(rounding, n + 16), -math.inf)
        return cls(powers, factor, bottom) if bottom > 0.0 else None

    @classmethod
    def empty(cls) -> Definite:
        """Return the matrix without rows."""
        return cls(np.zeros(0, dtype=np.int64), lambda v: v, 1.0)

    def solve(self, v: FloatArray) -> FloatArray:
        """About w with ``(W'W + P) w = v``."""
        return np.ldexp(self.factor(np.ldexp(v, self.powers)), self.powers)

    def norms(self, size: FloatArray) -> tuple[float, float]:
        """Floats not below ``||W w||`` and ``||w||`` for right-hand sides of at most `size`, w in these units."""
        rho = norm_above(np.ldexp(size, self.powers))
        return above(rho / math.sqrt(self.bottom), 4), above(rho / self.bottom, 4)


def _bottom(solve: Solve, n: int) -> float:
    """About the least eigenvalue, by inverse iteration."""
    v, size = np.cos(np.arange(n, dtype=np.float64) ** 2), 1.0
    for _ in range(6):
        v = solve(v / np.linalg.norm(v))
        size = float(np.linalg.norm(v))
    return 1.0 / size if size > 0.0 and math.isfinite(size) else 0.0


def _dense(H: FloatArray) -> tuple[Solve, float]:
    n = len(H)
    if n > DENSE:
        raise OverSizeError
    H = 0.5 * (H + H.T)
    try:
        factor = scipy.linalg.cho_factor(H, check_finite=False)
    except np.linalg.LinAlgError:
        return lambda v: v, -math.inf

    def solve(v: FloatArray) -> FloatArray:
        return np.asarray(scipy.linalg.cho_solve(factor, v, check_finite=False))

    size, diagonal = _bottom(solve, n), np.diag(H)
    for share in (0.5, 0.1, 0.01):
        try:
            np.linalg.cholesky(H - share * size * np.eye(n))
        except np.linalg.LinAlgError:
            continue
        error = (gamma(n + 8) + gamma(2 * n + 16) ** 2) * float(diagonal.sum()) + 2.0 * U * float(diagonal.max())
        return solve, share * size * (1.0 - 4.0 * U) - above(error, 2 * n)
    return solve, -math.inf


def _sparse(H: sp.csc_array) -> tuple[Solve, float]:
    """By ``L D L'``, whose distance from the matrix is computed, as no theorem on SuperLU's rounding is at hand."""
    n, unit = H.shape[0], sp.eye_array(H.shape[0])
    options = {"permc_spec": "MMD_AT_PLUS_A", "diag_pivot_thresh": 0.0, "options": {"SymmetricMode": True}}
    try:
        unshifted = splu(H, **options)
        if unshifted.nnz > FACTOR:
            raise OverSizeError
        shift = 0.5 * _bottom(unshifted.solve, n)
        factors = splu(sp.csc_array(H - shift * unit), **options)
    except RuntimeError:  # singular
        return lambda v: v, -math.inf
    d = factors.U.diagonal()
    if not np.array_equal(factors.perm_r, factors.perm_c) or not (d > 0.0).all():
        return unshifted.solve, -math.inf
    order = np.argsort(factors.perm_c)
    shifted = sp.csr_array(H - shift * unit)[order][:, order]
    L = factors.L.tocsr()
    distance = abs(sp.csr_array(L @ sp.diags_array(d) @ L.T) - shifted).sum(axis=1).max()
    rounding = abs(L) @ (d * (abs(L).T @ np.ones(n))) + abs(shifted).sum(axis=1)
    terms = float(np.diff(L.indptr).max()) + 16.0
    return unshifted.solve, shift - above(float(distance) + gamma(terms) * float(np.max(rounding)), n + 8)
