"""How examples are divided into regions, each of which is to have a metric of its own."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.cluster import KMeans, SpectralClustering

from sdpmetric.arrays import FloatArray, IndexArray
from sdpmetric.core import validation

Regions = Literal["class", "kmeans", "spectral"]


def divide(
    regions: Regions | ArrayLike, X: FloatArray, y: ArrayLike, n_regions: int | None, random_state: int
) -> tuple[IndexArray, NDArray[np.generic]]:
    """Divide examples by class, by clusters, or as an array says."""
    given = _named(regions, X, np.asarray(y).ravel(), n_regions, random_state) if isinstance(regions, str) else regions
    array = np.asarray(given)
    if array.shape != (len(X),):
        raise ValueError(f"regions has shape {array.shape}; pass one region for each of {len(X)} examples.")
    validation.check_names("regions", array)
    names, index = np.unique(array, return_inverse=True)
    return index.astype(np.int32), names


def _named(how: str, X: FloatArray, y: NDArray[np.generic], n_regions: int | None, random_state: int) -> ArrayLike:
    if how == "class":
        if n_regions is not None:
            raise ValueError("n_regions is for clusters; regions='class' has one region for each class.")
        return y
    count = len(np.unique(y)) if n_regions is None else n_regions
    validation.check_integer("n_regions", count, high=len(X))
    if how == "kmeans":
        clusters = KMeans(int(count), random_state=random_state)
    elif how == "spectral":
        clusters = SpectralClustering(int(count), affinity="nearest_neighbors", random_state=random_state)
    else:
        raise ValueError(f"regions must be 'class', 'kmeans', 'spectral' or an array, got {how!r}.")
    return np.asarray(clusters.fit_predict(X))


def check_members(
    index: IndexArray, names: NDArray[np.generic], targets: IndexArray, n_neighbors: int, *, pulled: bool
) -> None:
    """Refuse regions that are too small for a metric of their own."""
    sizes = np.bincount(index)
    pairs = np.bincount(index[targets], minlength=len(sizes))
    for name, size, pulls in zip(names.tolist(), sizes.tolist(), pairs.tolist(), strict=True):
        if size <= n_neighbors:
            raise ValueError(
                f"region {name!r} has {size} members, at least {n_neighbors + 1} are needed for a metric of its "
                "own; merge it with another region, or ask for fewer regions."
            )
        if pulls == 0 and pulled:
            raise ValueError(
                f"no member of region {name!r} is a target neighbor, so that its metric would have no pull; merge "
                "it with another region, or pass a positive ridge."
            )
