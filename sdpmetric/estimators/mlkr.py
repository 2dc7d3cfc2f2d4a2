"""Metric learning for kernel regression (MLKR) as an estimator."""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from sklearn.utils import Tags

from sdpmetric.arrays import FloatArray
from sdpmetric.estimators.options import Count, Positive, Seed, Share, Verbosity, estimator
from sdpmetric.estimators.soft_neighbors import SoftNeighborEstimator
from sdpmetric.problems.mlkr import MLKRProblem
from sdpmetric.problems.soft_neighbors import SoftNeighborProblem
from sdpmetric.solvers.nca_start import rescaled


@estimator
class MLKR(SoftNeighborEstimator):
    """Metric learning for kernel regression (Weinberger and Tesauro 2007) [WT2007].

    For continuous targets: y are numbers. A transformer, to put before a regressor that goes by distances, as
    ``KNeighborsRegressor``; with weights ``exp(-d^2)`` that is the paper's own kernel regression (``docs/mlkr.md``).
    MLKR is not convex, and optimality is not proven: the certificate is of kind "stationarity".

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
    max_iter, max_time : int and float, default 1000 and None
        Limits on evaluations and on seconds.
    verbose : bool, default False
    random_state : int, RandomState, Generator or None, default None
        For ``init="random"`` and "pca", where None takes NumPy's global state as scikit-learn does, and for what early
        stopping sets aside, where None is 0.
    early_stopping, validation_fraction, n_iter_no_change
        As in `LMNN`; the score is R^2 of kernel regression with weights ``exp(-d^2)``.

    Attributes
    ----------
    components_, metric_, solution_, validation_score_, n_iter_, n_features_in_, feature_names_in_
        As in `LMNN`.
    random_state_ : RandomState

    Warns
    -----
    ConvergenceWarning
        If the point is not stationary up to `tol`.

    See Also
    --------
    NCA : For classes; ``targets="continuous"`` matches numbers softly.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sdpmetric.estimators import MLKR
    >>> X, y = load_diabetes(return_X_y=True)
    >>> MLKR(n_components=2).fit(X, y).transform(X).shape
    (442, 2)
    """

    n_components: Count | None = field(default=None, kw_only=False)
    init: Literal["auto", "pca", "identity", "random"] | FloatArray = "auto"
    warm_start: bool = False
    diagonal: bool = False
    tol: Positive | None = 1e-3
    max_iter: Count | None = 1000
    max_time: Positive | None = None
    verbose: Verbosity = False
    random_state: Seed = None
    early_stopping: bool = False
    validation_fraction: Share = 0.3
    n_iter_no_change: Count = 10
    statement = MLKRProblem

    def _continuous(self) -> bool:
        return True

    def _scaled(self, problem: SoftNeighborProblem, start: FloatArray) -> FloatArray:
        return rescaled(problem, start)

    def __sklearn_tags__(self) -> Tags:
        """Targets are numbers."""
        tags = super().__sklearn_tags__()
        tags.target_tags.one_d_labels = True
        return tags
