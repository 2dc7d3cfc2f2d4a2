"""LEGO's comparator as a CVXPY program: what its theorem compares it with."""

from __future__ import annotations

from sdpmetric.core.registry import formulation
from sdpmetric.formulations import terms
from sdpmetric.formulations.exact_program import ExactProgram
from sdpmetric.problems.lego import LEGOProblem
from sdpmetric.problems.lego_batch import LEGOBatchProblem


@formulation(LEGOProblem, exact=False)
def state_comparator(problem: LEGOProblem) -> ExactProgram:
    """The program of the comparator of a stream, `LEGOBatchProblem`."""
    return terms.state(LEGOBatchProblem(problem))
