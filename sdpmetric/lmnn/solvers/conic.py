"""The exact layer for LMNN with one metric or several, semidefinite programs in CVXPY, by constraint generation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from sdpmetric.arrays import FloatArray
from sdpmetric.core.certificate import Dual
from sdpmetric.core.registry import solver
from sdpmetric.core.run import Budget, Step
from sdpmetric.core.triplets import Triplets
from sdpmetric.linalg import psd
from sdpmetric.lmnn.problem import LargeMarginProblem, LMNNProblem
from sdpmetric.lmnn.program import ReducedProgram
from sdpmetric.lmnn.solvers import factored, frobenius_dual
from sdpmetric.lmnn.solvers.constraint_generation import START_TOLERANCE, Reduction, cheap_point, generate
from sdpmetric.lmnn.solvers.factored import solved_by_zero
from sdpmetric.lmnn.solvers.refinement import refined_dual
from sdpmetric.programs.backend import Backend, BackendOptions


@solver(LargeMarginProblem, "conic", tol=1e-6)
def steps(
    problem: LargeMarginProblem,
    budget: Budget,
    tol: float,
    *,
    backend: str = "CLARABEL",
    init: FloatArray | None = None,
    backend_options: BackendOptions | None = None,
    polish: bool = True,
) -> Iterator[Step]:
    """Solve LMNN exactly, by constraint generation; see `sdpmetric.lmnn.solvers.constraint_generation`."""
    chosen = Backend.of(backend, backend_options)
    if problem.frobenius:
        yield from _with_frobenius(problem.tied, budget, tol, chosen, init)
        return
    first = problem.squeeze(np.stack([np.eye(problem.X.shape[1])] * problem.n_regions)) if init is None else init
    if (trivial := solved_by_zero(problem, tol)) is not None:
        yield trivial
        return
    components = yield from cheap_point(
        lambda own: factored.steps(problem, own, START_TOLERANCE, init=init), budget, first
    )
    polished = partial(refined_dual, problem) if polish else None
    reduction = Reduction(problem, problem.push, problem.points, problem.null_groups, problem.lift, polished)
    yield from generate(reduction, problem.whitened(components), chosen, budget, tol)


@dataclass(frozen=True, eq=False)
class FrobeniusReduction(Reduction):
    """The reduced programs with the term, in the data's own coordinates; their multipliers make a second point."""

    problem: LMNNProblem

    def program(
        self, L: FloatArray, objective: float, free: Triplets, at_bound: Triplets, faces: Sequence[FloatArray] | None
    ) -> ReducedProgram:
        """State a reduced program, in units of the trace at hand."""
        costs, lam, unit = [self.problem.pull_cost.matrix], self.problem.frobenius, float(np.sum(L**2)) or 1.0
        return ReducedProgram.of(self.push, self.points, free, at_bound, costs=costs, frobenius=lam, unit=unit)

    def point(self, solved: ReducedProgram) -> FloatArray:
        """The better one of the backend's metric and of the one that minimizes the Lagrangian."""
        points = [psd.factor(solved.metrics[0]), frobenius_dual.lagrangian_minimizer(self.problem, solved.dual)]
        return min(points, key=lambda point: self.problem.objective(point))[None]

    def faces(self, L: FloatArray, dual: Dual) -> None:
        """The whole cone."""


def _with_frobenius(
    problem: LMNNProblem, budget: Budget, tol: float, backend: Backend, init: FloatArray | None
) -> Iterator[Step]:
    """Null directions cost something here: all examples are one group, and coordinates are those of the data."""
    if problem.push_weight == 0.0 or problem.source.size == 0:
        yield Step.certified(problem, problem.zero)
        return
    reduction = FrobeniusReduction(problem, problem.push, problem.centered, None, problem.squeeze)
    first = problem.zero if init is None else init
    components = yield from cheap_point(
        lambda own: frobenius_dual.steps(problem, own, START_TOLERANCE, init=init), budget, first
    )
    yield from generate(reduction, components[None], backend, budget, tol)
