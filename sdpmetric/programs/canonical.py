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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from sdpmetric.arrays import BoolArray, FloatArray, LongArray
from sdpmetric.engine.cached import cached
from sdpmetric.engine.interface import remaining
from sdpmetric.lazy import clarabel
from sdpmetric.lazy import cvxpy as cp

# Passes of equilibration; powers of 2 beyond this are left alone.
PASSES, LARGEST = 10, 400
# Entries smaller than this beside the largest of their row do not count for units.
ROUNDING = 2.0**-46


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
    def diagonal(self) -> BoolArray:
        """Rows that are not off the diagonal of a semidefinite block."""
        found = np.ones(self.size, dtype=bool)
        for side, rows in zip(self.psd, self.psd_blocks, strict=True):
            row, column = np.tril_indices(side)
            found[rows] = row == column
        return found

    def named(self, missing: FloatArray) -> str:
        """The cone that lacks the most, in words."""
        k = int(np.argmax(missing))
        kinds = [("second-order", self.soc_blocks), ("semidefinite", self.psd_blocks)]
        name = f"inequality {k - self.zero + 1} of {self.nonneg}"
        for kind, blocks in kinds:
            number = next((i for i, rows in enumerate(blocks) if rows.start <= k < rows.stop), None)
            if number is not None:
                name = f"{kind} cone {number + 1} of {len(blocks)}"
        for kind, rows in zip(("exponential", "power"), self.threes, strict=True):
            if rows.start <= k < rows.stop:
                name = f"{kind} cone {(k - rows.start) // 3 + 1}"
        return f"{name}, by {missing[k]:.1e}"

    def interior(self, *, dual: bool = False) -> FloatArray:
        """A point inside the cone, or inside its dual, 0 in the zero cone."""
        e = np.zeros(self.size)
        e[self.zero : self.linear] = 1.0
        e[[rows.start for rows in self.soc_blocks]] = 1.0
        for rows in self.psd_blocks:
            e[rows] = self.diagonal[rows]
        exp, power = self.threes
        e[exp] = np.tile([-1.0, 0.0, 1.0] if dual else [0.0, 1.0, 2.0], self.exp)
        e[power] = np.tile([1.0, 1.0, 0.0], len(self.power))
        return e


def _slices(first: int, sizes: list[int] | tuple[int, ...]) -> list[slice]:
    ends = first + np.cumsum([0, *sizes])
    return [slice(int(start), int(stop)) for start, stop in pairwise(ends)]


def lower_triangle(v: FloatArray, *, dual: bool) -> FloatArray:
    """The symmetric matrix of a semidefinite block of multipliers, or of slacks."""
    side = int(np.sqrt(2 * len(v)))
    row, column = np.tril_indices(side)
    S = np.zeros((side, side))
    S[row, column] = v if dual else np.where(row == column, v, 0.5 * v)
    S.T[row, column] = S[row, column]
    return S


class Data(NamedTuple):
    """The numbers of a cone program, or how far each may be from the exact one."""

    P: sp.csr_array
    c: FloatArray
    A: sp.csr_array
    b: FloatArray


