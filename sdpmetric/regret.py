"""What a stream's theorem says: its cumulative loss beside the exact optimum that the theorem compares it with."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import singledispatch

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from sdpmetric.core.certificate import RegretCertificate, relative_gap
from sdpmetric.core.problem import Problem
from sdpmetric.core.solution import Solution
from sdpmetric.core.status import Status
from sdpmetric.formulations import named
from sdpmetric.formulations.pola import contradiction_program
from sdpmetric.linalg import psd
from sdpmetric.problems import contradiction, rays
from sdpmetric.problems.lego import LEGOProblem
from sdpmetric.problems.lego_batch import LEGOBatchProblem
from sdpmetric.problems.pola import POLAProblem
from sdpmetric.solve import solve
from sdpmetric.streams.lego import LEGOStream

FloatArray = NDArray[np.float64]

# The stream is run again, and must lose what the solution says to this share.
REPEATS = 1e-6
# Weights of the squared norm beside the squared hinges, relative to the radius, that the least loss is bounded with.
WEIGHTS = (1e-2, 1e-4, 1e-6)
# Larger learning rates, whose comparators lose less: their misses prove the least loss of LEGO's stream.
RATES = (1.0, 1e2, 1e4, 1e6)
# Visits of L-BFGS-B, each started where the one before stopped.
VISITS = 20


def regret(problem: Problem, solution: Solution, *, tol: float = 1e-6, **options: object) -> RegretCertificate:
    """Set a stream's cumulative loss beside what its theorem allows, the comparator from the exact optimum.

    Parameters
    ----------
    problem : POLAProblem or LEGOProblem
        Whose pairs were the stream.
    solution : Solution
        Of ``solve(problem, solver="online")``, which has taken them all.
    tol : float, default 1e-6
        Relative gap to which the comparator's convex program is solved.
    **options
        Those that the solver was given. For POLA: ``gamma=``.

    Returns
    -------
    RegretCertificate
        The solution's, with `regret_bound`, which holds for any stream of these pairs, and a `lower_bound` of the loss
        of every fixed metric on it, as tight as the program was solved. POLA without `gamma` has a bound only where
        some metric keeps all margins and the solver finds one; `regret_bound` is None otherwise.

    Raises
    ------
    TypeError
        If problems of this kind are no streams, or the solution is none.
    ValueError
        If the solution is not that of the whole stream with these options.
    """
    if not isinstance(solution, Solution):
        raise TypeError(f"solution must be what solve gave for this stream, got {type(solution).__name__}.")
    return _regret(problem, solution, tol=tol, **options)


@singledispatch
def _regret(problem: Problem, solution: Solution, *, tol: float = 1e-6, **options: object) -> RegretCertificate:
    raise TypeError(
        f"there is no theorem on the regret of {type(problem).__name__}; pass the problem of a stream, solved by "
        'solver="online".'
    )


@_regret.register
def _(
    problem: POLAProblem, solution: Solution, *, tol: float = 1e-6, gamma: float | None = None, **options: object
) -> RegretCertificate:
    if options:
        raise TypeError(f"regret of POLA does not take {', '.join(sorted(options))}; its option is gamma.")
    again, own = solve(problem, solver="online", gamma=gamma), solution.certificate
    if (
        not isinstance(own, RegretCertificate)
        or solution.n_iter != len(problem.pairs)
        or abs(again.objective - solution.objective) > REPEATS * max(1.0, again.objective)
    ):
        raise ValueError(
            f"the solution lost {solution.objective:.8g} where online POLA with gamma={gamma!r} loses "
            f"{again.objective:.8g} on these pairs; pass the solution of a whole stream, and the gamma it was given."
        )
    certificate = replace(own, lower_bound=max(again.lower_bound, least_loss(problem)))
    if gamma is not None:
        objective, _ = comparator(problem, gamma, tol)
        return replace(certificate, regret_bound=2.0 * (problem.radius + gamma) * objective)
    hard = POLAProblem(problem.X, problem.pairs, problem.similar, None, problem.initial_threshold)
    optimum = solve(hard, tol=tol)
    if optimum.status is Status.INFEASIBLE or not math.isfinite(optimum.objective):
        return certificate
    return replace(certificate, regret_bound=problem.update_bound(optimum.objective))


def comparator(problem: POLAProblem, gamma: float, tol: float = 1e-6) -> tuple[float, float]:
    """The comparator of inseparable online POLA, by its dual.

    Minimizes ``1/2 ||A||^2 + 1/2 (b - b_1)^2 + 1 / (2 gamma) sum_t [1 - y_t (b - v_t^T A v_t)]_+^2`` over PSD metrics
    and ``b >= 1``. Every ``a >= 0`` proves the dual value of the hard margin less ``gamma / 2 ||a||^2``.

    Parameters
    ----------
    problem : POLAProblem
    gamma : float
        Positive.
    tol : float, default 1e-6
        Relative gap.

    Returns
    -------
    objective, lower_bound : float
        The optimum lies between the two; `objective` is that of a feasible point.
    """
    objective, lower_bound, _ = _comparator(problem, gamma, tol)
    return objective, lower_bound


def _comparator(problem: POLAProblem, gamma: float, tol: float) -> tuple[float, float, FloatArray]:
    V, y, start = problem.differences, problem.signs, problem.initial_threshold
    # Curvature along each multiplier is at most 1 in these units.
    unit = 1.0 / np.sqrt(np.sum(V**2, axis=1) ** 2 + 1.0 + gamma)
    best, bound = math.inf, -math.inf

    def negative(scaled: FloatArray) -> tuple[float, FloatArray]:
        nonlocal best, bound
        a = unit * scaled
        point = problem.dual_point(a)
        q = np.sum((V @ point.components.T) ** 2, axis=1)
        rest = 1.0 - y * (point.threshold - q)
        value = point.value - 0.5 * gamma * float(a @ a)
        size = 0.5 * rays.squared_norm(point.components) + 0.5 * (point.threshold - start) ** 2
        best = min(best, size + 0.5 / gamma * float(np.sum(np.maximum(rest, 0.0) ** 2)))
        bound = max(bound, value)
        return -value, -unit * (rest - gamma * a)

    x = np.zeros(len(V))
    for _ in range(VISITS):
        x = minimize(
            negative,
            x,
            jac=True,
            method="L-BFGS-B",
            bounds=[(0.0, None)] * len(x),
            options={"maxiter": 500, "maxfun": 700, "maxcor": 30, "ftol": 1e-15, "gtol": 1e-12},
        ).x
        if relative_gap(best, bound) <= tol:
            break
    return best, bound, unit * x


def least_loss(problem: POLAProblem) -> float:
    """A lower bound on the sum of squared hinges of every fixed metric and threshold, by weak duality.

    Multipliers ``a >= 0`` prove ``sum_t (a_t - a_t^2 / 4) - sum_t a_t y_t`` if ``sum_t a_t y_t v_t v_t^T`` is PSD and
    ``sum_t a_t y_t <= 0``. Those of `comparator` for a small weight of the norm nearly are; what they lack is made up
    for by multipliers that strictly contradict each other. Without such the bound is 0.
    """
    doubt = contradiction_program(problem)
    doubt.solve(solver=cp.CLARABEL)
    found = named(doubt)["a"].value
    if found is None:
        return 0.0
    strict = np.maximum(np.asarray(found, dtype=np.float64), 0.0)
    V, y = problem.differences, problem.signs
    U, sigma, _ = np.linalg.svd(V, full_matrices=False)
    U = np.sqrt(len(V)) * U[:, sigma > psd.RANK_TOLERANCE * sigma.max(initial=0.0)]

    def lacking(a: FloatArray) -> float:
        """How much of the identity, and of 1, is lacking for a proof; negative: there is so much to spare."""
        return max(psd.largest_eigenvalue(-(U * (a * y)[:, None]).T @ U), float(a @ y))

    spare = -lacking(strict)
    if spare <= 1e-9 * float(strict.sum()):
        return 0.0
    best = 0.0
    for weight in WEIGHTS:
        gamma = weight * problem.radius
        a = 2.0 * gamma * _comparator(problem, gamma, 1e-4)[2]
        a = a + 1.0000001 * max(0.0, lacking(a)) / spare * strict
        a[a <= contradiction.NEGLIGIBLE * a.max(initial=0.0)] = 0.0
        linear, square = float(a.sum() - a @ y), 0.25 * float(a @ a)
        if square > 0.0 and contradiction.contradicts(V, y, a):  # any multiple of a proof is one
            best = max(best, linear**2 / (4.0 * square))
    return best


@_regret.register
def _(problem: LEGOProblem, solution: Solution, *, tol: float = 1e-6, **options: object) -> RegretCertificate:
    if options:
        raise TypeError(f"regret of LEGO takes no options, got {', '.join(sorted(options))}.")
    stream = LEGOStream(problem.X.shape[1], problem.learning_rate, problem.initial_metric)
    stream.partial_fit(problem.X, problem.pairs, problem.targets, problem.sides)
    own = solution.certificate
    if (
        not isinstance(own, RegretCertificate)
        or solution.n_iter != len(problem.pairs)
        or abs(stream.cumulative_loss - solution.objective) > REPEATS * max(1.0, stream.cumulative_loss)
    ):
        raise ValueError(
            f"the solution lost {solution.objective:.8g} where LEGO loses {stream.cumulative_loss:.8g} on these pairs; "
            "pass the solution of this problem's whole stream."
        )
    rates = [problem.with_weights(learning_rate=problem.learning_rate * more) for more in RATES]
    found = [np.asarray(solve(LEGOBatchProblem(at), tol=tol).components, dtype=np.float64) for at in rates]
    return replace(
        own,
        lower_bound=max([solution.lower_bound, *(problem.certify(L).lower_bound for L in found)]),
        regret_bound=min(problem.allowance(stream.reach, L) for L in (found[0], stream.components)),
    )
