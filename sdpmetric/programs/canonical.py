"""Cone programs that CVXPY compiles, in units near 1, and what Clarabel says about them.

``minimize c'x subject to b - Ax in K``, K a product of zero, nonnegative, second-order, semidefinite,
exponential and power cones, in this order, as CVXPY compiles it for Clarabel. The rows of a semidefinite block are its
upper triangle, column by column, with the entries off the diagonal multiplied by the root of 2.
"""

from __future__ import annotations

import math
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from sdpmetric.arrays import FloatArray, LongArray
from sdpmetric.engine.lazy import cached
from sdpmetric.lazy import clarabel
from sdpmetric.lazy import cvxpy as cp
from sdpmetric.linalg.rigorous.directed import sum_above, sum_below

if TYPE_CHECKING:
    from cvxpy.reductions.chain import Chain
    from cvxpy.reductions.solution import Solution

PASSES = 10  # Of equilibration
LARGEST_POWER = 200  # Of 2, of a unit
UNDERFLOW = 1e-280  # Products of larger numbers are exact, and their sums lose less than this


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
        unscaled = self, Units(np.ones(m), np.ones(n))
        if self.cones.psd:
            return unscaled
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
        is_exact = ((sizes == 0.0) | ((sizes > UNDERFLOW) & (sizes < 1.0 / UNDERFLOW))).all()
        return (scaled, Units(rows, columns, size_b, size_c)) if is_exact else unscaled


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
    """Raise CVXPY's error for errors that a backend defines itself, and for panics of a backend in Rust."""
    try:
        yield
    except BaseException as error:  # the base of Rust's panics; their class cannot be imported
        home, panic = type(error).__module__.partition(".")[0], type(error).__name__ == "PanicException"
        if not panic and (not isinstance(error, Exception) or home in PYTHON):
            raise
        raise cp.error.SolverError(f"the backend says: {error}") from error


@dataclass(frozen=True, eq=False)
class Answer:
    """A solver's answer: a point and multipliers, not to be trusted."""

    x: FloatArray
    z: FloatArray
    status: str


@dataclass(frozen=True)
class ConeSolver:
    """Clarabel, and when it must stop."""

    deadline: float = math.inf

    @property
    def remaining(self) -> float:
        """Seconds before the deadline, possibly infinite."""
        return self.deadline - time.perf_counter()


def ask(
    program: ConeProgram, solver: ConeSolver, primal: FloatArray | float = 0.0, dual: FloatArray | float = 0.0
) -> Answer | str:
    """Solve the program with its cone moved inward, row by row: slacks by `primal`, multipliers by `dual`.

    A sentence if the solver fails, or has no time.
    """
    if solver.remaining <= 0.0:
        return "max_time was over"
    cones, settings, inside = program.cones, clarabel.DefaultSettings(), dual * program.cones.dual_interior
    settings.verbose, settings.time_limit = False, max(solver.remaining, 1e-3)
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
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
        with no_panic():
            solution = clarabel.DefaultSolver(P, c, program.A.tocsc(), b, kinds, settings).solve()
    except (cp.error.SolverError, ValueError) as error:
        return f"the solver failed ({error})"
    answer = Answer(np.array(solution.x), np.array(solution.z) + inside, str(solution.status))
    # Squares of numbers below 1e100 are floats.
    if not all((np.abs(v) < 1e100).all() for v in (answer.x, answer.z)):
        return f"the solver ended with the status {answer.status}, without numbers"
    return answer


# The classes of constraints that are compiled without approximations; of subclasses CVXPY may lose a part.
EXACT_CONES = (
    "Equality",
    "Zero",
    "Inequality",
    "NonPos",
    "NonNeg",
    "SOC",
    "PSD",
    "ExpCone",
    "PowCone3D",
    "PowConeND",
)


