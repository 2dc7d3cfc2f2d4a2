"""Labeled data by name, and their customary split."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets as sklearn_datasets
from sklearn.model_selection import train_test_split
from sklearn.utils import Bunch

from sdpmetric.core import validation
from sdpmetric.core.files import read_npz
from sdpmetric.datasets.generators import concentric_rings

Labels = NDArray[np.generic]


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
    """A training part, (n, d) and (n,) arrays, and a test part."""

    X_train: NDArray[np.generic]
    y_train: Labels
    X_test: NDArray[np.generic]
    y_test: Labels


def load(name: str | Path) -> tuple[NDArray[np.generic], Labels]:
    """Load labeled data by name.

    Tables are for ``pandas.read_csv``, and other public data for ``sklearn.datasets.fetch_openml``.

    Parameters
    ----------
    name : str or Path
        "iris", "wine", "digits" or "breast_cancer", which scikit-learn ships; "rings", 1,000 points of
        `concentric_rings`; the name of an ``.npz`` file in the folder that the environment variable SDPMETRIC_DATA
        names; or the path of an ``.npz`` file. A file holds arrays ``X`` and ``y``.

    Returns
    -------
    X : (n, d) array
    y : (n,) array

    Raises
    ------
    ValueError
        If there is no such data set, or the file lacks an array.

    Examples
    --------
    >>> from sdpmetric import datasets
    >>> features, labels = datasets.load("wine")
    >>> features.shape
    (178, 13)
    """
    arrays = _arrays(name)
    return arrays["X"], arrays["y"]


def load_split(name: str | Path, *, test_share: float | None = None, random_state: int | None = None) -> Split:
    """Load labeled data in two parts.

    Parameters
    ----------
    name : str or Path
        As in `load`.
    test_share : float, optional
        Draw this share of the examples at random for testing. Default: the customary split, whose training part is the
        first ``n_train`` rows of a file with that number.
    random_state : int, optional
        Seed of the draw.

    Returns
    -------
    Split

    Raises
    ------
    ValueError
        As in `load`; if the share is not between 0 and 1, or the data have no customary split.

    Examples
    --------
    >>> from sdpmetric import datasets
    >>> split = datasets.load_split("wine", test_share=0.3, random_state=0)
    >>> split.X_train.shape
    (124, 13)
    """
    arrays = _arrays(name)
    X, y = arrays["X"], arrays["y"]
    if test_share is not None:
        if validation.check_limit("test_share", test_share) >= 1.0:
            raise ValueError(f"test_share must be a share below 1, got {test_share!r}.")
        X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=test_share, random_state=random_state)
        return Split(X_train, y_train, X_test, y_test)
    if "n_train" not in arrays:
        raise ValueError(f"{name} has no customary split; pass test_share, for example 0.3, for a random one.")
    n_train = validation.check_integer(f"n_train of {name}", arrays["n_train"].item(), 1, len(X) - 1)
    return Split(X[:n_train], y[:n_train], X[n_train:], y[n_train:])


def _arrays(name: str | Path) -> dict[str, NDArray[np.generic]]:
    if str(name) in NAMED:
        bunch = NAMED[str(name)]()
        return {"X": np.asarray(bunch.data), "y": np.asarray(bunch.target)}
    path, folder = Path(name), _folder()
    if not path.is_file() and folder is not None:
        path = folder / f"{path.stem}.npz"
    if not path.is_file():
        stored = [] if folder is None else sorted(file.stem for file in folder.glob("*.npz"))
        known = [*NAMED, *stored]
        raise ValueError(
            f"there is no data set {str(name)!r}{validation.like(str(name), known)}; choose from {', '.join(known)}, "
            "or pass the path of an .npz file."
        )
    arrays = read_npz(path)
    if not {"X", "y"} <= arrays.keys():
        raise ValueError(f"{path} holds the arrays {', '.join(arrays) or '(none)'}; expected X and y.")
    X, y = arrays["X"], arrays["y"]
    if X.ndim != 2 or y.shape != X.shape[:1]:
        raise ValueError(f"{path} has X of shape {X.shape} and y of shape {y.shape}; expected (n, d) and (n,).")
    return arrays


def _folder() -> Path | None:
    named = os.environ.get(FOLDER)
    if not named:
        return None
    if not Path(named).is_dir():
        raise ValueError(f"{FOLDER} names {named}, which is not a folder; name one with .npz files, or unset it.")
    return Path(named)
