"""Nearest-neighbor classification under one metric or several."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.neighbors import NearestNeighbors

from sdpmetric import validation

FloatArray = NDArray[np.float64]
Algorithm = Literal["auto", "ball_tree", "kd_tree", "brute", "faiss"]


def nearest_neighbors(
    components: ArrayLike,
    X_train: ArrayLike,
    X: ArrayLike | None = None,
    n_neighbors: int = 1,
    *,
    regions: ArrayLike | None = None,
    algorithm: Algorithm = "auto",
) -> tuple[FloatArray, NDArray[np.int64]]:
    """Nearest training examples under learned metrics.

    Under several metrics a training example is as far away as the metric of its own region says, whatever the query
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
    algorithm : {"auto", "ball_tree", "kd_tree", "brute", "faiss"}, default "auto"
        How the embedded examples are searched: by scikit-learn's `NearestNeighbors`, or exactly and in single precision
        by faiss, which ``pip install sdpmetric[faiss]`` brings.

    Returns
    -------
    distances, neighbors : (m, n_neighbors) arrays
        Squared distances and row numbers of `X_train`, nearest first.

    Raises
    ------
    ValueError
        If shapes do not fit, there are fewer training examples than neighbors, or the algorithm is unknown.
    ImportError
        If faiss is asked for and not installed.
    """
    train = np.asarray(validation.check_data(X_train), dtype=np.float64)
    queries = train if X is None else np.asarray(validation.check_data(X), dtype=np.float64)
    factors = np.asarray(components, dtype=np.float64)
    factors = factors if factors.ndim == 3 else factors[None]
    region = np.zeros(len(train), dtype=np.int64) if regions is None else np.asarray(regions)
    if factors.ndim != 3 or factors.shape[2] != train.shape[1] or queries.shape[1] != train.shape[1]:
        raise ValueError(
            f"components {np.shape(components)}, training examples {train.shape} and queries {queries.shape} must have "
            "the same number of columns."
        )
    if (
        region.dtype.kind not in "iu"
        or region.shape != (len(train),)
        or region.min() < 0
        or region.max() >= len(factors)
    ):
        raise ValueError(f"regions must be {len(train)} integers from 0 to {len(factors) - 1}, one for each example.")
    if regions is None and len(factors) > 1:
        raise ValueError(f"pass regions= with {len(factors)} metrics: which of them each training example has.")
    if isinstance(n_neighbors, bool) or not isinstance(n_neighbors, int | np.integer):
        raise ValueError(f"n_neighbors must be a positive integer, got {n_neighbors!r}.")
    if not np.isfinite(factors).all():
        raise ValueError("components contain NaN or infinity.")
    k = n_neighbors + (X is None)
    if not 1 <= n_neighbors <= len(train) - (X is None):
        raise ValueError(f"n_neighbors must be between 1 and {len(train) - (X is None)}, got {n_neighbors!r}.")
    distances, rows = [], []
    for c, L in enumerate(factors):
        members = np.flatnonzero(region == c)
        if not len(members):
            continue
        # A metric of rank 0 puts all examples in one place.
        L = L if len(L) else np.zeros((1, train.shape[1]))
        found, index = _search(train[members] @ L.T, queries @ L.T, min(k, len(members)), algorithm)
        distances.append(found)
        rows.append(members[index])
    D, R = np.concatenate(distances, axis=1), np.concatenate(rows, axis=1)
    if X is None:
        D[np.arange(len(queries))[:, None] == R] = np.inf
    order = np.lexsort((R, D), axis=1)[:, :n_neighbors]
    return np.take_along_axis(D, order, axis=1), np.take_along_axis(R, order, axis=1)


def _search(Z: FloatArray, queries: FloatArray, k: int, algorithm: Algorithm) -> tuple[FloatArray, NDArray[np.int64]]:
    """Squared distances and row numbers of the k nearest rows of Z."""
    if algorithm not in get_args(Algorithm):
        raise ValueError(f"algorithm must be one of {', '.join(map(repr, get_args(Algorithm)))}, got {algorithm!r}.")
    if algorithm != "faiss":
        found, index = NearestNeighbors(n_neighbors=k, algorithm=algorithm).fit(Z).kneighbors(queries)
        return found**2, index
    try:
        import faiss
    except ImportError as error:
        raise ImportError("algorithm='faiss' needs faiss: pip install 'sdpmetric[faiss]'.") from error
    flat = faiss.IndexFlatL2(Z.shape[1])
    flat.add(np.ascontiguousarray(Z, dtype=np.float32))
    found, index = flat.search(np.ascontiguousarray(queries, dtype=np.float32), k)
    return found.astype(np.float64), index


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
    """Majority vote of the nearest training examples; ties shrink the neighborhood until they break.

    Parameters
    ----------
    components, X_train, X, n_neighbors, regions, algorithm
        As in `nearest_neighbors`.
    y_train : (n,) array

    Returns
    -------
    labels : (m,) array
    """
    classes, y = np.unique(np.asarray(y_train), return_inverse=True)
    _, neighbors = nearest_neighbors(components, X_train, X, n_neighbors, regions=regions, algorithm=algorithm)
    if len(y) != len(np.asarray(X_train)):
        raise ValueError(f"y_train has {len(y)} labels for {len(np.asarray(X_train))} training examples.")
    votes = np.zeros((len(neighbors), n_neighbors, len(classes)), dtype=np.int64)
    np.put_along_axis(votes, y[neighbors][:, :, None], 1, axis=2)
    counts = np.cumsum(votes, axis=1)
    chosen = y[neighbors[:, 0]]
    for size in range(2, n_neighbors + 1):  # the largest neighborhood without a tie has the last word
        most = counts[:, size - 1].max(axis=1, keepdims=True)
        clear = (counts[:, size - 1] == most).sum(axis=1) == 1
        chosen = np.where(clear, counts[:, size - 1].argmax(axis=1), chosen)
    labels: NDArray[np.generic] = classes[chosen]
    return labels