@dataclass(frozen=True, eq=False)
class Canonical:
    """The cone program that CVXPY compiles from a problem."""

    program: ConeProgram
    offset: float  # the constant of the objective
    sign: int  # -1 if the problem is a maximization; the program minimizes
    problem: cp.Problem
    chain: Chain
    inverse: list[object]
    # the rows of CVXPY's program that the program has; it has none that no point violates, as ``x <= infinity``
    used_rows: LongArray
    size: int  # all rows of CVXPY's program

    @classmethod
    def of(cls, problem: cp.Problem) -> Canonical:
        """Compile a problem; sentences for those that are no convex cone program."""
        check(problem)
        if not sum(v.size for v in problem.variables()):
            extra = cp.Problem(problem.objective, [*problem.constraints, cp.Variable() == 0])
            return replace(cls.of(extra), problem=problem)
        variables = problem.variables()
        with with_values(variables, [None] * len(variables)), warnings.catch_warnings():  # as before a solve
            warnings.simplefilter("ignore")
            try:
                data, chain, inverse = problem.get_problem_data("CLARABEL", solver_opts={"use_quad_obj": False})
            except cp.error.SolverError as error:
                raise ValueError(f"CVXPY does not compile the program for Clarabel: {error}") from error
        dims, n = data["dims"], len(data["c"])
        powers = [(a, 1.0 - a) for a in dims.p3d] + [tuple(np.divide(a, np.sum(a)).tolist()) for a in dims.pnd]
        cones = Cones(dims.zero, dims.nonneg, tuple(dims.soc), tuple(dims.psd), dims.exp, tuple(powers))
        A, b = sp.csr_array(data["A"]), np.asarray(data["b"], dtype=np.float64)
        A.eliminate_zeros()
        if len(b) != cones.size:
            raise ValueError(
                f"CVXPY {cp.__version__} compiles the program to {len(b)} rows for cones of {cones.size}; state what "
                "has three dimensions by matrices."
            )
        rows = np.arange(cones.size)
        used_rows = np.flatnonzero((b != np.inf) | (rows < cones.zero) | (rows >= cones.linear))
        cones = replace(cones, nonneg=cones.nonneg - cones.size + len(used_rows))
        program = ConeProgram(data["c"], A[used_rows], b[used_rows], cones)
        if not all(np.isfinite(v).all() for v in (program.A.data, program.b, program.c)):
            raise ValueError("the program has NaN or infinity in its data; give finite numbers to its constants.")
        sign = -1 if isinstance(problem.objective, cp.Maximize) else 1
        compiled = cls(program, 0.0, sign, problem, chain, inverse, used_rows, len(rows))
        constant = compiled._inverted(np.zeros(n), np.zeros(len(program.b))).opt_val
        return replace(compiled, offset=sign * float(np.real(constant)))

    def total(self, value: float, *, up: bool) -> float:
        """Return an objective with its constant, rounded outward."""
        if not value or not self.offset or not math.isfinite(value):
            return value + self.offset
        terms = np.array([value, self.offset])
        return sum_above(terms) if up else sum_below(terms)

    def values(self, x: FloatArray) -> dict[int, FloatArray]:
        """Return the problem's variables by id at a point of the program."""
        primal = self._inverted(x, np.zeros(len(self.used_rows))).primal_vars
        return {v.id: np.asarray(primal[v.id]) for v in self.problem.variables()}

    def multipliers(self, z: FloatArray) -> dict[cp.Constraint, FloatArray | list[FloatArray]]:
        """Return multipliers of the program as CVXPY's dual values of the problem's constraints, which keep theirs."""
        dual = self._inverted(np.zeros(len(self.program.c)), z).dual_vars
        multipliers: dict[cp.Constraint, FloatArray | list[FloatArray]] = {}
        for constraint in self.problem.constraints:
            if dual.get(constraint.id) is not None:
                with with_values(constraint.dual_variables):
                    constraint.save_dual_value(dual[constraint.id])
                    multipliers[constraint] = constraint.dual_value
        return multipliers

    def _inverted(self, x: FloatArray, z: FloatArray) -> Solution:
        """Return what CVXPY makes of a solution by Clarabel."""
        rows = np.zeros(self.size)
        rows[self.used_rows] = z
        answer = {"x": x, "z": rows, "s": rows, "status": "Solved", "obj_val": 0.0, "solve_time": 0.0, "iterations": 0}
        return self.chain.invert(SimpleNamespace(**answer), self.inverse)

    # -- names --------------------------------------------------------------------------------------------------------

    def constraint_name(self, k: int) -> str:
        """Return the label of a constraint of the problem, or its place in ``problem.constraints``."""
        label = self.problem.constraints[k].label
        return f"problem.constraints[{k}]" if label is None else f"the constraint {label!r}"

    def row_name(self, row: int) -> str:
        """Return what a row is compiled from: a constraint, the objective, or attributes of a variable.

        Rows that CVXPY introduces belong to what they are connected with by columns that it introduces.
        """
        (m, n), block, owners = self.program.A.shape, self.program.cones.block, np.full(len(self.used_rows), -1)
        for k, constraint in enumerate(self.problem.constraints):
            numbered = self._numbered.dual_vars.get(constraint.id, np.zeros(0))
            owners[np.isin(block, block[_numbers(numbered) - 1])] = k
            entries = [] if isinstance(numbered, list) else np.argwhere(np.abs(numbered) == row + 1).tolist()
            if entries and row < self.program.cones.linear and constraint.size > 1:
                return f"entry {entries[0]} of {self.constraint_name(k)}"
        introduced = np.setdiff1d(np.arange(n), np.concatenate([*self._columns.values(), [-1]]))
        blocks = sp.csr_array((np.ones(m), (np.arange(m), block)), (m, m))
        links = sp.hstack([blocks, abs(self.program.A[:, introduced])])
        graph = sp.block_array([[None, links], [links.T, None]])
        components = sp.csgraph.connected_components(graph, directed=False)[1]
        connected = owners[(components[:m] == components[row]) & (owners >= 0)]
        if len(connected):
            return self.constraint_name(int(connected[0]))
        if (components[2 * m :] == components[row]).any():
            return "the objective"
        return f"an attribute of {self.column_name(int(self.program.A[[row]].indices[0]))}"

    def column_name(self, column: int) -> str:
        """Return the variable of a column, or what CVXPY introduces it for."""
        for v in self.problem.variables():
            if column in self._columns[v.id]:
                return f"the variable {v.name()}"
        rows = self.program.transposed[[column]].indices
        return f"a variable that CVXPY introduces for {self.row_name(int(rows[0])) if len(rows) else 'the objective'}"

    @cached
    def _numbered(self) -> Solution:
        """The variables and dual values of a solution with entries numbered from 1."""
        return self._inverted(np.arange(1.0, len(self.program.c) + 1), np.arange(1.0, len(self.used_rows) + 1))

    @cached
    def _columns(self) -> dict[int, LongArray]:
        """The columns of each variable of the problem."""
        return {v.id: _numbers(self._numbered.primal_vars[v.id]) - 1 for v in self.problem.variables()}


