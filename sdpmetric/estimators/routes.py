"""What estimators learn from besides labels; a class names those that it has: ``fit_pairs = routes.fit_pairs``."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sdpmetric.core import validation
from sdpmetric.estimators.base import MetricEstimator

E = TypeVar("E", bound=MetricEstimator)


def fit_unweighted(self: E, X: ArrayLike, y: ArrayLike) -> E:
    """Learn from labels; errors and warnings are those of `LMNN.fit`.

    Parameters
    ----------
    X : (n, d) array or sparse matrix
    y : (n,) array
        Class labels of any kind; at least two classes.
    """
    return self._fit(*self._checked_labels(X, y))


def fit_pairs(self: E, X: ArrayLike, pairs: ArrayLike, similar: ArrayLike | None = None) -> E:
    """Learn from similar and dissimilar pairs; errors and warnings are those of `fit`.

    Parameters
    ----------
    X : (n, d) array
    pairs : (p, 2) integer array
        Row numbers of X.
    similar : (p,) array
        bool, or +1 for similar and -1 for dissimilar; required.
    """
    data = self._checked(X)
    if similar is None:
        raise TypeError("fit_pairs needs X, pairs of its row numbers, and similar=, a flag for each pair.")
    return self._fit_tuples(data, pairs, similar)


def fit_triplets(self: E, X: ArrayLike, triplets: ArrayLike, weights: ArrayLike | None = None) -> E:
    """Learn from triplets; errors and warnings are those of `fit`.

    Parameters
    ----------
    X : (n, d) array
    triplets : (t, 3) integer array
        Row numbers of X: an anchor, an example that is to be near it, and one that should be farther away.
    weights : (t,) array, optional
        Nonnegative weights; default 1.
    """
    return self._fit_tuples(self._checked(X), rows_of("triplets", triplets, 3), weights)


def fit_quadruplets(self: E, X: ArrayLike, quadruplets: ArrayLike, weights: ArrayLike | None = None) -> E:
    """Learn from quadruplets; errors and warnings are those of `fit`.

    Parameters
    ----------
    X : (n, d) array
    quadruplets : (t, 4) integer array
        Row numbers of X: the near pair, then the far one.
    weights : (t,) array, optional
        Nonnegative weights; default 1.
    """
    return self._fit_tuples(self._checked(X), rows_of("quadruplets", quadruplets, 4), weights)


def rows_of(name: str, tuples: ArrayLike, size: int) -> NDArray[np.integer]:
    """Tuples of row numbers, (t, size)."""
    rows = validation.rectangular(name, tuples)
    if rows.ndim != 2 or rows.shape[1] != size:
        raise ValueError(f"{name} must be an integer array of shape (t, {size}), got shape {rows.shape}.")
    return rows
