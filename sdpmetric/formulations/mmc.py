"""MMC as a CVXPY program."""

from __future__ import annotations

import cvxpy as cp
import numpy as np

from sdpmetric.core.registry import formulation
from sdpmetric.formulations.atoms import metric_variable, squared_distances
from sdpmetric.formulations.exact_program import ExactProgram, Point
from sdpmetric.linalg import psd
from sdpmetric.linalg.distances import adjoint
from sdpmetric.problems.mmc import MMCProblem


@formulation(MMCProblem)
def state(problem: MMCProblem, *, scaled: bool = False) -> ExactProgram:
    """MMC as section 2.3.1 of Weinberger and Saul (2009) prints it.

    Variables ``M`` and ``D``, the squared distances of the dissimilar pairs; constraints ``distances``, whose dual
    values are the weights of the certificate, ``budget`` and ``cone``.
    """
    T = problem.coordinates.range if scaled else np.eye(problem.X.shape[1])
    X = problem.centered @ T
    M, cone = metric_variable(X.shape[1])
    first, second = problem.dissimilar_pairs
    D = cp.Variable(len(first), name="D")
    C = adjoint(X, *problem.similar_pairs, problem.similar_weights)
    # (x_i - x_j)' M (x_i - x_j) for all dissimilar pairs; named, for the sake of the dual values
    distances = (squared_distances(M, X, np.stack([first, second], axis=1)) == D).set_label("distances")
    constraints = [
        distances,
        (cp.trace(C @ M) <= 1).set_label("budget"),  # (1) sum_ij y_ij (x_i - x_j)' M (x_i - x_j) <= 1
        cone,  # (2) M is PSD
    ]
    # Maximize sum_ij (1 - y_ij) sqrt((x_i - x_j)' M (x_i - x_j))
    program = cp.Problem(cp.Minimize(-problem.dissimilar_weights @ cp.sqrt(D)), constraints)

    def read() -> Point:
        metric = T @ M.value @ T.T / float(np.sum(C * M.value))  # the constraint used up exactly
        components = psd.factor(metric)
        tries = [np.abs(np.ravel(distances.dual_value)), problem.multipliers(components)]
        proven = [problem.certify(components, dual=w).lower_bound for w in tries]
        return Point(metric, tries[int(np.argmax(proven))])

    return ExactProgram(program, read)
