"""FRML as an estimator: a metric of fixed rank that learns rankings from labels or from lists of relevant items."""

from __future__ import annotations

from sdpmetric.core.solution import Solution
from sdpmetric.core.status import Status
from sdpmetric.estimators.data import Data, Weights
from sdpmetric.estimators.options import Limited, Reduced, Started, options
from sdpmetric.estimators.rankings import RankingEstimator
from sdpmetric.estimators.watcher import Watcher
from sdpmetric.problems.frml import FRMLProblem
from sdpmetric.ranking.relevance import Relevance
from sdpmetric.ranking.truncation import RankLoss

# The default rank, that of the paper's Table 2, if there are so many features.
RANK = 30
# Arguments of the solver.
OPTIONS = ("step", "decay", "batch_size", "passes", "validation_share", "stop_after")


@options
class FRML(RankingEstimator, Reduced, Limited, Started):
    """Fixed-rank metric learning of rankings (Lim and Lanckriet 2014) [LL2014].

    Stochastic steps on matrices of fixed rank, stopped where the mean average precision of validation queries stops
    rising. Optimality is not proven: the certificate is of kind "stationarity".

    Parameters
    ----------
    n_components : int, optional
        The rank; default 30, or the number of features where that is less.
    loss : {"warp", "auc"}, default "warp"
    gamma : float, default 1
        At least 1: relevant items of larger rank are not pushed further up, and fewer items are drawn.
    regularization : float, default 0.01
        Weight of the distances to relevant items.
    step, decay, batch_size, passes, validation_share, stop_after
        Length of the first step in units of the data, its decay, queries per step, largest number of passes, share of
        validation queries, and passes without a better ranking before the end; see `sdpmetric.solve`.
    init : (n_components, d) array, optional
        Components to start from; default: the leading principal components.
    warm_start : bool, default False
        Start from the components of the last fit.
    max_iter : int, optional
        Limit on evaluated distances.

    Attributes
    ----------
    n_iter_ : int
        Evaluated distances.
    dual_gap_ : float
        To the trivial lower bound of 0.

    Warns
    -----
    ConvergenceWarning
        If `passes` or another limit was reached while the ranking of the validation queries still improved.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import scale
    >>> from sdpmetric.estimators import FRML
    >>> X, y = load_wine(return_X_y=True)
    >>> FRML(n_components=3).fit(scale(X), y).transform(scale(X)).shape
    (178, 3)
    """

    loss: RankLoss = "warp"
    gamma: float = 1.0
    regularization: float = 0.01
    step: float = 10.0
    decay: float = 0.1
    batch_size: int = 5
    passes: int = 50
    validation_share: float = 0.1
    stop_after: int = 5

    def _stated(
        self, X: Data, related: Relevance, queries: Data | None = None, sample_weight: Weights = None
    ) -> FRMLProblem:
        rank = min(RANK, X.shape[1]) if self.n_components is None else self.n_components
        return self._with_own(FRMLProblem)(X, related, n_components=rank, queries=queries)

    def _solve(self, watcher: Watcher, **options: object) -> Solution:
        chosen = {name: getattr(self, name) for name in OPTIONS}
        return super()._solve(watcher, n_components=None, **chosen, **options)

    def _advice(self, solution: Solution) -> str:
        if solution.status is not Status.USER_LIMIT:
            return super()._advice(solution)
        return (
            f"A limit was reached while the ranking of the validation queries still improved: raise passes "
            f"({self.passes}), max_iter or max_time, or lower stop_after ({self.stop_after})."
        )

    def _rows(self, components: Data) -> Data:
        return components  # of the requested rank, even if the metric's rank is lower
