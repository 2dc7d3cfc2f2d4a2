"""CVXPY's solvers behind the exact layer: which ones can be used, their settings, and their limits."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import cvxpy as cp
import numpy as np

from sdpmetric.core.run import Budget

BackendOptions = Mapping[str, float | int | bool | str]
Options = dict[str, float | int | bool | str]

# How a backend takes its time limit.
TIME_LIMITS = {"CLARABEL": "time_limit", "SCS": "time_limit_secs"}
# The settings that proofs need, and those to try after them where a program was not solved well enough. Clarabel's
# own regularization, 1e-8, lets its factorization break down on large cones before their residuals are small.
CLARABEL: Options = {"tol_gap_rel": 1e-9, "tol_gap_abs": 1e-9, "tol_feas": 1e-9}
SCS: Options = {"eps_abs": 1e-7, "eps_rel": 1e-7, "max_iters": 20_000}
SETTINGS: dict[str, list[Options]] = {
    "CLARABEL": [CLARABEL | {"static_regularization_constant": size} for size in (1e-6, 1e-8)],
    "SCS": [SCS, SCS | {"eps_abs": 1e-9, "eps_rel": 1e-9, "max_iters": 100_000}],
}


def check_backend(backend: str) -> str:
    """The backend's name as CVXPY spells it.

    Raises
    ------
    ValueError
        If it is not installed, or cannot solve semidefinite programs.
    """
    able = [name for name in cp.installed_solvers() if _takes_cones(name)]
    if backend.upper() not in able:
        raise ValueError(
            f"backend {backend!r} is not an installed solver for semidefinite programs; "
            f"choose one of {', '.join(able)}."
        )
    return backend.upper()


def _takes_cones(name: str) -> bool:
    X = cp.Variable((2, 2), symmetric=True)
    try:
        cp.Problem(cp.Minimize(cp.trace(X)), [X >> 0]).get_problem_data(name)
    except cp.error.SolverError:
        return False
    return True


def timed(name: str, budget: Budget, options: Options) -> Options:
    """The options, and the time that is left where the backend takes a limit."""
    if name in TIME_LIMITS and np.isfinite(budget.remaining):
        return {TIME_LIMITS[name]: max(budget.remaining, 0.1), **options}
    return options


def run_backend(program: cp.Problem, name: str, budget: Budget, options: Options) -> str:
    """Solve a program; CVXPY's word for how it ended."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # inaccurate solutions are judged, not announced
            warnings.simplefilter("ignore", RuntimeWarning)  # a point slightly outside the domain of a logarithm
            program.solve(solver=name, **timed(name, budget, options))
    except cp.error.SolverError:
        return "solver_error"
    return str(program.status)
