"""Regret of a stream: its cumulative loss, the optimum that the theorem compares it with, and the bound."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from functools import singledispatch

import numpy as np

from sdpmetric.arrays import FloatArray
from sdpmetric.core.certificate import RegretCertificate
from sdpmetric.core.problem import Problem
from sdpmetric.core.solution import Solution
from sdpmetric.core.status import Status
from sdpmetric.core.verbs import solve
from sdpmetric.lazy import cvxpy as cp
from sdpmetric.lego.batch import LEGOBatchProblem
from sdpmetric.lego.problem import LEGOProblem
from sdpmetric.lego.stream import LEGOStream
from sdpmetric.linalg import psd
from sdpmetric.linalg.rigorous import above
from sdpmetric.losses import SquaredHinge
from sdpmetric.pola.problem import POLAProblem
from sdpmetric.pola.program import contradiction_program
from sdpmetric.pola.threshold_margins import margins_to_threshold
from sdpmetric.programs.canonical import no_panic
from sdpmetric.programs.exact_program import named

# Relative tolerance to which a rerun of the stream must reproduce the solution's loss.
REPRODUCED = 1e-6
# Weights of the squared norm, relative to the radius, that are tried to bound the least loss.
WEIGHTS = (1e-2, 1e-4, 1e-6)
# Factors of LEGO's learning rate: comparators of larger rates have smaller losses, which bound the least loss.
RATES = (1.0, 1e2, 1e4, 1e6)


def regret(problem: Problem, solution: Solution, *, tol: float = 1e-6, **options: object) -> RegretCertificate:
    """Compare a stream's cumulative loss with the exact comparator and the bound of its theorem.

    Parameters
    ----------
    problem : POLAProblem or LEGOProblem
        Its pairs are the stream.
    solution : Solution
        Of ``solve(problem, solver="online")`` for all pairs.
    tol : float, default 1e-6
        Relative gap to which the comparator's convex program is solved.
    **options
        The options of that solve. For POLA: ``gamma=``.

    Returns
    -------
    RegretCertificate
        The solution's, with `regret_bound`, which holds for any stream of these pairs, and a `lower_bound` of the loss
        of every fixed metric on it, as tight as the program was solved. POLA without `gamma` has a bound only if some
        metric satisfies all margins and the solver finds one; otherwise `regret_bound` is None.

    Raises
    ------
    TypeError
        If the problem is not a stream, or `solution` is not a Solution.
    ValueError
        If the solution is not that of the whole stream with these options.
    """
    if not isinstance(solution, Solution):
        raise TypeError(f"solution must be the Solution of this stream, got {type(solution).__name__}.")
    return _regret(problem, solution, tol=tol, **options)


@singledispatch
def _regret(problem: Problem, solution: Solution, *, tol: float = 1e-6, **options: object) -> RegretCertificate:
    raise TypeError(
        f"no regret bound is known for {type(problem).__name__}; pass a POLAProblem or a LEGOProblem and its solution "
        'by solver="online".'
    )


def _of_whole_stream(solution: Solution, n_items: int, loss: float, learner: str) -> RegretCertificate:
    own = solution.certificate
    if (
        not isinstance(own, RegretCertificate)
        or solution.n_iter != n_items
        or abs(loss - solution.objective) > REPRODUCED * max(1.0, loss)
    ):
        raise ValueError(
            f"solution has the cumulative loss {solution.objective:.8g}, but online {learner} has {loss:.8g} on these "
            "pairs; pass the solution of the whole stream, and the options of that solve."
        )
    return own


@_regret.register
def _(
    problem: POLAProblem, solution: Solution, *, tol: float = 1e-6, gamma: float | None = None, **options: object
) -> RegretCertificate:
    if options:
        raise TypeError(f"regret of POLA does not take {', '.join(sorted(options))}; its option is gamma.")
    again = solve(problem, solver="online", gamma=gamma)
    own = _of_whole_stream(solution, len(problem.pairs), again.objective, f"POLA with gamma={gamma!r}")
    certificate = replace(own, lower_bound=max(again.lower_bound, least_loss(problem)))
    if gamma is not None:
        objective, _ = comparator(problem, gamma, tol)
        return replace(certificate, regret_bound=above(2.0 * (problem.radius + gamma) * objective, 3))
    hard = POLAProblem(problem.X, problem.pairs, problem.similar, None, problem.initial_threshold)
    optimum = solve(hard, tol=tol)
    if optimum.status is Status.INFEASIBLE or not math.isfinite(optimum.objective):
        return certificate
    return replace(certificate, regret_bound=problem.update_bound(optimum.objective))


def comparator(problem: POLAProblem, gamma: float, tol: float = 1e-6) -> tuple[float, float]:
    """The comparator of inseparable online POLA, by its dual.

    Minimizes ``1/2 ||A||^2 + 1/2 (b - b_1)^2 + 1 / (2 gamma) sum_t [1 - y_t (b - v_t^T A v_t)]_+^2`` over PSD metrics
    and ``b >= 1``. Every ``a >= 0`` proves the dual value of the hard margin minus ``gamma / 2 ||a||^2``.
    """
    objective, lower_bound, _ = _comparator(problem, gamma, tol)
    return objective, lower_bound


def _comparator(problem: POLAProblem, gamma: float, tol: float) -> tuple[float, float, FloatArray]:
    weights = np.full(len(problem.pairs), 0.5 / gamma)
    data = problem.X, problem.pairs, problem.signs
    total = margins_to_threshold(*data, SquaredHinge(), weights, problem.initial_threshold)
    found = solve(total, solver="dual", tol=tol)
    return found.objective, found.lower_bound, np.asarray(found.dual)


def least_loss(problem: POLAProblem) -> float:
    """A lower bound on the sum of squared hinges of every fixed metric and threshold, by weak duality.

    Multipliers ``a >= 0`` prove ``sum_t (a_t - a_t^2 / 4) - sum_t a_t y_t`` if ``sum_t a_t y_t v_t v_t^T`` is PSD and
    ``sum_t a_t y_t <= 0``. The multipliers of `comparator` for a small weight of the norm are nearly feasible; adding
    multipliers that strictly contradict each other makes them feasible. The bound is 0 if there are none.
    """
    program = contradiction_program(problem)
    with suppress(cp.error.SolverError), no_panic():
        program.solve(solver=cp.CLARABEL)
    found = named(program)["a"].value
    if found is None:
        return 0.0
    strict = np.maximum(np.asarray(found, dtype=np.float64), 0.0)
    V, y = problem.differences, problem.signs
    U, sigma, _ = np.linalg.svd(V, full_matrices=False)
    U = np.sqrt(len(V)) * U[:, sigma > psd.RANK_TOLERANCE * sigma.max(initial=0.0)]

    def violation(a: FloatArray) -> float:
        """Violation of the two conditions, relative to the identity and to 1; negative where both hold strictly."""
        return max(psd.largest_eigenvalue(-(U * (a * y)[:, None]).T @ U), float(a @ y))

    spare = -violation(strict)
    if spare <= 1e-9 * float(strict.sum()):
        return 0.0
    best, losses = 0.0, margins_to_threshold(problem.X, problem.pairs, y, SquaredHinge(), np.ones(len(y)), None)
    for weight in WEIGHTS:
        gamma = weight * problem.radius
        a = 2.0 * gamma * _comparator(problem, gamma, 1e-4)[2]
        a = a + 1.0000001 * max(0.0, violation(a)) / spare * strict
        a *= 2.0 * float(a.sum() - a @ y) / float(a @ a)  # the best multiple
        best = max(best, losses.dual.unmoved([a]).value)
    return best


@_regret.register
def _(problem: LEGOProblem, solution: Solution, *, tol: float = 1e-6, **options: object) -> RegretCertificate:
    if options:
        raise TypeError(f"regret of LEGO takes no options, got {', '.join(sorted(options))}.")
    stream = LEGOStream(problem.X.shape[1], problem.learning_rate, problem.prior)
    stream.partial_fit(problem.X, problem.pairs, problem.targets, problem.sides)
    own = _of_whole_stream(solution, len(problem.pairs), stream.cumulative_loss, "LEGO")
    rates = [problem.with_weights(learning_rate=problem.learning_rate * more) for more in RATES]
    found = [np.asarray(solve(LEGOBatchProblem(at), tol=tol).components, dtype=np.float64) for at in rates]
    return replace(
        own,
        lower_bound=max([solution.lower_bound, *(problem.certify(L).lower_bound for L in found)]),
        regret_bound=min(problem.allowance(stream.reach, L) for L in (found[0], stream.components)),
    )
