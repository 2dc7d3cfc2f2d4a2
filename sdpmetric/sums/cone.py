"""The minimum in the dual value of a sum over a cone of metrics, and over the weights of rank-one metrics."""

from __future__ import annotations

import math

import numpy as np

from sdpmetric.arrays import FloatArray
from sdpmetric.sums.segment import Segment
from sdpmetric.sums.terms.base import Regularizer
from sdpmetric.sums.terms.minimum import InnerMinimum

# How often a multiple is lowered until its slack matrix is proven to be PSD.
MAX_TRIES = 8


class ConeMinimum(InnerMinimum):
    """0 where ``V^T S(t) V`` is PSD and decides about S(t), else minus infinity; V are coordinates (k, p).

    V whitens the cost of the anchor, whose slack matrix is then nearly the identity: eigenvalues of the direction
    relative to it say how far t may go.
    """

    def __init__(self, segment: Segment, V: FloatArray) -> None:
        self.segment, self.n_coordinates, self.images = segment, V.shape[1], segment.images(V)
        anchor, direction = segment.form(self.images, 0.0), segment.direction_form(self.images)
        self.smallest_at_anchor = anchor.smallest_eigenvalue
        if self.n_coordinates and not self.smallest_at_anchor > 0.0:
            self.furthest = 0.0
            return
        slope = float(segment.slack.relative_eigenvalues(anchor.matrix, direction.matrix).min(initial=0.0))
        # Multiples stop this share short of where an eigenvalue of the slack matrix reaches 0.
        self.furthest = (1.0 - 1e-12) / -slope if slope < 0.0 else math.inf

    def value(self, t: float) -> float:
        return 0.0

    def proven(self, t: float) -> tuple[float, float]:
        """Where S(t) is not proven to be PSD, t is lowered as if its smallest eigenvalue were affine."""
        first = self.smallest_at_anchor
        if self.n_coordinates and not first > 0.0:
            return 0.0, -math.inf
        for _ in range(MAX_TRIES):
            smallest = self.segment.form(self.images, t).smallest_eigenvalue if self.n_coordinates else 0.0
            if smallest >= 0.0 or t == 0.0:
                break
            t = t * first / (first - smallest) * (1.0 - 1e-15)
        return t, 0.0 if smallest >= 0.0 and self._decides(t) else -math.inf

    def _decides(self, t: float) -> bool:
        """Whether S is provably 0 in all directions that V leaves out, at the anchor and at t."""
        segment, total = self.segment, self.segment.slack.total
        if self.n_coordinates >= segment.slack.d:
            return True
        weights = np.zeros(len(total.pairs))
        multipliers = (segment.multipliers(0.0), segment.multipliers(t))
        for a in multipliers:
            errors = total.weight_errors(a)
            weights += np.abs(total.pair_weights(a)) + (0.0 if errors is None else errors)
        matrices = [*map(total.entry_matrix, multipliers), *segment.slopes(t)]
        has_matrix = total.ridge > 0.0 or any(matrix.any() for matrix in matrices)
        return segment.slack.is_decided_by(self.n_coordinates, weights, has_matrix)


class WeightMinimum(InnerMinimum):
    """``min over w >= 0 of sum_j w_j b_j^T S(t) b_j + r(diag w)``: weights are bounded one by one.

    Without a regularizer it is 0 where all slacks ``b_j^T S(t) b_j`` are at least 0, else minus infinity.
    """

    def __init__(self, segment: Segment, regularizer: Regularizer | None) -> None:
        self.segment, self.regularizer = segment, regularizer
        (start, start_error), (stop, stop_error) = self.slacks(0.0), self.slacks(1.0)
        self.start, self.direction = start - 2.0 * start_error, stop - start - 2.0 * (stop_error + start_error)
        self.furthest = segment.furthest
        self.is_feasible = bool(np.isfinite(self.start + self.direction).all())
        if regularizer is None and self.is_feasible:
            rising, falling = (self.start < 0.0) & (self.direction > 0.0), self.direction < 0.0
            self.nearest = float((-self.start[rising] / self.direction[rising]).max(initial=0.0))
            limits = self.start[falling] / -self.direction[falling]
            self.furthest = min(self.furthest, float(limits.min(initial=math.inf)))
            negative = (self.start < 0.0) & (self.direction <= 0.0)
            self.is_feasible = self.nearest <= self.furthest and not negative.any()
        if not self.is_feasible:
            self.nearest, self.furthest = 0.0, 0.0

    def slacks(self, t: float) -> tuple[FloatArray, FloatArray]:
        return self.segment.diagonal(t, in_units=self.regularizer is None)

    def value(self, t: float) -> float:
        if self.regularizer is None:
            return 0.0
        return self.regularizer.minimum_over_weights(self.start + t * self.direction)

    def proven(self, t: float) -> tuple[float, float]:
        """Given multipliers prove their own value also where no slack is strictly positive, and so does the anchor."""
        for multiple in (t, 1.0, 0.0) if self.is_feasible else (1.0, 0.0):
            if multiple <= max(self.segment.furthest, 1.0) and (minimum := self._bound(multiple)) > -math.inf:
                return multiple, minimum
        return 0.0, -math.inf

    def _bound(self, t: float) -> float:
        slack, error = self.slacks(t)
        if self.regularizer is not None:
            return self.regularizer.minimum_over_weights(np.nextafter(slack - error, -np.inf))
        return 0.0 if (slack >= error).all() else -math.inf
