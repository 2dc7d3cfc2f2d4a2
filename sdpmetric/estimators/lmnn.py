"""Large margin nearest neighbor classification (LMNN) as an estimator."""

from __future__ import annotations

from dataclasses import field

from sdpmetric.estimators import routes
from sdpmetric.estimators.large_margin import LargeMarginEstimator
from sdpmetric.estimators.options import Count, Ridge, estimator
from sdpmetric.problems.lmnn import LMNNProblem, Loss
from sdpmetric.triplets.impostors import SearchMethod


@estimator
class LMNN(LargeMarginEstimator):
    """Large margin nearest neighbor classification (Weinberger and Saul 2009, Eq. 14) [WS2009], solved to a proof.

    Parameters
    ----------
    n_components : int, optional
        Bound on the rank of the metric (LMNN-R, section 5.4); `transform` then gives so many columns. Default: none,
        and as many columns as the metric's rank.
    n_neighbors : int, default 3
        Target neighbors per example.
    push_weight : float, default 0.5
        ``mu`` in ``(1 - mu) pull + mu push``.
    ridge : float or "auto", default "auto"
        Weight of ``trace(M)``. "auto": ``(r / n)^2`` times the mean pull cost of a direction, for n examples that vary
        in r directions: next to nothing where examples are many. 0: the paper's program; see docs/useless_optima.md.
    loss : {"hinge", "squared_hinge"}, default "hinge"
    search : {"auto", "brute", "ball_tree"}, default "auto"
        Impostor search, exact in every case.
    n_passes : int, default 1
        Passes (section 5.1): each takes the target neighbors that are nearest under the metric of the pass before.
        Limits of time and iterations are those of one pass.
    solver : {"auto", "factored", "subgradient", "conic"}, default "auto"
    tol : float or None, default 1e-3
        Relative gap to prove; None: the default of the solver.
    max_iter, max_time : int and float, optional
        Limits on evaluations and on seconds.
    verbose : bool, default False
    random_state : int, RandomState, Generator or None, default None
        Of what early stopping sets aside; None is 0.
    init, warm_start : (r, d) array and bool, default None and False
        Components to start from, or those of the last fit; the optimum is the same.
    early_stopping, validation_fraction, n_iter_no_change : default False, 0.3 and 10
        Keep a share of the examples or triplets out of the fit, and end it after so many steps without a better score
        on them, the accuracy of nearest neighbors, or the share of triplets in order; the best metric is taken.

    Attributes
    ----------
    components_, metric_ : (r, d) and (d, d) arrays
        The factor L, in the dtype of the data, and ``L.T @ L``.
    solution_ : Solution
        With certificate, status, multipliers and trace.
    solutions_ : list of Solution
        One for each pass, each with its certificate.
    relative_gap_ : float
        The proven relative gap.
    ridge_ : float
        The ridge that was used.
    validation_score_ : float
        With early stopping, the score on what was kept out.
    n_iter_, n_features_in_, feature_names_in_
        Evaluations of objective and gradient; features, and their names where the data have any.

    See Also
    --------
    MultiMetricLMNN : One metric for each class or region.
    KernelLMNN : In the feature space of a kernel.
    EnergyClassifier : Predicts labels by the objective of LMNN.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sdpmetric.estimators import LMNN
    >>> X, y = load_iris(return_X_y=True)
    >>> lmnn = LMNN(tol=1e-3).fit(X, y)
    >>> lmnn.solution_.status.word, bool(lmnn.relative_gap_ <= 1e-3)
    ('optimal', True)
    """

    n_components: Count | None = field(default=None, kw_only=False)
    n_neighbors: Count = 3
    push_weight: float = 0.5
    ridge: Ridge = "auto"
    loss: Loss = "hinge"
    search: SearchMethod = "auto"
    n_passes: Count = 1
    statement = LMNNProblem
    fit_triplets = routes.fit_triplets
