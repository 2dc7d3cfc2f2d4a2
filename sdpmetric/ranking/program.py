"""The exact program of FRML's relaxation."""

from __future__ import annotations

from sdpmetric.core.registry import formulation
from sdpmetric.lmnn.program import state
from sdpmetric.programs.exact_program import ExactProgram
from sdpmetric.ranking.frml import FRMLProblem


@formulation(FRMLProblem, exact=False)
def state_relaxation(problem: FRMLProblem) -> ExactProgram:
    """The program of FRML's relaxation, for the AUC loss."""
    return state(problem.relaxation)
