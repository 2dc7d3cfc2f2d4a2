"""Data sets that scikit-learn downloads and keeps: OpenML's, 20 newsgroups, Olivetti faces, covertype."""

from __future__ import annotations

import re
from collections.abc import Callable
from http.client import HTTPException

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn import datasets as sklearn_datasets

from sdpmetric.datasets.preparation import word_counts

Labels = NDArray[np.generic]
# Examples, labels, and the number of leading training rows of the customary split, if there is one.
Fetched = tuple[NDArray[np.generic], Labels, int | None]

OPENML = re.compile(r"openml:(?P<name>[^/]+)(/(?P<version>\d+))?")
# OpenML's data sets whose customary split takes the first rows for training.
CUSTOMARY = {"mnist_784": 60000}


def fetch(name: str, label: str | None = None) -> Fetched | None:
    """Fetch a data set by scikit-learn's fetchers, which cache downloads."""
    asked = OPENML.fullmatch(name)
    if asked is None and name not in FETCHED:
        return None
    if asked is None and label is not None:
        raise ValueError(f"{name} brings its own labels; name a label column only with a CSV file or OpenML.")
    try:
        return FETCHED[name]() if asked is None else _openml(asked["name"], asked["version"], label)
    except (OSError, HTTPException) as error:
        raise ConnectionError(
            f"{name} is not in {sklearn_datasets.get_data_home()} and cannot be downloaded ({error}); fetch it once "
            "where there is a network and copy that folder, or put the data into the folder SDPMETRIC_DATA as .npz."
        ) from error


def _openml(name: str, version: str | None, label: str | None) -> Fetched:
    which: dict[str, object] = {"data_id": int(name)} if name.isdigit() else {"name": name}
    if version is not None:
        which["version"] = int(version)
    # This parser converts categories to numbers and reads sparse files; the other one needs pandas.
    found = sklearn_datasets.fetch_openml(
        **which, target_column=label or "default-target", as_frame=False, parser="liac-arff"
    )
    if found.target is None or found.target.ndim != 1:
        columns = ", ".join([*found.feature_names, *found.target_names])
        raise ValueError(f"openml:{name} has no single column of labels; name one of {columns} (label=, --label).")
    X = found.data.toarray() if sp.issparse(found.data) else found.data
    return np.asarray(X, dtype=np.float64), np.asarray(found.target), CUSTOMARY.get(name.lower())


def _newsgroups(n_words: int = 20000) -> Fetched:
    """Counts of the commonest words of all documents, those of the training part by date first."""
    train, test = (sklearn_datasets.fetch_20newsgroups(subset=part) for part in ("train", "test"))
    counts = word_counts([*train.data, *test.data], n_words)
    names = np.array(train.target_names)
    return counts, names[np.concatenate([train.target, test.target])], len(train.target)


def _olivetti() -> Fetched:
    return *sklearn_datasets.fetch_olivetti_faces(return_X_y=True), None


def _covertype() -> Fetched:
    return *sklearn_datasets.fetch_covtype(return_X_y=True), None


FETCHED: dict[str, Callable[[], Fetched]] = {
    "20newsgroups": _newsgroups,
    "olivetti_faces": _olivetti,
    "covertype": _covertype,
}
