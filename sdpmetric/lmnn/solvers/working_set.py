"""A working set, the candidates of some anchors, and its shards: the points that they use, and their multipliers.

In the coordinates of `LargeMarginProblem.points` the pull cost is ``trace(M)``, so points without candidates drop
out.
"""

from __future__ import annotations

import math
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from itertools import count
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray, IndexArray
from sdpmetric.core.certificate import Dual
from sdpmetric.core.triplets import Candidates, Triplets
from sdpmetric.engine import threads
from sdpmetric.engine.cached import cached
from sdpmetric.engine.interface import WHOLE, Part, ShardLost, current, deadline, dealt, remaining
from sdpmetric.linalg.distances import Blocks, laplacian_form, pair_forms
from sdpmetric.lmnn import loops as hinges
from sdpmetric.lmnn.problem import LargeMarginProblem
from sdpmetric.lmnn.push import Push, concatenated
from sdpmetric.lmnn.triplets.impostors import TooManyCandidates, searching
from sdpmetric.lmnn.triplets.margins import hinge_slopes, slope_pairs, target_distances
from sdpmetric.lmnn.triplets.sources import LabeledTriplets

ScalarT = TypeVar("ScalarT", bound=np.floating)
R = TypeVar("R")

Keys = NDArray[np.int64]
# Searches whose pairs are remembered.
SEARCHES = 10
# A factor has gone too far where the objective is so many times that of the last search, unless an anchor has few
# candidates on average. It goes back by halves so many times, before it is made larger, all in all so many times.
TOO_FAR, FEW, HALVINGS, ATTEMPTS = 10.0, 32, 5, 16


@dataclass(frozen=True)
class Slopes:
    """What the slopes at a factor add up to."""

    totals: (
        FloatArray  # sum a, what impostors at the place of their anchors have of it, sum a^2 / w if hinges are squared
    )
    loss: float  # the hinges without smoothing, push weight left out
    matrix: FloatArray  # sum a_t B_t of each metric in whitened coordinates, (c, rank, rank)


