"""The active set of Algorithm 1: the triplets that searches have found, their slopes, and the gradient they make.

The slope of a triplet is the push weight times the derivative of its hinge: ``mu w_t`` if it is active and 0 otherwise,
or ``2 mu w_t`` times the hinge for the squared hinge. The gradient is ``C - sum_t slope_t B_t``.

Slopes at single metrics prove little, as each hinge is active or not; their average, weighted by the steps that they
led to, converges to optimal multipliers. The error of its bound halves only if averages start again now and then. The
best multipliers are mixed with each average: sums of squares and largest ratios are convex along the segment between
the two, so a mixture of what the bound needs is enough to choose the best one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.optimize import minimize_scalar

from sdpmetric.arrays import BoolArray, FloatArray, IndexArray, LongArray
from sdpmetric.core.certificate import Dual
from sdpmetric.core.triplets import Candidates
from sdpmetric.engine.lazy import cached
from sdpmetric.linalg import psd
from sdpmetric.lmnn.costs import stacked_points
from sdpmetric.lmnn.impostors import TooManyCandidates
from sdpmetric.lmnn.problem import LargeMarginProblem
from sdpmetric.lmnn.solvers.hinges import Hinges

# Cost of a unit null direction where it is treated as all other directions: nearly 0, so slopes
# along it prove little. The certificate of the problem takes it as 0.
NULL_COST = 1e-12


@dataclass(frozen=True, eq=False)
class Coordinates:
    """``min sum_r <C^r, M^r> + hinges`` over c metrics, with each C the identity, or in the data's own coordinates.

    Example i under metric r is point ``r n + i``; c is 1 for one metric. In the data's own coordinates, as Algorithm 1
    is printed, null directions are as all others.
    """

    problem: LargeMarginProblem
    whitened: bool = True

    @cached
    def points(self) -> FloatArray:
        problem = self.problem
        return problem.points if self.whitened else stacked_points([problem.centered] * problem.n_regions)

    @cached
    def costs(self) -> FloatArray:
        if self.whitened:
            return np.stack([np.eye(self.points.shape[1])] * self.problem.n_regions)
        return np.stack([cost.matrix for cost in self.problem.pull_costs])

    @cached
    def groups(self) -> IndexArray | None:
        """Null directions separate impostors of another group, (c n,), or of none if None."""
        return self.problem.null_groups if self.whitened else None

    def lift(self, L: FloatArray) -> FloatArray:
        return self.problem.lift(L) if self.whitened else self.problem.squeeze(L)

    def largest_ratio(self, matrices: FloatArray) -> float:
        """Return the largest ``<B, M> / <C, M>`` of PSD matrices M, for matrices B, (c, p, p)."""
        whitened = list(matrices)
        if not self.whitened:
            transforms = [cost.coordinates for cost in self.problem.pull_costs]
            bases = [np.concatenate([T.range, T.null / math.sqrt(NULL_COST)], axis=1) for T in transforms]
            whitened = [V.T @ B @ V for V, B in zip(bases, matrices, strict=True)]
        return max(psd.largest_eigenvalue(B) for B in whitened)


class ActiveSet:
    """The lists of Algorithm 1: N^(t), what searches have found, and N_t, those of them that are active.

    With `by_triplet` N^(t) holds triplets, as in the paper: a target neighbor joins if its own hinge was positive in
    a search. Else it holds pairs of an anchor and an impostor, with all targets of the anchor.

    Attributes
    ----------
    hinges, slopes : Hinges and (nnz, K) array
        N^(t), and the slopes of N_t at the latest update, else 0.
    matrices : (c, p, p) array
        ``sum_t slope_t B_t`` of each metric.
    loss : float
        The push weight times the hinges of N^(t).
    n_active, n_searched : int
        Triplets of N_t, and pairs that the latest search met.
    """

    def __init__(self, coordinates: Coordinates, by_triplet: bool = False) -> None:
        self._push, self._points, self._groups = coordinates.problem.push, coordinates.points, coordinates.groups
        self._candidates = Candidates.none()
        self.hinges = Hinges.of(self._push, self._points, self._candidates)
        self.slopes: FloatArray = np.zeros(self.hinges.shape)
        self._member: FloatArray | None = np.zeros_like(self.slopes) if by_triplet else None
        self.matrices: FloatArray = np.zeros_like(coordinates.costs)
        self.loss, self.n_active, self.n_searched = 0.0, 0, 0

    @property
    def size(self) -> int:
        """Number of pairs of an anchor and a possible impostor on the list."""
        return len(self.slopes)

    @property
    def n_rows(self) -> int:
        """Number of anchors, times the number of metrics."""
        return len(self._candidates.anchors)

    # -- lines 7 and 8: search all triplets, and add what is active to the list ----------------------------------------

    def search(self, L: FloatArray, max_pairs: float = np.inf) -> LongArray | None:
        """Add all triplets that are active at factors; None, and nothing is added, for too many pairs.

        Returns the position that each pair had on the list, (nnz,), -1 for new pairs.
        """
        try:
            Z = self._push.blocks.times(self._points, np.swapaxes(L, 1, 2))
            new = self._push.candidates(Z, self._groups, max_pairs=max_pairs)
        except TooManyCandidates:
            return None
        old, self.n_searched = self._candidates, len(new.impostors)
        # Every search lists the same rows, so row and impostor name a pair; of equals the first, old one stays.
        rows = np.concatenate([old.rows, new.rows])
        impostors = np.concatenate([old.impostors, new.impostors])
        _, first = np.unique(rows * len(self._points) + impostors, return_index=True)
        weights = new.weights
        if old.weights is not None and new.weights is not None:
            weights = np.concatenate([old.weights, new.weights])[first]
        indptr = np.searchsorted(rows[first], np.arange(len(new.anchors) + 1))
        positions = np.where(first < len(old.impostors), first, -1)
        self._replace(Candidates(new.anchors, new.targets, indptr, impostors[first], weights), positions)
        return positions

    def drop(self, keep: BoolArray) -> LongArray:
        positions = np.flatnonzero(keep)
        self._replace(self._candidates.select(keep), positions)
        return positions

    def _replace(self, candidates: Candidates, positions: LongArray) -> None:
        self._candidates, self.hinges = candidates, Hinges.of(self._push, self._points, candidates)
        self.slopes = carried(self.slopes, positions, self.hinges)
        if self._member is not None:
            self._member = carried(self._member, positions, self.hinges)

    # -- lines 10 and 13: the active triplets of the list, and the gradient --------------------------------------------

    def update(self, L: FloatArray, *, after_search: bool) -> None:
        """Find the active triplets of the list at factors, and the gradient of their hinges (Eq. 19)."""
        losses, slopes = self.hinges.slopes(L)
        if self._member is not None:
            if after_search:
                self._member[slopes > 0.0] = 1.0
            losses, slopes = losses * self._member, slopes * self._member
        # A new array in both cases: multipliers of earlier iterations refer to the old one.
        if after_search:
            self.matrices = self.hinges.margin_sums(slopes)
        else:
            self.matrices = self.matrices + self.hinges.margin_sums(slopes - self.slopes)
        self.slopes, self.loss = slopes, float(losses.sum())
        self.n_active = int(np.count_nonzero(slopes))


def carried(values: FloatArray, positions: LongArray, hinges: Hinges) -> FloatArray:
    """Return values of the triplets of a list for its updated list, 0 for new triplets."""
    new = np.zeros(hinges.shape)
    old = positions >= 0
    if len(values):
        new[old] = values[positions[old]]
    return new


@dataclass(frozen=True)
class AverageOptions:
    share: float = 0.7  # the gap has fallen to this share of what it was when the average began,
    patience: int = 5  # searches without an improvement of the average's own bound


OPTIONS = AverageOptions()


@dataclass(frozen=True, eq=False)
class Multipliers:
    """A multiplier ``a >= 0`` for each triplet of a list, and what the lower bound needs of them."""

    values: FloatArray  # (nnz, K)
    matrices: FloatArray  # sum a_t B_t of each metric in the coordinates of the loop, (c, p, p)
    sums: FloatArray  # see `Hinges.sums`
    bound: float


class ErgodicDual:
    """Averages of the slopes of an active set, with the steps as weights, and the best multipliers made of them."""

    def __init__(self, active: ActiveSet, coordinates: Coordinates) -> None:
        self._active, self._coordinates = active, coordinates
        self._weight = 0.0
        self._values = np.zeros_like(active.slopes)
        self._matrices = np.zeros_like(active.matrices)
        self.best = self._multipliers(self._values, self._matrices)
        self._objective, self._first_gap = np.inf, np.inf
        self._idle_searches, self._patience, self._useful = 0, OPTIONS.patience, False

    @property
    def bound(self) -> float:
        return self.best.bound

    def multipliers(self) -> Callable[[], Dual]:
        """Return a function that lists the multipliers that prove the bound now."""
        return partial(self._active.hinges.dual, self.best.values)

    def add(self, step: float) -> None:
        """Count the slopes at the current metric in the average, weighted by the step that they lead to."""
        if self._weight == 0 and step == 0:
            step = 1.0  # one set of slopes is an average, whatever its weight
        self._weight += step
        self._values = self._values + step * self._active.slopes
        self._matrices = self._matrices + step * self._active.matrices

    def follow(self, positions: LongArray) -> None:
        """Carry over the values of each triplet to the list that the active set has now."""
        hinges = self._active.hinges
        self._values = carried(self._values, positions, hinges)
        self.best = replace(self.best, values=carried(self.best.values, positions, hinges))

    def improve(self, objective: float) -> bool:
        """Move the best multipliers toward the average and toward the slopes; whether the average is to start again."""
        old_bound, best = self.bound, self.best
        average = self._multipliers(self._values / self._weight, self._matrices / self._weight)
        for candidate in (average, self._multipliers(self._active.slopes, self._active.matrices)):
            if best.sums[0] == 0:
                best = candidate
            elif candidate.sums[0] > 0:
                best = max(best, candidate, self._mixture(best, candidate), key=lambda multipliers: multipliers.bound)
        self.best = best
        self._idle_searches = 0 if best.bound > old_bound else self._idle_searches + 1
        self._useful = self._useful or best.bound > old_bound
        self._objective = min(self._objective, objective)
        gap = self._objective - best.bound
        if not np.isfinite(self._first_gap):
            self._first_gap = gap
        return gap <= OPTIONS.share * self._first_gap or self._idle_searches >= self._patience

    def restart(self, *, drop: bool) -> None:
        """Forget the average; after one that was of no use the next has twice the time."""
        if drop:
            self.follow(self._active.drop(np.asarray((self._values + self.best.values).any(axis=1))))
        self._weight = 0.0
        self._values, self._matrices = np.zeros_like(self._values), np.zeros_like(self._matrices)
        self._first_gap = self._objective - self.bound
        self._patience = OPTIONS.patience if self._useful else 2 * self._patience
        self._idle_searches, self._useful = 0, False

    def _mixture(self, a: Multipliers, b: Multipliers) -> Multipliers:
        """Return ``(1 - s) a + s b`` with about the s of the best bound."""

        def mixed(s: float, x: FloatArray, y: FloatArray) -> FloatArray:
            return (1 - s) * x + s * y

        def loss(s: float) -> float:
            return -self._bound(mixed(s, a.matrices, b.matrices), mixed(s, a.sums, b.sums))

        best = minimize_scalar(loss, bounds=(0, 1), method="bounded", options={"xatol": 1e-3, "maxiter": 12})
        s = float(best.x)
        return self._multipliers(mixed(s, a.values, b.values), mixed(s, a.matrices, b.matrices))

    def _multipliers(self, values: FloatArray, matrices: FloatArray) -> Multipliers:
        sums = self._active.hinges.sums(values)
        return Multipliers(values, matrices, sums, self._bound(matrices, sums))

    def _bound(self, matrices: FloatArray, sums: FloatArray) -> float:
        return self._active.hinges.bound(sums, self._coordinates.largest_ratio(matrices))
