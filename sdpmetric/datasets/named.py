"""Labeled data by name, with their customary split, and generators after the papers' figures."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets as sklearn_datasets

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation
from sdpmetric.core.files import read_npz

Labels = NDArray[np.int64]


def concentric_circles(
    n_circles: int = 4, n_points: int = 120, radius: float = 20.0
) -> tuple[FloatArray, Labels, Labels]:
    """Return concentric circles of alternating classes, nearer to each other than the points of a circle are.

    After Fig. 7 of [WS2009]: every nearest neighbor is of the other class, and no single linear map changes that, since
    what must be stretched is the radius. Three metrics, each for a third of the directions, can.

    Parameters
    ----------
    n_circles : int, default 4
        At radii ``radius``, ``radius + 1`` and so on.
    n_points : int, default 120
        On each circle, at the same angles.
    radius : float, default 20
        Radius of the innermost circle; its neighbors are ``2 * pi * radius / n_points`` apart.

    Returns
    -------
    X : (n_circles * n_points, 2) array
    y : (n,) integer array
        0 and 1 in turn.
    thirds : (n,) integer array
        0, 1 or 2: the third of the directions that an example lies in; opposite directions are one.

    Examples
    --------
    >>> from sdpmetric import datasets
    >>> len(datasets.concentric_circles())
    3
    """
    validation.check_integer("n_circles", n_circles)
    validation.check_integer("n_points", n_points)
    validation.check_number("radius", radius, 0.0)
    angle = np.tile(2 * np.pi * (np.arange(n_points) + 0.25) / n_points, n_circles)
    circle = np.repeat(np.arange(n_circles), n_points)
    X = (radius + circle)[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return X, circle % 2, (angle % np.pi * 3 / np.pi).astype(np.int64)


def concentric_rings(n_points: int = 100, *, random_state: int | None = None) -> tuple[FloatArray, Labels]:
    """Return five concentric rings in two features, one class each, and a third feature of noise.

    After Fig. 2 of [GRHS2005], with other sizes. The noise has the largest variance, so it is a principal component,
    and all classes have the same mean, so linear discriminant analysis fails.

    Parameters
    ----------
    n_points : int, default 100
        On each ring, of radius 1 to 5, at random angles. The radius varies by a standard deviation of 0.1, the noise by
        one of 8.
    random_state : int, optional

    Returns
    -------
    X : (5 * n_points, 3) array
    y : (n,) integer array
        The ring, from 0.

    Examples
    --------
    >>> from sdpmetric import datasets
    >>> datasets.concentric_rings(random_state=0)[0].shape
    (500, 3)
    """
    validation.check_integer("n_points", n_points)
    rng = validation.generator(random_state)
    ring = np.repeat(np.arange(5), n_points)
    angle, radius = 2 * np.pi * rng.random(len(ring)), 1 + ring + 0.1 * rng.normal(size=len(ring))
    features = (radius * np.cos(angle), radius * np.sin(angle), 8.0 * rng.normal(size=len(ring)))
    return np.stack(features, axis=1), ring


Array = NDArray[np.generic]


NAMED: dict[str, Callable[[], tuple[Array, Array]]] = {
    "iris": partial(sklearn_datasets.load_iris, return_X_y=True),
    "wine": partial(sklearn_datasets.load_wine, return_X_y=True),
    "digits": partial(sklearn_datasets.load_digits, return_X_y=True),
    "breast_cancer": partial(sklearn_datasets.load_breast_cancer, return_X_y=True),
    "rings": lambda: concentric_rings(200, random_state=0),
}
# The environment variable that names a folder of .npz files, to be loaded by their names.
FOLDER = "SDPMETRIC_DATA"


class Split(NamedTuple):
    """A training part and a test part: (n, d) and (n,) arrays."""

    X_train: Array
    y_train: Array
    X_test: Array
    y_test: Array


def load(name: str | Path) -> tuple[Array, Array]:
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


def load_split(name: str | Path) -> Split:
    """Load labeled data in their customary parts: the first ``n_train`` rows of a file, and the rest.

    Parameters
    ----------
    name : str or Path
        As in `load`.

    Returns
    -------
    Split

    Raises
    ------
    ValueError
        As in `load`, or if the data have no customary split.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from sdpmetric import datasets
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/mine.npz", X=np.eye(5), y=[0, 1, 0, 1, 0], n_train=3)
    ...     datasets.load_split(f"{folder}/mine.npz").y_test.tolist()
    [1, 0]
    """
    arrays = _arrays(name)
    X, y = arrays["X"], arrays["y"]
    if "n_train" not in arrays:
        raise ValueError(f"{name} has no customary split; sklearn.model_selection.train_test_split draws one.")
    n_train = validation.check_integer(f"n_train of {name}", arrays["n_train"].item(), 1, len(X) - 1)
    return Split(X[:n_train], y[:n_train], X[n_train:], y[n_train:])


def _arrays(name: str | Path) -> dict[str, Array]:
    if str(name) in NAMED:
        X, y = NAMED[str(name)]()
        return {"X": X, "y": y}
    path, folder = Path(name), os.environ.get(FOLDER)
    if folder and not Path(folder).is_dir():
        raise ValueError(f"{FOLDER} names {folder}, which is not a folder; name one with .npz files, or unset it.")
    if folder and not path.is_file():
        path = Path(folder, f"{path.stem}.npz")
    if not path.is_file():
        names = [*NAMED, *sorted(file.stem for file in Path(folder).glob("*.npz"))] if folder else [*NAMED]
        raise ValueError(
            f"there is no data set {str(name)!r}{validation.like(str(name), names)}; choose from {', '.join(names)}, "
            "or pass the path of an .npz file."
        )
    arrays = read_npz(path)
    if not {"X", "y"} <= arrays.keys():
        raise ValueError(f"{path} holds the arrays {', '.join(arrays) or '(none)'}; expected X and y.")
    X, y = arrays["X"], arrays["y"]
    if X.ndim != 2 or y.shape != X.shape[:1]:
        raise ValueError(f"{path} has X of shape {X.shape} and y of shape {y.shape}; expected (n, d) and (n,).")
    return arrays
