"""Labeled data by name or from a file, and their customary split."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn import datasets as sklearn_datasets
from sklearn.model_selection import train_test_split
from sklearn.utils import Bunch

from sdpmetric.core import validation
from sdpmetric.core.files import read_npz
from sdpmetric.datasets.files import TABLES, Columns, Labels, Table, read_table
from sdpmetric.datasets.generators import concentric_rings
from sdpmetric.datasets.preparation import word_counts


def rings() -> Bunch:
    """Concentric rings beside noise, after Fig. 2 of [GRHS2005]: data that a metric helps to classify."""
    X, y = concentric_rings(n_points=200, random_state=0)
    return Bunch(data=X, target=y, feature_names=["x", "y", "noise"])


NAMED: dict[str, Callable[[], Bunch]] = {
    "iris": sklearn_datasets.load_iris,
    "wine": sklearn_datasets.load_wine,
    "digits": sklearn_datasets.load_digits,
    "breast_cancer": sklearn_datasets.load_breast_cancer,
    "rings": rings,
}
# The environment variable that names a folder of .npz files, to be loaded by their names.
FOLDER = "SDPMETRIC_DATA"


class Split(NamedTuple):
    """A training part, (n, d) and (n,) arrays, and a test part.

    See Also
    --------
    load_split

    Examples
    --------
    >>> from sdpmetric import datasets
    >>> split = datasets.load_split("wine", test_share=0.3, random_state=0)
    >>> split.X_train.shape
    (124, 13)
    """

    X_train: NDArray[np.generic]
    y_train: Labels
    X_test: NDArray[np.generic]
    y_test: Labels


def names() -> list[str]:
    """Names that `load` accepts here, besides ``openml:`` and a name of openml.org.

    First what scikit-learn ships, then the ``.npz`` files of the folder SDPMETRIC_DATA, then what is downloaded.

    Returns
    -------
    names : list of str

    See Also
    --------
    load

    Examples
    --------
    >>> from sdpmetric import datasets
    >>> "wine" in datasets.names()
    True
    """
    folder = _folder()
    stored = [] if folder is None else sorted(path.stem for path in folder.glob("*.npz"))
    return list(dict.fromkeys([*NAMED, *stored, *FETCHED]))


def load(name_or_path: str | Path, label: str | None = None) -> tuple[NDArray[np.generic], Labels]:
    """Load labeled data.

    Parameters
    ----------
    name_or_path : str or Path
        In this order: the name of a data set that scikit-learn ships ("iris", "wine", "digits", "breast_cancer");
        "rings", 1,000 points of `concentric_rings`; an ``.npz`` file in the folder that the environment variable
        SDPMETRIC_DATA names ("letters" or "letters.npz"); one that scikit-learn downloads and keeps ("20newsgroups",
        "olivetti_faces", "covertype", ``openml:NAME``, ``openml:NAME/VERSION`` or ``openml:ID``); or the path of a
        ``.csv`` or ``.parquet`` file with named columns, or of an ``.npz`` file with arrays ``X`` and ``y``.
    label : str, optional
        The column of a table, or of a data set of OpenML, that holds the labels; every other column is a numeric
        feature.

    Returns
    -------
    X : (n, d) array
        In a file's order of columns. An NPZ file's X is returned as it is. Of 20 newsgroups: counts of the 20,000
        commonest words, see `word_counts`.
    y : (n,) array
        Strings, for a table.

    Raises
    ------
    ValueError
        If there is no such data set or file, or the file is malformed; the message says where.
    ConnectionError
        If it must be downloaded and cannot be.

    See Also
    --------
    load_split, load_table, names

    Examples
    --------
    >>> from sdpmetric import datasets
    >>> features, labels = datasets.load("wine")
    >>> features.shape
    (178, 13)
    """
    table = load_table(name_or_path, Columns(label))
    return table.X, table.labels


def load_table(name_or_path: str | Path, columns: Columns | None = None) -> Table:
    """Load data with the names of their columns.

    Parameters
    ----------
    name_or_path : str or Path
        As in `load`.
    columns : Columns, optional
        Which columns of a file are taken, and how it is written.

    Returns
    -------
    table : Table

    See Also
    --------
    Columns, Table, load

    Examples
    --------
    >>> from sdpmetric import datasets
    >>> X, y = datasets.load("iris")
    >>> table = datasets.load_table("iris")
    >>> table.X.shape, table.features[0]
    ((150, 4), 'sepal length (cm)')
    """
    return _find(name_or_path, Columns() if columns is None else columns)[0]


def load_split(
    name_or_path: str | Path,
    label: str | None = None,
    *,
    test_share: float | None = None,
    random_state: int | None = None,
) -> Split:
    """Load labeled data in two parts.

    Parameters
    ----------
    name_or_path, label
        As in `load`.
    test_share : float, optional
        Draw this share of the examples at random for testing. Default: the split that is customary for the data: of an
        ``.npz`` file with the number ``n_train``, the first so many rows for training; of 20 newsgroups, by date; of
        ``openml:mnist_784``, the first 60,000 rows.
    random_state : int, optional
        Seed of the draw.

    Returns
    -------
    Split

    See Also
    --------
    Split, load

    Examples
    --------
    >>> from sdpmetric import datasets
    >>> split = datasets.load_split("wine", test_share=0.3, random_state=0)
    >>> split.X_train.shape
    (124, 13)
    """
    table, n_train = _find(name_or_path, Columns(label))
    X, y = table.X, table.labels
    if test_share is not None:
        if validation.check_limit("test_share", test_share) >= 1.0:
            raise ValueError(f"test_share must be a share below 1, got {test_share!r}.")
        X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=test_share, random_state=random_state)
        return Split(X_train, y_train, X_test, y_test)
    if n_train is None:
        raise ValueError(f"{name_or_path} has no customary split; pass test_share, for example 0.3, for a random one.")
    if not 0 < n_train < len(X):
        raise ValueError(f"{name_or_path} says n_train={n_train}; expected a number between 1 and {len(X) - 1}.")
    return Split(X[:n_train], y[:n_train], X[n_train:], y[n_train:])


def _find(name_or_path: str | Path, columns: Columns) -> tuple[Table, int | None]:
    name, path, stored = str(name_or_path), Path(name_or_path), in_folder(name_or_path)
    if name not in NAMED:
        if stored is not None and stored.is_file() and not (path.suffix and path.is_file()):
            path = stored
        elif not path.is_file() and Path(f"{name}.npz").is_file():
            path = Path(f"{name}.npz")
        elif path.suffix.lower() in TABLES and path.is_file():
            return read_table(path, columns), None
    if columns.features or columns.drop or columns.delimiter:
        raise ValueError(f"{name} is no CSV or Parquet file; columns can be chosen for such files only.")
    label = columns.label if columns.labeled else None
    if label is not None and (name in NAMED or path.suffix.lower() == ".npz"):
        raise ValueError(f"{name} has its own labels; name a label column only with a table or OpenML.")
    if name in NAMED:
        bunch = NAMED[name]()
        return Table(bunch.data, bunch.target, tuple(map(str, bunch.feature_names))), None
    if path is not stored and (fetched := fetch(name, label)) is not None:
        return Table(*fetched[:2]), fetched[2]
    if not path.is_file():
        hint = "" if _folder() else f", nor in the folder {FOLDER} of .npz files, which is not set,"
        raise ValueError(
            f"{name} is neither a data set ({', '.join(names())}, openml:NAME){hint} nor the path of a "
            f"file{validation.like(name, names())}."
        )
    if path.suffix.lower() == ".npz":
        return _arrays(path, columns.labeled)
    raise ValueError(f"{path} is not a .csv, .parquet or .npz file; convert it to one of them.")


def in_folder(name: str | Path) -> Path | None:
    """The file of the folder SDPMETRIC_DATA that a name may mean."""
    folder, stem = _folder(), str(name).removesuffix(".npz")
    return None if folder is None or Path(name).name != str(name) else folder / f"{stem}.npz"


def _arrays(path: Path, labeled: bool) -> tuple[Table, int | None]:
    arrays = read_npz(path)
    X, y, n_train = arrays.get("X"), arrays.get("y"), arrays.get("n_train")
    if X is None or (y is None and labeled):
        expected = "'X' and 'y'" if labeled else "'X'"
        raise ValueError(f"{path} holds the arrays {', '.join(arrays) or '(none)'}; expected {expected}.")
    if y is not None and (not X.shape or y.shape != X.shape[:1]):
        raise ValueError(f"{path} has X of shape {X.shape} and y of shape {y.shape}; expected a label per row.")
    if n_train is not None and (n_train.size != 1 or n_train.dtype.kind not in "iu"):
        raise ValueError(f"n_train of {path} must be one integer, the number of leading rows for training.")
    if X.ndim != 2:
        raise ValueError(f"{path} has X of shape {X.shape}; expected a row for each example, (n, d).")
    features = tuple(map(str, np.ravel(arrays["feature_names"]))) if "feature_names" in arrays else ()
    if features and len(features) != X.shape[-1]:
        raise ValueError(f"{path} has {len(features)} feature_names for {X.shape[-1]} columns of X.")
    return Table(X, y, features), None if n_train is None else int(n_train.item())


def _folder() -> Path | None:
    named = os.environ.get(FOLDER)
    if not named:
        return None
    if not Path(named).is_dir():
        raise ValueError(f"{FOLDER} names {named}, which is not a folder; name one with .npz files, or unset it.")
    return Path(named)


# Examples, labels, and the number of leading training rows of the customary split, if there is one.
Fetched = tuple[NDArray[np.generic], Labels, int | None]

OPENML = re.compile(r"openml:(?P<name>[^/]+)(/(?P<version>\d+))?")
# OpenML's data sets whose customary split takes the first rows for training.
CUSTOMARY = {"mnist_784": 60000}


def fetch(name: str, label: str | None = None) -> Fetched | None:
    """Fetch a data set by scikit-learn's fetchers, which cache downloads."""
    openml_name = OPENML.fullmatch(name)
    if openml_name is None and name not in FETCHED:
        return None
    if openml_name is None and label is not None:
        raise ValueError(f"{name} has its own labels; name a label column only with a CSV file or OpenML.")
    try:
        return FETCHED[name]() if openml_name is None else _openml(openml_name["name"], openml_name["version"], label)
    except (OSError, HTTPException) as error:
        raise ConnectionError(
            f"{name} is not in {sklearn_datasets.get_data_home()} and cannot be downloaded ({error}); fetch it once "
            "where there is a network and copy that folder, or put the data into the folder SDPMETRIC_DATA as .npz."
        ) from error


