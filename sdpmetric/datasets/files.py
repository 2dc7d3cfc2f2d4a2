"""Arrays from CSV and NPZ files."""

from __future__ import annotations

import csv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
Labels = NDArray[np.generic]


def read_npz(path: str | Path) -> dict[str, NDArray[np.generic]]:
    """Read every array of an NPZ file, without pickle.

    Parameters
    ----------
    path : str or Path

    Raises
    ------
    ValueError
        If it is not an NPZ file, or holds Python objects.
    """
    if not Path(path).is_file():
        raise ValueError(f"there is no file {path}.")
    if not zipfile.is_zipfile(path):
        raise ValueError(f"{path} is not an NPZ file; write one with numpy.savez.")
    with np.load(Path(path), allow_pickle=False) as file:
        arrays: dict[str, NDArray[np.generic]] = {}
        for name in file.files:
            try:
                arrays[name] = file[name]
            except ValueError as error:
                raise ValueError(
                    f"the array {name!r} of {path} holds Python objects, which are not loaded since they can run code; "
                    "save it as numbers or strings."
                ) from error
    return arrays


def read_csv(path: Path, label: str | None) -> tuple[FloatArray, Labels]:
    """Read a table of numbers with a header line and one column of labels.

    Parameters
    ----------
    path : Path
    label : str or None
        The column of the labels; a table without is refused by a sentence that lists the columns.

    Returns
    -------
    X : (n, d) array
        The other columns, in the file's order.
    y : (n,) array of str

    Raises
    ------
    ValueError
        If the file is malformed; the message names the first bad cell.
    """
    rows = _csv_rows(path)
    _, header = next(rows, (0, []))
    columns = ", ".join(header)
    if not header:
        raise ValueError(f"{path} is empty; expected a header line with the names of the columns.")
    if label is None:
        raise ValueError(f"name the label column of {path} (label=, or --label on the command line); it has {columns}.")
    if header.count(label) != 1:
        times = "no" if label not in header else "more than one"
        raise ValueError(f"{path} has {times} column {label!r}; its columns are {columns}.")
    at = header.index(label)
    features = header[:at] + header[at + 1 :]
    if not features:
        raise ValueError(f"{path} has the label column {label!r} only; expected at least one column of features.")
    X: list[FloatArray] = []
    y: list[str] = []
    for line, cells in rows:
        where = f"row {len(y) + 1} of {path} (line {line})"
        if len(cells) != len(header):
            raise ValueError(f"{where} has {len(cells)} cells; the header has {len(header)} columns.")
        if not cells[at]:
            raise ValueError(f"{where} has no label in column {label!r}; drop the row or give it one.")
        y.append(cells[at])
        X.append(_numbers(cells[:at] + cells[at + 1 :], features, where))
    if not y:
        raise ValueError(f"{path} has a header line but no rows.")
    return np.array(X), np.array(y)


def _csv_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Line number and stripped cells of each row that is not blank."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file, strict=True)
        try:
            for row in reader:
                cells = [cell.strip() for cell in row]
                if any(cells):
                    yield reader.line_num, cells
        except UnicodeDecodeError as error:
            raise ValueError(f"{path} is not UTF-8 text; save it with that encoding.") from error
        except csv.Error as error:
            raise ValueError(f"line {reader.line_num} of {path} is not valid CSV: {error}.") from error


def _numbers(cells: list[str], columns: list[str], where: str) -> FloatArray:
    """The cells as finite numbers, or an error that names the first cell that is none."""
    try:
        values = np.array(cells, dtype=np.float64)
        if np.isfinite(values).all():
            return values
    except ValueError:
        pass
    for cell, column in zip(cells, columns, strict=True):
        try:
            finite = bool(np.isfinite(float(cell)))
        except ValueError:
            finite = False
        if not finite:
            what = f"holds {cell!r}" if cell else "is empty"
            raise ValueError(
                f"{where}, column {column!r}, {what}; expected a finite number: "
                "fill the cell, or drop or encode the column."
            )
    raise ValueError(f"{where} does not hold numbers only.")
