"""The cone program that CVXPY makes of a problem, in units near 1, and what a solver says about it.

``minimize c'x + x'Px / 2 + offset subject to b - Ax in K``, where K is a product of zero, nonnegative, second-order,
semidefinite, exponential and power cones, in this order. The rows of a semidefinite block are its lower triangle: those
off the diagonal are the sum of both entries, and their multiplier is one entry of Z. The scaling by the root of 2 that
solvers expect is rounded, and is left to the solver's copy.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from sdpmetric.arrays import BoolArray, FloatArray, LongArray
from sdpmetric.engine.interface import remaining
from sdpmetric.lazy import clarabel, scs
from sdpmetric.lazy import cvxpy as cp

if TYPE_CHECKING:
    from cvxpy.reductions.chain import Chain
    from cvxpy.reductions.dcp2cone.cone_matrix_stuffing import ParamConeProg

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

    @cached_property
    def linear(self) -> int:
        """Rows of the zero and the nonnegative cones."""
        return self.zero + self.nonneg

    @cached_property
    def soc_blocks(self) -> list[slice]:
        """Rows of each second-order cone."""
        return _slices(self.linear, self.soc)

    @cached_property
    def psd_blocks(self) -> list[slice]:
        """Rows of each semidefinite cone."""
        return _slices(self.linear + sum(self.soc), [k * (k + 1) // 2 for k in self.psd])

    @cached_property
    def threes(self) -> tuple[slice, slice]:
        """The rows of exponential and of power cones."""
        exp, power = _slices(self.size - 3 * (self.exp + len(self.power)), (3 * self.exp, 3 * len(self.power)))
        return exp, power

    @cached_property
    def size(self) -> int:
        """All rows."""
        triangles = sum(k * (k + 1) // 2 for k in self.psd)
        return self.linear + sum(self.soc) + triangles + 3 * (self.exp + len(self.power))

    @cached_property
    def block(self) -> LongArray:
        """The number of the block of each row; each row of the zero and nonnegative cones is one."""
        sizes = [1] * self.linear + [s.stop - s.start for s in (*self.soc_blocks, *self.psd_blocks)]
        sizes += [3] * (self.exp + len(self.power))
        return np.repeat(np.arange(len(sizes)), sizes)

    @cached_property
    def diagonal(self) -> BoolArray:
        """Rows that are not off the diagonal of a semidefinite block."""
        found = np.ones(self.size, dtype=bool)
        for side, rows in zip(self.psd, self.psd_blocks, strict=True):
            row, column = np.tril_indices(side)
            found[rows] = row == column
        return found

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


@dataclass(frozen=True, eq=False)
class ConeProgram:
    """``minimize c'x + x'Px / 2 subject to b - Ax in K``, of floats that are taken as exact.

    An entry of A or b off the diagonal of a semidefinite block may be off by one rounding. `proofs` keeps what was
    factorized.
    """

    P: sp.csr_array
    c: FloatArray
    A: sp.csr_array
    b: FloatArray
    cones: Cones
    proofs: dict[str | bytes | None, Any] = field(default_factory=dict, repr=False)

    @cached_property
    def sizes(self) -> sp.csr_array:
        """The absolute values of A."""
        return abs(self.A)

    @cached_property
    def transposed(self) -> sp.csr_array:
        """A', row by row."""
        return self.A.T.tocsr()

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
        nothing = Units(np.zeros(m, dtype=np.int64), np.zeros(n, dtype=np.int64), 0, 0)
        return (scaled, units) if units.exact(self, scaled) else (self, nothing)

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

    def of(self, program: ConeProgram, sign: int = 1) -> ConeProgram:
        """The program in these units, or back in its own with the sign -1."""
        A, P = program.A.tocoo(), program.P.tocoo()
        a = np.ldexp(A.data, sign * (self.rows[A.row] + self.columns[A.col]))
        p = np.ldexp(P.data, sign * (self.columns[P.row] + self.columns[P.col] + self.size_b - self.size_c))
        return ConeProgram(
            P=sp.coo_array((p, (P.row, P.col)), P.shape).tocsr(),
            c=np.ldexp(program.c, sign * (self.columns - self.size_c)),
            A=sp.coo_array((a, (A.row, A.col)), A.shape).tocsr(),
            b=np.ldexp(program.b, sign * (self.rows - self.size_b)),
            cones=program.cones,
        )

    def exact(self, program: ConeProgram, scaled: ConeProgram) -> bool:
        """Whether nothing over- or underflowed."""
        back = self.of(scaled, -1)
        ours, theirs = (np.concatenate([p.P.data, p.A.data, p.c, p.b]) for p in (program, back))
        return np.array_equal(ours, theirs)

    @property
    def objective(self) -> int:
        """The power of 2 by which the scaled objective has to be multiplied."""
        return self.size_b + self.size_c

    def point(self, y: FloatArray) -> FloatArray:
        """A point of the program in its own units."""
        return np.asarray(np.ldexp(y, self.columns + self.size_b))


