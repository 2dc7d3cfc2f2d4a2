"""Solvers and exact programs, each registered next to its code; one file adds a solver, or a statement's program."""

from __future__ import annotations

import inspect
import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Concatenate, ParamSpec, TypeVar

from sdpmetric.arrays import allow_underflow
from sdpmetric.core.problem import Problem
from sdpmetric.core.steps import Budget, Step
from sdpmetric.core.validation import like

ProblemT = TypeVar("ProblemT")
Options = ParamSpec("Options")
ResultT = TypeVar("ResultT")
Steps = Callable[..., Iterator[Step]]
SolverSteps = Callable[Concatenate[ProblemT, Budget, float, Options], Iterator[Step]]
# The scope of a solver: a class with its subclasses, or a test of a class.
Scope = type | Callable[[type[Problem]], bool]


@dataclass(frozen=True)
class Solver:
    """A registered solver.

    Attributes
    ----------
    steps : callable
        ``steps(problem, budget, tol, **options)`` yields `sdpmetric.core.steps.Step`.
    tol : float
        Relative gap to prove if the user names none.
    options : frozenset of str
        Names of the options it takes, those of the signature that come by name only.
    rank : int or callable
        Its turn among the solvers that "auto" tries, from 1; a callable decides for a problem. With 0 it runs only by
        name.
    stream : bool
        Whether its steps follow a stream; the last step is the answer.
    relaxed : bool
        Whether it looks for points of another set: its lower bound is then that of a relaxation.
    takes : callable or None
        ``takes(problem)`` says whether it takes a problem of its statement; by default it takes all.
    engines : bool
        Whether its loops run on whatever engine is in use; see `sdpmetric.engine`.
    """

    name: str
    steps: Steps
    tol: float
    options: frozenset[str]
    rank: int | Callable[..., int] = 0
    stream: bool = False
    relaxed: bool = False
    takes: Callable[..., bool] | None = None
    engines: bool = False

    def turn(self, problem: Problem) -> int:
        """Return its turn for a problem, 0 if it runs only by name."""
        return self.rank(problem) if callable(self.rank) else self.rank


_SOLVERS: defaultdict[Scope, dict[str, Solver]] = defaultdict(dict)
_PROGRAMS: dict[type, tuple[Callable[..., object], bool]] = {}


def _load(statement: type[Problem]) -> None:
    """Import the modules that register solvers and programs of a statement and of its bases."""
    for kind in statement.__mro__:
        for module in vars(kind).get("solver_modules", ()):
            import_module(module)


def solver(
    scope: Scope,
    name: str,
    *,
    tol: float,
    rank: int | Callable[..., int] = 0,
    stream: bool = False,
    relaxed: bool = False,
    takes: Callable[..., bool] | None = None,
    engines: bool = False,
) -> Callable[[SolverSteps[ProblemT, Options]], SolverSteps[ProblemT, Options]]:
    """Register a solver: a decorator of ``steps(problem, budget, tol, *, options)``.

    Parameters
    ----------
    scope : type, or callable from a class to bool
        The statement, with subclasses that inherit the solver; or a capability, as ``Smooth`` is.
    name : str
        A statement's own solver goes before one of the same name for a capability.
    tol, rank, stream, relaxed, takes, engines
        As in `Solver`.

    Returns
    -------
    decorator : callable
        It registers the generator that it is applied to, and returns it.

    Examples
    --------
    >>> import sdpmetric as sm
    >>> [entry.name for entry in sm.solvers_of(sm.MMCProblem.from_labels([[0.0], [1.0], [5.0], [7.0]], [0, 0, 1, 1]))]
    ['factored', 'conic']
    """

    def register(steps: SolverSteps[ProblemT, Options]) -> SolverSteps[ProblemT, Options]:
        parameters = inspect.signature(steps).parameters.values()
        options = frozenset(p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY)
        _SOLVERS[scope][name] = Solver(name, steps, tol, options, rank, stream, relaxed, takes, engines)
        return steps

    return register


