"""The solvers that "auto" tries one after another, each from what those before it reached."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from sdpmetric.core.registry import Solver
from sdpmetric.core.run import Run
from sdpmetric.core.steps import Step


class Attempts:
    """Steps of the first solver for a run, and of the next one where a solver ends before the gap is closed.

    The run stops once the tolerance is proven. A later solver starts from the best components and multipliers that the
    run has, where it has options for them (``init``, ``multipliers``).

    Attributes
    ----------
    solver : Solver
        Whose steps these are.
    """

    def __init__(self, run: Run, solvers: Sequence[Solver], options: Mapping[str, object]) -> None:
        self.run, self.solvers, self.options = run, solvers, options
        self.solver = solvers[0]

    def __iter__(self) -> Iterator[Step]:
        step: Step | None = None
        for solver in self.solvers:
            self.solver = solver
            if step is not None and step.certificate is not None and step.certificate.settles(self.run.tol):
                return  # what is proven, for example a contradiction, leaves nothing to another solver
            try:
                for step in self._steps():
                    yield step
            except (ArithmeticError, np.linalg.LinAlgError):
                if self.solver is self.solvers[-1] and (self.run.best is None or self.run.best.certificate is None):
                    raise

    def _steps(self) -> Iterator[Step]:
        """Steps of the present solver; a later one that fails says nothing about the answer of an earlier one."""
        run, solver = self.run, self.solver
        options = {name: value for name, value in self.options.items() if name in solver.options}
        if run.best is not None and run.best.components.any() and "init" in solver.options:
            options["init"] = run.best.components
        if run.tightest is not None and run.tightest.multipliers is not None and "multipliers" in solver.options:
            options["multipliers"] = run.tightest.multipliers()
        is_later = run.best is not None and solver is not self.solvers[0]
        for step in solver.steps(run.problem, run.budget, run.tol, **options):
            yield replace(step, status=None) if is_later and step.status is not None else step
