"""How many dimensions differences of examples span at most, decided without rounding."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sdpmetric.linalg import exact

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.integer]

# Elimination in whole numbers is tried for so many entries and dimensions at most.
ENTRIES, DIMENSIONS = 400_000, 128


def null_space(rows: exact.IntegerArray) -> exact.IntegerArray | None:
    """A basis of the vectors orthogonal to all rows of whole numbers, (d, q); None where that is too much work."""
    if rows.size > ENTRIES or rows.shape[1] > DIMENSIONS:
        return None
    try:
        return exact.null_space(rows)
    except ArithmeticError:
        return None


def exact_rank(rows: exact.IntegerArray) -> int:
    """The rank of a matrix of whole numbers; the smaller number of rows and columns where that is too much work."""
    null = null_space(rows)
    return min(rows.shape) if null is None else int(rows.shape[1] - null.shape[1])


def forest(first: IndexArray, second: IndexArray, n: int) -> tuple[IndexArray, IndexArray]:
    """Pairs that connect what given ones connect, without a cycle: differences of the others are sums of theirs."""
    graph = sp.csr_array((np.ones(len(first)), (first, second)), shape=(n, n))
    a, b = sp.csgraph.minimum_spanning_tree(graph).nonzero()
    apart = a != b
    return a[apart], b[apart]


def dimension(
    X: NDArray[np.floating], first: IndexArray, second: IndexArray, enough: int, basis: FloatArray | None = None
) -> int:
    """A bound of the dimension that ``B (x_a - x_b)`` span over pairs (a, b), as good as it has to be.

    Parameters
    ----------
    X : (n, d) array
        The exact data.
    first, second : (p,) integer arrays
    enough : int
        Bounds that are at most this are not improved; others by elimination in whole numbers, over a spanning forest.
    basis : (k, d) array, optional
        B; default: the identity.
    """
    k = X.shape[1] if basis is None else len(basis)
    if k <= enough or not len(first):
        return k if len(first) else 0
    if basis is None:
        differ = np.zeros(k, dtype=bool)
        for start in range(0, len(first), 4096):
            some = slice(start, start + 4096)
            differ |= (X[first[some]] != X[second[some]]).any(axis=0)
        if (k := int(differ.sum())) <= enough:
            return k
        X = X[:, differ]
    rows, ends = np.unique(np.concatenate([first, second]), return_inverse=True)
    points, same = np.unique(X[rows], axis=0, return_inverse=True)
    a, b = same.ravel()[ends.reshape(2, -1)]
    a, b = forest(a, b, len(points))
    if min(k, len(a)) <= enough or len(points) * points.shape[1] > ENTRIES or points.shape[1] > DIMENSIONS:
        return min(k, len(a))
    if basis is None:
        whole = exact.integers(points)
        return exact_rank(whole[a] - whole[b])
    whole = exact.integers(points.reshape(-1, 1)).reshape(points.shape)  # in one unit
    return exact_rank((whole[a] - whole[b]) @ exact.integers(basis.T))