@allow_underflow
def solvers_of(statement: Problem | type[Problem]) -> list[Solver]:
    """List the solvers of a problem or problem class: first those that "auto" tries, in that order.

    Parameters
    ----------
    statement : Problem, or a class of them

    Returns
    -------
    solvers : list of Solver
        With `name`, `tol` and `options`.

    Examples
    --------
    >>> import sdpmetric as sm
    >>> problem = sm.LMNNProblem.from_labels(*sm.datasets.load("iris"))
    >>> [entry.name for entry in sm.solvers_of(problem)]
    ['factored', ...'conic'...]
    """
    if isinstance(statement, type):
        return _registered(statement)
    entries = [entry for entry in _registered(type(statement)) if entry.takes is None or entry.takes(statement)]
    return sorted(entries, key=lambda entry: entry.turn(statement) or math.inf)


def solvers_to_try(problem: Problem, name: str, options: Collection[str] = ()) -> list[Solver]:
    """Return the solver of a name; for "auto" those that take the options and have a turn, or the first without one."""
    entries = solvers_of(problem)
    if name == "auto":
        takers = [entry for entry in entries if entry.options.issuperset(options)] or entries
        return [entry for entry in takers if entry.turn(problem)] or takers[:1]
    if named := [entry for entry in entries if entry.name == name]:
        return named
    names = [entry.name for entry in entries]
    reason = f"unknown solver {name!r}{like(name, names)}"
    if name in {entry.name for entry in _registered(type(problem))}:
        reason = f"solver {name!r} does not take {problem.describe()}"
    raise ValueError(f"{reason}; choose one of 'auto', {', '.join(map(repr, names))}.")


def _registered(statement: type[Problem]) -> list[Solver]:
    """Return solvers by name: those of the statement's class before those of its bases and of its capabilities."""
    _load(statement)
    capabilities = [scope for scope in _SOLVERS if not isinstance(scope, type) and scope(statement)]
    entries: dict[str, Solver] = {}
    scopes: list[Scope] = [*statement.__mro__, *capabilities]
    for scope in scopes:
        for name, entry in _SOLVERS.get(scope, {}).items():
            entries.setdefault(name, entry)
    if not entries:
        raise TypeError(
            f"no solver accepts {statement.__name__}: register one with solver(), or its program with formulation()."
        )
    return sorted(entries.values(), key=lambda entry: entry.rank == 0)


def formulation(
    statement: type[Problem], *, exact: bool = True
) -> Callable[[Callable[Options, ResultT]], Callable[Options, ResultT]]:
    """Register the program of a statement: a decorator of ``state(problem, *, options)``.

    What it returns, a `sdpmetric.programs.ExactProgram`, is for `sdpmetric.to_cvxpy` and the solver "conic".

    Parameters
    ----------
    statement : type
        Subclasses inherit the program.
    exact : bool, default True
        Whether a solution of the program solves the problem; False for a stream's comparator or a relaxation.

    Returns
    -------
    decorator : callable
        It registers the function that it is applied to, and returns it.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import sdpmetric as sm
    >>> problem = sm.LMNNProblem.from_labels(*sm.datasets.load("iris"))
    >>> @dataclass(eq=False, repr=False)
    ... class Renamed(sm.LMNNProblem):
    ...     pass
    >>> @sm.formulation(Renamed)
    ... def program(problem, *, scaled=False):
    ...     return sm.to_cvxpy(problem)
    """

    def register(state: Callable[Options, ResultT]) -> Callable[Options, ResultT]:
        _PROGRAMS[statement] = (state, exact)
        return state

    return register


def formulation_of(statement: type[Problem]) -> Callable[..., object] | None:
    """Return the function that makes the program of a statement, or None."""
    _load(statement)
    return next((_PROGRAMS[kind][0] for kind in statement.__mro__ if kind in _PROGRAMS), None)


def has_exact_program(statement: type[Problem]) -> bool:
    return next((_PROGRAMS[kind][1] for kind in statement.__mro__ if kind in _PROGRAMS), False)
