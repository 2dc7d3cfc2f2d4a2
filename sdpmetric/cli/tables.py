"""Tables in CSV files, as spreadsheets, pandas and R write them: features by name, and one column of labels."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sdpmetric.core.files import printable
from sdpmetric.core.validation import check_choice, check_data, like

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

    options: dict[str, object] = {"decimal": dialect.decimal}
    if int(pd.__version__.split(".")[0]) < 3:  # later ones always read the nearest float
        options["float_precision"] = "round_trip"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # of cells that pandas would drop
            lines, delimiter, names = _header(path, dialect)
            label = _place_of_labels(path, names, dialect)
            options["dtype"] = {label: str} if dialect.thousands is None else str
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
    return _labeled(frame, names, label, path, dialect)


def _header(path: Path, dialect: Dialect) -> tuple[int, str, list[str]]:
    """Return the number of lines before the header, the delimiter, and the names of the columns."""
    import pandas as pd

    with path.open(encoding="utf-8-sig") as file:
        first = file.readline().strip().strip('"')
    is_hint, delimiter = first.lower().startswith("sep=") and len(first) <= 5, dialect.delimiter  # hint of Excel
    if is_hint and delimiter is None:
        delimiter = first[4:] or "\t"
    candidates = DELIMITERS if delimiter is None else (WORDS.get(delimiter, delimiter),)
    rows = {"header": None, "nrows": 1, "dtype": str, "skiprows": int(is_hint), "keep_default_na": False}
    headers = {}
    for mark in candidates:
        cells = pd.read_csv(path, sep=mark, **rows, **COMMON | {"na_values": None}).iloc[0]
        headers[mark] = [str(name).strip() for name in cells]
    best = max(candidates, key=lambda mark: (dialect.label in headers[mark], len(headers[mark])))
    return int(is_hint), best, headers[best]


def _place_of_labels(path: Path, names: Sequence[str], dialect: Dialect) -> int:
    """Refuse repeated and unknown names of columns; return the position of the labels."""
    columns = ", ".join(printable(name) for name in names[:20] if name) + (", .." if len(names) > 20 else "")
    if repeated := next((name for name, count in Counter(names).items() if name and count > 1), None):
        raise ValueError(f"{path} has more than one column {printable(repeated)!r}; rename one of them.")
    if dialect.label is None and sum(map(_is_number, names)) >= max(1, len(names) - 1):
        raise ValueError(f"the first line of {path} holds data, {columns}; give it a header of column names.")
    if dialect.label is None:
        raise ValueError(f"name the column of {path} that holds the labels (--label); it has {columns}.")
    for name in (dialect.label, *dialect.columns, *dialect.drop):
        if not name or name not in names:
            raise ValueError(f"{path} has no column {name!r}{like(name, names)}; its columns are {columns}.")
    if dialect.label in dialect.columns:
        raise ValueError(f"column {dialect.label!r} holds the labels of {path}; take other columns as features.")
    return names.index(dialect.label)


def _labeled(frame: pd.DataFrame, names: Sequence[str], label: int, path: Path, dialect: Dialect) -> Table:
    """Take features and labels from the cells of a file."""
    import pandas as pd

    remarks = []
    features = [names.index(name) for name in dialect.columns]
    if not features:
        kept = [k for k, name in enumerate(names) if k != label and name not in dialect.drop]
        features = [k for k in kept if names[k] or not frame[k].isna().all()]
    for k in [k for k in features if not names[k]]:
        if not _counts_rows(frame[k]):
            raise ValueError(f"column {k + 1} of {path} has no name; give it one.")
        features.remove(k)
        remarks.append("The column without a name numbers the rows; it is left out.")
    if not features:
        raise ValueError(f"{path} has the label column {dialect.label!r} only; expected at least one feature.")
    missing = frame[[*features, label]].isna()
    if n_missing := int(missing.any(axis=1).sum()):
        if not dialect.skip_missing or n_missing == len(frame):
            row, k = np.argwhere(missing.to_numpy())[0]
            raise ValueError(
                f"row {row + 1} of {path}, column {names[missing.columns[k]]!r}, is missing; {n_missing:,} of "
                f"{len(frame):,} rows have such cells: fill them, or leave these rows out (--skip-missing)."
            )
        frame = frame[~missing.any(axis=1)]
        remarks.append(f"{n_missing:,} of {len(frame) + n_missing:,} rows with missing cells are left out.")
    numbers = {names[k]: _numbers(frame[k], names[k], path, dialect) for k in features}
    try:
        X = check_data(pd.DataFrame(numbers))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    return Table(X, _labels(frame[label]), tuple(remarks))


def _counts_rows(column: pd.Series[object]) -> bool:
    """Whether a column counts from 0, as pandas writes it, or from 1, as R does."""
    return any((column.astype(str) == [str(k + first) for k in range(len(column))]).all() for first in (0, 1))


def _numbers(column: pd.Series[object], name: str, path: Path, dialect: Dialect) -> pd.Series[object]:
    """Read text that groups digits by thousands, if asked to; refuse all other text, and say how it might be meant."""
    if column.dtype.kind in "iu" and (column.max() > 2**53 or column.min() < -(2**53)):
        raise ValueError(f"column {name!r} of {path} holds whole numbers above 2^53, which float64 changes; --drop it.")
    if column.dtype.kind in "biuf":
        return column
    point, mark = dialect.decimal, dialect.thousands
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
    """Match numbers whose digits are grouped by threes."""
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
