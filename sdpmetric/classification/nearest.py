"""Nearest-neighbor classification under one metric or several."""

from __future__ import annotations

import math
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.neighbors import NearestNeighbors

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation
from sdpmetric.linalg import distances as partial

Algorithm = Literal["auto", "ball_tree", "kd_tree", "brute", "partial", "faiss"]


def nearest_neighbors(
    components: ArrayLike,
    X_train: ArrayLike,
    X: ArrayLike | None = None,
    n_neighbors: int = 1,
    *,
    regions: ArrayLike | None = None,
    algorithm: Algorithm = "auto",
) -> tuple[FloatArray, NDArray[np.int64]]:
    """Return the nearest training examples under learned metrics.

    With several metrics, the distance to a training example is measured by the metric of the training example's region
    (Weinberger and Saul 2009, section 5.2, Eq. 16) [WS2009]: the distance is not symmetric.

    Parameters
    ----------
    components : (r, d) array, or (c, r, d) for c metrics
    X_train : (n, d) array
    X : (m, d) array, optional
        Queries; default: the training examples, each without itself (leave one out).
    n_neighbors : int, default 1
    regions : (n,) integer array, optional
        Region of each training example, 0 to c - 1; needed for several metrics.
    algorithm : {"auto", "ball_tree", "kd_tree", "brute", "partial", "faiss"}, default "auto"
        How the embedded examples are searched: by scikit-learn's `NearestNeighbors`; "partial": along principal axes,
        each distance given up once its leading part exceeds that of the farthest neighbor so far (Weinberger and Saul
        2009, section 6); or exactly and in single precision by faiss, which ``pip install sdpmetric[faiss]`` brings.

    Returns
    -------
    distances, neighbors : (m, n_neighbors) arrays
        Squared distances and row numbers of `X_train`, nearest first.

    Raises
    ------
    ValueError
        If squared distances under the metric overflow.

    Examples
    --------
    >>> from sdpmetric import classification
    >>> distances, rows = classification.nearest_neighbors([[1.0, 0.0]], [[0.0, 5.0], [1.0, 0.0], [3.0, 1.0]])
    >>> distances.tolist(), rows.tolist()
    ([[1.0], [1.0], [4.0]], [[1], [0], [1]])
    """
    train = np.asarray(validation.check_data(X_train), dtype=np.float64)
    queries = train if X is None else np.asarray(validation.check_data(X), dtype=np.float64)
    factors = validation.check_factors(components, train.shape[1])
    validation.check_width("X", queries, train.shape[1], "X_train")
    region = check_regions(regions, len(train), len(factors))
    validation.check_integer("n_neighbors", n_neighbors, high=len(train) - (X is None))
    k = n_neighbors + (X is None)
    if not factors.shape[1]:  # a metric of rank 0 puts all examples in one place
        factors = np.zeros((len(factors), 1, train.shape[1]))
    # Rounding errors of distances are smallest near the origin, and scaling prevents overflow. The origin is an example
    # near the mean, so integers stay integers and ties among them stay ties.
    with np.errstate(over="ignore", invalid="ignore"):
        center = train[np.square(train - train.mean(axis=0)).sum(axis=1).argmin()]
        train, queries = train - center, queries - center
        reach = max(float(np.abs(train).max()), float(np.abs(queries).max())) * train.shape[1]
        size = reach * float(np.abs(factors).max())
    # Squared distances of embedded examples further out overflow.
    if not size < 1e150:
        raise ValueError("squared distances under the metric overflow; scale the data or the metric down.")
    unit = 2.0 ** math.frexp(size)[1] if size > 0.0 else 1.0
    distances, rows = [], []
    for c, L in enumerate(factors):
        members = np.flatnonzero(region == c)
        if len(members):
            embedded, embedded_queries = train[members] @ L.T / unit, queries @ L.T / unit
            squared_distances, index = _search(embedded, embedded_queries, min(k, len(members)), algorithm)
            distances.append(squared_distances)
            rows.append(members[index])
    D, R = np.concatenate(distances, axis=1), np.concatenate(rows, axis=1)
    if X is None:
        D[np.arange(len(queries))[:, None] == R] = np.inf
    order = np.lexsort((R, D), axis=1)[:, :n_neighbors]
    return unit**2 * np.take_along_axis(D, order, axis=1), np.take_along_axis(R, order, axis=1)


