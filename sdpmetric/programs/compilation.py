"""Cone programs that CVXPY compiles from problems: every constraint is accounted for.

CVXPY's own ``get_problem_data`` multiplies entries of semidefinite blocks by the root of 2, and dividing by it again
leaves rounding errors; nor does it return the objective to compare with. The chain of reductions below ends earlier.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from sdpmetric.arrays import FloatArray, LongArray
from sdpmetric.lazy import cvxpy as cp
from sdpmetric.linalg.rigorous.directed import sum_above, sum_below
from sdpmetric.programs.canonical import ConeProgram, Cones

if TYPE_CHECKING:
    from cvxpy.reductions.chain import Chain
    from cvxpy.reductions.dcp2cone.cone_matrix_stuffing import ParamConeProg
    from cvxpy.reductions.solution import Solution

# The classes of constraints whose meaning is known, and of the cones to which they are reduced.
CONSTRAINTS = {"Equality", "Zero", "Inequality", "NonPos", "NonNeg", "SOC", "PSD", "ExpCone", "PowCone3D", "PowConeND"}
CONES = ("Zero", "NonNeg", "SOC", "PSD", "ExpCone", "PowCone3D")


@dataclass(frozen=True, eq=False)
class Canonical:
    """The cone program that CVXPY compiles from a problem.

    Attributes
    ----------
    offset : float
        The constant of the objective.
    sign : int
        -1 if the problem is a maximization; the program minimizes.
    order : sparse array
        Orders and adds up the rows of `stuffed`, cone by cone.
    """

    program: ConeProgram
    offset: float
    sign: int
    problem: cp.Problem
    chain: Chain
    stuffed: ParamConeProg
    inverse: list[object]
    order: sp.csr_array

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

        if not sum(v.size for v in problem.variables()):
            extra = cp.Problem(problem.objective, [*problem.constraints, cp.Variable() == 0])
            return replace(cls.of(extra), problem=problem)
        maximize = isinstance(problem.objective, cp.Maximize)
        reductions = [EvalParams()] if problem.parameters() else []
        reductions += [complex2real.Complex2Real()] if complex2real.accepts(problem) else []
        reductions += [FlipObjective()] if maximize else []
        nonlinear = ExactCone2Cone(target_cones={NonPos, PowConeND})
        reductions += [Dcp2Cone(quad_obj=True), CvxAttr2Constr(reduce_bounds=True), nonlinear, EliminateZeroSized()]
        chain = Chain(reductions=[*reductions, ConeMatrixStuffing(quad_obj=True)])
        variables = problem.variables()
        with with_values(variables, [None] * len(variables)), warnings.catch_warnings():  # as before a solve
            warnings.simplefilter("ignore")
            reduced, inverse = Chain(reductions=reductions).apply(problem)
            _check_classes(reduced, {"PowConeND"})
            stuffed, stuffing = chain.reductions[-1].apply(reduced)
        _account(reduced, stuffed)
        P, c, offset, A, b = stuffed.apply_parameters(quad_obj=True)
        triangle = sp.triu(P).tocsr()
        P = (triangle + sp.triu(P, 1).T).tocsr()
        cones, order = _ordered(stuffed)
        A, b = order @ -sp.csr_array(A), order @ np.asarray(b, dtype=np.float64)
        A.eliminate_zeros()
        program = ConeProgram(P, np.asarray(c, dtype=np.float64).ravel(), A, b, cones)
        program, order = _finite(program, order)
        sign, offset = -1 if maximize else 1, float(np.ravel(offset)[0])
        return cls(program, offset, sign, problem, chain, stuffed, [*inverse, stuffing], order)

    def total(self, value: float, *, up: bool) -> float:
        """Return an objective with its constant, rounded outward."""
        if not value or not self.offset or not math.isfinite(value):
            return value + self.offset
        terms = np.array([value, self.offset])
        return sum_above(terms) if up else sum_below(terms)

    def constraint_name(self, k: int) -> str:
        """The label of a constraint of the problem, or its place in ``problem.constraints``."""
        label = self.problem.constraints[k].label
        return f"problem.constraints[{k}]" if label is None else f"the constraint {label!r}"

    def values(self, x: FloatArray) -> dict[int, FloatArray]:
        """The problem's variables by id at a point of the program."""
        primal = self._inverted(x, np.zeros(self.order.shape[0])).primal_vars
        return {v.id: np.asarray(primal[v.id]) for v in self.problem.variables()}

    def multipliers(self, z: FloatArray) -> dict[cp.Constraint, FloatArray | list[FloatArray]]:
        """Multipliers of the program as CVXPY's dual values of the problem's constraints, which keep theirs."""
        dual = self._inverted(np.zeros(len(self.program.c)), z).dual_vars
        multipliers: dict[cp.Constraint, FloatArray | list[FloatArray]] = {}
        for constraint in self.problem.constraints:
            if dual.get(constraint.id) is not None:
                with with_values(constraint.dual_variables):
                    constraint.save_dual_value(dual[constraint.id])
                    multipliers[constraint] = constraint.dual_value
        return multipliers

    def _inverted(self, x: FloatArray, z: FloatArray) -> Solution:
        from cvxpy.reductions.solution import Solution

        dual, first, rows = {}, 0, self.order.T @ z
        for constraint in self.stuffed.constraints:
            size = sum(arg.size for arg in constraint.args)
            dual[constraint.id] = _as_dual(constraint, rows[first : first + size])
            first += size
        variables = self.stuffed.id_to_var
        primal = {
            key: np.reshape(x[first : first + variables[key].size], variables[key].shape, "F")
            for key, first in self.stuffed.var_id_to_col.items()
        }
        solution = Solution(cp.OPTIMAL, 0.0, primal, dual, {})
        for reduction, data in reversed(list(zip(self.chain.reductions[:-1], self.inverse[:-1], strict=True))):
            solution = reduction.invert(solution, data)
        return solution


