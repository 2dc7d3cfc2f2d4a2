"""What POLA's objective says about the squared distances of pairs: margins, thresholds, slacks, and their slopes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sdpmetric.bounds import rays
from sdpmetric.linalg.rigorous import square

FloatArray = NDArray[np.float64]

# Widths, in units of the margin, of the slopes that are tried as dual candidates where none are given.
WIDTHS = (1e-3, 1e-2, 1e-1, 1.0, 10.0)


@dataclass(frozen=True, eq=False)
class PairMargins:
    """The margins ``y_t (b - q_t)`` of pairs with squared distances q at a threshold b.

    Attributes
    ----------
    similar : (p,) bool array
    slack_weight : float or None
        Weight of the slacks; None: hard margin.
    start : float
        ``b_1``, near which the threshold is to be.
    pair_weights : (p,) array or None
        Of the single slacks; None: 1.
    """

    similar: NDArray[np.bool_]
    slack_weight: float | None
    start: float
    pair_weights: FloatArray | None = None

    @cached_property
    def signs(self) -> FloatArray:
        """``y_t``: 1 for similar pairs and -1 for dissimilar ones, (p,)."""
        return np.where(self.similar, 1.0, -1.0)

    @cached_property
    def ceilings(self) -> FloatArray:
        """The largest multipliers, (p,): the slack weight times those of the pairs, or infinity."""
        weight = math.inf if self.slack_weight is None else self.slack_weight
        return weight * (np.ones(len(self.similar)) if self.pair_weights is None else self.pair_weights)

    def of(self, q: FloatArray, b: float) -> FloatArray:
        """The margins, (p,)."""
        return self.signs * (b - q)

    def missed(self, q: FloatArray, b: float) -> float:
        """The largest violation of a margin; 0 where all margins are at least 1."""
        return max(0.0, float((1.0 - self.of(q, b)).max(initial=0.0)))

    def objective(self, size: float, q: FloatArray, b: float) -> float:
        """The objective of a metric with ``||A||_F^2 = size``; hard margins are not checked."""
        value = 0.5 * size + 0.5 * square(b - self.start)
        if self.slack_weight is not None:
            value += float(self.ceilings @ np.maximum(0.0, 1.0 - self.of(q, b)))
        return value

    def separated(self, q: FloatArray) -> bool:
        """Whether every dissimilar pair is further apart than every similar one."""
        near, far = rays.extremes(q, self.similar)
        return far > near

    def best_threshold(self, q: FloatArray) -> float:
        """The threshold with the smallest objective; with hard margins, the one with the smallest violation."""
        if self.slack_weight is None:
            return rays.best_hard_threshold(*rays.extremes(q, self.similar), self.start)
        return rays.best_soft_threshold(q, self.signs, self.start, self.ceilings)

    def best_multiple(self, size: float, q: FloatArray) -> float:
        """The multiple of a metric with ``||A||_F^2 = size`` within the hard margins with the smallest objective."""
        near, far = rays.extremes(q, self.similar)
        return rays.best_multiple(size, near, far, self.start)

    def slopes(self, q: FloatArray, b: float) -> list[FloatArray]:
        """Dual candidates from the margins, one for each of several widths: slopes, or soft minima of hard margins."""
        missing = 1.0 - self.of(q, b)
        if self.slack_weight is not None:
            return [self.ceilings * np.clip(0.5 + missing / width, 0.0, 1.0) for width in WIDTHS]
        worst = missing.max(initial=-math.inf)
        return [np.exp((missing - worst) / width) for width in WIDTHS]
