"""Problems whose optimum has a closed form: one step, judged like any other."""

from __future__ import annotations

from collections.abc import Iterator

from sdpmetric.core.run import Budget, Step
from sdpmetric.problems.rca import RCAProblem


def steps(problem: RCAProblem, budget: Budget, tol: float) -> Iterator[Step]:
    """Yield the optimum.

    Parameters
    ----------
    problem : RCAProblem
    budget : Budget
    tol : float
        Not used.

    Yields
    ------
    Step
        The one point, with the problem's certificate.
    """
    budget.spend()
    components = problem.solve()
    certificate = problem.certify(components)
    yield Step(components, certificate.objective, certificate.lower_bound, certificate=certificate)