@dataclass(frozen=True, eq=False)
class ConeProgram:
    """``minimize c'x + x'Px / 2 subject to b - Ax in K``.

    The floats are exact, or off by at most the radii in `uncertainty`. `proofs` keeps what was factorized.
    """

    P: sp.csr_array
    c: FloatArray
    A: sp.csr_array
    b: FloatArray
    cones: Cones
    uncertainty: Data | None = None
    proofs: dict[str | bytes | None, Any] = field(default_factory=dict, repr=False)

    @property
    def data(self) -> Data:
        """All numbers."""
        return Data(self.P, self.c, self.A, self.b)

    @cached
    def radii(self) -> Data:
        """The radii, zeros where all is exact."""
        zeros = Data(*(np.zeros(v.shape) if v.ndim == 1 else sp.csr_array(v.shape) for v in self.data))
        return zeros if self.uncertainty is None else self.uncertainty

    @cached
    def sizes(self) -> sp.csr_array:
        """The absolute values of A."""
        return abs(self.A)

    @cached
    def transposed(self) -> sp.csr_array:
        """A', row by row."""
        return self.A.T.tocsr()

    @cached
    def transposed_radii(self) -> sp.csr_array:
        """The radii of A', row by row."""
        return self.radii.A.T.tocsr()

    def of_rows(self, rows: LongArray, zero: int) -> ConeProgram:
        """The program with linear rows by number, the first so many of which become equations."""
        if zero == self.cones.zero and len(rows) == self.cones.linear:
            return self
        order, radii = np.append(rows, np.arange(self.cones.linear, self.cones.size)), self.radii
        uncertainty = None
        if self.uncertainty is not None:
            uncertainty = Data(radii.P, radii.c, radii.A[order], radii.b[order])
        cones = replace(self.cones, zero=zero, nonneg=len(rows) - zero)
        return ConeProgram(self.P, self.c, self.A[order], self.b[order], cones, uncertainty)

    def equilibrated(self) -> tuple[ConeProgram, Units]:
        """The same program in units, powers of 2, in which the logarithms of rows and columns are 0 on average."""
        m, n = self.A.shape
        rows, columns = np.zeros(m), np.zeros(n)
        A, P = self._large(), abs(self.P).tocoo()
        logs, curved = np.log2(A.data), 0.5 * np.log2(P.data)
        entries, counts = np.bincount(A.row, minlength=m), np.bincount(A.col, minlength=n)
        counts = np.maximum(counts + np.bincount(P.col, minlength=n), 1)
        for _ in range(PASSES):
            totals = np.asarray(np.bincount(A.row, logs + rows[A.row] + columns[A.col], m), dtype=np.float64)
            rows = rows - self._means(totals, entries)
            total = np.bincount(A.col, logs + rows[A.row] + columns[A.col], n)
            total = total + np.bincount(P.col, curved + 0.5 * (columns[P.row] + columns[P.col]), n)
            columns = columns - total / counts
        heights, widths = (np.clip(np.rint(v), -LARGEST, LARGEST).astype(np.int64) for v in (rows, columns))
        heights = self._blocks(heights)
        b, c = np.ldexp(self.b, heights), np.ldexp(self.c, widths)
        size_b, size_c = (int(np.frexp(np.abs(v).max(initial=0.0))[1]) for v in (b, c))
        units = Units(heights, widths, size_b, size_c)
        scaled = units.of(self)
        return (scaled, units) if units.exact(self, scaled) else (self, Units.none(self))

    def _large(self) -> sp.coo_array:
        """The absolute values of A without entries that are rounding beside their row, which would mislead means."""
        sizes = self.sizes
        most = np.asarray(sizes.max(axis=1).toarray()).ravel() if sizes.nnz else np.zeros(sizes.shape[0])
        A = sizes.tocoo()
        kept = A.data > ROUNDING * most[A.row]
        return sp.coo_array((A.data[kept], (A.row[kept], A.col[kept])), A.shape)

    def _means(self, totals: FloatArray, counts: LongArray) -> FloatArray:
        """Mean logarithms of rows, or of the rows of a block; half of that of each dimension of a semidefinite one."""
        cones, size = self.cones, int(self.cones.block[-1]) + 1 if self.cones.size else 0
        block = cones.block
        means = (np.bincount(block, totals, size) / np.maximum(np.bincount(block, counts, size), 1))[block]
        for side, rows in zip(cones.psd, cones.psd_blocks, strict=True):
            ends = np.tril_indices(side)
            parts = [sum(np.bincount(end, v[rows], side) for end in ends) for v in (totals, counts)]
            half = 0.5 * parts[0] / np.maximum(parts[1], 1)
            means[rows] = half[ends[0]] + half[ends[1]]
        return means

    def _blocks(self, powers: LongArray) -> LongArray:
        """Powers of 2 that keep semidefinite blocks: sums of those of dimensions, which halves on the diagonal are."""
        for side, rows in zip(self.cones.psd, self.cones.psd_blocks, strict=True):
            row, column = np.tril_indices(side)
            half = powers[rows][row == column] // 2
            powers[rows] = half[row] + half[column]
        return powers


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
        data = self._of(program.data, sign)
        return ConeProgram(
            *data, program.cones, None if program.uncertainty is None else self._of(program.uncertainty, sign)
        )

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
        back = self.of(scaled, -1)
        for before, after in ((program.data, back.data), (program.radii, back.radii)):
            ours, theirs = (np.concatenate([d.P.data, d.A.data, d.c, d.b]) for d in (before, after))
            if not np.array_equal(ours, theirs):
                return False
        return True

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
        outward = math.inf if up else -math.inf
        scaled = float(np.ldexp(value, self.objective))
        if self.objective and value and math.isfinite(value):
            scaled = math.nextafter(scaled, outward)
        if math.isfinite(value) and not math.isfinite(scaled):
            return scaled if (scaled > 0.0) == up else math.copysign(sys.float_info.max, scaled)
        return scaled

    def scaled(self, value: float) -> float:
        """A float not below an objective of the program in its own units."""
        return math.nextafter(float(np.ldexp(value, -self.objective)), math.inf)


