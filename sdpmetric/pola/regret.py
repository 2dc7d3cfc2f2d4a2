"""Regret of online POLA: the comparators of its two theorems, and a loss that no metric and threshold can avoid.

With all multipliers ``a >= 0``, weak duality bounds the squared hinges of every metric and threshold b >= 1 by
``sum_t (a_t - a_t^2 / 4) - sum_t a_t y_t``, if ``sum_t a_t y_t v_t v_t^T`` is PSD and ``sum_t a_t y_t <= 0``.
"""

from __future__ import annotations

import math

import numpy as np

from sdpmetric.arrays import FloatArray
from sdpmetric.core.run import solve
from sdpmetric.core.solution import Solution
from sdpmetric.core.status import Status
from sdpmetric.core.steps import Budget
from sdpmetric.linalg import psd
from sdpmetric.linalg.rigorous.directed import above
from sdpmetric.losses import SquaredHinge
from sdpmetric.pola.problem import POLAProblem
from sdpmetric.pola.program import contradiction_program
from sdpmetric.pola.threshold_margins import margins_to_threshold
from sdpmetric.programs.backend import Backend
from sdpmetric.programs.exact_program import named

# Values of gamma, relative to the radius R, whose comparators bound the smallest loss: its dual at gamma to 0.
GAMMAS = (1e-2, 1e-4, 1e-6)


def regret_bound(problem: POLAProblem, gamma: float | None, budget: Budget, tol: float) -> float | None:
    """What online POLA may lose on these pairs; None where no metric is found that satisfies all margins."""
    if gamma is not None:
        solution = comparator(problem, gamma, budget, tol)
        return above(2.0 * (problem.radius + gamma) * solution.objective, 3)
    hard = POLAProblem(problem.X, problem.pairs, problem.similar, None, problem.initial_threshold)
    optimum = solve(hard, tol=tol, max_time=max(budget.remaining, 1e-3))  # at least its first point is certified
    if optimum.status is Status.INFEASIBLE or not math.isfinite(optimum.objective):
        return None
    return problem.update_bound(optimum.objective)


def comparator(problem: POLAProblem, gamma: float, budget: Budget, tol: float = 1e-6) -> Solution:
    """The comparator of inseparable online POLA, a sum of terms.

    Minimizes ``1/2 ||A||^2 + 1/2 (b - b_1)^2 + 1 / (2 gamma) sum_t [1 - y_t (b - v_t^T A v_t)]_+^2`` over PSD metrics
    and ``b >= 1``. Every ``a >= 0`` proves the dual value of the hard margin minus ``gamma / 2 ||a||^2``.
    """
    data, weights = (problem.X, problem.pairs, problem.signs), np.full(len(problem.pairs), 0.5 / gamma)
    total = margins_to_threshold(*data, SquaredHinge(), weights, problem.initial_threshold)
    return solve(total, solver="dual", tol=tol, max_time=max(budget.remaining, 1e-3))


def least_loss(problem: POLAProblem, budget: Budget) -> float:
    """A lower bound on the sum of squared hinges of every fixed metric and threshold, at least 0.

    The multipliers of `comparator` are nearly feasible for a small gamma; adding multipliers that strictly contradict
    each other makes them feasible. The bound is 0 where there are none, or no time is left.
    """
    if not budget.remaining:
        return 0.0
    program = contradiction_program(problem)
    Backend("CLARABEL", ()).run(program, budget, {})
    solved = named(program)["a"].value
    if solved is None:
        return 0.0
    contradicting = np.maximum(np.asarray(solved, dtype=np.float64), 0.0)
    V, y = problem.differences, problem.signs
    U, sigma, _ = np.linalg.svd(V, full_matrices=False)
    U = np.sqrt(len(V)) * U[:, sigma > psd.RANK_TOLERANCE * sigma.max(initial=0.0)]

    def violation(a: FloatArray) -> float:
        """Violation of the two conditions, relative to the identity and to 1; negative where both hold strictly."""
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
