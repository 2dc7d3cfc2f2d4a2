"""Exact linear algebra of floats: differences without rounding, null spaces in whole numbers, signs of sums.

Whole numbers also decide how many dimensions differences of examples span at most.
"""

from __future__ import annotations

import math
from fractions import Fraction
from operator import mul

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray
from sdpmetric.linalg.rigorous.directed import above, norm_above
from sdpmetric.linalg.rigorous.forms import ROWS_AT_ONCE, Images

IntegerArray = NDArray[np.object_]
IndexArray = NDArray[np.integer]

# Elimination is modulo this prime, so products fit into 63 bits.
PRIME = (1 << 31) - 1


def differences(
    X: NDArray[np.floating], first: NDArray[np.integer], second: NDArray[np.integer]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return differences of rows as exact sums of two floats: the rounded difference, and its rounding error."""
    a, b = X[first].astype(np.float64), X[second].astype(np.float64)
    rounded = a - b
    rounded_part = rounded - a
    return rounded, (a - (rounded - rounded_part)) - (b + rounded_part)


def alike(V: NDArray[np.floating], remainders: NDArray[np.floating]) -> NDArray[np.intp]:
    """Return the group of each exact difference: differences that are equal up to sign form one."""
    leading = np.argmax(V != 0.0, axis=1)
    signs = np.where(V[np.arange(len(V)), leading] < 0.0, -1.0, 1.0)[:, None]
    _, group = np.unique(np.concatenate([signs * V, signs * remainders], axis=1) + 0.0, axis=0, return_inverse=True)
    return np.asarray(group.ravel(), dtype=np.intp)


def is_psd(V: NDArray[np.floating], remainders: NDArray[np.floating], weights: NDArray[np.floating]) -> bool:
    """Return whether ``sum w_t v_t v_t^T`` over exact differences is PSD, by elimination in fractions."""
    sums = zip(V.tolist(), remainders.tolist(), strict=True)
    rows = [[Fraction(value) + Fraction(remainder) for value, remainder in zip(*row, strict=True)] for row in sums]
    weighted = [[Fraction(w) * value for value in row] for w, row in zip(weights.tolist(), rows, strict=True)]
    weighted_columns, columns = zip(*weighted, strict=True), list(zip(*rows, strict=True))
    M = [[sum(map(mul, a, b), Fraction(0)) for b in columns] for a in weighted_columns]
    return is_semidefinite(M)


def is_semidefinite(M: list[list[Fraction]]) -> bool:
    """Return whether a symmetric matrix of fractions is PSD, by elimination in place."""
    for k, row in enumerate(M):
        pivot = row[k]
        if pivot < 0 or (pivot == 0 and any(row[k:])):
            return False
        for below in M[k + 1 :] if pivot else ():
            share = below[k] / pivot
            below[k:] = [a - share * b for a, b in zip(below[k:], row[k:], strict=True)]
    return True


def exact_distances(
    X: NDArray[np.floating],
    first: NDArray[np.integer],
    second: NDArray[np.integer],
    components: NDArray[np.floating],
    metric: NDArray[np.floating] | None = None,
) -> list[Fraction]:
    """Return the exact squared distances of pairs of rows, (p,), under a factor (r, d), or under a metric if given."""
    points, power = whole(X)
    V = points[first] - points[second]
    if metric is None:
        factor, factor_power = whole(components)
        Z, power = V @ factor.T, 2 * (power + factor_power)
        squares = (Z * Z).sum(axis=1)
    else:
        M, metric_power = whole(metric)
        squares, power = ((V @ M) * V).sum(axis=1), 2 * power + metric_power
    unit = Fraction(2) ** power
    return [Fraction(int(square)) * unit for square in squares]


def whole(A: NDArray[np.floating]) -> tuple[IntegerArray, int]:
    """Return whole numbers Z, Python integers, and a power e with ``A = 2^e Z``."""
    mantissas, exponents = np.frexp(A.astype(np.float64))
    powers = exponents.astype(np.int64) - 53
    smallest_power = int(powers[mantissas != 0.0].min(initial=0))
    shifts = np.where(mantissas != 0.0, powers - smallest_power, 0)
    values = [int(m) << int(s) for m, s in zip((mantissas * 2.0**53).ravel(), shifts.ravel(), strict=True)]
    Z = np.empty(A.size, dtype=object)
    Z[:] = values
    return Z.reshape(A.shape), smallest_power


def integers(X: NDArray[np.floating]) -> IntegerArray:
    """Return floats as whole numbers, each column multiplied by a power of two of its own; Python integers, (n, d)."""
    out = np.empty(X.shape, dtype=object)
    for j in range(X.shape[1]):
        out[:, j] = whole(X[:, j])[0]
    return out


def integer_null_space(rows: IntegerArray) -> IntegerArray:
    """Return a basis of the vectors that are orthogonal to all rows, exactly.

    Rows are chosen by elimination modulo a prime, and solved for in whole numbers.
    """
    basis = _solve(rows, *_pivots(rows))
    if (rows @ basis != 0).any():
        raise ArithmeticError(f"elimination modulo {PRIME} does not find the rank of {len(rows)} rows.")
    return basis


def _pivots(rows: IntegerArray) -> tuple[list[int], list[int]]:
    """Return rows and columns of a regular submatrix of the largest size, modulo the prime."""
    A = (rows % PRIME).astype(np.int64)
    free, pivot_rows, pivot_columns = np.ones(len(A), dtype=bool), [], []
    for j in range(A.shape[1]):
        candidates = np.flatnonzero((A[:, j] != 0) & free)
        if not len(candidates):
            continue
        pivot = int(candidates[0])
        free[pivot] = False
        pivot_rows.append(pivot)
        pivot_columns.append(j)
        A[pivot] = A[pivot] * pow(int(A[pivot, j]), -1, PRIME) % PRIME
        A[candidates[1:]] = (A[candidates[1:]] - np.outer(A[candidates[1:], j], A[pivot])) % PRIME
    return pivot_rows, pivot_columns


def _solve(rows: IntegerArray, pivot_rows: list[int], pivot_columns: list[int]) -> IntegerArray:
    """Return the vectors orthogonal to the chosen rows: one for each other column, by elimination without fractions."""
    d, k = rows.shape[1], len(pivot_columns)
    free_columns = [j for j in range(d) if j not in set(pivot_columns)]
    A = rows[pivot_rows][:, pivot_columns + free_columns].copy()
    last = 1
    for j in range(k):  # Bareiss: every division is exact
        pivot = next(i for i in range(j, k) if A[i, j])
        A[[j, pivot]] = A[[pivot, j]]
        for i in range(k):
            if i != j:
                A[i] = (A[i] * A[j, j] - A[j] * A[i, j]) // last
        last = A[j, j]
    basis = np.zeros((d, len(free_columns)), dtype=object)
    for q, j in enumerate(free_columns):
        vector = [-int(value) for value in A[:, k + q]] + [int(last)]
        common = math.gcd(*vector) or 1
        for row, value in zip([*pivot_columns, j], vector, strict=True):
            basis[row, q] = value // common
    return basis


def null_directions(
    X: NDArray[np.floating], first: IndexArray, second: IndexArray
) -> tuple[IntegerArray, IntegerArray] | None:
    """The directions along which no pair differs, and X along them, in whole numbers; None if it takes too long."""
    if X.size > 400_000 or X.shape[1] > 128:  # about a second; numbers grow with each column
        return None
    rows, (a, b) = integers(X), forest(first, second, len(X))
    try:
        null = integer_null_space(rows[a] - rows[b])
    except ArithmeticError:
        return None
    return null, rows @ null


def forest(first: IndexArray, second: IndexArray, n: int) -> tuple[IndexArray, IndexArray]:
    """Return pairs that form a spanning forest of the given pairs: all differences are sums of theirs."""
    pairs = first.astype(np.int32), second.astype(np.int32)  # SciPy 1.13 takes no others
    graph = sp.csr_array((np.ones(len(first)), pairs), shape=(n, n))
    a, b = sp.csgraph.minimum_spanning_tree(graph).nonzero()
    is_edge = a != b
    return a[is_edge], b[is_edge]


def differing(X: NDArray[np.floating], first: IndexArray, second: IndexArray) -> NDArray[np.bool_]:
    """Return, exactly, which features differ within some pair, (d,)."""
    differ = np.zeros(X.shape[1], dtype=bool)
    for start in range(0, len(first), ROWS_AT_ONCE):
        some = slice(start, start + ROWS_AT_ONCE)
        differ |= (X[first[some]] != X[second[some]]).any(axis=0)
    return differ


def refined(groups: NDArray[np.int32], keys: FloatArray | IntegerArray) -> NDArray[np.int32]:
    """Return groups split up so that the rows of `keys` agree exactly within each."""
    if not keys.shape[1]:
        return groups
    number: dict[tuple[object, ...], int] = {}
    rows = zip(groups.tolist(), keys.tolist(), strict=True)
    return np.array([number.setdefault((group, *key), len(number)) for group, key in rows], dtype=np.int32)


def separated(X: NDArray[np.floating], first: IndexArray, second: IndexArray) -> NDArray[np.int32]:
    """Return groups of examples, (n,): two groups provably differ in a direction that no given pair has."""
    points, place = np.unique(X.astype(np.float64) + 0.0, axis=0, return_inverse=True)
    place = place.ravel()
    if len(points) <= 1500 and are_independent(points):  # of points that no pairs connect, no difference is spanned
        graph = sp.coo_array((np.ones(len(first)), (place[first], place[second])), shape=(len(points),) * 2)
        return np.asarray(sp.csgraph.connected_components(graph, directed=False)[1], dtype=np.int32)[place]
    varying = differing(X, first, second)
    groups = refined(np.zeros(len(X), dtype=np.int32), X[:, ~varying].astype(np.float64))
    null_and_images = null_directions(X[:, varying], first, second)
    return groups if null_and_images is None else refined(groups, null_and_images[1])


def are_independent(points: FloatArray) -> bool:
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
    """Return an upper bound of the dimension of the span of ``x_a - x_b`` over pairs (a, b), as good as needed."""
    differ = differing(X, first, second)
    if (k := int(differ.sum())) <= largest:
        return k
    X = X[:, differ]
    rows, row_numbers = np.unique(np.concatenate([first, second]), return_inverse=True)
    points, same = np.unique(X[rows], axis=0, return_inverse=True)
    a, b = same.ravel()[row_numbers.reshape(2, -1)]
    a, b = forest(a, b, len(points))
    null_and_images = null_directions(points, a, b) if min(k, len(a)) > largest else None
    return min(k, len(a)) if null_and_images is None else k - null_and_images[0].shape[1]
