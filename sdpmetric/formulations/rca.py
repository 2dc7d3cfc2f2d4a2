"""RCA as a CVXPY program."""

from __future__ import annotations

import numpy as np

from sdpmetric.core.registry import formulation
from sdpmetric.formulations.atoms import metric_variable
from sdpmetric.formulations.exact_program import ExactProgram, Point
from sdpmetric.lazy import cvxpy as cp
from sdpmetric.linalg import psd
from sdpmetric.problems.rca import RCAProblem


@formulation(RCAProblem)
def state(problem: RCAProblem, *, scaled: bool = False) -> ExactProgram:
    """RCA as maximum likelihood (Bar-Hillel et al. 2005) [BHSW2005], variable ``M``."""
    X = np.asarray(problem.X, dtype=np.float64)
    T = psd.data_basis(X - X.mean(axis=0))[0] if scaled else np.eye(X.shape[1])
    root = problem.root @ T
    C = root.T @ root
    M, _ = metric_variable(len(C))  # a cone beside that of log_det would only cost accuracy
    # <C, M> - log det(C M)
    program = cp.Problem(cp.Minimize(cp.trace(C @ M) - cp.log_det(M) - np.linalg.slogdet(C)[1]))
    return ExactProgram(program, lambda: Point(T @ M.value @ T.T, None))
