"""MMC and ITML as estimators: they learn from similar and dissimilar pairs, which labels imply."""

from __future__ import annotations

from numpy.typing import ArrayLike

from sdpmetric.estimators.labelled import WeightedEstimator
from sdpmetric.estimators.options import Drawn, Reduced, Solved, Started, StoppedEarly, options
from sdpmetric.estimators.pairs_base import PairsEstimator
from sdpmetric.problems.itml import ITMLProblem
from sdpmetric.problems.mmc import MMCProblem


@options
class MMC(WeightedEstimator, PairsEstimator, Reduced, Drawn, Solved, Started, StoppedEarly):
    """Mahalanobis metric for clustering (Xing, Ng, Jordan and Russell 2002) [XNJR2002], solved to a proof.

    Parameters
    ----------
    solver : {"auto", "factored", "conic"}, default "auto"
        See `sdpmetric.solve`.

    Examples
    --------
    >>> from sdpmetric.estimators import MMC
    >>> X = [[0.0, 0.0], [0.2, 1.0], [3.0, 0.1], [3.1, 1.2]]
    >>> mmc = MMC().fit_pairs(X, pairs=[[0, 1], [2, 3], [0, 2], [1, 3]], similar=[1, 1, -1, -1])
    >>> mmc.solution_.status.word
    'optimal'
    """

    _statement = MMCProblem


@options
class ITML(WeightedEstimator, PairsEstimator, Reduced, Drawn, Solved, Started, StoppedEarly):
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
    solver : {"auto", "factored", "bregman", "conic"}, default "auto"
        See `sdpmetric.solve`.

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
    _statement = ITMLProblem
