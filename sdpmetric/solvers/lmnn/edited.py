"""Programs with constraints of a user's own: solved as they are, certified on the data and from their cone data."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from cvxpy.reductions.dcp2cone.cone_matrix_stuffing import ConeDims

from sdpmetric.arrays import FloatArray
from sdpmetric.core.certificate import WEAK
from sdpmetric.core.multipliers import Dual
from sdpmetric.core.run import Step
from sdpmetric.formulations.atoms import CONE
from sdpmetric.formulations.exact_program import named
from sdpmetric.formulations.lmnn import MARGINS, SLACKS, all_triplets
from sdpmetric.linalg import psd
from sdpmetric.problems.lmnn import LMNNProblem
from sdpmetric.solvers.backend import no_panic

STATED = (MARGINS, SLACKS, CONE)
# How much longer than the solution found a minimizer may be, where nothing else bounds it; see `EditedProgram.bound`.
TRUST = 10.0
ASSUMED = (
    "no optimal auxiliary variable, and no optimal metric in directions without pull cost, is more than "
    f"{TRUST:g} times as long as the one found"
)
REBUILD = (
    "build it as cvxpy.Problem(p.objective, p.constraints + [...]) from p = sdpmetric.to_cvxpy(problem), and leave "
    "variables and labels as they are."
)


@dataclass(frozen=True, eq=False)
class EditedProgram:
    """A program made from `sdpmetric.to_cvxpy` by adding constraints."""

    problem: LMNNProblem
    program: cp.Problem
    M: cp.Variable
    xi: cp.Variable | None
    weights: FloatArray  # of the slacks

    @classmethod
    def of(cls, problem: LMNNProblem, program: cp.Problem) -> EditedProgram:
        """Check that the program still states the problem."""
        parts, d = named(program), problem.X.shape[1]
        M, xi = parts.get("M"), parts.get("xi")
        missing = [label for label in (STATED if xi is not None else (CONE,)) if label not in parts]
        if not isinstance(M, cp.Variable) or M.shape != (d, d) or missing:
            raise ValueError(f"program lacks the variable M, ({d}, {d}), or a constraint of LMNN; {REBUILD}")
        if not program.is_dcp():
            raise ValueError(
                "program is not convex by CVXPY's rules; add constraints only that are (program.is_dcp())."
            )
        expression, known = program.objective.expr, {v.id for v in (M, xi) if v is not None}
        weights = np.zeros(0)
        if not isinstance(program.objective, cp.Minimize) or not {v.id for v in expression.variables()} <= known:
            raise ValueError(f"the objective of program is not the problem's, and nothing could be proven; {REBUILD}")
        # The objective is evaluated at one generic point, where every slack is 1.
        factor = np.random.default_rng(0).normal(size=M.shape)
        M.value = factor.T @ factor
        expected, same = problem.cost(factor, problem.embed(factor)), True
        if xi is not None:
            xi.value = np.ones(xi.size)
            slopes = sp.csr_matrix(expression.grad[xi]).toarray().ravel()  # of one slack it is a number
            weights = slopes / (problem.push_weight * (2 if problem.squared else 1))
            every = all_triplets(problem)
            own = problem.source.weights_of(every)
            same = np.allclose(weights, own) if xi.size == len(every) else bool(weights.max() <= own.max() * (1 + 1e-9))
            expected += problem.push_weight * float(weights.sum())
        if not same or not np.isclose(float(expression.value), expected, rtol=1e-9):
            raise ValueError(f"the objective of program is not the problem's, and nothing could be proven; {REBUILD}")
        return cls(problem, program, M, xi, weights)

    def solve(self, backend: str, options: Mapping[str, float | int | bool | str]) -> Step:
        """Solve the program as it is, and certify its metric on all data.

        The certificate's lower bound is that of the problem without further constraints, which holds for every metric
        and decides the gap. The program's own rests on `ASSUMED` and stands beside it. The primal residual includes
        the violation of the further constraints.
        """
        data, chain, inverse = self.program.get_problem_data(backend, solver_opts=dict(options))
        self.M.value = None
        try:
            with no_panic():
                raw = chain.solve_via_data(self.program, data, solver_opts=dict(options))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # the certificate tells of inaccurate solutions
                self.program.unpack_results(raw, chain, inverse)
            found = self.M.value is not None and bool(np.isfinite(self.M.value).all())
        except (cp.error.SolverError, ValueError):  # also of data that are too large for the backend
            found = False
        if not found:
            raise ValueError(
                f"{backend} found no solution of program (status {self.program.status}); check that the "
                "program is feasible, give it more time, or try another backend."
            )
        own = -np.inf
        if backend in ("CLARABEL", "SCS"):
            x, z = (raw.x, raw.z) if backend == "CLARABEL" else (raw["x"], raw["y"])
            own = self.bound(data, np.array(x), np.array(z), upper=backend == "CLARABEL")
        values = np.linalg.eigvalsh(self.M.value)
        components = psd.factor(np.asarray(self.M.value))
        self.M.value = components.T @ components
        further = [c for c in self.program.constraints if c.label not in STATED]
        violation = max((float(np.max(c.violation())) for c in further), default=0.0)
        outside = max(-float(values[0]), 0.0) / max(float(values[-1]), np.finfo(float).tiny)
        dual = self._dual()
        unconstrained = self.problem.certify(components)
        if dual is not None:
            unconstrained = max(unconstrained, self.problem.certify(components, dual=dual), key=lambda c: c.lower_bound)
        certificate = replace(
            unconstrained,
            primal_residual=max(outside, violation),
            program=f"LMNN with {len(further)} further constraint{'' if len(further) == 1 else 's'}",
            resolution=0.0,  # an infimum of 0 may be out of reach
        )
        if own > certificate.lower_bound and not certificate.proves_optimal(WEAK):
            certificate = replace(certificate, rigor="assumption", assumption=ASSUMED, assumed_lower_bound=own)
        return Step(components, certificate.objective, certificate.lower_bound, certificate=certificate)

    def _dual(self) -> Dual | None:
        """The multipliers of the margins, where the program has all of them."""
        every, solved = all_triplets(self.problem), named(self.program).get(MARGINS)
        if solved is None or solved.dual_value is None or solved.size != len(every):
            return None
        return Dual(every, np.ravel(solved.dual_value))

    def bound(self, data: Mapping[str, object], x: FloatArray, z: FloatArray, *, upper: bool) -> float:
        """A lower bound of the program's optimum if `ASSUMED` holds, from its cone data and any multiplier.

        The cone program is ``min c'x + x'Px / 2`` with ``b - Ax`` in K. For z in the dual cone, every x and every
        feasible y, ``c'y + y'Py / 2 >= -b'z - x'Px / 2 + r'y`` with the residual ``r = Px + A'z + c``. The bound is
        the first two terms, less the most that ``-r'y`` can be at a minimizer y. Nothing is asked of z but the cone, on
        which it is projected; -inf where that is an exponential or power cone.

        Where the optimum is at most U, the cost ``<C, M>`` and the loss are each at most U, which bounds M and the
        slacks. Variables that CVXPY introduced, and directions of M without cost, are trusted to be at most 10 times
        as long as at the solution found.
        """
        projected = into_dual_cone(z, data["dims"], upper=upper)
        if projected is None:
            return -np.inf
        A, b, c = sp.csr_array(data["A"]), np.asarray(data["b"]), np.asarray(data["c"])
        Px, problem = np.zeros_like(x), self.problem
        if data.get("P") is not None:
            triangle = sp.csr_array(sp.triu(data["P"]))
            Px = triangle @ x + triangle.T @ x - triangle.diagonal() * x
        r = Px + A.T @ projected + c
        quadratic = 0.5 * float(x @ Px)
        value = float(self.program.value)
        constant = value - (float(c @ x) + quadratic)
        U = 2.0 * abs(value)
        columns, d = data["param_prob"].var_id_to_col, self.M.shape[0]  # type: ignore[attr-defined]
        row, column = np.triu_indices(d)
        rest = np.ones(len(x), dtype=bool)
        at = columns[self.M.id] + np.arange(len(row))
        R = np.zeros((d, d))
        R[row, column] = r[at]
        R = psd.symmetrize(R)
        rest[at] = False
        T = problem.coordinates.range
        lost = max(-psd.smallest_eigenvalue(T.T @ R @ T), 0.0) * U  # trace(M) in whitened coordinates is <C, M>
        if T.shape[1] < d:
            lost += max(-psd.smallest_eigenvalue(R), 0.0) * TRUST * float(np.trace(self.M.value))
        if self.xi is not None:
            at = columns[self.xi.id] + np.arange(self.xi.size)
            below = np.maximum(-r[at], 0.0)
            rest[at] = False
            if problem.squared:  # mu sum w xi^2 <= U
                lost += float(np.linalg.norm(below / np.sqrt(self.weights))) * np.sqrt(U / problem.push_weight)
            else:  # mu sum w xi <= U
                lost += float((below / (problem.push_weight * self.weights)).max(initial=0.0)) * U
        lost += float(np.linalg.norm(r[rest])) * TRUST * max(1.0, float(np.linalg.norm(x[rest])))
        return min(U, constant - float(b @ projected) - quadratic - lost)


def into_dual_cone(z: FloatArray, dims: ConeDims, *, upper: bool) -> FloatArray | None:
    """Project multipliers onto the dual of CVXPY's cone, or None for cones that are not symmetric."""
    if dims.exp or dims.p3d or dims.pnd:
        return None
    out = z.copy()
    first = dims.zero + dims.nonneg
    out[dims.zero : first] = np.maximum(z[dims.zero : first], 0.0)
    for size in dims.soc:
        head, body = float(z[first]), z[first + 1 : first + size]
        length = float(np.linalg.norm(body))
        if length > abs(head):
            middle = 0.5 * (head + length)
            out[first] = middle
            out[first + 1 : first + size] = middle / length * body
        elif length <= -head:
            out[first : first + size] = 0.0
        first += size
    for side in dims.psd:
        # Columns of the upper triangle, one after another, are rows of the lower one.
        index = np.tril_indices(side) if upper else np.triu_indices(side)
        scale = np.where(index[0] == index[1], 1.0, np.sqrt(2.0))
        block = slice(first, first + len(scale))
        Z = np.zeros((side, side))
        Z[index] = Z.T[index] = z[block] / scale
        out[block] = psd.project(Z)[index] * scale
        first += len(scale)
    return out
