"""The push term of LMNN under c >= 1 metrics, hinges over triplets: its search, and what multipliers prove."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import BoolArray, FloatArray, IndexArray
from sdpmetric.core.certificate import Dual
from sdpmetric.core.triplets import Candidates, Triplets
from sdpmetric.engine.cached import cached
from sdpmetric.linalg.distances import Blocks, distances, laplacian_form
from sdpmetric.linalg.rigorous import TINY, Form, Images, above, below, product_above, sum_above, sum_below
from sdpmetric.lmnn.pull import DualCone
from sdpmetric.lmnn.triplets import margins
from sdpmetric.lmnn.triplets.impostors import SearchMethod, listed
from sdpmetric.lmnn.triplets.margins import hinge_slopes, inactive_beyond, largest_hinges, target_distances, with_rest
from sdpmetric.lmnn.triplets.sources import LabeledTriplets, TripletSource

ScalarT = TypeVar("ScalarT", bound=np.generic)

# Smoothing widths whose slopes are tried as dual candidates where none is given.
SMOOTHINGS = (0.0, 0.003, 0.03, 0.3)


def joined(parts: Sequence[NDArray[ScalarT]]) -> NDArray[ScalarT]:
    """Points of all metrics, one after the other; those of a single one are not copied."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


@dataclass(frozen=True, eq=False)
class ClippedMultipliers:
    """Multipliers in their boxes, each triplet once, none of them 0."""

    triplets: Triplets
    values: FloatArray
    weights: FloatArray  # of their hinges
    violation: float  # how far the given ones were from their boxes, relative to the weight of the push term