# -- solvers --------------------------------------------------------------------------------------------------------

# Whose exceptions are not a backend's own.
KNOWN = sys.stdlib_module_names | {"cvxpy", "numpy", "scipy", "sdpmetric"}
# Less than Clarabel's 1e-8: on SDPLIB's control1 the interval is 30,000 times narrower.
REGULARIZATION = 1e-12


@contextmanager
def no_panic() -> Iterator[None]:
    """Raise CVXPY's error for those that a backend defines itself, and where one written in Rust panics."""
    try:
        yield
    except BaseException as error:
        home, panic = type(error).__module__.partition(".")[0], type(error).__name__ == "PanicException"
        if not panic and (not isinstance(error, Exception) or home in KNOWN):
            raise
        raise cp.error.SolverError(f"the backend says: {error}") from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what code in Rust writes to the terminal where it panics."""
    sys.stderr.flush()
    kept = os.dup(2)
    with open(os.devnull, "wb") as nothing:
        os.dup2(nothing.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)


@dataclass(frozen=True, eq=False)
class Answer:
    """What a solver says: a point and multipliers, of which nothing is believed."""

    x: FloatArray
    z: FloatArray
    status: str

    @property
    def usable(self) -> bool:
        """Whether all is finite, and squares are."""
        return bool((np.abs(self.x) < 1e100).all() and (np.abs(self.z) < 1e100).all())


@dataclass(frozen=True)
class Solver:
    """A solver by CVXPY's name, with its options; Clarabel is more accurate with less regularization, if it ends."""

    name: str = "CLARABEL"
    options: Mapping[str, object] = field(default_factory=dict)
    verbose: bool = False
    accurate: bool = True
    tolerance: float = 1e-10


def ask(
    program: ConeProgram, solver: Solver, primal: FloatArray | float = 0.0, dual: FloatArray | float = 0.0
) -> Answer | str:
    """Solve the program with its cone moved inward, row by row: slacks by `primal`, multipliers by `dual`.

    A sentence if the solver fails, or has no time.
    """
    cones = program.cones
    if remaining() <= 0.0:
        return "max_time was over"
    inside = dual * cones.interior(dual=True)
    roots = np.where(cones.diagonal, 1.0, np.sqrt(2.0))
    A = (sp.diags_array(1.0 / roots) @ program.A).tocsr()
    b, c = (program.b - primal * cones.interior()) / roots, program.c + program.transposed @ inside
    P = sp.triu(program.P).tocsc()
    try:
        with no_panic():
            x, z, status = (_clarabel if solver.name == "CLARABEL" else _cvxpy)(P, c, A, b, cones, solver)
    except (cp.error.SolverError, ValueError) as error:
        return f"the solver failed ({error})"
    answer = Answer(x, z / roots + inside, status)
    return answer if answer.usable else f"the solver ended with the status {status}, without numbers"


Numbers = tuple[FloatArray, FloatArray, str]


