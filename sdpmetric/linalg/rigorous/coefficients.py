"""Sparse matrices of which every entry has a radius, 0 where sums and products are proven to be exact.

A product of floats of k and l binary digits is exact if k + l is at most 53, or one has a single digit; a sum is exact,
in any order, if all its terms are multiples of one power of 2 and the sum of their absolute values is less than 2^53
times that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from sdpmetric.arrays import BoolArray, FloatArray, LongArray
from sdpmetric.linalg.rigorous.directed import U

# Binary digits of a float.
DIGITS = 53
# Products above it do not underflow.
SMALLEST = 1e-280
# Products below it do not overflow.
LARGEST = 1e300
# Products of entries, at most.
MAX_PRODUCTS = 20_000_000
# More than the rounding of a quotient, and of a divisor such as the square root of a whole number, relatively.
QUOTIENT = 4.0 * U


class UnknownError(ValueError):
    """The error of a computation is not known."""


FIELDS = ("rows", "columns", "values", "radii")


@dataclass(frozen=True, eq=False)
class Coefficients:
    """A matrix of coefficients with the radius of each, as triplets ordered by row and column; none occurs twice."""

    rows: LongArray
    columns: LongArray
    values: FloatArray
    radii: FloatArray
    shape: tuple[int, int]

    @classmethod
    def of(
        cls, rows: LongArray, columns: LongArray, values: FloatArray, radii: FloatArray, shape: tuple[int, int]
    ) -> Coefficients:
        """Triplets added up."""
        place = rows.astype(np.int64) * shape[1] + columns
        order = np.argsort(place, kind="stable")
        place, values, radii = place[order], values[order], radii[order]
        first = np.flatnonzero(np.diff(place, prepend=-1))
        if len(first) < len(place):
            counts = np.diff(np.append(first, len(place)))
            sizes = np.add.reduceat(np.abs(values), first)
            unit = np.minimum.reduceat(_lowest(values), first)
            exact = (counts == 1) | (sizes < np.ldexp(1.0, np.clip(unit + DIGITS, -1000, 1000)))
            rounding = np.where(exact, 0.0, 1.01 * U * counts * sizes)
            twofold = first[counts == 2]
            a, b = values[twofold], values[twofold + 1]
            rounded_part = (a + b) - a
            rounding[counts == 2] = np.abs(
                (a - ((a + b) - rounded_part)) + (b - rounded_part)
            )  # exactly what a sum of two loses
            values, radii = np.add.reduceat(values, first), np.add.reduceat(radii, first) * (1.0 + 2.0 * U * counts)
            radii = radii + rounding
        place = place[first]
        used = (values != 0.0) | (radii > 0.0)
        return cls(place[used] // shape[1], place[used] % shape[1], values[used], radii[used], shape)

    @classmethod
    def exact(cls, M: sp.sparray) -> Coefficients:
        coo = sp.coo_array(M)
        return cls.of(coo.row, coo.col, coo.data, np.zeros(coo.nnz), coo.shape)

    def chosen(self, entries: LongArray) -> Coefficients:
        """Rows by number, a row of zeros for -1."""
        starts = np.searchsorted(self.rows, np.arange(self.shape[0] + 1))
        filled = np.flatnonzero(entries >= 0)
        first, last = starts[entries[filled]], starts[entries[filled] + 1]
        positions, k = _ranges(first, last - first)
        return Coefficients(
            filled[k],
            self.columns[positions],
            self.values[positions],
            self.radii[positions],
            (len(entries), self.shape[1]),
        )

    def __matmul__(self, other: Coefficients) -> Coefficients:
        starts = np.searchsorted(other.rows, np.arange(other.shape[0] + 1))
        counts = starts[self.columns + 1] - starts[self.columns]
        if counts.sum() > MAX_PRODUCTS:
            raise UnknownError("the program is too large to follow its compilation")
        positions, k = _ranges(starts[self.columns], counts)
        product, radii = times(self.values[k], self.radii[k], other.values[positions], other.radii[positions])
        return Coefficients.of(self.rows[k], other.columns[positions], product, radii, (self.shape[0], other.shape[1]))

    def __neg__(self) -> Coefficients:
        return Coefficients(self.rows, self.columns, -self.values, self.radii, self.shape)

    @classmethod
    def stacked(cls, matrices: Sequence[Coefficients]) -> Coefficients:
        """The rows of some matrices, one below another."""
        firsts = np.cumsum([0, *(matrix.shape[0] for matrix in matrices)])
        rows = [matrix.rows + first for matrix, first in zip(matrices, firsts, strict=False)]
        columns, values, radii = (np.concatenate([getattr(p, name) for p in matrices]) for name in FIELDS[1:])
        return cls(np.concatenate(rows), columns, values, radii, (int(firsts[-1]), matrices[0].shape[1]))

    @classmethod
    def total(cls, matrices: Sequence[Coefficients]) -> Coefficients:
        rows, columns, values, radii = (np.concatenate([getattr(p, name) for p in matrices]) for name in FIELDS)
        return cls.of(rows, columns, values, radii, matrices[0].shape)

    def divided(self, d: FloatArray, d_off: FloatArray) -> Coefficients:
        d, d_off = d[self.rows], d_off[self.rows]
        if (np.abs(d) <= 2.0 * d_off).any():
            raise UnknownError("a divisor may be 0")
        q = self.values / d
        exact = _fits(q, d) & (q * d == self.values) & (np.abs(q) > SMALLEST) & (d_off == 0.0)
        radii = (self.radii + np.abs(q) * d_off) / (np.abs(d) - d_off) * (1.0 + 8.0 * U)
        radii = radii + np.where(exact | (self.values == 0.0), 0.0, QUOTIENT * np.abs(q) + 1e-300)
        return Coefficients(self.rows, self.columns, q, radii, self.shape)

    def up_to(self, column: int) -> Coefficients:
        """The same without the columns behind one."""
        rows, columns, values, radii = (getattr(self, field)[self.columns <= column] for field in FIELDS)
        return Coefficients(rows, columns, values, radii, self.shape)

    def distances_above(self, M: sp.csr_array) -> sp.csr_array:
        """Floats not below the distance of each entry of a matrix from the exact one, without zeros."""
        entries, width = sp.coo_array(M), M.shape[1]
        rows, columns = (np.concatenate([a, b]) for a, b in ((self.rows, entries.row), (self.columns, entries.col)))
        values, radii = np.concatenate([-self.values, entries.data]), np.append(self.radii, np.zeros(entries.nnz))
        difference = Coefficients.of(rows, columns, values, radii, (self.shape[0], max(width, self.shape[1])))
        size = (np.abs(difference.values) + difference.radii) * (1.0 + 4.0 * U)
        return sp.csr_array((size, (difference.rows, difference.columns)), (self.shape[0], width))


def times(a: FloatArray, a_off: FloatArray, b: FloatArray, b_off: FloatArray) -> tuple[FloatArray, FloatArray]:
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        product = a * b
        size = np.abs(product)
        exact = _fits(a, b)
        exact &= ((size > SMALLEST) & (size < LARGEST)) | (a == 0.0) | (b == 0.0)
        radii = np.where(exact, 0.0, 1.01 * U * size + 1e-300)
        return product, radii + 1.01 * (np.abs(a) * b_off + a_off * (np.abs(b) + b_off))


def _ranges(first: LongArray, counts: LongArray) -> tuple[LongArray, LongArray]:
    """Numbers from each first one, so many, and which of these each belongs to."""
    k = np.repeat(np.arange(len(counts)), counts)
    return first[k] + np.arange(len(k)) - (np.cumsum(counts) - counts)[k], k


def _lowest(v: FloatArray) -> LongArray:
    """The exponent of the lowest binary digit of each float that is not 0."""
    mantissa, exponent = np.frexp(v)
    digits = np.abs(np.ldexp(np.where(np.isfinite(v), mantissa, 0.0), DIGITS)).astype(np.int64)
    low = np.frexp((digits & -digits).astype(np.float64))[1] - 1
    return np.where((v == 0.0) | ~np.isfinite(v), 2000, exponent - DIGITS + low).astype(np.int64)


def _digits(v: FloatArray) -> LongArray:
    return np.where(v == 0.0, 0, np.frexp(v)[1] - _lowest(v)).astype(np.int64)


def _fits(a: FloatArray, b: FloatArray) -> BoolArray:
    """Whether products have at most 53 binary digits."""
    first, second = _digits(a), _digits(b)
    return (first + second <= DIGITS) | (np.minimum(first, second) <= 1)
