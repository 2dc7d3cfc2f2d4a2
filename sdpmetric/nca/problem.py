"""Neighborhood components analysis (NCA), and metric learning for kernel regression (MLKR): the statements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sdpmetric.arrays import FloatArray, LongArray
from sdpmetric.core import validation
from sdpmetric.core.sample_weight import check_sample_weight
from sdpmetric.engine.lazy import cached, published
from sdpmetric.nca import loops
from sdpmetric.nca.soft_neighbors import ExampleValue, SoftNeighborProblem, check_regression_targets, check_soft

Objective = Literal["probability", "log"]
Targets = Literal["classes", "continuous"]


@dataclass(init=False, eq=False, repr=False)
class NCAProblem(SoftNeighborProblem):
    """NCA as its paper states it (Goldberger, Roweis, Hinton and Salakhutdinov 2005) [GRHS2005], as a minimization.

    Example i chooses neighbor j with probability ``p_ij = exp(-D_ij) / sum_{k != i} exp(-D_ik)``, with ``D_ij`` the
    squared distance of ``L x_i`` and ``L x_j``. With ``p_i`` the probability that the neighbor matches, minimize over
    factors L of r rows::

        -sum_i p_i        (objective="probability", the paper's f with the sign changed)
        -sum_i log p_i    (objective="log", the paper's g with the sign changed)

    Neither is convex. The certificate states only how nearly stationary a point is.

    Parameters
    ----------
    X : (n, d) array
        Finite numbers; float32 is accepted as it is, and all sums are in float64.
    y : (n,) array
        Class labels of any kind; or numbers, if `targets` is "continuous".
    n_components : int, optional
        Rows of L that solvers start with, between 1 and d; default d.
    objective : {"probability", "log"}, default "probability"
        With "log", an example without a match (the only one of its class) is left out, since its term is infinite for
        every L; with "probability" its term is 0. It can still be chosen by others.
    diagonal : bool, default False
        Whether L is a diagonal (d, d) matrix: one weight for each feature.
    targets : {"classes", "continuous"}, default "classes"
        Whether j matches i if the labels agree, or, softly, by ``phi_ij = exp(-(y_i - y_j)^2 / (2 s^2))``, with
        ``p_i = sum_j phi_ij p_ij`` (section 5 of the paper).
    bandwidth : float, optional
        s, in the units of y, for continuous targets; default ``std(y) n^(-1/5)``.
    sample_weight : (n,) array, optional
        Nonnegative weights of the examples' terms. As neighbors all examples count alike.

    Attributes
    ----------
    index : (n,) int32 array
        Class of each example; zeros for continuous targets.
    classes : array
        Sorted class labels; empty for continuous targets.
    targets : (n,) float64 array
        Continuous targets in units of ``sqrt(2) s``; empty for classes.
    logarithm : bool
        Whether the objective is "log".
    bandwidth : float
        NaN for classes.

    Raises
    ------
    ValueError
        If an option is unknown or out of range.

    See Also
    --------
    MLKRProblem, sdpmetric.estimators.NCA

    Examples
    --------
    >>> import sdpmetric as sm
    >>> X, y = sm.datasets.load("iris")
    >>> found = sm.solve(sm.NCAProblem(X, y, n_components=2), max_iter=20)
    >>> found.certificate.kind, found.components.shape
    ('stationarity', (2, 4))
    >>> found.certificate.stationarity >= 0
    True
    """

    statement: ClassVar[str] = "nca"
    weights: ClassVar[tuple[str, ...]] = ("bandwidth",)

    X: NDArray[np.floating]
    index: NDArray[np.int32]
    classes: NDArray[np.generic]
    targets: FloatArray
    n_components: int
    logarithm: bool
    diagonal: bool
    bandwidth: float
    sample_weight: FloatArray | None

    def __init__(
        self,
        X: ArrayLike,
        y: ArrayLike,
        n_components: int | None = None,
        objective: Objective = "probability",
        *,
        diagonal: bool = False,
        targets: Targets = "classes",
        bandwidth: float | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> None:
        data, rank = check_soft(X, n_components, diagonal)
        n = len(data)
        validation.check_choice("objective", objective, ("probability", "log"))
        validation.check_choice("targets", targets, ("classes", "continuous"))
        classes: NDArray[np.generic] = np.zeros(0)
        index, scaled, width = np.zeros(n, dtype=np.int32), np.zeros(0), np.nan
        if targets == "classes":
            if bandwidth is not None:
                raise ValueError("bandwidth is for targets='continuous'; classes match or they do not: leave it out.")
            classes, index = validation.check_labels(y, n, n_classes=1)
        else:
            values = check_regression_targets(y, n)
            width = values.std() * n**-0.2 if bandwidth is None else bandwidth
            width = validation.check_number("bandwidth", width, np.finfo(np.float64).tiny)
            scaled = (values - values.mean()) / (np.sqrt(2) * width)
        weights = check_sample_weight(sample_weight, n)
        self.X, self.index, self.classes, self.targets = data, index, classes, scaled
        self.n_components, self.logarithm, self.diagonal = rank, objective == "log", bool(diagonal)
        self.bandwidth, self.sample_weight = width, weights

    @classmethod
    def from_labels(
        cls,
        X: ArrayLike,
        y: ArrayLike,
        n_components: int | None = None,
        objective: Objective = "probability",
        *,
        sample_weight: ArrayLike | None = None,
    ) -> NCAProblem:
        """State NCA for classes; parameters as in the constructor."""
        return cls(X, y, n_components, objective, sample_weight=sample_weight)

    def describe(self) -> str:
        n, d = self.X.shape
        form = "diagonal factor" if self.diagonal else f"{self.n_components} components"
        labels = f"targets of bandwidth {self.bandwidth:g}" if len(self.targets) else f"{len(self.classes)} classes"
        value = "log p" if self.logarithm else "p"
        return f"NCA (Goldberger et al. 2005), minus the sum of {value}: {n:,} examples, {d} features, {labels}, {form}"

    def with_weights(self, **values: float) -> Self:
        """State the same problem with another `bandwidth`, which continuous targets have."""
        if not len(self.targets):
            raise ValueError("bandwidth is for targets='continuous'; NCA for classes has no weight that could vary.")
        validation.check_known("with_weights of NCAProblem", values, self.weights)
        y = self.targets * np.sqrt(2) * self.bandwidth
        objective: Objective = "log" if self.logarithm else "probability"
        rank, w = self.n_components, self.sample_weight
        return type(self)(
            self.X, y, rank, objective, diagonal=self.diagonal, targets="continuous", sample_weight=w, **values
        )

    @published
    def order(self) -> LongArray:
        """Examples by class, (n,); example ``order[a]`` is row a of `rows`."""
        return np.argsort(self.index, kind="stable")

    @published
    def row_classes(self) -> NDArray[np.int32] | None:
        """Class of each of the `rows`; None for continuous targets."""
        return None if len(self.targets) else self.index[self.order]

    @cached
    def value(self) -> ExampleValue:
        """Minus the probability of a match, at least -1 if there is one, or minus its logarithm, at least 0."""
        weights = self.example_weights
        if self.logarithm:
            return ExampleValue(loops.LOGARITHM, self.targets, 0.0, float(weights.sum()), "NCA, log")
        matched = weights if len(self.targets) else weights[np.bincount(self.index)[self.index] > 1]
        return ExampleValue(loops.PROBABILITY, self.targets, -float(matched.sum()), float(weights.sum()), "NCA")


@dataclass(init=False, eq=False, repr=False)
class MLKRProblem(SoftNeighborProblem):
    """Metric learning for kernel regression (Weinberger and Tesauro 2007) [WT2007].

    The target of example i is predicted from all others by a Gaussian kernel of their distances under the metric, and
    the sum of the squared errors is minimized over factors L of r rows::

        sum_i (y_i - yhat_i)^2,   yhat_i = sum_{j != i} p_ij y_j,   p_ij = exp(-D_ij) / sum_{k != i} exp(-D_ik)

    with ``D_ij`` the squared distance of ``L x_i`` and ``L x_j``: the leave-one-out error of kernel regression,
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
        If the targets are all equal, or an option is out of range.

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
        self.X, self.targets = data, check_regression_targets(y, len(data))
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
    def value(self) -> ExampleValue:
        """The squared error of the mean of the neighbors' targets, which are taken minus their own mean."""
        y = np.asarray(self.targets - self.targets.mean())
        return ExampleValue(loops.SQUARED_ERROR, y, 0.0, float(self.example_weights @ y**2), "MLKR")

    def predictions(self, components: ArrayLike) -> FloatArray:
        """Return the leave-one-out prediction of each example's target, (n,)."""
        return self.distribution(components) @ self.targets
