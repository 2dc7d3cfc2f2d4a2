"""The exact layer for LMNN with one metric or several: semidefinite programs in CVXPY, by constraint generation."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass

import cvxpy as cp
import numpy as np

from sdpmetric.arrays import FloatArray
from sdpmetric.core.multipliers import Dual
from sdpmetric.core.registry import solver
from sdpmetric.core.run import Budget, Step
from sdpmetric.problems.lmnn import LMNNProblem
from sdpmetric.problems.multi_lmnn import MultiMetricLMNNProblem
from sdpmetric.solvers.backend import Backend, BackendOptions
from sdpmetric.solvers.lmnn import factored, several
from sdpmetric.solvers.lmnn.constraint_generation import START_TOLERANCE, Reduction, cheap_point, generate
from sdpmetric.solvers.lmnn.edited import EditedProgram
from sdpmetric.solvers.lmnn.refinement import refined_dual
from sdpmetric.solvers.lmnn.regional import OneRegion, RegionalProblem, solved_by_zero


@dataclass(frozen=True, eq=False)
class SingleMetric(Reduction):
    """LMNN with one metric, whose multipliers can be polished."""

    problem: LMNNProblem

    def polished(self, L: FloatArray, dual: Dual) -> Dual:
        """Refinement as the factored solver has it."""
        return refined_dual(self.problem, L[0], dual)


@solver(LMNNProblem, "conic", tol=1e-6)
def steps(
    problem: LMNNProblem,
    budget: Budget,
    tol: float,
    *,
    backend: str = "CLARABEL",
    program: cp.Problem | None = None,
    start: FloatArray | None = None,
    backend_options: BackendOptions | None = None,
    polish: bool = True,
    radius: float | None = None,
) -> Iterator[Step]:
    """Solve LMNN exactly, by constraint generation; see `sdpmetric.solvers.lmnn.constraint_generation`."""
    chosen = Backend.of(backend, backend_options)
    if program is not None:
        edited = EditedProgram.of(problem, program)
        budget.spend()
        yield edited.solve(chosen.name, chosen.timed(budget, chosen.settings[0]), radius)
        return
    first = np.eye(problem.X.shape[1]) if start is None else start
    regional = OneRegion(problem)
    fast = cheap_point(lambda own: factored.steps(problem, own, START_TOLERANCE, start=start), budget, first)
    yield from _generated(regional, SingleMetric.of(problem, regional), chosen, budget, tol, fast, polish)


@solver(MultiMetricLMNNProblem, "conic", tol=1e-6)
def several_steps(
    problem: MultiMetricLMNNProblem,
    budget: Budget,
    tol: float,
    *,
    backend: str = "CLARABEL",
    start: FloatArray | None = None,
    backend_options: BackendOptions | None = None,
) -> Iterator[Step]:
    """Solve LMNN with several metrics exactly, by constraint generation."""
    chosen = Backend.of(backend, backend_options)
    first = np.stack([np.eye(problem.X.shape[1])] * problem.n_regions) if start is None else start
    fast = cheap_point(lambda own: several.factored_steps(problem, own, START_TOLERANCE, start=start), budget, first)
    yield from _generated(problem, Reduction.of(problem, problem), chosen, budget, tol, fast, polish=False)


def _generated(
    problem: RegionalProblem,
    reduction: Reduction,
    backend: Backend,
    budget: Budget,
    tol: float,
    fast: Generator[Step, None, FloatArray],
    polish: bool,
) -> Iterator[Step]:
    trivial = solved_by_zero(problem, tol)
    if trivial is not None:
        yield trivial
        return
    components = yield from fast
    yield from generate(reduction, problem.whitened(components), backend, budget, tol, polish)
