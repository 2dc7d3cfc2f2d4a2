"""Multipliers on a segment, the best of them, and what they prove."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
Lists = list[FloatArray]

# Largest multiple of the way from the anchor that is tried.
FURTHEST = 1e6
# Of the search for the best multiple: first step from 1, by how much the next one is longer; then, how far from the
# best one the next one is at least, as a share of the longer side, steps at most, and the share of the value by which
# it may still rise at the end.
FIRST, LONGER, NARROWER, STEPS, ENOUGH = 1e-5, 10.0, 1e-3, 60, 1e-12
SMALLEST, NOTHING = 1e-300, -1e300


@dataclass(frozen=True, eq=False)
class Proven:
    """What multipliers prove."""

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
    """The t between 0 and `end` with about the largest concave value; as a rule it is near 1.

    Steps away from 1 grow until the best of three points is between the others; parabolas and bisection follow. As
    the value is concave, the lines through the middle and either end say by how much it may still rise.
    """
    top = min(end, FURTHEST)
    if not top > 0.0:
        return 0.0
    known: dict[float, float] = {}

    def f(t: float) -> float:
        if t not in known:
            known[t] = max(value(t), NOTHING)
        return known[t]

    middle = min(1.0, top)
    step = FIRST * middle
    low, high = max(0.0, middle - step), min(top, middle + step)
    while high > middle and f(high) > f(middle):
        step *= LONGER
        low, middle, high = middle, high, min(top, high + step)
    while low < middle and (f(low) > f(middle) or f(middle) <= NOTHING):
        step *= LONGER
        low, middle, high = max(0.0, low - step), low, middle
    widths = (math.inf, math.inf)
    for _ in range(STEPS):
        left, right = middle - low, high - middle
        wide = right if right > left else -left
        shift = NARROWER * wide
        if left > 0.0 and right > 0.0:
            up, down = (f(middle) - f(low)) / left, (f(high) - f(middle)) / right
            if max(up * right, -down * left) <= ENOUGH * abs(f(middle)):
                break
            top_of_parabola = 0.5 * (up * right + down * left) / max(up - down, SMALLEST)
            if left + right > 0.5 * widths[0]:
                shift = 0.5 * wide
            elif abs(shift) < abs(top_of_parabola) and -left < top_of_parabola < right:
                shift = top_of_parabola
        elif f(middle + shift) <= f(middle):
            break  # the best one is an end
        widths, new = (widths[1], left + right), middle + shift
        if new in (low, middle, high):
            break
        if f(new) > f(middle):
            low, middle, high = (middle, new, high) if shift > 0.0 else (low, new, middle)
        else:
            low, high = (low, new) if shift > 0.0 else (new, high)
    return middle if f(middle) > f(0.0) or f(0.0) <= NOTHING else 0.0
