"""Multipliers of triplets, and of constraints that a problem lists itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sdpmetric.arrays import FloatArray
from sdpmetric.triplets.triplets import Triplets


@dataclass(frozen=True)
class Dual:
    """Multipliers of triplets: all triplets that are not listed have multiplier 0.

    Attributes
    ----------
    triplets : Triplets
    values : (t,) array
        The multiplier ``a_t`` of each listed triplet, between 0 and the push weight times its weight.
    """

    triplets: Triplets
    values: FloatArray

    def __len__(self) -> int:
        return len(self.values)


# Multipliers of triplets, or one for each constraint of a problem that lists its constraints itself.
Multipliers = Dual | FloatArray


def check_triplet_multipliers(dual: Multipliers) -> Dual:
    """Multipliers of a statement about triplets."""
    if not isinstance(dual, Dual):
        raise TypeError(f"dual must be a Dual, triplets with their multipliers, got {type(dual).__name__}.")
    return dual


def check_multipliers(dual: Multipliers, n: int, what: str) -> FloatArray:
    """Multipliers of a statement that lists its constraints, (n,), float64."""
    if isinstance(dual, Dual):
        raise TypeError(f"dual must be an array of {n} {what}; this problem has no triplets.")
    values = np.asarray(dual, dtype=np.float64)
    if values.shape != (n,) or not np.isfinite(values).all():
        raise ValueError(f"dual must be {n} finite {what}, got shape {values.shape}.")
    return values
