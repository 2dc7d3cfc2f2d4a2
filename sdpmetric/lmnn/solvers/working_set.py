"""A working set, the candidates of some anchors, and its shards: the points that they use, and their multipliers.

In the coordinates of `LargeMarginProblem.points` the pull cost is ``trace(M)``, so points without candidates drop
out.
"""

from __future__ import annotations

import math
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import count
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray, IndexArray
from sdpmetric.core.certificate import Dual
from sdpmetric.core.triplets import Candidates, Triplets
from sdpmetric.engine import threads
from sdpmetric.engine.interface import FULL_SHARE, ShardLost, Share, current, deadline, remaining, repeat_if_lost
from sdpmetric.linalg.distances import Blocks, laplacian_form
from sdpmetric.lmnn import loops
from sdpmetric.lmnn.problem import LargeMarginProblem
from sdpmetric.lmnn.push import concatenated
from sdpmetric.lmnn.solvers.movable import MovableTriplets
from sdpmetric.lmnn.triplets.impostors import TooManyCandidates, searching
from sdpmetric.lmnn.triplets.margins import compressed, hinge_slopes, slope_pairs, target_distances

ScalarT = TypeVar("ScalarT", bound=np.floating)
R = TypeVar("R")


@dataclass(frozen=True)
class SearchLimits:
    """When a factor has gone too far for the candidates of the last search, and what is done about it."""

    objective_ratio: float = 10.0  # too far: the objective is so many times that of the last search,
    pairs_per_anchor: int = 32  # unless there are fewer candidate pairs than these for an anchor
    halvings: int = 5  # how often the factor goes back by half the way,
    attempts: int = 16  # before it is made larger, so often in all


LIMITS = SearchLimits()


@dataclass(frozen=True)
class Slopes:
    # sum a, what impostors at the place of their anchors have of it, and sum a^2 / w if hinges are squared
    totals: FloatArray
    loss: float  # the hinges without smoothing, push weight left out
    matrix: FloatArray  # sum a_t B_t of each metric in whitened coordinates, (c, rank, rank)


