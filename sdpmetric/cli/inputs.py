"""Input of the command line: data, the problem stated for them, files to write, and metrics from files."""

from __future__ import annotations

import csv
import inspect
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import typer
from numpy.typing import NDArray
from sklearn.utils.multiclass import type_of_target

from sdpmetric import datasets
from sdpmetric.arrays import FloatArray
from sdpmetric.check.files import LIMITS, BadInput, Refused, read
from sdpmetric.cli.options import BAD_INPUT, ProblemOptions, SolverOptions, labeled_statements, note
from sdpmetric.cli.tables import SUFFIXES, Dialect, Table, read_table
from sdpmetric.core import files, validation
from sdpmetric.core.files import FOREIGN, Provable, read_json, read_npz
from sdpmetric.core.problem import Problem
from sdpmetric.core.solution import Solution
from sdpmetric.core.steps import Budget
from sdpmetric.datasets.preparation import preparer

Array = NDArray[np.generic]
Value = str | float | int | bool | None
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
    """Refuse names that are not among those that are allowed."""
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


def check_outputs(source: Path, outputs: Mapping[str, Path]) -> None:
    """Refuse files that cannot be written, or that are the input or each other under another name, before any work."""
    named = {"the input": source, **outputs}
    for k, (option, path) in enumerate(outputs.items(), 1):
        files.check_target(path)
        for other, taken in list(named.items())[:k]:
            is_same = path.exists() and taken.exists() and path.samefile(taken)  # also by a hard link
            if is_same or path.resolve() == taken.resolve():
                raise ValueError(f"{option} {path} would overwrite {other}, {taken}; name another file.")


def load(data: str, options: ProblemOptions) -> Table:
    """Load a named data set, an NPZ file, or a CSV file."""
    path = Path(data)
    if data in datasets.NAMED:
        return Table(*datasets.load(data))
    if path.suffix.lower() not in (".npz", *SUFFIXES):
        raise ValueError(
            f"unknown data {data!r}{validation.like(data, datasets.NAMED)}; name one of {', '.join(datasets.NAMED)}, a "
            f"file that ends in {', '.join(SUFFIXES)}, or an .npz file with X and y."
        )
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}.")
    if path.suffix.lower() == ".npz":
        return Table(*datasets.load(path))
    dialect = Dialect(
        label=options.label,
        columns=_names(options.columns),
        drop=_names(options.drop),
        delimiter=options.delimiter,
        decimal=options.decimal,
        thousands=options.thousands,
        skip_missing=options.skip_missing,
    )
    return read_table(path, dialect)


def _names(values: list[str] | None) -> list[str]:
    """The names in options that may be repeated, each a line of CSV."""
    return [name.strip() for line in csv.reader(values or [], skipinitialspace=True) for name in line if name.strip()]


@dataclass(frozen=True, eq=False)
class Stated:
    """A problem stated for some examples, their labels, and the other examples, prepared as they are."""

    problem: Problem
    labels: Array
    others: FloatArray
    other_labels: Array


def state(table: Table, options: ProblemOptions, held_out: NDArray[np.bool_] | None = None) -> Stated:
    """Prepare data and state the problem for all examples but those that are held out."""
    kinds = labeled_statements()
    check_names("statement", [options.statement], tuple(kinds))
    kind = kinds[options.statement]
    takes = [name for name in inspect.signature(kind.from_labels).parameters if name not in ("X", "y")]
    parameters = _parameters(options)
    validation.check_known(f"statement {options.statement!r}", parameters, takes)
    if "ridge" in takes:
        parameters.setdefault("ridge", "auto")
    X, y = np.asarray(table.X), np.asarray(table.y)
    out = np.zeros(len(X), dtype=bool) if held_out is None else held_out
    standardized = options.pca is None if options.standardize is None else options.standardize
    prepare = preparer(X[~out], standardize=standardized, n_components=options.pca)
    problem = kind.from_labels(prepare(X[~out]), y[~out], **parameters)
    return Stated(problem, y[~out], prepare(X[out]) if out.any() else np.zeros((0, 0)), y[out])


