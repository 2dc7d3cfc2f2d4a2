"""MMC, ITML and POLA as estimators: they learn from similar and dissimilar pairs, which labels imply."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from sdpmetric import validation
from sdpmetric.estimators.base import Data, Labels, PairsEstimator
from sdpmetric.problems.itml import ITMLProblem
from sdpmetric.problems.mmc import MMCProblem
from sdpmetric.problems.pairs import pairs_of_labels
from sdpmetric.problems.pola import POLAProblem
from sdpmetric.solution import Solution
from sdpmetric.solvers.base import CertifiableProblem

# Pairs of each kind that are drawn from labels, unless told otherwise.
N_PAIRS = 10_000


class MMC(PairsEstimator):
    """Mahalanobis metric for clustering (Xing, Ng, Jordan and Russell 2002) [XNJR2002], solved to a proof.

    Parameters
    ----------
    n_pairs : int or None, default 10000
        With labels: pairs of each kind that are drawn at most; None: all of them.
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

    def __init__(
        self,
        *,
        n_pairs: int | None = N_PAIRS,
        solver: str = "auto",
        tol: float | None = 1e-3,
        max_iter: int | None = None,
        max_time: float | None = None,
        verbose: bool = False,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_pairs = n_pairs
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.verbose = verbose
        self.random_state = random_state

    def _problem(self, X: Data, y: Labels) -> MMCProblem:
        return MMCProblem.from_labels(X, y, self.n_pairs, random_state=self._seed())

    def _problem_of_pairs(self, X: Data, pairs: ArrayLike, similar: ArrayLike) -> MMCProblem:
        return MMCProblem(X, pairs, similar)


class ITML(PairsEstimator):
    """Information-theoretic metric learning (Davis et al. 2007) [DKJSD2007], solved to a proof.

    Parameters
    ----------
    upper, lower : float, optional
        Bounds on the squared distances of similar and of dissimilar pairs; default: the 5th and 95th percentile of the
        pairs' squared distances under the prior.
    gamma : float, default 1
        Weight of the slacks.
    prior : (d, d) array, optional
        Positive definite; default: the identity.
    n_pairs : int or None, default 10000
        With labels: pairs of each kind that are drawn at most; None: all of them.
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

    def __init__(
        self,
        *,
        upper: float | None = None,
        lower: float | None = None,
        gamma: float = 1.0,
        prior: ArrayLike | None = None,
        n_pairs: int | None = N_PAIRS,
        solver: str = "auto",
        tol: float | None = 1e-3,
        max_iter: int | None = None,
        max_time: float | None = None,
        verbose: bool = False,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.upper = upper
        self.lower = lower
        self.gamma = gamma
        self.prior = prior
        self.n_pairs = n_pairs
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.verbose = verbose
        self.random_state = random_state

    def _problem(self, X: Data, y: Labels) -> ITMLProblem:
        seed = self._seed()
        return ITMLProblem.from_labels(
            X,
            y,
            self.n_pairs,
            upper=self.upper,
            lower=self.lower,
            gamma=self.gamma,
            prior=self.prior,
            random_state=seed,
        )

    def _problem_of_pairs(self, X: Data, pairs: ArrayLike, similar: ArrayLike) -> ITMLProblem:
        return ITMLProblem(X, pairs, similar, self.upper, self.lower, self.gamma, self.prior)


class POLA(PairsEstimator):
    """POLA in batch: a metric and a threshold between similar and dissimilar pairs [SSN2004], solved to a proof.

    Parameters
    ----------
    slack_weight : float or None, default 0.01
        Weight of the sum of the slacks; None: hard margin, which few data allow. Where many pairs contradict each
        other, larger weights take longer.
    initial_threshold : float, default 1
        ``b_1``, at least 1.
    n_pairs : int or None, default 10000
        With labels: pairs of each kind that are drawn at most; None: all of them.
    solver : str, default "auto"
        "dual" or "conic", and "batch" for the hard margin; see `sdpmetric.solve`.
    tol, max_iter, max_time, verbose, random_state
        As in `MMC`.

    Attributes
    ----------
    threshold_ : float
        Squared distances below it mean similar.
    components_, metric_, solution_, dual_gap_, n_iter_, n_features_in_, feature_names_in_
        As in `sdpmetric.estimators.base.MetricEstimator`.

    Examples
    --------
    >>> from sdpmetric.estimators import POLA
    >>> X = [[0.0, 0.0], [0.2, 1.0], [3.0, 0.1], [3.1, 1.2]]
    >>> pola = POLA(slack_weight=None).fit_pairs(X, pairs=[[0, 1], [2, 3], [0, 2], [1, 3]], similar=[1, 1, -1, -1])
    >>> pola.predict_pairs(X, [[0, 1], [1, 2]]).tolist()
    [True, False]
    """

    threshold_: float

    def __init__(
        self,
        *,
        slack_weight: float | None = 0.01,
        initial_threshold: float = 1.0,
        n_pairs: int | None = N_PAIRS,
        solver: str = "auto",
        tol: float | None = 1e-3,
        max_iter: int | None = None,
        max_time: float | None = None,
        verbose: bool = False,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.slack_weight = slack_weight
        self.initial_threshold = initial_threshold
        self.n_pairs = n_pairs
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.verbose = verbose
        self.random_state = random_state

    def _problem(self, X: Data, y: Labels) -> POLAProblem:
        _, index = validation.check_labels(y, len(X))
        return self._problem_of_pairs(X, *pairs_of_labels(index, self.n_pairs, self._seed()))

    def _problem_of_pairs(self, X: Data, pairs: ArrayLike, similar: ArrayLike) -> POLAProblem:
        return POLAProblem(X, pairs, similar, self.slack_weight, self.initial_threshold)

    def predict_pairs(self, X: ArrayLike, pairs: ArrayLike) -> NDArray[np.bool_]:
        """Say which pairs are similar: those whose squared distance is at most the threshold.

        Parameters
        ----------
        X : (n, n_features_in_) array
        pairs : (p, 2) integer array
            Row numbers of X.

        Returns
        -------
        similar : (p,) bool array
        """
        check_is_fitted(self)
        return np.asarray(self.pair_distance(X, pairs) ** 2 <= self.threshold_)

    def _keep(self, problem: CertifiableProblem, solution: Solution) -> None:
        super()._keep(problem, solution)
        assert solution.threshold is not None
        self.threshold_ = solution.threshold
