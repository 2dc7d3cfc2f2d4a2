"""The exact layer for statements of moderate size: the program as its paper prints it, solved once, then judged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

from sdpmetric.core.run import Budget, CertifiableProblem, Step
from sdpmetric.formulations.stated import Point, Stated
from sdpmetric.linalg import psd
from sdpmetric.solvers.backend import CLARABEL, SETTINGS, BackendOptions, check_backend, run_backend

FloatArray = NDArray[np.float64]
ProblemT = TypeVar("ProblemT", bound=CertifiableProblem)

# Cones of moderate size also bear a regularization that large ones break down under, and some need it.
MORE_SETTINGS = {"CLARABEL": [CLARABEL | {"static_regularization_constant": 1e-10}]}


def steps_of(state: Callable[[ProblemT], Stated]) -> Callable[..., Iterator[Step]]:
    """The conic solver of the statements whose program `state` makes.

    Parameters
    ----------
    state : callable
        From a problem to its `Stated` program.
    """

    def steps(
        problem: ProblemT,
        budget: Budget,
        tol: float,
        *,
        backend: str = "CLARABEL",
        backend_options: BackendOptions | None = None,
    ) -> Iterator[Step]:
        name = check_backend(backend)
        stated = state(problem)
        asked = [stated] if stated.doubt is None else [stated, stated.doubt]
        for settings in [*SETTINGS.get(name, [{}]), *MORE_SETTINGS.get(name, [])]:
            budget.spend()
            for here in asked:
                run_backend(here.program, name, budget, settings | dict(backend_options or {}))
                if here.program.status not in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE, cp.USER_LIMIT):
                    continue
                step = _judged(problem, here.read())
                yield step
                if step.certificate is not None and step.certificate.contradiction is not None:
                    return
                if np.isfinite(step.objective):
                    break  # no doubt that there is a feasible point

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
