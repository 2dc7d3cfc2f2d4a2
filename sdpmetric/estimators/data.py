"""Parameters and data of estimators, checked by scikit-learn; the decorator that makes an estimator of a class.

The parameters of an estimator are its fields, which the ``__init__`` that dataclasses write stores unchanged, as
scikit-learn asks; the types of the parameters become scikit-learn's ``_parameter_constraints``.

Sparse data are made dense if they are small enough.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Annotated, Literal, TypeVar, Union, dataclass_transform, get_args, get_origin, get_type_hints

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import validate_data

from sdpmetric.arrays import FloatArray
from sdpmetric.core.sample_weight import check_sample_weight
from sdpmetric.core.status import warn
from sdpmetric.core.validation import UNLABELED, columns_in_errors, numbers, unmasked
from sdpmetric.linalg.distances import distances

T = TypeVar("T", bound=BaseEstimator)

Count = Annotated[int, Interval(Integral, 1, None, closed="left")]
Positive = Annotated[float, Interval(Real, 0, None, closed="right")]  # infinity is one
NotNegative = Annotated[float, Interval(Real, 0, None, closed="left")]
Rate = Annotated[float, Interval(Real, 0, 1, closed="both")]
Share = Annotated[float, Interval(Real, 0, 1, closed="neither")]
Ridge = NotNegative | Literal["auto"]
Matrix = Annotated[ArrayLike, "array-like"]
Verbosity = Annotated[int, "verbose"]
Seed = Annotated[int | np.random.RandomState | np.random.Generator | None, "random_state", np.random.Generator]
# Default number of pairs of each kind that are drawn from labels.
N_PAIRS = 10_000
CONSTRAINTS = {bool: "boolean", int: Integral, float: Real, NoneType: None, Callable: callable}


def seed_of(random_state: Seed) -> int:
    """Return a seed: an integer as it is, None is 0, a generator gives one."""
    seed_range = np.iinfo(np.int32).max
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(seed_range))
    return (
        int(random_state.randint(seed_range))
        if isinstance(random_state, np.random.RandomState)
        else int(random_state or 0)
    )


@dataclass_transform(eq_default=False, kw_only_default=True, field_specifiers=(field,))
def estimator(kind: type[T]) -> type[T]:
    """Write the ``__init__`` of an estimator from its fields, and its constraints from their types.

    A decorator of classes. Equality and representation stay scikit-learn's.
    """
    made = dataclass(eq=False, repr=False, kw_only=True)(kind)
    types = get_type_hints(made, include_extras=True)
    parameters = [parameter.name for parameter in fields(made) if parameter.init]
    made._parameter_constraints = {name: _accepted(types[name]) for name in parameters}
    return made


def _accepted(kind: object) -> list[object]:
    """Return the constraints of a type; any one suffices."""
    origin, arguments = get_origin(kind) or kind, get_args(kind)
    if origin is Annotated:
        return list(arguments[1:])
    if origin in (Union, UnionType):
        return [constraint for argument in arguments for constraint in _accepted(argument)]
    return [StrOptions(set(arguments)) if origin is Literal else CONSTRAINTS.get(origin, origin)]


Data = NDArray[np.floating]
Labels = NDArray[np.generic]
Rows = slice | NDArray[np.int64]
# Weights of examples; all 1 if None.
Weights = NDArray[np.float64] | None

# Tuples of examples by their length: what learns from row numbers, and from the tuples themselves.
TUPLES = {
    2: ("pairs", "PairClassifier"),
    3: ("triplets", "TripletClassifier"),
    4: ("quadruplets", "QuadrupletClassifier"),
}
# Numbers that sparse data, and a metric of their features, may have when they are dense: 1 GiB in float64.
MOST_NUMBERS = 2**27


def _validated(
    estimator: BaseEstimator, X: ArrayLike, *labels: ArrayLike, **options: object
) -> tuple[Data | sp.csr_array, Labels]:
    """Check data as scikit-learn does; float16, as embeddings are stored, becomes float32, and integers float64."""
    dtype = np.float32 if getattr(X, "dtype", None) == np.float16 else [np.float64, np.float32]
    _check_rows_are_examples(estimator, getattr(X, "shape", ()))
    with columns_in_errors(X):
        checked = validate_data(
            estimator, numbers("X", X), *labels, dtype=dtype, order="C", accept_sparse="csr", **options
        )
    return checked if labels else (checked, np.zeros(0))


def _check_rows_are_examples(estimator: BaseEstimator, shape: tuple[int, ...]) -> None:
    """Refuse tuples of examples, (t, 2, d) for example, and say what takes them."""
    tuples, classifier = TUPLES.get(shape[1], ("", "")) if len(shape) == 3 else ("", "")
    if tuples and hasattr(estimator, f"fit_{tuples}"):
        kind = type(estimator).__name__
        raise ValueError(
            f"Found array with dim 3: X has shape {shape}. {classifier}({kind}()).fit takes {tuples} of examples; "
            f"{kind}.fit_{tuples} takes examples, (n, d), and {tuples} of their row numbers."
        )


def checked_data(estimator: BaseEstimator, X: ArrayLike, *, reset: bool = False, n_min: int = 1) -> Data:
    """Return finite (n, d) data, dense, C-contiguous, float32 or float64; `reset` sets the names of features."""
    return _dense(estimator, _validated(estimator, X, reset=reset, ensure_min_samples=n_min)[0])


def checked_data_and_labels(
    estimator: BaseEstimator, X: ArrayLike, y: ArrayLike, *, reset: bool = True, n_min: int = 1
) -> tuple[Data, Labels]:
    """Return data as of `checked_data`, and a label or target for each row."""
    try:
        data, labels = _validated(estimator, X, unmasked("y", y), reset=reset, ensure_min_samples=n_min)
    except ValueError as error:
        if "y contains NaN" not in str(error):
            raise
        raise ValueError(f"Input y contains NaN; {UNLABELED}") from error
    return _dense(estimator, data), labels


def warn_of_unlabeled(y: Labels) -> None:
    """Warn of the class -1 with two or more classes from 0 on: scikit-learn marks unlabeled examples by it."""
    classes, counts = np.unique(y, return_counts=True) if y.dtype.kind in "if" else (np.zeros(0), np.zeros(0))
    if len(classes) > 2 and classes[0] == -1:
        warn(
            f"the label -1 of {counts[0]} examples is a class like any other here, though scikit-learn marks examples "
            "without a label by it. To leave these out, pass X[y != -1] and y[y != -1].",
            UserWarning,
        )


def rows_to_embed(estimator: BaseEstimator, X: ArrayLike) -> Data | sp.csr_array:
    """Return data as `checked_data` does, but leave sparse data sparse."""
    return _validated(estimator, X, reset=False)[0]


def weighed(sample_weight: ArrayLike | None, n: int) -> tuple[Weights, slice | NDArray[np.bool_]]:
    """Return the checked nonzero weights, None if all are 1, and their rows."""
    weights = check_sample_weight(sample_weight, n)
    if weights is None or weights.all():
        return weights, slice(None)
    return weights[weights > 0.0], weights > 0.0


def _dense(estimator: BaseEstimator, X: Data | sp.csr_array) -> Data:
    if isinstance(X, np.ndarray):
        return X
    (n, d), kind = X.shape, type(estimator).__name__
    if max(n, d) * d > MOST_NUMBERS:
        raise ValueError(
            f"X is sparse, {n:,} x {d:,}, and {kind} learns from dense data, since it centers them; they, or a metric "
            f"of {d:,} features, would be more than {MOST_NUMBERS:,} numbers: reduce the dimension first, "
            f"make_pipeline(TruncatedSVD(100), {kind}()), or pass X.toarray() if memory suffices."
        )
    return np.asarray(X.toarray())


IndexArray = NDArray[np.int64]
# The two pairs of examples that pairs, triplets and quadruplets compare.
ENDPOINTS = {2: [(0, 1)], 3: [(0, 1), (0, 2)], 4: [(0, 1), (2, 3)]}


def divide_rows(n: int, share: float, seed: int, groups: Labels | None = None) -> tuple[IndexArray, IndexArray]:
    """Return rows to learn from and a share of each group to hold back, in order; lone members are learned from."""
    rows = np.arange(n)
    classes, index, counts = np.unique(
        np.zeros(n) if groups is None else groups, return_inverse=True, return_counts=True
    )
    divisible = rows[counts[index] > 1]
    try:
        _, held = train_test_split(
            divisible, test_size=float(share), random_state=seed, stratify=None if groups is None else index[divisible]
        )
    except ValueError as error:
        sample = f"{n} examples of {len(classes)} classes" if groups is not None else f"{n} items"
        raise ValueError(
            f"validation_fraction={share!r} of {sample} leaves classes without examples to learn from or to hold back "
            f"({error}); choose another share, or more examples."
        ) from error
    held = np.sort(held)
    return np.setdiff1d(rows, held), held


def tuple_distances(Z: FloatArray, tuples: NDArray[np.integer]) -> tuple[FloatArray, ...]:
    """Return squared distances of the one pair of pairs, and of the two that triplets and quadruplets compare."""
    points = np.ascontiguousarray(Z, dtype=np.float64)
    return tuple(
        distances(points, *(tuples[:, column].astype(np.int32) for column in endpoints))
        for endpoints in ENDPOINTS[tuples.shape[1]]
    )


def tuple_score(
    X: Data, tuples: NDArray[np.integer], similar: NDArray[np.bool_] | None, components: FloatArray
) -> float:
    """Return how well distances agree with tuples: the area under the ROC curve of pairs, else the share in order."""
    compared = tuple_distances(X @ components.T, tuples)
    if similar is None:
        return float(np.mean(compared[0] < compared[1]))
    return float(roc_auc_score(similar, -compared[0])) if 0 < similar.sum() < len(similar) else 0.5
