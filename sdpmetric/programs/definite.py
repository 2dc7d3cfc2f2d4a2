"""Matrices that are proven to be positive definite, columns that depend on others, and systems of equations."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from sdpmetric.arrays import FloatArray, LongArray
from sdpmetric.engine.interface import remaining
from sdpmetric.linalg.rigorous.directed import U, above, gamma, norm_above
from sdpmetric.programs.canonical import ConeProgram

SPARSE = 150  # Columns from which on sparse matrices are factorized as such
DENSE = 2000  # Columns of which dependences are looked for; four times as many in one dense factorization
FACTOR = 40_000_000  # Entries of a sparse factor, at most: 320 MB
# Coefficients of redundant equations have one of these denominators, and so many binary digits.
DENOMINATORS, DIGITS = (1, 3, 5, 7, 9, 11, 13, 15), 12
HUGE = 1e300  # No float may be as large

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
    def of(
        cls,
        W: sp.csr_array,
        W_radii: sp.csr_array,
        P: sp.csr_array | None = None,
        P_radii: sp.csr_array | None = None,
    ) -> Definite | None:
        """None where it is singular, as far as floats can tell, or may be so for W and P within the radii."""
        n = W.shape[1]
        squares = np.asarray(W.multiply(W).sum(axis=0)).ravel() + (0.0 if P is None else P.diagonal())
        if not (squares > 0.0).all() or not np.isfinite(squares).all() or remaining() <= 0.0:
            return None
        powers = -np.rint(0.5 * np.log2(squares)).astype(np.int64)
        unit = sp.diags_array(np.ldexp(1.0, powers))
        W = (W @ unit).tocsr()
        matrix = W.toarray() if W.nnz > 0.2 * W.shape[0] * n else W
        H = sp.csc_array(matrix.T @ matrix)
        terms = float(np.bincount(W.indices, minlength=1).max()) + 8.0
        trace = float(W.multiply(W).sum())
        rounding = gamma(terms) * trace + 2.0 * math.sqrt(trace) * float((W_radii @ unit).sum())
        if P is not None and P_radii is not None:
            H = H + unit @ P @ unit
            rounding += gamma(8) * float(abs(H).sum(axis=1).max(initial=0.0))
            rounding += float((unit @ P_radii @ unit).sum())
        dense = n <= SPARSE or H.nnz > 0.2 * n * n
        factor, bottom = _dense(H.toarray()) if dense else _sparse(sp.csc_array(H))
        bottom = math.nextafter(bottom - above(rounding, n + 16), -math.inf)
        return cls(powers, factor, bottom) if bottom > 0.0 else None

    @classmethod
    def empty(cls) -> Definite:
        """The matrix without rows."""
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
    if n > 4 * DENSE:
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


def independent(M: sp.csc_array) -> LongArray | None:
    """Columns of which all others are proven to be combinations, as of redundant equations; None without such a proof.

    The coefficients are guessed to be fractions with few digits times powers of 2, and checked in rational numbers.
    """
    core = _core(M)
    if len(core) > DENSE:
        return None
    _, R, pivots = scipy.linalg.qr(M[:, core].toarray(), mode="economic", pivoting=True)
    diagonal, pivots = np.abs(np.diag(R)), core[pivots]
    rank = int(np.sum(diagonal > 1e-11 * diagonal.max(initial=0.0)))
    basis = pivots[:rank]
    V = scipy.linalg.solve_triangular(R[:rank, :rank], R[:rank, rank:])
    V[np.abs(V) < 1e-9 * np.abs(V).max(initial=0.0)] = 0.0
    for k, j in enumerate(pivots[rank:].tolist()):
        rows = np.flatnonzero(V[:, k])
        for denominator in DENOMINATORS:
            digits, powers = np.frexp(denominator * V[rows, k])
            guess = np.ldexp(np.rint(np.ldexp(digits, DIGITS)), powers - DIGITS)
            close = np.allclose(guess, denominator * V[rows, k], rtol=1e-8, atol=0.0)
            combination = [*zip(basis[rows].tolist(), guess.tolist(), strict=True), (j, -float(denominator))]
            if close and _vanishes(M, combination):
                break
        else:
            return None
    return np.sort(np.append(basis, np.setdiff1d(np.arange(M.shape[1]), core)))


def _core(M: sp.csc_array) -> LongArray:
    """Columns that may be in a combination that is 0, which has no share of a column alone in a row."""
    core, pattern = np.arange(M.shape[1]), sp.csr_array(M != 0.0)
    while True:
        rows = pattern[:, core]
        singles = np.unique(rows.indices[rows.indptr[:-1][np.diff(rows.indptr) == 1]])
        if not len(singles):
            return core
        core = np.delete(core, singles)


def _vanishes(M: sp.csc_array, combination: list[tuple[int, float]]) -> bool:
    """Whether a combination of columns is exactly 0."""
    total: dict[int, Fraction] = {}
    for j, factor in combination:
        column = slice(M.indptr[j], M.indptr[j + 1])
        for i, value in zip(M.indices[column].tolist(), M.data[column].tolist(), strict=True):
            total[i] = total.get(i, Fraction(0)) + Fraction(value) * Fraction(factor)
    return not any(total.values())


@dataclass(frozen=True, eq=False)
class Equations:
    """Equations of a program from which all others follow, for the variables that these do not determine exactly.

    Attributes
    ----------
    values : (n,) array
        Of variables that are determined, NaN of the others.
    matrix : sparse array
        The coefficients of the latter.
    definite : Definite or None
        The products of its rows; None where they depend on each other, or nearly.
    """

    values: FloatArray
    rows: LongArray
    matrix: sp.csr_array
    definite: Definite | None

    @classmethod
    def of(cls, program: ConeProgram) -> Equations:
        """Those of the rows of the zero cone."""
        zero, radii = program.cones.zero, program.radii.A[: program.cones.zero]
        A, exact = program.A[:zero], program.uncertainty is None
        values, rows, constants = np.full(A.shape[1], np.nan), np.flatnonzero(np.diff(A.indptr)), list[Fraction]()
        if exact:
            values, rows, constants = _determined(A, program.b[:zero])
        matrix = sp.csr_array(A[rows] @ sp.diags_array(np.isnan(values) * 1.0))
        matrix.eliminate_zeros()
        definite = Definite.of(matrix.T.tocsr(), radii[rows].T.tocsr()) if len(rows) else Definite.empty()
        if definite is None and exact:
            b = np.array([float(constants[i]) if abs(constants[i]) < HUGE else math.nan for i in rows])
            if np.isfinite(b).all() and all(Fraction(v) == constants[i] for v, i in zip(b.tolist(), rows, strict=True)):
                basis = independent(sp.csc_array(sp.hstack([matrix, b[:, None]]).T))
                if basis is not None and len(basis) < len(rows):
                    rows, matrix = rows[basis], matrix[basis]
                    definite = Definite.of(matrix.T.tocsr(), radii[rows].T.tocsr())
        return cls(values, rows, matrix, definite)


def _determined(A: sp.csr_array, b: FloatArray) -> tuple[FloatArray, LongArray, list[Fraction]]:
    """Variables that an equation without further ones determines exactly, NaN of others, and the rows that remain.

    The fractions are right-hand sides without these variables. A value that is no float is not used.
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
            if abs(value) > HUGE or Fraction(float(value)) != value:
                continue
            x[j], pending[i] = float(value), False
            column = slice(columns.indptr[j], columns.indptr[j + 1])
            for k, w in zip(columns.indices[column].tolist(), columns.data[column].tolist(), strict=True):
                constants[k] -= Fraction(w) * value
                counts[k] -= 1
                if counts[k] <= 1 and pending[k]:
                    queue.append(k)
    return x, np.flatnonzero(pending), constants
