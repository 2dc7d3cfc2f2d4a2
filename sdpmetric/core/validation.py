"""Checks of public arguments. Every error says what was wrong, what was expected, and what to do."""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from numbers import Rational
from typing import Any, TypeGuard, TypeVar, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from sdpmetric.arrays import FloatArray, IndexArray
from sdpmetric.core.read_only import read_only
from sdpmetric.core.triplets import Triplets
from sdpmetric.linalg import psd
from sdpmetric.linalg.distances import mean_squared_distance

ChoiceT = TypeVar("ChoiceT")

# Advice for examples without a label.
UNLABELED = (
    "drop those rows or give them a label. If few rows have labels, learn from pairs that are known to be similar or "
    "not, by fit_pairs of ITML, MMC, POLA or RCA, or from chunklets, by fit_chunks of RCA, where -1 means none."
)
# Advice for a number that float64 would change.
REMEDY = (
    "subtract an offset in its own type (the smallest value of each column), divide by a power of 2, or pass "
    ".astype(numpy.float64) if the rounded numbers are meant"
)


@dataclass(frozen=True)
class Ranges:
    """The range of the numbers of arguments."""

    negative_share: float = 1e-6  # of the largest eigenvalue: more below 0 than this is no metric; so is asymmetry
    rounded_share: float = 1e-12  # of the largest eigenvalue: up to this a negative one may be 0, rounded
    # Differences of data, weights of examples and distances under a start are 0 or between these; their fourth
    # powers are floats.
    smallest: float = 1e-60
    largest: float = 1e60
    # Weights of terms, which have units of the data: products with two weights of constraints and examples are floats.
    smallest_weight: float = 1e-120
    largest_weight: float = 1e120
    largest_square: float = 1e130  # distance of two examples under a point that a user gives, and its trace
    largest_of_metric: float = 1e306  # sums of these are floats, too
    largest_count: int = 2**63 - 1  # counts fit into integers of 64 bits
    largest_exact: int = 2**53  # integers up to this are floats


RANGES = Ranges()


def check_data(X: ArrayLike) -> NDArray[np.floating]:
    """Return dense finite (n, d) data in float64 or float32, C-contiguous; n >= 1, d >= 1."""
    with columns_in_errors(X):
        array: NDArray[np.floating] = check_array(
            numbers("X", X), dtype=[np.float64, np.float32], order="C", input_name="X", ensure_min_samples=1
        )
    return array


def check_examples(X: ArrayLike, name: str = "X") -> NDArray[np.floating]:
    """Return `check_data` for a statement about distances of examples: differences must be in range."""
    array = read_only(check_data(X))
    check_differences(name, array)
    return array


# Rows that are looked at together, in cache for a few hundred features.
ROWS_AT_ONCE = 1 << 10


