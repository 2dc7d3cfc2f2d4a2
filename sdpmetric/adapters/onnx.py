"""Fitted estimators as ONNX graphs, by skl2onnx: ``pip install sdpmetric[onnx]``."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sdpmetric import estimators
from sdpmetric.core import validation
from sdpmetric.estimators.base import MetricEstimator

if TYPE_CHECKING:
    from onnx import ModelProto
    from skl2onnx.common._container import ModelComponentContainer
    from skl2onnx.common._topology import Operator, Scope


def to_onnx(estimator: BaseEstimator, X: ArrayLike) -> ModelProto:
    """A fitted estimator, or a pipeline that holds one, as an ONNX graph.

    Parameters
    ----------
    estimator : estimator
        Of `sdpmetric.estimators`, or a pipeline of it and what skl2onnx knows. Its embedding is the output.
    X : (n, d) array
        A few rows of what is transformed, for the number of features and the dtype.

    Returns
    -------
    model : onnx.ModelProto
        ``model.SerializeToString()`` is what a file holds.

    Raises
    ------
    ImportError
        If skl2onnx is missing.
    TypeError
        If the estimator is no single linear map: `KernelLMNN` and `MultiMetricLMNN`.
    """
    register()
    import skl2onnx

    check_is_fitted(estimator)
    return cast("ModelProto", skl2onnx.to_onnx(estimator, validation.check_data(X)[:1]))


def register() -> None:
    """Make the estimators of this package known to skl2onnx, for its own functions."""
    try:
        from skl2onnx import update_registered_converter
    except ImportError as error:
        raise ImportError("ONNX graphs need skl2onnx: pip install 'sdpmetric[onnx]'.") from error
    for name in estimators.__all__:
        kind = getattr(estimators, name)
        if issubclass(kind, MetricEstimator):
            update_registered_converter(kind, f"Sdpmetric{name}", _shape, _convert, overwrite=True)


def _matrix(estimator: MetricEstimator) -> NDArray[np.floating]:
    if isinstance(estimator, estimators.KernelLMNN | estimators.MultiMetricLMNN):
        raise TypeError(
            f"{type(estimator).__name__} needs its training examples, for kernel values or for their regions; ONNX "
            "graphs support only estimators with one linear map."
        )
    return np.ascontiguousarray(estimator.components_.T)


def _shape(operator: Operator) -> None:
    input_type = operator.inputs[0].type
    operator.outputs[0].type = type(input_type)([input_type.shape[0], _matrix(operator.raw_operator).shape[1]])


def _convert(scope: Scope, operator: Operator, container: ModelComponentContainer) -> None:
    from skl2onnx.algebra.onnx_ops import OnnxLpNormalization, OnnxMatMul
    from skl2onnx.common.data_types import guess_numpy_type

    dtype = guess_numpy_type(operator.inputs[0].type)
    matrix = _matrix(operator.raw_operator).astype(dtype)
    rows, version = operator.inputs[0], container.target_opset
    if operator.raw_operator.unit_rows:
        rows = OnnxLpNormalization(rows, axis=1, p=2, op_version=version)
    product = OnnxMatMul(rows, matrix, op_version=version, output_names=operator.outputs[:1])
    product.add_to(scope, container)
