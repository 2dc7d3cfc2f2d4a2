"""LMNN problems in the coordinates that the projected subgradient method works in, with one metric or with several."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sdpmetric.problems.lmnn import LMNNProblem
from sdpmetric.problems.multi_lmnn import MultiMetricLMNNProblem
from sdpmetric.problems.pull import PullCost
from sdpmetric.problems.push import Push
from sdpmetric.triplets.triplets import Candidates

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.int32]

# Cost of a unit null direction where it is treated as all other directions: nearly 0, so that slopes
# along it prove little. The certificate of the problem takes it as 0.
NULL_COST = 1e-12


class Coordinates(Protocol):
    """``min sum_r <C^r, M^r> + hinges`` over c metrics, and the points that the hinges measure; c is 1 for one metric.

    Example i under metric r is point ``r n + i``.
    """

    @property
    def push(self) -> Push:
        """The hinges."""

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """Of the data, to which components are rounded."""

    @property
    def regions(self) -> IndexArray:
        """The metric that measures the pairs whose second member is example i, (n,)."""

    @property
    def points(self) -> FloatArray:
        """The examples under each metric, (c n, p)."""

    @property
    def cost(self) -> FloatArray:
        """The linear costs C, (c, p, p)."""

    def near(self, Z: FloatArray) -> Iterator[tuple[int, Candidates]]:
        """Search all triplets: yield, in bounded parts, each metric with its candidates, by numbers of examples.

        Parameters
        ----------
        Z : (c n, q) array
            Embedded points.
        """

    def lift(self, L: FloatArray) -> FloatArray:
        """Components in the coordinates of the data from factors (c, q, p)."""

    def whiten(self, matrices: FloatArray) -> FloatArray:
        """Matrices (c, p, p) in coordinates in which the costs are the identity."""


@dataclass(frozen=True, eq=False)
class OneMetric:
    """One metric, in coordinates that whiten its cost."""

    problem: LMNNProblem

    @property
    def push(self) -> Push:
        """The hinges."""
        return self.problem.push

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """Of the data."""
        return self.problem.X.dtype

    @property
    def regions(self) -> IndexArray:
        """Metric 0 for every example."""
        return np.zeros(len(self.problem.X), dtype=np.int32)

    @property
    def points(self) -> FloatArray:
        """The whitened data, (n, rank)."""
        return self.problem.points

    @property
    def cost(self) -> FloatArray:
        """The identity, (1, rank, rank)."""
        return np.eye(self.problem.coordinates.rank)[None]

    def near(self, Z: FloatArray) -> Iterator[tuple[int, Candidates]]:
        """See `Coordinates.near`."""
        for part in self.push.near(Z, self.problem.null_groups):
            yield 0, part

    def lift(self, L: FloatArray) -> FloatArray:
        """Components, (q', d), from a factor (1, q, rank)."""
        return self.problem.lift(L[0])

    def whiten(self, matrices: FloatArray) -> FloatArray:
        """The matrices themselves."""
        return matrices


@dataclass(frozen=True, eq=False)
class OneMetricAsGiven(OneMetric):
    """One metric, in the coordinates of the data, as Algorithm 1 is printed."""

    @property
    def points(self) -> FloatArray:
        """The centered data, (n, d)."""
        return self.problem.centered

    @property
    def cost(self) -> FloatArray:
        """``(1 - mu) sum C_ij + ridge I``, (1, d, d)."""
        return self.problem.pull_cost.matrix[None]

    def near(self, Z: FloatArray) -> Iterator[tuple[int, Candidates]]:
        """See `Coordinates.near`; null directions of the cost are directions as all others."""
        for part in self.push.near(Z):
            yield 0, part

    def lift(self, L: FloatArray) -> FloatArray:
        """The factor itself, (q, d)."""
        components: FloatArray = L[0]
        return components

    def whiten(self, matrices: FloatArray) -> FloatArray:
        """See `Coordinates.whiten`; null directions have a cost of `NULL_COST`."""
        return _whitened([self.problem.pull_cost], matrices)


@dataclass(frozen=True, eq=False)
class SeveralMetrics:
    """One metric for each region of examples, in coordinates that whiten each one's cost."""

    problem: MultiMetricLMNNProblem

    @property
    def push(self) -> Push:
        """The hinges."""
        return self.problem.push

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """Of the data."""
        return self.problem.X.dtype

    @property
    def regions(self) -> IndexArray:
        """Region of each example."""
        return self.problem.regions

    @property
    def points(self) -> FloatArray:
        """The whitened data of each region, one region after the other, (c n, rank)."""
        return np.concatenate(self.problem.regional_points)

    @property
    def cost(self) -> FloatArray:
        """The identity for each metric, (c, rank, rank)."""
        return np.stack([np.eye(points.shape[1]) for points in self.problem.regional_points])

    def near(self, Z: FloatArray) -> Iterator[tuple[int, Candidates]]:
        """See `Coordinates.near`."""
        return self.problem.regional_near(np.split(Z, self.problem.n_regions))

    def lift(self, L: FloatArray) -> FloatArray:
        """Components, (c, q', d)."""
        return self.problem.lift_regional(L)

    def whiten(self, matrices: FloatArray) -> FloatArray:
        """The matrices themselves."""
        return matrices


@dataclass(frozen=True, eq=False)
class SeveralMetricsAsGiven(SeveralMetrics):
    """One metric for each region, in the coordinates of the data."""

    @property
    def points(self) -> FloatArray:
        """The centered data, once for each region, (c n, d)."""
        return np.tile(self.problem.tied.centered, (self.problem.n_regions, 1))

    @property
    def cost(self) -> FloatArray:
        """The linear cost of each metric, (c, d, d)."""
        return np.stack([cost.matrix for cost in self.problem.pull_costs])

    def near(self, Z: FloatArray) -> Iterator[tuple[int, Candidates]]:
        """See `Coordinates.near`; null directions of the costs are directions as all others."""
        embedded = np.split(Z, self.problem.n_regions)
        return self.problem.found(embedded, self.problem.near(embedded))

    def lift(self, L: FloatArray) -> FloatArray:
        """The factors themselves, (c, q, d)."""
        return L

    def whiten(self, matrices: FloatArray) -> FloatArray:
        """See `Coordinates.whiten`; null directions have a cost of `NULL_COST`."""
        return _whitened(self.problem.pull_costs, matrices)


def _whitened(costs: Sequence[PullCost], matrices: FloatArray) -> FloatArray:
    """Matrices (c, d, d) in coordinates that whiten each cost."""
    found = np.zeros_like(matrices)
    for cost, matrix, out in zip(costs, matrices, found, strict=True):
        null = cost.coordinates.null
        T = np.concatenate([cost.coordinates.range, null / math.sqrt(NULL_COST)], axis=1)
        out[: T.shape[1], : T.shape[1]] = T.T @ matrix @ T
    return found
