"""The exact layer for statements of moderate size: the program as its paper prints it, solved and certified."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sdpmetric.core.certificate import DualityCertificate, InfeasibilityCertificate
from sdpmetric.core.problem import Problem
from sdpmetric.core.registry import has_exact_program, solver
from sdpmetric.core.status import Status
from sdpmetric.core.steps import Budget, Step
from sdpmetric.lazy import cvxpy as cp
from sdpmetric.linalg import psd
from sdpmetric.programs.backend import Backend, BackendOptions
from sdpmetric.programs.exact_program import formulate
from sdpmetric.sums.problem import MetricProblem


def turn(problem: Problem) -> int:
    """The last of a small sum of terms; of other statements only by name."""
    if not isinstance(problem, MetricProblem):
        return 0
    d = len(problem.domain.basis)
    # Of a sum, entries of the metric times multipliers that Clarabel takes seconds for: 5 for 210 entries and 480
    # triplets.
    return 9 if d * (d + 1) // 2 * problem.total.n_multipliers <= 100_000 else 0


@solver(has_exact_program, "conic", tol=1e-6, rank=turn)
def steps(
    problem: Problem,
    budget: Budget,
    tol: float,
    *,
    backend: str = "CLARABEL",
    backend_options: BackendOptions | None = None,
) -> Iterator[Step]:
    """Solve the exact program of a statement as a whole."""
    chosen = Backend.of(backend, backend_options)
    exact, has_answer = formulate(problem, scaled=True), False
    for settings in chosen.settings:
        budget.spend()
        for stated in (exact, exact.infeasibility):
            answers = (cp.OPTIMAL, cp.OPTIMAL_INACCURATE, cp.USER_LIMIT)
            if stated is None or chosen.run(stated.program, budget, settings) not in answers:
                continue
            point, has_answer = stated.read(), True
            step = Step.certified(problem, psd.factor(point.metric), point.dual)
            yield step
            if isinstance(step.certificate, InfeasibilityCertificate):
                return
            if step.certificate is not None and not step.certificate.settles(tol):
                yield Step.certified(problem, step.components)  # slopes there may be closer than the multipliers
            if isinstance(step.certificate, DualityCertificate) and step.certificate.resolution:
                yield Step.certified(problem, problem.zero, point.dual)  # perhaps it attains the 0
            if np.isfinite(step.objective):
                break  # a feasible point is found
    if not has_answer:
        yield Step(problem.zero, status=Status.SOLVER_ERROR)
