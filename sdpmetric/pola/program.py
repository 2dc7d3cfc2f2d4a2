"""Batch POLA as a CVXPY program, and the small program that finds a proof where its pairs contradict each other."""

from __future__ import annotations

import numpy as np

from sdpmetric.core.registry import formulation
from sdpmetric.lazy import cvxpy as cp
from sdpmetric.linalg import psd
from sdpmetric.pola.printed import FLOOR, MARGINS, SLACKS
from sdpmetric.pola.problem import POLAProblem
from sdpmetric.programs.atoms import CONE, squared_distances, sum_of_squares
from sdpmetric.programs.exact_program import ExactProgram, Point, named, printed

# An optimum that is likely to be larger than this, or smaller than its reciprocal, is not scaled.
LARGEST = 1e8

# Name of the parameter.
SLACK_WEIGHT = "slack_weight"


def pola_program(problem: POLAProblem, parametric: bool = False) -> cp.Problem:
    """The batch program of Shalev-Shwartz, Singer and Ng 2004; see `sdpmetric.to_cvxpy`."""
    d, start = problem.X.shape[1], problem.initial_threshold
    A = cp.Variable((d, d), symmetric=True, name="A")
    b = cp.Variable(name="b")
    # 1/2 ||A||_F^2 + 1/2 (b - b_1)^2, the comparator's term of Theorem 1, halved
    objective = 0.5 * cp.sum_squares(A) + 0.5 * cp.square(b - start)
    # y_t (b - v_t' A v_t)
    margins = cp.multiply(problem.signs, b - squared_distances(A, problem.X, problem.pairs))
    constraints: list[cp.Constraint] = []
    shown = problem.lines
    if problem.slack_weight is None:
        constraints.append((margins >= 1).set_label(MARGINS))  # y_t (b - v_t' A v_t) >= 1
    else:
        xi = cp.Variable(len(problem.pairs), name="xi")
        weight = cp.Parameter(nonneg=True, name=SLACK_WEIGHT, value=problem.slack_weight)
        objective += (weight if parametric else problem.slack_weight) * (problem.slack_shares @ xi)
        constraints.append((margins >= 1 - xi).set_label(MARGINS))  # y_t (b - v_t' A v_t) >= 1 - xi_t
        constraints.append((xi >= 0).set_label(SLACKS))
        shown = lambda: problem.with_weights(slack_weight=float(weight.value)).lines()  # noqa: E731
    constraints.append((A >> 0).set_label(CONE))  # A is PSD
    constraints.append((b >= 1).set_label(FLOOR))  # b >= 1
    return printed(cp.Minimize(objective), constraints, shown)


def contradiction_program(problem: POLAProblem) -> cp.Problem:
    """The multipliers ``a`` on the simplex that come nearest to proving a contradiction.

    Minimize t subject to ``sum_t a_t y_t u_t u_t^T + t I`` PSD and ``sum_t a_t y_t <= t``, with ``u_t`` the differences
    in coordinates in which they have a unit second moment. The pairs contradict each other exactly if the optimum is
    not positive.
    """
    V = problem.differences
    U, sigma, _ = np.linalg.svd(V, full_matrices=False)
    positive = sigma > psd.RANK_TOLERANCE * sigma.max(initial=0.0)
    a = cp.Variable(len(V), nonneg=True, name="a")
    t = cp.Variable(name="t")
    constraints = [problem.signs @ a <= t, cp.sum(a) == 1]
    if positive.any():
        U = np.sqrt(len(V)) * U[:, positive]
        rank = U.shape[1]
        constraints.append(sum_of_squares(U, cp.multiply(problem.signs, a)) + t * np.eye(rank) >> 0)
    return cp.Problem(cp.Minimize(t), constraints)


@formulation(POLAProblem)
def state(problem: POLAProblem, *, scaled: bool = False, parametric: bool = False) -> ExactProgram:
    if parametric and problem.slack_weight is None:
        raise TypeError("parametric=True needs a weight, and the hard margin of POLA has none; state a slack_weight.")
    zero = np.zeros((0, problem.X.shape[1]))
    likely = problem.certify(zero).lower_bound
    units = 1.0 / likely if scaled and 1.0 / LARGEST < likely < LARGEST else 1.0
    program = pola_program(problem, parametric)
    if units != 1.0:
        program = cp.Problem(cp.Minimize(units * program.objective.expr), program.constraints)

    def read() -> Point:
        by_name = named(program)
        dual = np.clip(np.ravel(by_name[MARGINS].dual_value) / units, 0.0, problem.ceilings)
        lagrangian = problem.as_sum().dual.minimizer([dual])
        candidates = [
            psd.factor(np.asarray(by_name["A"].value)),
            zero,
            *([] if lagrangian is None else [lagrangian[:, :-1]]),
        ]
        components = min((problem.repair(L)[0] for L in candidates), key=lambda L: problem.objective(L))
        return Point(components.T @ components, dual)

    if problem.slack_weight is not None:
        return ExactProgram(program, read)
    infeasibility = contradiction_program(problem)

    def read_contradiction() -> Point:
        a = np.maximum(np.asarray(named(infeasibility)["a"].value), 0.0)
        d = problem.X.shape[1]
        return Point(np.zeros((d, d)), problem.repeated if problem.repeated.any() else a)

    return ExactProgram(program, read, ExactProgram(infeasibility, read_contradiction))
