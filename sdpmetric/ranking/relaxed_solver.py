"""FRML-AUC from its convex relaxation: solved with a proof, cut to the bounded rank, and improved there."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sdpmetric.arrays import FloatArray
from sdpmetric.core.registry import formulation, solver
from sdpmetric.core.steps import Budget, Step
from sdpmetric.linalg import psd
from sdpmetric.lmnn.program import state
from sdpmetric.lmnn.solvers import factored, low_rank
from sdpmetric.programs.exact_program import ExactProgram
from sdpmetric.ranking.frml import FRMLProblem

# Relative gap to which the relaxation is solved: what is left of the gap is then due to the rank.
RELAXATION_TOLERANCE = 1e-4


@solver(FRMLProblem, "relaxed", tol=1e-3, takes=lambda problem: problem.loss == "auc" and problem.regularization > 0)
def steps(problem: FRMLProblem, budget: Budget, tol: float) -> Iterator[Step]:
    """Solve `FRMLProblem.relaxation`, take its leading eigenvectors, then descend in the factor by L-BFGS.

    The relaxation has this problem's objective at every metric, so LMNN with a metric of bounded rank (LMNN-R,
    `sdpmetric.lmnn.solvers.low_rank`) is this problem, and the relaxation's lower bound holds for it.
    """
    convex = problem.relaxation

    def leading(components: FloatArray) -> FloatArray:
        return np.asarray(psd.leading(components, problem.n_components), dtype=np.float64)

    of_all_ranks = factored.steps(convex, budget, RELAXATION_TOLERANCE)
    best, bound = yield from low_rank.without_bound_on_rank(of_all_ranks, RELAXATION_TOLERANCE, leading)
    L, multipliers = leading(best.components), bound.multipliers
    yield Step(L, objective=problem.objective(L), lower_bound=bound.lower_bound, multipliers=multipliers)
    if len(best.components) > problem.n_components and not convex.coordinates.null.shape[1]:
        yield from low_rank.descend_at_rank(convex, budget, best, bound, problem.n_components)


@formulation(FRMLProblem, exact=False)
def state_relaxation(problem: FRMLProblem) -> ExactProgram:
    """The program of FRML's relaxation, for the AUC loss."""
    return state(problem.relaxation)