def _openml(name: str, version: str | None, label: str | None) -> Fetched:
    query: dict[str, object] = {"data_id": int(name)} if name.isdigit() else {"name": name}
    if version is not None:
        query["version"] = int(version)
    # This parser converts categories to numbers and reads sparse files; the other one needs pandas.
    bunch = sklearn_datasets.fetch_openml(
        **query, target_column=label or "default-target", as_frame=False, parser="liac-arff"
    )
    if bunch.target is None or bunch.target.ndim != 1:
        columns = ", ".join([*bunch.feature_names, *bunch.target_names])
        raise ValueError(f"openml:{name} has no single column of labels; name one of {columns} (label=, --label).")
    X = bunch.data.toarray() if sp.issparse(bunch.data) else bunch.data
    return np.asarray(X, dtype=np.float64), np.asarray(bunch.target), CUSTOMARY.get(name.lower())


def _newsgroups() -> Fetched:
    """Counts of the commonest words of all documents, those of the training part by date first."""
    train, test = (sklearn_datasets.fetch_20newsgroups(subset=subset) for subset in ("train", "test"))
    counts = word_counts([*train.data, *test.data])
    names = np.array(train.target_names)
    return counts, names[np.concatenate([train.target, test.target])], len(train.target)


FETCHED: dict[str, Callable[[], Fetched]] = {
    "20newsgroups": _newsgroups,
    "olivetti_faces": lambda: (*sklearn_datasets.fetch_olivetti_faces(return_X_y=True), None),
    "covertype": lambda: (*sklearn_datasets.fetch_covtype(return_X_y=True), None),
}