class PairMemory:
    """Pairs that had a positive hinge at earlier searches, the newest first, and pairs drawn at random.

    Without them the iterates go back and forth between regions where one set of pairs costs and the other is out of
    sight. A pair of points is a number, ``anchor c n + impostor``. Listed triplets were never seen to need a memory.

    Parameters
    ----------
    groups : (c n,) int32 array
        The groups that null directions of each metric leave together.
    most : int
        Pairs that are remembered at most.
    """

    def __init__(self, push: Push, groups: IndexArray, most: int) -> None:
        self._push, self._groups, self._most = push, groups, most
        self._source = push.source if isinstance(push.source, LabeledTriplets) else None
        self._searches: list[Keys] = []
        self._rng = np.random.default_rng(0)

    def add(self, keys: Keys, most: int | None = None) -> None:
        """Remember the pairs of one more search; of more than `most` a random part."""
        most = self._most // 4 if most is None else most
        if len(keys) > most:
            keys = keys[self._rng.random(len(keys)) < most / len(keys)]
        self._searches = [keys, *self._searches][:SEARCHES]
        while sum(len(search) for search in self._searches) > self._most:
            self._searches.pop()

    def add_found(self, found: list[Candidates], most: int) -> None:
        """Remember about `most` of the pairs that a search has found before there were too many."""
        size, keys = sum(len(part.impostors) for part in found), [np.zeros(0, dtype=np.int64)]
        for part in found:
            chosen = np.sort(self._rng.integers(len(part.impostors), size=int(most * len(part.impostors) / size)))
            rows = np.searchsorted(part.indptr, chosen, side="right") - 1
            keys.append(part.anchors[rows].astype(np.int64) * len(self._groups) + part.impostors[chosen])
        self.add(np.unique(np.concatenate(keys)))

    def draw(self, anchors: IndexArray, each: int) -> None:
        """Remember pairs of every anchor with about `each` examples drawn at random."""
        if self._source is None:
            return
        labels = self._source.labels
        first = np.repeat(self._source.anchors(anchors), each)
        second = self._rng.integers(len(labels), size=len(first)).astype(np.int32)
        here, there = self._push.point_pairs(first, second)
        valid = (labels[first] != labels[second]) & (self._groups[here] == self._groups[there])
        self.add(np.unique(here[valid].astype(np.int64) * len(self._groups) + there[valid]))

    def extend(self, found: Candidates) -> Candidates:
        """Add the remembered pairs that are not among the candidates, as rows of their own."""
        if self._source is None or not self._searches:
            return found
        n, size = len(self._source.labels), len(self._groups)
        keys = np.unique(np.concatenate(self._searches))
        keys = keys[~np.isin(keys, found.anchors[found.rows].astype(np.int64) * size + found.impostors)]
        anchors, counts = np.unique(keys // size, return_counts=True)
        first, second = (keys // size % n).astype(np.int32), (keys % n).astype(np.int32)
        more = Candidates(
            anchors.astype(np.int32),
            self._push.target_points(self._source.targets[anchors % n]),
            np.concatenate([[0], np.cumsum(counts)]),
            (keys % size).astype(np.int32),
            self._source.pair_weights(first, second),
        )
        return Candidates.concatenate([found, more])


@dataclass(eq=False)
class Movable:
    """Triplets whose multipliers may move inside their box, and the products that dual refinement takes of them."""

    X: NDArray[np.floating]  # whitened points, in the precision of the products
    blocks: Blocks  # points of one metric each
    far: tuple[IndexArray, IndexArray]  # rows of X: anchor and impostor
    near: tuple[IndexArray, IndexArray]  # anchor and target neighbor
    values: FloatArray
    limits: FloatArray  # upper ends of the box, possibly infinite
    _points: NDArray[np.floating] = field(init=False)
    _room: FloatArray = field(init=False)

    def __len__(self) -> int:
        return len(self.values)

    @cached
    def _pairs(self) -> tuple[IndexArray, IndexArray, NDArray[np.int64], NDArray[np.int64]]:
        """The pairs, each once, and which of them are the far and the near ones of the triplets."""
        n = len(self.X)
        ends = np.sort(np.concatenate([np.stack(self.far), np.stack(self.near)], axis=1), axis=0).astype(np.int64)
        keys, place = np.unique(ends[0] * n + ends[1], return_inverse=True)
        far, near = place.reshape(2, -1)
        return (keys // n).astype(np.int32), (keys % n).astype(np.int32), far, near

    @cached
    def _used(self) -> tuple[IndexArray, Blocks, IndexArray, IndexArray]:
        """The points of the pairs, their blocks, and the pairs by numbers of these points."""
        used, place = np.unique(np.concatenate(self._pairs[:2]), return_inverse=True)
        first, second = place.astype(np.int32).reshape(2, -1)
        return used, Blocks(np.searchsorted(used, self.blocks.bounds).astype(np.int64)), first, second

    def face(self, Q: FloatArray) -> None:
        """Take products in the coordinates Q, (c, rank, w), and the room to the bounds as it is now."""
        self._points = self.blocks.times(self.X, Q)[self._used[0]]
        values, limits = self.values, self.limits
        self._room = np.where(np.isinf(limits), values, np.minimum(values, limits - values))

    def _change(self, y: FloatArray) -> FloatArray:
        """``D A y``: the room to the bounds times ``<B_t, Q y Q^T>``, (t,)."""
        (_, _, far, near), (_, blocks, first, second) = self._pairs, self._used
        forms = pair_forms(self._points, y, blocks, first, second)
        change: FloatArray = self._room * (forms[far] - forms[near])
        return change

    def _weights(self, c: FloatArray) -> FloatArray:
        """The weight of each pair in ``sum c_t B_t``."""
        first, _, far, near = self._pairs
        return np.bincount(far, c, len(first)).astype(np.float64) - np.bincount(near, c, len(first))

    def curvature(self, y: FloatArray) -> FloatArray:
        """``A* D A y``, (c, w, w)."""
        _, blocks, first, second = self._used
        return laplacian_form(self._points, first, second, self._weights(self._change(y)), blocks)

    def move(self, y: FloatArray) -> FloatArray:
        """Take ``D A y`` from the multipliers as far as their box allows; the change of ``sum a_t B_t``."""
        new = np.clip(self.values - self._change(y), 0.0, self.limits)
        first, second, _, _ = self._pairs
        weights = self._weights(new - self.values)
        moved = laplacian_form(np.asarray(self.X, dtype=np.float64), first, second, weights, self.blocks)
        self.values = new
        return 0.5 * (moved + np.swapaxes(moved, 1, 2))


@dataclass
class Shard:
    """A part of the candidates of some anchors, on the points that they use.

    A pair is measured by the metric of its second member's region. A point that takes part under several metrics is
    held once for each, in blocks, one block per region; factors are (c, r, rank) arrays accordingly. Multipliers stay
    here, under numbers that the working set gives them.
    """

    problem: LargeMarginProblem
    part: Part
    anchors: IndexArray
    dtype: type[np.floating]
    fewest: int
    candidates: Candidates = field(init=False)
    bases: IndexArray = field(init=False)
    blocks: Blocks = field(init=False)
    used: NDArray[np.int64] = field(init=False)
    values: dict[int, FloatArray] = field(init=False, default_factory=dict)
    duals: dict[int, Dual] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        problem, source = self.problem, self.problem.push.source
        self.share = self.part[1] - self.part[0]
        self.capacity = math.ceil(self.share * source.capacity(self.anchors))
        self.memory = PairMemory(problem.push, problem.null_groups, self.capacity // 2)
        self._points = problem.points.astype(self.dtype, copy=False)

    # -- candidates -------------------------------------------------------------------------------------------------

    def search(self, L: FloatArray, widen: float, left: float) -> tuple[int, float]:
        """Search exhaustively around factors, (c, r, rank), and keep only the points that the candidates use.

        Pairs of earlier searches stay candidates; see `PairMemory`. The size is -1 if there are too many.
        """
        began, self.values = time.perf_counter(), {}
        problem = self.problem
        Z = concatenated([P @ F.T.astype(self.dtype) for P, F in zip(np.split(self._points, len(L)), L, strict=True)])
        try:
            with deadline(began + left), searching(self.part):
                found = problem.candidates(Z, widen=widen, among=self.anchors, max_pairs=self.capacity)
        except TooManyCandidates as many:
            self.memory.add_found(many.blocks, self.capacity // 64)
            return -1, time.perf_counter() - began
        seconds = time.perf_counter() - began
        if self.fewest * self.share * len(self.anchors) > len(found.impostors):
            self.memory.draw(self.anchors[dealt(len(self.anchors), self.part)], self.fewest)
        self._hold(self.memory.extend(found))
        return len(self.candidates.impostors), seconds

    def _hold(self, found: Candidates) -> None:
        n, push, busy = len(self.problem.X), self.problem.push, np.diff(found.indptr) > 0
        anchors, targets, bases = found.anchors[busy], found.targets[busy], push.anchors_by_target(found)[busy]
        used = np.zeros(len(self._points), dtype=bool)
        for index in (anchors, bases[targets >= 0], targets[targets >= 0], found.impostors):
            used[index] = True
        place, self.used = np.cumsum(used, dtype=np.int32) - np.int32(1), np.flatnonzero(used)
        self.blocks = Blocks(np.searchsorted(self.used, push.blocks.bounds).astype(np.int64))
        counts = np.diff(found.indptr)[busy]
        self.bases = np.where(targets >= 0, place[bases], np.int32(-1))
        self.candidates = C = Candidates(
            place[anchors],
            np.where(targets >= 0, place[targets], np.int32(-1)),
            np.concatenate([[0], np.cumsum(counts)]),
            place[found.impostors],
            found.weights,
        )
        group = push.duplicate_groups[self.used % n]
        self._coincident = np.flatnonzero(group[C.anchors[C.rows]] == group[C.impostors])
        self.X = self._points[self.used]

    def active(self, L: FloatArray) -> float:
        """The hinges at the factor of the search, push weight left out; their pairs are noted for `remember`."""
        C, Z = self.candidates, self.embed(L)
        near = target_distances(Z, self.bases, C.targets)
        sums, slopes = hinge_slopes(Z, C, 0.0, self.problem.push.squared, near)
        active = (slopes > 0.0).any(axis=1)
        self._active = self.used[C.anchors[C.rows[active]]] * len(self._points) + self.used[C.impostors[active]]
        return sums.loss

    def remember(self, share: int | None = None) -> None:
        """Let the memory take the active pairs, or of too many pairs ``1 / share`` of what it may hold."""
        self.memory.add(self._active, None if share is None else self.capacity // share)

    def retain(self, anchors: IndexArray) -> None:
        """Search for these anchors only, if they are among those of the shard."""
        self.anchors = self.anchors[np.isin(self.anchors, anchors)]

    # -- values and slopes ------------------------------------------------------------------------------------------

    def embed(self, L: FloatArray) -> NDArray[np.floating]:
        """Embedded points that the candidates use, in the set's precision."""
        return self.blocks.times(self.X, np.swapaxes(L, 1, 2).astype(self.dtype))

    def value(self, L: FloatArray, gamma: float) -> tuple[FloatArray, NDArray[np.floating]]:
        """Sums of the hinges, smoothed, as they are, and how many are positive; half their gradient, (c, r, rank)."""
        C, squared = self.candidates, self.problem.push.squared
        rows = C.anchors, self.bases, C.targets, C.indptr, C.impostors, C.weights
        Z = self.embed(L)
        work = (len(C.impostors) + len(self.X)) * L.shape[1]
        # The whole gives the same bits on any number of threads; a part need not, and has few pairs for its points.
        most = threads.ACCUMULATORS if self.part == WHOLE else min(threads.count(), threads.ACCUMULATORS)
        cuts = C.bounds(threads.parts(work, most=most))
        parts, sums = np.empty((len(cuts) - 1, *Z.shape), dtype=self.dtype), np.empty((len(cuts) - 1, 3))
        threads.run(
            lambda t: hinges.smoothed_push(Z, *rows, cuts[t], cuts[t + 1], gamma, squared, parts[t], sums[t]), len(sums)
        )
        return sums.sum(axis=0), self.blocks.gram(parts, self.X)

    def slopes(self, L: FloatArray, gamma: float, weight: float, number: int, dropped: Sequence[int]) -> Slopes:
        """The slopes at a factor as multipliers, held under a number; those under `dropped` are let go."""
        for each in dropped:
            self.values.pop(each, None)
            self.duals.pop(each, None)
        Z = self.embed(L)
        near = target_distances(Z, self.bases, self.candidates.targets)
        sums, slopes = hinge_slopes(Z, self.candidates, gamma, self.problem.push.squared, near)
        slopes *= weight
        self.values[number], self.weight = slopes, weight
        first, second, weights = slope_pairs(self.candidates, slopes, self.bases)
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

    def free(self, number: int) -> int:
        """Take the multipliers strictly inside their box, of those under a number, as free to move; how many."""
        values, ceilings = self.values[number], self._ceilings
        squared = self.problem.push.squared
        room = values if squared else np.minimum(values, ceilings - values)
        pair, slot = np.nonzero(room > 0)
        C, row = self.candidates, self.candidates.rows[pair]
        limits = np.full(len(pair), np.inf) if squared else np.broadcast_to(ceilings, values.shape)[pair, slot]
        far, near = (C.anchors[row], C.impostors[pair]), (self.bases[row, slot], C.targets[row, slot])
        self._movable = Movable(self.X, self.blocks, far, near, values[pair, slot], limits)
        self._moved, self._free = values.copy(), (pair, slot)
        return len(pair)

    def of_free(self, method: Callable[[Movable, FloatArray], R], argument: FloatArray) -> R:
        """A method of the multipliers that are free to move."""
        return method(self._movable, argument)

    def moved(self) -> FloatArray:
        """Sums over all multipliers, the free ones as they are now."""
        self._moved[self._free] = self._movable.values
        return self._totals(self._moved)

    def keep(self, number: int) -> None:
        """Hold the multipliers as they are now under a number."""
        self.values[number] = self._moved.copy()

    @property
    def _ceilings(self) -> FloatArray | float:
        """Upper ends of the boxes of the hinge's multipliers."""
        weights = self.candidates.weights
        return self.weight if weights is None else self.weight * weights[:, None]

    def _totals(self, values: FloatArray) -> FloatArray:
        squares = 0.0
        if self.problem.push.squared:
            with np.errstate(divide="ignore", invalid="ignore"):
                over = np.where(values > 0, values**2 / (self._ceilings / self.weight), 0.0)
            squares = float(np.nansum(over))
        return np.array([float(values.sum()), float(values[self._coincident].sum()), squares])


@dataclass(frozen=True)
class Value:
    """The smoothed problem at a factor."""

    smoothed: float  # what L-BFGS minimizes
    gradient: FloatArray  # in the factor
    objective: float  # with the hinge itself, over the candidates: exact right after a search, too low later on
    n_active: int


class Multipliers:
    """Multipliers that the shards of a working set hold under a number, as long as this object lives."""

    def __init__(self, number: int, generation: int, dropped: list[int]) -> None:
        self.number, self.generation = number, generation
        weakref.finalize(self, dropped.append, number)


class WorkingSet:
    """Candidates of some anchors and what they add up to, wherever the engine in use holds them.

    Every example stays a possible impostor, and the push term is scaled up to all anchors. Where a search finds fewer
    than `fewest` pairs for each anchor on average, so many are added at random, so no direction in which the
    classes differ goes unnoticed. `accepted` is the factor of the last search and its objective; `generation` counts
    how often shards were lost and made again: multipliers of an earlier one are gone.
    """

    def __init__(
        self,
        problem: LargeMarginProblem,
        anchors: IndexArray,
        dtype: type[np.floating] = np.float64,
        fewest: int = 0,
        accepted: tuple[FloatArray, float] | None = None,
    ) -> None:
        self.problem, self.anchors, self.dtype, self.fewest, self.accepted = problem, anchors, dtype, fewest, accepted
        self.weight = problem.push.weight * len(problem.X) / len(anchors)
        self.size, self.seconds, self.generation, self._widen, self._lost = 0, 0.0, 0, 0.0, False
        self._numbers, self._dropped = count(), list[int]()
        self.again(self._place)

    def _place(self) -> None:
        make = partial(Shard, anchors=self.anchors, dtype=self.dtype, fewest=self.fewest)
        n, d = self.problem.X.shape
        size = self.problem.X.nbytes + 8 * n * d + 16 * self.problem.points.size
        self.shards = current().place(make, self.problem, size)

    def again(self, work: Callable[[], R]) -> R:
        """Do some work; where shards are lost meanwhile, make all again, as after the last search, and repeat."""
        for _ in range(ATTEMPTS):
            try:
                if self._lost:
                    self._place()
                    if self.accepted is not None:
                        self._search(self.accepted[0], self._widen)
                    self._lost, self.generation = False, self.generation + 1
                return work()
            except ShardLost:
                self._lost = True
        raise ShardLost("the engine lost workers again and again; check them, or leave engine= out.")

    @property
    def whole(self) -> bool:
        """Whether every example is an anchor, so objectives and bounds are those of the problem."""
        return len(self.anchors) == len(self.problem.X)

    # -- candidates -------------------------------------------------------------------------------------------------

    def search(self, L: FloatArray, widen: float) -> FloatArray:
        """Search exhaustively around a factor, (c, r, rank), and keep only the points that the candidates use.

        Pairs of earlier searches stay candidates; see `PairMemory`. Where more pairs than may be held are near the
        margin, or the objective is far above that of the last search, the factor has gone too far on candidates that
        were not complete: a metric between the two is searched instead.
        """
        return self.again(partial(self._search_near, L, widen))

    def _search_near(self, L: FloatArray, widen: float) -> FloatArray:
        asked = L
        for attempt in range(ATTEMPTS):
            if not self._search(L, widen):
                L = self._nearer(L, attempt)
                continue
            objective = float(np.sum(L**2)) + self.weight * sum(self.shards.each(Shard.active, L))
            near = self.accepted is None or objective <= TOO_FAR * self.accepted[1]
            if near or attempt >= HALVINGS or self.size <= FEW * len(self.anchors):
                self.shards.each(Shard.remember)
                self.accepted, self._widen = (L, objective), widen
                return L
            self.shards.each(Shard.remember, 64)
            L = self._nearer(L, attempt)
        # The number of pairs does not depend on the scale: fewer anchors, and the objective is an estimate.
        self.anchors = np.sort(np.random.default_rng(0).permutation(self.anchors)[: (len(self.anchors) + 1) // 2])
        self.weight = self.problem.push.weight * len(self.problem.X) / len(self.anchors)
        self.shards.each(Shard.retain, self.anchors)
        return self._search_near(asked, widen)

    def _search(self, L: FloatArray, widen: float) -> bool:
        """Let all shards search; False where one of them has met too many candidates."""
        found = self.shards.each(Shard.search, L, widen, remaining())
        self.size, self.seconds = sum(size for size, _ in found), max(seconds for _, seconds in found)
        return all(size >= 0 for size, _ in found)

    def _nearer(self, L: FloatArray, attempt: int) -> FloatArray:
        """Half the way back to the metric of the last search, or after that, or without one, a larger metric."""
        if self.accepted is None or attempt >= HALVINGS:
            return 2.0 * L
        both = np.sqrt(0.5) * np.concatenate([self.accepted[0], L], axis=1)
        _, sigma, rows = np.linalg.svd(both, full_matrices=False)
        return np.ascontiguousarray(sigma[:, :, None] * rows)

    # -- values and multipliers -------------------------------------------------------------------------------------

    def value(self, L: FloatArray, gamma: float) -> Value:
        """Evaluate the smoothed objective and its gradient at a factor."""
        return self.again(partial(self._value, L, gamma))

    def _value(self, L: FloatArray, gamma: float) -> Value:
        parts = self.shards.each(Shard.value, L, gamma)
        smooth, loss, active = sum_of([sums for sums, _ in parts])
        push = sum_of([push for _, push in parts])
        trace = float(np.sum(L**2))
        return Value(
            trace + self.weight * float(smooth),
            2.0 * (L + self.weight * push),
            trace + self.weight * float(loss),
            round(active),
        )

    def slopes(self, L: FloatArray, gamma: float) -> tuple[Slopes, Multipliers]:
        """The slopes at a factor as a dual candidate."""
        held, dropped = self._number(), self._dropped[:]
        parts = self.shards.each(Shard.slopes, L, gamma, self.weight, held.number, dropped)
        del self._dropped[: len(dropped)]
        matrix = sum_of([part.matrix for part in parts])
        return Slopes(sum_of([part.totals for part in parts]), sum(part.loss for part in parts), matrix), held

    def _number(self) -> Multipliers:
        return Multipliers(next(self._numbers), self.generation, self._dropped)

    def dual(self, held: Multipliers) -> Callable[[], Dual]:
        """Let multipliers outlast the next search; what lists them under the row numbers of the problem.

        Where shards were lost since, the slopes at the factor of the last search take their place.
        """
        latest = held

        def each(method: Callable[[Shard, int], R]) -> list[R]:
            nonlocal latest
            if latest.generation != self.generation and self.accepted is not None:
                latest = self.slopes(self.accepted[0], 0.0)[1]
            return self.shards.each(method, latest.number)

        def listed() -> Dual:
            parts = self.again(partial(each, Shard.dual))
            triplets = [part.triplets for part in parts]
            return Dual(
                triplets[0] if len(parts) == 1 else Triplets.join(*triplets),
                np.concatenate([part.values for part in parts]),
            )

        self.again(partial(each, Shard.freeze))
        return listed

    # -- refinement; see `Movable` ----------------------------------------------------------------------------------

    def free(self, held: Multipliers) -> int:
        """Let multipliers strictly inside their box move; how many there are."""
        return sum(self.shards.each(Shard.free, held.number))

    def face(self, Q: FloatArray) -> None:
        """See `Movable.face`."""
        self.shards.each(Shard.of_free, Movable.face, Q)

    def curvature(self, y: FloatArray) -> FloatArray:
        """See `Movable.curvature`."""
        return sum_of(self.shards.each(Shard.of_free, Movable.curvature, y))

    def move(self, y: FloatArray) -> FloatArray:
        """See `Movable.move`."""
        return sum_of(self.shards.each(Shard.of_free, Movable.move, y))

    def moved(self) -> FloatArray:
        """Sums over all multipliers as they are now."""
        return sum_of(self.shards.each(Shard.moved))

    def keep(self) -> Multipliers:
        """Hold the multipliers as they are now."""
        held = self._number()
        self.shards.each(Shard.keep, held.number)
        return held


def sum_of(parts: Sequence[NDArray[ScalarT]]) -> NDArray[ScalarT]:
    """Arrays added up in order; the array itself if there is one."""
    return reduce(np.add, parts)
