"""MMC as a CVXPY program."""

from __future__ import annotations

import numpy as np

from sdpmetric.core.registry import formulation
from sdpmetric.linalg import psd
from sdpmetric.programs.exact_program import ExactProgram, Point
from sdpmetric.relatives.mmc import MMCProblem
from sdpmetric.sums.program import state


@formulation(MMCProblem)
def state_mmc(problem: MMCProblem, *, scaled: bool = False) -> ExactProgram:
    """MMC as section 2.3.1 of Weinberger and Saul (2009) prints it: its constraint is named ``budget``."""
    stated = state(problem.budgeted, scaled=scaled)

    def read() -> Point:
        point = stated.read()
        a = np.asarray(point.dual)
        return Point(
            problem.best_scale(psd.factor(point.metric)) ** 2 * point.metric,
            problem.state_dual(problem.budgeted.total.split(a)[:1]),
        )

    return ExactProgram(stated.program, read)
