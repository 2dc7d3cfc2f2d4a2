"""Metric learning for kernel regression (MLKR) as an estimator."""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Tags

from sdpmetric.core.solution import Solution
from sdpmetric.estimators.data import Data, Labels, Weights
from sdpmetric.estimators.options import Limited, Reduced, Started, StoppedEarly, options
from sdpmetric.estimators.soft_neighbors import SoftNeighborEstimator
from sdpmetric.estimators.watcher import Watcher
from sdpmetric.problems.mlkr import MLKRProblem
from sdpmetric.problems.soft_neighbors import SoftNeighborProblem
from sdpmetric.solvers.nca_start import Init, rescaled

FloatArray = NDArray[np.float64]


@options
class MLKR(SoftNeighborEstimator, Reduced, Limited, Started, StoppedEarly):
    """Metric learning for kernel regression (Weinberger and Tesauro 2007) [WT2007].

    For continuous targets: y are numbers. A transformer, to put before a regressor that goes by distances, as
    ``KNeighborsRegressor``; with weights ``exp(-d^2)`` that is the paper's own kernel regression (``docs/mlkr.md``).

    Parameters
    ----------
    n_components : int, optional
        Rows of the components; default the number of features.
    init : {"auto", "pca", "identity", "random"} or (r, d) array, default "auto"
        Where to begin; "auto" is "pca" where ``n_components < min(d, n)``, else "identity". Components are scaled so
        that neither the nearest neighbor alone counts nor all alike; an array is taken as it is.
    warm_start : bool, default False
        Start from the components of the last fit and ignore `n_components` and `init`.
    diagonal : bool, default False
        One weight for each feature.
    tol : float or None, default 1e-3
        `stationarity` of the certificate to reach; None: the default of the solver.
    max_iter : int or None, default 1000
        Limit on evaluations.
    random_state : int, RandomState or None, default None
        For ``init="random"`` and "pca".

    Attributes
    ----------
    solution_ : Solution
        Its certificate is of kind "stationarity": MLKR is not convex, and optimality is not proven.
    dual_gap_ : float
        To the trivial lower bound of 0.
    random_state_ : RandomState

    Warns
    -----
    ConvergenceWarning
        If the point is not stationary up to `tol`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sdpmetric.estimators import MLKR
    >>> X, y = load_diabetes(return_X_y=True)
    >>> MLKR(n_components=2).fit(X, y).transform(X).shape
    (442, 2)
    """

    init: Init | FloatArray = "auto"
    diagonal: bool = False
    tol: float | None = 1e-3
    max_iter: int | None = 1000

    def _continuous(self) -> bool:
        return True

    def _problem(self, X: Data, y: Labels, sample_weight: Weights = None) -> MLKRProblem:
        if isinstance(self.init, str) and self.init not in ("auto", "pca", "identity", "random"):
            raise ValueError(f"init must be 'auto', 'pca', 'identity', 'random' or an array, got {self.init!r}.")
        problem = self._with_own(MLKRProblem)(X, y, sample_weight=sample_weight)
        self._check_start(X.shape[1])
        return problem

    def _solve(self, watcher: Watcher, **options: object) -> Solution:
        start = self._start(cast(SoftNeighborProblem, watcher.problem))  # what _problem made
        return super()._solve(watcher, n_components=None, start=start, **options)

    def _scaled(self, problem: SoftNeighborProblem, start: FloatArray) -> FloatArray:
        return rescaled(problem, start)

    def __sklearn_tags__(self) -> Tags:
        """Targets are numbers."""
        tags = super().__sklearn_tags__()
        tags.target_tags.one_d_labels = True
        return tags
