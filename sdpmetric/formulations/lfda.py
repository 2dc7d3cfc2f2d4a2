"""LFDA as a CVXPY program: the semidefinite relaxation of a projection, which is exact."""

from __future__ import annotations

import numpy as np

from sdpmetric.core.registry import formulation
from sdpmetric.formulations.exact_program import ExactProgram, Point
from sdpmetric.lazy import cvxpy as cp
from sdpmetric.problems.lfda import LFDAProblem


@formulation(LFDAProblem)
def state(problem: LFDAProblem) -> ExactProgram:
    """Ky Fan's theorem as a program: the sum of the largest eigenvalues of B, where W is the identity [OW1992].

    Variable ``P``, a projection of rank r at the optimum, and where it is not unique a convex combination of such;
    constraints ``cone``, ``below`` and ``rank``.
    """
    B, r = problem.ratio, problem.n_components
    P = cp.Variable(B.shape, symmetric=True, name="P")
    constraints = [
        (P >> 0).set_label("cone"),
        (np.eye(len(B)) - P >> 0).set_label("below"),
        (cp.trace(P) <= r).set_label("rank"),
    ]
    program = cp.Problem(cp.Minimize(-cp.trace(B @ P)), constraints)

    def read() -> Point:
        values, vectors = np.linalg.eigh(P.value)
        L = problem.lift(vectors[:, ::-1][:, :r][:, values[::-1][:r] > 0.5].T)
        return Point(L.T @ L)

    return ExactProgram(program, read)
