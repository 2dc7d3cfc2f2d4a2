"""The part of an LMNN problem that a factored iterate can feel: candidates of some anchors, and the points they use.

In the coordinates of `LMNNProblem.points` the pull cost is ``trace(M)``, so that points without candidates drop out.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import count
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray, IndexArray
from sdpmetric.core.multipliers import Dual
from sdpmetric.engine.interface import Part, ShardLost
from sdpmetric.solvers.lmnn.regional import RegionalProblem
from sdpmetric.solvers.lmnn.shard import Shard, Slopes, Totals
from sdpmetric.triplets.limits import remaining
from sdpmetric.triplets.triplets import Triplets

ScalarT = TypeVar("ScalarT", bound=np.floating)
R = TypeVar("R")

# A factor has gone too far where the objective is so many times that of the last search, unless an anchor has few
# candidates on average. It goes back by halves so many times, before it is made larger, all in all so many times.
TOO_FAR, FEW, HALVINGS, ATTEMPTS = 10.0, 32, 5, 16


@dataclass(frozen=True)
class Value:
    """The smoothed problem at a factor.

    Attributes
    ----------
    smoothed : float
        The objective with the smoothed hinge; what L-BFGS minimises.
    gradient : (c, r, rank) array
        Its gradient in the factor.
    objective : float
        With the hinge itself, over the candidates: exact right after a search, too low later on.
    n_active : int
        Candidate triplets with a positive hinge.
    """

    smoothed: float
    gradient: FloatArray
    objective: float
    n_active: int


class Multipliers:
    """Multipliers that the shards of a working set hold under a number, as long as this object lives."""

    def __init__(self, number: int, generation: int, dropped: list[int]) -> None:
        self.number, self.generation = number, generation
        weakref.finalize(self, dropped.append, number)


class WorkingSet:
    """Candidates of some anchors and what they add up to, wherever the engine in use holds them.

    Parameters
    ----------
    anchors : (m,) int32 array
        Every example stays a possible impostor. The push term is scaled up to all anchors.
    dtype : numpy dtype, default float64
        Precision of the evaluations.
    fewest : int, default 0
        Where a search finds fewer candidate pairs for each anchor on average, so many are added at random, so that no
        direction in which the classes differ goes unnoticed.
    accepted : (factor, float), optional
        The factor of the last search and its objective.

    Attributes
    ----------
    size : int
        Candidate pairs.
    seconds : float
        What the last search took.
    weight : float
        The push weight, scaled up to all anchors.
    generation : int
        How often shards were lost and made anew; multipliers of an earlier generation are gone.
    """

    def __init__(
        self,
        problem: RegionalProblem,
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
        anchors = None if self.whole else self.anchors
        make = partial(make_shard, anchors=anchors, dtype=self.dtype, fewest=self.fewest)
        n, d = self.problem.X.shape
        size = self.problem.X.nbytes + 8 * n * d + 16 * sum(points.size for points in self.problem.regional_points)
        self.shards = self.problem.place(make, size)

    def again(self, work: Callable[[], R]) -> R:
        """Do some work; where shards are lost meanwhile, make all anew, as after the last search, and repeat."""
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
        raise ShardLost("workers of the engine were lost again and again; see to them, or leave engine= out.")

    @property
    def whole(self) -> bool:
        """Whether every example is an anchor, so that objectives and bounds are those of the problem."""
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
        return Slopes(total_of([part.totals for part in parts]), sum(part.loss for part in parts), matrix), held

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
        self.shards.each(Shard.face, Q)

    def curvature(self, y: FloatArray) -> FloatArray:
        """See `Movable.curvature`."""
        return sum_of(self.shards.each(Shard.curvature, y))

    def move(self, y: FloatArray) -> FloatArray:
        """See `Movable.move`."""
        return sum_of(self.shards.each(Shard.move, y))

    def moved(self) -> Totals:
        """Sums over all multipliers as they are now."""
        return total_of(self.shards.each(Shard.moved))

    def keep(self) -> Multipliers:
        """Hold the multipliers as they are now."""
        held = self._number()
        self.shards.each(Shard.keep, held.number)
        return held


def make_shard(
    problem: RegionalProblem, part: Part, anchors: IndexArray | None, dtype: type[np.floating], fewest: int
) -> Shard:
    """A shard, where it is to stay; all examples are its anchors where none are given."""
    own = np.arange(len(problem.X), dtype=np.int32) if anchors is None else anchors
    return Shard(problem, own, part, dtype, fewest)


def sum_of(parts: Sequence[NDArray[ScalarT]]) -> NDArray[ScalarT]:
    """Arrays added up in order; the array itself where there is one."""
    return reduce(np.add, parts)


def total_of(parts: Sequence[Totals]) -> Totals:
    """Totals added up in order."""
    return Totals(
        sum(part.total for part in parts), sum(part.coincident for part in parts), sum(part.squares for part in parts)
    )
