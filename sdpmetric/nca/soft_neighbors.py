"""What NCA and MLKR share: neighbors drawn by a softmax over squared distances, gradients, certificates."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist
from scipy.special import softmax
from sklearn.utils import column_or_1d

from sdpmetric.arrays import FloatArray, LongArray, allow_underflow
from sdpmetric.core import validation
from sdpmetric.core.certificate import Multipliers, StationarityCertificate
from sdpmetric.core.named import scaled_identity
from sdpmetric.core.problem import Problem
from sdpmetric.engine.lazy import cached, published
from sdpmetric.nca import loops


@dataclass(frozen=True, eq=False)
class ExampleValue:
    """The value of an example: its number in the loops, and what certificates say of sums of it."""

    loss: int  # as `sdpmetric.nca.loops` names it
    # (n,): numbers that it depends on, in the order of `SoftNeighborProblem.rows`; empty for classes
    targets: FloatArray
    lower_bound: float  # what no objective is below
    scale: float  # what the gradient of `SoftNeighborProblem.stationarity` is divided by
    program: str  # what certificates are of


class SoftNeighborProblem(Problem):
    """A statement about the neighbor that each example draws, smooth in the factor, but not convex.

    Example i chooses neighbor j with probability ``p_ij = exp(-D_ij) / sum_{k != i} exp(-D_ik)``, with ``D_ij`` the
    squared distance of ``L x_i`` and ``L x_j``. The certificate states only how nearly stationary a point is.

    Attributes
    ----------
    X : (n, d) array
    n_components : int
        Rows of L that solvers start with.
    diagonal : bool
        Whether L is a diagonal (d, d) matrix.
    sample_weight : (n,) array or None
        Weight of each example's value in the sum, default 1. As neighbors all examples count alike.
    """

    solver_modules: ClassVar[tuple[str, ...]] = ("sdpmetric.nca.solver",)

    n_components: int
    diagonal: bool
    sample_weight: FloatArray | None

    @property
    def start(self) -> FloatArray:
        """See `Problem.start`: as many of the features as there are components, those of the widest range."""
        return scaled_identity(self.X, self.n_components)

    @property
    @abstractmethod
    def value(self) -> ExampleValue:
        """The kind of value that each example has."""

    @property
    def row_classes(self) -> NDArray[np.int32] | None:
        """Class of each of the `rows`, or None without classes."""
        return None

    @published
    def order(self) -> LongArray:
        """Example ``order[a]`` is row a of `rows`, (n,)."""
        return np.arange(len(self.X))

    @published
    def rows(self) -> FloatArray:
        """The data in `order`, minus their mean, float64, (n, d)."""
        X = np.asarray(self.X, dtype=np.float64)
        return np.ascontiguousarray((X - X.mean(axis=0))[self.order])

    @published
    def spans(self) -> tuple[LongArray, LongArray]:
        """First and last but one row of the class of each of the `rows`, two (n,) arrays."""
        labels = self.row_classes
        if labels is None:
            return np.zeros(len(self.X), dtype=np.int64), np.zeros(len(self.X), dtype=np.int64)
        return np.searchsorted(labels, labels, "left"), np.searchsorted(labels, labels, "right")

    @allow_underflow
    def objective(self, components: ArrayLike | None = None, *, metric: ArrayLike | None = None) -> float:
        L, _ = self.check_point(components, metric)
        return self._evaluate(L, None, False)[0]

    def value_and_gradient(
        self, components: ArrayLike, anchors: NDArray[np.integer] | None = None
    ) -> tuple[float, FloatArray]:
        """Return the objective and its gradient in the factor, (r, d); zero off the diagonal if the factor is diagonal.

        Time is O(n^2 r), memory O((b + r + d) n) for blocks of b rows.

        Parameters
        ----------
        components : (r, d) array
            Factor L.
        anchors : (m,) integer array, optional
            Examples to sum the terms of, each in full: m / n of the work; default all.
        """
        L, _ = self.check_point(components, None)
        return self._evaluate(L, anchors, True)

    def _evaluate(
        self, L: FloatArray, anchors: NDArray[np.integer] | None, differentiate: bool
    ) -> tuple[float, FloatArray]:
        if anchors is None and np.array_equal(L, self._last[0]):
            return self._last[1], self._last[2].copy()
        anchor_rows = None if anchors is None else np.argsort(self.order)[np.asarray(anchors)]
        stated = self.spans, self.value.targets, self.value.loss, self._row_weights
        value, gradient = loops.evaluate(self.rows, L, *stated, anchor_rows, differentiate)
        gradient = np.diag(np.diag(gradient)) if self.diagonal and differentiate else gradient
        if anchors is None and differentiate:  # a solver's last point is what is certified next
            self._last[:] = L.copy(), value, gradient.copy()
        return value, gradient

    @published
    def example_weights(self) -> FloatArray:
        """Weights of the examples' values, (n,)."""
        return np.ones(len(self.X)) if self.sample_weight is None else self.sample_weight

    @cached
    def _row_weights(self) -> FloatArray:
        return self.example_weights[self.order]

    @cached
    def _last(self) -> list[Any]:
        """The latest full evaluation: factor, value and gradient."""
        return [None, 0.0, self.rows[:0]]

    def distribution(self, components: ArrayLike) -> FloatArray:
        """Return the probabilities ``p_ij``, to look at, (n, n); 0 for an example with itself.

        Parameters
        ----------
        components : (r, d) array
        """
        L, _ = self.check_point(components, None)
        Z = self.centered @ L.T
        D = cdist(Z, Z, "sqeuclidean")
        np.fill_diagonal(D, np.inf)
        return np.asarray(softmax(-D, axis=1))

    @allow_underflow
    def certify(
        self, components: ArrayLike | None = None, *, metric: ArrayLike | None = None, dual: Multipliers | None = None
    ) -> StationarityCertificate:
        """Certify any point: objective, the least for a lower bound, and the gradient's relative norm.

        See `Problem.certify`; there are no multipliers.
        """
        L, primal_residual = self.check_point(components, metric)
        value, gradient = self._evaluate(L, None, True)
        return StationarityCertificate(
            objective=value,
            lower_bound=self.value.lower_bound,
            primal_residual=primal_residual,
            stationarity=self.stationarity(L, gradient),
            program=self.value.program,
        )

    def stationarity(self, components: FloatArray, gradient: FloatArray) -> float:
        """Return ``|gradient| |L|`` over a scale, Frobenius norms: what a relative change of L brings; no units."""
        return float(np.linalg.norm(gradient) * np.linalg.norm(components)) / self.value.scale

    def check_point(self, components: ArrayLike | None, metric: ArrayLike | None) -> tuple[FloatArray, float]:
        """See `Problem.check_point`; for a diagonal factor the point must be diagonal, too."""
        L, residual = super().check_point(components, metric)
        if not self.diagonal:
            return L, residual
        name, point = ("components", L) if metric is None else ("metric", np.asarray(metric, dtype=np.float64))
        weights, d = np.diag(point), self.X.shape[1]
        rounding = 1e-12 * np.abs(point).max(initial=0.0)
        if point.shape != (d, d) or np.abs(point - np.diag(weights)).max(initial=0.0) > rounding:
            raise ValueError(f"{name} must be a diagonal ({d}, {d}) matrix, as the problem has diagonal=True.")
        return (L if metric is None else np.diag(np.sqrt(np.maximum(weights, 0.0)))), residual


def check_soft(X: ArrayLike, n_components: int | None, diagonal: bool) -> tuple[NDArray[np.floating], int]:
    data = validation.check_examples(X)
    n, d = data.shape
    if n < 2:
        raise ValueError("X has one row; an example needs another one that it can choose; pass at least two.")
    rank = validation.check_integer("n_components", d if n_components is None else n_components, high=d)
    if diagonal and rank != d:
        raise ValueError(f"a diagonal factor has {d} rows, one per feature; leave n_components={rank} out.")
    return data, rank


def check_regression_targets(y: ArrayLike, n: int) -> FloatArray:
    try:
        values = np.asarray(column_or_1d(validation.numbers("y", y), warn=False), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"y must be one number per row, a continuous target ({error}).") from error
    validation.check_count("y", len(values), n)
    if not np.isfinite(values).all():
        raise ValueError("y contains NaN or infinity; drop those rows.")
    if (values == values[0]).all():
        raise ValueError("y is constant; without differences nothing can be learned.")
    return values
