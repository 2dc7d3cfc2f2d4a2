"""Algorithm 1 of Weinberger and Saul (2009) with Polyak's step."""

from __future__ import annotations

import sdpmetric as sm
from sdpmetric.core.steps import Callback


def solve(
    problem: sm.LMNNProblem, tol: float, max_time: float | None, callback: Callback | None, **options: object
) -> sm.Solution:
    """Solve to a proven relative gap."""
    return sm.solve(problem, solver="subgradient", tol=tol, max_time=max_time, callback=callback, **options)
