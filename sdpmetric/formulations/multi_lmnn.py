"""Multi-metric LMNN as a CVXPY program, Eq. 16 of Weinberger and Saul (2009)."""

from __future__ import annotations

import cvxpy as cp
import numpy as np

from sdpmetric.core.registry import formulation
from sdpmetric.formulations.atoms import metric_variable
from sdpmetric.formulations.exact_program import ExactProgram, Point
from sdpmetric.formulations.lmnn import chosen_triplets, hinges
from sdpmetric.problems.multi_lmnn import MultiMetricLMNNProblem
from sdpmetric.triplets.triplets import Triplets


def multi_lmnn_program(problem: MultiMetricLMNNProblem, triplets: Triplets | None = None) -> cp.Problem:
    """Eq. 16 of the paper in the data's own coordinates; see `sdpmetric.to_cvxpy`."""
    chosen = chosen_triplets(problem.tied, triplets, problem.n_regions)
    X = problem.tied.centered
    metrics, cones = zip(
        *(metric_variable(X.shape[1], f"M{region}") for region in range(problem.n_regions)), strict=True
    )
    loss, constraints = hinges(metrics, [X] * problem.n_regions, problem.push, chosen, problem.regions)
    # (1 - mu) sum_ij (x_i - x_j)' M^(r_j) (x_i - x_j), and the ridge
    pulls = [cp.trace(cost.matrix @ M) for cost, M in zip(problem.pull_costs, metrics, strict=True)]
    return cp.Problem(cp.Minimize(cp.sum(pulls) + problem.push_weight * loss), [*constraints, *cones])


@formulation(MultiMetricLMNNProblem)
def state(problem: MultiMetricLMNNProblem, *, triplets: Triplets | None = None) -> ExactProgram:
    """The same program, for `sdpmetric.to_cvxpy`."""
    program = multi_lmnn_program(problem, triplets)
    return ExactProgram(program, lambda: Point(np.asarray([v.value for v in program.variables() if v.name() != "xi"])))
