"""Embedded data as tables."""

from __future__ import annotations

import csv
import sys
from io import TextIOWrapper
from pathlib import Path
from typing import TextIO

import numpy as np
from numpy.typing import NDArray

from sdpmetric.core.files import replacing, write_npz
from sdpmetric.datasets.files import is_number
from sdpmetric.models import Model

FORMATS = (".csv", ".npz", ".parquet")
# How a cell begins that a spreadsheet runs.
FORMULAS = ("=", "+", "-", "@", "\t", "\r")


def write(model: Model, Z: NDArray[np.float64], y: NDArray[np.generic] | None, path: Path | None) -> None:
    """Write an embedding, and labels where there are any."""
    names = [f"{(model.statement or 'component').replace('-', '_')}{number}" for number in range(Z.shape[1])]
    label = None if y is None else model.label or "label"
    if path is None:
        _csv(sys.stdout, names, Z, label, y)
        return
    if path.suffix.lower() not in FORMATS:
        raise ValueError(f"{path} must end in one of {', '.join(FORMATS)}.")
    if path.suffix.lower() == ".csv":
        with replacing(path) as raw:
            text = TextIOWrapper(raw, "utf-8", newline="")
            _csv(text, names, Z, label, y)
            text.detach()
    elif path.suffix.lower() == ".npz":
        arrays: dict[str, NDArray[np.generic]] = {"X": Z, "feature_names": np.array(names)}
        write_npz(path, arrays if y is None else arrays | {"y": y})
    else:
        try:
            import pandas
        except ImportError as error:
            raise ImportError("Parquet files need pandas and pyarrow: pip install pandas pyarrow.") from error
        frame = pandas.DataFrame(Z, columns=names)
        with replacing(path) as raw:
            (frame if y is None else frame.assign(**{str(label): y})).to_parquet(raw, index=False)


def _csv(
    file: TextIO, names: list[str], Z: NDArray[np.float64], label: str | None, y: NDArray[np.generic] | None
) -> None:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(map(_inert, names if label is None else [*names, label]))
    for row, numbers in enumerate(Z.tolist()):
        writer.writerow(numbers if y is None else [*numbers, _inert(str(y[row]))])


def _inert(text: str) -> str:
    """Text that no spreadsheet takes for a formula: with an apostrophe in front, where it begins like one."""
    return text if not text.startswith(FORMULAS) or is_number(text) else f"'{text}"
