"""Cone programs, in units near 1, and what Clarabel says about them.

``minimize c'x subject to b - Ax in K``, K a product of zero, nonnegative, second-order, semidefinite,
exponential and power cones, in this order, as CVXPY compiles it for Clarabel. The rows of a semidefinite block are its
upper triangle, column by column, with the entries off the diagonal multiplied by the root of 2.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy.sparse as sp

from sdpmetric.arrays import FloatArray, LongArray
from sdpmetric.engine.cached import cached
from sdpmetric.lazy import clarabel
from sdpmetric.lazy import cvxpy as cp

PASSES = 10  # Of equilibration
LARGEST_POWER = 200  # Of 2, of a unit
SMALLEST = 1e-280  # Products with units above it are exact


@dataclass(frozen=True)
class Cones:
    """The cones of the rows of a program, in CVXPY's order; of a power cone the exponents, which sum to 1."""

    zero: int = 0
    nonneg: int = 0
    soc: tuple[int, ...] = ()
    psd: tuple[int, ...] = ()
    exp: int = 0
    power: tuple[tuple[float, ...], ...] = ()

    @property
    def linear(self) -> int:
        """Rows of the zero and the nonnegative cones."""
        return self.zero + self.nonneg

    @cached
    def blocks(self) -> dict[str, list[slice]]:
        """Rows of each cone that is not linear, by kind."""
        sizes = {"soc": self.soc, "psd": [k * (k + 1) // 2 for k in self.psd], "exp": [3] * self.exp}
        sizes["power"] = [len(exponents) + 1 for exponents in self.power]
        bounds = self.linear + np.cumsum([0, *(size for kind in sizes.values() for size in kind)])
        slices = iter([slice(int(start), int(stop)) for start, stop in pairwise(bounds)])
        return {kind: [next(slices) for _ in of] for kind, of in sizes.items()}

    @cached
    def size(self) -> int:
        """All rows."""
        return max((rows.stop for of in self.blocks.values() for rows in of), default=self.linear)

    @cached
    def block(self) -> LongArray:
        """The number of the block of each row; each row of the zero and nonnegative cones is one."""
        sizes = [1] * self.linear + [rows.stop - rows.start for of in self.blocks.values() for rows in of]
        return np.repeat(np.arange(len(sizes)), sizes)

    @property
    def count(self) -> int:
        """Blocks."""
        return int(self.block[-1]) + 1 if self.size else 0

    @cached
    def interior(self) -> FloatArray:
        """A point inside the cone, 0 in the zero cone."""
        e = np.where(np.arange(self.size) < self.zero, 0.0, 1.0)
        for rows in self.blocks["soc"]:
            e[rows.start + 1 : rows.stop] = 0.0
        for side, rows in zip(self.psd, self.blocks["psd"], strict=True):
            e[rows] = np.equal(*np.tril_indices(side))
        for rows in self.blocks["exp"]:
            e[rows] = 0.0, 1.0, 2.0
        for rows in self.blocks["power"]:
            e[rows.stop - 1] = 0.0
        return e

    @cached
    def dual_interior(self) -> FloatArray:
        """A point inside the dual cone, 0 in that of the zero cone."""
        e = self.interior.copy()
        for rows in self.blocks["exp"]:
            e[rows] = -1.0, 0.0, 1.0
        return e


@dataclass(frozen=True, eq=False)
class ConeProgram:
    """``minimize c'x subject to b - Ax in K``."""

    c: FloatArray
    A: sp.csr_array
    b: FloatArray
    cones: Cones

    @cached
    def transposed(self) -> sp.csr_array:
        """A', row by row."""
        return self.A.T.tocsr()

    def equilibrated(self) -> tuple[ConeProgram, Units]:
        """Return the program in units, powers of 2, such that logarithms of rows and columns are 0 on average.

        Clarabel solves semidefinite programs better in their own units: 15 of 22 of SDPLIB were proven, 9 in others.
        """
        (m, n), block, A = self.A.shape, self.cones.block, abs(self.A).tocoo()
        own = self, Units(np.ones(m), np.ones(n))
        if self.cones.psd:
            return own
        row, column, logs = block[A.row], A.col, np.log2(A.data)
        row_counts, column_counts = (np.maximum(np.bincount(*of), 1) for of in ((row, None, m), (column, None, n)))
        rows, columns = np.zeros(m), np.zeros(n)
        for _ in range(PASSES):
            rows = rows - (np.bincount(row, logs + rows[A.row] + columns[column], m) / row_counts)[block]
            columns = columns - np.bincount(column, logs + rows[A.row] + columns[column], n) / column_counts
        powers = (np.clip(np.rint(v), -LARGEST_POWER, LARGEST_POWER).astype(np.int64) for v in (rows, columns))
        rows, columns = (np.ldexp(1.0, v) for v in powers)
        b, c, M = self.b * rows, self.c * columns, sp.csr_array(sp.diags_array(rows) @ self.A @ sp.diags_array(columns))
        size_b, size_c = (math.ldexp(1.0, int(np.frexp(np.abs(v).max(initial=0.0))[1])) for v in (b, c))
        scaled = ConeProgram(c / size_c, M, b / size_b, self.cones)
        sizes = np.abs(np.concatenate([M.data, b, c, scaled.b, scaled.c]))
        is_exact = ((sizes == 0.0) | ((sizes > SMALLEST) & (sizes < 1.0 / SMALLEST))).all()
        return (scaled, Units(rows, columns, size_b, size_c)) if is_exact else own


@dataclass(frozen=True, eq=False)
class Units:
    """Powers of 2: ``x = columns size_b y`` for points y of the scaled program."""

    rows: FloatArray
    columns: FloatArray
    size_b: float = 1.0
    size_c: float = 1.0

    def point(self, y: FloatArray) -> FloatArray:
        """Return a point of the program in its own units."""
        return y * self.columns * self.size_b

    def dual(self, z: FloatArray) -> FloatArray:
        """Return multipliers in the program's own units."""
        return z * self.rows * self.size_c

    def value(self, value: float, *, up: bool) -> float:
        """Return an objective in the program's own units, rounded outward."""
        if not value or not math.isfinite(value):
            return value
        return math.nextafter(value * self.size_b * self.size_c, math.inf if up else -math.inf)


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
    """Clarabel: when it has to stop, and its tolerance."""

    deadline: float = math.inf
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
    if solver.remaining <= 0.0:
        return "max_time was over"
    cones, settings, inside = program.cones, clarabel.DefaultSettings(), dual * program.cones.dual_interior
    settings.verbose, settings.time_limit = False, max(solver.remaining, 1e-3)
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = solver.tolerance
    kinds: Sequence[object] = [
        *([clarabel.ZeroConeT(cones.zero)] if cones.zero else []),
        *([clarabel.NonnegativeConeT(cones.nonneg)] if cones.nonneg else []),
        *(clarabel.SecondOrderConeT(size) for size in cones.soc),
        *(clarabel.PSDTriangleConeT(side) for side in cones.psd),
        *(clarabel.ExponentialConeT() for _ in range(cones.exp)),
        *(clarabel.PowerConeT(e[0]) if len(e) == 2 else clarabel.GenPowerConeT(list(e), 1) for e in cones.power),
    ]
    P, c = sp.csc_array((len(program.c), len(program.c))), program.c + program.transposed @ inside
    b = program.b - primal * cones.interior
    try:
        with no_panic(), _quiet():
            solution = clarabel.DefaultSolver(P, c, program.A.tocsc(), b, kinds, settings).solve()
    except (cp.error.SolverError, ValueError) as error:
        return f"the solver failed ({error})"
    answer = Answer(np.array(solution.x), np.array(solution.z) + inside, str(solution.status))
    # Squares of numbers below 1e100 are floats.
    if not all((np.abs(v) < 1e100).all() for v in (answer.x, answer.z)):
        return f"the solver ended with the status {answer.status}, without numbers"
    return answer
