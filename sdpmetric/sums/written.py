"""Sums of terms written down: as lines of text, as dual programs, and as proof files that `sdpmetric.check` verifies.

Let a be the multipliers of the losses, c their numbers at the zero metric, U a slope of each strictly convex term r.
With ``V(i,j) = (x_i - x_j)(x_i - x_j)'``, Fenchel and Young bound the sum from below by ``tr(S M) + sum (a c - l*(a)) -
sum r*(U)``, with S the sum of the costs, of ``a`` times the ``V`` of each number, and of U. Over the metrics of the
domain the first summand is at least 0 if S is in the dual cone. So the dual program is

    maximize  sum (a c - l*(a)) - sum r*(U)    subject to  S in the dual cone

A proof file holds a point, multipliers, and a slope U of each regularizer; its checker only has to see that the slack
matrix, slopes included, is positive definite. The slope of the regularizer that `FenchelDual` minimizes over is the one
at its minimizer, moved by a margin; the lower bound is that of what is written.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray
from sdpmetric.core.files import Proof, ProofTerm
from sdpmetric.lazy import cvxpy as cp
from sdpmetric.linalg import psd
from sdpmetric.linalg.rigorous.directed import sum_below
from sdpmetric.lines import MAX_FEATURES, Lines, matrix, points, total
from sdpmetric.programs.atoms import CONE, sum_of_squares
from sdpmetric.programs.exact_program import printed
from sdpmetric.sums.fenchel import FenchelDual, Proven
from sdpmetric.sums.terms.base import Regularizer

if TYPE_CHECKING:
    from sdpmetric.sums.problem import MetricProblem


def lines(problem: MetricProblem) -> Lines:
    """Return the program: the terms one by one, then the constraints of hard terms."""
    objective = total((weight, text) for weight, text in (term.text() for term in problem.terms) if text)
    named = zip(problem.names, problem.terms, strict=True)
    rows = [(name, rows) for name, term in named if (rows := term.constraint_text())]
    cone = ["w >= 0" if problem.domain.diagonal else "M >> 0"]
    definitions = ["D(i,j) = (x_i - x_j)' M (x_i - x_j)", *_definitions(problem, "D")]
    is_implied = problem.total.barrier and not problem.domain.diagonal  # by log det
    return Lines(objective, [*rows, ("" if is_implied else CONE, cone)], definitions)


def dual_program(problem: MetricProblem) -> cp.Problem:
    """Write the dual program over the multipliers of each loss and the slope of each regularizer, by term."""
    total_terms, domain = problem.total, problem.domain
    V = problem.centered[total_terms.pairs[:, 0]] - problem.centered[total_terms.pairs[:, 1]]
    d, costs = V.shape[1], total_terms.costs[1]
    S = cp.Constant((V[: len(costs)].T * costs) @ V[: len(costs)] + total_terms.ridge * np.eye(d))
    value, constraints, slices = cp.Constant(0.0), list[cp.Constraint](), iter(total_terms.pair_slices)
    for name, term in zip(problem.names, problem.terms, strict=True):
        for loss in term.losses:
            a, rows = cp.Variable(loss.size, name=name), next(slices)
            value_of_loss, own_constraints = loss.dual_expression(a, cp)
            value, constraints = value + value_of_loss, [*constraints, *own_constraints]
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
    S = total((1.0, text.matrix) for text in texts)
    if problem.domain.diagonal:
        cone = ("w", [f"b_k' ({S}) b_k >= 0"])
    else:
        cone = ("M", [f"{S} >> 0"])
    objective = total((1.0, text.value) for text in texts if text.value)
    definitions = ["V(i,j) = (x_i - x_j)(x_i - x_j)'", *_definitions(problem, "V")]
    return Lines(
        objective, [cone, *(("", [line]) for text in texts for line in text.constraints)], definitions, "maximize"
    )


def _definitions(problem: MetricProblem, symbol: str) -> list[str]:
    """Return the domain, the matrices of the terms, and the points."""
    domain, basis = [], problem.domain.basis
    if problem.domain.diagonal:
        domain = ["M = sum_k w_k b_k b_k'"]
        domain += [f"B = {matrix(basis)}"] if max(basis.shape) <= MAX_FEATURES else []
    return [*domain, *(line for term in problem.terms for line in term.definitions(symbol)), *points(problem.X)]


# Relative slack that is left to constraints, which then hold exactly in spite of rounding.
CONSTRAINT_SLACK = 1e-10
# Relative slack that is left to claims.
CLAIM_SLACK = 1e-12
# Shares of a regularizer's slope, tried in turn, to make the slack matrix positive definite.
MARGINS = (1e-12, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2)
# Lists of examples that data files may hold.
LISTS = ("y", "pairs", "similar", "triplets", "quadruplets")

Arrays = Mapping[str, NDArray[np.generic]]


def of_sum(
    dual: FenchelDual, components: FloatArray, objective: float, proven: Proven, data: Arrays | None = None
) -> Proof:
    """Return a sum of terms at a point with its objective, and multipliers that are proven to be feasible."""
    check_finite(objective, proven.value)
    multipliers, slopes = iter(proven.multipliers), _slopes(dual, proven)
    terms = [
        term.proof_term(slopes[term] if term in slopes else next(multipliers) if term.losses else np.zeros(0))
        for term in dual.total.terms
    ]
    summands = [loss.dual_value(a) for loss, a in zip(dual.total.losses, proven.multipliers, strict=True)]
    summands += [-regularizer.conjugate(U) for regularizer, U in slopes.items()]
    bound = sum_below(np.array(summands)) - CLAIM_SLACK * math.fsum(map(abs, summands))
    return _proof(dual, (objective, bound), terms, components, data)


def of_contradiction(dual: FenchelDual, proven: Proven, data: Arrays | None = None) -> Proof:
    """Return hard constraints that contradict each other, by multipliers of these alone."""
    losses = zip(dual.total.losses, proven.multipliers, strict=True)
    terms = [loss.proof_term(a) for loss, a in losses if loss.hard]
    return _proof(dual, (None, None), terms, dual.total.centered[:1], data)


def _proof(
    dual: FenchelDual,
    claims: tuple[float | None, float | None],
    terms: Sequence[ProofTerm],
    components: FloatArray,
    data: Arrays | None,
) -> Proof:
    domain, X = dual.slack.domain, dual.slack.X
    factor = np.diag(np.sqrt(domain.weights(components))) if domain.diagonal else components
    arrays: dict[str, NDArray[np.generic]] = {"X": X, **({} if data is None else data)}
    for name in LISTS:
        lists = [term.data[name] for term in terms if name in term.data]
        agree = all(np.array_equal(lists[0], array) for array in lists)
        if name == "y" and not agree:
            raise ValueError("proof files hold one label of each example; terms of this sum have different ones.")
        if lists and agree and (name == "y" or data is None):
            arrays[name] = number_labels(lists[0]) if name == "y" else lists[0]
    if "pairs" not in arrays or "similar" not in arrays:
        arrays = {name: array for name, array in arrays.items() if name not in ("pairs", "similar")}
    statement = {"domain": "diagonal" if domain.diagonal else "all"}
    check_finite(*claims)
    point = {"components": factor[None], "shares": np.ones((len(X), 1)), "map": domain.basis.T}
    return Proof(*claims, statement, terms, arrays, point)


def check_finite(*claims: float | None) -> None:
    """Raise an error if an objective or a lower bound is infinite."""
    if any(claim is not None and not math.isfinite(claim) for claim in claims):
        raise ValueError("objective or lower bound of this solution are infinite: a proof file would prove nothing.")


def _slopes(dual: FenchelDual, proven: Proven) -> dict[Regularizer, FloatArray]:
    """Return a slope of each regularizer; with all of them the slack matrix is proven to be positive definite."""
    slope_of = {term: psd.symmetrize(U) for term, U in zip(dual.bounded_by_slopes, proven.slopes, strict=True)}
    slack, regularizer, matrices = dual.slack, dual.minimized, list(slope_of.values())
    if regularizer is None:
        return slope_of
    S = slack.form(slack.images(np.eye(slack.d)), proven.multipliers, matrices).matrix
    for margin in MARGINS:
        U = regularizer.proof_slope(S, slack.domain.restricted, margin)
        is_slope = np.isfinite(U).all() and math.isfinite(regularizer.conjugate(U))
        if is_slope and slack.is_definite(S + U, proven.multipliers, [*matrices, U]):
            return slope_of | {regularizer: U}
    raise ValueError(
        f"the lower bound of this solution takes more digits than a proof file has for the slope of "
        f"{regularizer.name}: scale the features, or give the term a larger weight."
    )


def number_labels(labels: NDArray[np.generic]) -> NDArray[np.int64]:
    """Number classes in the order of their first examples, which does not depend on the names of labels."""
    numbers: dict[object, int] = {}
    return np.array([numbers.setdefault(label, len(numbers)) for label in labels.tolist()], dtype=np.int64)
