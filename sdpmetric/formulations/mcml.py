"""MCML as a CVXPY program with exponential cones."""

from __future__ import annotations

import cvxpy as cp
import numpy as np

from sdpmetric.core.registry import formulation
from sdpmetric.formulations.atoms import metric_variable, squared_distances
from sdpmetric.formulations.exact_program import ExactProgram, Point
from sdpmetric.linalg import psd
from sdpmetric.problems.mcml import MCMLProblem

# Exponential cones, one per ordered pair of examples, beyond which the program is refused.
MAX_CONES = 200_000


@formulation(MCMLProblem)
def state(problem: MCMLProblem, *, scaled: bool = False) -> ExactProgram:
    """MCML as Globerson and Roweis (2006) state it.

    Variables ``M`` and ``D``, the squared distances of all ordered pairs; constraints ``distances``, whose dual values
    are ``w (p0 - q)`` for the distributions q of the certificate, and ``cone``.

    Parameters
    ----------
    scaled : bool, default False
        State it on `MCMLProblem.points`, for the backend's accuracy, pairs that cost nothing to push apart left out; by
        default in the data's own coordinates, with all pairs.

    Raises
    ------
    ValueError
        If there are more ordered pairs than a solver could hold.
    """
    X, p0 = (problem.points if scaled else problem.centered), problem.ideal
    n, d = X.shape
    if n * (n - 1) > MAX_CONES:
        raise ValueError(
            f"the program would have {n * (n - 1):,} exponential cones; it is stated up to {MAX_CONES:,}. Solve with "
            "solver='factored', or take fewer examples."
        )
    pairs = np.argwhere(~np.eye(n, dtype=bool))  # ordered: i chooses j
    ideal, w = p0[pairs[:, 0], pairs[:, 1]], problem.example_weights
    M, cone = metric_variable(d)
    D = cp.Variable(len(pairs), name="D")
    distances = (squared_distances(M, X, pairs) == D).set_label("distances")
    # sum_i w_i (sum_j p0(j | i) d_ij + log Z_i), less the entropy of p0
    objective = (w[pairs[:, 0]] * ideal) @ D - problem.ideal_entropy
    groups = problem.null_groups if scaled else np.zeros(n, dtype=np.int32)
    for group in np.unique(groups):
        inside = np.flatnonzero((groups[pairs] == group).all(axis=1))
        members = np.flatnonzero(groups == group)
        choices = cp.reshape(-D[inside], (len(members), len(members) - 1), order="C")
        objective += w[members] @ cp.log_sum_exp(choices, axis=1)
    program = cp.Problem(cp.Minimize(objective), [distances, cone])

    def read() -> Point:
        components = problem.lift(psd.factor(M.value)) if scaled else psd.factor(M.value)
        q = np.zeros((n, n))
        q[pairs[:, 0], pairs[:, 1]] = ideal - np.ravel(distances.dual_value) / np.where(w > 0.0, w, 1.0)[pairs[:, 0]]
        return Point(components.T @ components, q)

    return ExactProgram(program, read)
