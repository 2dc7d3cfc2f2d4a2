"""Dependent columns, and variables that equations determine, in rational numbers."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from sdpmetric.arrays import FloatArray, LongArray

DENSE = 2000  # Columns of which dependences are looked for
# Coefficients of redundant equations have one of these denominators, and so many binary digits.
DENOMINATORS, DIGITS = (1, 3, 5, 7, 9, 11, 13, 15), 12
HUGE = 1e300  # No float may be as large


def annihilates(A: sp.csr_array, z: FloatArray) -> bool:
    """Whether ``A'z = 0`` exactly."""
    total: dict[int, Fraction] = {}
    for i in np.flatnonzero(z).tolist():
        row = slice(A.indptr[i], A.indptr[i + 1])
        for j, value in zip(A.indices[row].tolist(), A.data[row].tolist(), strict=True):
            total[j] = total.get(j, Fraction(0)) + Fraction(value) * Fraction(float(z[i]))
    return not any(total.values())


def independent(M: sp.csc_array) -> tuple[LongArray | None, LongArray]:
    """Return columns of which all others are proven to be combinations, or None; and a column that depends on others.

    The coefficients are guessed to be fractions with few digits times powers of 2, and checked in rational numbers. The
    last column depends on others up to rounding, or comes closest to that.
    """
    core, rows = _core(M), M.T.tocsr()
    if len(core) > DENSE:
        return None, core[:0]
    _, R, pivots = scipy.linalg.qr(M[:, core].toarray(), mode="economic", pivoting=True)
    diagonal, pivots = np.abs(np.diag(R)), core[pivots]
    rank = int(np.sum(diagonal > 1e-11 * diagonal.max(initial=0.0)))
    basis = pivots[:rank]
    V = scipy.linalg.solve_triangular(R[:rank, :rank], R[:rank, rank:])
    V[np.abs(V) < 1e-9 * np.abs(V).max(initial=0.0)] = 0.0
    for column, j in zip(V.T, pivots[rank:].tolist(), strict=True):
        for denominator in DENOMINATORS:
            digits, powers = np.frexp(denominator * column)
            combination = np.zeros(M.shape[1])
            combination[basis] = np.ldexp(np.rint(np.ldexp(digits, DIGITS)), powers - DIGITS)
            combination[j] = -denominator
            close = np.allclose(combination[basis], denominator * column, rtol=1e-8, atol=0.0)
            if close and annihilates(rows, combination):
                break
        else:
            return None, np.array([j])
    return np.sort(np.append(basis, np.setdiff1d(np.arange(M.shape[1]), core))), pivots[-1:]


def _core(M: sp.csc_array) -> LongArray:
    """Columns that may be in a combination that is 0, which has no share of a column alone in a row."""
    core, pattern = np.arange(M.shape[1]), sp.csr_array(M != 0.0)
    while True:
        rows = pattern[:, core]
        singles = np.unique(rows.indices[rows.indptr[:-1][np.diff(rows.indptr) == 1]])
        if not len(singles):
            return core
        core = np.delete(core, singles)


def determined(A: sp.csr_array, b: FloatArray) -> tuple[FloatArray, LongArray, FloatArray]:
    """Variables that an equation without further ones determines exactly, NaN of others, and the rows that remain.

    Last are right-hand sides without these variables, NaN where they are no floats. No other value is used.
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
    return float(value) if abs(value) < HUGE and Fraction(float(value)) == value else math.nan
