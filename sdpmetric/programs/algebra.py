"""Linear algebra with proofs: positive definite matrices, dependent columns, and variables that equations determine."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from sdpmetric.arrays import LARGEST_VALUE, FloatArray, LongArray
from sdpmetric.linalg import exact
from sdpmetric.linalg.rigorous.directed import U, above, gamma, least_eigenvalue, norm_above

SPARSE = 150  # Smallest number of columns for a sparse factorization
DENSE = 8000  # Columns of a dense factorization, at most
FACTOR = 40_000_000  # Entries of a sparse factor, at most: 320 MB
MOST_DEPENDENT = 2000  # Columns, at most, among which dependences are sought

Solve = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True, eq=False)
class Definite:
    """``W'W``, proven to be positive definite in units of its own, ``2^powers``."""

    powers: LongArray
    factor: Solve
    bottom: float  # a float not above the least eigenvalue in these units

    @classmethod
    def of(cls, W: sp.csr_array) -> Definite | None:
        """Return None if the matrix is singular, as far as floats can tell."""
        n = W.shape[1]
        if n == 0:
            return cls.empty()
        squares = np.asarray(W.multiply(W).sum(axis=0)).ravel()
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
        dense = n <= SPARSE or H.nnz > 0.2 * n * n
        factor, bottom = _dense(H.toarray()) if dense else _sparse(sp.csc_array(H))
        bottom = math.nextafter(bottom - above(rounding, n + 16), -math.inf)
        return cls(powers, factor, bottom) if bottom > 0.0 else None

    @classmethod
    def of_basis(cls, W: sp.csc_array, extra: FloatArray) -> tuple[LongArray, Definite | None, int]:
        """Return columns of W, with an extra row, that determine all others, their products, and a dependent column."""
        definite, columns = cls.of(sp.csr_array(W)), np.arange(W.shape[1])
        if definite is not None:
            return columns, definite, 0
        finite = np.isfinite(extra)
        basis, dependent = independent(sp.csc_array(sp.vstack([W, np.where(finite, extra, 0.0)[None, :]])))
        if basis is not None and len(basis) < len(columns) and finite.all():
            columns, definite = basis, cls.of(sp.csr_array(W[:, basis]))
        empty = np.flatnonzero(np.diff(W.indptr) == 0)
        return columns, definite, int(empty[0]) if len(empty) else dependent

    @classmethod
    def empty(cls) -> Definite:
        """Return the matrix without rows."""
        return cls(np.zeros(0, dtype=np.int64), lambda v: v, 1.0)

    def solve(self, v: FloatArray) -> FloatArray:
        """Return about the w with ``W'W w = v``."""
        return np.ldexp(self.factor(np.ldexp(v, self.powers)), self.powers)

    def norm(self, size: FloatArray) -> float:
        """Return a float not below ``||W w||`` for right-hand sides of at most `size`."""
        return above(norm_above(np.ldexp(size, self.powers)) / math.sqrt(self.bottom), 6)


def too_large() -> ValueError:
    """Return the error for a factorization that is too large."""
    size = f"more than {DENSE:,} dense columns or {FACTOR:,} entries"
    return ValueError(f"the program is too large to prove a bound: a factor has {size}; fix or drop some variables.")


def _bottom(solve: Solve, n: int) -> float:
    """Return about the least eigenvalue, by inverse iteration."""
    v, size = np.cos(np.arange(n, dtype=np.float64) ** 2), 1.0
    for _ in range(6):
        v = solve(v / np.linalg.norm(v))
        size = float(np.linalg.norm(v))
    return 1.0 / size if size > 0.0 and math.isfinite(size) else 0.0


