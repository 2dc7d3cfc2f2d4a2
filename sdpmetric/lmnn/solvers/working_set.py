"""A working set: the candidates of some anchors, the points that they use, and the smoothed problem over them.

In the coordinates of `LargeMarginProblem.points` the pull cost is ``trace(M)``, so points without candidates drop out.

For dual refinement (`sdpmetric.lmnn.solvers.refinement`), with Q the eigenvectors that span a face, ``A(y)_t = <B_t, Q
y Q^T>`` and D the room of each multiplier to its bounds, it solves ``A* D A y = E`` and takes ``D A y`` from the
multipliers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray, IndexArray, LongArray
from sdpmetric.core.certificate import Dual
from sdpmetric.core.triplets import Candidates
from sdpmetric.engine.lazy import cached
from sdpmetric.linalg.distances import Blocks, laplacian_form, pair_forms
from sdpmetric.lmnn import margins
from sdpmetric.lmnn.costs import stacked_points
from sdpmetric.lmnn.impostors import TooManyCandidates
from sdpmetric.lmnn.margins import compressed, hinge_slopes, slope_pairs, target_distances
from sdpmetric.lmnn.problem import LargeMarginProblem

# Most multiplications to form the matrix of ``A* D A``.
DENSE_WORK = 100_000_000
# Ridge on its diagonal, as a share of its trace: a direction that hardly any multiplier changes stays.
RIDGE = 1e-6


@dataclass(eq=False)
class MovableTriplets:
    """Triplets of this process with multipliers that may move."""

    X: NDArray[np.floating]  # whitened points, in the precision of the products
    blocks: Blocks  # points of one metric each
    impostor_pairs: tuple[IndexArray, IndexArray]  # rows of X: anchor and impostor
    target_pairs: tuple[IndexArray, IndexArray]  # anchor and target neighbor
    values: FloatArray
    limits: FloatArray  # upper ends of the box, possibly infinite
    _points: NDArray[np.floating] = field(init=False)
    _room: FloatArray = field(init=False)

    @cached
    def _pairs(self) -> tuple[IndexArray, IndexArray, LongArray, LongArray]:
        """The pairs, each once, and which of them are the impostor and the target pairs of the triplets."""
        n = len(self.X)
        pairs = np.concatenate([np.stack(self.impostor_pairs), np.stack(self.target_pairs)], axis=1)
        low, high = np.sort(pairs, axis=0).astype(np.int64)
        keys, place = np.unique(low * n + high, return_inverse=True)
        of_impostors, of_targets = place.reshape(2, -1)
        return (keys // n).astype(np.int32), (keys % n).astype(np.int32), of_impostors, of_targets

    @cached
    def _used(self) -> tuple[LongArray, Blocks, IndexArray, IndexArray]:
        """The points of the pairs, their blocks, and the pairs by numbers of these points."""
        return self.blocks.used_by(*self._pairs[:2])

    def set_face(self, Q: FloatArray) -> None:
        """Take products in the coordinates Q, (c, rank, w), and the room to the bounds as it is now."""
        self._points = self.blocks.times(self.X, Q)[self._used[0]]
        values, limits = self.values, self.limits
        self._room = np.where(np.isinf(limits), values, np.minimum(values, limits - values))

    def _change(self, y: FloatArray) -> FloatArray:
        """Return ``D A y``, (t,)."""
        (_, _, of_impostors, of_targets), (_, blocks, first, second) = self._pairs, self._used
        forms = pair_forms(self._points, y, blocks, first, second)
        change: FloatArray = self._room * (forms[of_impostors] - forms[of_targets])
        return change

    def _pair_weights(self, c: FloatArray) -> FloatArray:
        first, _, of_impostors, of_targets = self._pairs
        pushes = np.bincount(of_impostors, c, len(first)).astype(np.float64)
        return pushes - np.bincount(of_targets, c, len(first))

    def curvature(self, y: FloatArray) -> FloatArray:
        """Return ``A* D A y``, (c, w, w)."""
        _, blocks, first, second = self._used
        return laplacian_form(self._points, first, second, self._pair_weights(self._change(y)), blocks)

    def least_change(self, E: FloatArray) -> FloatArray | None:
        """Return the y with ``A* D A y = E``, by the matrix of this map, or None if products with it take less time."""
        (_, _, of_impostors, of_targets), (_, _, first, second) = self._pairs, self._used
        row, column = np.triu_indices(E.shape[1])
        if len(E) > 1 or len(self.values) * len(row) ** 2 > DENSE_WORK:
            return None
        scale, differences = np.where(row == column, 1.0, math.sqrt(2.0)), self._points[first] - self._points[second]
        forms = differences[:, row] * differences[:, column] * scale.astype(differences.dtype)
        A = forms[of_impostors] - forms[of_targets]
        H = (A.T @ (self._room.astype(A.dtype)[:, None] * A)).astype(np.float64)
        if not (trace := float(np.trace(H))) > 0.0:  # no multiplier changes any direction
            return np.zeros_like(E)
        H[np.diag_indices_from(H)] += RIDGE * trace
        y = np.zeros_like(E)
        y[0, row, column] = y[0, column, row] = np.linalg.solve(H, E[0, row, column] * scale) / scale
        return y

    def move(self, y: FloatArray) -> FloatArray:
        """Take ``D A y`` from the multipliers as far as their box allows; the change of ``sum a_t B_t``."""
        values = np.clip(self.values - self._change(y), 0.0, self.limits)
        used, blocks, first, second = self._used
        weights = self._pair_weights(values - self.values)
        change = laplacian_form(self.X[used], first, second, weights, blocks)
        self.values = values
        return 0.5 * (change + np.swapaxes(change, 1, 2))


@dataclass(frozen=True)
class SearchOptions:
    """What a search does if it meets more candidates than it may list."""

    pairs_per_row: int = 64  # of the data: more are not worth their time, also for fewer anchors
    fewest_pairs: int = 1 << 17  # but these are
    narrowing: float = 0.1  # the search looks less far from the margin,
    narrowest: float = 1e-3  # down to this, where memory alone limits it,
    enlargement: float = 1.12  # and then at a longer factor, each time by a power of 1.5 more,
    attempts: int = 16  # so often in all
    drawn_per_anchor: int = 4  # impostors at random, which such a list has besides


OPTIONS = SearchOptions()


@dataclass(frozen=True)
class Slopes:
    """The slopes of the smoothed hinges at a factor, as multipliers of the candidates of the last search."""

    multipliers: FloatArray  # (nnz, K)
    loss: float  # the hinges without smoothing, push weight left out
    matrix: FloatArray  # sum a_t B_t of each metric in whitened coordinates, (c, rank, rank)


@dataclass(frozen=True)
class Value:
    """The smoothed problem at a factor."""

    smoothed: float  # what L-BFGS minimizes
    gradient: FloatArray  # in the factor
    objective: float  # with the hinge itself, over the candidates: exact right after a search, too low later on
    n_active: int


class WorkingSet:
    """Candidates of some anchors and what they add up to.

    Every example stays a possible impostor, and the push term is scaled up to all anchors. Where the number of
    candidates makes it lose anchors, values are estimates.

    A pair is measured by the metric of its second member's region. A point that takes part under several metrics is
    held once for each, in blocks, one block per region; factors are (c, r, rank) arrays accordingly.
    """

    def __init__(
        self,
        problem: LargeMarginProblem,
        anchors: IndexArray | None = None,
        dtype: type[np.floating] = np.float64,
    ) -> None:
        self.problem, self.dtype = problem, dtype
        self.anchors = np.arange(len(problem.X), dtype=np.int32) if anchors is None else anchors
        self.capacity = problem.push.source.capacity(self.anchors)
        self._points = problem.points.astype(dtype, copy=False)

    @property
    def weight(self) -> float:
        return self.problem.push.weight * len(self.problem.X) / len(self.anchors)

    @property
    def has_all_anchors(self) -> bool:
        """Whether every example is an anchor, so objectives and bounds are those of the problem."""
        return len(self.anchors) == len(self.problem.X)

    # -- candidates -------------------------------------------------------------------------------------------------

    def search(self, L: FloatArray, widen: float, *, drawn: bool = False) -> FloatArray:
        """Search exhaustively around a factor, (c, r, rank), and keep only the points that the candidates use.

        If more pairs are near the margin than may be listed, fewer are, at a larger metric if there must be. Such a
        list has pairs drawn at random, too, as any has if asked for.
        """
        requested, problem, enlargement = L, self.problem, OPTIONS.enlargement
        worthwhile = max(OPTIONS.fewest_pairs, OPTIONS.pairs_per_row * len(problem.X))
        for _ in range(OPTIONS.attempts):
            is_narrow = widen <= OPTIONS.narrowest
            max_pairs = self.capacity if is_narrow else min(worthwhile, self.capacity)
            points, factors = np.split(self._points, len(L)), np.swapaxes(L, 1, 2).astype(self.dtype)
            Z = stacked_points([P @ F for P, F in zip(points, factors, strict=True)])
            try:
                candidates = problem.push.candidates(
                    Z, problem.null_groups, widen=widen, among=self.anchors, max_pairs=max_pairs
                )
            except TooManyCandidates:
                drawn = True
                if is_narrow:
                    L, enlargement = enlargement * L, enlargement**1.5
                else:
                    widen *= OPTIONS.narrowing
            else:
                self._set_candidates(self._with_drawn(candidates) if drawn else candidates)
                return L
        # The number of pairs does not depend on the scale: fewer anchors, and the objective is an estimate.
        self.anchors = np.sort(np.random.default_rng(0).permutation(self.anchors)[: (len(self.anchors) + 1) // 2])
        return self.search(requested, widen)

    def _with_drawn(self, candidates: Candidates) -> Candidates:
        """Add triplets at random: they hold off a metric that forgets what is far from every margin."""
        drawn = self.problem.push.drawn(OPTIONS.drawn_per_anchor, self.problem.null_groups, self.anchors)
        keys, known_keys = (C.first_triplets.keys(len(self._points)) for C in (drawn, candidates))
        added = drawn.select(np.isin(keys, known_keys, assume_unique=True, invert=True))
        return Candidates.concatenate([candidates, added])

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

    # -- values and multipliers -------------------------------------------------------------------------------------

    def embed(self, L: FloatArray) -> NDArray[np.floating]:
        """Return embedded points that the candidates use, in the set's precision."""
        return self.blocks.times(self.X, np.swapaxes(L, 1, 2).astype(self.dtype))

    def value(self, L: FloatArray, gamma: float) -> Value:
        """Return the objective with hinges that are smoothed over a width gamma, at a factor, (c, r, rank)."""
        target_pairs, squared = (self.anchors_by_target, self.candidates.targets), self.problem.push.squared
        width, steepest = (0.5, math.inf) if squared else (gamma, 1.0)
        sums, Y = margins.smoothed_push(self.embed(L), compressed(self.candidates), target_pairs, width, steepest)
        smoothed, hinges, n_active = sums
        loss = smoothed if squared else hinges
        trace, gradient = float(np.vdot(L, L)), 2.0 * (L + self.weight * self.blocks.gram(Y, self.X))
        return Value(trace + self.weight * smoothed, gradient, trace + self.weight * loss, round(n_active))

    def slopes(self, L: FloatArray, gamma: float) -> Slopes:
        """Return the slopes at a factor as a dual candidate."""
        Z = self.embed(L)
        target_D = target_distances(Z, self.anchors_by_target, self.candidates.targets)
        losses, slopes = hinge_slopes(Z, self.candidates, gamma, self.problem.push.squared, target_D)
        slopes *= self.weight
        first, second, weights = slope_pairs(self.candidates, slopes, self.anchors_by_target)
        used, blocks, first, second = self.blocks.used_by(first, second)
        A = laplacian_form(self.X[used], first, second, weights, blocks)
        return Slopes(slopes, float(losses.sum()), 0.5 * (A + np.swapaxes(A, 1, 2)))

    def totals(self, multipliers: FloatArray) -> tuple[float, float | None, float]:
        """``sum a``, ``sum a^2 / w`` of squared hinges, and what impostors at the place of their anchors have of it."""
        squares = None
        if self.problem.push.squared:
            ratios = np.where(multipliers > 0, multipliers**2 / (self._ceilings / self.weight), 0.0)
            squares = float(np.nansum(ratios))
        return float(multipliers.sum()), squares, float(multipliers[self._coincident].sum())

    def dual(self, multipliers: FloatArray) -> Dual:
        """Return multipliers of candidate triplets, (nnz, K), under the row numbers of the problem."""
        C, used = self.candidates, self.used.astype(np.int32)
        targets = np.where(C.targets >= 0, used[C.targets], np.int32(-1))
        points = Candidates(used[C.anchors], targets, C.indptr, used[C.impostors], C.weights)
        return Dual(*self.problem.push.as_examples(points).triplets(multipliers))

    def movable(self, multipliers: FloatArray) -> tuple[MovableTriplets, tuple[LongArray, LongArray]]:
        """Return the multipliers strictly inside their box, and which entries of the array, (nnz, K), they are."""
        squared, ceilings = self.problem.push.squared, self._ceilings
        pair, slot = np.nonzero((multipliers if squared else np.minimum(multipliers, ceilings - multipliers)) > 0)
        C, row = self.candidates, self.candidates.rows[pair]
        limits = np.full(len(pair), np.inf) if squared else np.broadcast_to(ceilings, multipliers.shape)[pair, slot]
        pairs = (C.anchors[row], C.impostors[pair]), (self.anchors_by_target[row, slot], C.targets[row, slot])
        return MovableTriplets(self.X, self.blocks, *pairs, multipliers[pair, slot], limits), (pair, slot)

    @property
    def _ceilings(self) -> FloatArray | float:
        """Upper ends of the boxes of the hinge's multipliers."""
        weights = self.candidates.weights
        return self.weight if weights is None else self.weight * weights[:, None]


def orthogonal_rows(L: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return factors of the same metrics with orthogonal rows, the longest first, and their lengths, (c, r)."""
    _, sigma, rows = np.linalg.svd(L, full_matrices=False)
    return np.ascontiguousarray(sigma[:, :, None] * rows), sigma
