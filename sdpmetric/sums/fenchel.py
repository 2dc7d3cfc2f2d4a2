"""The dual of a sum of terms: the lower bound that given multipliers prove, whatever they are.

The sum is ``F(M) = <C, M> + r(M) + sum_i l_i(u_i)`` with ``u_i = c_i + <A_i, M>``, over the metrics M of a domain. By
Fenchel and Young ``l_i(u) >= a_i u - l_i*(a_i)`` for every slope ``a_i``. With ``S(a) = C + sum_i a_i A_i``, then, for
all multipliers a in the domains of the conjugates::

    F(M) >= sum_i (a_i c_i - l_i*(a_i)) + min over M of { <S(a), M> + r(M) }

*The minimum.* Without r it is 0 if S(a) is positive semidefinite on the domain, and minus infinity if not. A Frobenius
or a LogDet term gives it in closed form (`Regularizer.minimum`). Of several regularizers one is minimized over; each
other one is bounded by a slope U as a loss is, ``r(M) >= <U, M> - r*(U)``, and U is added to S.

*The segment.* Multipliers of a solver are feasible up to rounding at best. They are joined to an *anchor*: multipliers
that make S positive semidefinite by itself, as those of the losses that pull pairs together. On ``a(t) = anchor +
t (a - anchor)`` both parts of the bound are concave in t, so the best t is a search in one dimension
(`sdpmetric.sums.segment`). It is made in floats; at the t that it ends with, or a little below, the bound is proven
with all sums and matrices rounded in the safe direction.

*Directions of no cost.* If ``v^T S(anchor) v = 0``, a multiplier of pairs that differ along v, so ``v^T A_i v`` is not
0, would make S(a) indefinite: it stays at the anchor. S is then formed in coordinates V of the other directions, and
`Slack.is_decided_by` proves that these suffice. If it does not, coordinates are used in which even the smallest costs
count, and the bound is weak: `Proven.weakness` says so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from sdpmetric.arrays import SMALLEST_DIVISOR, FloatArray
from sdpmetric.engine.lazy import cached
from sdpmetric.sums.bound_terms import BoundTerms
from sdpmetric.sums.domains import ByLoss, Slack
from sdpmetric.sums.segment import MAX_TRIES, ConeMinimum, Segment, WeightMinimum, best_multiple
from sdpmetric.sums.terms.base import InnerMinimum, Regularizer

# Why a bound is weaker than it might be.
WEAK_COORDINATES = (
    "directions of no cost up to rounding could not be proven to have none, and count as directions of very little"
)
NO_COST = "no multipliers are known at which every direction costs something, and from which these can be mended"
# Differences below this in directions of no cost count as 0, for data of unit variance.
NULL_TOLERANCE = 1e-9


@dataclass(frozen=True)
class BoundOptions:
    """Of the segments that are tried."""

    slope_margin: float = 1e-9  # share of the slack matrix to raise a slope beyond the PSD boundary
    largest_slope: float = 1e100  # of regularizers at nearly singular metrics; larger slopes prove nothing
    tiny_multiple: float = 1e-9  # multiple of the given multipliers to try if they lie outside a loss's domain


OPTIONS = BoundOptions()


@dataclass(frozen=True, eq=False)
class Proven:
    """A proven lower bound and the multipliers that prove it."""

    value: float
    multipliers: ByLoss  # (m,) for each loss
    residual: float = 0.0  # relative distance of these from the given multipliers
    null_dimension: int = 0  # of the directions of no cost
    weakness: str | None = None  # why the bound is weaker than it might be
    slopes: ByLoss = field(default_factory=list)  # (d, d): of the regularizers that are bounded by one


@dataclass(frozen=True, eq=False)
class FenchelDual:
    """The dual of a sum of terms."""

    total: BoundTerms
    slack: Slack

    @cached
    def minimized(self) -> Regularizer | None:
        """The regularizer over which the minimum is taken in closed form, a superlinear one if there is one.

        There is none without regularizers, and none over rank-one metrics that are not orthonormal.
        """
        if not self.slack.domain.has_identity_basis:
            return None
        return next(iter(sorted(self.total.regularizers, key=lambda term: not term.superlinear)), None)

    @cached
    def bounded_by_slopes(self) -> tuple[Regularizer, ...]:
        return tuple(term for term in self.total.regularizers if term is not self.minimized)

    def prove(self, multipliers: ByLoss, components: FloatArray) -> Proven:
        """Prove the best lower bound on a segment from the anchor through given multipliers, with slopes at a point."""
        losses = self.total.losses
        a = [loss.clip(x) for loss, x in zip(losses, multipliers, strict=True)]
        clipped = max((_largest(x - y) for x, y in zip(a, multipliers, strict=True)), default=0.0)
        size = max(map(_largest, a), default=0.0)
        slopes = [term.gradient(components) for term in self.bounded_by_slopes]
        slopes = [U if _largest(U) < OPTIONS.largest_slope else np.zeros_like(U) for U in slopes]
        anchor = self._anchor(a)
        bounds = [self._bound_along(self._segment(anchor, a, slopes))]
        if clipped and self._allows_small_multiples and not any(x.any() for x in anchor):
            # A small multiple is in the domain: clipping changes the largest multipliers alone.
            tiny = OPTIONS.tiny_multiple
            inner = [loss.clip(tiny * x) / tiny for loss, x in zip(losses, multipliers, strict=True)]
            bounds.append(self._bound_along(Segment(self.slack, anchor, inner, self.bounded_by_slopes, slopes)))
        if slopes and self.minimized is None and (raised := self._with_raised_slope(a, slopes)) is not None:
            bounds.append(self._bound_along(raised))
        best = max(bounds, key=lambda proven: proven.value)
        return replace(best, residual=max(clipped / size if size else 0.0, best.residual))

    def prove_unmoved(self, a: ByLoss) -> Proven:
        """Return what multipliers in their domains prove as they are, without regularizers."""
        return self._bound_along(self._segment(a, a))

    def minimizer(self, a: ByLoss) -> FloatArray | None:
        """Return the factor of the metric that minimizes ``<S(a), M> + r(M)``, or None if r does not know it."""
        if self.minimized is None or self.bounded_by_slopes or self.slack.domain.diagonal:
            return None
        return self.minimized.minimizer(self.total.slack_matrix(a))

    @property
    def _allows_small_multiples(self) -> bool:
        """Whether the regularizer makes all small multipliers feasible, as LogDet does."""
        return self.minimized is not None and not self.minimized.superlinear

    # -- starts of segments -----------------------------------------------------------------------------------

    def _segment(
        self, start: ByLoss, target: ByLoss, slopes: ByLoss | None = None, *, is_fixed: bool = False
    ) -> Segment:
        direction = [y - x for x, y in zip(start, target, strict=True)]
        return Segment(self.slack, start, direction, self.bounded_by_slopes, slopes or [], is_fixed)

    def _with_raised_slope(self, a: ByLoss, slopes: ByLoss) -> Segment | None:
        """Raise the first slope by the multiple of the identity that lifts all slacks ``b^T S b`` of given multipliers.

        Return None if numbers are too large for that.
        """
        B, d = self.slack.domain.basis, self.slack.d
        S = self.total.slack_matrix(a) + sum(slopes, np.zeros((d, d)))
        slacks, lengths = np.einsum("ij,ij->i", B @ S, B), np.maximum(np.einsum("ij,ij->i", B, B), SMALLEST_DIVISOR)
        size = float(np.abs(slacks / lengths).max())
        if not math.isfinite(size):
            return None
        shift = max(0.0, -float((slacks / lengths).min())) + OPTIONS.slope_margin * size
        return self._segment(a, a, [slopes[0] + shift * np.eye(d), *slopes[1:]], is_fixed=True)

    def _anchor(self, a: ByLoss) -> ByLoss:
        """Return the anchors of the losses, 0 if all small multiples are feasible."""
        anchor = [loss.anchor(multipliers) for loss, multipliers in zip(self.total.losses, a, strict=True)]
        if self._allows_small_multiples:
            return [loss.clip(0.0 * x) for loss, x in zip(self.total.losses, anchor, strict=True)]
        return anchor

    # -- what a segment proves ----------------------------------------------------------------------------------

    def _bound_along(self, segment: Segment) -> Proven:
        """Return the best proven bound on a segment, minus infinity if there is none."""
        try:
            if self.slack.domain.diagonal:
                return self._bound_over_weights(segment)
            if self.minimized is None:
                return self._bound_in_cone(segment)
            return self._bound_at_best_multiple(segment, self.minimized.minimum(segment))
        except np.linalg.LinAlgError:  # numbers that are too large to be factored prove nothing
            return Proven(-math.inf, segment.start, math.inf)

    def _bound_at_best_multiple(self, segment: Segment, minimum: InnerMinimum) -> Proven:
        """Return the bound at about the best t of a segment."""
        limit = min(segment.furthest, minimum.furthest)
        best = best_multiple(lambda t: segment.losses_value(t) + minimum.value(t), limit)
        t, value = minimum.proven(max(minimum.nearest, best))
        if value == -math.inf:
            return Proven(-math.inf, segment.start, math.inf)
        a = segment.multipliers(t)
        return Proven(segment.bound(a, t, value), a, max(0.0, 1.0 - t), slopes=segment.slopes(t))

    def _bound_over_weights(self, segment: Segment) -> Proven:
        """Bound over weights; those with a slack that is 0 at the anchor and falls from there cost nothing."""
        null, weakness = np.zeros(0, dtype=np.intp), None
        for _ in range(MAX_TRIES):
            minimum = WeightMinimum(segment, self.minimized)
            proven = self._bound_at_best_multiple(segment, minimum)
            if proven.value > -math.inf:
                return replace(proven, null_dimension=len(null), weakness=weakness)
            falling = np.flatnonzero((minimum.start < 0.0) | ((minimum.start == 0.0) & (minimum.direction < 0.0)))
            if self.minimized is not None or not len(np.setdiff1d(falling, null)):
                break
            if (minimum.start < 0.0).any():
                weakness = "slacks of weights that cost next to nothing could not be proven to be 0 or more"
            null = np.union1d(null, falling)
            segment = self._freeze_along(segment, np.eye(len(minimum.start))[:, null], 0.0)
        return Proven(-math.inf, segment.start, math.inf)

    def _bound_in_cone(self, segment: Segment) -> Proven:
        """Bound over all metrics without a regularizer, for which S(t) must be PSD; see the head of this file.

        Coordinates of the directions that cost something at the anchor are tried first. If they are not proven to
        decide, the anchor alone may prove more than coordinates of the smallest costs.
        """
        weights, ridge = self.total.pair_weights(segment.start), self.total.ridge * np.eye(self.slack.d)
        whitened, null = self.slack.coordinates(weights, None)
        proven = self._bound_in_coordinates(segment, whitened, null, NULL_TOLERANCE)
        if proven.value == -math.inf:
            smallest = self.slack.coordinates_of_smallest_costs(weights, ridge)
            weak = (self._bound_of_squares(segment), self._bound_in_coordinates(segment, *smallest, 0.0))
            weakness = WEAK_COORDINATES if whitened.shape[1] else NO_COST
            proven = replace(max(weak, key=lambda bound: bound.value), weakness=weakness)
        return replace(proven, null_dimension=null.shape[1])

    def _bound_in_coordinates(self, segment: Segment, V: FloatArray, null: FloatArray, tolerance: float) -> Proven:
        """Return the bound that the segment proves in given coordinates, without directions of no cost."""
        segment = self._freeze_along(segment, null, tolerance) if null.shape[1] else segment
        return self._bound_at_best_multiple(segment, ConeMinimum(segment, V))

    def _bound_of_squares(self, segment: Segment) -> Proven:
        """Return the bound at the anchor alone, whose slack matrix may be a sum of squares, PSD in any coordinates."""
        start, total = segment.start, self.total
        weights, errors = total.pair_weights(start), total.weight_errors(start)
        is_sum = not total.entry_matrix(start).any() and (weights >= (0.0 if errors is None else errors)).all()
        return Proven(segment.bound(start, 0.0, 0.0) if is_sum else -math.inf, start, 1.0)

    def _freeze_along(self, segment: Segment, null: FloatArray, tolerance: float) -> Segment:
        """Return the segment that keeps multipliers of pairs differing along a direction of no cost at their anchor.

        There the cost cannot pay for the multiplier: it would make S(a) indefinite.
        """
        total, coordinates = self.total, self.slack.points @ null
        i, j = total.pairs.T
        differs = np.abs(coordinates[i] - coordinates[j]).max(axis=1, initial=0.0) > tolerance
        target = list[FloatArray]()
        rays = zip(total.losses, total.pair_slices, segment.start, segment.direction, strict=True)
        for loss, pair_slice, a, step in rays:
            frozen = (abs(loss.combination) @ differs[pair_slice].astype(np.float64) > 0.0) | loss.depends_on_entries
            target.append(loss.clip(np.where(frozen, a, a + step)))
        return self._segment(segment.start, target, [np.zeros_like(U) for U in segment.matrices])


def _largest(A: FloatArray) -> float:
    return float(np.abs(A).max(initial=0.0))
