"""Pairs, triplets, quadruplets and chunklets made from labels, as the estimators make them, for inspection."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sdpmetric.arrays import BoolArray, IndexArray
from sdpmetric.core import validation
from sdpmetric.core.pairs import drawn_chunks, pairs_of_labels
from sdpmetric.relatives.lsml import drawn_quadruplets
from sdpmetric.relatives.scml import nearest_triplets

__all__ = ["chunks", "pairs", "quadruplets", "triplets"]


def pairs(y: ArrayLike, n_pairs: int | None = None, random_state: int = 0) -> tuple[IndexArray, BoolArray]:
    """Return pairs of examples, similar if their labels agree, as `ITML`, `MMC`, `SDML` and `POLA` draw them.

    Parameters
    ----------
    y : (n,) array
        Class labels of any kind; at least two classes.
    n_pairs : int, optional
        The largest number of pairs of each kind, drawn at random; default: all pairs ``a < b``.
    random_state : int, default 0

    Returns
    -------
    pairs : (p, 2) integer array
        Row numbers.
    similar : (p,) bool array

    Examples
    --------
    >>> from sdpmetric import constraints
    >>> rows, similar = constraints.pairs(["a", "a", "b"])
    >>> rows.tolist(), similar.tolist()
    ([[0, 1], [0, 2], [1, 2]], [True, False, False])
    """
    return pairs_of_labels(_classes(y), n_pairs, random_state)


def triplets(
    X: ArrayLike,
    y: ArrayLike,
    n_neighbors: int = 3,
    n_impostors: int = 10,
    *,
    near: int | None = None,
    random_state: int = 0,
) -> IndexArray:
    """Return triplets of each example, a near member of its class and a near one of another, as `SCML` makes them.

    Parameters
    ----------
    X : (n, d) array
    y : (n,) array
        Class labels of any kind; at least two classes.
    n_neighbors, n_impostors : int, default 3 and 10
        Neighbors of each example in its class and in other classes; fewer if there are fewer.
    near : int, optional
        Draw one impostor for each example and neighbor, at random from its `near` nearest of other classes.
    random_state : int, default 0

    Returns
    -------
    triplets : (t, 3) integer array
        Row numbers: an example, one of its class, and one of another class.

    Examples
    --------
    >>> from sdpmetric import constraints
    >>> constraints.triplets([[0.0], [1.0], [5.0]], [0, 0, 1]).tolist()
    [[0, 1, 2], [1, 0, 2]]
    """
    data = np.asarray(validation.check_examples(X), dtype=np.float64)
    n_others = n_impostors if near is None else validation.check_integer("near", near)
    neighbors = nearest_triplets(data, validation.check_labels(y, len(data))[1], n_neighbors, n_others)
    if near is None:
        return neighbors
    shuffled = np.random.default_rng(random_state).permutation(neighbors)
    return np.asarray(shuffled[np.unique(shuffled[:, :2], axis=0, return_index=True)[1]])


def quadruplets(y: ArrayLike, n_quadruplets: int = 1000, random_state: int = 0) -> IndexArray:
    """Return quadruplets, a pair from one class and a pair from two classes, as `LSML` draws them.

    Parameters
    ----------
    y : (n,) array
        Class labels of any kind; at least two classes.
    n_quadruplets : int, default 1000
        Number of quadruplets, at most.
    random_state : int, default 0

    Returns
    -------
    quadruplets : (q, 4) integer array
        Row numbers: the near pair, then the far one.

    Examples
    --------
    >>> from sdpmetric import constraints
    >>> constraints.quadruplets([0, 0, 1], 2).shape
    (2, 4)
    """
    rows, similar = pairs(y, n_quadruplets, random_state)
    close, distant = drawn_quadruplets(similar, n_quadruplets, random_state)
    return np.concatenate([rows[close], rows[distant]], axis=1)


def chunks(y: ArrayLike, n_chunks: int, chunk_size: int = 2, random_state: int = 0) -> NDArray[np.int64]:
    """Return chunklets, examples known to belong together, drawn within classes as `RCA` draws them.

    Parameters
    ----------
    y : (n,) array
        Class labels of any kind; at least two classes.
    n_chunks : int
    chunk_size : int, default 2
        Examples of each chunklet.
    random_state : int, default 0

    Returns
    -------
    chunks : (n,) integer array
        Number of each example's chunklet; -1 for none.

    Examples
    --------
    >>> from sdpmetric import constraints
    >>> chunks = constraints.chunks([0, 0, 0, 1, 1], n_chunks=2)
    >>> (chunks == 0).sum(), (chunks == 1).sum(), (chunks == -1).sum()
    (np.int64(2), np.int64(2), np.int64(1))
    """
    return drawn_chunks(_classes(y), n_chunks, chunk_size, random_state)


def _classes(y: ArrayLike) -> IndexArray:
    return validation.check_labels(y, np.size(y))[1]
