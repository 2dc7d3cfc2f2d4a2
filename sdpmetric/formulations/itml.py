"""ITML with slack as a CVXPY program."""

from __future__ import annotations

import cvxpy as cp
import numpy as np

from sdpmetric.core.registry import formulation
from sdpmetric.formulations.atoms import metric_variable, squared_distances
from sdpmetric.formulations.exact_program import ExactProgram, Point
from sdpmetric.linalg import psd
from sdpmetric.problems.itml import ITMLProblem


@formulation(ITMLProblem)
def state(problem: ITMLProblem, *, scaled: bool = False) -> ExactProgram:
    """ITML with slack as section 3 of Davis et al. (2007) states it.

    Variables ``M``, which is the paper's A, and ``ratios``, the slacks xi in units of the best slacks of a reference
    metric (`ITMLProblem.balance`), so that all are of one order; constraint ``bounds``, whose dual values are the
    multipliers of the certificate times those units. The logarithm of the determinant keeps M in the cone.

    Parameters
    ----------
    problem : ITMLProblem
    scaled : bool, default False
        State it in coordinates in which M is near the identity, for the backend's accuracy; the LogDet divergence is
        the same in all. By default in the data's own.
    """
    X, xi0, gamma = np.asarray(problem.X, dtype=np.float64), problem.bounds, problem.gammas
    T = problem.root @ problem.balance if scaled else np.eye(X.shape[1])
    X = (X - X.mean(axis=0)) @ T
    inverse = T.T @ np.linalg.inv(problem.prior) @ T  # of A0
    A, _ = metric_variable(len(T))  # a cone beside that of log_det would only cost accuracy
    units = xi0 * problem.slack_ratios(problem.balance)
    ratios = cp.Variable(len(xi0), name="ratios")
    # D_ld(A, A0) = tr(A A0^-1) - log det(A A0^-1) - d
    metric = cp.trace(A @ inverse) - cp.log_det(A) - np.linalg.slogdet(inverse)[1] - len(T)
    # gamma D_ld(diag(xi), diag(xi0))
    slacks = (gamma * units / xi0) @ ratios - gamma @ cp.log(ratios) - gamma @ (np.log(units / xi0) + 1.0)
    # tr(A (x_i - x_j)(x_i - x_j)') <= xi_ij where similar, >= xi_ij where dissimilar
    excess = cp.multiply(1 / units, squared_distances(A, X, problem.pairs)) - ratios
    bounds = (cp.multiply(problem.signs, excess) <= 0).set_label("bounds")
    program = cp.Problem(cp.Minimize(metric + slacks), [bounds])

    def read() -> Point:
        metric = T @ A.value @ T.T
        components = psd.factor(metric)
        tries = [np.ravel(bounds.dual_value) / units, problem.multipliers(components)]
        # Where they span many orders of magnitude, those of the point's own slacks are the more accurate ones.
        proven = [problem.certify(components, dual=a).lower_bound for a in tries]
        return Point(metric, tries[int(np.argmax(proven))])

    return ExactProgram(program, read)