class Shard:
    """A share of the candidates of some anchors, on the points that they use.

    A pair is measured by the metric of its second member's region. A point that takes part under several metrics is
    held once for each, in blocks, one block per region; factors are (c, r, rank) arrays accordingly. Multipliers stay
    here, under numbers that the working set gives them.
    """

    def __init__(
        self, problem: LargeMarginProblem, interval: Share, anchors: IndexArray, dtype: type[np.floating]
    ) -> None:
        self.problem, self.interval, self.anchors, self.dtype = problem, interval, anchors, dtype
        self.values, self.duals = dict[int, FloatArray](), dict[int, Dual]()
        self.capacity = math.ceil((interval[1] - interval[0]) * problem.push.source.capacity(self.anchors))
        self._points = problem.points.astype(self.dtype, copy=False)

    # -- candidates -------------------------------------------------------------------------------------------------

    def search(self, L: FloatArray, widen: float, seconds: float) -> tuple[int, float]:
        """Search exhaustively around factors, (c, r, rank), for so long; pairs, -1 for too many, and seconds."""
        start, self.values, problem = time.perf_counter(), {}, self.problem
        Z = concatenated([P @ F.T.astype(self.dtype) for P, F in zip(np.split(self._points, len(L)), L, strict=True)])
        try:
            with deadline(start + seconds), searching(self.interval):
                candidates = problem.push.candidates(
                    Z, problem.null_groups, widen=widen, among=self.anchors, max_pairs=self.capacity
                )
        except TooManyCandidates:
            return -1, time.perf_counter() - start
        duration = time.perf_counter() - start
        self._set_candidates(candidates)
        return len(candidates.impostors), duration

    def _set_candidates(self, candidates: Candidates) -> None:
        """Keep the rows with candidates, and only the points that they use."""
        n, push, busy = len(self.problem.X), self.problem.push, np.diff(candidates.indptr) > 0
        anchors, targets = candidates.anchors[busy], candidates.targets[busy]
        anchors_by_target = push.anchors_by_target(candidates)[busy]
        used = np.zeros(len(self._points), dtype=bool)
        for points in (anchors, anchors_by_target[targets >= 0], targets[targets >= 0], candidates.impostors):
            used[points] = True
        place, self.used = np.cumsum(used, dtype=np.int32) - np.int32(1), np.flatnonzero(used)
        self.blocks = Blocks(np.searchsorted(self.used, push.blocks.bounds).astype(np.int64))
        counts = np.diff(candidates.indptr)[busy]
        self.anchors_by_target = np.where(targets >= 0, place[anchors_by_target], np.int32(-1))
        self.candidates = C = Candidates(
            place[anchors],
            np.where(targets >= 0, place[targets], np.int32(-1)),
            np.concatenate([[0], np.cumsum(counts)]),
            place[candidates.impostors],
            candidates.weights,
        )
        group = push.duplicate_groups[self.used % n]
        self._coincident = np.flatnonzero(group[C.anchors[C.rows]] == group[C.impostors])
        self.X = self._points[self.used]

    def loss(self, L: FloatArray) -> float:
        """The hinges at the factor of the search, push weight left out."""
        Z = self.embed(L)
        target_D = target_distances(Z, self.anchors_by_target, self.candidates.targets)
        return hinge_slopes(Z, self.candidates, 0.0, self.problem.push.squared, target_D)[0].loss

    def restrict(self, anchors: IndexArray) -> None:
        self.anchors = self.anchors[np.isin(self.anchors, anchors)]

    # -- values and slopes ------------------------------------------------------------------------------------------

    def embed(self, L: FloatArray) -> NDArray[np.floating]:
        """Embedded points that the candidates use, in the set's precision."""
        return self.blocks.times(self.X, np.swapaxes(L, 1, 2).astype(self.dtype))

    def value(self, L: FloatArray, gamma: float) -> tuple[FloatArray, NDArray[np.floating]]:
        """Sums of the hinges, smoothed, as they are, and how many are positive; half their gradient, (c, r, rank)."""
        C, Z, squared = self.candidates, self.embed(L), self.problem.push.squared
        pairs, target_pairs = compressed(C), (self.anchors_by_target, C.targets)
        work = (len(C.impostors) + len(self.X)) * L.shape[1]
        # The whole gives the same bits on any number of threads; a shard need not, and has few pairs for its points.
        n_threads = threads.ACCUMULATORS if self.interval == FULL_SHARE else min(threads.count(), threads.ACCUMULATORS)
        cuts = C.bounds(threads.part_count(work, max_parts=n_threads))
        Y, sums = np.empty((len(cuts) - 1, *Z.shape), dtype=self.dtype), np.empty((len(cuts) - 1, 3))
        threads.run(
            lambda t: loops.smoothed_push(Z, pairs, target_pairs, cuts[t : t + 2], gamma, squared, Y[t], sums[t]),
            len(sums),
        )
        return sums.sum(axis=0), self.blocks.gram(Y, self.X)

    def slopes(self, L: FloatArray, gamma: float, weight: float, number: int, dropped: Sequence[int]) -> Slopes:
        """The slopes at a factor as multipliers, held under a number; those under `dropped` are let go."""
        for old in dropped:
            self.values.pop(old, None)
            self.duals.pop(old, None)
        Z = self.embed(L)
        target_D = target_distances(Z, self.anchors_by_target, self.candidates.targets)
        sums, slopes = hinge_slopes(Z, self.candidates, gamma, self.problem.push.squared, target_D)
        slopes *= weight
        self.values[number], self.weight = slopes, weight
        first, second, weights = slope_pairs(self.candidates, slopes, self.anchors_by_target)
        A = laplacian_form(np.asarray(self.X, dtype=np.float64), first, second, weights, self.blocks)
        return Slopes(self._totals(slopes), sums.loss, 0.5 * (A + np.swapaxes(A, 1, 2)))

    def dual(self, number: int) -> Dual:
        """Multipliers of candidate triplets under the row numbers of the problem."""
        if number not in self.duals:
            C, used = self.candidates, self.used.astype(np.int32)
            targets = np.where(C.targets >= 0, used[C.targets], np.int32(-1))
            points = Candidates(used[C.anchors], targets, C.indptr, used[C.impostors], C.weights)
            self.duals[number] = Dual(*self.problem.push.as_examples(points).triplets(self.values[number]))
        return self.duals[number]

    def freeze(self, number: int) -> None:
        """List the multipliers as triplets, which outlast the next search."""
        self.dual(number)

    # -- refinement -------------------------------------------------------------------------------------------------

    def release(self, number: int) -> int:
        """Let the multipliers strictly inside their box, of those under a number, move; how many."""
        values, ceilings = self.values[number], self._ceilings
        squared = self.problem.push.squared
        room = values if squared else np.minimum(values, ceilings - values)
        pair, slot = np.nonzero(room > 0)
        C, row = self.candidates, self.candidates.rows[pair]
        limits = np.full(len(pair), np.inf) if squared else np.broadcast_to(ceilings, values.shape)[pair, slot]
        pairs = (C.anchors[row], C.impostors[pair]), (self.anchors_by_target[row, slot], C.targets[row, slot])
        self._movable = MovableTriplets(self.X, self.blocks, *pairs, values[pair, slot], limits)
        self._moved_values, self._movable_slots = values.copy(), (pair, slot)
        return len(pair)

    def of_movable(self, method: Callable[[MovableTriplets, FloatArray], R], argument: FloatArray) -> R:
        return method(self._movable, argument)

    def moved_totals(self) -> FloatArray:
        """Sums over all multipliers, the movable ones as they are now."""
        self._moved_values[self._movable_slots] = self._movable.values
        return self._totals(self._moved_values)

    def hold(self, number: int) -> None:
        self.values[number] = self._moved_values.copy()

    @property
    def _ceilings(self) -> FloatArray | float:
        """Upper ends of the boxes of the hinge's multipliers."""
        weights = self.candidates.weights
        return self.weight if weights is None else self.weight * weights[:, None]

    def _totals(self, values: FloatArray) -> FloatArray:
        squares = 0.0
        if self.problem.push.squared:
            ratios = np.where(values > 0, values**2 / (self._ceilings / self.weight), 0.0)
            squares = float(np.nansum(ratios))
        return np.array([float(values.sum()), float(values[self._coincident].sum()), squares])


