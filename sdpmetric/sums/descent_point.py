"""The unknowns F of a sum of terms in a solver's coordinates T: a factor of the metric, or roots of weights.

A factor (r, p) means ``L = F T^T B`` for the basis B of the domain, roots of weights (k,) mean ``L = diag(F) T^T B``.
With the slack matrix S, the gradient of the smoothed sum by the metric, the gradient by a factor is ``2 L S B^T T``. It
does not see directions in which F is 0: those in which S is negative are added to a factor after each level.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from sdpmetric.arrays import FloatArray
from sdpmetric.engine.cached import cached
from sdpmetric.linalg.distances import times
from sdpmetric.sums.bound_terms import BoundTerms
from sdpmetric.sums.problem import MetricProblem
from sdpmetric.sums.slack import ByLoss

NEGLIGIBLE_ROW = 1e-5  # share of the longest row of a factor: shorter ones are dropped
NEW_ROW = 1e-3  # its share that a new row has
SMALLEST_FALL = 1e-9  # of the slack matrix: directions with eigenvalues below minus this share are added
INITIAL_WIDTH = 1.0  # the smoothing width of the slopes at given components


@dataclass
class Point(ABC):
    """A metric ``L^T L`` of the domain."""

    problem: MetricProblem
    T: FloatArray
    F: FloatArray
    total: BoundTerms

    @classmethod
    def of(cls, problem: MetricProblem, init: FloatArray | None) -> Point:
        """The components (r, d) to start from, or those at which descent starts."""
        T, multiple, _ = problem.descent_start
        is_diagonal = problem.domain.diagonal
        kind, identity = (Weights, np.ones(len(T))) if is_diagonal else (Factor, np.eye(T.shape[1]))
        point = kind(problem, T, multiple * identity, problem.total)
        if init is not None:
            point.move_to(init)
        return point

    @cached
    def map(self) -> FloatArray:
        """``T^T B``, B the basis of the domain, (p, d)."""
        return self.T.T @ self.problem.domain.basis

    @abstractmethod
    def move_to(self, components: FloatArray) -> None:
        """Start near given components (r, d), with a share of every direction in which the objective may fall."""

    @abstractmethod
    def components(self, F: FloatArray) -> FloatArray:
        """L in the data's coordinates, (r, d)."""

    @abstractmethod
    def gradient(self, L: FloatArray, S: FloatArray) -> FloatArray:
        """By F, at its components and slack matrix."""

    @abstractmethod
    def residual(self, L: FloatArray, S: FloatArray) -> float:
        """The Frobenius norm of ``L S L^T``, which is 0 where F is stationary; of weights, of its diagonal."""

    @abstractmethod
    def escape(self, S: FloatArray) -> None:
        """Drop what is negligible, and add directions in which the objective falls."""

    def smoothed(self, F: FloatArray, width: float, center: ByLoss | None) -> tuple[float, ByLoss, FloatArray]:
        """The smoothed sum, the slopes of the losses, and the slack matrix (d, d)."""
        return self.total.smoothed(self.components(F), width, center)


class Factor(Point):
    """A factor: ``L = F T^T B``, F (r, p)."""

    def move_to(self, components: FloatArray) -> None:
        F: FloatArray = np.linalg.lstsq(self.map.T, components.T, rcond=None)[0].T.astype(np.float64)
        if self.problem.total.barrier or not F.any():
            self.F = np.concatenate([F, NEW_ROW * (np.linalg.norm(F) or 1.0) * np.eye(self.T.shape[1])])
        else:
            self.F = F
            self.escape(self.smoothed(F, INITIAL_WIDTH, None)[2])

    def components(self, F: FloatArray) -> FloatArray:
        return times(F, self.map)

    def gradient(self, L: FloatArray, S: FloatArray) -> FloatArray:
        return 2.0 * times(L @ S, self.map.T)

    def residual(self, L: FloatArray, S: FloatArray) -> float:
        return float(np.linalg.norm(L @ S @ L.T))

    def escape(self, S: FloatArray) -> None:
        if self.problem.total.barrier:
            self._whiten()
            return  # every direction is there already
        S = times(times(S, self.map.T).T, self.map.T)
        size, steepest = float(np.linalg.norm(self.F, 2)) or 1.0, float(np.abs(S).max(initial=0.0))
        eigenvalues, vectors = np.linalg.eigh(S)
        _, sigma, Vt = np.linalg.svd(self.F, full_matrices=False)
        long = sigma > NEGLIGIBLE_ROW * size
        falling = vectors[:, eigenvalues < -SMALLEST_FALL * steepest].T
        self.F = np.concatenate([sigma[long, None] * Vt[long], NEW_ROW * size * falling])

    def _whiten(self) -> None:
        """Coordinates in which the metric is I: there the curvature of LogDet is I, however long the metric is."""
        R = np.asarray(np.linalg.qr(self.F, mode="r"))
        if R.shape[0] != R.shape[1] or not np.diag(R).all():
            return
        before = self.T, self.F
        self.T, self.F = self.T @ R.T, np.eye(len(R))
        self.__dict__.pop("map", None)
        if not math.isfinite(self.smoothed(self.F, INITIAL_WIDTH, None)[0]):  # by rounding, where numbers are extreme
            self.T, self.F = before
            self.__dict__.pop("map", None)


class Weights(Point):
    """Roots of weights: ``M = sum_j F_j^2 b_j b_j^T``, b the rows of ``T^T B``, F (k,)."""

    def move_to(self, components: FloatArray) -> None:
        weights = self.problem.domain.combination(components.T @ components)
        roots = np.sqrt(weights) / np.maximum(np.diag(self.T), 1e-300)
        self.F = np.asarray(roots + NEW_ROW * (float(roots.max()) or 1.0))

    def components(self, F: FloatArray) -> FloatArray:
        return F[:, None] * self.map

    def gradient(self, L: FloatArray, S: FloatArray) -> FloatArray:
        return np.asarray(2.0 * np.einsum("ij,ij->i", L @ S, self.map))

    def residual(self, L: FloatArray, S: FloatArray) -> float:
        return float(np.linalg.norm(np.einsum("ij,ij->i", L @ S, L)))

    def escape(self, S: FloatArray) -> None:
        S = np.einsum("ij,ij->i", self.map @ S, self.map)
        size, steepest = float(np.abs(self.F).max(initial=0.0)) or 1.0, float(np.abs(S).max(initial=0.0))
        falling = (np.abs(self.F) < NEW_ROW * size) & (S + SMALLEST_FALL * steepest < 0.0)
        self.F = np.where(falling, NEW_ROW * size, self.F)
