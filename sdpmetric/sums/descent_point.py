"""The unknowns of a sum of terms in a solver's coordinates: a factor of the metric, or weights of rank-one metrics."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sdpmetric.engine.cached import cached
from sdpmetric.sums.bound_terms import BoundTerms
from sdpmetric.sums.problem import MetricProblem

FloatArray = NDArray[np.float64]
Lists = list[FloatArray]

# Rows of the factor below this share of the longest are dropped; new ones have this share of it.
NEGLIGIBLE, NEW = 1e-5, 1e-3
# Eigenvalues of the slack matrix below minus this, relative to its size, are descended along.
ESCAPE = 1e-9
# The smoothing width of the slopes at given components.
WIDE = 1.0


@dataclass
class Point(ABC):
    """A metric ``L^T L`` of the domain."""

    problem: MetricProblem
    T: FloatArray
    F: FloatArray
    total: BoundTerms

    @classmethod
    def of(cls, problem: MetricProblem, init: FloatArray | None) -> Point:
        """The components (r, d) to start from, or the best multiple of the identity where costs are whitened."""
        T, multiple, _ = problem.moderate
        kind = Weights if problem.domain.diagonal else Factor
        point = kind(
            problem, T, multiple * (np.ones(len(T)) if problem.domain.diagonal else np.eye(T.shape[1])), problem.total
        )
        if init is not None:
            point.F = point.near(init)
        return point

    @cached
    def map(self) -> FloatArray:
        """``T^T B``, B the basis of the domain, (p, d)."""
        return self.T.T @ self.problem.domain.basis

    @abstractmethod
    def near(self, init: FloatArray) -> FloatArray:
        """Unknowns near given components (r, d), with a part in every direction."""

    @abstractmethod
    def components(self, F: FloatArray) -> FloatArray:
        """L in the data's coordinates, (r, d)."""

    @abstractmethod
    def smoothed(self, F: FloatArray, width: float, center: Lists | None) -> tuple[float, Lists, FloatArray]:
        """The smoothed sum, the slopes of the losses, and the slack matrix in coordinates, or its diagonal."""

    @abstractmethod
    def gradient(self, F: FloatArray, S: FloatArray) -> FloatArray:
        """By F, from the slack matrix of `smoothed`."""

    @abstractmethod
    def residual(self, F: FloatArray, S: FloatArray) -> float:
        """The Frobenius norm of ``F S F^T``, which is 0 where F is stationary; of weights, of ``F S F``."""

    @abstractmethod
    def escape(self, S: FloatArray) -> None:
        """Drop what is negligible, and add directions in which the objective falls."""


class Factor(Point):
    """A factor: ``L = F T^T B``, F (r, p)."""

    def near(self, init: FloatArray) -> FloatArray:
        """See `Point.near`; a part in every direction in which the objective falls is enough, but for barriers."""
        found: FloatArray = np.linalg.lstsq(self.map.T, init.T, rcond=None)[0].T.astype(np.float64)
        if self.problem.total.barrier or not found.any():
            return np.concatenate([found, NEW * (np.linalg.norm(found) or 1.0) * np.eye(self.T.shape[1])])
        self.F = found
        self.escape(self.smoothed(found, WIDE, None)[2])
        return self.F

    def components(self, F: FloatArray) -> FloatArray:
        """See `Point.components`."""
        return F @ self.map

    def smoothed(self, F: FloatArray, width: float, center: Lists | None) -> tuple[float, Lists, FloatArray]:
        """See `Point.smoothed`."""
        value, a, S = self.total.smoothed(self.components(F), width, center)
        return value, a, self._pinched(self.map @ S @ self.map.T)

    def gradient(self, F: FloatArray, S: FloatArray) -> FloatArray:
        """See `Point.gradient`."""
        return 2.0 * F @ S

    def residual(self, F: FloatArray, S: FloatArray) -> float:
        """See `Point.residual`."""
        return float(np.linalg.norm(F @ S @ F.T))

    def escape(self, S: FloatArray) -> None:
        """See `Point.escape`."""
        if self.problem.total.barrier:
            self._whiten()
            return  # every direction is there already
        rows = [np.zeros((0, self.F.shape[1]))]
        size, steepest = float(np.linalg.norm(self.F, 2)) or 1.0, float(np.abs(S).max(initial=0.0))
        for part in self.parts:
            values, vectors = np.linalg.eigh(S[np.ix_(part, part)])
            _, sigma, own = np.linalg.svd(self.F[:, part], full_matrices=False)
            kept = sigma > NEGLIGIBLE * size
            found = np.concatenate(
                [sigma[kept, None] * own[kept], NEW * size * vectors[:, values < -ESCAPE * steepest].T]
            )
            rows.append(np.zeros((len(found), self.F.shape[1])))
            rows[-1][:, part] = found
        self.F = np.concatenate(rows)

    def _whiten(self) -> None:
        """Coordinates in which the metric is I: there the curvature of LogDet is I, however long the metric is."""
        R = np.asarray(np.linalg.qr(self.F, mode="r"))
        if self.problem.domain.blocks or R.shape[0] != R.shape[1] or not np.diag(R).all():
            return
        before = self.T, self.F
        self.T, self.F = self.T @ R.T, np.eye(len(R))
        self.__dict__.pop("map", None)
        if not math.isfinite(self.smoothed(self.F, WIDE, None)[0]):  # by rounding, where numbers are extreme
            self.T, self.F = before
            self.__dict__.pop("map", None)

    @cached
    def parts(self) -> list[NDArray[np.intp]]:
        """The columns of T that belong to each block of the domain."""
        reached = [np.flatnonzero(self.T[part].any(axis=0)) for part in self.problem.domain.all_blocks]
        return reached if self.problem.domain.blocks else [np.arange(self.T.shape[1])]

    def _pinched(self, A: FloatArray) -> FloatArray:
        if not self.problem.domain.blocks:
            return A
        out = np.zeros_like(A)
        for part in self.parts:
            out[np.ix_(part, part)] = A[np.ix_(part, part)]
        return out


class Weights(Point):
    """Weights: ``M = sum_j F_j^2 b_j b_j^T``, b the rows of ``T^T B``, F (k,)."""

    def near(self, init: FloatArray) -> FloatArray:
        """See `Point.near`."""
        roots = np.sqrt(self.problem.domain.combination(init.T @ init)) / np.maximum(np.diag(self.T), 1e-300)
        return np.asarray(roots + 1e-3 * (float(roots.max()) or 1.0))

    def components(self, F: FloatArray) -> FloatArray:
        """See `Point.components`."""
        return F[:, None] * self.map

    def smoothed(self, F: FloatArray, width: float, center: Lists | None) -> tuple[float, Lists, FloatArray]:
        """See `Point.smoothed`."""
        value, a, S = self.total.smoothed(self.components(F), width, center)
        return value, a, np.einsum("ij,ij->i", self.map @ S, self.map)

    def gradient(self, F: FloatArray, S: FloatArray) -> FloatArray:
        """See `Point.gradient`."""
        return 2.0 * F * S

    def residual(self, F: FloatArray, S: FloatArray) -> float:
        """See `Point.residual`."""
        return float(np.linalg.norm(F * S * F))

    def escape(self, S: FloatArray) -> None:
        """See `Point.escape`."""
        size = float(np.abs(self.F).max(initial=0.0)) or 1.0
        falling = (np.abs(self.F) < NEW * size) & (S + ESCAPE * float(np.abs(S).max(initial=0.0)) < 0.0)
        self.F = np.where(falling, NEW * size, self.F)