def check_differences(name: str, rows: NDArray[np.floating]) -> None:
    """Raise an error for a feature with entries, or differences of entries, that are out of range.

    Two floats that differ do so by at least a share of ``2^-53`` of the smaller one, so only features with entries next
    to 0 are sorted.
    """
    if rows.dtype.itemsize < 8:  # single precision is in range
        return
    low, high = np.full(rows.shape[1], np.inf), np.zeros(rows.shape[1])
    for first in range(0, len(rows), ROWS_AT_ONCE):
        sizes = np.abs(rows[first : first + ROWS_AT_ONCE])
        np.maximum(high, sizes.max(axis=0), out=high)
        np.minimum(low, np.where(sizes > 0.0, sizes, np.inf).min(axis=0), out=low)
    for feature in np.flatnonzero(low < RANGES.smallest * 2.0**53):
        low[feature] = np.diff(np.unique(rows[:, feature])).min(initial=np.inf)
    for feature in np.flatnonzero((high > RANGES.largest) | (low < RANGES.smallest)):
        smallest, largest = min(low[feature], high[feature]), high[feature]
        has = (
            f"an entry of size {largest:.3g}" if largest > RANGES.largest else f"entries that differ by {smallest:.3g}"
        )
        remedy = "set the smallest ones to 0"
        if smallest >= largest * RANGES.smallest / RANGES.largest:
            power = min(max(-(math.frexp(smallest)[1] + math.frexp(largest)[1]) // 2, -1000), 1000)
            remedy = f"scale them, for example multiply the feature by 2.0**{power}, which is exact"
        raise ValueError(
            f"feature {feature} of {name} has {has}; entries and their differences must be 0 or of a size between "
            f"{RANGES.smallest:g} and {RANGES.largest:g} so that fourth powers of distances are floats: {remedy}."
        )


def check_range(
    words: str,
    size: float,
    low: float = RANGES.smallest,
    high: float = RANGES.largest,
    reason: str = " so that fourth powers of distances are floats: scale them",
) -> None:
    """Refuse a size that is neither 0 nor in a range; `words` say in a format what has this size."""
    if size and not low <= size <= high:
        allowed = f"0 or between {low:g} and {high:g}" if low else f"at most {high:g}"
        raise ValueError(f"{words.format(size)}; it must be {allowed}{reason}.")


def check_weight(name: str, value: float) -> float:
    """Return the weight of a term: 0 or in range, the same in float64."""
    number = check_number(name, value, 0.0)
    low, high = RANGES.smallest_weight, RANGES.largest_weight
    check_range(f"{name} is {{:.3g}}", number, low, high, ": scale the features and the weights")
    return number


def check_share(name: str, value: float) -> float:
    """Return a weight between 0 and 1 that is 0 or in range."""
    number = check_number(name, value, 0.0, 1.0)
    check_range(f"{name} is {{:.3g}}", number, high=1.0, reason="")
    return number


def check_prior(name: str, matrix: FloatArray) -> FloatArray:
    """Refuse a prior under which units of the features have a length out of range."""
    size = float(np.abs(matrix).max(initial=0.0))
    reason = " so that fourth powers of distances are floats: scale the features and the prior"
    check_range(f"the largest entry of {name} is {{:.3g}}", size, RANGES.smallest**2, RANGES.largest**2, reason)
    return matrix


def check_made(statement: str, name: str, value: object, method: str) -> None:
    """Raise an error for raw data in place of the arguments that the statement's `from_labels` makes of them."""
    if not hasattr(value, method):
        raise TypeError(
            f"{name} must be what {statement}.from_labels makes of labels, got {type(value).__name__}; to state the "
            f"problem for data, call {statement}.from_labels(X, y)."
        )


def check_labels(y: ArrayLike, n: int, *, n_classes: int = 2) -> tuple[NDArray[np.generic], IndexArray]:
    """Return classes in sorted order and the (n,) class index of each example; at least `n_classes` classes."""
    labels = column_or_1d(unmasked("y", y), warn=False)
    check_count("y", len(labels), n)
    if not len(labels):
        raise ValueError("y is empty; pass a label for each example.")
    check_names("y", labels)
    check_classification_targets(labels)
    classes, index = np.unique(labels, return_inverse=True)
    if len(classes) < n_classes:
        raise ValueError(
            f"y has one class only ({classes.tolist()[0]!r}); "
            "metric learning needs at least two, since other classes are to be farther away."
        )
    return classes, index.astype(np.int32)


def check_names(name: str, labels: NDArray[np.generic]) -> None:
    """Raise an error for labels that are missing or cannot be sorted."""
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise ValueError(f"{name} contains NaN or infinity; {UNLABELED}")
    if labels.dtype.kind in "mMO":
        import pandas as pd

        if pd.isna(labels).any():
            raise ValueError(
                f"{name} contains missing {'labels' if labels.dtype.kind == 'O' else 'dates'}; {UNLABELED}"
            )
    if labels.dtype.kind == "O":
        try:
            np.sort(labels)
        except (TypeError, ValueError) as error:  # a ValueError of labels that are arrays
            raise ValueError(f"{name} mixes labels that have no order ({error}); convert them to one type.") from error


def check_class_sizes(classes: NDArray[np.generic], index: IndexArray, n_neighbors: int) -> None:
    check_integer("n_neighbors", n_neighbors)
    counts = np.bincount(index, minlength=len(classes))
    if counts.min() <= n_neighbors:
        smallest = int(counts.argmin())
        size = int(counts[smallest])
        if counts.max() == 1:
            raise ValueError(
                f"each of the {len(classes)} labels occurs once; pass classes of several members, or numbers to MLKR."
            )
        remedy = f"use n_neighbors={size - 1} or fewer, or drop the class" if size > 1 else "drop the class"
        raise ValueError(
            f"class {classes.tolist()[smallest]!r} has {size} member{'s' * (size > 1)}, but n_neighbors={n_neighbors} "
            f"target neighbors need at least {n_neighbors + 1}; {remedy}."
        )


def like(name: str, names: Iterable[str]) -> str:
    """Return a question in parentheses, if one of the names resembles the given name."""
    matches = difflib.get_close_matches(name, [candidate for candidate in names if candidate != name], n=1)
    return f" (did you mean {matches[0]!r}?)" if matches else ""


def check_known(owner: str, names: Iterable[str], parameters: Iterable[str]) -> None:
    """Refuse names of arguments that `owner` does not have."""
    takes = sorted(parameters)
    if foreign := sorted(set(names) - set(takes)):
        question, choices = like(foreign[0], takes), ", ".join(takes) or "none"
        raise TypeError(f"{owner} does not take {', '.join(foreign)}{question}; it takes {choices}.")


def rectangular(name: str, rows: ArrayLike) -> NDArray[np.integer]:
    """Return an array of row numbers with rows of one length."""
    try:
        return np.asarray(unmasked(name, rows))
    except ValueError as error:
        raise ValueError(f"{name} must have rows of equal length ({error}); pass an array of row numbers.") from error


def check_target_neighbors(targets: ArrayLike | sp.sparray | sp.spmatrix, index: IndexArray) -> IndexArray:
    """Return target neighbors as (n, K) int32, padded with -1, from such an array or a sparse similarity graph."""
    n = len(index)
    if sp.issparse(targets):
        graph = sp.csr_array(targets, copy=True)  # what follows works in place
        if graph.shape != (n, n):
            raise ValueError(f"target_neighbors has shape {graph.shape}; a similarity graph must be ({n}, {n}).")
        graph.eliminate_zeros()
        graph.sum_duplicates()
        sizes = np.diff(graph.indptr)
        array = np.full((n, int(sizes.max(initial=0))), -1, dtype=np.int32)
        rows = np.repeat(np.arange(n), sizes)
        array[rows, np.arange(len(rows)) - graph.indptr[rows]] = graph.indices
    else:
        padded = rectangular("target_neighbors", targets)
        unpadded = np.where(padded == -1, 0, padded) if padded.dtype.kind == "i" else padded
        array = check_rows("target_neighbors", unpadded, n, (n, "k"), f", or a sparse ({n}, {n}) graph")
        array[padded == -1] = -1
    row, slot = np.nonzero(array >= 0)
    columns = array[row, slot]
    if (columns == row).any():
        raise ValueError(f"example {row[columns == row][0]} is its own target neighbor; leave it out of its row.")
    foreign = index[columns] != index[row]
    if foreign.any():
        i, j = row[foreign][0], columns[foreign][0]
        raise ValueError(
            f"target neighbor {j} of example {i} has another label; target neighbors share their anchor's class."
        )
    ordered = np.sort(array, axis=1)
    if ((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any():
        raise ValueError("target_neighbors names a neighbor twice in one row; give each once.")
    return np.ascontiguousarray(array)


def check_triplets(triplets: ArrayLike | Triplets, n: int) -> Triplets:
    """Return triplets of three different row numbers below n."""
    array = triplets.to_array() if isinstance(triplets, Triplets) else triplets
    roles = " with columns anchor, target, impostor"
    return Triplets.from_array(check_rows("triplets", array, n, ("t", 3), roles, distinct=True))


# The shape that an argument must have; a name stands for any size.
Shape = tuple[int | str, ...]


def check_rows(
    name: str, rows: ArrayLike, n: int, shape: Shape = ("m",), roles: str = "", *, distinct: bool = False
) -> IndexArray:
    """Return row numbers below n, int32; `roles` names the columns; if `distinct`, no row names a row of X twice."""
    array = rectangular(name, rows)
    if array.size == 0 and isinstance(shape[0], str):
        return np.zeros([0, *(size for size in shape[1:] if isinstance(size, int))], dtype=np.int32)
    if not _fits(array, shape) or array.dtype.kind not in "iu":
        raise ValueError(
            f"{name} must be an integer array of shape {_in_words(shape)}{roles}, got shape {array.shape} and dtype "
            f"{array.dtype}."
        )
    if array.size and (array.min() < 0 or array.max() >= n):
        outside = array[(array < 0) | (array >= n)].ravel()[0]
        raise ValueError(f"{name} has indices outside 0..{n - 1}, such as {outside}; they are row numbers from 0.")
    if distinct and (repeated := (array == np.roll(array, 1, axis=1)).any(axis=1)).any():
        raise ValueError(f"{name} names a row twice in {array[repeated][0].tolist()}; each needs different rows of X.")
    return np.ascontiguousarray(array, dtype=np.int32)


def check_matrix(name: str, values: ArrayLike | None, shape: Shape, meaning: str = "") -> FloatArray:
    """Return a finite array in float64 of a shape; `meaning` says what its rows and columns are."""
    array = real_array(name, values)
    if not _fits(array, shape):
        meaning = f", {meaning}" if meaning else ""
        raise ValueError(f"{name} must have shape {_in_words(shape)}{meaning}, got {array.shape}.")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} contains NaN or infinity; drop it or fill it in.")
    return np.ascontiguousarray(array)


def check_vector(name: str, vector: ArrayLike, d: int | None) -> FloatArray:
    """Return a finite float64 vector of length d, of any length if d is None."""
    # Checks of a stream's examples one by one would take longer than its updates.
    is_usual = type(vector) is np.ndarray and vector.dtype == np.float64 and vector.shape == (d or -1,)
    if is_usual and math.isfinite(np.dot(vector, vector)):
        return np.array(vector)
    array = check_matrix(name, vector, ("d" if d is None else d,), "a number for each feature")
    if not len(array):
        raise ValueError(f"{name} must have some features, got none.")
    return array


def check_column(name: str, values: ArrayLike, n: int, owner: str) -> FloatArray:
    """Return real numbers in float64, infinity included, one for each of n owners, or one for all; (n,)."""
    array = real_array(name, values)
    if array.shape not in ((), (n,)):
        raise ValueError(f"{name} has shape {array.shape}; its shape must be ({n},), one per {owner}, or () for all.")
    return np.array(np.broadcast_to(array, n))


def check_choice(name: str, value: ChoiceT, choices: Collection[str]) -> ChoiceT:
    if not isinstance(value, str) or value not in choices:
        question = like(value, choices) if isinstance(value, str) else ""
        raise ValueError(f"{name} must be {' or '.join(map(repr, choices))}, got {value!r}{question}.")
    return value


def check_positive(name: str, value: float, remedy: str = "") -> float:
    """Return a weight above 0, see `check_weight`; `remedy` says what to pass in place of 0."""
    number = check_weight(name, value)
    if number == 0.0:
        raise ValueError(f"{name} must be positive, got {value!r}{remedy and '; '}{remedy}.")
    return number


def check_count(name: str, count: int, n: int, per: str = "row of X") -> None:
    if count != n:
        raise ValueError(f"{name} has {count} entries; pass one for each {per}, {n} in all.")


def check_width(name: str, rows: NDArray[np.generic], d: int, owner: str) -> None:
    """Raise an error unless rows have the d features that `owner` has."""
    if rows.shape[1] != d:
        raise ValueError(f"{name} has {rows.shape[1]} features, and {owner} has {d}; pass the same ones.")


def _fits(array: NDArray[np.generic], shape: Shape) -> bool:
    sizes = zip(array.shape, shape, strict=False)
    return array.ndim == len(shape) and all(isinstance(size, str) or n == size for n, size in sizes)


def _in_words(shape: Shape) -> str:
    return f"({shape[0]},)" if len(shape) == 1 else f"({', '.join(map(str, shape))})"


def check_number(name: str, value: float, low: float, high: float = np.inf) -> float:
    """Return a finite number in [low, high], the same in float64."""
    if isinstance(value, float) and low <= value <= high and value < np.inf:
        return float(value)
    number, untyped = np.nan, cast(object, value)
    if not isinstance(untyped, str | bytes):
        numbers(name, value)
        with suppress(TypeError, ValueError, OverflowError):
            number = float(value)
    if not np.isfinite(number) or not low <= number <= high:
        upper = "" if high == np.inf else f" and at most {high:g}"
        raise ValueError(f"{name} must be a finite number of at least {low:g}{upper}, got {value!r}.")
    return number


def check_integer(name: str, value: object, low: int = 1, high: int = RANGES.largest_count) -> int:
    """Return an integer in [low, high]; bool is none."""
    if not is_integer(value) or not low <= value <= high:
        wanted = "a positive integer" if low == 1 else f"an integer of at least {low}"
        upper = "" if high == RANGES.largest_count else f" and at most {high}"
        raise ValueError(f"{name} must be {wanted}{upper}, got {value!r}.")
    return int(value)


def generator(random_state: object, default: int | None = None) -> np.random.Generator:
    """Return a generator from a seed, a generator, or None, which is the default; NumPy would recurse into lists."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31 - 1))
    return np.random.default_rng(seed(random_state, default))


def seed(random_state: object, default: int | None = None, high: int = 2**64 - 1) -> int | None:
    """Return a seed that is a whole number, or None, which is the default."""
    if random_state is None:
        return default
    if not is_integer(random_state) or not 0 <= random_state <= high:
        raise ValueError(
            f"random_state must be an integer of at least 0 and at most {high}, a generator of NumPy, or None, "
            f"got {random_state!r}."
        )
    return int(random_state)


def is_integer(value: object) -> TypeGuard[int]:
    """Say whether it is an integer of Python or NumPy, and no bool."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def check_limit(name: str, value: float, meaning: str = "number") -> float:
    """Return a positive number that is a float, infinity included, the same in float64."""
    is_number = is_integer(value) or isinstance(value, float | np.floating)
    if not is_number or not value > 0 or (is_integer(value) and value > RANGES.largest_count):
        raise ValueError(f"{name} must be a positive {meaning}, got {value!r}.")
    return float(value)


def check_entries(name: str, rows: ArrayLike, largest: float = RANGES.largest) -> None:
    """Refuse finite rows with an entry above `largest` in size."""
    check_range(f"{name} has an entry of size {{:.3g}}", float(np.abs(rows).max(initial=0.0)), 0.0, largest)


def check_spread(X: NDArray[np.floating]) -> float:
    """Return the mean squared distance of two rows of examples; raise an error if it is zero."""
    if (X[0] == X).all():
        raise ValueError(f"all {len(X)} examples are equal, so there is nothing to learn; check X.")
    return mean_squared_distance(X)


def check_point(components: ArrayLike | None, metric: ArrayLike | None, d: int) -> tuple[FloatArray, float]:
    """Return a factor (r, d) in float64 from either keyword, and how far the metric was from the cone, relatively."""
    if (components is None) == (metric is None):
        raise ValueError("pass exactly one of components= (a factor L, metric L.T @ L) and metric= (the matrix M).")
    if components is not None:
        return check_matrix("components", components, ("r", d), "one column per feature"), 0.0
    M, residual = check_semidefinite("metric", metric, d, "a factor is passed as components=")
    return psd.balanced_factor(M), residual


def check_semidefinite(name: str, matrix: ArrayLike | None, d: int, meaning: str) -> tuple[FloatArray, float]:
    """Return a positive semidefinite (d, d) matrix in float64, and how far it was from the cone, relatively."""
    M = check_matrix(name, matrix, (d, d), meaning)
    size = float(np.abs(M).max(initial=0.0))
    if size > RANGES.largest_of_metric:
        raise ValueError(f"{name} contains {size:.3g}, which is too large.")
    if np.abs(M - M.T).max(initial=0.0) > RANGES.negative_share * size:
        raise ValueError(f"{name} is not symmetric; {meaning}.")
    values = np.linalg.eigvalsh(psd.symmetrize(M))
    residual = max(0.0, -float(values[0])) / max(float(values[-1]), np.finfo(float).tiny) if size else 0.0
    if residual > RANGES.negative_share:
        raise ValueError(
            f"{name} is not positive semidefinite: its smallest eigenvalue is {values[0]:.3g}, its largest one "
            f"{values[-1]:.3g}; project it first, for example with sdpmetric.linalg.psd.project."
        )
    return M, residual


def given_metric(metric: ArrayLike | None, residual: float) -> FloatArray | None:
    """Return a metric that `check_point` has taken, or several, in float64; None if not PSD, or none was given."""
    return None if metric is None or residual > RANGES.rounded_share else real_array("metric", metric)


def check_factors(components: ArrayLike, d: int) -> FloatArray:
    """Return factors (c, r, d) in float64 of one metric, given as (r, d), or of several."""
    array = real_array("components", components)
    if array.ndim == 2:
        return check_matrix("components", array, ("r", d), f"or (c, r, {d}) for c metrics")[None]
    factors = check_matrix("components", array, ("c", "r", d), f"or (r, {d}) for one metric")
    if not len(factors):
        raise ValueError(f"components must have one metric at least, got shape {factors.shape}.")
    return factors


def check_positive_definite(name: str, matrix: ArrayLike, d: int) -> FloatArray:
    """Return a positive definite (d, d) matrix in float64, symmetric to the last digit."""
    A = check_matrix(name, matrix, (d, d), "one row and column for each feature")
    if psd.is_diagonal(A):
        values: NDArray[np.floating] = np.sort(A.diagonal())
    else:
        if np.abs(A - A.T).max() > RANGES.negative_share * np.abs(A).max():
            raise ValueError(f"{name} is not symmetric; pass a symmetric positive definite matrix.")
        A = psd.symmetrize(A)
        values = np.linalg.eigvalsh(A)
    if values[0] <= psd.RANK_TOLERANCE * values[-1]:
        raise ValueError(
            f"{name} must be positive definite; its eigenvalues range from {values[0]:.3g} to {values[-1]:.3g}. "
            "Add a multiple of the identity."
        )
    return check_prior(name, A)


def real_array(name: str, values: ArrayLike | None) -> FloatArray:
    """Return a copy in float64 of a dense array of real numbers that float64 does not change."""
    numbers(name, values)
    try:
        return np.asarray(values).astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(
            f"{name} must be a dense array of real numbers, got {type(values).__name__} ({error})."
        ) from error


GivenT = TypeVar("GivenT")

# Advice for dates: NumPy turns them into counts of days or nanoseconds, and a missing date into -9.2e18.
DATE_REMEDY = "make numbers of them, for example days since the first, or drop them"
# How dtypes that hold dates or durations begin.
DATES = ("date", "time", "period", "duration")
# Tables that are no arrays, by module and class, and their method that makes one.
TABLES = {
    ("polars", "LazyFrame"): "collect",
    ("pyarrow", "Table"): "to_pandas",
    ("pyarrow", "RecordBatch"): "to_pandas",
}
# Advice for a column, by words of scikit-learn's error.
ADVICE = {
    "could not convert": "encode text with sklearn.preprocessing.OneHotEncoder in a ColumnTransformer, or drop it",
    "NaN": "fill it with sklearn.impute.SimpleImputer in a ColumnTransformer, or drop the rows",
    "infinity": "replace such values, or drop the rows",
    "with a sequence": "make a matrix of its vectors, X = np.stack(frame[column]), and pass that",
    "Complex": "take real and imaginary part as two columns",
    "": "make numbers of it, for example days since the first, in a ColumnTransformer, or drop it",
}


def unmasked(name: str, values: GivenT) -> GivenT:
    """Return the argument; raise an error for masked entries, as their hidden numbers would be used."""
    if np.ma.is_masked(values):
        raise ValueError(f"{name} has masked entries; drop them, or fill them in with filled().")
    return values


def check_table(name: str, values: object) -> None:
    """Refuse tables that are no arrays, and say which method makes one."""
    kind = type(values)
    if method := TABLES.get((kind.__module__.split(".")[0], kind.__name__)):
        raise TypeError(f"{name} is a {kind.__module__.split('.')[0]}.{kind.__name__}; pass {name}.{method}().")


def numbers(name: str, values: GivenT) -> GivenT:
    """Return the argument; raise an error for masked, complex or text entries, or if float64 changed a number.

    A certificate is about the numbers that were passed: integers beyond 2**53, long doubles, fractions and decimals are
    none of them if they would be rounded.
    """
    unmasked(name, values)
    check_table(name, values)
    if hasattr(values, "columns") and hasattr(values, "__getitem__"):
        for column in values.columns:
            entries = _unrounded(values[column])
            if entries.dtype.kind == "O":  # text and dates are named by the check of frames
                entries = np.array([value for value in entries if isinstance(value, Rational | Decimal)], dtype=object)
            if entries.dtype.kind in "iufO":
                _check_exact(f"column {column!r} of {name}", entries)
    elif sp.issparse(values):
        _check_exact(name, np.asarray(getattr(values, "data", ())))
    else:
        try:
            array = _unrounded(values)
        except (TypeError, ValueError):
            return values  # ragged: the caller names what it expects
        _check_exact(name, array)
    return values


def _unrounded(values: object) -> NDArray[np.generic]:
    """Return an array of `values`, of objects if NumPy would round integers among floats or missing values."""
    array = np.asarray(values)
    if isinstance(values, np.ndarray) or array.dtype != np.float64 or not array.size:
        return array
    return np.array(values, dtype=object) if (np.abs(array) >= RANGES.largest_exact).any() else array


def _check_exact(name: str, array: NDArray[np.generic]) -> None:
    kind, is_wide = array.dtype.kind, array.dtype.itemsize > 8
    if kind == "c":
        raise ValueError(f"{name}: Complex data not supported; pass real numbers, such as both parts as two columns.")
    if kind in "iu":
        integers = cast("NDArray[np.integer]", array)
        array = array[(integers > RANGES.largest_exact) | (integers < -RANGES.largest_exact)]
    elif kind == "f" and is_wide:
        with np.errstate(over="ignore"):
            array = array[(array != array.astype(np.float64)) & (array == array)]
    elif kind in "mM":
        raise ValueError(f"{name} contains {'dates' if kind == 'M' else 'durations'} ({array.dtype}); {DATE_REMEDY}.")
    elif kind not in "USO":
        return
    for value in array.ravel().tolist():
        if isinstance(value, date | timedelta | np.datetime64 | np.timedelta64):
            raise ValueError(f"{name} contains dates or durations ({value}); {DATE_REMEDY}.")
        if isinstance(value, str | bytes):
            raise ValueError(f"{name} contains text ({value!r}); encode it as numbers, or drop it.")
        if _is_changed(value):
            raise ValueError(f"{name} contains {str(value)[:40]}, which float64 would round: {REMEDY}.")


def _is_changed(value: object) -> bool:
    """Return whether float64 changes an element of an array of objects; missing values are another check's."""
    number = int(value) if isinstance(value, np.integer) else value
    if not isinstance(number, Rational | Decimal | np.floating):
        return False
    try:
        return not (isinstance(number, Decimal | np.floating) and not math.isfinite(number)) and float(number) != number
    except OverflowError:
        return True


@contextmanager
def columns_in_errors(X: ArrayLike) -> Iterator[None]:
    """Let an error of a check of X name its columns, if X is a frame.

    Dates raise an error before, as arrays would take them as numbers.
    """
    check_table("X", X)
    if any(_is_date(dtype) for dtype in (X.dtypes if hasattr(X, "columns") and hasattr(X, "dtypes") else ())):
        check_frame(X)
    try:
        yield
    except (TypeError, ValueError):
        check_frame(X)
        raise


def check_frame(X: ArrayLike) -> None:
    """Refuse a pandas or polars frame with a column that is not of finite numbers; see `columns_in_errors`."""
    if not (hasattr(X, "columns") and hasattr(X, "dtypes") and hasattr(X, "__getitem__")):
        return
    frame, errors = cast(Any, X), dict[str, str]()
    for name, dtype in zip(frame.columns, frame.dtypes, strict=True):
        try:
            if _is_date(dtype):
                raise TypeError("dates and durations are no numbers")
            check_array(frame[[name]], dtype=np.float64)
        except (TypeError, ValueError) as error:
            errors[name] = str(error).splitlines()[0].rstrip(".")
    if errors:
        name, message = next(iter(errors.items()))
        advice = next(advice for cause, advice in ADVICE.items() if cause in message)
        more_columns = f" (and {len(errors) - 1} other columns)" if len(errors) > 1 else ""
        raise ValueError(f"column {name!r} of X: {message}; {advice}{more_columns}.")


def _is_date(dtype: object) -> bool:
    return str(dtype).lower().startswith(DATES)
