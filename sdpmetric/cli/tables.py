"""Tables in CSV files, as spreadsheets, pandas and R write them: features by name, and one column of labels."""

from __future__ import annotations

import csv
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray
from sdpmetric.core.files import printable
from sdpmetric.core.validation import check_choice, like

if TYPE_CHECKING:
    import pandas as pd

SUFFIXES = (".csv", ".tsv", ".txt")
# Candidates for the delimiter: the one that divides the header into most columns is taken, the first of equals.
DELIMITERS = (",", ";", "\t", "|")
# Names of characters that are hard to type in a shell.
WORDS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "space": " "}
# Markers of a missing cell that people use beside those of `pandas.read_csv`.
MARKERS = ("?",)

Array = NDArray[np.generic]


@dataclass(frozen=True, eq=False)
class Table:
    """Labeled data with the names of their features; `remarks` says what was left out."""

    X: Array  # (n, d)
    y: Array  # (n,)
    features: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """Which columns of a CSV file are read, and how its cells are written."""

    label: str | None = None
    columns: Sequence[str] = ()
    drop: Sequence[str] = ()
    delimiter: str | None = None
    decimal: str = "."
    thousands: str | None = None
    skip_missing: bool = False

    def __post_init__(self) -> None:
        if self.delimiter is not None and len(WORDS.get(self.delimiter, self.delimiter)) != 1:
            raise ValueError(f"--delimiter must be one character or 'tab', got {self.delimiter!r}.")
        check_choice("--decimal", self.decimal, (".", ","))
        if self.thousands is not None and (len(self.thousands) != 1 or self.thousands == self.decimal):
            raise ValueError(
                f"--thousands must be one character that is not the decimal point, got {self.thousands!r}."
            )
        if self.columns and self.drop:
            raise ValueError("pass --columns to take or --drop to leave out, not both.")


def read_table(path: Path, dialect: Dialect) -> Table:
    """Read the features and labels of a CSV file, or say in a sentence what is wrong with it."""
    import pandas as pd

    skipped, delimiter, header = _header(path, dialect.delimiter)
    options = {
        "sep": delimiter,
        "names": range(len(header)),
        "skiprows": skipped,
        "header": None,
        "index_col": False,
        "skipinitialspace": True,
        "encoding": "utf-8-sig",
        "na_values": MARKERS,
        "decimal": dialect.decimal,
        "low_memory": False,
    }
    if int(pd.__version__.split(".")[0]) < 3:  # later ones always read the nearest float
        options["float_precision"] = "round_trip"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # of cells that pandas would drop
            label = _check_names(path, header, dialect)
            frame = pd.read_csv(path, dtype={label: str} if dialect.thousands is None else str, **options)
    except pd.errors.EmptyDataError:
        frame = pd.DataFrame(columns=range(len(header)))
    except (pd.errors.ParserError, pd.errors.ParserWarning) as error:
        reason = " ".join(str(error).split()).removeprefix("Error tokenizing data. C error: ")
        raise ValueError(
            f"{path} is not a table of {len(header)} columns ({reason.rstrip('.')}); give each line as many cells as "
            "the header."
        ) from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text; save it with that encoding.") from error
    if frame.empty:
        raise ValueError(f"{path} has a header line but no rows.")
    return _table(frame, header, path, dialect)


