"""The active set of Algorithm 1: the triplets that searches have found, their slopes, and the gradient they make."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray, IndexArray
from sdpmetric.core.multipliers import Dual
from sdpmetric.linalg.distances import Blocks, distances, laplacian_form
from sdpmetric.solvers.lmnn.coordinates import Coordinates
from sdpmetric.triplets.margins import HingeSums, hinge_slopes, slope_pairs, target_distances
from sdpmetric.triplets.triplets import Candidates

Positions = NDArray[np.int64]


class ActiveSet:
    """The lists of Algorithm 1: N^(t), what searches have found, and N_t, those of them that are active.

    The slope of a triplet is the push weight times the derivative of its hinge: ``mu w_t`` if it is active and 0
    otherwise, or ``2 mu w_t`` times the hinge for the squared hinge.

    Parameters
    ----------
    coordinates : Coordinates
        Of c metrics over n examples with points in p dimensions.
    triplets : bool
        Whether N^(t) holds triplets, as in the paper: a target neighbor joins where its own hinge was positive in a
        search. Else it holds pairs of an anchor and an impostor, with all targets of the anchor.

    Attributes
    ----------
    candidates : Candidates
        The pairs of N^(t), by numbers of points.
    slopes : (nnz, K) array
        Of the triplets of N^(t); those of N_t are not 0.
    matrices : (c, p, p) array
        ``sum_t slope_t B_t``, so that the gradient is ``C - matrices``.
    loss : float
        Push weight times the hinges of N^(t).
    n_active : int
        Number of triplets in N_t.
    n_found : int
        Pairs that the last search found.
    """

    def __init__(self, coordinates: Coordinates, triplets: bool = False) -> None:
        self.push, self.points = coordinates.problem.push, coordinates.points
        self._coordinates, self._n = coordinates, len(coordinates.problem.X)
        self._n_metrics = len(coordinates.cost)
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
        found = self._find(Z, most)
        if found is None:
            return None
        old, self.n_found = self.candidates, len(found.impostors)
        # Every search lists the same rows, so that row and impostor name a pair; of equals the first, old one stays.
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

    def _find(self, Z: FloatArray, most: float) -> Candidates | None:
        """What is active at Z, by numbers of points; None if there are more pairs than that."""
        parts: list[list[Candidates]] = [[] for _ in range(self._n_metrics)]
        size = 0
        for metric, part in self._coordinates.near(Z):
            size += len(part.impostors)
            if size > most:
                return None
            parts[metric].append(part)
        n, regions = self._n, self._coordinates.problem.regions
        stacked = []
        for metric, own in enumerate(parts):
            C = Candidates.concatenate(own) if own else Candidates.none()
            shift = np.int32(metric * n)
            targets = np.where(C.targets >= 0, C.targets + np.int32(n) * regions[C.targets], np.int32(-1))
            stacked.append(Candidates(C.anchors + shift, targets, C.indptr, C.impostors + shift, C.weights))
        return Candidates.concatenate(stacked)

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
        near = target_distances(Z, self._bases(C), C.targets)
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

    def _bases(self, candidates: Candidates) -> IndexArray:
        """The anchor of each row under the metric of each target, (m, K): under one metric the anchor itself."""
        n = np.int32(self._n)
        bases: IndexArray = candidates.targets // n * n + candidates.anchors[:, None] % n
        return bases

    def _gradient(self, values: FloatArray) -> FloatArray:
        """``sum_t values_t B_t``, (c, p, p), at the cost of the points that are used."""
        C = self.candidates
        changed = np.asarray(values.any(axis=1))
        C, values = C.select(changed), values[changed]
        first, second, weights = slope_pairs(C, values, self._bases(C))
        used = np.zeros(len(self.points), dtype=bool)
        used[first] = used[second] = True
        place = np.cumsum(used, dtype=np.int32) - np.int32(1)
        points = np.flatnonzero(used)
        blocks = Blocks(np.searchsorted(points, self._n * np.arange(self._n_metrics + 1)).astype(np.int64))
        A = laplacian_form(self.points[points], place[first], place[second], weights, blocks)
        total: FloatArray = 0.5 * (A + np.swapaxes(A, 1, 2))
        return total

    # -- the lists as duals --------------------------------------------------------------------------------------------

    def dual(self, candidates: Candidates, values: FloatArray) -> Dual:
        """Multipliers of a list as the problem knows them, by numbers of examples."""
        C, n = candidates, np.int32(self._n)
        targets = np.where(C.targets >= 0, C.targets % n, np.int32(-1))
        return Dual(*Candidates(C.anchors % n, targets, C.indptr, C.impostors % n, C.weights).triplets(values))


def carried(values: FloatArray, positions: Positions, candidates: Candidates) -> FloatArray:
    """Values of the triplets of a list, for the list that it has become; 0 for new ones."""
    new = np.zeros((len(positions), candidates.targets.shape[1]))
    old = positions >= 0
    if len(values):
        new[old] = values[positions[old]]
    return new