@dataclass(frozen=True, eq=False)
class Canonical:
    """The cone program of a CVXPY problem.

    Attributes
    ----------
    offset : float
        The constant of the objective.
    sign : int
        -1 where the problem is a maximization; the program minimizes.
    """

    program: ConeProgram
    offset: float
    sign: int
    problem: cp.Problem
    chain: Chain
    stuffed: ParamConeProg
    inverse: list[object]

    @classmethod
    def of(cls, problem: cp.Problem) -> Canonical:
        """Compile a problem; sentences for those that are no convex cone program."""
        from cvxpy.constraints.nonpos import NonPos
        from cvxpy.constraints.power import PowConeND
        from cvxpy.reductions.chain import Chain
        from cvxpy.reductions.complex2real import complex2real
        from cvxpy.reductions.cone2cone.exact import ExactCone2Cone
        from cvxpy.reductions.cvx_attr2constr import CvxAttr2Constr
        from cvxpy.reductions.dcp2cone.cone_matrix_stuffing import ConeMatrixStuffing
        from cvxpy.reductions.dcp2cone.dcp2cone import Dcp2Cone
        from cvxpy.reductions.eliminate_zero_sized import EliminateZeroSized
        from cvxpy.reductions.eval_params import EvalParams
        from cvxpy.reductions.flip_objective import FlipObjective

        _check(problem)
        maximize = isinstance(problem.objective, cp.Maximize)
        first = [EvalParams()] if problem.parameters() else []
        if complex2real.accepts(problem):
            first.append(complex2real.Complex2Real())
        if maximize:
            first.append(FlipObjective())
        chain = Chain(
            reductions=[
                *first,
                Dcp2Cone(quad_obj=True),
                CvxAttr2Constr(reduce_bounds=True),
                ExactCone2Cone(target_cones={NonPos, PowConeND}),
                EliminateZeroSized(),
                ConeMatrixStuffing(quad_obj=True),
            ]
        )
        stuffed, inverse = chain.apply(problem)
        P, c, offset, A, b = stuffed.apply_parameters(quad_obj=True)
        triangle = sp.triu(P).tocsr()
        P = (triangle + sp.triu(P, 1).T).tocsr()
        cones, order = _ordered(stuffed)
        A, b = (order @ -sp.csr_array(A)).tocsr(), order @ np.asarray(b, dtype=np.float64)
        for M in (A, P):
            M.eliminate_zeros()
        c = np.asarray(c, dtype=np.float64).ravel()
        if not all(np.isfinite(v).all() for v in (A.data, P.data, b, c, offset)):
            raise ValueError("the program has NaN or infinity in its data; give finite numbers to its constants.")
        offset = float(np.ravel(offset)[0])
        return cls(ConeProgram(P, c, A, b, cones), offset, -1 if maximize else 1, problem, chain, stuffed, inverse)

    def values(self, x: FloatArray) -> dict[str, FloatArray]:
        """The problem's variables by name at a point of the program."""
        from cvxpy.reductions.solution import Solution

        parts = {
            key: np.reshape(x[first : first + self.stuffed.id_to_var[key].size], self.stuffed.id_to_var[key].shape, "F")
            for key, first in self.stuffed.var_id_to_col.items()
        }
        solution = Solution(cp.OPTIMAL, 0.0, parts, {}, {})
        for reduction, known in reversed(list(zip(self.chain.reductions[:-1], self.inverse[:-1], strict=True))):
            solution = reduction.invert(solution, known)
        return {v.name(): np.asarray(solution.primal_vars[v.id]) for v in self.problem.variables()}


