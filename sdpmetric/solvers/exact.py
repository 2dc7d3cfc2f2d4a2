"""The exact layer for statements of moderate size: the program as its paper prints it, solved once, then judged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

from sdpmetric import psd
from sdpmetric.formulations.stated import Stated
from sdpmetric.solvers.backend import SETTINGS, BackendOptions, check_backend, run_backend
from sdpmetric.solvers.base import Budget, CertifiableProblem, Step

FloatArray = NDArray[np.float64]


def steps_of(state: Callable[[CertifiableProblem], Stated]) -> Callable[..., Iterator[Step]]:
    """The conic solver of the statements whose program `state` makes.

    Parameters
    ----------
    state : callable
        From a problem to its `Stated` program.
    """

    def steps(
        problem: CertifiableProblem,
        budget: Budget,
        tol: float,
        *,
        backend: str = "CLARABEL",
        backend_options: BackendOptions | None = None,
    ) -> Iterator[Step]:
        name = check_backend(backend)
        stated = state(problem)
        for settings in SETTINGS.get(name, [{}]):
            budget.spend()
            run_backend(stated.program, name, budget, settings | dict(backend_options or {}))
            if stated.program.status not in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE, cp.USER_LIMIT):
                continue
            point = stated.read()
            components = psd.factor(point.metric)
            rest = {} if point.threshold is None else {"threshold": point.threshold}
            certificate = problem.certify(components, dual=point.dual, **rest)
            yield Step(
                components,
                certificate.objective,
                certificate.lower_bound,
                None if point.dual is None else partial(_given, point.dual),
                certificate,
                n_active=certificate.n_active,
                threshold=point.threshold,
            )

    return steps


def _given(dual: FloatArray) -> FloatArray:
    return dual