def _lines(path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of lines read and the cells of each row that is not blank."""
    limit = csv.field_size_limit(2**31 - 1)
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, delimiter=delimiter, skipinitialspace=True)
            for row in reader:
                if any(cell.strip() for cell in row):
                    yield reader.line_num, [cell.strip() for cell in row]
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text; save it with that encoding.") from error
    except csv.Error as error:
        raise ValueError(f"{path} is not valid CSV: {error}.") from error
    finally:
        csv.field_size_limit(limit)


def _header(path: Path, delimiter: str | None) -> tuple[int, str, list[str]]:
    """Lines up to the end of the header, the delimiter, and the names of the columns."""
    if delimiter is None:
        _, first = next(_lines(path, "\0"), (0, [""]))
        if first[0].lower().startswith("sep=") and len(first[0]) <= 5:  # Excel's hint
            delimiter = first[0][4:] or "\t"
    if delimiter is None:
        widths = {candidate: len(next(_lines(path, candidate), (0, []))[1]) for candidate in DELIMITERS}
        delimiter = max(DELIMITERS, key=widths.__getitem__)
    delimiter = WORDS.get(delimiter, delimiter)
    for line, cells in _lines(path, delimiter):
        if not delimiter.join(cells).lower().startswith("sep=") or len(delimiter.join(cells)) > 5:
            return line, delimiter, cells
    raise ValueError(f"{path} is empty; expected a header line with the names of the columns.")


def _check_names(path: Path, header: Sequence[str], dialect: Dialect) -> int:
    """Refuse repeated and unknown names of columns; return the position of the labels."""
    names = [name for name in header if name]
    if repeated := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"{path} has more than one column {printable(repeated)!r}; rename one of them.")
    columns = ", ".join(map(printable, names[:20])) + (", .." if len(names) > 20 else "")
    if dialect.label is None:
        if sum(map(_is_number, header)) >= max(1, len(header) - 1):
            raise ValueError(f"the first line of {path} holds data, {columns}; give it a header of column names.")
        raise ValueError(f"name the column of {path} that holds the labels (--label); it has {columns}.")
    for name in (dialect.label, *dialect.columns, *dialect.drop):
        if name not in names:
            raise ValueError(f"{path} has no column {name!r}{like(name, names)}; its columns are {columns}.")
    if dialect.label in dialect.columns:
        raise ValueError(f"column {dialect.label!r} holds the labels of {path}; take other columns as features.")
    return header.index(dialect.label)


def _table(frame: pd.DataFrame, header: Sequence[str], path: Path, dialect: Dialect) -> Table:
    label, remarks = header.index(str(dialect.label)), list[str]()
    features = [header.index(name) for name in dialect.columns]
    if not features:
        features = [k for k, name in enumerate(header) if k != label and name not in dialect.drop]
        features = [k for k in features if header[k] or not frame[k].isna().all()]
        unnamed = [k for k in features if not header[k]]
        counting = [k for k in unnamed if _counts_rows(frame[k])]
        if others := [k for k in unnamed if k not in counting]:
            raise ValueError(f"column {others[0] + 1} of {path} has no name; give it one.")
        if counting:
            features = [k for k in features if k not in counting]
            remarks.append("The column without a name numbers the rows; it is left out.")
    if not features:
        raise ValueError(f"{path} has the label column {dialect.label!r} only; expected at least one feature.")
    used = frame[[*features, label]]
    missing = used.isna().any(axis=1)
    if n_missing := int(missing.sum()):
        if not dialect.skip_missing:
            row = int(np.flatnonzero(missing)[0])
            name = next(header[k] for k in (*features, label) if used[k].isna().iloc[row])
            raise ValueError(
                f"row {row + 1} of {path}, column {name!r}, is missing; {n_missing:,} of {len(frame):,} rows have such "
                "cells: fill them, or leave these rows out (--skip-missing)."
            )
        used = used[~missing]
        remarks.append(f"{n_missing:,} of {len(frame):,} rows with missing cells are left out.")
    if used.empty:
        raise ValueError(f"every row of {path} has missing cells; fill them.")
    X = np.column_stack([_numbers(used[k], header[k], path, dialect) for k in features])
    return Table(X, _labels(used[label]), tuple(header[k] for k in features), tuple(remarks))


def _counts_rows(column: pd.Series[object]) -> bool:
    """Whether a column counts from 0, as pandas writes it, or from 1, as R does."""
    counts = np.arange(len(column))
    values = column.astype(str).to_numpy()
    return any(np.array_equal(values, (counts + first).astype(str)) for first in (0, 1))


def _numbers(column: pd.Series[object], name: str, path: Path, dialect: Dialect) -> FloatArray:
    if dialect.thousands is not None:
        text = column.astype(str).str.strip()
        point = dialect.decimal
        grouped = text.str.fullmatch(_grouped(dialect.thousands, point))
        if not (grouped | text.map(lambda cell: _is_number(cell.replace(point, ".")))).all():
            cell = next(cell for cell in text if not _is_number(cell.replace(point, ".")))
            raise ValueError(f"column {name!r} of {path} holds {printable(cell)!r}; expected groups of three digits.")
        column = text.str.replace(dialect.thousands, "", regex=False).str.replace(point, ".", regex=False).astype(float)
    if column.dtype.kind not in "biuf":
        text = next((str(cell) for cell in column if not _is_number(cell)), str(column.iloc[0]))
        readings = []
        if re.fullmatch(_grouped(",", "."), text):
            readings.append(f"--thousands , reads {text.replace(',', '')}")
        if dialect.decimal == "." and _is_number(text.replace(",", ".", 1)):
            readings.append(f"--decimal , reads {text.replace(',', '.', 1)}")
        if dialect.decimal == "," and _is_number(text):
            readings.append(f"without --decimal , it reads {text}")
        remedy = "expected numbers: leave the column out (--drop), encode it, or correct the cell"
        if readings:
            remedy = f"say what its mark is: {', and '.join(readings)}"
        raise ValueError(f"column {name!r} of {path} holds {printable(text)!r}; {remedy}.")
    if column.dtype.kind in "iu" and not np.array_equal(column.astype(np.float64).astype(column.dtype), column):
        raise ValueError(f"column {name!r} of {path} holds whole numbers above 2^53, which float64 changes; --drop it.")
    numbers: FloatArray = column.to_numpy(dtype=np.float64)
    if not np.isfinite(numbers).all():
        row = int(np.flatnonzero(~np.isfinite(numbers))[0])
        raise ValueError(f"column {name!r} of {path} is infinite in row {row + 1}; correct it or leave the row out.")
    return numbers


def _grouped(mark: str, point: str) -> str:
    """Match numbers whose digits are grouped by threes."""
    return rf"[+-]?\d{{1,3}}({re.escape(mark)}\d{{3}})+({re.escape(point)}\d+)?"


def _labels(column: pd.Series[str]) -> Array:
    """Return labels as numbers if all are numbers (1 and 1.0 are one label), else as text."""
    text: NDArray[np.str_] = column.str.strip().to_numpy(dtype=str)
    if not all(map(_is_number, text)):
        return text
    numbers = text.astype(np.float64)
    if np.abs(numbers).max() < 2**53 and np.array_equal(np.rint(numbers), numbers):
        return numbers.astype(np.int64)
    return numbers


def _is_number(cell: object) -> bool:
    try:
        return bool(np.isfinite(float(str(cell)))) and "_" not in str(cell)
    except ValueError:
        return False
