"""Multipliers on a segment, the best of them, and what they prove."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

FloatArray = NDArray[np.float64]
Lists = list[FloatArray]

# Largest multiple of the way from the anchor that is tried.
FURTHEST = 1e6


@dataclass(frozen=True, eq=False)
class Proven:
    """What multipliers prove.

    Attributes
    ----------
    value : float
        Below every objective; minus infinity where nothing is proven.
    multipliers : list of (m,) arrays
        Those that prove it, loss by loss.
    residual : float
        How far the given ones had to be moved, relatively.
    null_dimension : int
        Directions in which the data vary at no cost.
    weakness : str or None
        Why the bound may be weak.
    """

    value: float
    multipliers: Lists
    residual: float = 0.0
    null_dimension: int = 0
    weakness: str | None = None


@dataclass(frozen=True, eq=False)
class Segment:
    """Multipliers ``start + t step``, and slopes U of the further regularizers, or ``t U``."""

    start: Lists
    step: Lists
    matrices: Lists
    fixed: bool = False

    def slopes(self, t: float) -> Lists:
        """The slopes at t."""
        return self.matrices if self.fixed else [t * U for U in self.matrices]

    def at(self, t: float) -> Lists:
        """The multipliers at t."""
        return [a + t * b for a, b in zip(self.start, self.step, strict=True)]


def best_multiple(value: Callable[[float], float], end: float) -> float:
    """The t between 0 and `end` with about the largest concave value."""
    top = min(end, FURTHEST)
    if top > 2.0:  # as a rule the best multiple is near 1
        near = 2.0
        while near < top and value(near) > value(0.5 * near):
            near *= 4.0
        top = min(top, near)
    if top <= 0.0:
        return 0.0
    if value(top) > max(value((1.0 - 1e-6) * top), value(0.0)):  # concave: it still rises there, as of hinges alone
        return top
    options = {"xatol": 1e-9 * top}
    found = minimize_scalar(lambda t: -max(value(t), -1e300), bounds=(0.0, top), method="bounded", options=options)
    tries = [float(found.x), top] + ([1.0] if top >= 1.0 else [])
    best = max(tries, key=value)
    return best if value(best) > value(0.0) or not math.isfinite(value(0.0)) else 0.0
