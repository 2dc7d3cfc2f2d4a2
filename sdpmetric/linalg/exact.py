"""Exact linear algebra of floats: differences without rounding, null spaces in whole numbers, signs of sums.

Whole numbers also decide how many dimensions differences of examples span at most. FLINT, which computes with them, is
loaded when something has to be decided.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray
from sdpmetric.linalg.rigorous.forms import ROWS_AT_ONCE

if TYPE_CHECKING:
    from flint import fmpq_mat, fmpz_mat

IntegerArray = NDArray[np.object_]
RationalArray = NDArray[np.object_]
IndexArray = NDArray[np.integer]

# Limits of elimination, each for about 2 s: numbers, and rank^3 times null directions times binary digits of a number.
MAX_NUMBERS, MAX_WORK = 2_000_000, 5 * 10**9
# A rank modulo this prime is at most that in whole numbers.
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


def rationals(A: NDArray[np.floating]) -> RationalArray:
    """Return floats as rational numbers of FLINT."""
    from flint import fmpq

    rational: np.ufunc = np.frompyfunc(lambda value: fmpq(*value.as_integer_ratio()), 1, 1)
    return np.asarray(rational(A.astype(np.float64)), dtype=object)


def _matrix(A: RationalArray) -> fmpq_mat:
    from flint import fmpq_mat

    return fmpq_mat(*A.shape, A.ravel().tolist())


def is_psd(V: NDArray[np.floating], remainders: NDArray[np.floating], weights: NDArray[np.floating]) -> bool:
    """Return whether ``S = sum w_t v_t v_t^T`` over exact differences is PSD.

    It is PSD exactly if the coefficients of ``det(t I - S)`` alternate: these are sums of products of eigenvalues.
    """
    exact_differences = rationals(V) + rationals(remainders)
    weighted = rationals(weights)[:, None] * exact_differences
    coefficients = (_matrix(exact_differences.T) * _matrix(weighted)).charpoly().coeffs()[::-1]
    return all(c >= 0 for c in coefficients[::2]) and all(c <= 0 for c in coefficients[1::2])


def exact_distances(
    X: NDArray[np.floating],
    first: NDArray[np.integer],
    second: NDArray[np.integer],
    components: NDArray[np.floating],
    metric: NDArray[np.floating] | None = None,
) -> RationalArray:
    """Return the exact squared distances of pairs of rows, (p,), under a factor (r, d), or under a metric if given."""
    V = rationals(X[first]) - rationals(X[second])
    A = rationals(components.T if metric is None else metric)
    Z = np.array((_matrix(V) * _matrix(A)).entries(), dtype=object).reshape(len(V), A.shape[1])
    return np.asarray((Z * (Z if metric is None else V)).sum(axis=1))


def integers(X: NDArray[np.floating]) -> IntegerArray:
    """Return floats as whole numbers, each column multiplied by a power of two of its own; Python integers, (n, d)."""
    mantissas, exponents = np.frexp(X.astype(np.float64))
    numbers = (mantissas * 2.0**53).astype(np.int64)
    digits = np.frexp((numbers & -numbers).astype(np.float64))[1]  # up to the last that is not 0
    powers = np.where(numbers != 0, exponents + digits, np.iinfo(exponents.dtype).max)
    shifts = np.where(numbers != 0, powers - powers.min(axis=0, initial=np.iinfo(powers.dtype).max), 0)
    return np.asarray((numbers >> np.maximum(digits - 1, 0)).astype(object) << shifts.astype(object))


def null_space(rows: IntegerArray) -> tuple[fmpz_mat, int] | None:
    """Return a matrix with a basis of the vectors orthogonal to all rows in its first columns, and their number.

    Return None if it takes too long: entries of the basis have about as many digits as a row of `rank` entries.
    """
    if rows.size > MAX_NUMBERS:
        return None
    from flint import fmpz_mat, nmod_mat

    d, digits = rows.shape[1], int(np.abs(rows).max(initial=0)).bit_length()
    matrix = fmpz_mat(*rows.shape, rows.ravel().tolist())
    rank = nmod_mat(matrix, PRIME).rank()  # at most that in whole numbers
    return matrix.nullspace() if rank**3 * (d - rank) * digits <= MAX_WORK else None


def rank(A: NDArray[np.floating]) -> int:
    """Return the rank of a matrix of floats, or the number of its columns if that takes too long to decide."""
    null, d = null_space(integers(A)), len(A.T)
    return d if null is None else d - int(null[1])


def null_directions(X: NDArray[np.floating], first: IndexArray, second: IndexArray) -> tuple[int, IntegerArray] | None:
    """Return the number of directions along which no pair differs, and X along them in whole numbers.

    Return None if it takes too long.
    """
    if X.size > MAX_NUMBERS:
        return None
    points, (a, b) = integers(X), forest(first, second, len(X))
    if (null := null_space(points[a] - points[b])) is None:
        return None
    from flint import fmpz_mat

    basis, nullity = null
    directions = fmpz_mat(X.shape[1], nullity, [value for row in basis.tolist() for value in row[:nullity]])
    images = fmpz_mat(*X.shape, points.ravel().tolist()) * directions
    return nullity, np.array(images.tolist(), dtype=object).reshape(len(X), nullity)


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
    """Return whether n points span n - 1 dimensions: their differences do so in whole numbers if modulo a prime."""
    n, d = points.shape
    if n - 1 > d:
        return False
    from flint import nmod_mat

    mantissas, exponents = np.frexp(points)
    shifts = exponents - exponents.min(axis=0)
    powers = np.array([pow(2, k, PRIME) for k in range(int(shifts.max(initial=0)) + 1)])
    residues = (mantissas * 2.0**53).astype(np.int64) % PRIME * powers[shifts] % PRIME
    differences_of_residues = (residues[1:] - residues[0]) % PRIME
    return bool(nmod_mat(n - 1, d, differences_of_residues.ravel().tolist(), PRIME).rank() == n - 1)


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
    return min(k, len(a)) if null_and_images is None else k - null_and_images[0]
