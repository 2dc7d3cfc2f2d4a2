"""POLA as CVXPY programs, and its regret: the comparators of two theorems, and losses that no metric can avoid.

With all multipliers ``a >= 0``, weak duality bounds the squared hinges of every metric and threshold b >= 1 by
``sum_t (a_t - a_t^2 / 4) - sum_t a_t y_t``, if ``sum_t a_t y_t v_t v_t^T`` is PSD and ``sum_t a_t y_t <= 0``.
"""

from __future__ import annotations

import math

import numpy as np

from sdpmetric.arrays import FloatArray
from sdpmetric.core.registry import formulation
from sdpmetric.core.run import solve
from sdpmetric.core.solution import Solution
from sdpmetric.core.status import Status
from sdpmetric.core.steps import Budget
from sdpmetric.lazy import cvxpy as cp
from sdpmetric.linalg import psd
from sdpmetric.linalg.rigorous.directed import above
from sdpmetric.losses import SquaredHinge
from sdpmetric.pola.forms import FLOOR, MARGINS, SLACKS, margins_to_threshold
from sdpmetric.pola.problem import POLAProblem
from sdpmetric.programs.atoms import CONE, squared_distances, sum_of_squares
from sdpmetric.programs.exact_program import Backend, ExactProgram, Point, named, printed

# An optimum that is likely to be larger than this, or smaller than its reciprocal, is not scaled.
LARGEST = 1e8

# Name of the parameter.
SLACK_WEIGHT = "slack_weight"


def pola_program(problem: POLAProblem, parametric: bool = False) -> cp.Problem:
    """Return the batch program of Shalev-Shwartz, Singer and Ng 2004; see `sdpmetric.to_cvxpy`."""
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
    """Return the multipliers ``a`` on the simplex that come nearest to proving a contradiction.

    Minimize t subject to ``sum_t a_t y_t u_t u_t^T + t I`` PSD and ``sum_t a_t y_t <= t``, with ``u_t`` the differences
    in coordinates that give them a unit second moment. The pairs contradict each other exactly if the optimum is
    not positive.
    """
    U = _in_unit_moments(problem)
    a = cp.Variable(len(U), nonneg=True, name="a")
    t = cp.Variable(name="t")
    constraints = [problem.signs @ a <= t, cp.sum(a) == 1]
    if U.size:
        constraints.append(sum_of_squares(U, cp.multiply(problem.signs, a)) + t * np.eye(U.shape[1]) >> 0)
    return cp.Problem(cp.Minimize(t), constraints)


def _in_unit_moments(problem: POLAProblem) -> FloatArray:
    """Return the differences of the pairs in coordinates that give them a unit second moment, (p, rank)."""
    U, sigma, _ = np.linalg.svd(problem.differences, full_matrices=False)
    return np.asarray(np.sqrt(len(U)) * U[:, sigma > psd.RANK_TOLERANCE * sigma.max(initial=0.0)])


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


# Values of gamma, relative to the radius R: their comparators bound the smallest loss, its dual at gamma to 0.
GAMMAS = (1e-2, 1e-4, 1e-6)


def regret_bound(problem: POLAProblem, gamma: float | None, budget: Budget, tol: float) -> float | None:
    """Return the loss that Theorem 1 allows online POLA, or None if no metric is found that satisfies all margins."""
    if gamma is not None:
        solution = comparator(problem, gamma, budget, tol)
        return above(2.0 * (problem.radius + gamma) * solution.objective, 3)
    hard = POLAProblem(problem.X, problem.pairs, problem.similar, None, problem.initial_threshold)
    optimum = solve(hard, tol=tol, max_time=max(budget.remaining, 1e-3))  # at least its first point is certified
    if optimum.status is Status.INFEASIBLE or not math.isfinite(optimum.objective):
        return None
    return problem.update_bound(optimum.objective)


def comparator(problem: POLAProblem, gamma: float, budget: Budget, tol: float = 1e-6) -> Solution:
    """Return the comparator of inseparable online POLA, a sum of terms.

    Minimizes ``1/2 ||A||^2 + 1/2 (b - b_1)^2 + 1 / (2 gamma) sum_t [1 - y_t (b - v_t^T A v_t)]_+^2`` over PSD metrics
    and ``b >= 1``. Every ``a >= 0`` proves the dual value of the hard margin minus ``gamma / 2 ||a||^2``.
    """
    data, weights = (problem.X, problem.pairs, problem.signs), np.full(len(problem.pairs), 0.5 / gamma)
    total = margins_to_threshold(*data, SquaredHinge(), weights, problem.initial_threshold)
    return solve(total, solver="dual", tol=tol, max_time=max(budget.remaining, 1e-3))


def least_loss(problem: POLAProblem, budget: Budget) -> float:
    """Return a lower bound on the sum of squared hinges of every fixed metric and threshold, at least 0.

    The multipliers of `comparator` are nearly feasible for a small gamma; adding multipliers that strictly contradict
    each other makes them feasible. The bound is 0 if there are none, or no time is left.
    """
    if not budget.remaining:
        return 0.0
    program = contradiction_program(problem)
    Backend("CLARABEL", ()).run(program, budget, {})
    solved = named(program)["a"].value
    if solved is None:
        return 0.0
    contradicting = np.maximum(np.asarray(solved, dtype=np.float64), 0.0)
    U, y = _in_unit_moments(problem), problem.signs

    def violation(a: FloatArray) -> float:
        """Return the violation of the conditions, relative to the identity and to 1; negative if both hold strictly."""
        return max(psd.largest_eigenvalue(-(U * (a * y)[:, None]).T @ U), float(a @ y))

    slack = -violation(contradicting)
    if slack <= 1e-9 * float(contradicting.sum()):
        return 0.0
    smallest, losses = 0.0, margins_to_threshold(problem.X, problem.pairs, y, SquaredHinge(), np.ones(len(y)), None)
    for gamma in (share * problem.radius for share in GAMMAS):
        if not budget.remaining:
            break
        a = 2.0 * gamma * np.asarray(comparator(problem, gamma, budget, 1e-4).dual)
        a = a + 1.0000001 * max(0.0, violation(a)) / slack * contradicting
        a *= 2.0 * float(a.sum() - a @ y) / float(a @ a)  # the best multiple
        smallest = max(smallest, losses.dual.prove_unmoved([a]).value)
    return smallest
