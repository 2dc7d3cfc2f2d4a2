"""A segment of multipliers, the dual slack matrix along it, and the search for its best point.

Multipliers ``a(t) = start + t direction`` have the slack matrix ``S(t) = C + sum_i a_i(t) A_i + sum_k U_k(t)``, affine
in t; the ``U_k(t)`` are slopes of the regularizers that are bounded by their conjugates. The dual value along a segment
is concave: `best_multiple` finds its maximum in floats, and what is claimed there is computed with all roundings.

The minima in that value over a cone of metrics and over weights of rank-one metrics stand at the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import minimize_scalar

from sdpmetric.arrays import LARGEST_VALUE, FloatArray
from sdpmetric.engine.threads import check_deadline
from sdpmetric.linalg.rigorous.directed import above, gamma, product_above, squares_above, sum_below
from sdpmetric.linalg.rigorous.forms import Form, Images, Span
from sdpmetric.sums.domains import ByLoss, Slack
from sdpmetric.sums.terms.base import ROUNDINGS, InnerMinimum, Regularizer


@dataclass(frozen=True)
class SegmentOptions:
    """Options of `best_multiple`."""

    largest: float = 1e6  # multiple of the segment that is tried
    first_step: float = 1e-5  # from 1, as a share of it: given multipliers are nearly the best as a rule
    step_growth: float = 10.0
    smallest_shift: float = 1e-3  # from a best point at an end of the bracket, as a share of it
    accuracy: float = 1e-6  # as a share of the bracket; the loss of value is quadratic in it
    lowest_value: float = -LARGEST_VALUE  # in place of minus infinity, since values are subtracted


SEARCH = SegmentOptions()


@dataclass(frozen=True, eq=False)
class Segment:
    """Multipliers and slopes along a segment."""

    slack: Slack  # of the sum
    start: ByLoss  # (m,): one array for each loss
    direction: ByLoss
    regularizers: Sequence[Regularizer] = ()  # those that are bounded by a slope
    matrices: ByLoss = field(default_factory=list)  # (d, d): their slopes at ``t = 1``
    # whether these are their slopes at all t; else the slopes are ``t`` times the matrices
    has_fixed_slopes: bool = False

    def slopes(self, t: float) -> ByLoss:
        return self.matrices if self.has_fixed_slopes else [t * U for U in self.matrices]

    def point(self, t: float) -> ByLoss:
        return [a + t * step for a, step in zip(self.start, self.direction, strict=True)]

    def multipliers(self, t: float) -> ByLoss:
        """Return the point at t, which rounding does not leave outside the domains of the conjugates."""
        return [loss.clip(a) for loss, a in zip(self.slack.total.losses, self.point(t), strict=True)]

    @property
    def furthest(self) -> float:
        """The largest t that keeps all multipliers in their domains."""
        rays = zip(self.slack.total.losses, self.start, self.direction, strict=True)
        limits = [loss.max_step(a, step) for loss, a, step in rays if step.any()]
        return min(limits, default=SEARCH.largest if self.matrices else 0.0)

    def losses_value(self, t: float) -> float:
        """Return ``sum_i (a_i c_i - l_i*(a_i)) - sum_k r_k*(U_k)`` at t, in floats."""
        pairs = zip(self.slack.total.losses, self.point(t), strict=True)
        return self._with_conjugates(t, [float((a * loss.offset - loss.conjugates(a)).sum()) for loss, a in pairs])

    def bound(self, a: ByLoss, t: float, minimum: float) -> float:
        """Return a float not above the dual value at multipliers a and the slopes of t, by one of the least over M."""
        pairs = zip(self.slack.total.losses, a, strict=True)
        return self._with_conjugates(t, [*(loss.dual_value(multipliers) for loss, multipliers in pairs), minimum])

    def _with_conjugates(self, t: float, losses: list[float]) -> float:
        conjugates = [-term.conjugate(U) for term, U in zip(self.regularizers, self.slopes(t), strict=True)]
        values = np.array([*conjugates, *losses])
        return sum_below(values) if np.isfinite(values).all() else -math.inf

    # -- the slack matrix ---------------------------------------------------------------------------------------

    def matrix(self, t: float) -> FloatArray:
        """Return ``S(t)`` in floats, (d, d)."""
        S = self.slack.total.slack_matrix(self.point(t))
        return np.asarray(S + sum(self.slopes(t), np.zeros_like(S)))

    def images(self, T: FloatArray) -> Images:
        """Return the data in coordinates T, (d, k)."""
        return self.slack.images(T)

    def form(self, images: Images, t: float) -> Form:
        """Return ``T^T S(t) T`` in the coordinates of images, with a bound of its error."""
        return self.slack.form(images, self.multipliers(t), self.slopes(t))

    def direction_form(self, images: Images) -> Form:
        """Return ``T^T (S(1) - S(0)) T``; its error is not that of exact multipliers."""
        total = self.slack.total
        matrices = [total.entry_matrix(self.direction), *([] if self.has_fixed_slopes else self.matrices)]
        return self.slack.weighted_form(images, total.pair_weights(self.direction, costs=False), None, matrices)

    @property
    def span(self) -> Span | None:
        return self.slack.total.span

    def spill(self, t: float) -> tuple[float, float]:
        total, a = self.slack.total, self.multipliers(t)
        if total.span is None:
            return 0.0, 0.0
        errors = total.weight_errors(a)
        weights = np.abs(total.pair_weights(a)) * (1.0 + gamma(ROUNDINGS))
        first, second = total.pairs.T
        return total.span.spill(first, second, weights if errors is None else weights + errors)

    def diagonal(self, t: float) -> tuple[FloatArray, FloatArray]:
        """Return ``b_j^T S(t) b_j`` for rank-one metrics, and its error; see `Slack.diagonal`."""
        return self.slack.diagonal(self.multipliers(t), self.slopes(t))


def best_multiple(value: Callable[[float], float], furthest: float) -> float:
    """Return about the t in ``[0, furthest]`` that maximizes a concave function; as a rule it is near 1.

    Steps away from 1 grow until the largest value of three points is not at an end, and Brent's method goes on there.
    """
    top, values = min(furthest, SEARCH.largest), dict[float, float]()
    if not top > 0.0:
        return 0.0

    def f(t: float) -> float:
        check_deadline()
        if t not in values:
            values[t] = max(value(t), SEARCH.lowest_value)
        return values[t]

    best = min(1.0, top)
    step = SEARCH.first_step * best
    low, high = max(0.0, best - step), min(top, best + step)
    while high > best and f(high) > f(best):
        step *= SEARCH.step_growth
        low, best, high = best, high, min(top, high + step)
    while low < best and (f(low) > f(best) or f(best) <= SEARCH.lowest_value):
        step *= SEARCH.step_growth
        low, best, high = max(0.0, low - step), low, best
    shift = SEARCH.smallest_shift * (high - low)
    if low < best < high or f(high - shift if best == high else low + shift) > f(best):
        tolerance = {"xatol": SEARCH.accuracy * (high - low)}
        minimize_scalar(lambda t: -f(float(t)), bounds=(low, high), method="bounded", options=tolerance)
    best = max(values, key=f)
    return best if f(best) > f(0.0) or f(0.0) <= SEARCH.lowest_value else 0.0


# How often a multiple is lowered until its slack matrix is proven to be PSD.
MAX_TRIES = 8


class ConeMinimum(InnerMinimum):
    """The value is 0 if ``V^T S(t) V`` is PSD and decides about S(t), else minus infinity; V are coordinates (k, p).

    V whitens the cost of the anchor, so its slack matrix is nearly the identity: eigenvalues of the direction
    relative to it say how far t may go.

    In coordinates of a `Span` with a ridge rho, S is PSD on all directions if ``V^T S V`` is at least `_outside`, with
    the spill (e, f): S is at least ``rho - f`` outside, its Schur complement there is at most ``e^2 / (rho - f)`` less
    than S inside, and there the ridge is ``rho Q^T Q``.
    """

    def __init__(self, segment: Segment, V: FloatArray) -> None:
        self.segment, self.V, self.n_coordinates, self.images = segment, V, V.shape[1], segment.images(V)
        anchor, direction = segment.form(self.images, 0.0), segment.direction_form(self.images)
        self.smallest_at_anchor = anchor.smallest_eigenvalue - self._outside(0.0)
        if self.n_coordinates and not (self.smallest_at_anchor > 0.0 and np.isfinite(direction.matrix).all()):
            self.furthest = 0.0
            return
        root = np.linalg.inv(np.linalg.cholesky(anchor.matrix))
        slope = float(np.linalg.eigvalsh(root @ direction.matrix @ root.T).min(initial=0.0))
        # Multiples stop this share short of a singular slack matrix.
        self.furthest = (1.0 - 1e-12) / -slope if slope < 0.0 else math.inf

    def value(self, t: float) -> float:
        return 0.0

    def proven(self, t: float) -> tuple[float, float]:
        """Lower t until S(t) is proven to be PSD, as if its smallest eigenvalue were affine."""
        first = self.smallest_at_anchor
        if self.n_coordinates and not first > 0.0:
            return 0.0, -math.inf
        for _ in range(MAX_TRIES):
            smallest = 0.0
            if self.n_coordinates:
                smallest = self.segment.form(self.images, t).smallest_eigenvalue - self._outside(t)
            if smallest >= 0.0 or t == 0.0:
                break
            t = t * first / (first - smallest) * (1.0 - 1e-15)
        return t, 0.0 if smallest >= 0.0 and self._decides(t) else -math.inf

    def _outside(self, t: float) -> float:
        """Return the least eigenvalue that shows that S(t) is PSD outside of a span with a ridge, too."""
        total = self.segment.slack.total
        if total.span is None or not total.ridge:
            return 0.0
        (first, second), skew, size = self.segment.spill(t), total.span.skew, squares_above(self.V)
        if not (skew < 0.5 and second < 0.5 * total.ridge):
            return math.inf
        complement = above(first / (0.25 * total.ridge) * first, 3) + product_above(total.ridge, skew)
        return above(product_above(complement, size), 4)

    def _decides(self, t: float) -> bool:
        """Return whether S is provably 0 in all directions that V leaves out, at the anchor and at t."""
        segment, total = self.segment, self.segment.slack.total
        if self.n_coordinates >= segment.slack.d and total.span is None:
            return True
        weights = np.zeros(len(total.pairs))
        multipliers = (segment.multipliers(0.0), segment.multipliers(t))
        for a in multipliers:
            errors = total.weight_errors(a)
            weights += np.abs(total.pair_weights(a)) + (0.0 if errors is None else errors)
        has_matrix = total.ridge > 0.0 or any(total.entry_matrix(a).any() for a in multipliers)
        return segment.slack.is_decided_by(self.n_coordinates, weights, has_matrix)


class WeightMinimum(InnerMinimum):
    """``min over w >= 0 of sum_j w_j b_j^T S(t) b_j + r(diag w)``: weights are bounded one by one.

    Without a regularizer it is 0 if all slacks ``b_j^T S(t) b_j`` are at least 0, else minus infinity.
    """

    def __init__(self, segment: Segment, regularizer: Regularizer | None) -> None:
        self.segment, self.regularizer = segment, regularizer
        self._slacks = dict[float, tuple[FloatArray, FloatArray]]()  # by the multiple
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
        if t not in self._slacks:
            self._slacks[t] = self.segment.diagonal(t)
        return self._slacks[t]

    def value(self, t: float) -> float:
        if self.regularizer is None:
            return 0.0
        return self.regularizer.minimum_over_weights(self.start + t * self.direction)

    def proven(self, t: float) -> tuple[float, float]:
        """Try given multipliers and the anchor, too: they prove their values even if no slack is strictly positive."""
        for multiple in (t, 1.0, 0.0) if self.is_feasible else (1.0, 0.0):
            if multiple <= max(self.segment.furthest, 1.0) and (minimum := self._bound(multiple)) > -math.inf:
                return multiple, minimum
        return 0.0, -math.inf

    def _bound(self, t: float) -> float:
        slack, error = self.slacks(t)
        if self.regularizer is not None:
            return self.regularizer.minimum_over_weights(np.nextafter(slack - error, -np.inf))
        return 0.0 if (slack >= error).all() else -math.inf
