"""LEGO's comparators as CVXPY programs: what its theorem compares it with, and the best fixed metric for a stream."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

from sdpmetric.core.registry import formulation
from sdpmetric.formulations.atoms import metric_variable, squared_distances
from sdpmetric.formulations.exact_program import ExactProgram, Point
from sdpmetric.linalg import psd
from sdpmetric.problems.lego import LEGOProblem
from sdpmetric.problems.lego_batch import LEGOBatchProblem

FloatArray = NDArray[np.float64]


@formulation(LEGOBatchProblem)
def state(problem: LEGOBatchProblem, *, scaled: bool = False) -> ExactProgram:
    """The comparator of Theorem 2.2 of Jain et al. (2008), corrected: ``D_ld(A, A_0) + eta sum_t loss_t(A)``.

    Its optimum times ``1 / eta + reach`` is the tightest allowance, see `LEGOProblem.allowance`. For a single pair and
    ``A_0 = A_t`` this is the program that one step solves. Variable ``M``, which is the paper's A; the logarithm of the
    determinant keeps it in the cone.

    Parameters
    ----------
    problem : LEGOBatchProblem
    scaled : bool, default False
        Without effect: the program is stated in one way.
    """
    stream, d = problem.stream, problem.X.shape[1]
    inverse = np.linalg.inv(stream.initial_metric)
    A, _ = metric_variable(d)  # a cone beside that of log_det would only cost accuracy
    # D_ld(A, A_0) = tr(A A_0^-1) - log det(A A_0^-1) - d
    divergence = cp.trace(A @ inverse) - cp.log_det(A) - np.linalg.slogdet(inverse)[1] - d
    program = cp.Problem(cp.Minimize(divergence + stream.learning_rate * _losses(A, stream, np.eye(d))))

    def read() -> Point:
        return Point(np.asarray(A.value))

    return ExactProgram(program, read)


@formulation(LEGOProblem, exact=False)
def state_comparator(problem: LEGOProblem) -> ExactProgram:
    """The program of the comparator of a stream, `LEGOBatchProblem`."""
    return state(LEGOBatchProblem(problem))


def state_fixed(problem: LEGOProblem) -> ExactProgram:
    """The fixed metric with the least loss on the stream: ``sum_t loss_t(A)`` over PSD A, variable ``M``.

    ExactProgram in coordinates in which the pairs' differences have unit second moment, for the backend's accuracy.

    Parameters
    ----------
    problem : LEGOProblem
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
