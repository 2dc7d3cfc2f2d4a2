"""What every problem class promises, as checks that raise AssertionError; copy this file to check one of your own.

`check_statement` runs all of them; see ``docs/terms.md``.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import partial
from pathlib import Path

import numpy as np

import sdpmetric as sm
from sdpmetric.core.registry import Solver
from sdpmetric.core.status import Status
from sdpmetric.core.steps import TraceRow

Make = Callable[[], sm.Problem]

# What objectives and bounds may differ by, relatively, through rounding.
ROUNDING = 1e-9
# Seconds for a solve, and after which one with a limit of a millisecond must have ended.
SECONDS, MOST_SECONDS = 60.0, 30.0


def check_statement(make: Make, tolerances: Mapping[str, float] | None = None) -> None:
    """Run every check of this module on a statement.

    Parameters
    ----------
    make : callable
        ``make()`` states a small problem, the same one at each call.
    tolerances : mapping from str to float, optional
        Relative gaps to request, by the names of solvers; default: those of the solvers.
    """
    problem = make()
    check_identity(make)
    check_bad_points(problem)
    check_bad_arguments(problem)
    requested = {} if tolerances is None else tolerances
    solutions = [check_solver(problem, entry, requested.get(entry.name)) for entry in sm.solvers_of(problem)]
    check_sandwich(solutions)
    for solution in solutions:
        check_saving(solution)
    for entry in sm.solvers_of(problem):
        check_limits(problem, entry)


def check_identity(make: Make) -> None:
    """Check that equal statements have equal fingerprints, that the description is a line and that no field changes."""
    problem = make()
    assert problem.fingerprint() == make().fingerprint(), "the fingerprint differs between two equal problems"
    assert problem.describe() in repr(problem), "the description is not part of the repr"
    assert "\n" not in problem.describe(), "the description is more than a line"
    for name in (fields(problem)[0].name, "X", "nonsense"):
        for change in (partial(setattr, problem, name, None), partial(delattr, problem, name)):
            try:
                change()
            except AttributeError:
                continue
            raise AssertionError(f"{name} can be changed; declare the statement as @dataclass(frozen=True)")


def check_solver(problem: sm.Problem, entry: Solver, tol: float | None = None) -> sm.Solution:
    """Solve, check that the point is finite and that the problem confirms its objective, and return the solution."""
    solution = sm.solve(problem, entry.name, tol=tol, max_time=SECONDS)
    assert solution.status.expected, f"{entry.name} ended with {solution}"
    assert np.isfinite(solution.components).all(), f"{entry.name} returned a point that is not finite"
    certificate = solution.certificate
    assert certificate.program in str(certificate), "the certificate does not say which program it is of"
    if not isinstance(certificate, sm.RegretCertificate):
        objective = sm.certify(problem, solution.components).objective
        assert _equal(objective, solution.objective), (
            f"{entry.name}: {solution.objective}, but certify says {objective}"
        )
    return solution


def check_sandwich(solutions: list[sm.Solution]) -> None:
    """Check that every proven lower bound is below every objective."""
    proven = [s for s in solutions if isinstance(s.certificate, sm.DualityCertificate)]
    for below in proven:
        for above in proven:
            slack = ROUNDING * max(1.0, abs(above.objective))
            assert below.lower_bound <= above.objective + slack, f"{below} is above {above}"


def check_saving(solution: sm.Solution) -> None:
    """Check that a loaded solution equals the saved one and belongs to its problem."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "solution.npz"
        solution.save(path)
        tol = 1.001 * solution.relative_gap + 1e-9 if solution.status.ok else None
        loaded = sm.Solution.load(path, solution.problem, tol=tol)
    for name in ("objective", "lower_bound"):  # of the certificate that the problem makes again
        before, after = getattr(solution, name), getattr(loaded, name)
        assert _equal(before, after), f"{name} was {before} and is {after} when the file is loaded"
    assert (loaded.status, loaded.extras, loaded.solver) == (solution.status, solution.extras, solution.solver)
    assert np.array_equal(loaded.components, solution.components), "the components changed on disk"
    if not loaded.certificate.as_saved:
        assert sm.compare(loaded, solution).rows()[0] == sm.compare(solution).rows()[0]


def check_limits(problem: sm.Problem, entry: Solver) -> None:
    """Check that limits on iterations and time, and an interruption, return a certified point."""

    def interrupt(row: TraceRow) -> bool:
        raise KeyboardInterrupt

    limited = sm.solve(problem, entry.name, max_iter=1)
    timed = sm.solve(problem, entry.name, max_time=1e-3)
    stopped = sm.solve(problem, entry.name, callback=interrupt)
    assert timed.seconds < MOST_SECONDS, f"{entry.name} took {timed.seconds:.1f} s under a limit of a millisecond"
    for solution in (limited, timed, stopped):
        assert not np.isnan(solution.objective), f"{entry.name} returned no point with an objective"
    interrupted = stopped.status is Status.INTERRUPTED or stopped.certificate.settles(1.0)
    assert interrupted, f"{entry.name} ended with {stopped.status} when it was interrupted"


def check_bad_points(problem: sm.Problem) -> None:
    """Check that invalid points raise errors that name the argument."""
    d = problem.X.shape[1]
    for bad in (np.eye(d + 1), np.full((d, d), np.nan), "text", None):
        _refuses(partial(sm.certify, problem, bad), "components", "metric")
    _refuses(partial(sm.certify, problem, np.eye(d), metric=np.eye(d)), "components", "metric")
    _refuses(partial(sm.certify, problem, metric=-np.eye(d)), "metric")


def check_bad_arguments(problem: sm.Problem) -> None:
    """Check that arguments out of range raise errors that name them, for every solver."""
    for entry in sm.solvers_of(problem):
        once = partial(sm.solve, problem, entry.name)
        _refuses(partial(once, tol=0.0), "tol")
        _refuses(partial(once, max_time=0.0), "max_time")
        for name, value in (("max_iter", -1), ("patience", 3), ("n_components", 10**9), ("nonsense", 1)):
            _refuses(partial(once, **{name: value}), name)
    _refuses(partial(sm.solve, problem, "nonsense"), "nonsense")


def _refuses(call: Callable[[], object], *names: str) -> None:
    message = ""
    try:
        call()
    except (TypeError, ValueError) as error:
        message = str(error)
    assert message, f"a bad {' or '.join(names)} was not refused"
    assert any(name in message for name in names), f"the error does not name {' or '.join(names)}: {message}"


def _equal(first: float, second: float) -> bool:
    return first == second or abs(first - second) <= ROUNDING * max(1.0, abs(second))
