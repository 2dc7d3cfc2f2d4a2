"""A working set: the candidates that a search lists, and the smoothed problem over them.

In the coordinates of `LargeMarginProblem.points` the pull cost is ``trace(M)``, so points without candidates drop out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from sdpmetric.arrays import FloatArray, IndexArray
from sdpmetric.core.triplets import Candidates
from sdpmetric.lmnn.impostors import TooManyCandidates
from sdpmetric.lmnn.margins import compressed, smoothed_push
from sdpmetric.lmnn.problem import LargeMarginProblem
from sdpmetric.lmnn.solvers.hinges import Hinges


@dataclass(frozen=True)
class SearchOptions:
    """Limits of a search, and its next attempts if it meets more candidates than it may list."""

    pairs_per_row: int = 64  # of the data: more are not worth their time, also for fewer anchors
    fewest_pairs: int = 1 << 17  # but these are
    narrowing: float = 0.1  # the search looks less far from the margin,
    narrowest: float = 1e-3  # down to this, where memory alone limits it,
    enlargement: float = 1.12  # and then at a longer factor, each time by a power of 1.5 more,
    attempts: int = 16  # so often in all
    drawn_per_anchor: int = 4  # impostors at random, which such a list has besides


OPTIONS = SearchOptions()


@dataclass(frozen=True)
class Value:
    """The smoothed problem at a factor."""

    smoothed: float  # what L-BFGS minimizes
    gradient: FloatArray  # in the factor
    objective: float  # with the hinge itself, over the candidates: exact right after a search, too low later on
    n_active: int


class WorkingSet:
    """The hinges of candidates of all examples or a sample of them, after a search, and the trace.

    Where the number of candidates makes it lose examples, values are estimates.
    """

    hinges: Hinges

    def __init__(
        self,
        problem: LargeMarginProblem,
        rows: IndexArray | None = None,
        dtype: type[np.floating] = np.float64,
    ) -> None:
        self.problem, self.dtype = problem, dtype
        self._set_rows(np.arange(len(problem.X), dtype=np.int32) if rows is None else rows)

    def _set_rows(self, rows: IndexArray) -> None:
        self.rows, self._push = rows, self.problem.push.sampled(rows)

    @property
    def is_whole(self) -> bool:
        """Whether it has every example, so objectives and bounds are those of the problem."""
        return len(self.rows) == len(self.problem.X)

    def use_double_precision(self) -> None:
        """Go on with the same candidates in double precision."""
        hinges, n = self.hinges, np.int32(len(self.problem.X))
        regions = np.repeat(np.arange(len(hinges.blocks), dtype=np.int32), np.diff(hinges.blocks.bounds))
        self.dtype = np.float64
        self.hinges = replace(hinges, points=self.problem.points[hinges.examples + n * regions])

    # -- candidates -------------------------------------------------------------------------------------------------

    def search(self, L: FloatArray, widen: float, *, drawn: bool = False) -> FloatArray:
        """Search exhaustively around a factor, (c, r, rank), and keep only the points that the candidates use.

        If more pairs are near the margin than may be listed, fewer are, at a larger metric if there must be. Such a
        list has pairs drawn at random, too, as any has if asked for.
        """
        requested, problem, push, enlargement = L, self.problem, self._push, OPTIONS.enlargement
        points = problem.points.astype(self.dtype, copy=False)  # not kept: as large as the data
        worthwhile = max(OPTIONS.fewest_pairs, OPTIONS.pairs_per_row * len(problem.X))
        for _ in range(OPTIONS.attempts):
            is_narrow = widen <= OPTIONS.narrowest
            max_pairs = push.source.capacity if is_narrow else min(worthwhile, push.source.capacity)
            Z = push.blocks.times(points, np.swapaxes(L, 1, 2))
            try:
                candidates = push.candidates(Z, problem.null_groups, widen=widen, max_pairs=max_pairs)
            except TooManyCandidates:
                drawn = True
                if is_narrow:
                    L, enlargement = enlargement * L, enlargement**1.5
                else:
                    widen *= OPTIONS.narrowing
            else:
                candidates = self._with_drawn(candidates) if drawn else candidates
                self.hinges = Hinges.of(push, points, candidates)
                return L
        # The number of pairs does not depend on the scale: fewer examples, and the objective is an estimate.
        self._set_rows(np.sort(np.random.default_rng(0).permutation(self.rows)[: (len(self.rows) + 1) // 2]))
        return self.search(requested, widen)

    def _with_drawn(self, candidates: Candidates) -> Candidates:
        """Add triplets at random: they hold off a metric that forgets what is far from every margin."""
        drawn = self._push.drawn(OPTIONS.drawn_per_anchor, self.problem.null_groups)
        n_points = len(self.problem.X) * self._push.n_regions
        keys, known_keys = (C.first_triplets.keys(n_points) for C in (drawn, candidates))
        added = drawn.select(np.isin(keys, known_keys, assume_unique=True, invert=True))
        return Candidates.concatenate([candidates, added])

    def value(self, L: FloatArray, gamma: float) -> Value:
        """Return the objective with hinges that are smoothed over a width gamma, at a factor, (c, r, rank)."""
        hinges, squared = self.hinges, self.problem.push.squared
        pairs, target_pairs = compressed(hinges.candidates), (hinges.bases, hinges.candidates.targets)
        width, steepest = (0.5, math.inf) if squared else (gamma, 1.0)
        (smoothed, loss, n_active), Y = smoothed_push(hinges.embed(L), pairs, target_pairs, width, steepest)
        loss = smoothed if squared else loss
        trace, gradient = float(np.vdot(L, L)), 2.0 * (L + hinges.weight * hinges.blocks.gram(Y, hinges.points))
        return Value(trace + hinges.weight * smoothed, gradient, trace + hinges.weight * loss, round(n_active))


def orthogonal_rows(L: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return factors of the same metrics with orthogonal rows, the longest first, and their lengths, (c, r)."""
    _, sigma, rows = np.linalg.svd(L, full_matrices=False)
    return np.ascontiguousarray(sigma[:, :, None] * rows), sigma
