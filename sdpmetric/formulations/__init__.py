"""Statements as CVXPY programs, the papers' equations beside each line."""

from __future__ import annotations

import cvxpy as cp

from sdpmetric.formulations import itml, lego, mcml, mmc, rca
from sdpmetric.formulations.exact_program import named
from sdpmetric.formulations.frobenius import frobenius_program
from sdpmetric.formulations.lmnn import lmnn_program
from sdpmetric.formulations.multi_lmnn import multi_lmnn_program
from sdpmetric.formulations.pola import pola_program
from sdpmetric.problems.frobenius import FrobeniusLMNNProblem
from sdpmetric.problems.itml import ITMLProblem
from sdpmetric.problems.lego import LEGOProblem
from sdpmetric.problems.lego_batch import LEGOBatchProblem
from sdpmetric.problems.lmnn import LMNNProblem
from sdpmetric.problems.mcml import MCMLProblem
from sdpmetric.problems.mmc import MMCProblem
from sdpmetric.problems.multi_lmnn import MultiMetricLMNNProblem
from sdpmetric.problems.pola import POLAProblem
from sdpmetric.problems.rca import RCAProblem
from sdpmetric.triplets.triplets import Triplets

__all__ = ["named", "to_cvxpy"]


Statement = (
    LMNNProblem
    | FrobeniusLMNNProblem
    | MultiMetricLMNNProblem
    | POLAProblem
    | MMCProblem
    | MCMLProblem
    | ITMLProblem
    | LEGOProblem
    | LEGOBatchProblem
    | RCAProblem
)


def to_cvxpy(problem: Statement, triplets: Triplets | None = None, *, parametric: bool = False) -> cp.Problem:
    """State a problem as the CVXPY program that its paper prints, with named variables, unsolved.

    In the data's own coordinates. For LMNN the variables are named ``M``, (d, d), and ``xi``, one slack per triplet;
    the constraints are labelled ``margins``, ``slacks`` and ``cone``. Find them again with
    `sdpmetric.formulations.named`. The dual values of ``margins`` are the multipliers a_t, that of ``cone`` is the
    slack matrix ``C - sum a_t B_t``. Several metrics are named ``M0``, ``M1`` and so on, and their cones
    ``cone_M0``. For POLA the variables are ``A``, ``b`` and, for the soft margin, ``xi``; the
    constraints ``margins``, ``slacks``, ``cone`` and ``floor``. The modules ``mmc``, ``mcml``,
    ``itml`` and ``lego`` of `sdpmetric.formulations` say how theirs are named.

    Parameters
    ----------
    problem : LMNNProblem, MultiMetricLMNNProblem, POLAProblem, MMCProblem, MCMLProblem, ITMLProblem or
        LEGOProblem
    triplets : Triplets, optional
        Only these triplets of LMNN; default: all. The optimum of fewer triplets is a lower bound of the full one.
    parametric : bool, default False
        Make the weights of LMNN parameters named ``push_weight`` and ``ridge``, set to the problem's: set another
        value (``program.param_dict["push_weight"].value = 0.3``, which `LMNNProblem.with_weights` says as a problem)
        and solve again, without compiling again. The program follows the rules of disciplined parametrized programming.

    Returns
    -------
    program : cvxpy.Problem
        Add constraints of your own by ``cvxpy.Problem(program.objective, program.constraints + [...])`` and pass the
        result as ``solve(problem, solver="conic", program=...)``.

    Raises
    ------
    ValueError
        If there are more triplets than a solver could hold, a triplet is named twice, or one does not belong to the
        problem.
    """
    if isinstance(problem, LMNNProblem):
        return lmnn_program(problem, triplets, parametric)
    if parametric:
        raise ValueError("parametric=True is for LMNN only; state the other programs anew for each weight.")
    if isinstance(problem, FrobeniusLMNNProblem):
        return frobenius_program(problem, triplets)
    if isinstance(problem, MultiMetricLMNNProblem):
        return multi_lmnn_program(problem, triplets)
    if isinstance(problem, POLAProblem):
        if triplets is not None:
            raise ValueError("triplets= is for LMNN only; POLA's program states all its pairs.")
        return pola_program(problem)
    if triplets is not None:
        raise ValueError("triplets= is for LMNN only; this program states all its pairs.")
    if isinstance(problem, MMCProblem):
        return mmc.state(problem).program
    if isinstance(problem, LEGOProblem | LEGOBatchProblem):
        return lego.state(LEGOBatchProblem(problem) if isinstance(problem, LEGOProblem) else problem).program
    if isinstance(problem, RCAProblem):
        return rca.state(problem).program
    return (mcml.state(problem) if isinstance(problem, MCMLProblem) else itml.state(problem)).program
