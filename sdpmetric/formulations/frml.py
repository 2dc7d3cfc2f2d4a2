"""The exact program of FRML's relaxation."""

from __future__ import annotations

from sdpmetric.core.registry import formulation
from sdpmetric.formulations.exact_program import ExactProgram
from sdpmetric.formulations.lmnn import state
from sdpmetric.problems.frml import FRMLProblem


@formulation(FRMLProblem, exact=False)
def state_relaxation(problem: FRMLProblem) -> ExactProgram:
    """The program of FRML's relaxation, for the AUC loss."""
    return state(problem.relaxation)
