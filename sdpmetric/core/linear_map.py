"""The factor L of a fitted estimator of any package: its components, or the linear part of what it transforms."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation


class FittedEstimator(Protocol):
    """Anything fitted that carries its factor, as metric-learn's estimators do."""

    components_: NDArray[np.floating]


@runtime_checkable
class FittedTransformer(Protocol):
    """Anything fitted that embeds examples by an affine map: a pipeline, PCA, linear discriminant analysis."""

    def transform(self, X: ArrayLike) -> ArrayLike:
        """Embed examples."""


def linear_map(estimator: FittedEstimator | FittedTransformer, X: NDArray[np.floating]) -> NDArray[np.floating]:
    """The factor L with which an estimator embeds examples, up to a translation."""
    while not hasattr(estimator, "transform") and len(getattr(estimator, "steps", ())) > 1:
        estimator = cast(FittedTransformer, cast(Sequence[object], estimator)[:-1])
    if hasattr(estimator, "solution_") or not isinstance(estimator, FittedTransformer):
        if not hasattr(estimator, "components_"):
            raise TypeError(
                f"estimator must be fitted, with components_ or an affine transform, got {type(estimator).__name__}."
            )
        return cast(FittedEstimator, estimator).components_
    d = X.shape[1]
    wanted: int = getattr(estimator, "n_features_in_", None) or d
    validation.check_width("the problem", X, wanted, type(estimator).__name__)
    examples = np.asarray(X[:: max(1, len(X) // 200)], dtype=np.float64)
    rows: ArrayLike = np.concatenate([np.zeros((1, d)), np.eye(d), examples])
    if (names := getattr(estimator, "feature_names_in_", None)) is not None:
        with suppress(ImportError):
            import pandas

            rows = pandas.DataFrame(rows, columns=names)
    Z = np.asarray(estimator.transform(rows), dtype=np.float64)
    L: FloatArray = (Z[1 : d + 1] - Z[0]).T
    error = np.abs(Z[d + 1 :] - examples @ L.T - Z[0]).max(initial=0.0)
    if not error <= 1e-6 * max(np.abs(Z).max(), np.abs(examples @ L.T).max(initial=0.0)):
        raise ValueError(
            f"{type(estimator).__name__} is not an affine map of the features, so no metric has its distances; verify "
            "its linear steps on the data that they receive."
        )
    return L
