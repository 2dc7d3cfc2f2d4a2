"""The part of an LMNN problem that a factored iterate can feel: candidates of some anchors, and the points they use.

In the coordinates of `LMNNProblem.points` the pull cost is ``trace(M)``, so that points without candidates drop out.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sdpmetric import kernels
from sdpmetric.distances import hinge_slopes, slope_adjoint
from sdpmetric.neighbors import Candidates
from sdpmetric.problems.lmnn import LMNNProblem
from sdpmetric.solution import Dual

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.int32]


@dataclass(frozen=True)
class Value:
    """The smoothed problem at a factor.

    Attributes
    ----------
    smoothed : float
        The objective with the smoothed hinge; what L-BFGS minimises.
    gradient : (r, rank) array
        Its gradient in the factor.
    objective : float
        With the hinge itself, over the candidates: exact right after a search, too low later on.
    n_active : int
        Candidate triplets with a positive hinge.
    """

    smoothed: float
    gradient: FloatArray
    objective: float
    n_active: int


@dataclass(frozen=True)
class Multipliers:
    """Slopes of the smoothed hinges at a factor: a dual candidate.

    Attributes
    ----------
    values : (nnz, K) array
        One for each candidate triplet, push weight included.
    matrix : (rank, rank) array
        ``sum a_t B_t`` in whitened coordinates, where dual feasibility is ``matrix <= I``.
    loss : float
        The push term of the objective at the factor, over the candidates, without smoothing.
    """

    values: FloatArray
    matrix: FloatArray
    loss: float

    @property
    def total(self) -> float:
        """``sum a``."""
        return float(self.values.sum())


@dataclass
class WorkingSet:
    """Candidates of some anchors, on the points that they use.

    Parameters
    ----------
    problem : LMNNProblem
    anchors : (m,) int32 array
        Every example stays a possible impostor. The push term is scaled up to all anchors.
    dtype : numpy dtype, default float64
        Precision of the evaluations.
    """

    problem: LMNNProblem
    anchors: IndexArray
    dtype: type[np.floating] = np.float64
    candidates: Candidates = field(init=False)
    used: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        self._points = self.problem.points.astype(self.dtype, copy=False)
        self.weight = self.problem.push_weight * len(self.problem.X) / len(self.anchors)

    @property
    def whole(self) -> bool:
        """Whether every example is an anchor, so that objectives and bounds are those of the problem."""
        return len(self.anchors) == len(self.problem.X)

    def search(self, L: FloatArray, widen: float) -> None:
        """Search exhaustively around a factor, and keep only the points that the candidates use."""
        found = self.problem.candidates(self._points @ L.T.astype(self.dtype), widen=widen, among=self.anchors)
        counts = np.diff(found.indptr)
        busy = counts > 0
        anchors, targets = found.anchors[busy], found.targets[busy]
        used = np.zeros(len(self._points), dtype=bool)
        for index in (anchors, found.impostors, targets[targets >= 0]):
            used[index] = True
        place = np.cumsum(used, dtype=np.int32) - np.int32(1)
        self.used = np.flatnonzero(used)
        self.candidates = Candidates(
            place[anchors],
            np.where(targets >= 0, place[targets], np.int32(-1)),
            np.concatenate([[0], np.cumsum(counts[busy])]),
            place[found.impostors],
            found.weights,
        )
        self._bounds = self.candidates.bounds(kernels.thread_count())
        self.X = np.ascontiguousarray(self._points[self.used])

    def embed(self, L: FloatArray) -> NDArray[np.floating]:
        """Embedded points that the candidates use, in the set's precision."""
        Lt = np.ascontiguousarray(L.T, dtype=self.dtype)
        if self._small(L):
            return self.X @ Lt
        Z = np.empty((len(self.X), len(L)), dtype=self.dtype)
        kernels.rows_times(self.X, Lt, Z, kernels.thread_count())
        return Z

    def value(self, L: FloatArray, gamma: float) -> Value:
        """Evaluate the smoothed objective and its gradient at a factor."""
        C, Z, squared = self.candidates, self.embed(L), self.problem.squared
        if self._small(L):
            Y, sums = np.empty(Z.shape, dtype=self.dtype), np.zeros((1, 3))
            kernels.smoothed_push_of_rows(
                Z, C.anchors, C.targets, C.indptr, C.impostors, C.weights, 0, len(C.anchors), gamma, squared, Y, sums[0]
            )
            push = Y.T @ self.X
        else:
            parts = np.empty((len(self._bounds) - 1, *Z.shape), dtype=self.dtype)
            sums = kernels.smoothed_push(
                Z, C.anchors, C.targets, C.indptr, C.impostors, C.weights, self._bounds, gamma, squared, parts
            )
            push = kernels.transposed_times(parts, self.X, kernels.thread_count())
        smooth, loss, active = sums.sum(axis=0)
        trace = float(np.sum(L**2))
        return Value(
            trace + self.weight * float(smooth),
            2.0 * (L + self.weight * push),
            trace + self.weight * float(loss),
            round(active),
        )

    def _small(self, L: FloatArray) -> bool:
        """Whether an evaluation is too short to wake a second thread for."""
        return int(len(self.candidates.impostors) + self.X.size) * len(L) <= kernels.SMALL_WORK

    def multipliers(self, L: FloatArray, gamma: float) -> Multipliers:
        """The slopes at a factor as a dual candidate."""
        sums, slopes = hinge_slopes(self.embed(L), self.candidates, gamma, self.problem.squared)
        slopes *= self.weight
        matrix = slope_adjoint(self.X, self.candidates, slopes)
        return Multipliers(slopes, matrix.astype(np.float64), self.weight * sums.loss)

    def dual(self, values: FloatArray) -> Dual:
        """Multipliers of candidate triplets under the row numbers of the problem."""
        used = self.used.astype(np.int32)
        C = self.candidates
        targets = np.where(C.targets >= 0, used[C.targets], np.int32(-1))
        own = Candidates(used[C.anchors], targets, C.indptr, used[C.impostors], C.weights)
        return Dual(*own.triplets(values))
