"""Input of the command line: data from tables, the problem stated for them, files to write, and metrics from files.

Tables are CSV files, as spreadsheets, pandas and R write them: features by name, and one column of labels.
"""

from __future__ import annotations

import csv
import inspect
import json
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import typer
from numpy.typing import NDArray
from sklearn.utils.multiclass import type_of_target

from sdpmetric import datasets
from sdpmetric.arrays import FloatArray
from sdpmetric.check.files import LIMITS, BadInput, Refused, read
from sdpmetric.cli.options import BAD_INPUT, ProblemOptions, SolverOptions, labeled_statements, note
from sdpmetric.core import files, validation
from sdpmetric.core.files import FOREIGN, Provable, printable, read_json, read_npz
from sdpmetric.core.problem import Problem
from sdpmetric.core.solution import Solution
from sdpmetric.core.steps import Budget
from sdpmetric.core.validation import check_choice, check_data, like
from sdpmetric.datasets.preparation import preparer

if TYPE_CHECKING:
    import pandas as pd

SUFFIXES = (".csv", ".tsv", ".txt")
# Candidates for the delimiter: one that makes the label a column, then the one that makes most columns, is taken.
DELIMITERS = (",", ";", "\t", "|")
# Names of characters that are hard to type in a shell.
WORDS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "space": " "}
# Options of every `pandas.read_csv` here; "?" marks missing cells besides the markers of pandas.
COMMON = {"skipinitialspace": True, "encoding": "utf-8-sig", "na_values": "?", "low_memory": False}

Array = NDArray[np.generic]


@dataclass(frozen=True, eq=False)
class Table:
    """Labeled data; `remarks` says what was left out."""

    X: Array  # (n, d)
    y: Array  # (n,)
    remarks: tuple[str, ...] = ()


def read_table(path: Path, table: ProblemOptions) -> Table:
    """Read the features and labels of a CSV file, or say in a sentence what is wrong with it."""
    import pandas as pd

    if table.delimiter is not None and len(WORDS.get(table.delimiter, table.delimiter)) != 1:
        raise ValueError(f"--delimiter must be one character or 'tab', got {table.delimiter!r}.")
    check_choice("--decimal", table.decimal, (".", ","))
    if table.thousands is not None and (len(table.thousands) != 1 or table.thousands == table.decimal):
        raise ValueError(f"--thousands must be one character that is not the decimal point, got {table.thousands!r}.")
    if table.columns and table.drop:
        raise ValueError("pass --columns to take or --drop to leave out, not both.")

    options: dict[str, object] = {"decimal": table.decimal}
    if int(pd.__version__.split(".")[0]) < 3:  # later versions always read the nearest float
        options["float_precision"] = "round_trip"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # of cells that pandas would drop
            lines, delimiter, names = _header(path, table)
            label = _place_of_labels(path, names, table)
            options["dtype"] = {label: str} if table.thousands is None else str
            rows = {"header": 0, "names": range(len(names)), "index_col": False, "skiprows": lines}
            frame = pd.read_csv(path, sep=delimiter, **rows, **options, **COMMON)
    except pd.errors.EmptyDataError as error:
        raise ValueError(f"{path} is empty; expected a header line with the names of the columns.") from error
    except (pd.errors.ParserError, pd.errors.ParserWarning) as error:
        reason = " ".join(str(error).split()).removeprefix("Error tokenizing data. C error: ")
        raise ValueError(
            f"{path} is not a table ({reason.rstrip('.')}); give each line as many cells as the header."
        ) from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text; save it with that encoding.") from error
    if frame.empty:
        raise ValueError(f"{path} has a header line but no rows.")
    return _labeled(frame, names, label, path, table)


def _header(path: Path, table: ProblemOptions) -> tuple[int, str, list[str]]:
    """Return the number of lines before the header, the delimiter, and the names of the columns."""
    import pandas as pd

    with path.open(encoding="utf-8-sig") as file:
        first = file.readline().strip().strip('"')
    is_hint, delimiter = first.lower().startswith("sep=") and len(first) <= 5, table.delimiter  # hint of Excel
    if is_hint and delimiter is None:
        delimiter = first[4:] or "\t"
    candidates = DELIMITERS if delimiter is None else (WORDS.get(delimiter, delimiter),)
    rows = {"header": None, "nrows": 1, "dtype": str, "skiprows": int(is_hint), "keep_default_na": False}
    headers = {}
    for mark in candidates:
        cells = pd.read_csv(path, sep=mark, **rows, **COMMON | {"na_values": None}).iloc[0]
        headers[mark] = [str(name).strip() for name in cells]
    best = max(candidates, key=lambda mark: (table.label in headers[mark], len(headers[mark])))
    return int(is_hint), best, headers[best]


