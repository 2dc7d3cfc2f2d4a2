"""Weights of examples, pairs, triplets and terms: one check at the public edge."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation

# Positive weights of pairs, triplets and quadruplets, and their inverses, are at most this.
LARGEST_WEIGHT = validation.RANGES.largest
# The same of examples, as pairs and triplets have the products of two.
LARGEST_EXAMPLE_WEIGHT = math.sqrt(LARGEST_WEIGHT)


def check_weights(
    name: str, weights: ArrayLike, size: int, owner: str, *, largest: float = LARGEST_WEIGHT, zeros: bool = True
) -> FloatArray:
    """Return weights of `size` owners, for example "pair", in float64: finite, at least 0, and of moderate size.

    Positive weights lie between ``1 / largest`` and `largest`, or the error names a power of 2 to multiply them by.
    If `zeros` is False, all are positive.
    """
    array = validation.check_column(name, weights, size, owner)
    if not (np.isfinite(array) & (array >= 0.0)).all():
        raise ValueError(f"{name} must be finite and at least 0; drop or correct the other {owner}s.")
    if not (zeros or array.all()):
        raise ValueError(f"{name} must be positive; leave {owner}s of weight 0 out.")
    positive = array[array > 0.0]
    low, high = float(positive.min(initial=math.inf)), float(positive.max(initial=0.0))
    if len(positive) and not 1.0 / largest <= low <= high <= largest:
        exponent = -(math.frexp(low)[1] + math.frexp(high)[1]) // 2
        remedy = f"set the smallest to 0 or drop these {owner}s"
        if high / largest <= low * largest:
            remedy = f"multiply all by 2.0**{exponent}, which is exact"
        raise ValueError(
            f"{name} must be 0 or between {1.0 / largest:g} and {largest:g}, got {low:.3g} to {high:.3g}; scale them: "
            f"{remedy}."
        )
    return array


def check_mean_weights(
    name: str, weights: ArrayLike, size: int, owner: str, largest: float = LARGEST_WEIGHT
) -> FloatArray:
    """Return `check_weights` of a mean, which needs a positive one."""
    array = check_weights(name, weights, size, owner, largest=largest)
    if size and not array.any():
        raise ValueError(f"{name}: all weights are zero; at least one must be positive.")
    return array


def check_sample_weight(weights: ArrayLike | None, n: int) -> FloatArray | None:
    """Return weights of n examples, not all 0, float64, or None for no weights or weights of 1."""
    if weights is None:
        return None
    array = check_mean_weights("sample_weight", weights, n, "example", LARGEST_EXAMPLE_WEIGHT)
    return None if (array == 1.0).all() else array


def check_pair_weights(weights: ArrayLike | None, p: int) -> FloatArray | None:
    """Return positive weights of p pairs, float64, or None for no weights or weights of 1."""
    if weights is None:
        return None
    array = check_weights("pair_weights", weights, p, "pair", zeros=False)
    return None if (array == 1.0).all() else array


def check_term_weight(name: str, weight: float, present: float = 1.0) -> float:
    """Return a term's weight times a factor: finite, at least 0, and 0 only if one of them is."""
    try:
        factors = validation.check_number("weight", weight, 0.0), validation.check_number("weight", present, 0.0)
    except ValueError as error:
        raise ValueError(
            f"the weight of {name} must be a finite number of at least 0, got {weight!r}: a negative multiple of a "
            "convex term is not convex. Use the opposite term, for example at_least= in place of at_most=."
        ) from error
    return validation.check_weight(f"the weight of {name}", math.prod(factors))
