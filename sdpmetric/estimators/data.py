"""Data of estimators, checked by scikit-learn; sparse data are made dense where they are small enough."""

from __future__ import annotations

from functools import partial

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from sdpmetric.core.frames import columns_in_errors, unmasked
from sdpmetric.core.sample_weight import check_sample_weight
from sdpmetric.core.validation import UNLABELLED

Data = NDArray[np.floating]
Labels = NDArray[np.generic]
Rows = slice | NDArray[np.int64]
# Of examples; None: all are 1.
Weights = NDArray[np.float64] | None

# Numbers that sparse data, and a metric of their features, may have when they are dense: 1 GiB in float64.
MOST_NUMBERS = 2**27

_validated = partial(validate_data, dtype=[np.float64, np.float32], order="C", accept_sparse="csr")


def checked_data(estimator: BaseEstimator, X: ArrayLike, *, reset: bool = False, n_min: int = 1) -> Data:
    """Finite (n, d) data, dense, C-contiguous, float32 or float64; `reset` sets the names of features."""
    with columns_in_errors(X):
        return _dense(estimator, _validated(estimator, unmasked("X", X), reset=reset, ensure_min_samples=n_min))


def checked_data_and_labels(
    estimator: BaseEstimator, X: ArrayLike, y: ArrayLike, *, reset: bool = True, n_min: int = 1
) -> tuple[Data, Labels]:
    """Data as of `checked_data`, and a label or target for each row."""
    try:
        with columns_in_errors(X):
            data, labels = _validated(
                estimator, unmasked("X", X), unmasked("y", y), reset=reset, ensure_min_samples=n_min
            )
    except ValueError as error:
        if "y contains NaN" not in str(error):
            raise
        raise ValueError(f"Input y contains NaN; {UNLABELLED}") from error
    return _dense(estimator, data), labels


def rows_to_embed(estimator: BaseEstimator, X: ArrayLike) -> Data | sp.csr_array:
    """Data as of `checked_data`, where sparse ones stay so."""
    with columns_in_errors(X):
        data: Data | sp.csr_array = _validated(estimator, unmasked("X", X), reset=False)
    return data


def weighed(sample_weight: ArrayLike | None, n: int) -> tuple[Weights, slice | NDArray[np.bool_]]:
    """Checked weights without those that are 0, None where all are 1, and the rows that have one."""
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
    dense: Data = X.toarray()
    return dense
