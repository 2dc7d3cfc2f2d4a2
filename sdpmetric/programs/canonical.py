"""Cone programs, in units near 1, and what a solver says about them.

``minimize c'x + x'Px / 2 + offset subject to b - Ax in K``, where K is a product of zero, nonnegative, second-order,
semidefinite, exponential and power cones, in this order. The rows of a semidefinite block are its lower triangle: those
off the diagonal are the sum of both entries, and their multiplier is one entry of Z. The scaling by the root of 2 that
solvers expect is rounded, and is left to the solver's copy.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from sdpmetric.arrays import BoolArray, FloatArray, LongArray
from sdpmetric.engine.cached import cached
from sdpmetric.lazy import clarabel
from sdpmetric.lazy import cvxpy as cp

PASSES = 10  # Of equilibration
LARGEST_POWER = 400  # Of 2, of a unit: squares are floats
ROUNDING = 2.0**-46  # Entries smaller than this beside the largest of their row do not count for units


@dataclass(frozen=True)
class Cones:
    """The cones of the rows of a program, in CVXPY's order."""

    zero: int = 0
    nonneg: int = 0
    soc: tuple[int, ...] = ()
    psd: tuple[int, ...] = ()
    exp: int = 0
    power: tuple[float, ...] = ()

    @cached
    def linear(self) -> int:
        """Rows of the zero and the nonnegative cones."""
        return self.zero + self.nonneg

    @cached
    def soc_blocks(self) -> list[slice]:
        """Rows of each second-order cone."""
        return _slices(self.linear, self.soc)

    @cached
    def psd_blocks(self) -> list[slice]:
        """Rows of each semidefinite cone."""
        return _slices(self.linear + sum(self.soc), [k * (k + 1) // 2 for k in self.psd])

    @cached
    def threes(self) -> tuple[slice, slice]:
        """The rows of exponential and of power cones."""
        exp, power = _slices(self.size - 3 * (self.exp + len(self.power)), (3 * self.exp, 3 * len(self.power)))
        return exp, power

    @cached
    def size(self) -> int:
        """All rows."""
        triangles = sum(k * (k + 1) // 2 for k in self.psd)
        return self.linear + sum(self.soc) + triangles + 3 * (self.exp + len(self.power))

    @cached
    def block(self) -> LongArray:
        """The number of the block of each row; each row of the zero and nonnegative cones is one."""
        sizes = [1] * self.linear + [s.stop - s.start for s in (*self.soc_blocks, *self.psd_blocks)]
        sizes += [3] * (self.exp + len(self.power))
        return np.repeat(np.arange(len(sizes)), sizes)

    @cached
    def count(self) -> int:
        """Blocks."""
        return int(self.block[-1]) + 1 if self.size else 0

    @cached
    def dimensions(self) -> sp.csr_array:
        """The unit of each row: that of its block, or the product of those of two dimensions of a semidefinite one."""
        row, unit = np.arange(self.size), self.block.copy()
        pairs, count = [(row, unit)], self.count
        for side, rows in zip(self.psd, self.psd_blocks, strict=True):
            i, j = np.tril_indices(side)
            unit[rows] = count + i
            pairs.append((row[rows], count + j))
            count += side
        entries = tuple(np.concatenate(v) for v in zip(*pairs, strict=True))
        return sp.csr_array((np.ones(len(entries[0])), entries), (self.size, count))

    @cached
    def diagonal(self) -> BoolArray:
        """Rows that are not off the diagonal of a semidefinite block."""
        on_diagonal = np.ones(self.size, dtype=bool)
        for side, rows in zip(self.psd, self.psd_blocks, strict=True):
            on_diagonal[rows] = np.equal(*np.tril_indices(side))
        return on_diagonal

    def named(self, missing: FloatArray) -> str:
        """The cone that lacks the most, in words."""
        k, (exp, power) = int(np.argmax(missing)), self.threes
        name = f"inequality {k - self.zero + 1} of {self.nonneg}"
        triples = [[slice(first, first + 3) for first in range(rows.start, rows.stop, 3)] for rows in (exp, power)]
        kinds = {"second-order": self.soc_blocks, "semidefinite": self.psd_blocks}
        for kind, blocks in (kinds | {"exponential": triples[0], "power": triples[1]}).items():
            for number, rows in enumerate(blocks, 1):
                if rows.start <= k < rows.stop:
                    name = f"{kind} cone {number} of {len(blocks)}"
        return f"{name}, by {missing[k]:.1e}"

    @cached
    def interior(self) -> FloatArray:
        """A point inside the cone, 0 in the zero cone."""
        e = np.where(np.arange(self.size) < self.zero, 0.0, self.diagonal * 1.0)
        for rows in self.soc_blocks:
            e[rows.start + 1 : rows.stop] = 0.0
        exp, power = self.threes
        e[exp], e[power] = np.tile([0.0, 1.0, 2.0], self.exp), np.tile([1.0, 1.0, 0.0], len(self.power))
        return e

    @cached
    def dual_interior(self) -> FloatArray:
        """A point inside the dual cone, 0 in that of the zero cone."""
        e = self.interior.copy()
        e[self.threes[0]] = np.tile([-1.0, 0.0, 1.0], self.exp)
        return e


def _slices(first: int, sizes: list[int] | tuple[int, ...]) -> list[slice]:
    bounds = first + np.cumsum([0, *sizes])
    return [slice(int(start), int(stop)) for start, stop in pairwise(bounds)]


def lower_triangle(v: FloatArray, *, dual: bool) -> FloatArray:
    """The symmetric matrix of a semidefinite block of multipliers, or of slacks."""
    side = int(np.sqrt(2 * len(v)))
    row, column = np.tril_indices(side)
    S = np.zeros((side, side))
    S[row, column] = v if dual else np.where(row == column, v, 0.5 * v)
    S.T[row, column] = S[row, column]
    return S


class Data(NamedTuple):
    """The numbers of a cone program."""

    P: sp.csr_array
    c: FloatArray
    A: sp.csr_array
    b: FloatArray


@dataclass(frozen=True, eq=False)
class ConeProgram:
    """``minimize c'x + x'Px / 2 subject to b - Ax in K``; `numbers` are those of its rows in a larger program."""

    P: sp.csr_array
    c: FloatArray
    A: sp.csr_array
    b: FloatArray
    cones: Cones
    numbers: LongArray | None = None

    @property
    def data(self) -> Data:
        """All numbers."""
        return Data(self.P, self.c, self.A, self.b)

    @cached
    def transposed(self) -> sp.csr_array:
        """A', row by row."""
        return self.A.T.tocsr()

    @cached
    def curved(self) -> BoolArray:
        """Variables that the quadratic part of the objective depends on."""
        return np.asarray(np.diff(self.P.indptr) > 0)

    def of_rows(self, rows: LongArray, zero: int) -> ConeProgram:
        """Return the program with some of its linear rows, the first `zero` of which become equations."""
        numbers = np.append(rows, np.arange(self.cones.linear, self.cones.size))
        cones = replace(self.cones, zero=zero, nonneg=len(rows) - zero)
        return ConeProgram(self.P, self.c, self.A[numbers], self.b[numbers], cones, numbers)

    def equilibrated(self) -> tuple[ConeProgram, Units]:
        """The same program in units, powers of 2, in which the logarithms of rows and columns are 0 on average.

        Entries that are rounding beside the largest of their row do not count.
        """
        (m, n), S = self.A.shape, self.cones.dimensions
        A, P = abs(self.A).tocoo(), abs(self.P).tocoo()
        tops = np.zeros(m)
        np.maximum.at(tops, A.row, A.data)
        large = A.data > ROUNDING * tops[A.row]
        row, column, logs, bends = A.row[large], A.col[large], np.log2(A.data[large]), 0.5 * np.log2(P.data)
        counts = np.bincount(column, minlength=n) + np.bincount(P.col, minlength=n)
        shares = np.where(np.arange(S.shape[1]) < self.cones.count, 1.0, 0.5)
        shares /= np.maximum(S.T @ np.bincount(row, minlength=m), 1)
        powers, rows, columns = np.zeros(S.shape[1]), np.zeros(m), np.zeros(n)
        for _ in range(PASSES):
            powers = powers - shares * (S.T @ np.bincount(row, logs + rows[row] + columns[column], m))
            rows = S @ powers
            total = np.bincount(column, logs + rows[row] + columns[column], n)
            total = total + np.bincount(P.col, bends + 0.5 * (columns[P.row] + columns[P.col]), n)
            columns = columns - total / np.maximum(counts, 1)
        powers, columns = (
            np.clip(np.rint(v), -LARGEST_POWER, LARGEST_POWER).astype(np.int64) for v in (powers, columns)
        )
        rows = (S @ powers).astype(np.int64)
        sizes = (np.abs(v).max(initial=0.0) for v in (np.ldexp(self.b, rows), np.ldexp(self.c, columns)))
        units = Units(rows, columns, *(int(np.frexp(size)[1]) for size in sizes))
        scaled = units.of(self)
        return (scaled, units) if units.exact(self, scaled) else (self, Units.none(self))


@dataclass(frozen=True, eq=False)
class Units:
    """Powers of 2: ``x = 2^(columns + size_b) y`` for points y of the scaled program."""

    rows: LongArray
    columns: LongArray
    size_b: int
    size_c: int

    @classmethod
    def none(cls, program: ConeProgram) -> Units:
        """Those of the program itself."""
        m, n = program.A.shape
        return cls(np.zeros(m, dtype=np.int64), np.zeros(n, dtype=np.int64), 0, 0)

    def of(self, program: ConeProgram, sign: int = 1) -> ConeProgram:
        """The program in these units, or back in its own with the sign -1."""
        return ConeProgram(*self._of(program.data, sign), program.cones)

    def _of(self, data: Data, sign: int) -> Data:
        A, P = data.A.tocoo(), data.P.tocoo()
        a = np.ldexp(A.data, sign * (self.rows[A.row] + self.columns[A.col]))
        p = np.ldexp(P.data, sign * (self.columns[P.row] + self.columns[P.col] + self.size_b - self.size_c))
        return Data(
            P=sp.coo_array((p, (P.row, P.col)), P.shape).tocsr(),
            c=np.ldexp(data.c, sign * (self.columns - self.size_c)),
            A=sp.coo_array((a, (A.row, A.col)), A.shape).tocsr(),
            b=np.ldexp(data.b, sign * (self.rows - self.size_b)),
        )

    def exact(self, program: ConeProgram, scaled: ConeProgram) -> bool:
        """Whether nothing over- or underflowed."""
        restored = self.of(scaled, -1)
        pairs = zip(program.data, restored.data, strict=True)
        return all(np.array_equal(*(v.data if sp.issparse(v) else v for v in pair)) for pair in pairs)

    @property
    def objective(self) -> int:
        """The power of 2 by which the scaled objective has to be multiplied."""
        return self.size_b + self.size_c

    def point(self, y: FloatArray, sign: int = 1) -> FloatArray:
        """A point of the program in its own units, or with the sign -1 from there."""
        return np.asarray(np.ldexp(y, sign * (self.columns + self.size_b)))

    def dual(self, z: FloatArray, sign: int = 1) -> FloatArray:
        """Multipliers in the program's own units, or with the sign -1 from there."""
        return np.asarray(np.ldexp(z, sign * (self.rows + self.size_c)))

    def value(self, value: float, *, up: bool) -> float:
        """An objective in the program's own units, rounded outward."""
        if not self.objective or not value or not math.isfinite(value):
            return value
        return math.nextafter(float(np.ldexp(value, self.objective)), math.inf if up else -math.inf)


# -- solvers --------------------------------------------------------------------------------------------------------

# Whose exceptions are not a backend's own.
PYTHON = sys.stdlib_module_names | {"cvxpy", "numpy", "scipy", "sdpmetric"}


@contextmanager
def no_panic() -> Iterator[None]:
    """Raise CVXPY's error for those that a backend defines itself, and where one written in Rust panics."""
    try:
        yield
    except BaseException as error:  # from which the panics of Rust derive; their class cannot be imported
        home, panic = type(error).__module__.partition(".")[0], type(error).__name__ == "PanicException"
        if not panic and (not isinstance(error, Exception) or home in PYTHON):
            raise
        raise cp.error.SolverError(f"the backend says: {error}") from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what code in Rust writes to the terminal where it panics."""
    sys.stderr.flush()
    terminal = os.dup(2)
    with open(os.devnull, "wb") as sink:
        os.dup2(sink.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(terminal, 2)
            os.close(terminal)


@dataclass(frozen=True, eq=False)
class Answer:
    """What a solver says: a point and multipliers, of which nothing is believed."""

    x: FloatArray
    z: FloatArray
    status: str


@dataclass(frozen=True)
class Solver:
    """Clarabel: when it has to stop, whether it prints, and its tolerance."""

    deadline: float = math.inf
    verbose: bool = False
    tolerance: float = 1e-10

    @property
    def remaining(self) -> float:
        """Seconds before the deadline, possibly infinite."""
        return self.deadline - time.perf_counter()


def ask(
    program: ConeProgram, solver: Solver, primal: FloatArray | float = 0.0, dual: FloatArray | float = 0.0
) -> Answer | str:
    """Solve the program with its cone moved inward, row by row: slacks by `primal`, multipliers by `dual`.

    A sentence if the solver fails, or has no time.
    """
    cones = program.cones
    if solver.remaining <= 0.0:
        return "max_time was over"
    inside = dual * cones.dual_interior
    roots = np.where(cones.diagonal, 1.0, np.sqrt(2.0))
    A = (sp.diags_array(1.0 / roots) @ program.A).tocsr()
    b, c = (program.b - primal * cones.interior) / roots, program.c + program.transposed @ inside
    try:
        with no_panic():
            x, z, status = _clarabel(sp.triu(program.P).tocsc(), c, A, b, cones, solver)
    except (cp.error.SolverError, ValueError) as error:
        return f"the solver failed ({error})"
    answer = Answer(x, z / roots + inside, status)
    # Squares of numbers below 1e100 are floats.
    if not all((np.abs(v) < 1e100).all() for v in (answer.x, answer.z)):
        return f"the solver ended with the status {status}, without numbers"
    return answer


Numbers = tuple[FloatArray, FloatArray, str]


def _clarabel(P: sp.csc_array, c: FloatArray, A: sp.csr_array, b: FloatArray, cones: Cones, solver: Solver) -> Numbers:
    settings = clarabel.DefaultSettings()
    settings.verbose = solver.verbose
    settings.time_limit = max(solver.remaining, 1e-3)
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = solver.tolerance
    kinds = [
        *([clarabel.ZeroConeT(cones.zero)] if cones.zero else []),
        *([clarabel.NonnegativeConeT(cones.nonneg)] if cones.nonneg else []),
        *(clarabel.SecondOrderConeT(size) for size in cones.soc),
        *(clarabel.PSDTriangleConeT(side) for side in cones.psd),
        *(clarabel.ExponentialConeT() for _ in range(cones.exp)),
        *(clarabel.PowerConeT(alpha) for alpha in cones.power),
    ]
    with nullcontext() if solver.verbose else _quiet():
        solution = clarabel.DefaultSolver(P, c, A.tocsc(), b, kinds, settings).solve()
    return np.array(solution.x), np.array(solution.z), str(solution.status)
