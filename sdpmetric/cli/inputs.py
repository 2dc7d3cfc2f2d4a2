"""What the command line is given: data, a statement with its parameters, limits, and points from files."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import typer
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from sdpmetric import datasets
from sdpmetric.cli.options import (
    BAD_INPUT,
    DEFAULT,
    LimitOptions,
    ProblemOptions,
    TableOptions,
    labeled_statements,
    names,
    note,
)
from sdpmetric.core import files, validation
from sdpmetric.core.files import FOREIGN, read_json
from sdpmetric.core.problem import Problem
from sdpmetric.core.solution import Solution
from sdpmetric.core.steps import Budget
from sdpmetric.datasets.named import in_folder
from sdpmetric.models import Model, Value

Array = NDArray[np.generic]
Rows = NDArray[np.intp]
# What the array of a point is, and its key by default: a factor L, the matrix M, or the transpose of L as LDA has it.
KINDS = ("components", "metric", "scalings")


@contextmanager
def input_errors(*paths: object) -> Iterator[None]:
    """Turn what is wrong with the input into one sentence on standard error and the exit code 2."""
    try:
        yield
    except (ValueError, TypeError, OSError, ImportError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            if error.filename is None:  # of a standard stream
                raise
            error = OSError(f"{error.filename} cannot be read: {error.strerror}.")
        note("Error: " + (str(error).splitlines() or [type(error).__name__])[0])
        raise typer.Exit(BAD_INPUT) from error
    except FOREIGN as error:
        reason = " ".join(str(error).split()) or "no more is known"
        note(f"Error: {' or '.join(map(str, paths)) or 'the input'} cannot be used ({type(error).__name__}: {reason}).")
        raise typer.Exit(BAD_INPUT) from error


def check_names(kind: str, names: list[str], allowed: tuple[str, ...]) -> None:
    for name in names:
        if name not in allowed:
            raise ValueError(
                f"unknown {kind} {name!r}{validation.like(name, allowed)}; choose from {', '.join(allowed)}."
            )


def check_limits(limits: LimitOptions) -> None:
    """Refuse limits of a solve, before any work."""
    validation.check_integer("--seed", limits.seed, 0, 2**32 - 1)
    Budget(limits.max_time, limits.max_iter)
    if limits.tol is not None:
        validation.check_limit("tol", limits.tol, "relative gap")


def check_output(path: Path, *inputs: str | Path) -> None:
    """Refuse a file that cannot be written, or that is an input by whatever name, before any work."""
    files.check_target(path)
    for source in inputs:
        for read in (Path(source), in_folder(source)):
            if read is not None and path.is_file() and read.exists() and path.samefile(read):
                raise ValueError(f"{path} would overwrite the input {source}; name another file.")


@contextmanager
def data_file(data: str) -> Iterator[str]:
    """The path of an NPZ or CSV file; data with another name are written to one."""
    files_of = [Path(data), in_folder(data), Path(f"{data}.npz")] if data not in datasets.NAMED else []
    for path in files_of:
        if path is not None and path.is_file() and path.suffix.lower() in (".npz", ".csv"):
            yield str(path)
            return
    if Path(data).suffix.lower() in (".npz", ".csv"):  # which is not there: the checker says so
        yield data
        return
    table = datasets.load_table(data)
    with TemporaryDirectory() as folder:
        np.savez(Path(folder) / "data.npz", X=np.asarray(table.X), y=np.asarray(table.labels))
        yield str(Path(folder) / "data.npz")


@dataclass(frozen=True, eq=False)
class Stated:
    problem: Problem
    X: Array  # (n, d): the prepared features
    preparation: Pipeline  # Fitted
    table: datasets.Table  # The raw data
    statement: str
    parameters: dict[str, Value]  # Those that were given
    rows: Rows  # (n,): the rows of the table that the problem is stated for
    held_out: tuple[Array, Array] | None = None  # The others, prepared, and their labels

    def model(self, solution: Solution) -> Model:
        linear = solution.components.shape[-1] == self.X.shape[1] and np.array_equal(self.problem.X, self.X)
        description = (self.table.features, self.table.label, self.statement, self.parameters, linear)
        return Model(solution, self.preparation, *description)

    def write_proof(self, solution: Solution, data: str, proof: Path) -> str:
        """Write a proof file, and beside it the data, unless they are as stored; return what `check` reads."""
        check_output(proof, data)
        if np.array_equal(self.X, np.asarray(self.table.X)):
            solution.save_proof(proof)
            return data
        prepared = proof.with_suffix(".data.npz")
        solution.save_proof(proof, prepared)
        return str(prepared)


def columns_of(table: TableOptions, model: Model | None = None, *, labeled: bool = True) -> datasets.Columns:
    """Which columns are read; those of a model where no others are given."""
    chosen, dropped, label = [], [], table.label
    if isinstance(table, ProblemOptions):
        chosen, dropped = names(table.columns), names(table.drop)
    if model is not None:
        chosen = chosen or ([] if dropped else list(model.features))
        label = model.label if label is None else label
    return datasets.Columns(label, chosen, dropped, table.delimiter, table.decimal, labeled, table.skip_missing)


def learned(path: Path) -> Model:
    """A saved model; a table in its place was meant as the data."""
    if path.suffix.lower() in datasets.TABLES:
        raise ValueError(
            f"{path} is a table, not a model; name the file of 'sdpmetric solve --output' first, then the data."
        )
    return Model.load(path)


def load(data: str, columns: datasets.Columns, model: Model) -> datasets.Table:
    """Load data for a model: a table by the names of its features, anything else by their number."""
    if Path(data).suffix.lower() in datasets.TABLES and data not in datasets.NAMED:
        return datasets.load_table(data, columns)
    label_column = None if columns.label == model.label else columns.label
    return datasets.load_table(data, replace(columns, features=(), label=label_column))


# The share of every class that is held out to score a metric by.
HELD_OUT = 0.3


def _parted(y: Array, n_neighbors: int) -> tuple[Rows, Rows]:
    """Rows to learn from and rows to hold out, drawn within classes, of which enough stay for the target neighbors."""
    rng, held = np.random.default_rng(0), np.zeros(len(y), dtype=bool)
    for label in np.unique(y):
        rows = np.flatnonzero(y == label)
        held[rng.permutation(rows)[: min(int(HELD_OUT * len(rows)), max(len(rows) - n_neighbors - 2, 0))]] = True
    return np.flatnonzero(~held), np.flatnonzero(held)


def state(data: str, options: ProblemOptions, model: Model | None = None, *, hold_out: bool = False) -> Stated:
    """Load, prepare, and state the problem; with a model, as it was learned where no other options are given."""
    columns = columns_of(options, model)
    loaded = datasets.load_table(data, columns) if model is None else load(data, columns, model)
    name, parameters = options.statement, _parameters(options)
    if model is not None and name is None:
        parameters = dict(model.parameters) | parameters
        name = model.statement
    X, y = np.asarray(loaded.X), np.asarray(loaded.labels)
    rows, held_rows = _parted(y, options.n_neighbors or 3) if hold_out else (np.arange(len(X)), np.arange(0))
    if model is not None and options.standardize is None and options.pca is None:
        preparation = model.preparation
        prepared = model.prepare(X[rows])
    else:
        standardized = options.pca is None if options.standardize is None else options.standardize
        preparation = datasets.pipeline(standardize=standardized, pca=options.pca)
        prepared = datasets.prepare(preparation, X[rows])
    stated = name or DEFAULT
    problem = _statement(stated, parameters, prepared, y[rows])
    held_out = (
        (np.asarray(preparation.transform(X[held_rows].astype(np.float64))), y[held_rows]) if len(held_rows) else None
    )
    return Stated(problem, prepared, preparation, loaded, stated, parameters, rows, held_out)


def learned_from(path: Path, model: Model, data: datasets.Table) -> bool:
    """Whether the metric of a model was learned from just these examples: the problem has the stored fingerprint.

    They are prepared again, since a fitted `PCA` rounds differently.
    """
    try:
        prepared = datasets.prepare(clone(model.preparation), np.asarray(data.X))
        problem = _statement(model.statement, dict(model.parameters), prepared, data.labels)
    except ValueError:  # of what this statement refuses, nothing was learned
        return False
    return problem.fingerprint() == read_point(path, "components", "components").fingerprint


def _parameters(options: ProblemOptions) -> dict[str, Value]:
    """The parameters that were given, those of ``--set`` as JSON where they are JSON."""
    parameter_names = ("n_neighbors", "push_weight", "loss")
    parameters: dict[str, Value] = {
        name: getattr(options, name) for name in parameter_names if getattr(options, name) is not None
    }
    for setting in [*([] if options.ridge is None else [f"ridge={options.ridge}"]), *(options.settings or [])]:
        key, equals, value = setting.partition("=")
        if not equals or not key.isidentifier():
            raise ValueError(f"--set takes NAME=VALUE, got {setting!r}.")
        try:
            parameters[key] = json.loads(value)
        except (json.JSONDecodeError, RecursionError):
            parameters[key] = value
    return parameters


def _statement(name: str, parameters: dict[str, Value], X: Array, y: Array) -> Problem:
    kinds = labeled_statements()
    check_names("statement", [name], tuple(kinds))
    kind = kinds[name]
    takes = [parameter for parameter in inspect.signature(kind.from_labels).parameters if parameter not in ("X", "y")]
    validation.check_known(f"statement {name!r}", parameters, takes)
    return kind.from_labels(X, y, **parameters)


@dataclass(frozen=True, eq=False)
class Point:
    components: Array | None  # Exactly one of the two
    metric: Array | None  # Exactly one of the two
    model: Model | None = None  # Where the file is one
    fingerprint: str | None = None  # Of the problem that it was solved for, where the file says so


def read_point(path: Path, key: str | None, kind: str | None) -> Point:
    """A metric from an NPZ file; the key says what it is, else `kind` does."""
    arrays = datasets.read_npz(path)
    keys = [name for name in KINDS if name in arrays] if key is None else [key]
    if len(keys) != 1 or keys[0] not in arrays:
        raise ValueError(
            f"{path} holds the arrays {', '.join(arrays) or '(none)'}; expected exactly one of 'components' (a factor "
            "L), 'metric' (the matrix M) and 'scalings' (L transposed), or name one by --key and --kind."
        )
    kind = keys[0] if kind is None else kind
    if kind not in KINDS:
        raise ValueError(
            f"say what the array {keys[0]!r} is: --kind components (a factor L), metric (the matrix M) or scalings "
            "(L transposed); a matrix is never guessed to be one or the other."
        )
    array = arrays[keys[0]]
    description = read_json(arrays, "about") if "about" in arrays else {}
    return Point(
        array.T if kind == "scalings" else array if kind == "components" else None,
        array if kind == "metric" else None,
        Model.load(path) if "model" in arrays else None,
        str(description.get("fingerprint")) if description.get("fingerprint") else None,
    )
