"""What multipliers of the push term prove about LMNN: best multiples, candidates from slopes, certificates."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sdpmetric.arrays import BoolArray, FloatArray, IndexArray
from sdpmetric.bounds.dual_cone import DualCone
from sdpmetric.bounds.push import ClippedMultipliers, Push
from sdpmetric.core.certificate import DualityCertificate
from sdpmetric.core.multipliers import Dual
from sdpmetric.linalg.rigorous import TINY, Form, Images, above, below, product_above, sum_above, sum_below
from sdpmetric.triplets.bounds import largest_hinges, target_bounds
from sdpmetric.triplets.margins import hinge_slopes
from sdpmetric.triplets.triplets import Candidates, Triplets

# Smoothing widths whose slopes are tried as dual candidates where none is given.
SMOOTHINGS = (0.0, 0.003, 0.03, 0.3)
# Where the infimum is proven to be 0, gaps of this share of what the lightest triplet costs count as closed: rounding
# leaves such objectives of null directions.
RESOLUTION = 1e-9


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
    """Multipliers ``a >= 0`` of a push term, summed up to what a lower bound needs of them.

    Attributes
    ----------
    total, squares : float
        Bounds of ``sum a`` from below and of ``sum a^2 / w`` from above.
    forms : tuple of Form
        ``sum a_t B_t`` in the coordinates of each metric's dual cone.
    top : float
        Multiples up to ``1 / top`` are proven to be dual feasible; see `DualCone.top`.
    coincident : float
        The part of the total that belongs to impostors at the very place of their anchors, bounded from below.
    headroom : float
        The largest multiple that stays in the box of the hinge, at least 1.
    multipliers : ClippedMultipliers or None
        The multipliers themselves, where they were given.
    """

    push: Push
    total: float
    squares: float
    forms: tuple[Form, ...]
    top: float
    coincident: float
    headroom: float = 1.0
    multipliers: ClippedMultipliers | None = None

    @classmethod
    def of(cls, push: Push, dual: Dual, cones: Sequence[DualCone], regions: IndexArray) -> DualCandidate:
        """Repair multipliers and sum them up; a pair is measured by the metric of its second member's region, (n,).

        They become 0 where null directions of the impostor's metric separate it from the anchor.
        """
        groups = np.stack([cone.groups for cone in cones])

        def separated(T: Triplets) -> BoolArray:
            region = regions[T.impostors]
            apart: BoolArray = groups[region, T.anchors] != groups[region, T.impostors]
            return apart

        given = push.clipped(dual, separated)
        T, a, w = given.triplets, given.values, given.weights
        first, second = np.concatenate([T.anchors, T.anchors]), np.concatenate([T.impostors, T.targets])
        signed, own = np.concatenate([a, -a]), [regions[second] == region for region in range(len(cones))]
        forms = [c.images.form(first[o], second[o], signed[o]) for c, o in zip(cones, own, strict=True)]
        headroom = np.inf if push.squared else float((push.weight * w / a).min(initial=np.inf))
        with np.errstate(over="ignore"):  # a bound that is not finite is taken as 0
            squares = sum_above(np.nextafter(a * np.nextafter(a / w, np.inf), np.inf))
        top = max(cone.top(form) for cone, form in zip(cones, forms, strict=True))
        coincident = sum_below(a[push.coincident(T)])
        return cls(push, sum_below(a), squares, tuple(forms), top, coincident, max(1.0, headroom), given)

    @cached_property
    def bound(self) -> tuple[float, float]:
        """The best lower bound that multiples of the multipliers prove, and the multiple, with all rounding outwards.

        The multiple is a float and taken as exact; multipliers may miss their boxes by a few roundings, and are all
        taken to be smaller by more than that.
        """
        push = self.push
        if push.weight == 0.0:
            return 0.0, 0.0
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
        if self.push.squared:
            scaled = multiple * a
        else:  # impostors at the place of their anchors are not scaled down
            factors = np.where(self.push.coincident(T), max(1.0, multiple), multiple)
            scaled = np.minimum(factors * a, self.push.weight * self.multipliers.weights)
        return Dual(T[scaled > 0], scaled[scaled > 0])


@dataclass(frozen=True)
class PartOfSums:
    """What `PushSums` gathered over some of the triplets; see there."""

    losses: list[float]
    n_active: int
    total: list[float]
    squares: list[float]
    coincident: list[float]
    forms: list[list[Form]]


class PushSums:
    """Sums over all triplets at a point, gathered part by part, and the dual candidates that the slopes there make.

    Parameters
    ----------
    ranks : sequence of int
        Number of coordinates of each metric's dual cone.
    slopes : bool
        Whether dual candidates are wanted: one for each smoothing width.

    Attributes
    ----------
    n_active : int
        Triplets with a positive hinge.
    forms : list of lists of Form
        ``sum a_t B_t`` of each dual candidate and metric, to be filled by the caller of `add`.
    """

    def __init__(self, push: Push, ranks: Sequence[int], *, slopes: bool) -> None:
        self._push = push
        self._widths = () if not slopes else (0.0,) if push.squared else SMOOTHINGS
        self._total, self._squares, self._coincident = ([0.0] * len(self._widths) for _ in range(3))
        self._losses: list[float] = []
        self.n_active = 0
        self.forms = [[Form.zero(rank) for rank in ranks] for _ in self._widths]

    @property
    def loss(self) -> float:
        """An upper bound of ``sum w h`` over all triplets, the push weight left out."""
        return sum_above(np.array(self._losses))

    def add(
        self,
        images: Images,
        part: Candidates,
        groups: IndexArray,
        near: tuple[FloatArray, FloatArray] | None = None,
    ) -> Iterator[tuple[int, Candidates, FloatArray]]:
        """Add a part of the triplets."""
        push, Z = self._push, images.points
        computed, highest = target_bounds(images, part.anchors, part.targets) if near is None else near
        losses, n_active = largest_hinges(images, part, computed, highest, squared=push.squared)
        self._losses.append(losses)
        self.n_active += n_active
        if not self._widths:
            return
        anchors = part.anchors[part.rows]
        if groups.max(initial=0) > 0:
            part = part.select(groups[anchors] == groups[part.impostors])
            anchors = part.anchors[part.rows]
        together = push.duplicate_groups[anchors] == push.duplicate_groups[part.impostors]
        for g, gamma in enumerate(self._widths):
            sums, slopes = hinge_slopes(Z, part, gamma, push.squared, computed)
            count = slopes.size + 8
            self._total[g] = below(self._total[g] + below(push.weight * sums.slopes, count))
            if push.squared:  # squares may underflow, by less than the smallest float over the least weight
                w = part.weights
                least = 1.0 if w is None else float(w.min(initial=1.0, where=w > 0.0))
                squares = above(sums.squares, count) + product_above(count, TINY, 2.0 / least)
                self._squares[g] = above(self._squares[g] + product_above(push.weight, push.weight, squares))
            coincident = push.weight * sum_below(slopes[together].ravel())
            self._coincident[g] = below(self._coincident[g] + below(coincident))
            yield g, part, slopes

    def add_unit_hinges(self, totals: tuple[float, int], within: float, coincident: float, highest: float) -> float:
        """Add all triplets at a point where their hinges are 1 or 0."""
        slope, count = self._push.weight * (2.0 if self._push.squared else 1.0), totals[1] + 2
        self._losses.append(above(totals[0] * (1.0 + highest) ** (2 if self._push.squared else 1), count + 4))
        self.n_active += totals[1]
        self._widths, self.forms = self._widths[:1], self.forms[:1]
        self._total = [below(slope * within, count)] * len(self._widths)
        self._squares = [product_above(slope, slope, above(within, count))] * len(self._widths)
        self._coincident = [below(slope * coincident, count)] * len(self._widths)
        return slope

    def part(self) -> PartOfSums:
        """What was gathered so far, to be sent to where parts are added up."""
        return PartOfSums(self._losses, self.n_active, self._total, self._squares, self._coincident, self.forms)

    def include(self, part: PartOfSums) -> None:
        """Add what was gathered elsewhere, over other triplets."""
        self._losses += part.losses
        self.n_active += part.n_active
        for g, forms in enumerate(part.forms):
            self._total[g] = below(self._total[g] + part.total[g])
            self._squares[g] = above(self._squares[g] + part.squares[g])
            self._coincident[g] = below(self._coincident[g] + part.coincident[g])
            self.forms[g] = [own + other for own, other in zip(self.forms[g], forms, strict=True)]

    def _candidates(self, cones: Sequence[DualCone]) -> list[DualCandidate]:
        return [
            DualCandidate(
                self._push,
                total,
                squares,
                tuple(forms),
                max(cone.top(form) for cone, form in zip(cones, forms, strict=True)),
                coincident,
            )
            for total, squares, forms, coincident in zip(
                self._total, self._squares, self.forms, self._coincident, strict=True
            )
        ]

    def certificate(
        self,
        cones: Sequence[DualCone],
        cost: float,
        whitened: Sequence[FloatArray],
        given: DualCandidate | None,
        *,
        primal_residual: float,
        null_dimension: int,
        free: Callable[[], bool],
        program: str = "LMNN",
    ) -> DualityCertificate:
        """The certificate of the point, by the best dual candidate."""
        weight = self._push.weight
        objective = above(cost + product_above(weight, self.loss), 2)
        tries = self._candidates(cones) if given is None else [given]
        best = tries[int(np.argmax([candidate.bound[0] for candidate in tries]))]
        lower_bound, multiple = best.bound
        aligned = sum(float(np.sum((L @ form.matrix) * L)) for L, form in zip(whitened, best.forms, strict=True))
        return DualityCertificate(
            objective=objective,
            lower_bound=lower_bound,
            primal_residual=primal_residual,
            dual_residual=max(0.0, best.top - 1.0, best.multipliers.violation if best.multipliers else 0.0),
            complementarity=abs(cost - multiple * aligned) / max(1.0, objective),
            n_active=self.n_active,
            null_dimension=null_dimension,
            program=program,
            rigor="float",
            resolution=RESOLUTION * weight * self._push.source.least_weight if lower_bound == 0.0 and free() else 0.0,
            weakness=next((cone.weakness for cone in cones if cone.weakness is not None), None),
        )
