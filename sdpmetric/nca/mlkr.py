"""Metric learning for kernel regression (MLKR): the statement, with NCA's probabilities for continuous targets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sdpmetric.arrays import FloatArray
from sdpmetric.core.sample_weight import check_sample_weight
from sdpmetric.engine.cached import cached
from sdpmetric.nca import loops
from sdpmetric.nca.soft_neighbors import SoftNeighborProblem, Value, check_soft, check_targets


@dataclass(init=False, eq=False, repr=False)
class MLKRProblem(SoftNeighborProblem):
    """Metric learning for kernel regression (Weinberger and Tesauro 2007) [WT2007].

    The target of example i is predicted from all others by a Gaussian kernel of their distances under the metric, and
    the sum of the squared errors is minimized over factors L of r rows::

        sum_i (y_i - yhat_i)^2,   yhat_i = sum_{j != i} p_ij y_j,   p_ij = exp(-D_ij) / sum_{k != i} exp(-D_ik)

    where ``D_ij`` is the squared distance of ``L x_i`` and ``L x_j``: the leave-one-out error of kernel regression,
    with NCA's probabilities; the width of the kernel is part of L. It is not convex, and the certificate states only
    how nearly stationary a point is.

    Parameters
    ----------
    X : (n, d) array
        Finite numbers; float32 is accepted as it is, and all sums are in float64.
    y : (n,) array
        Continuous targets, finite, not all equal.
    n_components : int, optional
        Rows of L that solvers start with, between 1 and d; default d.
    diagonal : bool, default False
        Whether L is a diagonal (d, d) matrix: one weight for each feature.
    sample_weight : (n,) array, optional
        Nonnegative weights of the examples' errors. As neighbors all examples count alike.

    Attributes
    ----------
    X : (n, d) array
    targets : (n,) float64 array
    n_components : int
    diagonal : bool
    sample_weight : (n,) array or None

    Raises
    ------
    ValueError
        If data or targets are not finite, the targets are all equal, or an option is out of range.

    Examples
    --------
    >>> import sdpmetric as sm
    >>> X, y = sm.datasets.load("iris")
    >>> targets = X[:, 2] + 0.1 * X[:, 0]
    >>> sm.solve(sm.MLKRProblem(X, targets, n_components=2), max_iter=20).components.shape
    (2, 4)
    """

    statement: ClassVar[str] = "mlkr"

    X: NDArray[np.floating]
    targets: FloatArray
    n_components: int
    diagonal: bool
    sample_weight: FloatArray | None

    def __init__(
        self,
        X: ArrayLike,
        y: ArrayLike,
        n_components: int | None = None,
        *,
        diagonal: bool = False,
        sample_weight: ArrayLike | None = None,
    ) -> None:
        data, rank = check_soft(X, n_components, diagonal)
        self.X, self.targets = data, check_targets(y, len(data))
        self.n_components, self.diagonal = rank, bool(diagonal)
        self.sample_weight = check_sample_weight(sample_weight, len(data))

    @classmethod
    def from_labels(
        cls, X: ArrayLike, y: ArrayLike, n_components: int | None = None, *, sample_weight: ArrayLike | None = None
    ) -> MLKRProblem:
        """State MLKR; y are continuous targets. Parameters as in the constructor."""
        return cls(X, y, n_components, sample_weight=sample_weight)

    def describe(self) -> str:
        n, d = self.X.shape
        form = "diagonal factor" if self.diagonal else f"{self.n_components} components"
        return (
            f"MLKR (Weinberger and Tesauro 2007), squared leave-one-out errors: {n:,} examples, {d} features, "
            f"continuous targets, {form}"
        )

    @cached
    def value(self) -> Value:
        """The squared error of the mean of the neighbors' targets, which are taken minus their own mean."""
        y = np.asarray(self.targets - self.targets.mean())
        return Value(loops.SQUARED_ERROR, y, 0.0, float(self.example_weights @ y**2), "MLKR")

    def predictions(self, components: ArrayLike) -> FloatArray:
        """The leave-one-out prediction of each example's target, (n,)."""
        return self.distribution(components) @ self.targets
