"""Programs with constraints of a user's own: solved as they are, certified on the data and by `sdpmetric.bound`."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from sdpmetric.arrays import FloatArray
from sdpmetric.core.certificate import Dual
from sdpmetric.core.run import Step
from sdpmetric.formulations.atoms import CONE
from sdpmetric.formulations.exact_program import named
from sdpmetric.formulations.lmnn import MARGINS, SLACKS, all_triplets
from sdpmetric.lazy import cvxpy as cp
from sdpmetric.linalg import psd
from sdpmetric.problems.lmnn import LMNNProblem
from sdpmetric.programs.bound import ProgramBound, bound
from sdpmetric.programs.canonical import SOLVERS, no_panic
from sdpmetric.programs.enclosure import OverSizeError

STATED = (MARGINS, SLACKS, CONE)
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

    def solve(self, backend: str, options: Mapping[str, float | int | bool | str], radius: float | None = None) -> Step:
        """Solve the program as it is, and certify its metric on all data.

        The lower bound is the program's own, of grade "rounding" because CVXPY's rows are rounded products of the data;
        or that of the problem without further constraints, if it is as good, or nothing else is proven. A bound that
        rests on `radius` stands beside it. The primal residual includes the violation of the further constraints.
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
        own = self._bound(backend, radius)
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
        if own.lower_bound > certificate.lower_bound:
            if own.rigor == "float":
                least = min(own.lower_bound, certificate.objective)
                certificate = replace(certificate, lower_bound=least, rigor="rounding")
            else:
                certificate = replace(
                    certificate,
                    rigor=own.rigor,
                    assumption=own.assumption,
                    assumed_lower_bound=own.lower_bound,
                )
        return Step(components, certificate.objective, certificate.lower_bound, certificate=certificate)

    def _bound(self, backend: str, radius: float | None) -> ProgramBound:
        """What is proven about the program itself; it may be nothing."""
        try:
            own = bound(self.program, backend if backend in SOLVERS else None, radius)
        except OverSizeError:
            return ProgramBound.nothing()
        if own.lower_bound == math.inf:
            raise ValueError("program is proven to be infeasible; drop or relax some of its further constraints.")
        return own

    def _dual(self) -> Dual | None:
        """The multipliers of the margins, where the program has all of them."""
        every, solved = all_triplets(self.problem), named(self.program).get(MARGINS)
        if solved is None or solved.dual_value is None or solved.size != len(every):
            return None
        return Dual(every, np.ravel(solved.dual_value))