def _clarabel(P: sp.csc_array, c: FloatArray, A: sp.csr_array, b: FloatArray, cones: Cones, solver: Solver) -> Numbers:
    settings = clarabel.DefaultSettings()
    settings.verbose = solver.verbose
    settings.time_limit = max(remaining(), 1e-3)
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = solver.tolerance
    if solver.accurate:
        settings.static_regularization_constant = REGULARIZATION
    for name, value in solver.options.items():
        if not hasattr(settings, name):
            raise TypeError(f"CLARABEL has no option {name!r}.")
        setattr(settings, name, value)
    kinds = [
        *([clarabel.ZeroConeT(cones.zero)] if cones.zero else []),
        *([clarabel.NonnegativeConeT(cones.nonneg)] if cones.nonneg else []),
        *(clarabel.SecondOrderConeT(size) for size in cones.soc),
        *(clarabel.PSDTriangleConeT(side) for side in cones.psd),
        *(clarabel.ExponentialConeT() for _ in range(cones.exp)),
        *(clarabel.PowerConeT(alpha) for alpha in cones.power),
    ]
    with nullcontext() if solver.verbose else _quiet():
        found = clarabel.DefaultSolver(P, c, A.tocsc(), b, kinds, settings).solve()
    return np.array(found.x), np.array(found.z), str(found.status)


def _cvxpy(P: sp.csc_array, c: FloatArray, A: sp.csr_array, b: FloatArray, cones: Cones, solver: Solver) -> Numbers:
    """Any solver that CVXPY has, through CVXPY."""
    x = cp.Variable(len(c))
    objective = c @ x
    if P.nnz:
        objective = objective + 0.5 * cp.quad_form(x, cp.psd_wrap((P + sp.triu(P, 1).T).tocsc()))
    s, constraints = b - A @ x, list[cp.Constraint]()
    maps: list[tuple[slice, sp.csr_array | None]] = []
    for rows in (slice(0, cones.zero), slice(cones.zero, cones.linear)):
        if rows.stop > rows.start:
            constraints.append(s[rows] == 0 if rows.start == 0 and cones.zero else s[rows] >= 0)
            maps.append((rows, None))
    for rows in cones.soc_blocks:
        constraints.append(cp.SOC(s[rows.start], s[rows.start + 1 : rows.stop]))
        maps.append((rows, None))
    for side, rows in zip(cones.psd, cones.psd_blocks, strict=True):
        row, column = np.tril_indices(side)
        share = np.where(row == column, 0.5, np.sqrt(0.5))  # both halves of an entry on the diagonal are added up
        entries, k = np.concatenate([row + side * column, column + side * row]), np.arange(len(row))
        T = sp.csr_array((np.tile(share, 2), (entries, np.tile(k, 2))), (side * side, len(k)))
        constraints.append(cp.reshape(T @ s[rows], (side, side), order="F") >> 0)
        maps.append((rows, T))
    for number in range(cones.exp + len(cones.power)):
        first = cones.threes[0].start + 3 * number
        three = [s[first + k] for k in range(3)]
        power = number - cones.exp
        constraints.append(cp.ExpCone(*three) if power < 0 else cp.PowCone3D(*three, cones.power[power]))
        maps.append((slice(first, first + 3), None))
    problem = cp.Problem(cp.Minimize(objective), constraints)
    options: dict[str, object] = {}
    if solver.name == "SCS":  # by default it ends at 1e-5
        options = {"eps_abs": 1e-9, "eps_rel": 1e-9, "max_iters": 20_000}
        options |= {"time_limit_secs": max(remaining(), 1e-3)} if math.isfinite(remaining()) else {}
    problem.solve(solver=solver.name, verbose=solver.verbose, **(options | dict(solver.options)))
    z = np.full(cones.size, np.nan)
    for constraint, (rows, T) in zip(constraints, maps, strict=True):
        values = [v.value for v in constraint.dual_variables]
        if all(v is not None for v in values):
            flat = np.concatenate([np.ravel(v, order="F") for v in values])
            z[rows] = flat if T is None else T.T @ flat
    z[: cones.zero] *= -1.0  # CVXPY adds multipliers times what is 0, and subtracts them times what is not negative
    return (np.full(len(c), np.nan) if x.value is None else np.array(x.value)), z, str(problem.status)
