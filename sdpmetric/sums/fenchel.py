"""The dual of a sum of terms: what multipliers prove, after they are moved until the slack matrix is PSD.

For multipliers a in the domains of the conjugates, ``S(a) = C + sum a_i A_i`` and every metric M of the domain::

    F(M) >= sum_i (a_i c_i - l_i*(a_i)) + min_M { <S(a), M> + r(M) }

with ``u_i = c_i + <A_i, M>``. The minimum is 0 where S is PSD on the domain and r is 0, and has a closed form for one
regularizer; further ones are bounded by their slopes. Multipliers are moved along the segment from an *anchor*, at
which S is PSD by itself, to the given ones, and somewhat beyond; the dual value is concave there. All bounds hold in
floating point: sums and matrices are rounded in the safe direction.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from sdpmetric.engine.cached import cached
from sdpmetric.linalg import psd, rigorous
from sdpmetric.linalg.rigorous import Form, Images
from sdpmetric.sums.bound_terms import BoundTerms
from sdpmetric.sums.slack import Slack
from sdpmetric.sums.terms.base import Regularizer
from sdpmetric.sums.terms.frobenius import Frobenius
from sdpmetric.sums.terms.log_det import LogDet

FloatArray = NDArray[np.float64]
Lists = list[FloatArray]

# Parts of differences below this in directions of no cost, where data have unit variance, count as 0.
NULL = 1e-9
# How often a multiple is lowered until it is proven; near the end of the cone of LogDet, by which shares.
TRIES = 8
SHORTER = (0.0, 1e-9, 1e-6, 1e-3, 1.0)
# Multiples, added for anchors, of the metric under which pulled pairs have unit distances on average.
LARGER = (0.01, 0.1, 1.0, 10.0, 100.0)
# Share of the slack matrix by which slopes are raised beyond what is needed.
RAISED = 1e-9
# Slopes of regularizers at nearly singular metrics that are larger prove nothing.
LARGEST = 1e100
# Numbers that are divided by are at least the first; multiples of multipliers that domains around 0 hold.
SMALLEST, TINY = 1e-100, 1e-9
# Largest multiple of the way from the anchor that is tried.
FURTHEST = 1e6
# Of the search for the best multiple: first step from 1, by how much the next one is longer; then, how far from the
# best one the next one is at least, as a share of the longer side, steps at most, and the share of the value by which
# it may still rise at the end.
FIRST, LONGER, NARROWER, STEPS, ENOUGH = 1e-5, 10.0, 1e-3, 60, 1e-12
NARROWEST, NOTHING = 1e-300, -1e300


@dataclass(frozen=True, eq=False)
class Proven:
    """What multipliers prove."""

    value: float
    multipliers: Lists
    residual: float = 0.0
    null_dimension: int = 0
    weakness: str | None = None
    slopes: Lists = field(default_factory=list)  # of the further regularizers
    coordinates: FloatArray | None = None  # (k, p), of the domain, in which the slack matrix is proven to be PSD
    anchor: Lists = field(default_factory=list)  # multipliers with which it is positive definite there


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
            top_of_parabola = 0.5 * (up * right + down * left) / max(up - down, NARROWEST)
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


@dataclass(frozen=True, eq=False)
class FenchelDual:
    """The dual of a sum of terms."""

    total: BoundTerms
    slack: Slack

    @property
    def d(self) -> int:
        """Number of features."""
        return int(self.total.centered.shape[1])

    @cached
    def final(self) -> Regularizer | None:
        """The regularizer over which the minimum is taken in closed form."""
        if not self.slack.domain.orthonormal:
            return None
        found = sorted(self.total.regularizers, key=lambda term: not isinstance(term, Frobenius))
        return found[0] if found else None

    @cached
    def others(self) -> tuple[Regularizer, ...]:
        """The other regularizers."""
        return tuple(term for term in self.total.regularizers if term is not self.final)

    def prove(self, given: Lists, components: FloatArray) -> Proven:
        """The best lower bound on the segment from the anchor through given multipliers."""
        losses = self.total.losses
        a = [loss.clip(part) for loss, part in zip(losses, given, strict=True)]
        off = max((float(np.abs(x - y).max(initial=0.0)) for x, y in zip(a, given, strict=True)), default=0.0)
        size = max((float(np.abs(x).max(initial=0.0)) for x in a), default=0.0)
        U = [term.gradient(components) for term in self.others]
        U = [matrix if np.abs(matrix).max(initial=0.0) < LARGEST else np.zeros_like(matrix) for matrix in U]
        tries: list[Proven] = []
        for start in self._anchors(a, components):
            tries.append(self._along(Segment(start, [x - y for x, y in zip(a, start, strict=True)], U)))
            if off and isinstance(self.final, LogDet) and not any(part.any() for part in start):
                whole = [loss.clip(TINY * part) / TINY for loss, part in zip(losses, given, strict=True)]
                tries.append(self._along(Segment(start, whole, U)))  # all made smaller, in place of the largest
            if tries[-1].value > -math.inf and not self.total.regularizers:
                break  # the others are expected to prove less
        if U and self.final is None and (raised := self._raised(a, U)) is not None:
            tries.append(self._along(raised))
        found = max(tries, key=lambda proven: proven.value)
        return replace(found, residual=max(off / size if size else 0.0, found.residual))

    def unmoved(self, a: Lists) -> Proven:
        """What multipliers in their domains prove as they are, without regularizers."""
        return self._along(Segment(a, [np.zeros_like(part) for part in a], []))

    def _raised(self, a: Lists, U: Lists) -> Segment | None:
        """Given multipliers, and slopes of the first regularizer plus a multiple of the identity that makes S PSD.

        None where numbers are too large for that.
        """
        B = self.slack.domain.basis
        S = B @ (self.total.slack_matrix(a) + sum(U, np.zeros((self.d, self.d)))) @ B.T
        lengths, size = np.maximum(np.einsum("ij,ij->i", B, B), SMALLEST), float(np.abs(S).max(initial=0.0))
        if not math.isfinite(size):
            return None
        values = self.slack.relative(np.diag(lengths), self.slack.domain.pinched(S))
        more = max(0.0, -float(values.min(initial=0.0))) + RAISED * size / float(lengths.max(initial=1.0))
        return Segment(a, [np.zeros_like(part) for part in a], [U[0] + more * np.eye(self.d), *U[1:]], True)

    def _anchors(self, a: Lists, components: FloatArray) -> Iterator[Lists]:
        """Where segments start: at anchors of the losses, some of which are their slopes at larger metrics.

        Beside LogDet, whose inverse of M0 outweighs any small multiples, losses that allow it are anchored at 0.
        Without regularizers those come first that are expected to prove most.
        """
        losses, own = self.total.losses, [loss.anchor(part) for loss, part in zip(self.total.losses, a, strict=True)]
        if isinstance(self.final, LogDet):
            own = [part if loss.inside else loss.clip(0.0 * part) for loss, part in zip(losses, own, strict=True)]
        if isinstance(self.final, Frobenius) or not any(loss.inside for loss in losses):
            return (yield own)
        weights = self.total.pair_weights(a)
        whitened, null = self.slack.coordinates(weights, None)  # of the pairs that are pulled together
        whitened = math.sqrt(float(np.maximum(weights, 0.0).sum())) * whitened
        more, starts = (self.slack.domain.basis.T @ np.concatenate([whitened, null], axis=1)).T, [own]
        for share in LARGER:
            larger = self.total.slopes(np.concatenate([components, math.sqrt(share) * more]))
            both = zip(losses, larger, own, strict=True)
            starts.append([there if loss.inside else part for loss, there, part in both])
        if not self.total.regularizers:
            S = self.total.slack_matrix(a)
            starts.sort(key=lambda start: -self._expected(start, a, S, whitened))
        yield from starts

    def _expected(self, start: Lists, a: Lists, S: FloatArray, V: FloatArray) -> float:
        """About what the segment from an anchor to given multipliers proves, in coordinates (k, p) of the domain."""
        t = self.slack.share(self.total.slack_matrix(start), S, V)
        segment = Segment(start, [y - x for x, y in zip(start, a, strict=True)], [])
        return self._losses_value(segment.at(t), t, segment, False) if t > 0.0 else -math.inf

    def minimizer(self, a: Lists) -> FloatArray | None:
        """The factor of the metric that minimizes ``<S(a), M> + r(M)``; None where r does not say."""
        final, domain = self.final, self.slack.domain
        if final is None or self.others or domain.diagonal:
            return None
        S = self.total.slack_matrix(a)
        if isinstance(final, Frobenius):
            return psd.factor(domain.pinched(final.target - S / final.weight))
        if isinstance(final, LogDet):
            values, vectors = np.linalg.eigh(domain.pinched(S / final.weight + final.inverse_root @ final.inverse_root))
            if values[0] > 0.0:
                return np.asarray((vectors / np.sqrt(values)).T)
        return None

    # -- values -------------------------------------------------------------------------------------------------

    def _losses_value(self, a: Lists, t: float, segment: Segment, directed: bool = True) -> float:
        """``sum (a_i c_i - l_i*(a_i)) - sum r*(t U)``, rounded downward."""
        parts = [-term.conjugate(U) for term, U in zip(self.others, segment.slopes(t), strict=True)]
        for loss, part in zip(self.total.losses, a, strict=True):
            parts.append(
                loss.dual_value(part) if directed else float((part * loss.offset - loss.conjugates(part)).sum())
            )
        return rigorous.sum_below(np.array(parts)) if np.isfinite(parts).all() else -math.inf

    def _furthest(self, segment: Segment) -> float:
        """The largest t at which all multipliers are in their domains."""
        rooms = [
            loss.ceiling(start, step)
            for loss, start, step in zip(self.total.losses, segment.start, segment.step, strict=True)
            if step.any()
        ]
        return min(rooms, default=FURTHEST if segment.matrices else 0.0)

    def _at(self, t: float, segment: Segment) -> Lists:
        return [loss.clip(part) for loss, part in zip(self.total.losses, segment.at(t), strict=True)]

    def _slack_form(self, images: Images, a: Lists, t: float, segment: Segment) -> Form:
        total = self.total
        matrices = [total.entry_matrix(a), *segment.slopes(t), total.ridge * np.eye(self.d)]
        return self.slack.form(images, total.pair_weights(a), total.weight_errors(a), matrices)

    # -- one regularizer in closed form -------------------------------------------------------------------------

    def _along(self, segment: Segment) -> Proven:
        if self.slack.domain.diagonal:
            return self._over_weights(segment)
        if isinstance(self.final, LogDet):
            return self._with_log_det(segment, self.final)
        try:
            return self._in_cone(segment) if self.final is None else self._with_frobenius(segment)
        except np.linalg.LinAlgError:  # numbers that are too large to be factored prove nothing
            return Proven(-math.inf, segment.start, math.inf)

    def _over_weights(self, segment: Segment) -> Proven:
        """What the segment proves over nonnegative weights, whose slacks are bounded one by one.

        Multipliers that are feasible as they are prove their own value, also where none are strictly feasible. Where a
        slack is 0 at the anchor and falls from there, multipliers that reach that weight stay at the anchor.
        """
        null, weakness = np.zeros(0, dtype=np.intp), None
        for _ in range(TRIES):
            (low, error), (end, end_error) = (self._weight_slacks(segment, t) for t in (0.0, 1.0))
            low, way = low - 2.0 * error, end - low - 2.0 * (end_error + error)
            for t in (self._best_over_weights(segment, low, way), 1.0, 0.0):
                if 0.0 <= t <= max(self._furthest(segment), 1.0):
                    found = replace(self._proven_over_weights(segment, t), null_dimension=len(null), weakness=weakness)
                    if found.value > -math.inf:
                        return found
            falling = np.flatnonzero((low < 0.0) | ((low == 0.0) & (way < 0.0)))
            if self.final is not None or not len(np.setdiff1d(falling, null)):
                break
            if (low < 0.0).any():
                weakness = "slacks of weights that cost next to nothing could not be proven to be 0 or more"
            null = np.union1d(null, falling)
            segment = self._without_null(segment, np.eye(len(low))[:, null], 0.0)
        return Proven(-math.inf, segment.start, math.inf)

    def _weight_slacks(self, segment: Segment, t: float) -> tuple[FloatArray, FloatArray]:
        """See `Slack.diagonal`."""
        return self.slack.diagonal(self._at(t, segment), segment.slopes(t), in_units=self.final is None)

    def _best_over_weights(self, segment: Segment, low: FloatArray, way: FloatArray) -> float:
        """The t with about the largest value where slacks are at least ``low + t way``; -1 if there is none."""
        final, first, last = self.final, 0.0, self._furthest(segment)
        if not np.isfinite(low + way).all():
            return -1.0
        if final is None:
            rising, falling = (low < 0.0) & (way > 0.0), way < 0.0
            first = float((-low[rising] / way[rising]).max(initial=0.0))
            last = min(last, float((low[falling] / -way[falling]).min(initial=math.inf)))
            if first > last or ((low < 0.0) & (way <= 0.0)).any():
                return -1.0

        def value(t: float) -> float:
            least = 0.0 if final is None else final.least_over_weights(low + t * way)
            return self._losses_value(segment.at(t), t, segment, False) + least

        return max(first, best_multiple(value, last))

    def _proven_over_weights(self, segment: Segment, t: float) -> Proven:
        """What the multipliers at t prove."""
        a, final = self._at(t, segment), self.final
        slack, error = self._weight_slacks(segment, t)
        if final is not None:
            least = final.least_over_weights(np.nextafter(slack - error, -np.inf))
        else:
            least = 0.0 if (slack >= error).all() else -math.inf
        value = rigorous.sum_below(np.array([self._losses_value(a, t, segment), least])) if least > -math.inf else least
        return Proven(value, a, max(0.0, 1.0 - t), 0, None, segment.slopes(t), None, segment.start)

    def _with_frobenius(self, segment: Segment) -> Proven:
        """``min <S, M> + weight / 2 |M - M0|^2 = -|[weight M0 - S]_+|^2 / (2 weight) + weight / 2 |M0|^2``."""
        final = self.final
        if not isinstance(final, Frobenius):
            raise TypeError("the minimum is not over a Frobenius term")
        weight, M0 = final.weight, final.target
        images = self.slack.images(np.eye(self.d))
        start, moving = (
            self._slack_form(images, part, s, segment) for part, s in ((segment.start, 0.0), (segment.at(1.0), 1.0))
        )
        inner = Form.congruent(weight * M0, images.map)
        inner = Form(self.slack.domain.pinched(inner.matrix), inner.error, inner.size)
        fixed, way = inner.matrix - start.matrix, start.matrix - moving.matrix

        def positive(Q: FloatArray) -> float:
            if not np.isfinite(Q).all():
                return math.inf
            with np.errstate(over="ignore"):
                return float(np.sum(np.maximum(np.linalg.eigvalsh(Q), 0.0) ** 2))

        def value(t: float) -> float:
            return self._losses_value(segment.at(t), t, segment, False) - 0.5 * positive(fixed + t * way) / weight

        t = best_multiple(value, self._furthest(segment))
        a = self._at(t, segment)
        S = self._slack_form(images, a, t, segment)
        part = (inner - S).positive_part
        lost = rigorous.product_above(0.5, part, part, rigorous.above(1.0 / weight))
        M0_size = rigorous.below(0.5 * weight * float(np.sum(M0 * M0)), M0.size + 4)
        parts = np.array([self._losses_value(a, t, segment), M0_size, -lost])
        bound = rigorous.sum_below(parts) if np.isfinite(parts).all() else -math.inf
        return Proven(bound, a, max(0.0, 1.0 - t), slopes=segment.slopes(t))

    def _with_log_det(self, segment: Segment, final: LogDet) -> Proven:
        """``min <S, M> + weight D_ld(M, M0) = weight log det(I + M0 S / weight)``."""
        total, weight, R, nothing = self.total, final.weight, final.root, Proven(-math.inf, segment.start, math.inf)
        ends = [total.slack_matrix(segment.at(t)) + sum(segment.slopes(t), np.zeros((self.d, self.d))) for t in (0, 1)]
        pinched = (self.slack.domain.pinched(A) for A in (ends[0], ends[1] - ends[0]))
        S, way = (R @ A @ R / weight for A in pinched)
        try:
            inverse = np.linalg.inv(np.linalg.cholesky(np.eye(self.d) + S))
            slopes, vectors = np.linalg.eigh(inverse @ way @ inverse.T)
        except np.linalg.LinAlgError:
            return nothing
        lowest = float(slopes.min(initial=0.0))
        furthest = min(self._furthest(segment), (1.0 - 1e-12) / -lowest if lowest < 0.0 else math.inf)

        def value(t: float) -> float:
            logs = weight * float(np.log1p(np.maximum(t * slopes, -1.0 + 1e-15)).sum())
            return self._losses_value(segment.at(t), t, segment, False) + logs

        t = best_multiple(value, furthest)
        for shorter in SHORTER:
            t = t * (1.0 - shorter)
            a = self._at(t, segment)
            P = R @ inverse.T @ (vectors / np.sqrt(np.maximum(1.0 + t * slopes, SMALLEST)))
            # in the data's own coordinates, as M0 is, whatever the basis of the domain
            low = final.least(self._slack_form(total.images(self.slack.X, P), a, t, segment), P)
            if math.isfinite(low):
                bound = rigorous.sum_below(np.array([self._losses_value(a, t, segment), low]))
                return Proven(bound, a, max(0.0, 1.0 - t), slopes=segment.slopes(t))
        return nothing

    def _in_cone(self, segment: Segment) -> Proven:
        """What the segment proves, in coordinates in which directions without cost are left out if that can be proven.

        Else they are directions of very little cost; and at an anchor the slack matrix is a sum of squares.
        """
        total = self.total
        weights = total.pair_weights(segment.start)
        found = self._on(segment, *self.slack.coordinates(weights, None), NULL)
        if found.value > -math.inf:
            return found
        fixed = segment.matrices if segment.fixed else []
        matrix = sum(fixed, total.ridge * np.eye(self.d))
        other = self._on(segment, *self.slack.extended(weights, matrix), 0.0)
        weakness = (
            "directions of no cost up to rounding could not be proven to have none, and count as ones of very little"
        )
        start, errors = segment.start, total.weight_errors(segment.start)
        if not fixed and not total.entry_matrix(start).any() and (weights >= (0.0 if errors is None else errors)).all():
            squares = Proven(self._losses_value(start, 0.0, segment), start, 1.0)
            other = max(other, squares, key=lambda proven: proven.value)
        return replace(other, null_dimension=found.null_dimension, weakness=weakness)

    def _on(self, segment: Segment, V: FloatArray, null: FloatArray, reach: float) -> Proven:
        """What the segment proves in given coordinates: 0 is the minimum where S is PSD."""
        total = self.total
        segment = self._without_null(segment, null, reach) if null.shape[1] else segment
        images = self.slack.images(V)
        base = self._slack_form(images, segment.start, 0.0, segment)
        matrices = [total.entry_matrix(segment.step), *([] if segment.fixed else segment.matrices)]
        way = self.slack.form(images, total.pair_weights(segment.step, costs=False), None, matrices)
        floor = base.least
        nothing = Proven(-math.inf, segment.start, math.inf, null.shape[1])
        if len(V.T) and not floor > 0.0:
            return nothing
        lowest = float(self.slack.relative(base.matrix, way.matrix).min(initial=0.0))
        end = min(self._furthest(segment), (1.0 - 1e-12) / -lowest if lowest < 0.0 else math.inf)
        t = best_multiple(lambda t: self._losses_value(segment.at(t), t, segment, False), end)
        for _ in range(TRIES):
            a = self._at(t, segment)
            least = self._slack_form(images, a, t, segment).least
            if least >= 0.0 or t == 0.0 or len(V.T) == 0:
                break
            t = t * floor / (floor - least) * (1.0 - 1e-15) if floor > 0.0 else 0.0
        if not least >= 0.0 or not self._spanned(segment.start, a, t, segment, len(V.T)):
            return nothing
        found, ends = self._losses_value(a, t, segment), (segment.slopes(t), V, segment.start)
        return Proven(found, a, max(0.0, 1.0 - t), null.shape[1], None, *ends)

    def _spanned(self, start: Lists, a: Lists, t: float, segment: Segment, p: int) -> bool:
        """Whether p coordinates provably decide about the slack matrix at `start` and at a."""
        total, weights = self.total, np.zeros(len(self.total.pairs))
        if p >= self.d:
            return True
        for part in (start, a):
            errors = total.weight_errors(part)
            weights += np.abs(total.pair_weights(part)) + (0.0 if errors is None else errors)
        matrices = [total.entry_matrix(start), total.entry_matrix(a), *segment.slopes(t)]
        whole = total.ridge > 0.0 or any(matrix.any() for matrix in matrices)
        return self.slack.spanned(weights, whole, p)

    def _without_null(self, segment: Segment, null: FloatArray, reach: float) -> Segment:
        """Multipliers that stay at the anchor where parts of their pairs in directions of no cost are above `reach`."""
        total = self.total
        Y, (first_rows, second_rows) = self.slack.points @ null, total.pairs.T
        parts = np.abs(Y[first_rows] - Y[second_rows]).max(axis=1, initial=0.0) > reach
        starts, steps = list[FloatArray](), list[FloatArray]()
        for loss, own, first, way in zip(total.losses, total.places, segment.start, segment.step, strict=True):
            reached = (abs(loss.combination) @ parts[own].astype(np.float64) > 0.0) | loss.entrywise
            starts.append(loss.clip(np.where(reached, 0.0, first)) if loss.inside else first)
            steps.append(loss.clip(np.where(reached, starts[-1], first + way)) - starts[-1])
        return Segment(starts, steps, [np.zeros_like(U) for U in segment.matrices])
