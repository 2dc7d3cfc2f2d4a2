"""Metric learning to rank (MLR) as an estimator."""

from __future__ import annotations

from sdpmetric.estimators.data import Data, Weights
from sdpmetric.estimators.labelled import WeightedEstimator
from sdpmetric.estimators.options import Reduced, Solved, Started, StoppedEarly, options
from sdpmetric.estimators.rankings import RankingEstimator
from sdpmetric.problems.mlr import MLRLoss, MLRProblem
from sdpmetric.ranking.relevance import Relevance


@options
class MLR(WeightedEstimator, RankingEstimator, Reduced, Solved, Started, StoppedEarly):
    """Metric learning to rank (McFee and Lanckriet 2010) [ML2010]: a structural SVM, solved to a proof.

    Items of a query's own class are relevant to it; `fit_relevance` takes other relations. Each evaluation ranks all
    items for all queries: time is quadratic in the number of examples.

    Parameters
    ----------
    loss : {"auc", "map"}, default "auc"
        What rankings lose: 1 less the area under the curve, or 1 less the average precision.
    slack_weight : float, default 1
        Weight of the mean loss beside the trace of the metric, ``C``.
    tol : float or None, default 1e-2
        Relative gap to prove; None: the default of the solver.
    max_iter : int, optional
        Limit on separations.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import scale
    >>> from sdpmetric.estimators import MLR
    >>> X, y = load_wine(return_X_y=True)
    >>> bool(MLR(loss="map", slack_weight=10.0).fit(scale(X), y).dual_gap_ <= 1e-2)
    True
    """

    loss: MLRLoss = "auc"
    slack_weight: float = 1.0
    tol: float | None = 1e-2

    def _stated(
        self, X: Data, related: Relevance, queries: Data | None = None, sample_weight: Weights = None
    ) -> MLRProblem:
        return self._with_own(MLRProblem)(X, related, queries=queries, sample_weight=sample_weight)
