"""Metric learning to rank (MLR) as an estimator."""

from __future__ import annotations

from dataclasses import field

from sdpmetric.estimators.base import SolvedEstimator
from sdpmetric.estimators.options import Count, Positive, estimator
from sdpmetric.estimators.rankings import RankingEstimator
from sdpmetric.problems.mlr import MLRLoss, MLRProblem


@estimator
class MLR(RankingEstimator, SolvedEstimator):
    """Metric learning to rank (McFee and Lanckriet 2010) [ML2010]: a structural SVM, solved to a proof.

    Items of a query's own class are relevant to it; `fit_relevance` takes other relations. Each evaluation ranks all
    items for all queries: time is quadratic in the number of examples.

    Parameters
    ----------
    n_components : int, optional
        Columns of `transform`: the leading principal components of the transformed examples; `solution_` is the whole
        metric. Default: all.
    loss : {"auc", "map"}, default "auc"
        What rankings lose: 1 less the area under the curve, or 1 less the average precision.
    slack_weight : float, default 1
        Weight of the mean loss beside the trace of the metric, ``C``.
    solver : {"auto", "cutting_planes"}, default "auto"
    tol : float or None, default 1e-2
        Relative gap to prove; None: the default of the solver.
    max_iter, max_time : int and float, optional
        Limits on separations and on seconds; the best certified metric so far is kept, with a warning.
    verbose, random_state, init, warm_start
        As in `LMNN`.
    early_stopping, validation_fraction, n_iter_no_change
        As in `LMNN`: a share of the examples or queries is kept out; the score is the accuracy of nearest neighbors, or
        the mean average precision of queries.

    Attributes
    ----------
    components_, metric_, solution_, relative_gap_, validation_score_, n_iter_, n_features_in_, feature_names_in_
        As in `LMNN`; `n_iter_` counts separations.

    See Also
    --------
    FRML : Rankings, too, by stochastic steps at a fixed rank.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import scale
    >>> from sdpmetric.estimators import MLR
    >>> X, y = load_wine(return_X_y=True)
    >>> bool(MLR(loss="map", slack_weight=10.0).fit(scale(X), y).relative_gap_ <= 1e-2)
    True
    """

    n_components: Count | None = field(default=None, kw_only=False)
    loss: MLRLoss = "auc"
    slack_weight: float = 1.0
    tol: Positive | None = 1e-2
    statement = MLRProblem
