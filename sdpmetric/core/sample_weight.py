"""Weights of examples and of pairs, checked."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sdpmetric.arrays import FloatArray
from sdpmetric.core.validation import unmasked


def check_sample_weight(weights: ArrayLike | None, n: int) -> FloatArray | None:
    """Nonnegative weights of n examples, not all 0, float64; None if there are none, or all are 1."""
    if weights is None:
        return None
    array = _numbers("sample_weight", weights, "example")
    if array.ndim == 0:
        array = np.full(n, float(array))
    if array.shape != (n,):
        raise ValueError(f"sample_weight has shape {array.shape}; sample_weight.shape must be ({n},), one per example.")
    if not (np.isfinite(array) & (array >= 0.0)).all():
        raise ValueError("sample_weight must be finite and at least 0; drop or correct the other examples.")
    if not array.any():
        raise ValueError("sample_weight: all weights are zero; at least one must be positive.")
    return None if (array == 1.0).all() else array


def check_pair_weights(weights: ArrayLike | None, p: int) -> FloatArray | None:
    """Positive weights of p pairs, float64; None if there are none, or all are 1."""
    if weights is None:
        return None
    array = _numbers("pair_weights", weights, "pair")
    if array.shape != (p,) or not (np.isfinite(array) & (array > 0.0)).all():
        raise ValueError(f"pair_weights must be {p} finite positive numbers, one per pair; leave others out.")
    return None if (array == 1.0).all() else array


def _numbers(name: str, weights: ArrayLike, what: str) -> FloatArray:
    try:
        return np.array(unmasked(name, weights), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numbers, one for each {what} ({error}).") from error
