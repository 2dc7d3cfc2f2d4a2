"""A map of queries as a CVXPY program: a second statement of it, which `sdpmetric.bound` proves by itself."""

from __future__ import annotations

from typing import cast

from sdpmetric.core.registry import formulation
from sdpmetric.lazy import cvxpy as cp
from sdpmetric.programs.exact_program import ExactProgram, Point
from sdpmetric.relatives.query import QueryProblem


@formulation(QueryProblem, exact=False)
def state(problem: QueryProblem) -> ExactProgram:
    """State a map of queries; the variable ``W`` is no metric, so no solver of metrics reads it."""
    W = cp.Variable(problem.to.shape, name="W")
    q, apart = problem.pairs
    # margin - q' W (x - z)
    loss, constraints = problem.terms[0].expression(problem.margin - cp.sum(cp.multiply(q @ W, apart), axis=1), cp)
    objective = loss + 0.5 * problem.frobenius * cp.sum_squares(W - problem.to)
    program = cp.Problem(cp.Minimize(objective), cast(list[cp.Constraint], constraints))
    return ExactProgram(program, lambda: Point(W.value))
