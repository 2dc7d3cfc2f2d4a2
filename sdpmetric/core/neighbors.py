"""Target neighbors: the nearest members of an example's own class, under a tie rule that is robust to rounding."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from sklearn.neighbors import NearestNeighbors

from sdpmetric.arrays import FloatArray, IndexArray
from sdpmetric.engine import threads
from sdpmetric.linalg.distances import distances

# Target neighbors whose squared distances agree to this relative precision count as tied.
TIE_TOLERANCE = 1e-9


def target_neighbors(X: FloatArray, y: NDArray[np.integer], n_neighbors: int) -> IndexArray:
    """Nearest neighbors of every example within its class, itself left out.

    Distances that agree to a relative 1e-9 count as tied, so the choice does not depend on rounding; ties go to
    the lowest index. The optimum of LMNN depends on this rule where features are integers.
    """
    targets = np.empty((len(X), n_neighbors), dtype=np.int32)
    classes, sizes = np.unique(y, return_counts=True)

    def search(c: int) -> None:
        members = np.flatnonzero(y == classes[c])
        with threads.without_openmp():
            targets[members] = members[_nearest_others(X[members], n_neighbors)]

    work = float(np.sum(sizes.astype(np.float64) ** 2)) * X.shape[1]
    with threads.one_pool():
        threads.run(search, len(classes), threads.part_count(work, threads.PRODUCT_WORK))
    return targets


def _nearest_others(P: FloatArray, k: int) -> NDArray[np.int64]:
    """The k nearest other rows of each row of P under the tie rule."""
    n = len(P)
    n_candidates = min(n, k + 5)
    candidates = np.sort(NearestNeighbors(n_neighbors=n_candidates).fit(P).kneighbors(P, return_distance=False), axis=1)
    distance = distances(P, np.repeat(np.arange(n), n_candidates), candidates.ravel()).reshape(candidates.shape)
    distance[candidates == np.arange(n)[:, None]] = np.inf
    unsettled = np.zeros(0, dtype=np.int64)
    if n_candidates < n:
        # A row is settled if everything that was not listed is strictly farther than the ties of its k-th neighbor.
        kth = np.sort(distance, axis=1)[:, k - 1]
        finite = np.where(np.isfinite(distance), distance, -np.inf)
        noise = 1e-12 * np.einsum("ij,ij->i", P, P).max()
        unsettled = np.flatnonzero(finite.max(axis=1) <= kth * (1 + 2 * TIE_TOLERANCE) + noise)
    result = _pick(candidates, distance, k)
    for start in range(0, len(unsettled), 256):
        rows = unsettled[start : start + 256]
        full = cdist(P[rows], P, "sqeuclidean")
        full[np.arange(len(rows)), rows] = np.inf
        result[rows] = _pick(np.broadcast_to(np.arange(n), full.shape), full, k)
    return result


def _pick(index: NDArray[np.integer], distance: FloatArray, k: int) -> NDArray[np.int64]:
    """From rows of candidates sorted by index: those clearly nearer than the k-th, then its ties by lowest index."""
    kth = np.partition(distance, k - 1, axis=1)[:, k - 1 : k]
    rank = np.where(distance < kth * (1 - TIE_TOLERANCE), 0, np.where(distance <= kth * (1 + TIE_TOLERANCE), 1, 2))
    chosen = np.argsort(rank, axis=1, kind="stable")[:, :k]
    order = np.argsort(np.take_along_axis(distance, chosen, axis=1), axis=1, kind="stable")
    return np.take_along_axis(index.astype(np.int64), np.take_along_axis(chosen, order, axis=1), axis=1)
