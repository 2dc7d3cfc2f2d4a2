"""MMC and ITML as estimators: they learn from similar and dissimilar pairs, which labels imply."""

from __future__ import annotations

from numpy.typing import ArrayLike

from sdpmetric.estimators.data import Data, Labels, Weights
from sdpmetric.estimators.labelled import WeightedEstimator
from sdpmetric.estimators.options import Reduced, Solved, Started, StoppedEarly, options
from sdpmetric.estimators.pairs_base import N_PAIRS, PairsEstimator
from sdpmetric.problems.itml import ITMLProblem
from sdpmetric.problems.mmc import MMCProblem


@options
class MMC(WeightedEstimator, PairsEstimator, Reduced, Solved, Started, StoppedEarly):
    """Mahalanobis metric for clustering (Xing, Ng, Jordan and Russell 2002) [XNJR2002], solved to a proof.

    Parameters
    ----------
    n_components : int, optional
        Columns of `transform`: the leading principal components of the transformed examples. `solution_` is the whole
        metric. Default: all.
    n_pairs : int or None, default 10000
        With labels: pairs of each kind that are drawn at most; None: all of them.
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
        Of the draw of pairs; None is 0.

    Attributes
    ----------
    components_, metric_, solution_, dual_gap_, n_iter_, n_features_in_, feature_names_in_
        As in `sdpmetric.estimators.base.MetricEstimator`.

    Examples
    --------
    >>> from sdpmetric.estimators import MMC
    >>> X = [[0.0, 0.0], [0.2, 1.0], [3.0, 0.1], [3.1, 1.2]]
    >>> mmc = MMC().fit_pairs(X, pairs=[[0, 1], [2, 3], [0, 2], [1, 3]], similar=[1, 1, -1, -1])
    >>> mmc.solution_.status.word
    'optimal'
    """

    n_pairs: int | None = N_PAIRS

    def _problem(self, X: Data, y: Labels, sample_weight: Weights = None) -> MMCProblem:
        return MMCProblem.from_labels(X, y, self.n_pairs, sample_weight=sample_weight, random_state=self._seed())

    def _problem_of_pairs(self, X: Data, pairs: ArrayLike, similar: ArrayLike) -> MMCProblem:
        return MMCProblem(X, pairs, similar)


@options
class ITML(WeightedEstimator, PairsEstimator, Reduced, Solved, Started, StoppedEarly):
    """Information-theoretic metric learning (Davis et al. 2007) [DKJSD2007], solved to a proof.

    Parameters
    ----------
    n_components : int, optional
        As in `MMC`.
    upper, lower : float, optional
        Bounds on the squared distances of similar and of dissimilar pairs; default: the 5th and 95th percentile of the
        pairs' squared distances under the prior.
    gamma : float, default 1
        Weight of the slacks.
    prior : (d, d) array, optional
        Positive definite; default: the identity.
    n_pairs : int or None, default 10000
        With labels: pairs of each kind that are drawn at most; None: all of them.
    init, warm_start, early_stopping, validation_fraction, n_iter_no_change
        As in `LMNN`.
    solver : str, default "auto"
        "factored", "bregman" or "conic"; see `sdpmetric.solve`.
    tol, max_iter, max_time, verbose, random_state
        As in `MMC`.

    Attributes
    ----------
    components_, metric_, solution_, dual_gap_, n_iter_, n_features_in_, feature_names_in_
        As in `sdpmetric.estimators.base.MetricEstimator`.

    Examples
    --------
    >>> from sdpmetric.estimators import ITML
    >>> X = [[0.0, 0.0], [0.2, 1.0], [3.0, 0.1], [3.1, 1.2]]
    >>> itml = ITML().fit_pairs(X, pairs=[[0, 1], [2, 3], [0, 2], [1, 3]], similar=[1, 1, -1, -1])
    >>> itml.solution_.status.word
    'optimal'
    """

    upper: float | None = None
    lower: float | None = None
    gamma: float = 1.0
    prior: ArrayLike | None = None
    n_pairs: int | None = N_PAIRS

    def _problem(self, X: Data, y: Labels, sample_weight: Weights = None) -> ITMLProblem:
        seed = self._seed()
        return ITMLProblem.from_labels(
            X,
            y,
            self.n_pairs,
            upper=self.upper,
            lower=self.lower,
            gamma=self.gamma,
            prior=self.prior,
            sample_weight=sample_weight,
            random_state=seed,
        )

    def _problem_of_pairs(self, X: Data, pairs: ArrayLike, similar: ArrayLike) -> ITMLProblem:
        return ITMLProblem(X, pairs, similar, self.upper, self.lower, self.gamma, self.prior)
