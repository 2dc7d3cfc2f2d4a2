"""The hinges of listed candidates at points: their slopes, sums over them, and the bounds that multipliers prove.

With ``B_t`` for the squared distance to an impostor minus that to a target neighbor, as matrices, a multiplier ``a_t``
for each triplet makes the dual slack ``C - sum_t a_t B_t`` and, if ``C`` is the identity, a bound by the largest
eigenvalue of ``sum_t a_t B_t``; see `sdpmetric.lmnn.bound`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import BoolArray, FloatArray, IndexArray, LongArray
from sdpmetric.core.certificate import Dual
from sdpmetric.core.triplets import Candidates, Triplets
from sdpmetric.engine.lazy import cached
from sdpmetric.linalg.distances import Blocks, laplacian_form, pair_forms
from sdpmetric.lmnn.bound import best_multiple_bound
from sdpmetric.lmnn.costs import Push
from sdpmetric.lmnn.margins import hinge_slopes, slope_pairs, target_distances


@dataclass(frozen=True, eq=False)
class Hinges:
    """The hinges of candidates, and the points that these use, in blocks, one for each metric.

    A pair is measured by the metric of its second member's region, so an anchor is a point under several metrics.
    Values of triplets, such as multipliers, are (nnz, K): of each candidate pair and each target neighbor of its row.
    """

    push: Push
    points: NDArray[np.floating]  # (m, p)
    examples: IndexArray  # (m,): the example that each point is
    blocks: Blocks
    candidates: Candidates  # by rows of `points`
    bases: IndexArray  # (rows, K): the anchor under the metric of each target neighbor

    @classmethod
    def of(cls, push: Push, points: NDArray[np.floating], candidates: Candidates) -> Self:
        """Return the hinges of candidates that name points of all metrics, (c n, p)."""
        examples = np.arange(len(points), dtype=np.int32) % np.int32(len(push.X))
        bases = push.anchors_by_target(candidates)
        everything = cls(push, points, examples, push.blocks, candidates, bases)
        return everything.select(np.ones(len(candidates.impostors), dtype=bool))

    @classmethod
    def of_triplets(cls, push: Push, points: NDArray[np.floating], triplets: Triplets) -> Self:
        """Return the hinges of triplets of examples, a row for each; values are (t, 1)."""
        anchors, impostors = push.point_pairs(triplets.anchors, triplets.impostors)
        targets, indptr = push.target_points(triplets.targets)[:, None], np.arange(len(anchors) + 1)
        candidates = Candidates(anchors, targets, indptr, impostors, push.source.weights_of(triplets))
        return cls.of(push, points, candidates)

    def select(self, keep: BoolArray) -> Self:
        """Keep the candidate pairs that `keep`, (nnz,), selects, their rows and their points."""
        C = self.candidates.select(keep)
        busy = np.diff(C.indptr) > 0
        anchors, targets, bases = C.anchors[busy], C.targets[busy], self.bases[busy]
        present, is_used = targets >= 0, np.zeros(len(self.points), dtype=bool)
        for rows in (anchors, bases[present], targets[present], C.impostors):
            is_used[rows] = True
        place, used = np.cumsum(is_used, dtype=np.int32) - np.int32(1), np.flatnonzero(is_used)
        targets, bases = (np.where(present, place[rows], np.int32(-1)) for rows in (targets, bases))
        indptr = np.concatenate([[0], C.indptr[1:][busy]])
        return replace(
            self,
            points=self.points[used],
            examples=self.examples[used],
            blocks=Blocks(np.searchsorted(used, self.blocks.bounds).astype(np.int64)),
            candidates=Candidates(place[anchors], targets, indptr, place[C.impostors], C.weights),
            bases=bases,
        )

    @property
    def weight(self) -> float:
        """The weight of the push, by which those of candidates are multiplied."""
        return self.push.weight

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the values of triplets, (nnz, K)."""
        return len(self.candidates.impostors), self.bases.shape[1]

    @property
    def ceilings(self) -> FloatArray:
        """Upper ends of the boxes of the hinge's multipliers, (nnz, 1)."""
        weights = self.candidates.weights
        return self.weight * (np.ones((self.shape[0], 1)) if weights is None else weights[:, None])

    def room(self, values: FloatArray) -> FloatArray:
        """Return how far multipliers are from the ends of their boxes."""
        return values if self.push.squared else np.minimum(values, self.ceilings - values)

    # -- at a metric --------------------------------------------------------------------------------------------------

    def embed(self, L: FloatArray) -> NDArray[np.floating]:
        """Return the points under factors, (c, r, p), in their precision."""
        return self.blocks.times(self.points, np.swapaxes(L, 1, 2))

    def slopes(self, L: FloatArray, gamma: float = 0.0) -> tuple[FloatArray, FloatArray]:
        """Return the loss of each triplet at factors, and its slope, smoothed over a width, as a multiplier."""
        Z = self.embed(L)
        target_D = target_distances(Z, self.bases, self.candidates.targets)
        losses, slopes = hinge_slopes(Z, self.candidates, gamma, self.push.squared, target_D)
        losses *= self.weight
        slopes *= self.weight
        return losses, slopes

    def forms(self, N: FloatArray) -> FloatArray:
        """Return ``<B_t, N>`` of each triplet for symmetric matrices, (c, p, p)."""
        C, rows = self.candidates, self.candidates.rows
        first = np.concatenate([C.anchors[rows], np.maximum(self.bases, 0).ravel()])
        second = np.concatenate([C.impostors, np.maximum(C.targets, 0).ravel()])
        impostor_forms, target_forms = np.split(pair_forms(self.points, N, self.blocks, first, second), [len(rows)])
        return impostor_forms[:, None] - target_forms.reshape(C.targets.shape)[rows]

    # -- multipliers --------------------------------------------------------------------------------------------------

    def margin_sums(self, values: FloatArray) -> FloatArray:
        """Return ``sum_t a_t B_t`` of each metric, (c, p, p), at the cost of the points that it uses."""
        some = np.asarray(values.any(axis=1))
        return self.select(some).adjoint(values[some])

    def adjoint(self, values: FloatArray) -> FloatArray:
        """Return the same at the cost of all points."""
        first, second, weights = slope_pairs(self.candidates, values, self.bases)
        A = laplacian_form(self.points, first, second, weights, self.blocks)
        total: FloatArray = 0.5 * (A + np.swapaxes(A, 1, 2))
        return total

    def dual(self, values: FloatArray) -> Dual:
        """Return multipliers as the problem knows them, by numbers of examples."""
        triplets, multipliers = self.candidates.triplets(values)
        return Dual(Triplets.from_array(self.examples[triplets.to_array()]), multipliers)

    def sums(self, values: FloatArray) -> FloatArray:
        """Return ``sum a``, ``sum a^2 / w``, ``max a / w``, and ``sum a`` over impostors that lie at their anchors."""
        weights, ratios = self.candidates.weights, values
        if weights is not None:
            ratios = values / np.where(weights > 0.0, weights, 1.0)[:, None]
        squares = np.sum(values * ratios) if self.push.squared else 0.0
        return np.array([values.sum(), squares, ratios.max(initial=0.0), values[self._coincident].sum()])

    @cached
    def _coincident(self) -> LongArray:
        """Candidate pairs of an impostor at the very place of its anchor."""
        C, group = self.candidates, self.push.duplicate_groups[self.examples]
        return np.flatnonzero(group[C.anchors[C.rows]] == group[C.impostors])

    def bound(self, sums: FloatArray, largest: float) -> float:
        """Return the bound that multipliers with these sums prove, given the largest eigenvalue of ``sum a_t B_t``."""
        total, squares, peak, at_anchors = sums.tolist()
        headroom = self.weight / peak if peak > 0.0 else math.inf
        squares = squares if self.push.squared else None
        return best_multiple_bound(total, squares, largest, self.weight, headroom, at_anchors)[0]
