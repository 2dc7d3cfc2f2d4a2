"""The triplets that cost something, their slopes, and the lower bounds that averages of slopes prove."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from sdpmetric.core.multipliers import Dual
from sdpmetric.linalg import psd
from sdpmetric.problems.lmnn import LMNNProblem
from sdpmetric.triplets.margins import HingeSums, hinge_slopes, slope_adjoint
from sdpmetric.triplets.triplets import Candidates

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Multipliers:
    """A dual candidate: a multiplier for each triplet of a candidate set, and the sums that its lower bound needs.

    Attributes
    ----------
    candidates : Candidates
    values : (nnz, K) array
        The multipliers ``a_t``, nonnegative.
    pushed : (rank, rank) array
        ``sum_t a_t B_t`` in the whitened coordinates.
    total : float
        ``sum_t a_t``.
    peak : float
        The largest ``a_t / (mu w_t)``; above 1 a multiplier leaves its box.
    squares : float or None
        ``sum_t a_t^2 / (4 mu w_t)`` for the squared hinge, which has no box.
    """

    candidates: Candidates
    values: FloatArray
    pushed: FloatArray
    total: float
    peak: float
    squares: float | None

    @cached_property
    def bound(self) -> float:
        """The lower bound from the best multiple of the multipliers."""
        if self.total <= 0:
            return 0.0
        top = psd.largest_eigenvalue(self.pushed)
        scaling = 1.0 / (top * (1 + 1e-13)) if top > 0 else math.inf
        if self.squares is None:
            return min(scaling, 1.0 / self.peak) * self.total
        scaling = min(scaling, self.total / (2 * self.squares))  # a parabola along the multiple
        return scaling * (self.total - scaling * self.squares)

    def share_of(self, other: Multipliers) -> float:
        """The share of another candidate, in [0, 1], at which a mixture of the two proves most.

        Peak and squares are convex along the way, so that interpolating them errs on the safe side.
        """

        def loss(share: float) -> float:
            def mix(own: float, others: float) -> float:
                return (1 - share) * own + share * others

            squares = None
            if self.squares is not None and other.squares is not None:
                squares = mix(self.squares, other.squares)
            pushed = (1 - share) * self.pushed + share * other.pushed
            mixed = replace(
                self,
                pushed=pushed,
                total=mix(self.total, other.total),
                peak=mix(self.peak, other.peak),
                squares=squares,
            )
            return -mixed.bound

        return float(minimize_scalar(loss, bounds=(0, 1), method="bounded", options={"xatol": 1e-3, "maxiter": 12}).x)

    def dual(self) -> Dual:
        """List the multipliers, for the problem to judge."""
        return Dual(*self.candidates.triplets(self.values))


class ActiveSet:
    """The triplets that exhaustive searches have found, their slopes at the current metric, and averages of those.

    Parameters
    ----------
    problem : LMNNProblem

    Attributes
    ----------
    candidates : Candidates
        What was found, less what a restart dropped.
    slopes : (nnz, K) array
        Push weight times the slope of each triplet's loss.
    pushed : (rank, rank) array
        ``sum_t slope_t B_t`` in the whitened coordinates, kept up to date by what changes (Eq. 19).
    sums : HingeSums
        At the current metric.
    best : Multipliers
        The best dual candidate so far.
    """

    def __init__(self, problem: LMNNProblem) -> None:
        self.problem = problem
        nothing, none = np.zeros((problem.coordinates.rank,) * 2), np.zeros((0, 1))
        self.candidates, self._rows = no_candidates(), np.zeros(0, dtype=np.int64)
        self.slopes: FloatArray = none
        self.pushed: FloatArray = nothing
        self.sums = HingeSums(0.0, 0.0, 0.0, 0)
        self.best = self._multipliers(none, nothing)
        self._weight = 0.0
        self._slope_sums: FloatArray = none
        self._pushed_sum: FloatArray = nothing

    def evaluate(self, Z: FloatArray, *, search: bool = False) -> float:
        """Update slopes and gradient for the embedded points Z.

        Parameters
        ----------
        Z : (n, r) array
        search : bool, default False
            Search all triplets first and add those that are active at Z.

        Returns
        -------
        loss : float
            Push weight times the loss: over all triplets after a search, over the active set otherwise.
        """
        if search:
            self._add(self.problem.candidates(Z))
        mu = self.problem.push_weight
        self.sums, slopes = hinge_slopes(Z, self.candidates, 0.0, self.problem.squared)
        slopes *= mu
        change = slopes - self.slopes
        self.slopes = slopes
        if search:  # afresh, now and then, lest rounding add up
            self.pushed = slope_adjoint(self.problem.points, self.candidates, slopes)
        else:
            # A new array: multipliers that were kept hold on to the old one.
            self.pushed = self.pushed + self._sum(np.flatnonzero(change.any(axis=1)), change)
        return mu * self.sums.loss

    def _sum(self, pairs: NDArray[np.int64], values: FloatArray) -> FloatArray:
        """``sum_t values_t B_t`` over some of the pairs."""
        points, C = self.problem.points, self.candidates
        if len(pairs) > len(points):
            keep = np.zeros(len(values), dtype=bool)
            keep[pairs] = True
            return slope_adjoint(points, C.select(keep), values[pairs])
        # So few that one small matrix product is cheaper than a graph Laplacian.
        values = values[pairs]
        pair, slot = np.nonzero(values)
        rows = self._rows[pairs]
        anchors = points[C.anchors[rows]]
        far = anchors - points[C.impostors[pairs]]
        near = anchors[pair] - points[C.targets[rows[pair], slot]]
        total: FloatArray = far.T @ (values.sum(axis=1)[:, None] * far) - near.T @ (values[pair, slot][:, None] * near)
        return total

    def _add(self, found: Candidates) -> None:
        """Merge newly found candidates into the set."""
        old, n = self.candidates, len(self.problem.points)
        # Every search lists the same rows, so that row and impostor name a pair; of equals the first, old one stays.
        rows = np.concatenate([self._rows, found.rows])
        impostors = np.concatenate([old.impostors, found.impostors])
        _, first = np.unique(rows * n + impostors, return_index=True)
        weights = found.weights
        if old.weights is not None and found.weights is not None:
            weights = np.concatenate([old.weights, found.weights])[first]
        indptr = np.searchsorted(rows[first], np.arange(len(found.anchors) + 1))
        news = np.zeros((len(found.impostors), found.targets.shape[1]))

        def merged(values: FloatArray) -> FloatArray:
            return np.concatenate([values, news])[first] if len(values) else news

        self._hold(Candidates(found.anchors, found.targets, indptr, impostors[first], weights), merged)

    def _hold(self, candidates: Candidates, carried: Callable[[FloatArray], FloatArray]) -> None:
        """Change the candidates, and carry over what is known of each triplet."""
        self.candidates, self._rows = candidates, candidates.rows
        self.slopes, self._slope_sums = carried(self.slopes), carried(self._slope_sums)
        self.best = replace(self.best, candidates=candidates, values=carried(self.best.values))

    def average(self, weight: float) -> None:
        """Count the slopes at the current metric with a weight in the averages."""
        if self._weight == 0 and weight == 0:
            weight = 1.0  # whatever the step rule thinks of it, one set of slopes is an average
        self._weight += weight
        self._slope_sums = self._slope_sums + weight * self.slopes
        self._pushed_sum = self._pushed_sum + weight * self.pushed

    def restart(self) -> None:
        """Forget the averages, and the pairs that neither they nor the best multipliers use."""
        keep = np.asarray((self._slope_sums + self.best.values).any(axis=1))
        self._hold(self.candidates.select(keep), lambda values: values[keep])
        self._weight = 0.0
        self._slope_sums, self._pushed_sum = np.zeros_like(self.slopes), np.zeros_like(self.pushed)

    def improve(self) -> Multipliers:
        """Move the best multipliers towards the averaged slopes, and towards the slopes at the current metric."""
        averaged = self._multipliers(self._slope_sums / self._weight, self._pushed_sum / self._weight)
        best = self.best
        for candidate in (averaged, self._multipliers(self.slopes, self.pushed)):
            if best.total == 0:
                best = candidate
            elif candidate.total > 0:
                share = best.share_of(candidate)
                mixed = self._multipliers(
                    (1 - share) * best.values + share * candidate.values,
                    (1 - share) * best.pushed + share * candidate.pushed,
                )
                best = max(best, candidate, mixed, key=lambda multipliers: multipliers.bound)
        self.best = best
        return best

    def _multipliers(self, values: FloatArray, pushed: FloatArray) -> Multipliers:
        C, mu = self.candidates, self.problem.push_weight
        relative = values / mu
        if C.weights is not None:
            relative = relative / np.where(C.weights > 0, C.weights, 1.0)[:, None]
        squares = float(np.sum(values * relative)) / 4 if self.problem.squared else None
        return Multipliers(C, values, pushed, float(values.sum()), float(relative.max(initial=0.0)), squares)


def no_candidates() -> Candidates:
    """The empty candidate set."""
    none = np.zeros(0, dtype=np.int32)
    return Candidates(none, np.zeros((0, 1), dtype=np.int32), np.zeros(1, dtype=np.int64), none)