def _as_dual(constraint: cp.Constraint, v: FloatArray) -> FloatArray:
    """Entries of a constraint's arguments in the order in which CVXPY's solvers give its multipliers."""
    name, heads = type(constraint).__name__, constraint.args[0].size
    if name == "SOC":
        return np.column_stack([v[:heads], v[heads:].reshape(heads, -1)]).ravel()
    if name == "ExpCone":
        return v.reshape(3, -1).T.ravel()
    if name == "PowCone3D":
        return v.reshape(3, -1)
    return np.reshape(-v if name == "Zero" else v, constraint.shape, order="F")


def check(problem: cp.Problem) -> None:
    """Sentences for programs that are not bounded."""
    if not isinstance(problem, cp.Problem):
        raise TypeError(
            f"bound takes a cvxpy.Problem, got {type(problem).__name__}; `solve` bounds a problem of this package."
        )
    if lacking := [p.name() for p in problem.parameters() if p.value is None]:
        raise ValueError(f"parameters {', '.join(lacking)} of the program have no value; set them first.")
    integers = [v.name() for v in problem.variables() if v.attributes["boolean"] or v.attributes["integer"]]
    if integers or problem.is_mixed_integer():
        raise ValueError(
            f"the program has integer or boolean variables ({', '.join(integers)}), which duality of cones does not "
            "bound; relax them, and the bound holds for the program with integers as well."
        )
    _check_classes(problem, set())
    if not problem.is_dcp():
        raise ValueError(
            "the program is not convex by CVXPY's rules (problem.is_dcp() is False), and duality proves nothing about "
            "it; state it as a disciplined convex program."
        )