def _place_of_labels(path: Path, names: Sequence[str], table: ProblemOptions) -> int:
    """Refuse repeated and unknown names of columns; return the position of the labels."""
    columns = ", ".join(printable(name) for name in names[:20] if name) + (", .." if len(names) > 20 else "")
    if repeated := next((name for name, count in Counter(names).items() if name and count > 1), None):
        raise ValueError(f"{path} has more than one column {printable(repeated)!r}; rename one of them.")
    if table.label is None and sum(map(_is_number, names)) >= max(1, len(names) - 1):
        raise ValueError(f"the first line of {path} holds data, {columns}; give it a header of column names.")
    if table.label is None:
        raise ValueError(f"name the column of {path} that holds the labels (--label); it has {columns}.")
    for name in (table.label, *_names(table.columns), *_names(table.drop)):
        if not name or name not in names:
            raise ValueError(f"{path} has no column {name!r}{like(name, names)}; its columns are {columns}.")
    if table.label in _names(table.columns):
        raise ValueError(f"column {table.label!r} holds the labels of {path}; take other columns as features.")
    return names.index(table.label)


def _labeled(frame: pd.DataFrame, names: Sequence[str], label: int, path: Path, table: ProblemOptions) -> Table:
    """Take features and labels from the cells of a file."""
    import pandas as pd

    remarks = []
    features = [names.index(name) for name in _names(table.columns)]
    if not features:
        unwanted = _names(table.drop)
        columns = [k for k, name in enumerate(names) if k != label and name not in unwanted]
        features = [k for k in columns if names[k] or not frame[k].isna().all()]
    for k in [k for k in features if not names[k]]:
        if not _counts_rows(frame[k]):
            raise ValueError(f"column {k + 1} of {path} has no name; give it one.")
        features.remove(k)
        remarks.append("The column without a name numbers the rows; it is left out.")
    if not features:
        raise ValueError(f"{path} has the label column {table.label!r} only; expected at least one feature.")
    missing = frame[[*features, label]].isna()
    if n_missing := int(missing.any(axis=1).sum()):
        if not table.skip_missing or n_missing == len(frame):
            row, k = np.argwhere(missing.to_numpy())[0]
            raise ValueError(
                f"row {row + 1} of {path}, column {names[missing.columns[k]]!r}, is missing; {n_missing:,} of "
                f"{len(frame):,} rows have such cells: fill them, or leave these rows out (--skip-missing)."
            )
        frame = frame[~missing.any(axis=1)]
        remarks.append(f"{n_missing:,} of {len(frame) + n_missing:,} rows with missing cells are left out.")
    numbers = {names[k]: _numbers(frame[k], names[k], path, table) for k in features}
    try:
        X = check_data(pd.DataFrame(numbers))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    return Table(X, _labels(frame[label]), tuple(remarks))


def _counts_rows(column: pd.Series[object]) -> bool:
    """Return whether a column counts from 0, as pandas writes it, or from 1, as R does."""
    return any((column.astype(str) == [str(k + first) for k in range(len(column))]).all() for first in (0, 1))


def _numbers(column: pd.Series[object], name: str, path: Path, table: ProblemOptions) -> pd.Series[object]:
    """Read text that groups digits by thousands, if asked to; refuse all other text, and say how it might be meant."""
    if column.dtype.kind in "iu" and (column.max() > 2**53 or column.min() < -(2**53)):
        raise ValueError(f"column {name!r} of {path} holds whole numbers above 2^53, which float64 changes; --drop it.")
    if column.dtype.kind in "biuf":
        return column
    point, mark = table.decimal, table.thousands
    text = column.astype(str).str.strip()
    if mark is not None:
        odd = text[~(text.str.fullmatch(_grouped(mark, point)) | text.str.replace(point, ".").map(_is_number))]
        if not len(odd):
            return text.str.replace(mark, "", regex=False).str.replace(point, ".", regex=False).astype(float)
        raise ValueError(f"column {name!r} of {path} holds {printable(odd.iloc[0])!r}; expected groups of 3 digits.")
    cell = next((cell for cell in text if not _is_number(cell)), text.iloc[0])
    readings = []
    if re.fullmatch(_grouped(",", "."), cell):
        readings.append(f"--thousands , reads {cell.replace(',', '')}")
    if point == "." and _is_number(cell.replace(",", ".", 1)):
        readings.append(f"--decimal , reads {cell.replace(',', '.', 1)}")
    if point == "," and _is_number(cell):
        readings.append(f"without --decimal , it reads {cell}")
    remedy = f"say what its mark is: {', and '.join(readings)}" if readings else "encode it, or leave it out (--drop)"
    raise ValueError(f"column {name!r} of {path} holds {printable(cell)!r}; expected numbers: {remedy}.")


