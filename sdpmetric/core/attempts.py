"""The solvers that "auto" tries one after another, each from what those before it reached."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from sdpmetric.core.problem import Problem
from sdpmetric.core.registry import Solver
from sdpmetric.core.steps import Budget, Step


class Attempts:
    """Steps of the first solver, and of the next one where a solver ends before the gap is closed.

    Whoever takes the steps stops once the tolerance is proven. A later solver starts from the best components and
    multipliers so far, where it has options for them (``init``, ``multipliers``).

    Attributes
    ----------
    solver : Solver
        Whose steps these are.
    """

    def __init__(
        self, problem: Problem, solvers: Sequence[Solver], budget: Budget, tol: float, options: Mapping[str, object]
    ) -> None:
        self.problem, self.solvers, self.budget, self.tol, self.options = problem, solvers, budget, tol, options
        self.solver = solvers[0]
        self.best: Step | None = None
        self.tightest: Step | None = None
        self.last: Step | None = None

    def __iter__(self) -> Iterator[Step]:
        for solver in self.solvers:
            self.solver = solver
            if self._is_settled():
                return
            options = {name: value for name, value in self.options.items() if name in solver.options}
            try:
                for step in solver.steps(self.problem, self.budget, self.tol, **options | self._start()):
                    yield self._note(step)
            except (ArithmeticError, np.linalg.LinAlgError):
                if solver is self.solvers[-1] and (self.best is None or self.best.certificate is None):
                    raise

    def _is_settled(self) -> bool:
        """Whether what is proven, for example a contradiction, leaves nothing to another solver."""
        certificate = None if self.last is None else self.last.certificate
        return certificate is not None and certificate.settles(self.tol)

    def _note(self, step: Step) -> Step:
        """Remember the step; a later solver that fails says nothing about the answer of an earlier one."""
        if self.solver is not self.solvers[0] and self.best is not None and step.status is not None:
            step = replace(step, status=None)
        self.last = step
        if self.best is None or step.objective <= self.best.objective:
            self.best = step
        if step.multipliers is not None and (self.tightest is None or step.lower_bound > self.tightest.lower_bound):
            self.tightest = step
        return step

    def _start(self) -> dict[str, object]:
        start: dict[str, object] = {}
        if self.best is not None and self.best.components.any() and "init" in self.solver.options:
            start["init"] = self.best.components
        if self.tightest is not None and self.tightest.multipliers is not None and "multipliers" in self.solver.options:
            start["multipliers"] = self.tightest.multipliers()
        return start
