"""Tables from CSV and Parquet files."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation
from sdpmetric.core.files import printable
from sdpmetric.core.validation import check_frame, like

Labels = NDArray[np.generic]

# What is taken for the delimiter of a CSV file: whatever divides its header into most columns, the first of equals.
DELIMITERS = (",", ";", "\t", "|")
# What a word on the command line means, where a character is hard to type.
WORDS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";"}
TABLES = (".csv", ".tsv", ".txt", ".parquet")
# What pyarrow raises where bytes of a Parquet file are damaged; its own errors are of these kinds.
DAMAGED = (ValueError, TypeError, LookupError, OSError, ArithmeticError, AttributeError, RuntimeError, MemoryError)


@dataclass(frozen=True, eq=False)
class Table:
    """Data with names.

    Attributes
    ----------
    X : (n, d) array
    y : (n,) array or None
        Labels; of a file, strings. None where the table has none.
    features : tuple of str
        Names of the columns of X; empty where they have none.
    label : str or None
        The column of the labels.
    n_skipped : int
        Rows with missing cells that were left out.

    See Also
    --------
    Columns, load_table

    Examples
    --------
    >>> from sdpmetric import datasets
    >>> datasets.load_table("iris").features[0]
    'sepal length (cm)'
    """

    X: NDArray[np.generic]
    y: Labels | None
    features: tuple[str, ...] = ()
    label: str | None = None
    n_skipped: int = 0

    @property
    def labels(self) -> Labels:
        """The labels; without any, a ValueError says how to name their column."""
        if self.y is None:
            raise ValueError("these data have no labels; name their column (label=, or --label).")
        return self.y


@dataclass(frozen=True)
class Columns:
    """Which columns of a table are read, and how cells are written.

    Attributes
    ----------
    label : str or None
        The column of the labels.
    features : sequence of str
        The columns to take, in this order; default: all but the labels and those of `drop`.
    drop : sequence of str
        Columns to leave out.
    delimiter : str or None
        Between the cells of a CSV file: a character, or "tab"; None: the one of comma, semicolon, tab and bar that
        divides the header into most columns.
    decimal : str
        The decimal point of a CSV file, "." or ",".
    labeled : bool
        Whether labels are needed; else they are read where the file has their column.
    skip_missing : bool
        Leave out rows of a CSV file where a cell that is read is empty; else such a row is an error.

    See Also
    --------
    Table, load_table

    Examples
    --------
    >>> from sdpmetric import datasets
    >>> datasets.Columns(label="species", drop=["id"]).decimal
    '.'
    """

    label: str | None = None
    features: Sequence[str] = ()
    drop: Sequence[str] = ()
    delimiter: str | None = None
    decimal: str = "."
    labeled: bool = True
    skip_missing: bool = False

    def __post_init__(self) -> None:
        if self.delimiter is not None and len(WORDS.get(self.delimiter, self.delimiter)) != 1:
            raise ValueError(f"delimiter must be one character or 'tab', got {self.delimiter!r}.")
        validation.check_choice("decimal", self.decimal, (".", ","))
        if self.features and self.drop:
            raise ValueError("pass the columns to take or those to drop, not both.")

    def chosen(self, header: Sequence[str], path: Path) -> tuple[list[str], str | None]:
        """The features and the label column of a file, or an error that says which column it lacks."""
        columns = ", ".join(map(printable, header))
        if self.label is None and self.labeled:
            if sum(map(is_number, header)) >= max(1, len(header) - 1):
                raise ValueError(f"the first line of {path} holds data, {columns}; give it a header of column names.")
            raise ValueError(
                f"name the label column of {path} (label=, or --label on the command line); it has {columns}."
            )
        wanted = [self.label] if self.label is not None and (self.labeled or self.label in header) else []
        for name in (*wanted, *self.features, *self.drop):
            if header.count(name) != 1:
                times = "no" if name not in header else "more than one"
                raise ValueError(f"{path} has {times} column {name!r}{like(name, header)}; its columns are {columns}.")
        features = list(self.features) or [name for name in header if name not in (*wanted, *self.drop)]
        if self.label in features:
            raise ValueError(f"column {self.label!r} holds the labels of {path}; take other columns as features.")
        if not features:
            raise ValueError(
                f"{path} has the label column {self.label!r} only; expected at least one column of features."
            )
        return features, wanted[0] if wanted else None


def read_table(path: Path, columns: Columns) -> Table:
    """Read a table of numbers with named columns, one of them labels, from a CSV or a Parquet file."""
    return _read_parquet(path, columns) if path.suffix.lower() == ".parquet" else _read_csv(path, columns)


def _read_parquet(path: Path, columns: Columns) -> Table:
    try:
        import pandas
    except ImportError as error:
        raise ImportError("Parquet files need pandas and pyarrow: pip install pandas pyarrow.") from error
    try:
        frame = pandas.read_parquet(path)
    except DAMAGED as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise ValueError(f"{path} is damaged or no Parquet file ({reason}); write or copy it again.") from error
    features, label = columns.chosen([str(name) for name in frame.columns], path)
    y = None
    if label is not None:
        missing = np.flatnonzero(frame[label].isna())
        if len(missing):
            raise ValueError(
                f"row {missing[0] + 1} of {path} has no label in column {label!r}; drop the row or give it a label."
            )
        y = np.array([str(value) for value in frame[label]])
    if not len(frame):
        raise ValueError(f"{path} has columns but no rows.")
    check_frame(frame[features], str(path))
    return Table(frame[features].to_numpy(dtype=np.float64), y, tuple(features), label)


def _read_csv(path: Path, columns: Columns) -> Table:
    (_, header), *rows = [*_csv_rows(path, _delimiter(path, columns.delimiter))] or [(0, [])]
    if not header:
        raise ValueError(f"{path} is empty; expected a header line with the names of the columns.")
    features, label = columns.chosen(header, path)
    needed = [header.index(name) for name in (features if label is None else [*features, label])]
    X: list[FloatArray] = []
    y: list[str] = []
    for number, (line, cells) in enumerate(rows, 1):
        location = f"row {number} of {path} (line {line})"
        if len(cells) != len(header):
            raise ValueError(f"{location} has {len(cells)} cells; the header has {len(header)} columns.")
        row = [cells[index] for index in needed]
        if "" in row and columns.skip_missing:
            continue
        if "" in row:
            n_missing = sum("" in [values[index] for index in needed if index < len(values)] for _, values in rows)
            raise ValueError(
                f"{location}, column {header[needed[row.index('')]]!r}, is empty; {n_missing} such rows: fill them, or "
                "leave them out (skip_missing=True, or --skip-missing on the command line)."
            )
        y += row[len(features) :]
        numbers = row[: len(features)]
        if columns.decimal == ",":
            numbers = [cell.replace(",", ".") for cell in numbers]
        X.append(_numbers(numbers, features, location))
    if not X:
        raise ValueError(f"{path} has a header line but no rows.")
    return Table(np.array(X), None if label is None else np.array(y), tuple(features), label, len(rows) - len(X))


def _delimiter(path: Path, delimiter: str | None) -> str:
    if delimiter is not None:
        return WORDS.get(delimiter, delimiter)
    widths = {candidate: len(next(_csv_rows(path, candidate), (0, []))[1]) for candidate in DELIMITERS}
    return max(DELIMITERS, key=widths.__getitem__)


def _csv_rows(path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Line number and stripped cells of each row that is not blank."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file, delimiter=delimiter, strict=True)
        try:
            for row in reader:
                cells = [cell.strip() for cell in row]
                if any(cells):
                    yield reader.line_num, cells
        except UnicodeDecodeError as error:
            raise ValueError(f"{path} is not UTF-8 text; save it with that encoding.") from error
        except csv.Error as error:
            raise ValueError(f"line {reader.line_num} of {path} is not valid CSV: {error}.") from error


def is_number(cell: str) -> bool:
    """Say whether a cell of a table holds a finite number."""
    try:
        return bool(np.isfinite(float(cell)))
    except ValueError:
        return False


def _is_text(cell: str) -> bool:
    try:
        float(cell.replace(",", ".", 1))
    except ValueError:
        return True
    return False


def _numbers(cells: list[str], columns: list[str], location: str) -> FloatArray:
    """The cells as finite numbers, or an error that names the first cell that is none."""
    if all(map(is_number, cells)):
        return np.array([float(cell) for cell in cells])
    text = [column for cell, column in zip(cells, columns, strict=True) if _is_text(cell)]
    if len(text) > 1:
        names, some = ", ".join(map(repr, text)), cells[columns.index(text[0])]
        raise ValueError(f"{location}, columns {names}, hold text such as {some!r}; drop (--drop) or encode these.")
    cell, column = next(pair for pair in zip(cells, columns, strict=True) if not is_number(pair[0]))
    if is_number(cell.replace(",", ".", 1)):
        remedy = "pass --decimal , (decimal=',') for decimal commas"
    else:
        remedy = "expected a finite number: fill the cell, or drop (--drop) or encode the column"
    raise ValueError(f"{location}, column {column!r}, holds {cell!r}; {remedy}.")
