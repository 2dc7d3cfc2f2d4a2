"""The exact layer for LMNN with one metric or several: semidefinite programs in CVXPY, by constraint generation."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from sdpmetric.arrays import FloatArray
from sdpmetric.core.registry import solver
from sdpmetric.core.run import Budget, Step
from sdpmetric.lmnn.problem import LargeMarginProblem
from sdpmetric.lmnn.solvers import factored
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