def _numbers(values: FloatArray | list[FloatArray]) -> LongArray:
    """Return the entries, real or imaginary parts, that are whole numbers from 1."""
    items = values if isinstance(values, list) else [values]
    numbers = np.abs(np.concatenate([np.ravel(of) for value in items for of in (np.real(value), np.imag(value))]))
    return np.asarray(numbers[(numbers >= 1.0) & (numbers == np.rint(numbers))], dtype=np.int64)


def check(problem: cp.Problem) -> None:
    """Raise an error, a sentence, for programs that are not bounded."""
    if not isinstance(problem, cp.Problem):
        raise TypeError(f"bound takes a cvxpy.Problem, got {type(problem).__name__}; `solve` takes a metric's problem.")
    if lacking := [p.name() for p in problem.parameters() if p.value is None]:
        raise ValueError(f"parameters {', '.join(lacking)} of the program have no value; set them first.")
    integers = [v.name() for v in problem.variables() if v.attributes["boolean"] or v.attributes["integer"]]
    if integers or problem.is_mixed_integer():
        raise ValueError(
            f"the program has integer or boolean variables ({', '.join(integers)}); relax them, and the bound holds "
            "for the program with integers as well."
        )
    kinds = {type(c) for c in problem.constraints}
    if unknown := [k.__name__ for k in kinds if k.__name__ not in EXACT_CONES or not k.__module__.startswith("cvxpy.")]:
        raise ValueError(
            f"constraints of the class {unknown[0]} are not bounded; state them by {', '.join(EXACT_CONES)}."
        )
    if not problem.is_dcp():
        how = "in logarithms of its variables" if problem.is_dgp() else "as a disciplined convex program"
        raise ValueError(f"the program is not convex by CVXPY's rules (problem.is_dcp() is False); state it {how}.")


@contextmanager
def with_values(variables: Sequence[cp.Variable], values: Sequence[FloatArray | None] = ()) -> Iterator[None]:
    """Give variables values for a while; CVXPY 1.9.3 reads those of a solve in some atoms, and fails."""
    before = [v.value for v in variables]
    try:
        for v, value in zip(variables, values, strict=False):
            v.save_value(value)
        yield
    finally:
        for v, value in zip(variables, before, strict=True):
            v.save_value(value)