@dataclass(frozen=True)
class Value:
    """The smoothed problem at a factor."""

    smoothed: float  # what L-BFGS minimizes
    gradient: FloatArray  # in the factor
    objective: float  # with the hinge itself, over the candidates: exact right after a search, too low later on
    n_active: int


class HeldMultipliers:
    """Multipliers that the shards of a working set hold under a number, as long as this object lives."""

    def __init__(self, number: int, generation: int, dropped: list[int]) -> None:
        self.number, self.generation = number, generation
        weakref.finalize(self, dropped.append, number)


class WorkingSet:
    """Candidates of some anchors and what they add up to, wherever the engine in use holds them.

    Every example stays a possible impostor, and the push term is scaled up to all anchors. `accepted` is the factor of
    the last search and its objective; `generation` counts how often shards were lost and made again: multipliers of an
    earlier one are gone. Where the number of candidates makes it lose anchors, values are estimates.
    """

    def __init__(
        self,
        problem: LargeMarginProblem,
        anchors: IndexArray | None = None,
        dtype: type[np.floating] = np.float64,
        accepted: tuple[FloatArray, float] | None = None,
    ) -> None:
        self.problem, self.dtype, self.accepted = problem, dtype, accepted
        self.anchors = np.arange(len(problem.X), dtype=np.int32) if anchors is None else anchors
        self.weight = problem.push.weight * len(problem.X) / len(self.anchors)
        self.size, self.seconds, self.generation, self._widen, self._shards_lost = 0, 0.0, 0, 0.0, False
        self._numbers, self._dropped = count(), list[int]()
        self.with_shards(self._place)

    def _place(self) -> None:
        make = partial(Shard, anchors=self.anchors, dtype=self.dtype)
        n, d = self.problem.X.shape
        size = self.problem.X.nbytes + 8 * n * d + 16 * self.problem.points.size
        self.shards = current().place(make, self.problem, size)

    def with_shards(self, work: Callable[[], R]) -> R:
        """Do some work; where shards are lost meanwhile, make all again, as after the last search, and repeat."""

        def attempt() -> R:
            try:
                if self._shards_lost:
                    self._place()
                    if self.accepted is not None:
                        self._search(self.accepted[0], self._widen)
                    self._shards_lost, self.generation = False, self.generation + 1
                return work()
            except ShardLost:
                self._shards_lost = True
                raise

        return repeat_if_lost(attempt)

    @property
    def has_all_anchors(self) -> bool:
        """Whether every example is an anchor, so objectives and bounds are those of the problem."""
        return len(self.anchors) == len(self.problem.X)

    # -- candidates -------------------------------------------------------------------------------------------------

    def search(self, L: FloatArray, widen: float) -> FloatArray:
        """Search exhaustively around a factor, (c, r, rank), and keep only the points that the candidates use.

        Where more pairs than may be held are near the margin, or the objective is far above that of the last search,
        the factor has gone too far on candidates that were not complete: a metric between the two is searched instead.
        """
        return self.with_shards(partial(self._search_nearby, L, widen))

    def _search_nearby(self, L: FloatArray, widen: float) -> FloatArray:
        requested = L
        for attempt in range(LIMITS.attempts):
            if not self._search(L, widen):
                L = self._nearer(L, attempt)
                continue
            objective = float(np.sum(L**2)) + self.weight * sum(self.shards.call(Shard.loss, L))
            too_far = self.accepted is not None and not objective <= LIMITS.objective_ratio * self.accepted[1]
            few_pairs = self.size <= LIMITS.pairs_per_anchor * len(self.anchors)
            if not too_far or attempt >= LIMITS.halvings or few_pairs:
                self.accepted, self._widen = (L, objective), widen
                return L
            L = self._nearer(L, attempt)
        # The number of pairs does not depend on the scale: fewer anchors, and the objective is an estimate.
        self.anchors = np.sort(np.random.default_rng(0).permutation(self.anchors)[: (len(self.anchors) + 1) // 2])
        self.weight = self.problem.push.weight * len(self.problem.X) / len(self.anchors)
        self.shards.call(Shard.restrict, self.anchors)
        return self._search_nearby(requested, widen)

    def _search(self, L: FloatArray, widen: float) -> bool:
        """Let all shards search; False where one of them has met too many candidates."""
        outcomes = self.shards.call(Shard.search, L, widen, remaining())
        self.size, self.seconds = sum(size for size, _ in outcomes), max(seconds for _, seconds in outcomes)
        return all(size >= 0 for size, _ in outcomes)

    def _nearer(self, L: FloatArray, attempt: int) -> FloatArray:
        """Half the way back to the metric of the last search, or after that, or without one, a larger metric."""
        if self.accepted is None or attempt >= LIMITS.halvings:
            return 2.0 * L
        return orthogonal_rows(np.sqrt(0.5) * np.concatenate([self.accepted[0], L], axis=1))[0]

    # -- values and multipliers -------------------------------------------------------------------------------------

    def value(self, L: FloatArray, gamma: float) -> Value:
        return self.with_shards(partial(self._value, L, gamma))

    def _value(self, L: FloatArray, gamma: float) -> Value:
        values = self.shards.call(Shard.value, L, gamma)
        smoothed, loss, n_active = sum_of([sums for sums, _ in values]).tolist()
        push, trace = sum_of([gradient for _, gradient in values]), float(np.sum(L**2))
        gradient = 2.0 * (L + self.weight * push)
        return Value(trace + self.weight * smoothed, gradient, trace + self.weight * loss, round(n_active))

    def slopes(self, L: FloatArray, gamma: float) -> tuple[Slopes, HeldMultipliers]:
        """The slopes at a factor as a dual candidate."""
        held, dropped = self._new_number(), self._dropped[:]
        slopes = self.shards.call(Shard.slopes, L, gamma, self.weight, held.number, dropped)
        del self._dropped[: len(dropped)]
        matrix = sum_of([shard.matrix for shard in slopes])
        return Slopes(sum_of([shard.totals for shard in slopes]), sum(shard.loss for shard in slopes), matrix), held

    def _new_number(self) -> HeldMultipliers:
        return HeldMultipliers(next(self._numbers), self.generation, self._dropped)

    def dual(self, held: HeldMultipliers) -> Callable[[], Dual]:
        """Let multipliers outlast the next search; what lists them under the row numbers of the problem.

        Where shards were lost since, the slopes at the factor of the last search take their place.
        """
        latest = held

        def of_shards(method: Callable[[Shard, int], R]) -> list[R]:
            nonlocal latest
            if latest.generation != self.generation and self.accepted is not None:
                latest = self.slopes(self.accepted[0], 0.0)[1]
            return self.shards.call(method, latest.number)

        def dual() -> Dual:
            duals = self.with_shards(partial(of_shards, Shard.dual))
            if len(duals) == 1:
                return duals[0]
            triplets = Triplets.join(*(shard.triplets for shard in duals))
            return Dual(triplets, np.concatenate([shard.values for shard in duals]))

        self.with_shards(partial(of_shards, Shard.freeze))
        return dual

    # -- refinement; see `MovableTriplets` -----------------------------------------------------------------------------

    def release(self, held: HeldMultipliers) -> int:
        return sum(self.shards.call(Shard.release, held.number))

    def set_face(self, Q: FloatArray) -> None:
        self.shards.call(Shard.of_movable, MovableTriplets.set_face, Q)

    def curvature(self, y: FloatArray) -> FloatArray:
        return sum_of(self.shards.call(Shard.of_movable, MovableTriplets.curvature, y))

    def move(self, y: FloatArray) -> FloatArray:
        return sum_of(self.shards.call(Shard.of_movable, MovableTriplets.move, y))

    def moved_totals(self) -> FloatArray:
        return sum_of(self.shards.call(Shard.moved_totals))

    def hold(self) -> HeldMultipliers:
        held = self._new_number()
        self.shards.call(Shard.hold, held.number)
        return held


def orthogonal_rows(L: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Factors of the same metrics with orthogonal rows, the longest first, and their lengths, (c, r)."""
    _, sigma, rows = np.linalg.svd(L, full_matrices=False)
    return np.ascontiguousarray(sigma[:, :, None] * rows), sigma


def sum_of(arrays: Sequence[NDArray[ScalarT]]) -> NDArray[ScalarT]:
    return reduce(np.add, arrays)
