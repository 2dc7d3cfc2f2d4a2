"""Solvers and exact programs, each registered next to its code; one file adds a solver, or a statement's program."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Concatenate, ParamSpec, TypeVar

from sdpmetric.core.problem import Problem
from sdpmetric.core.run import Budget, Step
from sdpmetric.core.validation import like

ProblemT = TypeVar("ProblemT")
Options = ParamSpec("Options")
ResultT = TypeVar("ResultT")
Steps = Callable[..., Iterator[Step]]
SolverSteps = Callable[Concatenate[ProblemT, Budget, float, Options], Iterator[Step]]
# What a solver may run over: a class, whose subclasses it takes as well, or a test of a class.
Scope = type | Callable[[type[Problem]], bool]


@dataclass(frozen=True)
class Solver:
    """A registered solver.

    Attributes
    ----------
    steps : callable
        ``steps(problem, budget, tol, **options)`` yields `sdpmetric.core.run.Step`.
    tol : float
        Relative gap to prove if the user names none.
    options : tuple of str
        Names of the options it takes, those of the signature that come by name only.
    default : bool or callable
        Whether it is "auto"; a callable decides for a problem, and goes before the others.
    stream : bool
        Whether its steps follow a stream, whose last step is the answer.
    when : callable or None
        ``when(problem)`` says whether it takes a problem of its statement; None: all of them.
    engines : bool
        Whether its loops run on whatever engine is in use; see `sdpmetric.engine`.
    """

    name: str
    steps: Steps
    tol: float
    options: tuple[str, ...]
    default: bool | Callable[..., bool] = False
    stream: bool = False
    when: Callable[..., bool] | None = None
    engines: bool = False

    def rank(self, problem: Problem) -> int:
        """Solvers of a problem are tried in this order."""
        if callable(self.default):
            return 0 if self.default(problem) else 2
        return 1 if self.default else 2


_SOLVERS: list[tuple[Scope, Solver]] = []
_PROGRAMS: dict[type, tuple[Callable[..., object], bool]] = {}
_RANK_BOUNDS: dict[type, tuple[Steps, Callable[..., None]]] = {}
# Packages that register solvers when they are imported, which is when the first solver is looked for.
_PACKAGES: list[str] = []


def solvers_in(package: str) -> None:
    """Register the solvers of a package without importing it yet."""
    _PACKAGES.append(package)


def _load() -> None:
    for package in _PACKAGES:
        import_module(package)


def solver(
    scope: Scope,
    name: str,
    *,
    tol: float,
    default: bool | Callable[..., bool] = False,
    stream: bool = False,
    when: Callable[..., bool] | None = None,
    engines: bool = False,
) -> Callable[[SolverSteps[ProblemT, Options]], SolverSteps[ProblemT, Options]]:
    """Register a solver: a decorator of ``steps(problem, budget, tol, *, options)``.

    Parameters
    ----------
    scope : type, or callable from a class to bool
        The statement, whose subclasses inherit the solver; or a capability, as ``Smooth`` is.
    name : str
        A statement's own solver goes before one of the same name for a capability.
    tol, default, stream, when, engines
        As in `Solver`.

    Examples
    --------
    >>> import sdpmetric as sm
    >>> [entry.name for entry in sm.solvers_of(sm.RCAProblem.from_labels([[0.0], [1.0], [5.0], [7.0]], [0, 0, 1, 1]))]
    ['closed', 'conic']
    """

    def register(steps: SolverSteps[ProblemT, Options]) -> SolverSteps[ProblemT, Options]:
        parameters = inspect.signature(steps).parameters.values()
        options = tuple(p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY)
        _SOLVERS.append((scope, Solver(name, steps, tol, options, default, stream, when, engines)))
        return steps

    return register


def solvers_of(statement: Problem | type[Problem]) -> list[Solver]:
    """List the solvers of a problem or problem class; the default comes first.

    Parameters
    ----------
    statement : Problem, or a class of them

    Raises
    ------
    TypeError
        If nothing solves problems of this kind.
    """
    if isinstance(statement, type):
        return _registered(statement)
    found = [entry for entry in _registered(type(statement)) if entry.when is None or entry.when(statement)]
    return sorted(found, key=lambda entry: entry.rank(statement))


def find_solver(problem: Problem, name: str) -> Solver:
    """A solver by name; "auto" is the first one."""
    entries = solvers_of(problem) if name == "auto" else _registered(type(problem))
    for entry in entries:
        if name in ("auto", entry.name):
            return entry
    names = [entry.name for entry in entries]
    raise ValueError(
        f"unknown solver {name!r}{like(name, names)}; choose one of 'auto', {', '.join(map(repr, names))}."
    )


def _registered(statement: type[Problem]) -> list[Solver]:
    _load()
    found: dict[str, Solver] = {}
    for own in (True, False):  # a statement's own solvers, then those of its capabilities
        for scope, entry in _SOLVERS:
            if _is_own(scope) == own and _covers(scope, statement):
                found.setdefault(entry.name, entry)
    if not found:
        raise TypeError(
            f"no solver accepts {statement.__name__}: register one with solver(), or its program with formulation()."
        )
    return sorted(found.values(), key=lambda entry: entry.default is not True)


def formulation(
    statement: type[Problem], *, exact: bool = True
) -> Callable[[Callable[Options, ResultT]], Callable[Options, ResultT]]:
    """Register the program of a statement: a decorator of ``state(problem, *, options)``.

    What it returns, a `sdpmetric.formulations.ExactProgram`, is for `sdpmetric.to_cvxpy` and the solver "conic".

    Parameters
    ----------
    statement : type
        Subclasses inherit the program.
    exact : bool, default True
        Whether a solution of the program solves the problem; False for a stream's comparator or a relaxation.
    """

    def register(state: Callable[Options, ResultT]) -> Callable[Options, ResultT]:
        _PROGRAMS[statement] = (state, exact)
        return state

    return register


def formulation_of(statement: type[Problem]) -> Callable[..., object] | None:
    """What makes the program of a statement; None where nothing does."""
    return next((_PROGRAMS[kind][0] for kind in statement.__mro__ if kind in _PROGRAMS), None)


def has_exact_program(statement: type[Problem]) -> bool:
    """Whether the solution of a registered program solves a statement."""
    return next((_PROGRAMS[kind][1] for kind in statement.__mro__ if kind in _PROGRAMS), False)


def rank_bound(
    statement: type[Problem], check: Callable[..., None]
) -> Callable[[Callable[Options, Iterator[Step]]], Callable[Options, Iterator[Step]]]:
    """Register the way to a metric of bounded rank: ``steps(problem, budget, full, n_components)``.

    Parameters
    ----------
    statement : type
        Subclasses inherit it.
    check : callable
        ``check(problem)`` raises ValueError if a bound on the rank has no meaning, before any work.
    """

    def register(steps: Callable[Options, Iterator[Step]]) -> Callable[Options, Iterator[Step]]:
        _RANK_BOUNDS[statement] = (steps, check)
        return steps

    return register


def rank_bound_of(statement: type[Problem]) -> tuple[Steps, Callable[..., None]] | None:
    """The way to a metric of bounded rank and its check; None if there is none."""
    _load()
    return next((_RANK_BOUNDS[kind] for kind in statement.__mro__ if kind in _RANK_BOUNDS), None)


def _is_own(scope: Scope) -> bool:
    return isinstance(scope, type)


def _covers(scope: Scope, statement: type[Problem]) -> bool:
    return issubclass(statement, scope) if isinstance(scope, type) else scope(statement)
