"""How many dimensions differences of examples span at most, decided without rounding."""

from __future__ import annotations

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray

from sdpmetric.linalg import exact
from sdpmetric.linalg.rigorous.directed import above, norm_above
from sdpmetric.linalg.rigorous.forms import ROWS_AT_ONCE, Images

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.integer]

# Entries of a matrix for which elimination in whole numbers is tried, at most: about a second.
ENTRIES = 400_000
# Its columns, at most: numbers grow with each.
DIMENSIONS = 128


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
    pairs = first.astype(np.int32), second.astype(np.int32)  # SciPy 1.13 takes no others
    graph = sp.csr_array((np.ones(len(first)), pairs), shape=(n, n))
    a, b = sp.csgraph.minimum_spanning_tree(graph).nonzero()
    is_edge = a != b
    return a[is_edge], b[is_edge]


def differing(X: NDArray[np.floating], first: IndexArray, second: IndexArray) -> NDArray[np.bool_]:
    """Features in which some pair differs, exactly, (d,)."""
    differ = np.zeros(X.shape[1], dtype=bool)
    for start in range(0, len(first), ROWS_AT_ONCE):
        some = slice(start, start + ROWS_AT_ONCE)
        differ |= (X[first[some]] != X[second[some]]).any(axis=0)
    return differ


def refined(groups: NDArray[np.int32], keys: FloatArray | exact.IntegerArray) -> NDArray[np.int32]:
    """Groups split up so that the rows of `keys` agree exactly within each."""
    if not keys.shape[1]:
        return groups
    number: dict[tuple[object, ...], int] = {}
    rows = zip(groups.tolist(), keys.tolist(), strict=True)
    return np.array([number.setdefault((group, *key), len(number)) for group, key in rows], dtype=np.int32)


def separated(X: NDArray[np.floating], first: IndexArray, second: IndexArray) -> NDArray[np.int32]:
    """Groups of examples, (n,), every two of which are proven to differ in directions in which no given pair does."""
    points, place = np.unique(X.astype(np.float64) + 0.0, axis=0, return_inverse=True)
    place = place.ravel()
    if len(points) <= 1500 and independent(points):  # of points that no pairs connect, no difference is spanned
        graph = sp.coo_array((np.ones(len(first)), (place[first], place[second])), shape=(len(points),) * 2)
        return np.asarray(sp.csgraph.connected_components(graph, directed=False)[1], dtype=np.int32)[place]
    varying = differing(X, first, second)
    groups = refined(np.zeros(len(X), dtype=np.int32), X[:, ~varying].astype(np.float64))
    if X[:, varying].size > ENTRIES or varying.sum() > DIMENSIONS:
        return groups
    integers, (a, b) = exact.integers(X[:, varying]), forest(first, second, len(X))
    null = null_space(integers[a] - integers[b])
    return groups if null is None else refined(groups, integers @ null)


def independent(points: FloatArray) -> bool:
    """Whether n points are proven to span n - 1 dimensions: a map takes their differences to nearly unit vectors."""
    n, d = points.shape
    if n - 1 > d:
        return False
    centered = points - points.mean(axis=0)
    scale = np.abs(centered).max(axis=0, initial=0.0)
    unit = np.divide(centered, scale, out=np.zeros_like(centered), where=scale > 0.0)
    Q, R = np.linalg.qr((unit[1:] - unit[0]).T)
    if not np.diag(R).all():
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        V = scipy.linalg.solve_triangular(R, Q.T).T / np.where(scale > 0.0, scale, 1.0)[:, None]
    if not np.isfinite(V).all():
        return False
    images = Images(points, centered, V)
    deviation, errors = images.points[1:] - images.points[0] - np.eye(n - 1), images.errors[1:] + images.errors[0]
    return bool(above(norm_above(deviation) + float(np.sqrt(np.sum(errors * errors))), n * n + 8) < 0.99)


def dimension(X: NDArray[np.floating], first: IndexArray, second: IndexArray, largest: int) -> int:
    """A bound of the dimension that ``x_a - x_b`` span over pairs (a, b), as good as it has to be."""
    differ = differing(X, first, second)
    if (k := int(differ.sum())) <= largest:
        return k
    X = X[:, differ]
    rows, row_numbers = np.unique(np.concatenate([first, second]), return_inverse=True)
    points, same = np.unique(X[rows], axis=0, return_inverse=True)
    a, b = same.ravel()[row_numbers.reshape(2, -1)]
    a, b = forest(a, b, len(points))
    if min(k, len(a)) <= largest or len(points) * points.shape[1] > ENTRIES or points.shape[1] > DIMENSIONS:
        return min(k, len(a))
    integers = exact.integers(points)
    return exact_rank(integers[a] - integers[b])
