"""The registry: for each kind of problem its solvers, by name. One entry and one file add a solver."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from sdpmetric.core import run as base
from sdpmetric.core.certificate import Kind
from sdpmetric.core.solution import Problem
from sdpmetric.formulations import itml, mcml, mmc, rca
from sdpmetric.formulations import lego as lego_program
from sdpmetric.formulations import pola as pola_program
from sdpmetric.problems.frml import FRMLProblem
from sdpmetric.problems.frobenius import FrobeniusLMNNProblem
from sdpmetric.problems.itml import ITMLProblem
from sdpmetric.problems.kernel import KernelLMNNProblem
from sdpmetric.problems.lego import LEGOProblem
from sdpmetric.problems.lego_batch import LEGOBatchProblem
from sdpmetric.problems.lmnn import LMNNProblem
from sdpmetric.problems.mcml import MCMLProblem
from sdpmetric.problems.mmc import MMCProblem
from sdpmetric.problems.multi_lmnn import MultiMetricLMNNProblem
from sdpmetric.problems.nca import NCAProblem
from sdpmetric.problems.pola import POLAProblem
from sdpmetric.problems.rca import RCAProblem
from sdpmetric.solvers import bregman, closed, frml, frml_relaxed, lego, nca, nca_stochastic, pola
from sdpmetric.solvers import conic as exact
from sdpmetric.solvers import factored as smooth
from sdpmetric.solvers.lmnn import conic, factored, frobenius, frobenius_conic, subgradient
from sdpmetric.solvers.lmnn import several as multi_metric


@dataclass(frozen=True)
class Solver:
    """An entry of the registry.

    Attributes
    ----------
    steps : callable
        ``steps(problem, budget, tol, **options)`` yields `sdpmetric.core.run.Step`.
    tol : float
        Relative gap to prove where the user names none.
    options : frozenset of str
        Names of the options it takes.
    kind : {"duality", "relaxation", "regret", "stationarity"}
        What its certificates prove; see `sdpmetric.core.run.run`.
    """

    steps: Callable[..., Iterator[base.Step]]
    tol: float
    options: frozenset[str]
    kind: Kind = "duality"


BACKEND = frozenset({"backend", "backend_options"})

# For each kind of problem its solvers by name; the first one is "auto".
SOLVERS: dict[type, dict[str, Solver]] = {
    LMNNProblem: {
        "factored": Solver(factored.steps, 1e-3, frozenset({"start", "random_state"})),
        "subgradient": Solver(subgradient.steps, 1e-3, frozenset({"start", "step", "check_every"})),
        "conic": Solver(conic.steps, 1e-6, BACKEND | {"start", "program", "polish"}),
    },
    MultiMetricLMNNProblem: {
        "factored": Solver(multi_metric.factored_steps, 1e-3, frozenset({"start", "random_state"})),
        "subgradient": Solver(multi_metric.subgradient_steps, 1e-3, frozenset({"start"})),
        "conic": Solver(conic.several_steps, 1e-6, BACKEND | {"start"}),
    },
    FrobeniusLMNNProblem: {
        "dual": Solver(frobenius.steps, 1e-6, frozenset({"start"})),
        "conic": Solver(frobenius_conic.steps, 1e-6, BACKEND | {"start"}),
    },
    POLAProblem: {
        "dual": Solver(pola.steps, 1e-6, frozenset()),
        "conic": Solver(exact.steps_of(pola_program.state), 1e-6, BACKEND),
        "batch": Solver(pola.batch_steps, 1e-3, frozenset({"beta"})),
        "online": Solver(pola.online_steps, 1e-6, frozenset({"gamma"}), kind="regret"),
    },
    MMCProblem: {
        "factored": Solver(smooth.steps, 1e-6, frozenset()),
        "conic": Solver(exact.steps_of(partial(mmc.state, whitened=True)), 1e-6, BACKEND),
    },
    MCMLProblem: {
        "factored": Solver(smooth.steps, 1e-6, frozenset()),
        "conic": Solver(exact.steps_of(partial(mcml.state, whitened=True)), 1e-6, BACKEND),
    },
    ITMLProblem: {
        "factored": Solver(smooth.steps, 1e-6, frozenset()),
        "bregman": Solver(bregman.steps, 1e-3, frozenset()),
        "conic": Solver(exact.steps_of(partial(itml.state, balanced=True)), 1e-6, BACKEND),
    },
    LEGOProblem: {
        "online": Solver(lego.steps, 1e-6, frozenset(), kind="regret"),
        "itml": Solver(lego.itml_steps, 1e-6, frozenset(), kind="regret"),
    },
    LEGOBatchProblem: {
        "factored": Solver(smooth.steps, 1e-6, frozenset()),
        "conic": Solver(exact.steps_of(lego_program.state), 1e-6, BACKEND),
    },
    NCAProblem: {
        "lbfgs": Solver(
            nca.steps, 1e-5, frozenset({"start", "iterations", "accuracy", "on_iteration"}), "stationarity"
        ),
        "stochastic": Solver(
            nca_stochastic.steps, 1e-3, frozenset({"start", "candidates", "random_state"}), "stationarity"
        ),
    },
    FRMLProblem: {
        "riemannian": Solver(frml.steps, 1e-2, frml.OPTIONS, "stationarity"),
        "relaxed": Solver(frml_relaxed.steps, 1e-3, frozenset(), "relaxation"),
    },
    RCAProblem: {
        "closed": Solver(closed.steps, 1e-6, frozenset()),
        "conic": Solver(exact.steps_of(partial(rca.state, balanced=True)), 1e-6, BACKEND),
    },
}
SOLVERS[KernelLMNNProblem] = SOLVERS[LMNNProblem]  # LMNN on kernel PCA coordinates


def solvers_of(problem: Problem) -> dict[str, Solver]:
    """The solvers that accept a problem, by name; the first one is "auto".

    Parameters
    ----------
    problem : Problem

    Raises
    ------
    TypeError
        If nothing solves problems of this kind.
    """
    if type(problem) not in SOLVERS:
        kinds = ", ".join(kind.__name__ for kind in SOLVERS)
        raise TypeError(f"there is no solver for {type(problem).__name__}; problems are one of {kinds}.")
    return SOLVERS[type(problem)]
