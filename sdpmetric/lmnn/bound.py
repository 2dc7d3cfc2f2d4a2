"""Bounds by multipliers of LMNN's hinges, and the sums that its certificate is made of.

For ``f(M) = <C, M> + mu sum_t w_t h(1 - <B_t, M>)`` with h the hinge, every multiplier ``0 <= a_t <= mu w_t`` has
``mu w_t [u]_+ >= a_t u``. Where the dual slack ``S(a) = C - sum_t a_t B_t`` is PSD,

    ``f(M) >= sum_t a_t + <S(a), M> >= sum_t a_t``   for every PSD M.

With the squared hinge any ``a_t >= 0`` has ``mu w_t [u]_+^2 >= a_t u - a_t^2 / (4 mu w_t)``, and ``sum_t a_t - sum_t
a_t^2 / (4 mu w_t)`` is the bound. Given multipliers are scaled by the best t for which ``S(t a)`` is proven to be PSD
and ``t a`` is in its box. With several metrics S is block diagonal. An impostor at the very place of its anchor has
``B_t = -C_ij``, which makes S larger: its multiplier is not scaled down.

Without given multipliers those of a point are the slopes of its hinges, smoothed over one of a few widths. Sums
over all triplets need none of them listed: the search hands over blocks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from sdpmetric.arrays import FloatArray, IndexArray
from sdpmetric.core.certificate import Dual
from sdpmetric.core.triplets import Candidates
from sdpmetric.engine.lazy import cached
from sdpmetric.linalg.distances import distances
from sdpmetric.linalg.rigorous.directed import above, below, product_above, sum_above, sum_below
from sdpmetric.linalg.rigorous.forms import Form, Images
from sdpmetric.lmnn.cone import DualCone
from sdpmetric.lmnn.costs import ClippedMultipliers, Push, stacked_points
from sdpmetric.lmnn.margins import hinge_slopes, inactive_beyond, loss_above, signed_pairs, with_error

# More than underflow takes from a square over a weight of at least 1e-60: the smallest float over it is 5e-264.
UNDERFLOW_OF_SQUARES = 1e-260
# Smoothing widths, in margins: their slopes are tried as multipliers if none are given.
SMOOTHING_WIDTHS = (0.0, 0.003, 0.03, 0.3)


def best_multiple_bound(
    total: float,
    squares: float | None,
    ratio: float,
    push_weight: float,
    headroom: float = 1.0,
    coincident: float = 0.0,
) -> tuple[float, float]:
    """Return the best lower bound that multiples of multipliers prove, up to rounding, and the multiple.

    A multiple t is dual feasible up to ``1 / ratio`` and in its box up to `headroom`. It proves ``t total + (1 - t)
    coincident`` for the hinge, and ``t total - t^2 squares / (4 mu)`` for its square.
    """
    if not total > 0.0:
        return 0.0, 0.0
    limit = 1.0 / (ratio * (1 + 1e-13)) if ratio > 0 else math.inf
    if squares is None:
        multiple = min(limit, headroom)
        bound = multiple * total + max(0.0, 1.0 - multiple) * coincident
    else:
        multiple = min(limit, 2 * push_weight * total / squares) if squares > 0 else limit  # a parabola
        bound = multiple * total - multiple * multiple * squares / (4 * push_weight)
    return (bound, multiple) if math.isfinite(bound) else (0.0, 0.0)


@dataclass
class MultiplierSums:
    """Sums over multipliers ``a >= 0`` that a lower bound needs, rounded outward."""

    forms: list[Form]  # sum a_t B_t in the coordinates of each metric's dual cone
    total: float = 0.0  # not above sum a
    squares: float = 0.0  # not below sum a^2 / w
    coincident: float = 0.0  # not above the total of impostors at the very place of their anchors

    def add(self, total: float, squares: float, coincident: float) -> None:
        self.total = below(self.total + total)
        self.squares = above(self.squares + squares)
        self.coincident = below(self.coincident + coincident)


@dataclass(frozen=True, eq=False)
class DualCandidate:
    """Multipliers of a push term, and the best lower bound that they prove."""

    push: Push
    cones: Sequence[DualCone]
    sums: MultiplierSums
    headroom: float = 1.0  # the largest multiple that stays in the box of the hinge, at least 1
    multipliers: ClippedMultipliers | None = None  # if they were given

    @classmethod
    def of(cls, push: Push, dual: Dual, cones: Sequence[DualCone]) -> DualCandidate:
        clipped = push.clipped(dual, [cone.groups for cone in cones])
        a, w = clipped.values, clipped.weights
        first, second, weights = signed_pairs(clipped.triplets, a)
        forms = []
        for region, cone in enumerate(cones):
            m = slice(None) if len(cones) == 1 else push.regions[second] == region
            forms.append(cone.images.form(first[m], second[m], weights[m]))
        headroom = np.inf if push.squared else float((push.weight * w / a).min(initial=np.inf))
        with np.errstate(over="ignore"):  # a bound that is not finite is taken as 0
            squares = sum_above(np.nextafter(a * np.nextafter(a / w, np.inf), np.inf))
        coincident = sum_below(a[push.coincident(clipped.triplets)])
        sums = MultiplierSums(forms, sum_below(a), squares, coincident)
        return cls(push, cones, sums, max(1.0, headroom), clipped)

    @cached
    def ratio(self) -> float:
        """Multiples up to ``1 / ratio`` are proven to be dual feasible."""
        return max(cone.largest_ratio(form) for cone, form in zip(self.cones, self.sums.forms, strict=True))

    @cached
    def bound(self) -> tuple[float, float]:
        """The best lower bound that multiples of the multipliers prove, and the multiple, with all rounding outward.

        The multiple is a float and taken as exact; multipliers may miss their boxes by a few roundings, and are all
        taken to be smaller by more than that.
        """
        push, sums = self.push, self.sums
        if push.weight == 0.0:
            return 0.0, 0.0
        squares = sums.squares if push.squared else None
        bound, t = best_multiple_bound(sums.total, squares, self.ratio, push.weight, self.headroom, sums.coincident)
        if not bound > 0.0:
            return 0.0, 0.0
        if squares is None:
            return below(t * sums.total + max(0.0, 1.0 - t) * sums.coincident, 12), t
        conjugates = product_above(t, t, squares, 0.25, above(1.0 / push.weight))
        return max(0.0, math.nextafter(below(t * sums.total, 2) - conjugates, -math.inf)), t

    @property
    def value(self) -> float:
        return self.bound[0]

    @property
    def residual(self) -> float:
        """How far the multipliers miss their box or the cone, relatively."""
        return max(0.0, self.ratio - 1.0, self.multipliers.violation if self.multipliers else 0.0)

    def feasible(self) -> Dual:
        assert self.multipliers is not None
        multiple, a, T = self.bound[1], self.multipliers.values, self.multipliers.triplets
        factors = multiple if self.push.squared else np.where(self.push.coincident(T), max(1.0, multiple), multiple)
        ceilings = math.inf if self.push.squared else self.push.weight * self.multipliers.weights
        scaled = np.minimum(factors * a, ceilings)
        return Dual(T[scaled > 0], scaled[scaled > 0])


@dataclass
class PushSums:
    """Sums over triplets at a point, and over the multipliers that the slopes of each smoothing width make there."""

    slopes: dict[float, MultiplierSums]  # by smoothing width; none if no multipliers are wanted
    losses: list[float] = field(default_factory=list)  # their sum is not below sum w h, push weight left out
    n_active: int = 0  # triplets with a positive hinge

    @classmethod
    def none(cls, push: Push, ranks: Sequence[int], *, slopes: bool) -> PushSums:
        """Return the sums for no triplets, with multipliers in spaces of these dimensions if they are wanted."""
        widths = () if not slopes else (0.0,) if push.squared else SMOOTHING_WIDTHS
        return cls({width: MultiplierSums([Form.zero(rank) for rank in ranks]) for width in widths})

    def add_by_search(self, push: Push, images: Sequence[Images], cones: Sequence[DualCone]) -> None:
        """Add all triplets, by a search."""
        P, n_widths = stacked_points([image.points for image in images]), len(self.slopes)
        rows, pulls, n_terms = Candidates.none(), np.zeros((n_widths, 0, 1)), 0
        for region, block in push.blocks_by_region(P, widen=max(inactive_beyond(image) for image in images)):
            if not block.has_rows_of(rows):
                self._add_pulls(push, cones, rows, pulls, n_terms)
                rows, pulls, n_terms = block, np.zeros((n_widths, *block.targets.shape)), 0
                target_D, target_D_above = _target_bounds(push, images, block)
            loss, n_active = loss_above(images[region], block, target_D, target_D_above, squared=push.squared)
            self.losses.append(loss)
            self.n_active += n_active
            if not n_widths:
                continue
            if (group := cones[region].groups).max(initial=0) > 0:
                block = block.select(group[block.anchors[block.rows]] == group[block.impostors])
            n_terms += int(np.diff(block.indptr).max(initial=0))
            anchors = block.anchors[block.rows]
            coincident = push.duplicate_groups[anchors] == push.duplicate_groups[block.impostors]
            for pull, (width, mine) in zip(pulls, self.slopes.items(), strict=True):
                losses, slopes = hinge_slopes(images[region].points, block, width, push.squared, target_D)
                roundings, squares, weights = slopes.size + 8, 0.0, slopes.sum(axis=1)
                if push.squared:
                    underflow = UNDERFLOW_OF_SQUARES * slopes.size
                    total = above(4.0 * float(losses.sum()) + underflow, roundings)  # of a^2 / w with a = 2 w u
                    squares = product_above(push.weight, push.weight, total)
                at_anchors = below(push.weight * sum_below(slopes[coincident].ravel()))
                mine.add(below(push.weight * float(slopes.sum()), roundings), squares, at_anchors)
                used = weights > 0.0
                pairs = anchors[used], block.impostors[used], weights[used]
                mine.forms[region] += cones[region].images.form(*pairs, roundings=slopes.shape[1]).times(push.weight)
                for k in range(slopes.shape[1]):
                    pull[:, k] += np.bincount(block.rows, slopes[:, k], minlength=len(block.anchors))
        self._add_pulls(push, cones, rows, pulls, n_terms)

    def _add_pulls(
        self, push: Push, cones: Sequence[DualCone], rows: Candidates, pulls: FloatArray, n_terms: int
    ) -> None:
        """Add the pulls by the slopes of some rows, with at most the given number of terms for every metric."""
        for mine, weights in zip(self.slopes.values(), pulls, strict=True):
            row, slot = np.nonzero(weights)
            first, second, pull = rows.anchors[row], rows.targets[row, slot], weights[row, slot]
            for region, cone in enumerate(cones):
                m = slice(None) if len(cones) == 1 else push.regions[second] == region
                form = cone.images.form(first[m], second[m], pull[m], roundings=n_terms + len(cones))
                mine.forms[region] -= form.times(push.weight)

    def add_unit_hinges(
        self, push: Push, cones: Sequence[DualCone], furthest_target: float, groups: Sequence[IndexArray]
    ) -> None:
        """Add all triplets, with hinges of 1 within the given groups of each metric and 0 elsewhere."""
        source, cone_groups, c = push.source, [cone.groups for cone in cones], len(cones)
        loss, n_active = source.weight_and_count(groups, push.regions)
        slope, roundings, power = push.weight * (2.0 if push.squared else 1.0), n_active + c + 2, 1 + push.squared
        self.losses.append(above(loss * (1.0 + furthest_target) ** power, roundings + 4))
        self.n_active += n_active
        if self.slopes:
            total, _ = source.weight_and_count(cone_groups, push.regions)
            coincident, _ = source.weight_and_count([push.duplicate_groups] * c, push.regions)
            forms = source.margin_forms([cone.images for cone in cones], cone_groups, push.regions)
            sums = MultiplierSums(
                [form.times(slope) for form in forms],
                below(slope * total, roundings),
                product_above(slope, slope, above(total, roundings)),
                below(slope * coincident, roundings),
            )
            self.slopes = {0.0: sums}

    def candidates(self, push: Push, cones: Sequence[DualCone]) -> list[DualCandidate]:
        return [DualCandidate(push, cones, sums) for sums in self.slopes.values()]


def _target_bounds(push: Push, images: Sequence[Images], block: Candidates) -> tuple[FloatArray, FloatArray]:
    """Return squared distances to target neighbors and upper bounds of the exact ones, (m, K), padded with -1.

    With a metric near that of the images these are higher by what the images' distances to impostors may be too large.
    """
    row, slot = np.nonzero(block.targets >= 0)
    first, second = block.anchors[row], block.targets[row, slot]
    target_D, target_D_above = np.full((2, *block.targets.shape), -1.0)
    for region, image in enumerate(images):
        m = slice(None) if len(images) == 1 else push.regions[second] == region
        target_D[row[m], slot[m]] = distances(image.points, first[m], second[m])
        target_D_above[row[m], slot[m]] = image.distances(first[m], second[m])[1]
    target_D_above[row, slot] = with_error(target_D_above[row, slot], max(image.distance_error for image in images))
    return target_D, target_D_above
