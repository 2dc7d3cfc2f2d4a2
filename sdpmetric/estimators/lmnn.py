"""Large margin nearest neighbor classification (LMNN) as an estimator."""

from __future__ import annotations

from sdpmetric.estimators.comparisons import TripletsEstimator
from sdpmetric.estimators.large_margin import LargeMarginEstimator
from sdpmetric.estimators.options import Reduced, Solved, Started, StoppedEarly, options
from sdpmetric.problems.lmnn import LMNNProblem, Loss
from sdpmetric.problems.well_posed import Ridge
from sdpmetric.triplets.impostors import SearchMethod


@options
class LMNN(LargeMarginEstimator, TripletsEstimator, Reduced, Solved, Started, StoppedEarly):
    """Large margin nearest neighbor classification (Weinberger and Saul 2009, Eq. 14) [WS2009], solved to a proof.

    Parameters
    ----------
    n_components : int, optional
        Bound on the rank of the metric (LMNN-R, section 5.4); `transform` then gives so many columns. Default: none,
        and as many columns as the metric's rank.
    ridge : float or "auto", default "auto"
        Weight of ``trace(M)``. "auto": ``(r / n)^2`` times the mean pull cost of a direction, for n examples that vary
        in r directions: next to nothing where examples are many. 0: the paper's program; see docs/useless_optima.md.
    search : {"auto", "brute", "ball_tree"}, default "auto"
        Impostor search, exact in every case.
    n_passes : int, default 1
        Passes (section 5.1): each takes the target neighbors that are nearest under the metric of the pass before.
        Limits of time and iterations are those of one pass.
    solver : {"auto", "factored", "subgradient", "conic"}, default "auto"
        See `sdpmetric.solve`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sdpmetric.estimators import LMNN
    >>> X, y = load_iris(return_X_y=True)
    >>> lmnn = LMNN(tol=1e-3).fit(X, y)
    >>> lmnn.solution_.status.word, bool(lmnn.dual_gap_ <= 1e-3)
    ('optimal', True)
    """

    n_neighbors: int = 3
    push_weight: float = 0.5
    ridge: Ridge = "auto"
    loss: Loss = "hinge"
    search: SearchMethod = "auto"
    n_passes: int = 1
    _statement = LMNNProblem