def _grouped(mark: str, point: str) -> str:
    """Match numbers with digits grouped by threes."""
    return rf"[+-]?\d{{1,3}}({re.escape(mark)}\d{{3}})+({re.escape(point)}\d+)?"


def _labels(column: pd.Series[str]) -> Array:
    """Return labels as numbers if all are numbers (1 and 1.0 are one label), else as text."""
    text: NDArray[np.str_] = column.str.strip().to_numpy(dtype=str)
    if not all(_is_number(cell) and not re.fullmatch(r"[+-]?\d{16,}", cell) for cell in text):  # float64 merges those
        return text
    numbers = text.astype(np.float64)
    is_whole = np.abs(numbers).max() < 2**53 and np.array_equal(np.rint(numbers), numbers)
    return numbers.astype(np.int64) if is_whole else numbers


def _is_number(cell: str) -> bool:
    try:
        return bool(np.isfinite(float(cell))) and "_" not in cell
    except ValueError:
        return False


Value = str | float | int | bool | None


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


def check_limits(limits: SolverOptions) -> None:
    """Refuse limits of a solve, before any work."""
    validation.check_integer("--seed", limits.seed, 0, 2**32 - 1)
    Budget(limits.max_time, limits.max_iter)
    if limits.tol is not None:
        validation.check_limit("tol", limits.tol, "relative gap")


def check_outputs(source: Path, outputs: Mapping[str, Path]) -> None:
    """Refuse files that cannot be written, or that are the input or each other under another name, before any work."""
    for path in outputs.values():
        files.check_target(path)
    for (earlier, first), (option, path) in combinations({"the input": source, **outputs}.items(), 2):
        is_same = path.exists() and first.exists() and path.samefile(first)  # also by a hard link
        if is_same or path.resolve() == first.resolve():
            raise ValueError(f"{option} {path} would overwrite {earlier}, {first}; name another file.")


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
    return read_table(path, options)


def _names(values: list[str] | None) -> list[str]:
    """Return the names in options that may be repeated, each a line of CSV."""
    return [name.strip() for line in csv.reader(values or [], skipinitialspace=True) for name in line if name.strip()]


@dataclass(frozen=True, eq=False)
class Stated:
    """A problem stated for some examples, their labels, and the other examples, prepared as they are."""

    problem: Problem
    labels: Array
    held_out_X: FloatArray
    other_labels: Array


def state(table: Table, options: ProblemOptions, held_out: NDArray[np.bool_] | None = None) -> Stated:
    """Prepare data and state the problem for all examples but those that are held out."""
    kinds = labeled_statements(options.statement)
    kind = kinds[check_choice("--statement", options.statement, kinds)]
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
    """Draw 30 % of each class to hold out; each keeps enough for its target neighbors."""
    if type_of_target(y) == "continuous":
        raise ValueError("the labels are numbers, and not classes.")
    rng, out = np.random.default_rng(0), np.zeros(len(y), dtype=bool)
    for label in np.unique(y):
        rows = np.flatnonzero(y == label)
        out[rng.permutation(rows)[: max(min(int(0.3 * len(rows)), len(rows) - n_neighbors - 2), 0)]] = True
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
    """Say how many target neighbors `--plot` draws by; refuse problems without classes or a single metric."""
    if stated.problem.zero.ndim > 2 or type_of_target(stated.labels) == "continuous":
        raise ValueError("--plot draws classes under one metric; this problem has no classes, or several metrics.")
    smallest = int(np.unique(stated.labels, return_counts=True)[1].min())
    if smallest < 2:
        raise ValueError("--plot needs at least two examples of every class.")
    return min(n_neighbors, smallest - 1)


def data_beside(proof: Path) -> Path:
    """Return the file for the data that a proof is about."""
    return proof.with_suffix(".data.npz")


def check_proof(proof: Path, problem: Problem) -> None:
    """Raise an error, before the solve, for a proof that cannot be written or checked, or would replace other data."""
    beside = data_beside(proof)
    if not isinstance(problem, Provable):
        raise ValueError(
            f"--proof does not take {type(problem).__name__}: proofs are of convex programs with multipliers."
        )
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
