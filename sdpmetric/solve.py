"""Solve, certify, verify, compare: the verbs of the package, and the registry of solvers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from rich.console import Console
from rich.table import Table

from sdpmetric.certificate import Certificate
from sdpmetric.printer import Printer
from sdpmetric.problems.lmnn import LMNNProblem
from sdpmetric.solution import Dual, Solution
from sdpmetric.solvers import base, subgradient

Callback = base.Callback


@dataclass(frozen=True)
class Solver:
    """An entry of the registry.

    Attributes
    ----------
    steps : callable
        ``steps(problem, budget, tol, **options)`` yields `sdpmetric.solvers.base.Step`.
    tol : float
        Relative gap to prove where the user names none.
    options : frozenset of str
        Names of the options it takes.
    """

    steps: Callable[..., Iterator[base.Step]]
    tol: float
    options: frozenset[str]


SOLVERS: dict[str, Solver] = {
    "subgradient": Solver(subgradient.steps, 1e-3, frozenset({"step", "start", "check_every"})),
}


def solve(
    problem: LMNNProblem,
    solver: str = "auto",
    *,
    tol: float | None = None,
    max_iter: int | None = None,
    max_time: float | None = None,
    callback: Callback | None = None,
    verbose: bool = False,
    random_state: int | None = None,
    **options: object,
) -> Solution:
    raise NotImplementedError


def certify(
    problem: LMNNProblem,
    components: ArrayLike | None = None,
    *,
    metric: ArrayLike | None = None,
    dual: Dual | None = None,
) -> Certificate:
    """Judge any point of a problem; see `LMNNProblem.certify`."""
    return problem.certify(components, metric=metric, dual=dual)
