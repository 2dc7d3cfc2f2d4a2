"""Features that are combinations of others up to the rounding of their numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import SMALLEST_DIVISOR, BoolArray, allow_underflow
from sdpmetric.linalg.psd import triangle
from sdpmetric.linalg.rigorous.directed import U


@allow_underflow
def dependent_features(X: NDArray[np.floating]) -> dict[int, list[int]]:
    """Return the features that other features determine up to rounding, each with those features.

    Return nothing for data with no more rows than features: these depend on each other in the sample only. A metric
    without the dependent features reaches all distances that a metric of all features has, up to rounding of the data.
    No dependent feature determines another feature. A constant feature depends on none.
    """
    Z = np.asarray(X, dtype=np.float64)
    n, d = Z.shape
    if not n > 1 or d > 2000:  # singular values of more features take seconds
        return {}
    sizes = np.abs(Z).max(axis=0)
    Z = Z - np.clip(Z.mean(axis=0), Z.min(axis=0), Z.max(axis=0))
    ranges = np.abs(Z).max(axis=0)
    units = np.where(ranges > 0.0, ranges, 1.0)
    Z = Z / units
    deviations = np.sqrt(np.mean(Z * Z, axis=0))
    noise = U * sizes / units
    # Half units in the last place that a dependent feature's numbers may be off: its own, and those of sums.
    roundings = 4.0 + 2.0 * np.sqrt(d)
    constant = (ranges == 0.0) | (deviations <= roundings * noise)
    relations: dict[int, list[int]] = {int(j): [] for j in np.flatnonzero(constant)}
    varying = np.flatnonzero(~constant)
    if len(np.unique(Z, axis=0)) <= len(varying) + 1 or not len(varying):
        return {}
    Z, noise = Z[:, varying] / deviations[varying], noise[varying] / deviations[varying]
    _, sigma, Vt = np.linalg.svd(triangle([Z]), full_matrices=True)
    lengths = np.zeros(len(Vt))
    lengths[: len(sigma)] = sigma / np.sqrt(n)
    # A feature that was scaled after it was made is off by at most 1e-13.
    null = Vt[lengths <= 1e-13 + roundings * np.linalg.norm(Vt * noise, axis=1)].T
    dependent = list[int]()
    for k in range(null.shape[1]):  # express the last feature with a sizable coefficient
        coefficients = np.abs(null[:, k])
        j = int(np.flatnonzero(coefficients >= 0.3 * coefficients.max())[-1])
        null[:, k] /= null[j, k]
        is_other = np.arange(null.shape[1]) != k
        null[:, is_other] -= np.outer(null[:, k], null[j, is_other])
        dependent.append(j)
    for k, j in enumerate(dependent):
        coefficients = np.abs(null[:, k])
        coefficients[dependent] = 0.0
        # Smaller coefficients do not belong to the relation.
        sources = np.flatnonzero(coefficients > 1e-6 * max(float(coefficients.max()), SMALLEST_DIVISOR))
        relations[int(varying[j])] = [int(i) for i in varying[sources]]
    return dict(sorted(relations.items()))


def independent_features(X: NDArray[np.floating]) -> BoolArray:
    """Return which features others do not determine up to rounding, (d,)."""
    independent = np.ones(X.shape[1], dtype=np.bool_)
    independent[list(dependent_features(X))] = False
    return independent


def described(X: NDArray[np.floating], names: Sequence[str] = ()) -> str:
    """Name the dependent features and those that determine them, by number if names are missing; empty without any."""
    relations = [(j, sources) for j, sources in dependent_features(X).items() if sources]
    words = [repr(str(name)) for name in names] if len(names) == X.shape[1] else [str(j) for j in range(X.shape[1])]
    shown = [
        f"feature {words[j]} of {', '.join(words[i] for i in sources[:6])}{', ..' * (len(sources) > 6)}"
        for j, sources in relations[:3]
    ]
    return "; ".join(shown) + (f" and {len(relations) - len(shown)} more" if len(relations) > len(shown) else "")
