"""The exact layer for LMNN with a Frobenius term, by constraint generation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from sdpmetric.arrays import FloatArray
from sdpmetric.core.certificate import Dual
from sdpmetric.core.registry import solver
from sdpmetric.core.run import Budget, Step
from sdpmetric.core.triplets import Triplets
from sdpmetric.linalg import psd
from sdpmetric.lmnn.frobenius import FrobeniusLMNNProblem
from sdpmetric.lmnn.program import ReducedProgram
from sdpmetric.lmnn.solvers import frobenius_dual as frobenius
from sdpmetric.lmnn.solvers.constraint_generation import START_TOLERANCE, Reduction, cheap_point, generate
from sdpmetric.programs.backend import Backend, BackendOptions


@dataclass(frozen=True, eq=False)
class FrobeniusReduction(Reduction):
    """The reduced programs with the term, in the data's own coordinates; their multipliers make a second point."""

    problem: FrobeniusLMNNProblem

    def program(
        self, L: FloatArray, objective: float, free: Triplets, at_bound: Triplets, faces: Sequence[FloatArray] | None
    ) -> ReducedProgram:
        """State a reduced program, in units of the trace at hand."""
        costs, lam, unit = [self.problem.linear_cost], self.problem.frobenius, float(np.sum(L**2)) or 1.0
        return ReducedProgram.of(self.push, self.points, free, at_bound, costs=costs, frobenius=lam, unit=unit)

    def point(self, solved: ReducedProgram) -> FloatArray:
        """The better one of the backend's metric and of the one that minimizes the Lagrangian."""
        points = [psd.factor(solved.metrics[0]), self.problem.dual_point(solved.dual).components]
        return min(points, key=lambda point: self.problem.objective(point))[None]

    def faces(self, L: FloatArray, dual: Dual) -> None:
        """The whole cone."""


@solver(FrobeniusLMNNProblem, "conic", tol=1e-6)
def steps(
    problem: FrobeniusLMNNProblem,
    budget: Budget,
    tol: float,
    *,
    backend: str = "CLARABEL",
    init: FloatArray | None = None,
    backend_options: BackendOptions | None = None,
) -> Iterator[Step]:
    """Solve LMNN with a Frobenius term exactly; see `sdpmetric.lmnn.solvers.conic.steps`."""
    chosen, push = Backend.of(backend, backend_options), problem.base.push
    if push.weight == 0.0 or push.source.size == 0:
        yield Step.certified(problem, problem.zero)
        return
    # Null directions cost something here: all examples are one group.
    reduction = FrobeniusReduction(problem, push, problem.base.centered, None, problem.base.squeeze)
    first = np.zeros((0, problem.X.shape[1])) if init is None else init
    components = yield from cheap_point(
        lambda own: frobenius.steps(problem, own, START_TOLERANCE, init=init), budget, first
    )
    yield from generate(reduction, components[None], chosen, budget, tol)