def _check_classes(problem: cp.Problem, reduced: set[str]) -> None:
    """Raise an error for constraints of other classes, subclasses included, of which compilation may lose a part."""
    for constraint in problem.constraints:
        kind = type(constraint)
        if kind.__name__ not in CONSTRAINTS - reduced or not kind.__module__.startswith("cvxpy.constraints."):
            raise ValueError(
                f"the program has a constraint of the class {kind.__name__}, of which nothing can be proven; state it "
                f"by {', '.join(sorted(CONSTRAINTS))}."
            )


def _account(reduced: cp.Problem, stuffed: ParamConeProg) -> None:
    """Raise an error where a constraint is lost."""
    missing = {c.id for c in reduced.constraints} ^ {c.id for c in stuffed.constraints}
    if missing or len(reduced.constraints) != len(stuffed.constraints):
        kinds = sorted({type(c).__name__ for c in reduced.constraints if c.id in missing})
        raise ValueError(f"CVXPY's compilation lost constraints ({', '.join(kinds)}); nothing can be proven.")


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


def _finite(program: ConeProgram, order: sp.csr_array) -> tuple[ConeProgram, sp.csr_array]:
    """Without inequalities that no point violates, as ``x <= infinity``."""
    cones, rows = program.cones, np.arange(program.cones.size)
    vacuous = (program.b == np.inf) & (rows >= cones.zero) & (rows < cones.linear)
    if vacuous.any():
        program = replace(program.of_rows(rows[: cones.linear][~vacuous[: cones.linear]], cones.zero), numbers=None)
        order = order[np.flatnonzero(~vacuous)]
    if not all(np.isfinite(v).all() for v in (program.A.data, program.P.data, program.b, program.c)):
        raise ValueError("the program has NaN or infinity in its data; give finite numbers to its constants.")
    return program, order


def _ordered(stuffed: ParamConeProg) -> tuple[Cones, sp.csr_array]:
    """The cones, and the matrix that orders and adds up CVXPY's rows, cone by cone."""
    kinds: dict[str, list[float]] = {name: [] for name in CONES}
    blocks: list[sp.csr_array] = [sp.csr_array((0, 0))]
    for constraint in stuffed.constraints:
        name, heads = type(constraint).__name__, constraint.args[0].size
        total = sum(arg.size for arg in constraint.args)
        order = np.arange(total)
        if name == "SOC":
            order = np.column_stack([order[:heads], order[heads:].reshape(heads, -1)]).ravel()
            kinds[name] += [total // heads] * heads
        elif name in ("ExpCone", "PowCone3D"):
            order = order.reshape(3, -1).T.ravel()
            kinds[name] += [1.0] * heads if name == "ExpCone" else np.ravel(constraint.alpha.value).tolist()
        elif name == "PSD":
            shape = constraint.args[0].shape
            blocks.append(_triangles(order.reshape(shape, order="F").reshape(-1, *shape[-2:])))
            kinds[name] += [shape[-1]] * constraint.num_cones()
            continue
        else:
            kinds[name].append(total)
        blocks.append(sp.csr_array((np.ones(total), (np.arange(total), order)), (total, total)))
    zero, nonneg, exp = (int(sum(kinds[name])) for name in ("Zero", "NonNeg", "ExpCone"))
    soc, psd = (tuple(int(size) for size in kinds[name]) for name in ("SOC", "PSD"))
    return Cones(zero, nonneg, soc, psd, exp, tuple(kinds["PowCone3D"])), sp.csr_array(sp.block_diag(blocks))


def _triangles(index: LongArray) -> sp.csr_array:
    """Adds up entries (i, j) and (j, i) of squares, given by the number of each entry."""
    row, column = np.tril_indices(index.shape[1])
    off_diagonal = row != column
    k = np.arange(len(index) * len(row)).reshape(len(index), -1)
    rows = np.concatenate([k.ravel(), k[:, off_diagonal].ravel()])
    columns = np.concatenate([index[:, row, column].ravel(), index[:, column, row][:, off_diagonal].ravel()])
    return sp.csr_array((np.ones(len(rows)), (rows, columns)), (k.size, index.size))
