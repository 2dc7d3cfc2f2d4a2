"""Regret of a stream: its cumulative loss, the optimum that the theorem compares it with, and the bound."""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatch

import numpy as np

from sdpmetric.arrays import allow_underflow
from sdpmetric.core import validation
from sdpmetric.core.certificate import RegretCertificate
from sdpmetric.core.problem import Problem
from sdpmetric.core.run import solve
from sdpmetric.core.solution import Solution
from sdpmetric.core.steps import Budget
from sdpmetric.lego.problem import LEGOBatchProblem, LEGOProblem
from sdpmetric.lego.stream import LEGOStream
from sdpmetric.pola.problem import POLAProblem
from sdpmetric.pola.program import least_loss, regret_bound

# Factors of LEGO's learning rate: comparators of larger rates have smaller losses, which bound the smallest loss.
RATES = (1.0, 1e2, 1e4, 1e6)


@allow_underflow
def regret(
    problem: Problem, solution: Solution, *, tol: float = 1e-6, max_time: float | None = None, **options: object
) -> RegretCertificate:
    """Compare a stream's cumulative loss with the exact comparator and the bound of its theorem.

    Parameters
    ----------
    problem : POLAProblem or LEGOProblem
        Its pairs are the stream.
    solution : Solution
        Of ``solve(problem, solver="online")`` for all pairs.
    tol : float, default 1e-6
        Relative gap of the solution of the comparator's convex program.
    max_time : float, optional
        Limit in seconds for the programs; default: no limit. The bounds proven by then are returned.
    **options
        The options of that solve. For POLA: ``gamma=``.

    Returns
    -------
    RegretCertificate
        The solution's, with two bounds. `regret_bound` holds for any stream of these pairs. No fixed metric loses less
        than `lower_bound` on the stream; a smaller `tol` makes it tighter. POLA without `gamma` has a
        `regret_bound` only if some metric satisfies all margins and the solver finds one; otherwise it is None.

    Raises
    ------
    TypeError
        If the problem is not a stream, or `solution` is not a Solution.
    ValueError
        If the solution is not that of the whole stream with these options.

    Examples
    --------
    >>> import numpy as np
    >>> import sdpmetric as sm
    >>> X, y = sm.datasets.load("iris")
    >>> pairs, similar = sm.constraints.pairs(y, 30)
    >>> stream = sm.LEGOProblem(X, pairs, np.where(similar, 1.0, 9.0), learning_rate=0.1)
    >>> certificate = sm.regret(stream, sm.solve(stream))
    >>> certificate.lower_bound <= certificate.objective <= certificate.regret_bound
    True
    """
    if not isinstance(solution, Solution):
        raise TypeError(f"solution must be the Solution of this stream, got {type(solution).__name__}.")
    return _regret(problem, solution, tol, Budget(max_time), **options)


@singledispatch
def _regret(problem: Problem, solution: Solution, tol: float, budget: Budget, **options: object) -> RegretCertificate:
    raise TypeError(
        f"no regret bound is known for {type(problem).__name__}; pass a POLAProblem or a LEGOProblem and its solution "
        'by solver="online".'
    )


def _of_whole_stream(solution: Solution, n_items: int, loss: float, learner: str) -> RegretCertificate:
    """Return the certificate of a solution that a rerun of the stream, with this loss, reproduces."""
    certificate = solution.certificate
    if (
        not isinstance(certificate, RegretCertificate)
        or solution.n_iter != n_items
        or abs(loss - solution.objective) > 1e-6 * max(1.0, loss)
    ):
        raise ValueError(
            f"solution has the cumulative loss {solution.objective:.8g}, but online {learner} has {loss:.8g} on these "
            "pairs; pass the solution of the whole stream, and the options of that solve."
        )
    return certificate


@_regret.register
def _(
    problem: POLAProblem,
    solution: Solution,
    tol: float,
    budget: Budget,
    *,
    gamma: float | None = None,
    **options: object,
) -> RegretCertificate:
    validation.check_known("regret of POLA", options, ("gamma",))
    rerun = solve(problem, solver="online", gamma=gamma)
    certificate = _of_whole_stream(solution, len(problem.pairs), rerun.objective, f"POLA with gamma={gamma!r}")
    bound = regret_bound(problem, gamma, budget, tol)
    return replace(certificate, regret_bound=bound, lower_bound=max(rerun.lower_bound, least_loss(problem, budget)))


@_regret.register
def _(problem: LEGOProblem, solution: Solution, tol: float, budget: Budget, **options: object) -> RegretCertificate:
    validation.check_known("regret of LEGO", options, ())
    stream = LEGOStream(problem.X.shape[1], problem.learning_rate, problem.prior)
    stream.partial_fit(problem.X, problem.pairs, problem.targets, problem.sides)
    certificate = _of_whole_stream(solution, len(problem.pairs), stream.cumulative_loss, "LEGO")
    comparators, smallest_loss = [stream.components], solution.lower_bound
    for rate in RATES:
        if not budget.remaining:
            break
        batch = LEGOBatchProblem(problem.with_weights(learning_rate=problem.learning_rate * rate))
        optimum = solve(batch, tol=tol, max_time=budget.remaining)
        comparators.append(np.asarray(optimum.components, dtype=np.float64))
        smallest_loss = max(smallest_loss, problem.certify(comparators[-1]).lower_bound)
    bound = min(problem.allowance(stream.reach, L) for L in comparators[:2])
    return replace(certificate, lower_bound=smallest_loss, regret_bound=bound)
