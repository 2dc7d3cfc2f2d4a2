"""The active set of Algorithm 1: the triplets that searches have found, their slopes, and the gradient they make."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray
from sdpmetric.core.certificate import Dual
from sdpmetric.core.triplets import Candidates
from sdpmetric.engine.cached import cached
from sdpmetric.linalg.distances import Blocks, distances, laplacian_form
from sdpmetric.lmnn.problem import LargeMarginProblem
from sdpmetric.lmnn.push import concatenated
from sdpmetric.lmnn.triplets.impostors import TooManyCandidates
from sdpmetric.lmnn.triplets.margins import HingeSums, hinge_slopes, slope_pairs

# Cost of a unit null direction where it is treated as all other directions: nearly 0, so slopes
# along it prove little. The certificate of the problem takes it as 0.
NULL_COST = 1e-12

Positions = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Coordinates:
    """``min sum_r <C^r, M^r> + hinges`` over c metrics, in coordinates that whiten each one's cost.

    Example i under metric r is point ``r n + i``; c is 1 for one metric.
    """

    problem: LargeMarginProblem

    @cached
    def points(self) -> FloatArray:
        """The examples under each metric, (c n, p): here the whitened data of each region."""
        return self.problem.points

    @cached
    def cost(self) -> FloatArray:
        """The linear costs C, (c, p, p): here the identity for each metric."""
        return np.stack([np.eye(self.points.shape[1])] * self.problem.n_regions)

    def candidates(self, Z: FloatArray, most: float) -> Candidates:
        """Search all triplets."""
        return self.problem.candidates(Z, max_pairs=most)

    def lift(self, L: FloatArray) -> FloatArray:
        """Components in the coordinates of the data from factors (c, q, p)."""
        return self.problem.lift(L)

    def whiten(self, matrices: FloatArray) -> FloatArray:
        """Matrices (c, p, p) in coordinates in which the costs are the identity: here these themselves."""
        return matrices


@dataclass(frozen=True, eq=False)
class CoordinatesAsGiven(Coordinates):
    """The same in the coordinates of the data, as Algorithm 1 is printed; null directions are as all others."""

    @cached
    def points(self) -> FloatArray:
        """The centered data, once for each metric, (c n, d)."""
        return concatenated([self.problem.centered] * self.problem.n_regions)

    @cached
    def cost(self) -> FloatArray:
        """``(1 - mu) sum C_ij + ridge I`` of each metric, (c, d, d)."""
        return np.stack([cost.matrix for cost in self.problem.pull_costs])

    def candidates(self, Z: FloatArray, most: float) -> Candidates:
        """See `Coordinates.candidates`."""
        return self.problem.push.candidates(Z, max_pairs=most)

    def lift(self, L: FloatArray) -> FloatArray:
        """The factors themselves."""
        return self.problem.squeeze(L)

    def whiten(self, matrices: FloatArray) -> FloatArray:
        """See `Coordinates.whiten`; null directions have a cost of `NULL_COST`."""
        found = np.zeros_like(matrices)
        for cost, matrix, out in zip(self.problem.pull_costs, matrices, found, strict=True):
            T = np.concatenate([cost.coordinates.range, cost.coordinates.null / math.sqrt(NULL_COST)], axis=1)
            out[: T.shape[1], : T.shape[1]] = T.T @ matrix @ T
        return found


class ActiveSet:
    """The lists of Algorithm 1: N^(t), what searches have found, and N_t, those of them that are active.

    The slope of a triplet is the push weight times the derivative of its hinge: ``mu w_t`` if it is active and 0
    otherwise, or ``2 mu w_t`` times the hinge for the squared hinge. The gradient is ``C - matrices``, with ``sum_t
    slope_t B_t`` of each metric, and `loss` is the push weight times the hinges of N^(t).

    With `triplets` N^(t) holds triplets, as in the paper: a target neighbor joins where its own hinge was positive in a
    search. Else it holds pairs of an anchor and an impostor, with all targets of the anchor.
    """

    def __init__(self, coordinates: Coordinates, triplets: bool = False) -> None:
        self.push, self.points = coordinates.problem.push, coordinates.points
        self._coordinates = coordinates
        self.candidates = Candidates.none()
        self._rows: Positions = np.zeros(0, dtype=np.int64)
        self.slopes: FloatArray = np.zeros((0, self.candidates.targets.shape[1]))
        self._listed: FloatArray | None = np.zeros_like(self.slopes) if triplets else None
        self.matrices: FloatArray = np.zeros_like(coordinates.cost)
        self.loss, self.n_active, self.n_found = 0.0, 0, 0

    @property
    def size(self) -> int:
        """Number of pairs of an anchor and a possible impostor on the list."""
        return len(self.candidates.impostors)

    @property
    def rows(self) -> int:
        """Number of anchors, times the number of metrics."""
        return len(self.candidates.anchors)

    # -- lines 7 and 8: search all triplets, and add what is active to the list ----------------------------------------

    def search(self, Z: FloatArray, most: float = np.inf) -> Positions | None:
        """Add all triplets that are active at the embedded points Z, unless there are too many."""
        try:
            found = self._coordinates.candidates(Z, most)
        except TooManyCandidates:
            return None
        old, self.n_found = self.candidates, len(found.impostors)
        # Every search lists the same rows, so row and impostor name a pair; of equals the first, old one stays.
        rows = np.concatenate([self._rows, found.rows])
        impostors = np.concatenate([old.impostors, found.impostors])
        _, first = np.unique(rows * len(self.points) + impostors, return_index=True)
        weights = found.weights
        if old.weights is not None and found.weights is not None:
            weights = np.concatenate([old.weights, found.weights])[first]
        indptr = np.searchsorted(rows[first], np.arange(len(found.anchors) + 1))
        self.candidates = Candidates(found.anchors, found.targets, indptr, impostors[first], weights)
        positions = np.where(first < len(self._rows), first, -1)
        self._follow(positions)
        return positions

    def drop(self, keep: NDArray[np.bool_]) -> Positions:
        """Take pairs off the list, and return where the others were on it."""
        self.candidates = self.candidates.select(keep)
        positions = np.flatnonzero(keep)
        self._follow(positions)
        return positions

    def _follow(self, positions: Positions) -> None:
        self._rows = self.candidates.rows
        self.slopes = carried(self.slopes, positions, self.candidates)
        if self._listed is not None:
            self._listed = carried(self._listed, positions, self.candidates)

    # -- lines 10 and 13: the active triplets of the list, and the gradient --------------------------------------------

    def update(self, Z: FloatArray, *, afresh: bool) -> None:
        """Find the active triplets of the list at the embedded points Z, and the gradient of their hinges (Eq. 19)."""
        C = self.candidates
        near = self.push.target_distances(Z, C)
        sums, slopes = hinge_slopes(Z, C, 0.0, self.push.squared, near)
        if self._listed is not None:
            if afresh:
                self._listed[slopes > 0.0] = 1.0
            elif (others := (slopes > 0.0) & (self._listed == 0.0)).any():
                sums = self._without(sums, Z, near, others)
                slopes[others] = 0.0
        slopes *= self.push.weight
        change = slopes if afresh else slopes - self.slopes
        difference = self._gradient(change)
        # A new array in both cases: multipliers of earlier iterations refer to the old one.
        self.matrices = difference if afresh else self.matrices + difference
        self.slopes, self.loss, self.n_active = slopes, self.push.weight * sums.loss, sums.n_active

    def _without(self, sums: HingeSums, Z: FloatArray, near: FloatArray, others: NDArray[np.bool_]) -> HingeSums:
        """Loss and number of the active triplets without those marked, (nnz, K), which are active."""
        C, (pair, slot) = self.candidates, np.nonzero(others)
        row = C.rows[pair]
        u = 1.0 + near[row, slot] - distances(Z, C.anchors[row], C.impostors[pair])
        weights = np.ones(len(pair)) if C.weights is None else C.weights[pair]
        more = float(weights @ (u * u if self.push.squared else u))
        return replace(sums, loss=max(0.0, sums.loss - more), n_active=sums.n_active - len(pair))

    def _gradient(self, values: FloatArray) -> FloatArray:
        """``sum_t values_t B_t``, (c, p, p), at the cost of the points that are used."""
        C = self.candidates
        changed = np.asarray(values.any(axis=1))
        C, values = C.select(changed), values[changed]
        first, second, weights = slope_pairs(C, values, self.push.anchors_by_target(C))
        used = np.zeros(len(self.points), dtype=bool)
        used[first] = used[second] = True
        place = np.cumsum(used, dtype=np.int32) - np.int32(1)
        points = np.flatnonzero(used)
        blocks = Blocks(np.searchsorted(points, self.push.blocks.bounds).astype(np.int64))
        A = laplacian_form(self.points[points], place[first], place[second], weights, blocks)
        total: FloatArray = 0.5 * (A + np.swapaxes(A, 1, 2))
        return total

    # -- the lists as duals --------------------------------------------------------------------------------------------

    def dual(self, candidates: Candidates, values: FloatArray) -> Dual:
        """Multipliers of a list as the problem knows them, by numbers of examples."""
        return Dual(*self.push.as_examples(candidates).triplets(values))


def carried(values: FloatArray, positions: Positions, candidates: Candidates) -> FloatArray:
    """Values of the triplets of a list, for the list that it has become; 0 for new ones."""
    new = np.zeros((len(positions), candidates.targets.shape[1]))
    old = positions >= 0
    if len(values):
        new[old] = values[positions[old]]
    return new
