"""What is done to data before a metric is learned: standardizing and reducing."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from sdpmetric import validation

FloatArray = NDArray[np.float64]


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
