"""What the command line is given: data, a statement with its parameters, limits, and points from files."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console

from sdpmetric import datasets
from sdpmetric.core.problem import Labelled, Problem, statements
from sdpmetric.core.run import Budget, check_tolerance

Array = NDArray[np.generic]
Value = str | float | int | bool | None
BAD_INPUT = 2
DEFAULT = "lmnn"


@contextmanager
def input_errors() -> Iterator[None]:
    """Turn what is wrong with the input into one sentence on standard error and the exit code 2."""
    try:
        yield
    except (ValueError, TypeError, OSError) as error:
        Console(stderr=True, soft_wrap=True, highlight=False).print(
            f"Error: {str(error).splitlines()[0]}", markup=False
        )
        raise typer.Exit(BAD_INPUT) from error


def check_names(what: str, given: list[str], known: tuple[str, ...]) -> None:
    """Refuse a name that is not known, in a sentence."""
    for name in given:
        if name not in known:
            raise ValueError(f"unknown {what} {name!r}; choose from {', '.join(known)}.")


@dataclass(frozen=True)
class Limits:
    """What every solver is told alike."""

    tol: float | None = None
    max_time: float | None = None
    max_iter: int | None = None
    random_state: int = 0

    def __post_init__(self) -> None:
        Budget(self.max_time, self.max_iter)
        if self.tol is not None:
            check_tolerance(self.tol)


@dataclass(frozen=True)
class StatementChoice:
    """A statement by name, and the parameters that it is given."""

    name: str = DEFAULT
    parameters: tuple[tuple[str, Value], ...] = ()

    @classmethod
    def of(
        cls,
        name: str,
        settings: list[str] | None,
        n_neighbors: int | None,
        push_weight: float | None,
        ridge: float | None,
        loss: str | None,
    ) -> StatementChoice:
        """The parameters that were given, those of ``--set`` as JSON where they are JSON."""
        named = {"n_neighbors": n_neighbors, "push_weight": push_weight, "ridge": ridge, "loss": loss}
        given: dict[str, Value] = {key: value for key, value in named.items() if value is not None}
        for setting in settings or []:
            key, equals, value = setting.partition("=")
            if not equals or not key.isidentifier():
                raise ValueError(f"--set takes NAME=VALUE, got {setting!r}.")
            try:
                given[key] = json.loads(value)
            except json.JSONDecodeError:
                given[key] = value
        return cls(name, tuple(given.items()))

    def make(self, X: Array, y: Array) -> Problem:
        """State it for labelled data."""
        known = {name: kind for name, kind in statements().items() if issubclass(kind, Labelled)}
        check_names("statement", [self.name], tuple(known))
        kind = known[self.name]
        takes = [name for name in inspect.signature(kind.from_labels).parameters if name not in ("X", "y")]
        foreign = [name for name, _ in self.parameters if name not in takes]
        if foreign:
            raise ValueError(
                f"statement {self.name!r} has no parameter {', '.join(foreign)}; it takes {', '.join(takes) or 'none'}."
            )
        return kind.from_labels(X, y, **dict(self.parameters))


def load_problem(
    what: StatementChoice,
    data: str,
    label: str | None = None,
    standardize: bool | None = None,
    pca: int | None = None,
) -> Problem:
    """Load, prepare, and state the problem."""
    X, y = datasets.load(data, label)
    if standardize or (standardize is None and pca is None):
        X = datasets.standardize(X)
    if pca is not None:
        X = datasets.reduce(X, pca)
    return what.make(X, y)


def read_point(path: Path, problem: Problem) -> tuple[Array | None, Array | None]:
    """Components or metric from a file, whichever its key names; the other one is None."""
    arrays = datasets.read_npz(path)
    components, metric = arrays.get("components"), arrays.get("metric")
    if (components is None) == (metric is None):
        raise ValueError(
            f"{path} holds the arrays {', '.join(arrays) or '(none)'}; expected exactly one of 'components' (a factor "
            "L) and 'metric' (the matrix M), since a matrix is never guessed to be one or the other."
        )
    problem.check_point(components, metric)
    if "about" in arrays and json.loads(str(arrays["about"])).get("fingerprint") not in (None, problem.fingerprint()):
        Console(stderr=True, soft_wrap=True).print(
            f"Note: {path} was solved for other data or options than these; it is judged on these."
        )
    return components, metric
