"""MMC and ITML as estimators: they learn from similar and dissimilar pairs, which labels imply."""

from __future__ import annotations

from dataclasses import field

from sdpmetric.estimators import routes
from sdpmetric.estimators.base import SolvedEstimator
from sdpmetric.estimators.options import N_PAIRS, Count, Matrix, estimator
from sdpmetric.problems.itml import ITMLProblem
from sdpmetric.problems.mmc import MMCProblem


@estimator
class MMC(SolvedEstimator):
    """Mahalanobis metric for clustering (Xing, Ng, Jordan and Russell 2002) [XNJR2002], solved to a proof.

    Parameters
    ----------
    n_components : int, optional
        Columns of `transform`: the leading principal components of the transformed examples; `solution_` is the whole
        metric. Default: all.
    n_pairs : int or None, default 10000
        With labels: pairs of each kind that are drawn at most; None: all of them.
    solver : {"auto", "factored", "conic"}, default "auto"
    tol, max_iter, max_time, verbose, random_state, init, warm_start
        As in `LMNN`; `random_state` is also that of pairs.
    early_stopping, validation_fraction, n_iter_no_change
        As in `LMNN`: a share of the examples or pairs is kept out; the score is the accuracy of nearest neighbors, or
        the area under the ROC curve of pairs.

    Attributes
    ----------
    components_, metric_, solution_, relative_gap_, validation_score_, n_iter_, n_features_in_, feature_names_in_
        As in `LMNN`.

    See Also
    --------
    ITML : Stays near a prior, and its optimum keeps all directions.
    PairClassifier : Tells pairs apart by the metric and a threshold.

    Examples
    --------
    >>> from sdpmetric.estimators import MMC
    >>> X = [[0.0, 0.0], [0.2, 1.0], [3.0, 0.1], [3.1, 1.2]]
    >>> mmc = MMC().fit_pairs(X, pairs=[[0, 1], [2, 3], [0, 2], [1, 3]], similar=[1, 1, -1, -1])
    >>> mmc.solution_.status.word
    'optimal'
    """

    n_components: Count | None = field(default=None, kw_only=False)
    n_pairs: Count | None = N_PAIRS
    statement = MMCProblem
    fit_pairs = routes.fit_pairs


@estimator
class ITML(SolvedEstimator):
    """Information-theoretic metric learning (Davis et al. 2007) [DKJSD2007], solved to a proof.

    Parameters
    ----------
    n_components : int, optional
        Columns of `transform`: the leading principal components of the transformed examples; `solution_` is the whole
        metric. Default: all.
    upper, lower : float, optional
        Bounds on the squared distances of similar and of dissimilar pairs; default: the 5th and 95th percentile of the
        pairs' squared distances under the prior.
    gamma : float, default 1
        Weight of the slacks.
    prior : (d, d) array, optional
        Positive definite; default: the identity.
    n_pairs : int or None, default 10000
        With labels: pairs of each kind that are drawn at most; None: all of them.
    solver : {"auto", "factored", "bregman", "conic"}, default "auto"
    tol, max_iter, max_time, verbose, random_state, init, warm_start
        As in `LMNN`; `random_state` is also that of pairs.
    early_stopping, validation_fraction, n_iter_no_change
        As in `LMNN`: a share of the examples or pairs is kept out; the score is the accuracy of nearest neighbors, or
        the area under the ROC curve of pairs.

    Attributes
    ----------
    components_, metric_, solution_, relative_gap_, validation_score_, n_iter_, n_features_in_, feature_names_in_
        As in `LMNN`.

    See Also
    --------
    LEGO : The same divergence, one pair after another.
    PairClassifier : Tells pairs apart by the metric and a threshold.

    Examples
    --------
    >>> from sdpmetric.estimators import ITML
    >>> X = [[0.0, 0.0], [0.2, 1.0], [3.0, 0.1], [3.1, 1.2]]
    >>> itml = ITML().fit_pairs(X, pairs=[[0, 1], [2, 3], [0, 2], [1, 3]], similar=[1, 1, -1, -1])
    >>> itml.solution_.status.word
    'optimal'
    """

    n_components: Count | None = field(default=None, kw_only=False)
    upper: float | None = None
    lower: float | None = None
    gamma: float = 1.0
    prior: Matrix | None = None
    n_pairs: Count | None = N_PAIRS
    statement = ITMLProblem
    fit_pairs = routes.fit_pairs
