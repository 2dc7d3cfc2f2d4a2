"""Maximally collapsing metric learning (MCML) as an estimator."""

from __future__ import annotations

from sdpmetric.estimators.data import Data, Labels, Weights
from sdpmetric.estimators.labelled import WeightedEstimator
from sdpmetric.estimators.options import Reduced, Solved, Started, StoppedEarly, options
from sdpmetric.problems.mcml import MCMLProblem


@options
class MCML(WeightedEstimator, Reduced, Solved, Started, StoppedEarly):
    """Maximally collapsing metric learning (Globerson and Roweis 2006) [GR2006], solved to a proof.

    Time and memory are quadratic in the number of examples.

    Parameters
    ----------
    n_components : int, optional
        Columns of `transform`: the leading principal components of the transformed examples. `solution_` is the whole
        metric. Default: all.
    init, warm_start, early_stopping, validation_fraction, n_iter_no_change
        As in `LMNN`.
    solver : str, default "auto"
        "factored" or "conic"; see `sdpmetric.solve`.
    tol : float or None, default 1e-3
        Relative gap to prove; None: the default of the solver.
    max_iter, max_time : optional
        Limits on evaluations and on seconds.
    verbose : bool, default False
        Print progress.
    random_state : int, RandomState or None, default None
        Of the solver and of the choice of validation examples; None is 0.

    Attributes
    ----------
    components_, metric_, solution_, dual_gap_, n_iter_, n_features_in_, feature_names_in_
        As in `sdpmetric.estimators.base.MetricEstimator`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sdpmetric.estimators import MCML
    >>> X, y = load_iris(return_X_y=True)
    >>> bool(MCML(tol=1e-3).fit(X, y).dual_gap_ <= 1e-3)
    True
    """

    def _problem(self, X: Data, y: Labels, sample_weight: Weights = None) -> MCMLProblem:
        return MCMLProblem(X, y, sample_weight)
