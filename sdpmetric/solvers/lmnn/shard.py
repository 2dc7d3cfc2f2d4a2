"""One shard of a working set: the candidates of some anchors, the points that they use, and their multipliers."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from sdpmetric._loops import hinges
from sdpmetric.arrays import FloatArray, IndexArray
from sdpmetric.core.multipliers import Dual
from sdpmetric.engine import threads
from sdpmetric.engine.interface import WHOLE, Part, dealt
from sdpmetric.linalg.distances import Blocks, laplacian_form
from sdpmetric.solvers.lmnn.movable import Movable
from sdpmetric.solvers.lmnn.pair_memory import PairMemory
from sdpmetric.solvers.lmnn.regional import RegionalProblem, regional_candidates
from sdpmetric.triplets.limits import TooManyCandidates, deadline, only_part
from sdpmetric.triplets.margins import hinge_slopes, slope_pairs, target_distances
from sdpmetric.triplets.triplets import Candidates


@dataclass(frozen=True)
class Totals:
    """Sums over multipliers ``a`` of candidate triplets, push weight included.

    Attributes
    ----------
    total, coincident : float
        ``sum a``, and the part of it that belongs to impostors at the very place of their anchors.
    squares : float
        ``sum a^2 / w`` for the squared hinge, else 0.
    """

    total: float
    coincident: float
    squares: float


@dataclass(frozen=True)
class Slopes:
    """What the slopes at a factor add up to.

    Attributes
    ----------
    loss : float
        The hinges without smoothing, push weight left out.
    matrix : (c, rank, rank) array
        ``sum a_t B_t`` of each metric in whitened coordinates.
    """

    totals: Totals
    loss: float
    matrix: FloatArray


@dataclass
class Shard:
    """A part of the candidates of some anchors, on the points that they use.

    A pair is measured by the metric of its second member's region. A point that takes part under several metrics is
    held once for each, in blocks, one block per region; factors are (c, r, rank) arrays accordingly. Multipliers stay
    here, under numbers that the working set gives them.

    Parameters
    ----------
    anchors : (m,) int32 array
    part : (float, float)
        The part of their pairs that belongs to this shard; see `sdpmetric.triplets.limits.only_part`.
    dtype : numpy dtype
        Precision of the evaluations.
    fewest : int
        See `WorkingSet`.
    """

    problem: RegionalProblem
    anchors: IndexArray
    part: Part
    dtype: type[np.floating]
    fewest: int
    candidates: Candidates = field(init=False)
    bases: IndexArray = field(init=False)
    blocks: Blocks = field(init=False)
    used: NDArray[np.int64] = field(init=False)
    values: dict[int, FloatArray] = field(init=False, default_factory=dict)
    duals: dict[int, Dual] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        source = self.problem.push.source
        self.share = self.part[1] - self.part[0]
        self.capacity = math.ceil(self.share * source.capacity(self.anchors))
        self.memory = PairMemory(source, self.problem.null_groups, self.problem.regions, self.capacity // 2)
        self._points = [points.astype(self.dtype, copy=False) for points in self.problem.regional_points]

    # -- candidates -------------------------------------------------------------------------------------------------

    def search(self, L: FloatArray, widen: float, left: float) -> tuple[int, float]:
        """Search exhaustively around a factor, (c, r, rank), and keep only the points that the candidates use.

        Pairs of earlier searches stay candidates; see `PairMemory`.
        """
        began, self.values = time.perf_counter(), {}
        embedded = [points @ factor.T.astype(self.dtype) for points, factor in zip(self._points, L, strict=True)]
        try:
            with deadline(began + left), only_part(self.part):
                found = regional_candidates(self.problem, embedded, widen=widen, among=self.anchors, most=self.capacity)
        except TooManyCandidates as many:
            self.memory.add_found(many.found, self.capacity // 64)
            return -1, time.perf_counter() - began
        seconds = time.perf_counter() - began
        if self.fewest * self.share * len(self.anchors) > sum(len(part.impostors) for part in found):
            self.memory.draw(self.anchors[dealt(len(self.anchors), self.part)], self.fewest)
        self._hold(self.memory.extend(found))
        return len(self.candidates.impostors), seconds

    def _hold(self, found: Sequence[Candidates]) -> None:
        n, regions = len(self.problem.X), self.problem.regions.astype(np.int64)
        used = np.zeros(n * len(found), dtype=bool)
        rows: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]] = []
        for region, part in enumerate(found):
            busy = np.diff(part.indptr) > 0
            anchors, targets = part.anchors[busy].astype(np.int64), part.targets[busy].astype(np.int64)
            shift = n * regions[np.maximum(targets, 0)]
            bases, targets = (
                np.where(targets >= 0, shift + anchors[:, None], -1),
                np.where(targets >= 0, shift + targets, -1),
            )
            rows.append((n * region + anchors, bases, targets, n * region + part.impostors.astype(np.int64)))
            for index in (rows[-1][0], bases[bases >= 0], targets[targets >= 0], rows[-1][3]):
                used[index] = True
        place = np.cumsum(used, dtype=np.int32) - np.int32(1)
        self.used = np.flatnonzero(used)
        self.blocks = Blocks(np.searchsorted(self.used, n * np.arange(len(found) + 1)).astype(np.int64))
        anchors, bases, targets, impostors = (np.concatenate(index) for index in zip(*rows, strict=True))
        counts = np.concatenate([np.diff(part.indptr) for part in found])
        weights = [part.weights for part in found if part.weights is not None]
        self.bases = np.where(bases >= 0, place[bases], np.int32(-1))
        self.candidates = Candidates(
            place[anchors],
            np.where(targets >= 0, place[targets], np.int32(-1)),
            np.concatenate([[0], np.cumsum(counts[counts > 0])]),
            place[impostors],
            np.concatenate(weights) if weights else None,
        )
        C, group = self.candidates, self.problem.push.duplicate_groups[self.used % n]
        self._coincident = np.flatnonzero(group[C.anchors[C.rows]] == group[C.impostors])
        cuts = pairwise(self.blocks.bounds.tolist())
        self.X = np.concatenate(
            [
                points[self.used[a:b] - n * region]
                for region, ((a, b), points) in enumerate(zip(cuts, self._points, strict=True))
            ]
        )

    def active(self, L: FloatArray) -> float:
        """The hinges at the factor of the search, push weight left out; their pairs are noted for `remember`."""
        n, C, Z = len(self.problem.X), self.candidates, self.embed(L)
        near = target_distances(Z, self.bases, C.targets)
        sums, slopes = hinge_slopes(Z, C, 0.0, self.problem.push.squared, near)
        active = (slopes > 0.0).any(axis=1)
        anchors, impostors = self.used[C.anchors[C.rows[active]]], self.used[C.impostors[active]] % n
        keys, regions = anchors % n * n + impostors, anchors // n
        self._active = [keys[regions == r] for r in range(len(self._points))]
        return sums.loss

    def remember(self, share: int | None = None) -> None:
        """Let the memory take the active pairs, or of too many pairs ``1 / share`` of what it may hold."""
        self.memory.add(self._active, None if share is None else self.capacity // share)

    def retain(self, anchors: IndexArray) -> None:
        """Search for these anchors only, where they are among those of the shard."""
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
            point = (self.used % len(self.problem.X)).astype(np.int32)
            C = self.candidates
            targets = np.where(C.targets >= 0, point[C.targets], np.int32(-1))
            own = Candidates(point[C.anchors], targets, C.indptr, point[C.impostors], C.weights)
            self.duals[number] = Dual(*own.triplets(self.values[number]))
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

    def face(self, Q: FloatArray) -> None:
        """See `Movable.face`."""
        self._movable.face(Q)

    def curvature(self, y: FloatArray) -> FloatArray:
        """See `Movable.curvature`."""
        return self._movable.curvature(y)

    def move(self, y: FloatArray) -> FloatArray:
        """See `Movable.move`."""
        return self._movable.move(y)

    def moved(self) -> Totals:
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

    def _totals(self, values: FloatArray) -> Totals:
        squares = 0.0
        if self.problem.push.squared:
            with np.errstate(divide="ignore", invalid="ignore"):
                over = np.where(values > 0, values**2 / (self._ceilings / self.weight), 0.0)
            squares = float(np.nansum(over))
        return Totals(float(values.sum()), float(values[self._coincident].sum()), squares)
