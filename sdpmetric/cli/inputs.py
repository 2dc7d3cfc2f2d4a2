"""Input of the command line: data, the problem stated for them, files to write, and metrics from files."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import typer
from numpy.typing import NDArray

from sdpmetric import datasets
from sdpmetric.cli.options import BAD_INPUT, ProblemOptions, SolverOptions, labeled_statements, names, note
from sdpmetric.cli.tables import SUFFIXES, Dialect, Table, read_table
from sdpmetric.core import files, validation
from sdpmetric.core.files import FOREIGN, read_json, read_npz
from sdpmetric.core.problem import Problem
from sdpmetric.core.solution import Solution
from sdpmetric.core.steps import Budget
from sdpmetric.datasets.preparation import preparer

Array = NDArray[np.generic]
Rows = NDArray[np.intp]
Value = str | float | int | bool | None
# Names of the array of a metric: a factor L, the matrix M, or the transpose of L as LDA has it.
KINDS = ("components", "metric", "scalings")
# The share of every class that is held out to score a metric.
HELD_OUT = 0.3


@contextmanager
def input_errors(*paths: object) -> Iterator[None]:
    """Turn an error in the input into one sentence on standard error and the exit code 2."""
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


def check_names(kind: str, chosen: list[str], allowed: tuple[str, ...]) -> None:
    for name in chosen:
        if name not in allowed:
            raise ValueError(
                f"unknown {kind} {name!r}{validation.like(name, allowed)}; choose from {', '.join(allowed)}."
            )


def check_limits(limits: SolverOptions) -> None:
    """Refuse limits of a solve, before any work."""
    validation.check_integer("--seed", limits.seed, 0, 2**32 - 1)
    Budget(limits.max_time, limits.max_iter)
    if limits.tol is not None:
        validation.check_limit("tol", limits.tol, "relative gap")


def check_outputs(inputs: list[Path], outputs: Mapping[str, Path]) -> None:
    """Refuse files that cannot be written, that are inputs, or that are one file under two names, before any work."""
    written: dict[Path, str] = {}
    for option, path in outputs.items():
        files.check_target(path)
        target = path.resolve()
        for source in inputs:
            if target == source.resolve() or (target.exists() and source.exists() and target.samefile(source)):
                raise ValueError(f"{option} {path} would overwrite the input {source}; name another file.")
        for other, name in written.items():
            if target == other or (target.exists() and other.exists() and target.samefile(other)):
                raise ValueError(f"{name} and {option} name the same file, {path}; name two.")
        written[target] = option


@dataclass(frozen=True, eq=False)
class Stated:
    """A problem, the data that it is stated for, and the rows that are held out."""

    problem: Problem
    table: Table
    rows: Rows  # (n,): those of the table that the problem is stated for
    held_out: tuple[Array, Array] | None = None  # the others, prepared, and their labels

    @property
    def labels(self) -> Array:
        return self.table.y[self.rows]


def load(data: str, options: ProblemOptions) -> Table:
    """Load a named data set, an NPZ file, or a CSV file."""
    if data in datasets.NAMED:
        bunch = datasets.NAMED[data]()
        names_of = tuple(map(str, getattr(bunch, "feature_names", ())))
        return Table(np.asarray(bunch.data), np.asarray(bunch.target), names_of)
    path = Path(data)
    if path.suffix.lower() == ".npz":
        if not path.is_file():
            raise FileNotFoundError(f"there is no file {path}.")
        return Table(*datasets.load(path))
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(
            f"unknown data {data!r}{validation.like(data, datasets.NAMED)}; name one of {', '.join(datasets.NAMED)}, a "
            f"file that ends in {', '.join(SUFFIXES)}, or an .npz file with X and y."
        )
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}.")
    dialect = Dialect(
        label=options.label,
        columns=names(options.columns),
        drop=names(options.drop),
        delimiter=options.delimiter,
        decimal=options.decimal,
        thousands=options.thousands,
        skip_missing=options.skip_missing,
    )
    return read_table(path, dialect)


def state(table: Table, options: ProblemOptions, *, hold_out: bool = False) -> Stated:
    """Prepare data and state the problem, for all examples or for those that are not held out."""
    kinds = labeled_statements()
    check_names("statement", [options.statement], tuple(kinds))
    kind = kinds[options.statement]
    takes = [name for name in inspect.signature(kind.from_labels).parameters if name not in ("X", "y")]
    parameters = _parameters(options)
    validation.check_known(f"statement {options.statement!r}", parameters, takes)
    if "ridge" in takes:
        parameters.setdefault("ridge", "auto")
    X, y = np.asarray(table.X), np.asarray(table.y)
    rows, held_rows = _parted(y, options.n_neighbors or 3) if hold_out else (np.arange(len(X)), np.arange(0))
    standardized = options.pca is None if options.standardize is None else options.standardize
    prepare = preparer(X[rows], standardize=standardized, n_components=options.pca)
    problem = kind.from_labels(prepare(X[rows]), y[rows], **parameters)
    held_out = None
    if len(held_rows):
        held_out = prepare(X[held_rows]), y[held_rows]
    return Stated(problem, table, rows, held_out)


def _parted(y: Array, n_neighbors: int) -> tuple[Rows, Rows]:
    """Draw rows to hold out within classes; each class keeps enough for its target neighbors."""
    rng, held = np.random.default_rng(0), np.zeros(len(y), dtype=bool)
    for label in np.unique(y):
        rows = np.flatnonzero(y == label)
        held[rng.permutation(rows)[: min(int(HELD_OUT * len(rows)), max(len(rows) - n_neighbors - 2, 0))]] = True
    return np.flatnonzero(~held), np.flatnonzero(held)


def _parameters(options: ProblemOptions) -> dict[str, Value]:
    """Return the parameters that were given; values of ``--set`` are JSON if they parse as JSON, else text."""
    parameters: dict[str, Value] = {
        name: value for name in ("n_neighbors", "push_weight", "loss") if (value := getattr(options, name)) is not None
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


def data_beside(proof: Path) -> Path:
    """The file for the data that a proof is about."""
    return proof.with_suffix(".data.npz")


def check_data_beside(proof: Path, problem: Problem) -> None:
    """Refuse to replace other data by those of a proof."""
    path = data_beside(proof)
    if path.exists():
        arrays = read_npz(path)
        if not np.array_equal(arrays.get("X", np.zeros(0)), problem.X):
            raise ValueError(
                f"{path} holds other data than this proof is about; move it, or name another file for the proof."
            )


def write_proof(solution: Solution, proof: Path) -> Path:
    """Write a proof file and the data that it is about; return the path of the data."""
    path = data_beside(proof)
    solution.save_proof(proof, path)
    return path


@dataclass(frozen=True, eq=False)
class Metric:
    """A metric from a file: exactly one of `components` and `metric`."""

    components: Array | None
    metric: Array | None
    fingerprint: str | None = None  # of the problem that it solves, if the file names one


def read_metric(path: Path, key: str | None, kind: str | None) -> Metric:
    """Read a metric from an NPZ file; the name of the array says what it is, else `kind` does."""
    if path.suffix.lower() in SUFFIXES:
        raise ValueError(f"{path} is a table; name the .npz file of the metric after the data.")
    arrays = read_npz(path)
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
    fingerprint = str(description.get("fingerprint") or "") or None
    if kind == "metric":
        return Metric(None, array, fingerprint)
    return Metric(array.T if kind == "scalings" else array, None, fingerprint)
