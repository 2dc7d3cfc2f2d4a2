"""Features that are combinations of others up to the rounding of their numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import SMALLEST_DIVISOR, BoolArray, allow_underflow
from sdpmetric.linalg.psd import triangle
from sdpmetric.linalg.rigorous.directed import U


@dataclass(frozen=True)
class DependenceOptions:
    """When a feature counts as a combination of others."""

    roundings: float = 4.0  # half units in the last place: largest error of a dependent feature's numbers
    roundings_of_sums: float = 2.0  # more of them, for each root of the number of features that a sum runs over
    scaling_error: float = 1e-13  # relative error of a feature that was scaled after it was made
    smallest_share: float = 1e-6  # of the largest coefficient: features below it do not belong to a relation
    pivot_share: float = 0.3  # of the largest coefficient: smallest coefficient of the feature to be expressed
    max_features: int = 2000  # above it nothing is looked for: singular values of more take seconds
    shown: int = 3  # relations that an advice names; it counts the rest


OPTIONS = DependenceOptions()


@allow_underflow
def dependent_features(X: NDArray[np.floating]) -> dict[int, list[int]]:
    """Return the features that other features determine up to rounding, each with those features.

    Return nothing for data with no more rows than features: these depend on each other in the sample only. A metric
    without the dependent features reaches all distances that a metric of all features has, up to rounding of the data.
    No dependent feature determines another feature. A constant feature depends on none.
    """
    Z = np.asarray(X, dtype=np.float64)
    n, d = Z.shape
    if not n > 1 or d > OPTIONS.max_features:
        return {}
    sizes = np.abs(Z).max(axis=0)
    Z = Z - np.clip(Z.mean(axis=0), Z.min(axis=0), Z.max(axis=0))
    ranges = np.abs(Z).max(axis=0)
    units = np.where(ranges > 0.0, ranges, 1.0)
    Z = Z / units
    deviations = np.sqrt(np.mean(Z * Z, axis=0))
    noise = U * sizes / units
    roundings = OPTIONS.roundings + OPTIONS.roundings_of_sums * np.sqrt(d)
    constant = (ranges == 0.0) | (deviations <= roundings * noise)
    relations: dict[int, list[int]] = {int(j): [] for j in np.flatnonzero(constant)}
    varying = np.flatnonzero(~constant)
    if len(np.unique(Z, axis=0)) <= len(varying) + 1 or not len(varying):
        return {}
    Z, noise = Z[:, varying] / deviations[varying], noise[varying] / deviations[varying]
    _, sigma, Vt = np.linalg.svd(triangle([Z]), full_matrices=True)
    lengths = np.zeros(len(Vt))
    lengths[: len(sigma)] = sigma / np.sqrt(n)
    null = Vt[lengths <= OPTIONS.scaling_error + roundings * np.linalg.norm(Vt * noise, axis=1)].T
    dependent = list[int]()
    for k in range(null.shape[1]):  # express the last feature with a sizable coefficient
        coefficients = np.abs(null[:, k])
        j = int(np.flatnonzero(coefficients >= OPTIONS.pivot_share * coefficients.max())[-1])
        null[:, k] /= null[j, k]
        is_other = np.arange(null.shape[1]) != k
        null[:, is_other] -= np.outer(null[:, k], null[j, is_other])
        dependent.append(j)
    for k, j in enumerate(dependent):
        coefficients = np.abs(null[:, k])
        coefficients[dependent] = 0.0
        sources = np.flatnonzero(
            coefficients > OPTIONS.smallest_share * max(float(coefficients.max()), SMALLEST_DIVISOR)
        )
        relations[int(varying[j])] = [int(i) for i in varying[sources]]
    return dict(sorted(relations.items()))


def independent_features(X: NDArray[np.floating]) -> BoolArray:
    """Which features others do not determine up to rounding, (d,)."""
    independent = np.ones(X.shape[1], dtype=np.bool_)
    independent[list(dependent_features(X))] = False
    return independent


def described(X: NDArray[np.floating]) -> str:
    """Name the dependent features and those that determine them; empty if there are none."""
    relations = [(j, sources) for j, sources in dependent_features(X).items() if sources]
    if not relations:
        return ""
    shown = [
        f"feature {j} of {', '.join(map(str, sources[:6]))}{', ..' * (len(sources) > 6)}"
        for j, sources in relations[: OPTIONS.shown]
    ]
    remainder = f" and {len(relations) - len(shown)} more" if len(relations) > len(shown) else ""
    return f"Some features are combinations of others up to rounding: {'; '.join(shown)}{remainder}."
