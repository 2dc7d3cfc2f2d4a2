"""The part of an LMNN problem that a factored iterate can feel: candidates of some anchors, and the points they use.

In the coordinates of `LMNNProblem.points` the pull cost is ``trace(M)``, so that points without candidates drop out.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from sdpmetric._loops import hinges
from sdpmetric.core.multipliers import Dual
from sdpmetric.engine import threads
from sdpmetric.linalg.distances import Blocks, laplacian_form
from sdpmetric.solvers.lmnn.pair_memory import PairMemory
from sdpmetric.solvers.lmnn.regional import RegionalProblem
from sdpmetric.triplets.limits import TooManyCandidates
from sdpmetric.triplets.margins import hinge_slopes, slope_pairs, target_distances
from sdpmetric.triplets.triplets import Candidates

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.int32]

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


@dataclass(frozen=True)
class Multipliers:
    """Slopes of the smoothed hinges at a factor: a dual candidate.

    Attributes
    ----------
    values : (nnz, K) array
        One for each candidate triplet, push weight included.
    matrix : (c, rank, rank) array
        ``sum a_t B_t`` of each metric in whitened coordinates, where dual feasibility is ``matrix <= I``.
    loss : float
        The push term of the objective at the factor, over the candidates, without smoothing.
    """

    values: FloatArray
    matrix: FloatArray
    loss: float

    @property
    def total(self) -> float:
        """``sum a``."""
        return float(self.values.sum())


@dataclass
class WorkingSet:
    """Candidates of some anchors, on the points that they use.

    A pair is measured by the metric of its second member's region. A point that takes part under several metrics is
    held once for each, in blocks, one block per region; factors are (c, r, rank) arrays accordingly.

    Parameters
    ----------
    problem : RegionalProblem
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
    seconds : float
        What the last search took.
    """

    problem: RegionalProblem
    anchors: IndexArray
    dtype: type[np.floating] = np.float64
    fewest: int = 0
    accepted: tuple[FloatArray, float] | None = None
    candidates: Candidates = field(init=False)
    bases: IndexArray = field(init=False)
    blocks: Blocks = field(init=False)
    used: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        self.seconds, source = 0.0, self.problem.push.source
        self.capacity = source.capacity(self.anchors)
        self.memory = PairMemory(source, self.problem.null_groups, self.problem.regions, self.capacity // 2)
        self._points = [points.astype(self.dtype, copy=False) for points in self.problem.regional_points]
        self.weight = self.problem.push.weight * len(self.problem.X) / len(self.anchors)

    @property
    def whole(self) -> bool:
        """Whether every example is an anchor, so that objectives and bounds are those of the problem."""
        return len(self.anchors) == len(self.problem.X)

    def search(self, L: FloatArray, widen: float) -> FloatArray:
        """Search exhaustively around a factor, (c, r, rank), and keep only the points that the candidates use.

        Pairs of earlier searches stay candidates; see `PairMemory`. Where more pairs than may be held are near the
        margin, or the objective is far above that of the last search, the factor has gone too far on candidates that
        were not complete: a metric between the two is searched instead.

        Returns
        -------
        L : (c, r, rank) array
            The factor that was searched: the given one, or one that is nearer to the last one or larger.
        """
        asked = L
        for attempt in range(ATTEMPTS):
            try:
                self._list(L, widen)
            except TooManyCandidates as many:
                self.memory.add_found(many.found, self.capacity // 64)
                L = self._nearer(L, attempt)
                continue
            objective, active = self._active(L)
            near = self.accepted is None or objective <= TOO_FAR * self.accepted[1]
            if near or attempt >= HALVINGS or len(self.candidates.impostors) <= FEW * len(self.anchors):
                self.memory.add(active)
                self.accepted = L, objective
                return L
            self.memory.add(active, self.capacity // 64)
            L = self._nearer(L, attempt)
        # The number of pairs does not depend on the scale: fewer anchors, and the objective is an estimate.
        self.anchors = np.sort(np.random.default_rng(0).permutation(self.anchors)[: (len(self.anchors) + 1) // 2])
        self.weight = self.problem.push.weight * len(self.problem.X) / len(self.anchors)
        return self.search(asked, widen)

    def _nearer(self, L: FloatArray, attempt: int) -> FloatArray:
        """Half the way back to the metric of the last search, or after that, or without one, a larger metric."""
        if self.accepted is None or attempt >= HALVINGS:
            return 2.0 * L
        both = np.sqrt(0.5) * np.concatenate([self.accepted[0], L], axis=1)
        _, sigma, rows = np.linalg.svd(both, full_matrices=False)
        return np.ascontiguousarray(sigma[:, :, None] * rows)

    def _active(self, L: FloatArray) -> tuple[float, list[NDArray[np.int64]]]:
        """The objective at the factor of the search, and for each region the pairs with a positive hinge."""
        n, C, Z = len(self.problem.X), self.candidates, self.embed(L)
        near = target_distances(Z, self.bases, C.targets)
        sums, slopes = hinge_slopes(Z, C, 0.0, self.problem.push.squared, near)
        active = (slopes > 0.0).any(axis=1)
        anchors, impostors = self.used[C.anchors[C.rows[active]]], self.used[C.impostors[active]] % n
        keys, regions = anchors % n * n + impostors, anchors // n
        objective = float(np.sum(L**2)) + self.weight * sums.loss
        return objective, [keys[regions == r] for r in range(len(self.problem.regional_points))]

    def _list(self, L: FloatArray, widen: float) -> None:
        """Take the candidates around a factor, and those of the memory."""
        began = time.perf_counter()
        n, regions = len(self.problem.X), self.problem.regions.astype(np.int64)
        embedded = [points @ factor.T.astype(self.dtype) for points, factor in zip(self._points, L, strict=True)]
        found = self.problem.regional_candidates(embedded, widen=widen, among=self.anchors, most=self.capacity)
        self.seconds = time.perf_counter() - began
        if self.fewest * len(self.anchors) > sum(len(part.impostors) for part in found):
            self.memory.draw(self.anchors, self.fewest)
        found = self.memory.extend(found)
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
        cuts = pairwise(self.blocks.bounds.tolist())
        self.X = np.concatenate(
            [
                points[self.used[a:b] - n * region]
                for region, ((a, b), points) in enumerate(zip(cuts, self._points, strict=True))
            ]
        )

    def embed(self, L: FloatArray) -> NDArray[np.floating]:
        """Embedded points that the candidates use, in the set's precision."""
        return self.blocks.times(self.X, np.swapaxes(L, 1, 2).astype(self.dtype))

    def value(self, L: FloatArray, gamma: float) -> Value:
        """Evaluate the smoothed objective and its gradient at a factor."""
        C, Z, squared = self.candidates, self.embed(L), self.problem.push.squared
        work = (len(C.impostors) + len(self.X)) * L.shape[1]
        cuts = C.bounds(threads.parts(work, most=threads.ACCUMULATORS))
        parts, sums = np.empty((len(cuts) - 1, *Z.shape), dtype=self.dtype), np.empty((len(cuts) - 1, 3))
        rows = C.anchors, self.bases, C.targets, C.indptr, C.impostors, C.weights
        threads.run(
            lambda t: hinges.smoothed_push(Z, *rows, cuts[t], cuts[t + 1], gamma, squared, parts[t], sums[t]), len(sums)
        )
        push = self.blocks.gram(parts, self.X)
        smooth, loss, active = sums.sum(axis=0)
        trace = float(np.sum(L**2))
        return Value(
            trace + self.weight * float(smooth),
            2.0 * (L + self.weight * push),
            trace + self.weight * float(loss),
            round(active),
        )

    def multipliers(self, L: FloatArray, gamma: float) -> Multipliers:
        """The slopes at a factor as a dual candidate."""
        Z = self.embed(L)
        near = target_distances(Z, self.bases, self.candidates.targets)
        sums, slopes = hinge_slopes(Z, self.candidates, gamma, self.problem.push.squared, near)
        slopes *= self.weight
        return Multipliers(
            slopes, self.matrix(*slope_pairs(self.candidates, slopes, self.bases)), self.weight * sums.loss
        )

    def matrix(self, first: IndexArray, second: IndexArray, weights: FloatArray) -> FloatArray:
        """``D*(w)`` of pairs of used points, (c, rank, rank), symmetric."""
        A = laplacian_form(np.asarray(self.X, dtype=np.float64), first, second, weights, self.blocks)
        return 0.5 * (A + np.swapaxes(A, 1, 2))

    @property
    def coincident(self) -> NDArray[np.bool_]:
        """Candidate pairs whose anchor and impostor lie at the very same place, (nnz,)."""
        place = self.problem.push.duplicate_groups[self.used % len(self.problem.X)]
        pairs: NDArray[np.bool_] = (
            place[self.candidates.anchors[self.candidates.rows]] == place[self.candidates.impostors]
        )
        return pairs

    def dual(self, values: FloatArray) -> Dual:
        """Multipliers of candidate triplets under the row numbers of the problem."""
        point = (self.used % len(self.problem.X)).astype(np.int32)
        C = self.candidates
        targets = np.where(C.targets >= 0, point[C.targets], np.int32(-1))
        own = Candidates(point[C.anchors], targets, C.indptr, point[C.impostors], C.weights)
        return Dual(*own.triplets(values))
