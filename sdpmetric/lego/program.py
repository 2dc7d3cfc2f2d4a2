"""The comparator of a LEGO stream as a CVXPY program."""

from __future__ import annotations

from sdpmetric.core.registry import formulation
from sdpmetric.lego.batch import LEGOBatchProblem
from sdpmetric.lego.problem import LEGOProblem
from sdpmetric.programs.exact_program import ExactProgram
from sdpmetric.sums.program import state


@formulation(LEGOProblem, exact=False)
def state_comparator(problem: LEGOProblem) -> ExactProgram:
    """The program of the comparator of a stream, `LEGOBatchProblem`."""
    return state(LEGOBatchProblem(problem))
