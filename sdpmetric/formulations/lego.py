"""LEGO's comparators as CVXPY programs: what its theorem compares it with, and the best fixed metric for a stream."""

from __future__ import annotations

import cvxpy as cp
import numpy as np

from sdpmetric.arrays import FloatArray
from sdpmetric.core.registry import formulation
from sdpmetric.formulations import terms
from sdpmetric.formulations.atoms import metric_variable, squared_distances
from sdpmetric.formulations.exact_program import ExactProgram, Point
from sdpmetric.linalg import psd
from sdpmetric.problems.lego import LEGOProblem
from sdpmetric.problems.lego_batch import LEGOBatchProblem


@formulation(LEGOProblem, exact=False)
def state_comparator(problem: LEGOProblem) -> ExactProgram:
    """The program of the comparator of a stream, `LEGOBatchProblem`."""
    return terms.state(LEGOBatchProblem(problem))


def state_fixed(problem: LEGOProblem) -> ExactProgram:
    """The fixed metric with the least loss on the stream: ``sum_t loss_t(A)`` over PSD A, variable ``M``.

    ExactProgram in coordinates in which the pairs' differences have unit second moment, for the backend's accuracy.
    """
    T, _ = psd.data_basis(problem.differences)
    if not T.shape[1]:
        raise ValueError("all pairs of the stream are of equal examples; every metric loses the same.")
    A, cone = metric_variable(T.shape[1])
    program = cp.Problem(cp.Minimize(_losses(A, problem, T)), [cone])

    def read() -> Point:
        return Point(T @ A.value @ T.T)

    return ExactProgram(program, read)


def _losses(A: cp.Variable, problem: LEGOProblem, T: FloatArray) -> cp.Expression:
    """``sum_t 1/2 (z_t^T A z_t - y_t)^2``, the misses of targets that are bounds cut at 0."""
    excess = squared_distances(A, np.asarray(problem.X, dtype=np.float64) @ T, problem.pairs) - problem.targets
    bounds = np.flatnonzero(problem.sides)
    met = np.flatnonzero(problem.sides == 0)
    parts = []
    if len(met):
        parts.append(cp.sum_squares(excess[met]))
    if len(bounds):
        parts.append(cp.sum_squares(cp.pos(cp.multiply(problem.sides[bounds], excess[bounds]))))
    return 0.5 * cp.sum(cp.hstack(parts))
