"""Sums of terms as they print, a line for each term, and their dual programs.

Let a be the multipliers of the losses, c their numbers at the zero metric, U a slope of each strictly convex term r.
With ``V(i,j) = (x_i - x_j)(x_i - x_j)'``, Fenchel and Young bound the sum from below by ``tr(S M) + sum (a c - l*(a)) -
sum r*(U)``, where S is the sum of the costs, of ``a`` times the ``V`` of each number, and of U. Over the metrics of the
domain the first summand is at least 0 if S is in the dual cone. So the dual program is

    maximize  sum (a c - l*(a)) - sum r*(U)    subject to  S in the dual cone
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sdpmetric.lazy import cvxpy as cp
from sdpmetric.lines import MAX_FEATURES, Lines, matrix, points, total
from sdpmetric.programs.atoms import CONE, sum_of_squares
from sdpmetric.programs.exact_program import printed

if TYPE_CHECKING:
    from sdpmetric.sums.problem import MetricProblem


def lines(problem: MetricProblem) -> Lines:
    """The program: the terms one by one, then the constraints of hard ones."""
    objective = total((weight, text) for weight, text in (term.text() for term in problem.terms) if text)
    named = zip(problem.names, problem.terms, strict=True)
    rows = [(name, rows) for name, term in named if (rows := term.constraint_text())]
    cone = ["w >= 0" if problem.domain.diagonal else "M >> 0"]
    where = ["D(i,j) = (x_i - x_j)' M (x_i - x_j)", *_where(problem, "D")]
    is_implied = problem.total.barrier and not problem.domain.diagonal  # by log det
    return Lines(objective, [*rows, ("" if is_implied else CONE, cone)], where)


def dual_program(problem: MetricProblem) -> cp.Problem:
    """The dual program: variables are the multipliers of each loss and the slope of each regularizer, by term."""
    total_terms, domain = problem.total, problem.domain
    V = problem.centered[total_terms.pairs[:, 0]] - problem.centered[total_terms.pairs[:, 1]]
    d, costs = V.shape[1], total_terms.costs[1]
    S = cp.Constant((V[: len(costs)].T * costs) @ V[: len(costs)] + total_terms.ridge * np.eye(d))
    value, constraints, slices = cp.Constant(0.0), list[cp.Constraint](), iter(total_terms.pair_slices)
    for name, term in zip(problem.names, problem.terms, strict=True):
        for loss in term.losses:
            a, rows = cp.Variable(loss.size, name=name), next(slices)
            part, own_constraints = loss.dual_expression(a, cp)
            value, constraints = value + part, [*constraints, *own_constraints]
            if rows.stop > rows.start:
                S = S + sum_of_squares(V[rows], loss.combination.T @ a)
            if loss.depends_on_entries:
                entries = np.stack([loss.entry_matrix(unit).ravel() for unit in np.eye(loss.size)])
                S = S + cp.reshape(entries.T @ a, (d, d), order="C")
        for regularizer in term.regularizers:
            U = cp.Variable((d, d), symmetric=True, name=name)
            value, S = value + regularizer.dual_expression(U, cp), S + U
    B = domain.basis
    if domain.diagonal:
        in_dual_cone = (cp.sum(cp.multiply(B @ S, B), axis=1) >= 0).set_label("w")
    else:
        in_dual_cone = (0.5 * (S + S.T) >> 0).set_label("M")
    return printed(cp.Maximize(value), [in_dual_cone, *constraints], lambda: _dual_lines(problem))


def _dual_lines(problem: MetricProblem) -> Lines:
    texts = [term.dual_text(name) for name, term in zip(problem.names, problem.terms, strict=True)]
    summands = [part for text in texts for part in text.matrix]
    S = total(summands, len(summands))
    if problem.domain.diagonal:
        cone = ("w", [f"b_k' ({S}) b_k >= 0"])
    else:
        cone = ("M", [f"{S} >> 0"])
    objective = total((1.0, text.value) for text in texts if text.value)
    where = ["V(i,j) = (x_i - x_j)(x_i - x_j)'", *_where(problem, "V")]
    return Lines(objective, [cone, *(("", [line]) for text in texts for line in text.constraints)], where, "maximize")


def _where(problem: MetricProblem, symbol: str) -> list[str]:
    """The domain, the matrices of the terms, and the points."""
    domain, basis = [], problem.domain.basis
    if problem.domain.diagonal:
        domain = ["M = sum_k w_k b_k b_k'"]
        domain += [f"B = {matrix(basis)}"] if max(basis.shape) <= MAX_FEATURES else []
    return [*domain, *(line for term in problem.terms for line in term.where(symbol)), *points(problem.X)]