def _check(problem: cp.Problem) -> None:
    if not isinstance(problem, cp.Problem):
        raise TypeError(
            f"bound takes a cvxpy.Problem, got {type(problem).__name__}; `solve` bounds a problem of this package."
        )
    if lacking := [p.name() for p in problem.parameters() if p.value is None]:
        raise ValueError(f"parameters {', '.join(lacking)} of the program have no value; set them first.")
    if problem.is_mixed_integer():
        raise ValueError(
            "the program has integer or boolean variables, which duality of cones does not bound; relax them, and the "
            "bound holds for the program with integers as well."
        )
    if not problem.is_dcp():
        raise ValueError(
            "the program is not convex by CVXPY's rules (problem.is_dcp() is False), and duality proves nothing about "
            "it; state it as a disciplined convex program."
        )
    if not problem.variables():
        raise ValueError("the program has no variables; its objective is a constant.")


def _ordered(stuffed: ParamConeProg) -> tuple[Cones, sp.csr_array]:
    """The cones, and the matrix that orders and adds up CVXPY's rows, cone by cone."""
    kinds: dict[str, list[float]] = {name: [] for name in ("Zero", "NonNeg", "SOC", "PSD", "ExpCone", "PowCone3D")}
    parts: list[sp.csr_array] = []
    for constraint in stuffed.constraints:
        name, sizes = type(constraint).__name__, [arg.size for arg in constraint.args]
        if name not in kinds:
            raise ValueError(f"the program has a cone of the kind {name}, for which no bound is known.")
        total = sum(sizes)
        order = np.arange(total)
        if name == "SOC":
            heads = sizes[0]
            order = np.column_stack([order[:heads], order[heads:].reshape(heads, -1)]).ravel()
            kinds[name] += [total // heads] * heads
        elif name in ("ExpCone", "PowCone3D"):
            order = order.reshape(3, -1).T.ravel()
            kinds[name] += [1.0] * sizes[0] if name == "ExpCone" else np.ravel(constraint.alpha.value).tolist()
        elif name == "PSD":
            shape = constraint.args[0].shape
            parts.append(_triangles(order.reshape(shape, order="F").reshape(-1, *shape[-2:])))
            kinds[name] += [shape[-1]] * constraint.num_cones()
            continue
        else:
            kinds[name].append(total)
        parts.append(sp.csr_array((np.ones(total), (np.arange(total), order)), (total, total)))
    cones = Cones(
        int(sum(kinds["Zero"])),
        int(sum(kinds["NonNeg"])),
        tuple(int(size) for size in kinds["SOC"]),
        tuple(int(side) for side in kinds["PSD"]),
        len(kinds["ExpCone"]),
        tuple(kinds["PowCone3D"]),
    )
    size = sum(sum(arg.size for arg in constraint.args) for constraint in stuffed.constraints)
    return cones, sp.csr_array(sp.block_diag(parts)) if parts else sp.csr_array((0, size))


def _triangles(index: LongArray) -> sp.csr_array:
    """Adds up entries (i, j) and (j, i) of squares, given by the number of each entry."""
    row, column = np.tril_indices(index.shape[1])
    off = row != column
    k = np.arange(len(index) * len(row)).reshape(len(index), -1)
    rows = np.concatenate([k.ravel(), k[:, off].ravel()])
    columns = np.concatenate([index[:, row, column].ravel(), index[:, column, row][:, off].ravel()])
    return sp.csr_array((np.ones(len(rows)), (rows, columns)), (k.size, index.size))


# -- solvers --------------------------------------------------------------------------------------------------------

# Whose exceptions are not a backend's own.
KNOWN = sys.stdlib_module_names | {"cvxpy", "numpy", "scipy", "sdpmetric"}
SOLVERS = ("CLARABEL", "SCS")


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


@dataclass(frozen=True, eq=False)
class Answer:
    """What a solver says: a point and multipliers, of which nothing is believed."""

    x: FloatArray
    z: FloatArray

    @property
    def usable(self) -> bool:
        """Whether all is finite, and squares are."""
        return bool((np.abs(self.x) < 1e100).all() and (np.abs(self.z) < 1e100).all())


def ask(program: ConeProgram, solver: str, primal: float = 0.0, dual: float = 0.0) -> Answer | None:
    """Solve the program with its cone moved inward, that of slacks by `primal` and that of multipliers by `dual`.

    None if the solver fails, or has no time.
    """
    cones = program.cones
    if remaining() <= 0.0:
        return None
    inside = cones.interior(dual=True)
    roots = np.where(cones.diagonal, 1.0, np.sqrt(2.0))
    A = (sp.diags_array(1.0 / roots) @ program.A).tocsr()
    b, c = (program.b - primal * cones.interior()) / roots, program.c + dual * (program.transposed @ inside)
    P = sp.triu(program.P).tocsc()
    try:
        with no_panic():
            x, z = CALLS[solver](P, c, A, b, cones)
    except (cp.error.SolverError, ValueError):
        return None
    answer = Answer(x, z / roots + dual * inside)
    return answer if answer.usable else None


def _clarabel(
    P: sp.csc_array, c: FloatArray, A: sp.csr_array, b: FloatArray, cones: Cones
) -> tuple[FloatArray, FloatArray]:
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.time_limit = max(remaining(), 1e-3)
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    kinds = [
        *([clarabel.ZeroConeT(cones.zero)] if cones.zero else []),
        *([clarabel.NonnegativeConeT(cones.nonneg)] if cones.nonneg else []),
        *(clarabel.SecondOrderConeT(size) for size in cones.soc),
        *(clarabel.PSDTriangleConeT(side) for side in cones.psd),
        *(clarabel.ExponentialConeT() for _ in range(cones.exp)),
        *(clarabel.PowerConeT(alpha) for alpha in cones.power),
    ]
    found = clarabel.DefaultSolver(P, c, A.tocsc(), b, kinds, settings).solve()
    return np.array(found.x), np.array(found.z)


def _scs(P: sp.csc_array, c: FloatArray, A: sp.csr_array, b: FloatArray, cones: Cones) -> tuple[FloatArray, FloatArray]:
    order = np.arange(cones.size)
    for side, rows in zip(cones.psd, cones.psd_blocks, strict=True):
        row, column = np.tril_indices(side)
        order[rows] = rows.start + np.lexsort((row, column))  # columns of the lower triangle, one after another
    kinds: Mapping[str, object] = {
        "z": cones.zero,
        "l": cones.nonneg,
        "q": list(cones.soc),
        "s": list(cones.psd),
        "ep": cones.exp,
        "p": list(cones.power),
    }
    data = {"P": P, "A": A[order].tocsc(), "b": b[order], "c": c}
    left = remaining()
    limits = {"max_iters": 20_000, "time_limit_secs": max(left, 1e-3) if math.isfinite(left) else 0.0}
    found = scs.SCS(data, kinds, verbose=False, eps_abs=1e-9, eps_rel=1e-9, **limits).solve()
    z = np.empty(cones.size)
    z[order] = found["y"]
    return np.array(found["x"]), z


CALLS = {"CLARABEL": _clarabel, "SCS": _scs}
