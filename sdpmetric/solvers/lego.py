"""LEGO, or ITML's online version, over a given stream, once, with the certificate of what it lost so far."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sdpmetric.core.certificate import Certificate
from sdpmetric.core.run import Budget, BudgetSpent, Step
from sdpmetric.problems.lego import LEGOProblem
from sdpmetric.streams.itml import ITMLStream
from sdpmetric.streams.lego import LEGOStream

# How many times a run is judged on its way.
JUDGED = 8


def steps(problem: LEGOProblem, budget: Budget, tol: float) -> Iterator[Step]:
    """Take the pairs in their order by LEGO, and judge the run now and then.

    Parameters
    ----------
    problem : LEGOProblem
    budget : Budget
        A pair is an iteration.
    tol : float
        Not used: a stream ends where it ends.

    Yields
    ------
    Step
        Each with the certificate of the stream up to there.
    """
    d, rate, first = problem.X.shape[1], problem.learning_rate, problem.initial_metric
    return _over(problem, budget, LEGOStream(d, rate, first))


def itml_steps(problem: LEGOProblem, budget: Budget, tol: float) -> Iterator[Step]:
    """The same by `ITMLStream`, of which no theorem is known here: its certificates have no bound on the regret.

    Parameters
    ----------
    problem, budget, tol
        As in `steps`.
    """
    d, rate, first = problem.X.shape[1], problem.learning_rate, problem.initial_metric
    for step in _over(problem, budget, ITMLStream(d, rate, first)):
        assert step.certificate is not None
        yield replace(step, certificate=replace(step.certificate, regret_bound=None, program="ITML online"))


def _over(problem: LEGOProblem, budget: Budget, stream: LEGOStream | ITMLStream) -> Iterator[Step]:
    nothing = Certificate(0.0, 0.0, kind="regret", program="LEGO", regret_bound=0.0)
    yield Step(stream.components, 0.0, 0.0, certificate=nothing)
    p, taken = len(problem.pairs), 0
    while taken < p:
        left = budget.max_iter - budget.spent
        size = int(min(max(1, -(-p // JUDGED)), p - taken, max(left, 0)))
        if not size or not budget.remaining:
            raise BudgetSpent
        part = slice(taken, taken + size)
        budget.spend(size)
        stream.partial_fit(problem.X, problem.pairs[part], problem.targets[part], problem.sides[part])
        taken += size
        certificate = problem.head(taken).judge_stream(stream.cumulative_loss, stream.reach, stream.components)
        yield Step(
            stream.components,
            certificate.objective,
            certificate.lower_bound,
            certificate=certificate,
            n_active=stream.n_updates,
        )
