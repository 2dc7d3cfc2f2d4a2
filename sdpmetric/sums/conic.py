"""The exact layer for statements of moderate size: the program as its paper prints it, solved and certified."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sdpmetric.core.certificate import DualityCertificate, InfeasibilityCertificate
from sdpmetric.core.problem import Problem
from sdpmetric.core.registry import has_exact_program, solver
from sdpmetric.core.run import Budget, Step
from sdpmetric.core.status import Status
from sdpmetric.lazy import cvxpy as cp
from sdpmetric.linalg import psd
from sdpmetric.programs.backend import Backend, BackendOptions
from sdpmetric.programs.exact_program import formulate
from sdpmetric.sums import descent as terms
from sdpmetric.sums.problem import MetricProblem

# Of a sum, entries of the metric times multipliers that Clarabel takes seconds for: 5 for 210 entries and 480 triplets.
FEW_ENTRIES = 100_000


def turn(problem: Problem) -> int:
    """The last of a small sum of terms; of other statements only by name."""
    if not isinstance(problem, MetricProblem):
        return 0
    d = len(problem.domain.basis)
    return 9 if d * (d + 1) // 2 * problem.total.n_multipliers <= FEW_ENTRIES else 0


@solver(has_exact_program, "conic", tol=1e-6, rank=turn)
def steps(
    problem: Problem,
    budget: Budget,
    tol: float,
    *,
    backend: str = "CLARABEL",
    backend_options: BackendOptions | None = None,
) -> Iterator[Step]:
    """Solve the exact program of a statement as a whole.

    Where the backend's answers do not prove the tolerance, a sum of losses without kinks goes on by descent in a factor
    from the best of them.
    """
    chosen = Backend.of(backend, backend_options)
    exact = formulate(problem, scaled=True)
    programs, answered = [exact] if exact.infeasibility is None else [exact, exact.infeasibility], list[Step]()
    for settings in chosen.settings:
        budget.spend()
        for here in programs:
            if chosen.run(here.program, budget, settings) not in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE, cp.USER_LIMIT):
                continue
            point = here.read()
            step = Step.certified(problem, psd.factor(point.metric), point.dual)
            answered.append(step)
            yield step
            if isinstance(step.certificate, InfeasibilityCertificate):
                return
            if step.certificate is not None and not step.certificate.settles(tol):
                yield Step.certified(problem, step.components)  # slopes there may be closer than the multipliers
            if isinstance(step.certificate, DualityCertificate) and step.certificate.resolution:
                yield Step.certified(problem, problem.zero, point.dual)  # perhaps it attains the 0
            if np.isfinite(step.objective):
                break  # a feasible point is found
    if not answered:
        yield Step(problem.zero, status=Status.SOLVER_ERROR)
    elif isinstance(problem, MetricProblem) and not problem.total.kinked:
        best = min(answered, key=lambda step: step.objective)
        if best.components.any():
            yield from terms.steps(problem, budget, tol, init=best.components)
