"""Problems whose optimum has a closed form: one step, certified like any other."""

from __future__ import annotations

from collections.abc import Iterator

from sdpmetric.core.registry import solver
from sdpmetric.core.run import Budget, Step
from sdpmetric.problems.lfda import Embedding, LFDAProblem
from sdpmetric.problems.rca import RCAProblem


@solver(RCAProblem, "closed", tol=1e-6, rank=1)
def steps(problem: RCAProblem, budget: Budget, tol: float) -> Iterator[Step]:
    """Yield the optimum."""
    budget.spend()
    yield Step.certified(problem, problem.closed_form())


@solver(LFDAProblem, "closed", tol=1e-6, rank=1)
def lfda_steps(
    problem: LFDAProblem, budget: Budget, tol: float, *, embedding: Embedding = "weighted"
) -> Iterator[Step]:
    """Yield the leading eigenvectors."""
    budget.spend()
    yield Step.certified(problem, problem.closed_form(embedding))
