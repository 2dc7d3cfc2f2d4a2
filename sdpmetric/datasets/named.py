"""Labelled data by name or from a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets as sklearn_datasets

from sdpmetric.datasets.files import FloatArray, Labels, read_csv, read_npz

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
        return read_csv(path, label)
    if path.suffix.lower() == ".npz":
        arrays = read_npz(path)
        if "X" not in arrays or "y" not in arrays:
            raise ValueError(f"{path} holds the arrays {', '.join(arrays) or '(none)'}; expected 'X' and 'y'.")
        return arrays["X"], arrays["y"]
    raise ValueError(f"{path} is not a .csv or .npz file; convert it to one of them.")
