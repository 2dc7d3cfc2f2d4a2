"""LMNN with a Frobenius term as a CVXPY program."""

from __future__ import annotations

import numpy as np

from sdpmetric.core.registry import formulation
from sdpmetric.core.triplets import Triplets
from sdpmetric.lazy import cvxpy as cp
from sdpmetric.lmnn.frobenius import FrobeniusLMNNProblem
from sdpmetric.lmnn.program import chosen_triplets, dual_of, lmnn_program
from sdpmetric.programs.exact_program import ExactProgram, Point, named


def frobenius_program(problem: FrobeniusLMNNProblem, triplets: Triplets | None = None) -> cp.Problem:
    """The program of LMNN with ``lam / 2 ||M||_F^2`` added; names and labels as there. See `sdpmetric.to_cvxpy`."""
    plain = lmnn_program(problem.base, triplets)
    M = named(plain)["M"]
    return cp.Problem(
        cp.Minimize(plain.objective.expr + 0.5 * problem.frobenius * cp.sum_squares(M)), plain.constraints
    )


@formulation(FrobeniusLMNNProblem)
def state(problem: FrobeniusLMNNProblem, *, triplets: Triplets | None = None) -> ExactProgram:
    """The same program, for `sdpmetric.to_cvxpy`."""
    program = frobenius_program(problem, triplets)
    chosen = chosen_triplets(problem.base, triplets)
    return ExactProgram(program, lambda: Point(np.asarray(named(program)["M"].value), dual_of(program, chosen)))