@dataclass(frozen=True, eq=False)
class Push:
    """``weight * sum_t w_t h(1 - <B_t, M>)`` over triplets, with h the hinge or its square.

    A pair is measured by the metric of its second member's region. Example i under metric r is *point* ``r n + i``:
    candidates name points, triplets and multipliers name examples.
    """

    X: NDArray[np.floating]  # the exact data
    source: TripletSource
    weight: float
    squared: bool
    search: SearchMethod
    regions: IndexArray
    n_regions: int = 1  # c; listed triplets have one

    @cached
    def duplicate_groups(self) -> IndexArray:
        """A number for each place that examples lie at, (n,): equal rows of X have equal numbers."""
        number: dict[bytes, int] = {}
        return np.array([number.setdefault(row.tobytes(), len(number)) for row in self.X + 0.0], dtype=np.int32)

    def coincident(self, triplets: Triplets) -> BoolArray:
        """Whether anchor and impostor lie at the very same place."""
        same: BoolArray = self.duplicate_groups[triplets.anchors] == self.duplicate_groups[triplets.impostors]
        return same

    # -- points: examples under their metrics -------------------------------------------------------------------------

    @cached
    def blocks(self) -> Blocks:
        """The points of each metric."""
        return Blocks(len(self.X) * np.arange(self.n_regions + 1, dtype=np.int64))

    def place(self, first: IndexArray, second: IndexArray) -> tuple[IndexArray, IndexArray]:
        """Pairs of examples as pairs of points."""
        if self.n_regions == 1:
            return first, second
        shift = np.int32(len(self.X)) * self.regions[second]
        return first + shift, second + shift

    def bases(self, candidates: Candidates) -> IndexArray:
        """The anchor of each row under the metric of each target, (m, K); negative if there is no target."""
        n = np.int32(len(self.X))
        bases: IndexArray = candidates.targets // n * n + candidates.anchors[:, None] % n
        return bases

    def target_distances(self, Z: NDArray[np.floating], candidates: Candidates) -> FloatArray:
        """Squared distances from the anchor of each row to its targets, (m, K), padded with -1."""
        return target_distances(Z, self.bases(candidates), candidates.targets)

    def placed(self, region: int, examples: Candidates) -> Candidates:
        """Candidates of a region by numbers of points."""
        if self.n_regions == 1:
            return examples
        C, shift = examples, np.int32(region * len(self.X))
        return Candidates(C.anchors + shift, self.placed_targets(C.targets), C.indptr, C.impostors + shift, C.weights)

    def placed_targets(self, targets: IndexArray) -> IndexArray:
        """Target neighbors by numbers of points, padded with -1."""
        return np.where(targets >= 0, targets + np.int32(len(self.X)) * self.regions[targets], np.int32(-1))

    def examples(self, candidates: Candidates) -> Candidates:
        """Candidates by numbers of examples."""
        if self.n_regions == 1:
            return candidates
        C, n = candidates, np.int32(len(self.X))
        targets = np.where(C.targets >= 0, C.targets % n, np.int32(-1))
        return Candidates(C.anchors % n, targets, C.indptr, C.impostors % n, C.weights)

    def margins(self, Z: NDArray[np.floating], triplets: Triplets) -> FloatArray:
        """``<B_t, M>`` of triplets at embedded points."""
        far = distances(Z, *self.place(triplets.anchors, triplets.impostors))
        return far - distances(Z, *self.place(triplets.anchors, triplets.targets))

    def adjoint(self, points: FloatArray, triplets: Triplets, values: FloatArray) -> FloatArray:
        """``sum_t a_t B_t`` for each metric, (c, p, p), at points (c n, p)."""
        first = np.concatenate([triplets.anchors, triplets.anchors])
        second = np.concatenate([triplets.impostors, triplets.targets])
        signed = np.concatenate([values, -values])
        A = laplacian_form(points, *self.place(first, second), signed, self.blocks)
        total: FloatArray = 0.5 * (A + np.swapaxes(A, 1, 2))
        return total

    # -- the exhaustive search ----------------------------------------------------------------------------------------

    def by_region(
        self,
        Z: NDArray[np.floating],
        groups: IndexArray | None = None,
        *,
        widen: float = 0.0,
        among: IndexArray | None = None,
    ) -> Iterator[tuple[int, Candidates]]:
        """Yield, block by block, a region and candidates with impostors of it, by numbers of examples; see `near`."""
        n, source = len(self.X), self.source
        groups = np.zeros(len(Z), dtype=np.int32) if groups is None else groups
        if self.n_regions == 1:
            for part in source.near(Z, groups, widen=widen, among=among, method=self.search):
                yield 0, part
            return
        assert isinstance(source, LabeledTriplets)
        anchors = source.anchors(among)
        targets = self.placed_targets(source.targets[anchors])
        near = target_distances(Z, targets // np.int32(n) * np.int32(n) + anchors[:, None], targets)
        limits = (1.0 + near.max(axis=1, initial=0.0)) * (1.0 + widen)
        for region in range(self.n_regions):
            columns = np.flatnonzero(self.regions == region).astype(np.int32)
            own = slice(region * n, (region + 1) * n)
            for part in source.within(Z[own], groups[own], anchors, limits, columns=columns, method=self.search):
                yield region, part

    def near(
        self,
        Z: NDArray[np.floating],
        groups: IndexArray | None = None,
        *,
        widen: float = 0.0,
        among: IndexArray | None = None,
    ) -> Iterator[Candidates]:
        """Yield, block by block, all candidates that can violate their margin; see `LabeledTriplets.near`.

        Z holds embedded points, (c n, r); only impostors of the anchor's group, (c n,), are listed.
        """
        return (self.placed(region, part) for region, part in self.by_region(Z, groups, widen=widen, among=among))

    def candidates(
        self,
        Z: NDArray[np.floating],
        groups: IndexArray | None = None,
        *,
        widen: float = 0.0,
        among: IndexArray | None = None,
        most: float = math.inf,
    ) -> Candidates:
        """All blocks of `near` in one; `TooManyCandidates` is raised for more pairs than `most`."""
        blocks = listed(self.near(Z, groups, widen=widen, among=among), most)
        return Candidates.concatenate(blocks) if blocks else Candidates.none()

    def hinges(self, Z: FloatArray, among: IndexArray | None = None) -> Iterator[tuple[float, Candidates, FloatArray]]:
        """By block and numbers of examples: the loss without push weight, the candidates, the slopes, (nnz, K)."""
        rows, n = Candidates.none(), len(self.X)
        for region, part in self.by_region(Z, among=among):
            if not part.has_rows_of(rows):
                rows, near = part, self.target_distances(Z, self.placed(region, part))
            P = Z[region * n : (region + 1) * n]
            sums, slopes = hinge_slopes(P, part, 0.0, self.squared, near)
            yield sums.loss, part, slopes

    def loss(self, Z: FloatArray, among: IndexArray | None = None) -> float:
        """``sum_t w_t h(1 - <B_t, M>)`` at embedded points, over all anchors or some; the push weight is left out."""
        near = float(distances(Z, *self.place(*self.source.target_pairs())).max(initial=0.0))
        everyone = np.zeros(len(self.X), dtype=np.int32)
        if among is None and all(margins.are_unit_hinges(P, everyone, near) for P in np.split(Z, self.n_regions)):
            return self.source.total_weight
        return sum(loss for loss, _, _ in self.hinges(Z, among))

    # -- multipliers --------------------------------------------------------------------------------------------------

    def ceilings(self, triplets: Triplets) -> FloatArray:
        """The upper ends of the boxes of the hinge's multipliers, (t,); 0 for foreign triplets."""
        return self.weight * self.source.weights_of(triplets)

    def clipped(self, dual: Dual, groups: Sequence[IndexArray] = ()) -> ClippedMultipliers:
        """Repair multipliers: each triplet once, in its box, and 0 across the groups of the impostor's metric."""
        values = np.asarray(dual.values, dtype=np.float64)
        given = dual.triplets.to_array()
        if values.shape != (len(given),) or not np.isfinite(values).all():
            raise ValueError(f"dual has {values.size} values for {len(given)} triplets; both must match, all finite.")
        if given.size and (given.min() < 0 or given.max() >= len(self.X)):
            raise ValueError(f"dual names rows outside 0..{len(self.X) - 1}.")
        _, first, inverse = np.unique(dual.triplets.keys(len(self.X)), return_index=True, return_inverse=True)
        triplets = dual.triplets[first]
        values = np.bincount(inverse.ravel(), values, minlength=len(first)).astype(np.float64)
        weights = self.source.weights_of(triplets)
        if groups:
            group, region = np.stack(groups), self.regions[triplets.impostors]
            weights[group[region, triplets.anchors] != group[region, triplets.impostors]] = 0.0
        ceiling = np.inf * np.ones(len(weights)) if self.squared else self.weight * weights
        ceiling[weights == 0] = 0.0
        clipped = np.clip(values, 0.0, ceiling)
        excess = float(np.abs(values - clipped).max(initial=0.0))
        violation = excess / self.weight if self.weight > 0 else np.inf if excess > 0 else 0.0
        used = clipped > 0
        return ClippedMultipliers(triplets[used], clipped[used], weights[used], violation)


def best_multiple_bound(
    total: float, squares: float | None, top: float, push_weight: float, headroom: float = 1.0, coincident: float = 0.0
) -> tuple[float, float]:
    """The best lower bound that multiples of multipliers prove for LMNN, and the multiple.

    With ``S = I - sum a_t B_t`` in whitened coordinates, a multiple t is dual feasible up to ``1 / top``; it proves
    ``t sum a`` for the hinge and ``t sum a - t^2 sum a^2 / (4 mu w)`` for its square.
    """
    if not total > 0.0:
        return 0.0, 0.0
    limit = 1.0 / (top * (1 + 1e-13)) if top > 0 else math.inf
    if squares is None:
        multiple = min(limit, headroom)
        bound = multiple * total + max(0.0, 1.0 - multiple) * coincident
    else:
        multiple = min(limit, 2 * push_weight * total / squares) if squares > 0 else limit  # a parabola
        bound = multiple * total - multiple * multiple * squares / (4 * push_weight)
    return (bound, multiple) if math.isfinite(bound) else (0.0, 0.0)


@dataclass(frozen=True, eq=False)
class DualCandidate:
    """Multipliers ``a >= 0`` of a push term, summed up to what a lower bound needs of them."""

    push: Push
    total: float  # not above sum a
    squares: float  # not below sum a^2 / w
    forms: Sequence[Form]  # sum a_t B_t in the coordinates of each metric's dual cone
    cones: Sequence[DualCone]
    coincident: float  # not above the part of the total of impostors at the very place of their anchors
    headroom: float = 1.0  # the largest multiple that stays in the box of the hinge, at least 1
    multipliers: ClippedMultipliers | None = None  # where they were given

    @classmethod
    def of(cls, push: Push, dual: Dual, cones: Sequence[DualCone]) -> DualCandidate:
        """Repair multipliers and sum them up."""
        given = push.clipped(dual, [cone.groups for cone in cones])
        T, a, w = given.triplets, given.values, given.weights
        first, second = np.concatenate([T.anchors, T.anchors]), np.concatenate([T.impostors, T.targets])
        signed, own = np.concatenate([a, -a]), [push.regions[second] == region for region in range(len(cones))]
        forms = [c.images.form(first[o], second[o], signed[o]) for c, o in zip(cones, own, strict=True)]
        headroom = np.inf if push.squared else float((push.weight * w / a).min(initial=np.inf))
        with np.errstate(over="ignore"):  # a bound that is not finite is taken as 0
            squares = sum_above(np.nextafter(a * np.nextafter(a / w, np.inf), np.inf))
        coincident = sum_below(a[push.coincident(T)])
        return cls(push, sum_below(a), squares, forms, cones, coincident, max(1.0, headroom), given)

    @cached
    def top(self) -> float:
        """Multiples up to ``1 / top`` are proven to be dual feasible: the dual slack is block diagonal."""
        return max(cone.top(form) for cone, form in zip(self.cones, self.forms, strict=True))

    @cached
    def bound(self) -> tuple[float, float]:
        """The best lower bound that multiples of the multipliers prove, and the multiple, with all rounding outward.

        The multiple is a float and taken as exact; multipliers may miss their boxes by a few roundings, and are all
        taken to be smaller by more than that.
        """
        push = self.push
        if push.weight == 0.0:
            return 0.0, 0.0
        if (quadratic := self.cones[0].quadratic) is not None:
            return quadratic.best(self.total, self.forms[0], self.headroom)
        squares = self.squares if push.squared else None
        bound, multiple = best_multiple_bound(
            self.total, squares, self.top, push.weight, self.headroom, self.coincident
        )
        if not bound > 0.0:
            return 0.0, 0.0
        if squares is None:
            rest = max(0.0, 1.0 - multiple)
            return below(multiple * self.total + rest * self.coincident, 12), multiple
        lost = product_above(multiple, multiple, squares, 0.25, above(1.0 / push.weight))
        return max(0.0, math.nextafter(below(multiple * self.total, 2) - lost, -math.inf)), multiple

    def feasible(self) -> Dual:
        """The multiple that proves the bound, of multipliers that were given."""
        assert self.multipliers is not None
        multiple, a, T = self.bound[1], self.multipliers.values, self.multipliers.triplets
        whole = self.push.squared or self.cones[0].quadratic is not None
        # Impostors at the place of their anchors are not scaled down.
        factors = multiple if whole else np.where(self.push.coincident(T), max(1.0, multiple), multiple)
        ceilings = math.inf if self.push.squared else self.push.weight * self.multipliers.weights
        scaled = np.minimum(factors * a, ceilings)
        return Dual(T[scaled > 0], scaled[scaled > 0])


@dataclass
class PushSums:
    """Sums over triplets at a point, and over the multipliers that the slopes of each smoothing width make there."""

    widths: tuple[float, ...]  # none where no dual candidates are wanted
    forms: list[list[Form]]  # sum a_t B_t of each width and metric
    total: list[float]  # of each width, as the next two; see `DualCandidate`
    squares: list[float]
    coincident: list[float]
    losses: list[float] = field(default_factory=list)  # their sum is not below sum w h, push weight left out
    n_active: int = 0  # triplets with a positive hinge

    @classmethod
    def none(cls, push: Push, ranks: Sequence[int], *, slopes: bool) -> PushSums:
        """The sums for no triplets, with dual candidates in spaces of these dimensions where they are wanted."""
        widths = () if not slopes else (0.0,) if push.squared else SMOOTHINGS
        total, squares, coincident = ([0.0] * len(widths) for _ in range(3))
        return cls(widths, [[Form.zero(rank) for rank in ranks] for _ in widths], total, squares, coincident)

    def add_near(
        self, push: Push, images: Sequence[Images], cones: Sequence[Images], groups: Sequence[IndexArray]
    ) -> None:
        """Add all triplets, by a search; the images of the cones and their groups are those of `DualCone`."""
        P, n_widths = joined([own.points for own in images]), len(self.widths)
        rows, pulls, most = Candidates.none(), np.zeros((n_widths, 0, 1)), 0
        for region, part in push.by_region(P, widen=max(inactive_beyond(own) for own in images)):
            if not part.has_rows_of(rows):
                self._add_pulls(push, cones, rows, pulls, most)
                rows, pulls, most = part, np.zeros((n_widths, *part.targets.shape)), 0
                near, highest = target_bounds(push, images, part)
            loss, n_active = largest_hinges(images[region], part, near, highest, squared=push.squared)
            self.losses.append(loss)
            self.n_active += n_active
            if n_widths:
                if (own := groups[region]).max(initial=0) > 0:
                    part = part.select(own[part.anchors[part.rows]] == own[part.impostors])
                self._add_slopes(push, images[region].points, part, near, pulls, cones[region], region)
                most += int(np.diff(part.indptr).max(initial=0))
        self._add_pulls(push, cones, rows, pulls, most)

    def _add_slopes(
        self,
        push: Push,
        Z: FloatArray,
        part: Candidates,
        near: FloatArray,
        pulls: FloatArray,
        cone: Images,
        region: int,
    ) -> None:
        """Add the slopes of a block, whose impostors are of one region; what they pull is for `_add_pulls`."""
        rows = part.rows
        anchors = part.anchors[rows]
        together = push.duplicate_groups[anchors] == push.duplicate_groups[part.impostors]
        for g, width in enumerate(self.widths):
            sums, slopes = hinge_slopes(Z, part, width, push.squared, near)
            count = slopes.size + 8
            self.total[g] = below(self.total[g] + below(push.weight * sums.slopes, count))
            if push.squared:  # squares may underflow, by less than the smallest float over the least weight
                w = part.weights
                least = 1.0 if w is None else float(w.min(initial=1.0, where=w > 0.0))
                squares = above(sums.squares, count) + product_above(count, TINY, 2.0 / least)
                self.squares[g] = above(self.squares[g] + product_above(push.weight, push.weight, squares))
            coincident = push.weight * sum_below(slopes[together].ravel())
            self.coincident[g] = below(self.coincident[g] + below(coincident))
            weights = slopes.sum(axis=1)
            used = weights > 0.0
            form = cone.form(anchors[used], part.impostors[used], weights[used], roundings=slopes.shape[1])
            self.forms[g][region] += form.times(push.weight)
            for k in range(slopes.shape[1]):
                pulls[g, :, k] += np.bincount(rows, slopes[:, k], minlength=len(part.anchors))

    def _add_pulls(self, push: Push, cones: Sequence[Images], rows: Candidates, pulls: FloatArray, most: int) -> None:
        """Add what the slopes of some rows pull, each sum of at most so many of every metric."""
        for forms, weights in zip(self.forms, pulls, strict=True):
            row, slot = np.nonzero(weights)
            first, second, pull = rows.anchors[row], rows.targets[row, slot], weights[row, slot]
            for region, cone in enumerate(cones):
                own = slice(None) if len(cones) == 1 else push.regions[second] == region
                form = cone.form(first[own], second[own], pull[own], roundings=most + len(cones))
                forms[region] -= form.times(push.weight)

    def add_unit_hinges(
        self,
        push: Push,
        cones: Sequence[DualCone],
        highest: float,
        active: Sequence[IndexArray],
    ) -> None:
        """Add all triplets where those within the active groups of each metric have hinges of 1, the others 0."""
        source, groups = push.source, [cone.groups for cone in cones]
        (loss, n_active), (within, _), (coincident, _) = (
            source.totals_within(each, push.regions) for each in (active, groups, [push.duplicate_groups] * len(cones))
        )
        slope, count = push.weight * (2.0 if push.squared else 1.0), n_active + len(cones) + 2
        self.losses.append(above(loss * (1.0 + highest) ** (2 if push.squared else 1), count + 4))
        self.n_active += n_active
        if self.widths:
            self.widths = self.widths[:1]
            self.total, self.coincident = [below(slope * within, count)], [below(slope * coincident, count)]
            self.squares = [product_above(slope, slope, above(within, count))]
            forms = source.forms_within([cone.images for cone in cones], groups, push.regions)
            self.forms = [[form.times(slope) for form in forms]]

    def include(self, other: PushSums) -> None:
        """Add what was gathered elsewhere, over other triplets."""
        self.losses += other.losses
        self.n_active += other.n_active
        for g, forms in enumerate(other.forms):
            self.total[g] = below(self.total[g] + other.total[g])
            self.squares[g] = above(self.squares[g] + other.squares[g])
            self.coincident[g] = below(self.coincident[g] + other.coincident[g])
            self.forms[g] = [own + more for own, more in zip(self.forms[g], forms, strict=True)]

    def candidates(self, push: Push, cones: Sequence[DualCone]) -> list[DualCandidate]:
        """What the slopes of each width prove; no multipliers at all where none were wanted."""
        return [
            DualCandidate(push, total, squares, forms, cones, coincident)
            for total, squares, forms, coincident in zip(
                self.total, self.squares, self.forms, self.coincident, strict=True
            )
        ]


def target_bounds(push: Push, images: Sequence[Images], part: Candidates) -> tuple[FloatArray, FloatArray]:
    """Squared distances to target neighbors, and upper bounds of the exact ones, (m, K) each and padded with -1.

    With a metric near that of the images these are higher by what the images' distances to impostors may be too large.
    """
    row, slot = np.nonzero(part.targets >= 0)
    first, second = part.anchors[row], part.targets[row, slot]
    near, highest = np.full((2, *part.targets.shape), -1.0)
    for region, own in enumerate(images):
        at = slice(None) if len(images) == 1 else push.regions[second] == region
        near[row[at], slot[at]] = distances(own.points, first[at], second[at])
        highest[row[at], slot[at]] = own.distances(first[at], second[at])[1]
    rest = max(own.rest for own in images)
    highest[row, slot] = with_rest(highest[row, slot], rest)
    return near, highest