def check_regions(regions: ArrayLike | None, n: int, n_metrics: int) -> NDArray[np.integer]:
    """Return the metric's number for each of n examples, or None for a single metric."""
    if regions is None and n_metrics > 1:
        raise ValueError(f"pass regions= with {n_metrics} metrics: which of them each training example has.")
    region_numbers = np.zeros(n, dtype=np.int64) if regions is None else regions
    return validation.check_rows("regions", region_numbers, n_metrics, (n,), ", one for each example")


def _search(Z: FloatArray, queries: FloatArray, k: int, algorithm: Algorithm) -> tuple[FloatArray, NDArray[np.int64]]:
    """Return the squared distances and row numbers of the k nearest rows of Z."""
    validation.check_choice("algorithm", algorithm, get_args(Algorithm))
    if algorithm == "partial":
        axes = np.linalg.eigh(np.cov(Z.T, ddof=0).reshape(Z.shape[1], -1))[1][:, ::-1]
        rotated, rotated_queries = np.ascontiguousarray(Z @ axes), np.ascontiguousarray(queries @ axes)
        squares = float(np.square(Z).sum(axis=1).max() + np.square(queries).sum(axis=1).max(initial=0.0))
        # Turning d coordinates changes squared distances by less than d^1.5 times this share of the largest squared
        # lengths.
        room = 1e-15 * Z.shape[1] ** 1.5 * squares
        squared_distances, rows, _ = partial.nearest(
            np.ascontiguousarray(Z), np.ascontiguousarray(queries), rotated, rotated_queries, room, k
        )
        return squared_distances, rows
    if algorithm != "faiss":
        squared_distances, index = NearestNeighbors(n_neighbors=k, algorithm=algorithm).fit(Z).kneighbors(queries)
        return squared_distances**2, index
    try:
        import faiss
    except ImportError as error:
        raise ImportError("algorithm='faiss' needs faiss: pip install 'sdpmetric[faiss]'.") from error
    flat = faiss.IndexFlatL2(Z.shape[1])
    flat.add(np.ascontiguousarray(Z, dtype=np.float32))
    squared_distances, index = flat.search(np.ascontiguousarray(queries, dtype=np.float32), k)
    return squared_distances.astype(np.float64), index


def knn_predict(
    components: ArrayLike,
    X_train: ArrayLike,
    y_train: ArrayLike,
    X: ArrayLike | None = None,
    n_neighbors: int = 3,
    *,
    regions: ArrayLike | None = None,
    algorithm: Algorithm = "auto",
) -> NDArray[np.generic]:
    """Return the majority vote of the nearest training examples; ties shrink the neighborhood until they break.

    Parameters
    ----------
    components, X_train
        As in `nearest_neighbors`.
    y_train : (n,) array
        Class labels of any kind, one class included.
    X, n_neighbors, regions, algorithm
        As in `nearest_neighbors`.

    Returns
    -------
    labels : (m,) array

    Examples
    --------
    >>> import sdpmetric as sm
    >>> X, y = sm.datasets.load("iris")
    >>> L = sm.solve(sm.LMNNProblem.from_labels(X, y)).components
    >>> bool((sm.classification.knn_predict(L, X, y) == y).mean() > 0.9)
    True
    """
    _, neighbors = nearest_neighbors(components, X_train, X, n_neighbors, regions=regions, algorithm=algorithm)
    classes, y = validation.check_labels(y_train, len(np.asarray(X_train)), n_classes=1)
    return np.asarray(classes[majority(y[neighbors], len(classes))])


def majority(nearest: NDArray[np.integer], n_classes: int) -> NDArray[np.integer]:
    """Return the vote of the class indices (m, k) of neighbors, nearest first; ties shrink the neighborhood, (m,)."""
    m, k = nearest.shape
    votes = np.zeros((m, k, n_classes), dtype=np.int64)
    np.put_along_axis(votes, nearest[:, :, None], 1, axis=2)
    counts = np.cumsum(votes, axis=1)
    chosen = nearest[:, 0]
    for size in range(2, k + 1):  # the largest neighborhood without a tie decides
        largest_count = counts[:, size - 1].max(axis=1, keepdims=True)
        clear = (counts[:, size - 1] == largest_count).sum(axis=1) == 1
        chosen = np.where(clear, counts[:, size - 1].argmax(axis=1), chosen)
    return chosen
