"""Neighbourhood components analysis (NCA): the statement, its two objectives and their gradient, and its judge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import column_or_1d

from sdpmetric._loops import nca as loops
from sdpmetric.core import validation
from sdpmetric.core.certificate import StationarityCertificate
from sdpmetric.core.multipliers import Multipliers
from sdpmetric.core.problem import Problem
from sdpmetric.problems import soft_neighbors

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.int64]
Objective = Literal["probability", "log"]
Targets = Literal["classes", "continuous"]

# Off-diagonal entries of a diagonal metric up to this share of its largest entry are rounding.
OFF_DIAGONAL = 1e-12


@dataclass(frozen=True, init=False, eq=False, repr=False)
class NCAProblem(Problem):
    """NCA as its paper states it (Goldberger, Roweis, Hinton and Salakhutdinov 2005) [GRHS2005], as a minimization.

    Example i chooses neighbor j with probability ``p_ij = exp(-D_ij) / sum_{k != i} exp(-D_ik)``, where ``D_ij`` is the
    squared distance of ``L x_i`` and ``L x_j``. With ``p_i`` the probability that the neighbor matches, minimize over
    factors L of r rows::

        -sum_i p_i        (objective="probability", the paper's f with the sign changed)
        -sum_i log p_i    (objective="log", the paper's g with the sign changed)

    Neither is convex. The certificate says how nearly stationary a point is, no more; the convex relative with the same
    probabilities is `MCMLProblem`.

    Parameters
    ----------
    X : (n, d) array
        Finite numbers; float32 is accepted as it is, and all sums are in float64.
    y : (n,) array
        Class labels of any kind; or numbers, where `targets` is "continuous".
    n_components : int, optional
        Rows of L that solvers start with, between 1 and d; default d.
    objective : {"probability", "log"}, default "probability"
        Of "log", an example without a match (the only one of its class) is left out, since its term is infinite for
        every L; of "probability" its term is 0. It can still be chosen by others.
    diagonal : bool, default False
        Whether L is a diagonal (d, d) matrix: one weight for each feature.
    targets : {"classes", "continuous"}, default "classes"
        Whether j matches i if the labels agree, or, softly, by ``phi_ij = exp(-(y_i - y_j)^2 / (2 s^2))``, with
        ``p_i = sum_j phi_ij p_ij`` (section 5 of the paper).
    bandwidth : float, optional
        s, in the units of y, for continuous targets; default ``std(y) n^(-1/5)``.

    Attributes
    ----------
    X : (n, d) array
    index : (n,) int32 array
        Class of each example; zeros for continuous targets.
    classes : array
        Sorted class labels; empty for continuous targets.
    targets : (n,) float64 array
        Continuous targets in units of ``sqrt(2) s``; empty for classes.
    n_components : int
    logarithm : bool
        Whether the objective is "log".
    diagonal : bool
    bandwidth : float
        NaN for classes.

    Raises
    ------
    ValueError
        If data or labels are not finite, or an option is unknown or out of range.
    """

    statement: ClassVar[str] = "nca"
    weights: ClassVar[tuple[str, ...]] = ("bandwidth",)
    refusals: ClassVar[Mapping[str, str]] = {
        "verify": (
            "it is not convex and nothing proves a lower bound; certify judges a point by how nearly it is stationary."
        ),
        "explain": "it has no multipliers; solution.certificate says how nearly the point is stationary.",
        "to_cvxpy": "it is not convex and has no exact program; NCA in its convex form is MCMLProblem.",
    }

    X: NDArray[np.floating]
    index: NDArray[np.int32]
    classes: NDArray[np.generic]
    targets: FloatArray
    n_components: int
    logarithm: bool
    diagonal: bool
    bandwidth: float

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
    ) -> None:
        data = validation.check_data(X)
        n, d = data.shape
        if n < 2:
            raise ValueError("X has one row; an example needs another one that it can choose, pass two at least.")
        if objective not in ("probability", "log"):
            raise ValueError(f"objective must be 'probability' or 'log', got {objective!r}.")
        if targets not in ("classes", "continuous"):
            raise ValueError(f"targets must be 'classes' or 'continuous', got {targets!r}.")
        rank = d if n_components is None else n_components
        if isinstance(rank, bool) or not isinstance(rank, int | np.integer) or not 1 <= rank <= d:
            raise ValueError(f"n_components must be an integer between 1 and {d}, the features, got {n_components!r}.")
        if diagonal and rank != d:
            raise ValueError(f"a diagonal factor has {d} rows, one per feature; leave n_components={rank} out.")
        classes: NDArray[np.generic] = np.zeros(0)
        index, scaled, width = np.zeros(n, dtype=np.int32), np.zeros(0), np.nan
        if targets == "classes":
            if bandwidth is not None:
                raise ValueError("bandwidth is for targets='continuous'; classes match or they do not: leave it out.")
            classes, index = validation.check_labels(y, n, n_classes=1)
        else:
            scaled, width = _check_continuous(y, n, bandwidth)
        given = (data, index, classes, scaled, int(rank), objective == "log", bool(diagonal), width)
        for name, value in zip((f.name for f in fields(self)), given, strict=True):
            object.__setattr__(self, name, value)

    @classmethod
    def from_labels(
        cls, X: ArrayLike, y: ArrayLike, n_components: int | None = None, objective: Objective = "probability"
    ) -> NCAProblem:
        """State NCA for classes; parameters as in the constructor."""
        return cls(X, y, n_components, objective)

    @classmethod
    def from_targets(
        cls,
        X: ArrayLike,
        y: ArrayLike,
        n_components: int | None = None,
        objective: Objective = "probability",
        *,
        bandwidth: float | None = None,
        diagonal: bool = False,
    ) -> NCAProblem:
        """State NCA for continuous targets, by soft matches; parameters as in the constructor."""
        return cls(X, y, n_components, objective, diagonal=diagonal, targets="continuous", bandwidth=bandwidth)

    def describe(self) -> str:
        """Say in one sentence what is minimised, over how much data."""
        n, d = self.X.shape
        form = "diagonal factor" if self.diagonal else f"{self.n_components} components"
        labels = f"targets of bandwidth {self.bandwidth:g}" if len(self.targets) else f"{len(self.classes)} classes"
        value = "log p" if self.logarithm else "p"
        return f"NCA (Goldberger et al. 2005), minus the sum of {value}: {n:,} examples, {d} features, {labels}, {form}"

    # -- the data as the kernels want them: members of a class side by side --------------------------------------------

    def with_weights(self, **values: float) -> Self:
        """State the same problem with another `bandwidth`, which continuous targets have.

        Parameters
        ----------
        **values : float
        """
        if not len(self.targets):
            raise ValueError("bandwidth is for targets='continuous'; NCA for classes has no weight that could vary.")
        unknown = set(values) - set(self.weights)
        if unknown:
            raise TypeError(f"NCAProblem has no weight {', '.join(sorted(unknown))}; its weight is bandwidth.")
        y = self.targets * np.sqrt(2) * self.bandwidth
        objective: Objective = "log" if self.logarithm else "probability"
        return type(self)(
            self.X, y, self.n_components, objective, diagonal=self.diagonal, targets="continuous", **values
        )

    @cached_property
    def order(self) -> IndexArray:
        """Examples by class, (n,); example ``order[a]`` is row a of `rows`."""
        return np.argsort(self.index, kind="stable")

    @cached_property
    def rows(self) -> FloatArray:
        """The data by class, less their mean, float64, (n, d)."""
        X = np.asarray(self.X, dtype=np.float64)
        return np.ascontiguousarray((X - X.mean(axis=0))[self.order])

    @cached_property
    def spans(self) -> tuple[IndexArray, IndexArray]:
        """First and last but one row of the class of each of the `rows`, two (n,) arrays."""
        labels = self.index[self.order]
        return np.searchsorted(labels, labels, "left"), np.searchsorted(labels, labels, "right")

    def objective(self, components: ArrayLike | None = None, *, metric: ArrayLike | None = None) -> float:
        """Minus the sum of ``p_i``, or of ``log p_i``.

        Parameters
        ----------
        components : (r, d) array, optional
            Factor L of the metric; r may be any.
        metric : (d, d) array, optional
            The metric itself; exactly one of the two.
        """
        L, _ = self._check_point(components, metric)
        return self._evaluate(L, None, False)[0]

    def value_and_gradient(
        self, components: ArrayLike, anchors: NDArray[np.integer] | None = None
    ) -> tuple[float, FloatArray]:
        """The objective, and its gradient in the factor, (r, d); zero off the diagonal where the factor is diagonal.

        Time is O(n^2 r), memory O((b + r + d) n) for blocks of b rows.

        Parameters
        ----------
        components : (r, d) array
            Factor L.
        anchors : (m,) integer array, optional
            Examples whose terms are summed, each in full: m / n of the work; default all.
        """
        L, _ = self._check_point(components, None)
        return self._evaluate(L, anchors, True)

    def _evaluate(
        self, L: FloatArray, anchors: NDArray[np.integer] | None, differentiate: bool
    ) -> tuple[float, FloatArray]:
        if anchors is None and np.array_equal(L, self._last[0]):
            return self._last[1], self._last[2].copy()
        which = None if anchors is None else self._places[np.asarray(anchors)]
        value, gradient = loops.evaluate(
            self.rows, L, *self.spans, self.targets, self.logarithm, which, differentiate=differentiate
        )
        gradient = np.diag(np.diag(gradient)) if self.diagonal and differentiate else gradient
        if anchors is None and differentiate:  # a solver's last point is what is certified next
            self._last[:] = L.copy(), value, gradient.copy()
        return value, gradient

    @cached_property
    def _last(self) -> list[Any]:
        """The latest full evaluation: factor, value and gradient."""
        return [None, 0.0, self.rows[:0]]

    @cached_property
    def _places(self) -> IndexArray:
        """The row of each example in `rows`."""
        return np.argsort(self.order)

    def match(self, first: NDArray[np.integer], second: NDArray[np.integer]) -> FloatArray:
        """How far examples match, between 0 and 1; arrays of example numbers that are broadcast."""
        if len(self.targets):
            return np.asarray(np.exp(-((self.targets[first] - self.targets[second]) ** 2)))
        return np.asarray(self.index[first] == self.index[second], dtype=np.float64)

    def distribution(self, components: ArrayLike, examples: NDArray[np.integer] | None = None) -> FloatArray:
        """The probabilities ``p_ij`` of some examples, to look at, (m, n); 0 for an example with itself.

        Parameters
        ----------
        components : (r, d) array
        examples : (m,) integer array, optional
            Default all, which takes n^2 numbers.
        """
        L, _ = self._check_point(components, None)
        which = np.arange(len(self.X)) if examples is None else np.asarray(examples)
        return soft_neighbors.distribution(np.asarray(self.X, dtype=np.float64) @ L.T, which)

    def perplexity(self, components: ArrayLike | None = None, *, metric: ArrayLike | None = None) -> FloatArray:
        """Effective number of neighbors of each example, ``exp(-sum_j p_ij log p_ij)``, (n,): between 1 and n - 1.

        The scale of the factor sets it: it falls, or stays, as all distances grow (section 2 of the paper).

        Parameters
        ----------
        components, metric
            As in `objective`.
        """
        L, _ = self._check_point(components, metric)
        return soft_neighbors.perplexity(np.asarray(self.X, dtype=np.float64) @ L.T)

    def certify(
        self, components: ArrayLike | None = None, *, metric: ArrayLike | None = None, dual: Multipliers | None = None
    ) -> StationarityCertificate:
        """Judge any point, whoever made it: objective, a trivial lower bound, and the gradient's relative norm.

        `stationarity` is ``|gradient| |L| / n``, Frobenius norms: what a relative change of L brings per example. It
        does not depend on the units of X.

        Parameters
        ----------
        components : (r, d) array, optional
            Factor L of the metric.
        metric : (d, d) array, optional
            The metric itself; exactly one of the two.
        dual : None
            There are no multipliers; what is given is not looked at.

        Returns
        -------
        StationarityCertificate
            No probability is above 1, so that the lower bound is minus the number of examples
            that have a match, or 0 for "log".

        Raises
        ------
        ValueError
            If the point has the wrong shape, is not finite, not PSD, or not diagonal where it should be.
        """
        L, primal_residual = self._check_point(components, metric)
        value, gradient = self._evaluate(L, None, True)
        return StationarityCertificate(
            objective=value,
            lower_bound=0.0 if self.logarithm else -float(self.n_matched),
            primal_residual=primal_residual,
            stationarity=self.stationarity(L, gradient),
            program="NCA, log" if self.logarithm else "NCA",
        )

    @cached_property
    def n_matched(self) -> int:
        """Examples that have a match."""
        if len(self.targets):
            return len(self.X)
        counts = np.bincount(self.index)
        return int(counts[counts > 1].sum())

    def stationarity(self, components: FloatArray, gradient: FloatArray) -> float:
        """``|gradient| |L| / n``, Frobenius norms."""
        return float(np.linalg.norm(gradient) * np.linalg.norm(components) / len(self.X))

    def _check_point(self, components: ArrayLike | None, metric: ArrayLike | None) -> tuple[FloatArray, float]:
        d = self.X.shape[1]
        L, residual = validation.check_point(components, metric, d)
        if not self.diagonal:
            return L, residual
        if metric is not None:  # the factor that is diagonal too
            M = np.asarray(metric, dtype=np.float64)
            _check_diagonal(M, "metric", d)
            return np.diag(np.sqrt(np.maximum(np.diag(M), 0.0))), residual
        _check_diagonal(L, "components", d)
        return L, residual


def _check_diagonal(matrix: FloatArray, name: str, d: int) -> None:
    size = np.abs(matrix).max(initial=0.0)
    if matrix.shape != (d, d) or np.abs(matrix - np.diag(np.diag(matrix))).max(initial=0.0) > OFF_DIAGONAL * size:
        raise ValueError(f"{name} must be a diagonal ({d}, {d}) matrix, as the problem has diagonal=True.")


def _check_continuous(y: ArrayLike, n: int, bandwidth: float | None) -> tuple[FloatArray, float]:
    """Targets in units of ``sqrt(2) s``, and s."""
    try:
        values = np.asarray(column_or_1d(y, warn=False), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"y must be one number per row for targets='continuous' ({error}).") from error
    if len(values) != n:
        raise ValueError(f"y has {len(values)} targets for {n} rows of X; pass one target per row.")
    if not np.isfinite(values).all():
        raise ValueError("y contains NaN or infinity; drop those rows.")
    if bandwidth is None:
        bandwidth = float(values.std() * n**-0.2)
        if not bandwidth > 0:
            raise ValueError("y is constant; continuous targets that never differ say nothing about a metric.")
    width = validation.check_number("bandwidth", bandwidth, np.finfo(np.float64).tiny)
    return (values - values.mean()) / (np.sqrt(2) * width), width
