"""FRML as an estimator: a metric of fixed rank that learns rankings from labels or from lists of relevant items."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from numbers import Real
from typing import Annotated, Self

from numpy.typing import ArrayLike
from sklearn.utils._param_validation import Interval

from sdpmetric.core.problem import Problem
from sdpmetric.core.solution import Solution
from sdpmetric.core.status import Status
from sdpmetric.estimators.base import P
from sdpmetric.estimators.callbacks import with_callbacks
from sdpmetric.estimators.options import Count, Matrix, NotNegative, Positive, Seed, Verbosity, estimator
from sdpmetric.estimators.rankings import RankingEstimator
from sdpmetric.problems.frml import FRMLProblem
from sdpmetric.ranking.truncation import RankLoss

# The default rank, that of the paper's Table 2, if there are so many features.
RANK = 30


@estimator
class FRML(RankingEstimator):
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
    step, decay : float, default 10 and 0.1
        Length of the first step in units of the data, and its decay.
    batch_size, passes : int, default 5 and 50
        Queries per step, and the largest number of passes.
    validation_fraction : float, default 0.1
        The share of queries that is set aside for validation; 0: none, the metric after the last pass is taken.
    n_iter_no_change : int, default 5
        Passes without a better ranking of the validation queries, after which the run ends.
    max_iter, max_time : int and float, optional
        Limits on evaluated distances and on seconds.
    verbose : bool, default False
    random_state : int, RandomState, Generator or None, default None
        Of all draws; None is 0.
    init : (n_components, d) array, optional
        Components to start from; default: the leading principal components.
    warm_start : bool, default False
        Start from the components of the last fit.

    Attributes
    ----------
    components_, metric_, solution_, n_iter_, n_features_in_, feature_names_in_
        As in `LMNN`; `n_iter_` counts evaluated distances.

    Warns
    -----
    ConvergenceWarning
        If `passes` or another limit was reached while the ranking of the validation queries still improved.

    See Also
    --------
    MLR : Rankings, too, by a convex program of any rank.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import scale
    >>> from sdpmetric.estimators import FRML
    >>> X, y = load_wine(return_X_y=True)
    >>> FRML(n_components=3).fit(scale(X), y).transform(scale(X)).shape
    (178, 3)
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
    max_iter: Count | None = None
    max_time: Positive | None = None
    verbose: Verbosity = False
    random_state: Seed = None
    init: Matrix | None = None
    warm_start: bool = False
    statement = FRMLProblem

    @with_callbacks
    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from labels: items of a query's own class are relevant to it.

        Parameters
        ----------
        X : (n, d) array or sparse matrix
        y : (n,) array
            Class labels of any kind; at least two classes.

        Returns
        -------
        self
        """
        return self._fit(*self._checked_labels(X, y))

    def _state(self, make: Callable[..., P], *given: object, **named: object) -> P:
        rank = min(RANK, self.n_features_in_) if self.n_components is None else self.n_components
        return super()._state(make, *given, n_components=rank, **named)

    def _options(self, problem: Problem) -> dict[str, object]:
        own = {name: getattr(self, name) for name in ("step", "decay", "batch_size", "passes")}
        stop = {"validation_share": self.validation_fraction, "stop_after": self.n_iter_no_change}
        return super()._options(problem) | own | stop

    def _advice(self, solution: Solution) -> str:
        if solution.status is not Status.USER_LIMIT:
            return super()._advice(solution)
        return (
            f"A limit was reached while the ranking of the validation queries still improved: raise passes "
            f"({self.passes}), max_iter or max_time, or lower n_iter_no_change ({self.n_iter_no_change})."
        )
