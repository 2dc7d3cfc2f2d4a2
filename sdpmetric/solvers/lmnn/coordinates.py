"""LMNN problems in the coordinates that the projected subgradient method works in, with one metric or with several."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sdpmetric.arrays import FloatArray
from sdpmetric.solvers.lmnn.regional import RegionalProblem
from sdpmetric.triplets.triplets import Candidates

# Cost of a unit null direction where it is treated as all other directions: nearly 0, so that slopes
# along it prove little. The certificate of the problem takes it as 0.
NULL_COST = 1e-12


@dataclass(frozen=True, eq=False)
class Coordinates:
    """``min sum_r <C^r, M^r> + hinges`` over c metrics, in coordinates that whiten each one's cost.

    Example i under metric r is point ``r n + i``; c is 1 for one metric.
    """

    problem: RegionalProblem

    @cached_property
    def points(self) -> FloatArray:
        """The examples under each metric, (c n, p): here the whitened data of each region."""
        return _joined(self.problem.regional_points)

    @cached_property
    def cost(self) -> FloatArray:
        """The linear costs C, (c, p, p): here the identity for each metric."""
        return np.stack([np.eye(points.shape[1]) for points in self.problem.regional_points])

    def near(self, Z: FloatArray) -> Iterator[tuple[int, Candidates]]:
        """Search all triplets: yield, in bounded parts, each metric with its candidates, by numbers of examples."""
        return self.problem.regional_near(np.split(Z, len(self.cost)))

    def lift(self, L: FloatArray) -> FloatArray:
        """Components in the coordinates of the data from factors (c, q, p)."""
        return self.problem.lift_regional(L)

    def whiten(self, matrices: FloatArray) -> FloatArray:
        """Matrices (c, p, p) in coordinates in which the costs are the identity: here these themselves."""
        return matrices


@dataclass(frozen=True, eq=False)
class CoordinatesAsGiven(Coordinates):
    """The same in the coordinates of the data, as Algorithm 1 is printed; null directions are as all others."""

    @cached_property
    def points(self) -> FloatArray:
        """The centered data, once for each metric, (c n, d)."""
        return _joined([cost.X for cost in self.problem.pull_costs])

    @cached_property
    def cost(self) -> FloatArray:
        """``(1 - mu) sum C_ij + ridge I`` of each metric, (c, d, d)."""
        return np.stack([cost.matrix for cost in self.problem.pull_costs])

    def near(self, Z: FloatArray) -> Iterator[tuple[int, Candidates]]:
        """See `Coordinates.near`."""
        return self.problem.regional_near(np.split(Z, len(self.cost)), together=True)

    def lift(self, L: FloatArray) -> FloatArray:
        """The factors themselves."""
        return self.problem.unstacked(L)

    def whiten(self, matrices: FloatArray) -> FloatArray:
        """See `Coordinates.whiten`; null directions have a cost of `NULL_COST`."""
        found = np.zeros_like(matrices)
        for cost, matrix, out in zip(self.problem.pull_costs, matrices, found, strict=True):
            T = np.concatenate([cost.coordinates.range, cost.coordinates.null / math.sqrt(NULL_COST)], axis=1)
            out[: T.shape[1], : T.shape[1]] = T.T @ matrix @ T
        return found


def _joined(parts: list[FloatArray]) -> FloatArray:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
