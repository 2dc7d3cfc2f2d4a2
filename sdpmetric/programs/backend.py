"""CVXPY's solvers behind the exact layer: which ones can be used, their settings, and their limits."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass

from sdpmetric.core.steps import Budget
from sdpmetric.engine.interface import check_deadline
from sdpmetric.lazy import cvxpy as cp
from sdpmetric.programs.canonical import no_panic

BackendOptions = Mapping[str, float | int | bool | str]
Options = dict[str, float | int | bool | str]

# How a backend takes its time limit.
TIME_LIMITS = {"CLARABEL": "time_limit", "SCS": "time_limit_secs"}
# The settings that proofs need, and those to try next if a program was not solved accurately enough. Clarabel's
# own regularization, 1e-8, lets its factorization break down on large cones before their residuals are small; cones of
# moderate size also bear a weaker one, and some need it.
CLARABEL: Options = {"tol_gap_rel": 1e-9, "tol_gap_abs": 1e-9, "tol_feas": 1e-9}
SCS: Options = {"eps_abs": 1e-7, "eps_rel": 1e-7, "max_iters": 20_000}
SETTINGS: dict[str, list[Options]] = {
    "CLARABEL": [CLARABEL | {"static_regularization_constant": size} for size in (1e-6, 1e-8, 1e-10)],
    "SCS": [SCS, SCS | {"eps_abs": 1e-9, "eps_rel": 1e-9, "max_iters": 100_000}],
}


@dataclass(frozen=True)
class Backend:
    """A CVXPY solver with the settings to try, one after another."""

    name: str
    settings: tuple[Options, ...]

    @classmethod
    def of(cls, backend: str, options: BackendOptions | None = None) -> Backend:
        """Check that a backend can be used with some options, on a program of one variable."""
        if options is not None and not isinstance(options, Mapping):
            raise TypeError(f"backend_options must be a mapping from names to values, got {options!r}.")
        able = [name for name in cp.installed_solvers() if _takes_cones(name)]
        if not isinstance(backend, str) or backend.upper() not in able:
            raise ValueError(
                f"backend {backend!r} is not an installed solver for semidefinite programs; "
                f"choose one of {', '.join(able)}."
            )
        name, given_options = backend.upper(), dict(options or {})
        checked = cls(name, tuple(setting | given_options for setting in SETTINGS.get(name, [{}])))
        if given_options:
            try:
                checked.run(_smallest(), Budget(), checked.settings[0])
            except (TypeError, ValueError, AttributeError) as error:
                raise TypeError(f"backend {name} does not take backend_options={given_options}: {error}") from error
        return checked

    def timed(self, budget: Budget, options: Options) -> Options:
        """The options, and the time that is left where the backend takes a limit."""
        if self.name in TIME_LIMITS and math.isfinite(budget.remaining):
            return {TIME_LIMITS[self.name]: max(budget.remaining, 0.1), **options}
        return options

    def run(self, program: cp.Problem, budget: Budget, options: Options) -> str:
        """Solve a program; CVXPY's word for how it ended."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # the certificate tells of inaccurate solutions
                warnings.simplefilter("ignore", RuntimeWarning)  # a point slightly outside the domain of a logarithm
                program.get_problem_data(self.name)  # CVXPY keeps it
                check_deadline()
                with no_panic():
                    program.solve(solver=self.name, **self.timed(budget, options))
        except cp.error.SolverError as error:
            if error.__cause__ is not None:  # for example a missing license
                warnings.warn(f"{self.name} failed: {error.__cause__}", RuntimeWarning, stacklevel=2)
            return "solver_error"
        except ValueError as error:
            if "Problem data contains" not in str(error):  # NaN or infinity, which no backend takes
                raise
            return "solver_error"
        return str(program.status)


def _smallest() -> cp.Problem:
    X = cp.Variable((2, 2), symmetric=True)
    return cp.Problem(cp.Minimize(cp.trace(X)), [X >> 0])


def _takes_cones(name: str) -> bool:
    try:
        _smallest().get_problem_data(name)
    except cp.error.SolverError:
        return False
    return True
