"""The estimator that learns rankings, from labels or from lists of relevant items: FRML."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from numbers import Real
from typing import Annotated, Self, cast

import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import Interval

from sdpmetric.core import validation
from sdpmetric.core.named import Init
from sdpmetric.core.problem import Problem
from sdpmetric.core.solution import Solution
from sdpmetric.core.status import Status
from sdpmetric.estimators import base
from sdpmetric.estimators.base import LimitedEstimator, P
from sdpmetric.estimators.data import Count, Data, Labels, Matrix, NotNegative, Weights, checked_data, estimator
from sdpmetric.ranking.frml import FRMLProblem
from sdpmetric.ranking.relevance import Relevance
from sdpmetric.ranking.scores import RankLoss


@estimator
class FRML(LimitedEstimator):
    """Fixed-rank metric learning of rankings (Lim and Lanckriet 2014) [LL2014].

    Items of a query's own class are relevant to it; `fit_relevance` accepts other relations. Stochastic steps on
    matrices of fixed rank end when the mean average precision of validation queries stops rising. Optimality is not
    proven: the certificate is of kind "stationarity". Program and certificate: docs/methods.md.

    Parameters
    ----------
    n_components : int, optional
        The rank; default 30, or the number of features if that is less.
    loss : {"warp", "auc"}, default "warp"
    gamma : float, default 1
        At least 1: relevant items of larger rank are not pushed further up, and fewer items are drawn.
    regularization : float, default 0.01
        Weight of the distances to relevant items.
    step, decay : float, default 10 and 0.1
        Length of the first step in units of the data, and its decay.
    batch_size, passes : int, default 5 and 50
        Queries per step, and the largest number of passes.
    validation_fraction : float, default 0.1
        The share of queries that is held out for validation. With 0 the metric after the last pass is kept.
    n_iter_no_change : int, default 5
        The run ends after this many passes without a better ranking of the validation queries.
    max_iter, max_time, verbose, random_state, init, warm_start
        As in `LMNN`; `max_iter` limits evaluated distances, `random_state` seeds all draws, and "auto" is "pca".

    Attributes
    ----------
    components_, metric_, solution_, n_iter_, n_features_in_, feature_names_in_
        As in `LMNN`; `n_iter_` counts evaluated distances.

    Warns
    -----
    ConvergenceWarning
        If `passes` or another limit was reached while the ranking of the validation queries still improved.
    """

    n_components: Count | None = field(default=None, kw_only=False)
    loss: RankLoss = "warp"
    gamma: float = 1.0
    regularization: float = 0.01
    step: NotNegative = 10.0
    decay: NotNegative = 0.1
    batch_size: Count = 5
    passes: Count = 50
    validation_fraction: Annotated[float, Interval(Real, 0, 0.9, closed="both")] = 0.1
    n_iter_no_change: Count = 5
    init: Matrix | Init = "auto"
    warm_start: bool = False
    statement = FRMLProblem
    fit = cast("Callable[..., FRML]", base.fit_unweighted)

    def _problem(self, X: Data, y: Labels, weights: Weights = None) -> Problem:
        _, index = validation.check_labels(y, len(X))
        related = Relevance.from_labels(index, unanswerable="exclude")
        return self._state(self.statement, X, related, sample_weight=weights)

    def fit_relevance(
        self,
        X: ArrayLike,
        relevance: Relevance | Sequence[ArrayLike] | sp.sparray | sp.spmatrix,
        queries: ArrayLike | None = None,
    ) -> Self:
        """Learn from items that are relevant to queries; errors and warnings are those of `fit`.

        Parameters
        ----------
        X : (n, d) array
            The items.
        relevance : Relevance, lists of row numbers of X, or sparse (m, n) matrix
            One list or row for each query.
        queries : (m, d) array, optional
            Default: the items, each left out of its own ranking.
        """
        data = self._checked(X)
        query_data = None if queries is None else checked_data(self, queries)
        return self._learn(self._state(self.statement, data, relevance, queries=query_data))

    def _state(self, make: Callable[..., P], *data: object, **named: object) -> P:
        return super()._state(make, *data, n_components=self._rows(self.n_features_in_), **named)

    def _rows(self, d: int) -> int:
        # The default rank, that of the paper's Table 2, if there are so many features.
        return self.n_components or min(30, d)

    def _options(self, problem: Problem) -> dict[str, object]:
        parameters = {name: getattr(self, name) for name in ("step", "decay", "batch_size", "passes")}
        stop = {"validation_share": self.validation_fraction, "stop_after": self.n_iter_no_change}
        return super()._options(problem) | parameters | stop

    def _advice(self, solution: Solution) -> str:
        if solution.status is not Status.USER_LIMIT:
            return super()._advice(solution)
        return (
            f"A limit was reached while the ranking of the validation queries still improved: raise passes "
            f"({self.passes}), max_iter or max_time, or lower n_iter_no_change ({self.n_iter_no_change})."
        )
