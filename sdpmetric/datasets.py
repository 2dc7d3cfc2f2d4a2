"""Labelled data by name or from a file, and the two preparations that the command line offers."""

from __future__ import annotations

import csv
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import datasets as sklearn_datasets
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from sdpmetric import validation

FloatArray = NDArray[np.float64]
Labels = NDArray[np.generic]

NAMED: dict[str, Callable[..., tuple[FloatArray, Labels]]] = {
    "iris": sklearn_datasets.load_iris,
    "wine": sklearn_datasets.load_wine,
    "digits": sklearn_datasets.load_digits,
    "breast_cancer": sklearn_datasets.load_breast_cancer,
}


def load(name_or_path: str | Path, label: str | None = None) -> tuple[NDArray[np.generic], Labels]:
    """Load labelled data.

    Parameters
    ----------
    name_or_path : str or Path
        The name of a data set that scikit-learn ships ("iris", "wine", "digits", "breast_cancer"), or the path of a
        ``.csv`` file with a header line, or of an ``.npz`` file with the arrays ``X`` and ``y``. A name goes before a
        file of the same name.
    label : str, optional
        The column of a CSV file that holds the labels; every other column is a numeric feature.

    Returns
    -------
    X : (n, d) array
        In a file's order of columns. An NPZ file's X is returned as it is.
    y : (n,) array
        Strings, for a CSV file.

    Raises
    ------
    ValueError
        If there is no such data set or file, or the file does not hold what it should; the sentence says where.
    """
    path = Path(name_or_path)
    named = str(name_or_path) in NAMED
    if label is not None and (named or path.suffix.lower() == ".npz"):
        raise ValueError(f"{name_or_path} brings its own labels; name a label column only with a CSV file.")
    if named:
        return NAMED[str(name_or_path)](return_X_y=True)
    if not path.is_file():
        raise ValueError(f"{name_or_path} is neither a data set ({', '.join(NAMED)}) nor the path of a file.")
    if path.suffix.lower() == ".csv":
        return _load_csv(path, label)
    if path.suffix.lower() == ".npz":
        arrays = read_npz(path)
        if "X" not in arrays or "y" not in arrays:
            raise ValueError(f"{path} holds the arrays {', '.join(arrays) or '(none)'}; expected 'X' and 'y'.")
        return arrays["X"], arrays["y"]
    raise ValueError(f"{path} is not a .csv or .npz file; convert it to one of them.")


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


def _load_csv(path: Path, label: str | None) -> tuple[FloatArray, Labels]:
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


def standardize(X: ArrayLike) -> FloatArray:
    """Every feature less its mean, divided by its standard deviation; constant features become 0.

    Parameters
    ----------
    X : (n, d) array
    """
    scaled: FloatArray = StandardScaler().fit_transform(validation.check_data(X).astype(np.float64))
    return scaled


def reduce(X: ArrayLike, n_components: int, *, mean_norm: float = 4.0) -> FloatArray:
    """The first principal components, scaled to a mean Euclidean norm.

    LMNN's optimal value does not depend on the scale; a moderate one keeps the numbers of all solvers moderate.

    Parameters
    ----------
    X : (n, d) array
    n_components : int
        At most ``min(n, d)``.
    mean_norm : float, default 4

    Returns
    -------
    Z : (n, n_components) array

    Raises
    ------
    ValueError
        If `n_components` is out of range.
    """
    data = validation.check_data(X).astype(np.float64)
    if not 1 <= n_components <= min(data.shape):
        raise ValueError(
            f"cannot keep {n_components} principal components of {data.shape[0]} examples with {data.shape[1]} "
            f"features; keep between 1 and {min(data.shape)}."
        )
    Z: FloatArray = PCA(n_components, svd_solver="full").fit_transform(data)
    size = float(np.linalg.norm(Z, axis=1).mean())
    return Z * (mean_norm / size) if size > 0 else Z


def concentric_circles(
    n_circles: int = 4, n_points: int = 120, radius: float = 20.0
) -> tuple[FloatArray, NDArray[np.int64], NDArray[np.int64]]:
    """Concentric circles of alternating classes, nearer to each other than the points of a circle are.

    After Fig. 7 of Weinberger and Saul (2009) [WS2009]: every nearest neighbor is of the other class, and no single
    linear map changes that, since what must be stretched is the radius. Three metrics, each for a third of the
    directions, can (a metric does not tell a direction from its opposite).

    Parameters
    ----------
    n_circles : int, default 4
        At radii ``radius``, ``radius + 1`` and so on.
    n_points : int, default 120
        On each circle, at the same angles.
    radius : float, default 20
        Of the innermost circle; its neighbors are ``2 * pi * radius / n_points`` apart.

    Returns
    -------
    X : (n_circles * n_points, 2) array
    y : (n,) integer array
        0 and 1 in turns.
    thirds : (n,) integer array
        0, 1 or 2: the third of the directions that an example lies in, opposite directions being one.
    """
    angle = np.tile(2 * np.pi * (np.arange(n_points) + 0.25) / n_points, n_circles)
    circle = np.repeat(np.arange(n_circles), n_points)
    X = (radius + circle)[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return X, circle % 2, (angle % np.pi * 3 / np.pi).astype(np.int64)