def _dense(H: FloatArray) -> tuple[Solve, float]:
    if len(H) > DENSE:
        raise too_large()
    H = 0.5 * (H + H.T)
    try:
        factor = scipy.linalg.cho_factor(H, check_finite=False)
    except np.linalg.LinAlgError:
        return lambda v: v, -math.inf
    # Symmetry rounds the entries.
    bottom = least_eigenvalue(H) - above(2.0 * U * float(np.diag(H).sum()))
    return lambda v: np.asarray(scipy.linalg.cho_solve(factor, v, check_finite=False)), bottom


def _sparse(H: sp.csc_array) -> tuple[Solve, float]:
    """Factor into ``L D L'``, whose distance from the matrix is computed: no theorem bounds SuperLU's rounding."""
    n, unit = H.shape[0], sp.eye_array(H.shape[0])
    options = {"permc_spec": "MMD_AT_PLUS_A", "diag_pivot_thresh": 0.0, "options": {"SymmetricMode": True}}
    try:
        unshifted = splu(H, **options)
        if unshifted.nnz > FACTOR:
            raise too_large()
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


def independent(M: sp.csc_array) -> tuple[LongArray | None, int]:
    """Return columns that determine all others if they are independent, or None; and a column that depends on others.

    They are as many as the rank in whole numbers. The last column depends on others up to rounding, or comes closest to
    that.
    """
    core = _core(M)
    if len(core) > MOST_DEPENDENT:
        return None, 0
    dense = M[:, core].toarray()
    _, R, pivots = scipy.linalg.qr(dense, mode="economic", pivoting=True)
    diagonal, pivots = np.abs(np.diag(R)), core[pivots]
    rank = int(np.sum(diagonal > 1e-11 * diagonal.max(initial=0.0)))
    last = int(pivots[-1]) if len(pivots) else 0
    if exact.rank(dense) > rank:
        return None, int(pivots[rank])
    return np.sort(np.append(pivots[:rank], np.setdiff1d(np.arange(M.shape[1]), core))), last


def _core(M: sp.csc_array) -> LongArray:
    """Return columns that may be in a combination that is 0, which has no share of a column alone in a row."""
    core, pattern = np.arange(M.shape[1]), sp.csr_array(M != 0.0)
    while True:
        rows = pattern[:, core]
        singles = np.unique(rows.indices[rows.indptr[:-1][np.diff(rows.indptr) == 1]])
        if not len(singles):
            return core
        core = np.delete(core, singles)


def determined(A: sp.csr_array, b: FloatArray) -> tuple[FloatArray, LongArray, FloatArray]:
    """Return the variables that an equation of one variable determines exactly (else NaN), and the remaining rows.

    Last are right-hand sides without these variables, NaN if they are no floats. No other value is used.
    """
    x, pending = np.full(A.shape[1], np.nan), np.ones(A.shape[0], dtype=bool)
    columns, counts = A.tocsc(), np.diff(A.indptr)
    constants = [Fraction(v) for v in b.tolist()]
    queue = np.flatnonzero(counts <= 1).tolist()
    while queue:
        i = queue.pop()
        row = slice(A.indptr[i], A.indptr[i + 1])
        entries = [(j, v) for j, v in zip(A.indices[row].tolist(), A.data[row].tolist(), strict=True) if np.isnan(x[j])]
        if not entries:
            pending[i] = constants[i] != 0
        elif pending[i]:
            [(j, v)] = entries
            value = constants[i] / Fraction(v)
            if math.isnan(number := _float(value)):
                continue
            x[j], pending[i] = number, False
            column = slice(columns.indptr[j], columns.indptr[j + 1])
            for k, w in zip(columns.indices[column].tolist(), columns.data[column].tolist(), strict=True):
                constants[k] -= Fraction(w) * value
                counts[k] -= 1
                if counts[k] <= 1 and pending[k]:
                    queue.append(k)
    return x, np.flatnonzero(pending), np.array([_float(value) for value in constants])


def _float(value: Fraction) -> float:
    return float(value) if abs(value) < LARGEST_VALUE and Fraction(float(value)) == value else math.nan
