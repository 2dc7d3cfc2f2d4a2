"""The exact layer for statements of moderate size: the program as its paper prints it, solved once, then judged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

from sdpmetric.core.run import Budget, CertifiableProblem, Step
from sdpmetric.formulations.exact_program import ExactProgram, Point
from sdpmetric.linalg import psd
from sdpmetric.solvers.backend import Backend, BackendOptions

FloatArray = NDArray[np.float64]
ProblemT = TypeVar("ProblemT", bound=CertifiableProblem)


def steps_of(state: Callable[[ProblemT], ExactProgram]) -> Callable[..., Iterator[Step]]:
    """The conic solver of the statements whose program `state` makes.

    Parameters
    ----------
    state : callable
        From a problem to its `ExactProgram` program.
    """

    def steps(
        problem: ProblemT,
        budget: Budget,
        tol: float,
        *,
        backend: str = "CLARABEL",
        backend_options: BackendOptions | None = None,
    ) -> Iterator[Step]:
        chosen = Backend.of(backend, backend_options)
        stated = state(problem)
        programs = [stated] if stated.infeasibility is None else [stated, stated.infeasibility]
        for settings in chosen.settings:
            budget.spend()
            for here in programs:
                if chosen.run(here.program, budget, settings) not in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE, cp.USER_LIMIT):
                    continue
                step = _judged(problem, here.read())
                yield step
                if step.certificate is not None and step.certificate.contradiction is not None:
                    return
                if np.isfinite(step.objective):
                    break  # a feasible point: the program is not infeasible

    return steps


def _judged(problem: CertifiableProblem, point: Point) -> Step:
    components = psd.factor(point.metric)
    rest = {} if point.threshold is None else {"threshold": point.threshold}
    certificate = problem.certify(components, dual=point.dual, **rest)
    return Step(
        components,
        certificate.objective,
        certificate.lower_bound,
        None if point.dual is None else partial(_given, point.dual),
        certificate,
        n_active=certificate.n_active,
        threshold=point.threshold,
    )


def _given(dual: FloatArray) -> FloatArray:
    return dual