def held_out(y: Array, n_neighbors: int) -> NDArray[np.bool_]:
    """Draw examples to hold out within classes; each class keeps enough for its target neighbors."""
    if type_of_target(y) == "continuous":
        raise ValueError("the labels are numbers, and not classes.")
    rng, out = np.random.default_rng(0), np.zeros(len(y), dtype=bool)
    for label in np.unique(y):
        rows = np.flatnonzero(y == label)
        out[rng.permutation(rows)[: max(min(int(HELD_OUT * len(rows)), len(rows) - n_neighbors - 2), 0)]] = True
    if not out.any():
        raise ValueError("no class has enough examples to hold some out.")
    return out


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


def check_picture(path: Path) -> None:
    """Refuse a picture that matplotlib cannot write, before any work."""
    try:
        from matplotlib.backend_bases import FigureCanvasBase
    except ImportError as error:
        raise ImportError("pictures need matplotlib: pip install 'sdpmetric[plot]'.") from error
    formats = FigureCanvasBase.get_supported_filetypes()
    if path.suffix.lower().removeprefix(".") not in formats:
        raise ValueError(f"{path} must end in one of {', '.join(f'.{name}' for name in formats)}.")


def pictured_neighbors(stated: Stated, n_neighbors: int) -> int:
    """How many target neighbors `--plot` draws by; refuses problems without classes or without a single metric."""
    if stated.problem.zero.ndim > 2 or type_of_target(stated.labels) == "continuous":
        raise ValueError("--plot draws classes under one metric; this problem has no classes, or several metrics.")
    smallest = int(np.unique(stated.labels, return_counts=True)[1].min())
    if smallest < 2:
        raise ValueError("--plot needs at least two examples of every class.")
    return min(n_neighbors, smallest - 1)


def data_beside(proof: Path) -> Path:
    """The file for the data that a proof is about."""
    return proof.with_suffix(".data.npz")


def check_proof(proof: Path, problem: Problem) -> None:
    """Refuse a proof that cannot be written or checked, or whose data would replace others, before the solve."""
    beside = data_beside(proof)
    if not isinstance(problem, Provable):
        raise ValueError(f"--proof does not take {type(problem).__name__}; docs/proof_files.md has what it takes.")
    for size, limit in zip(problem.X.shape, ("rows of X", "features"), strict=True):
        if size > LIMITS[limit]:
            raise ValueError(f"--proof takes at most {LIMITS[limit]:,} {limit}, since the checker does; got {size:,}.")
    if beside.exists() and not _holds(beside, problem.X):
        raise ValueError(
            f"{beside} holds other data than this proof is about; move it, or name another file for the proof."
        )


def _holds(path: Path, X: Array) -> bool:
    try:
        return np.array_equal(read_npz(path).get("X", np.zeros(0)), X)
    except ValueError:  # no NPZ file
        return False


def write_proof(solution: Solution, proof: Path) -> Path:
    """Write a proof file and the data that it is about, if they are not there; return the path of the data."""
    beside = data_beside(proof)
    solution.save_proof(proof, None if beside.exists() else beside)
    try:
        read(beside, proof)  # whether the data are those of the proof, and the checker takes files of this size
    except (BadInput, Refused) as why:
        raise ValueError(f"the checker does not take {beside} and {proof}: {why}") from why
    return beside


def read_metric(path: Path) -> tuple[Array | None, Array | None, str | None]:
    """Read the components or the metric of an NPZ file, and the fingerprint of the problem that it solves."""
    if path.suffix.lower() in SUFFIXES:
        raise ValueError(f"{path} is a table; name the .npz file of the metric after the data.")
    arrays = read_npz(path)
    components, metric = arrays.get("components"), arrays.get("metric")
    if (components is None) == (metric is None):
        raise ValueError(
            f"{path} holds the arrays {', '.join(arrays) or '(none)'}; expected exactly one of 'components' (a factor "
            "L, (r, d)) and 'metric' (the matrix M, (d, d))."
        )
    description = read_json(arrays, "about") if "about" in arrays else {}
    return components, metric, str(description.get("fingerprint") or "") or None
