"""Large margin nearest neighbor classification (LMNN) as an estimator."""

from __future__ import annotations

from functools import partial

import scipy.sparse as sp
from numpy.typing import ArrayLike

from sdpmetric.estimators.callbacks import with_callbacks
from sdpmetric.estimators.data import Data, Labels
from sdpmetric.estimators.large_margin import Given, LargeMarginEstimator
from sdpmetric.estimators.options import Reduced, Solved, Started, StoppedEarly, options
from sdpmetric.problems.lmnn import LMNNProblem, Loss
from sdpmetric.problems.well_posed import Ridge
from sdpmetric.triplets.sources import SearchMethod


@options
class LMNN(LargeMarginEstimator, Reduced, Solved, Started, StoppedEarly):
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
    early_stopping : bool, default False
        Set a part of the examples aside for validation, and take the metric of the solve with the most accurate
        nearest-neighbor predictions for them; `solution_` has its certificate. Of pairs, triplets and quadruplets a
        part is set aside instead, and scored by the area under the ROC curve, or the share in order.
    validation_fraction : float, default 0.3
        The share of validation examples, stratified by class; or of tuples.
    n_iter_no_change : int, default 10
        Steps of the solver without a better score, after which the solve ends.
    init : (r, d) array, optional
        Components to start from; default: the solver's own start. The optimum is the same.
    warm_start : bool, default False
        Start from the metric of the last fit. The optimum is the same; it is found sooner.
    solver : str, default "auto"
        "factored", "subgradient" or "conic"; see `sdpmetric.solve`.
    tol : float or None, default 1e-3
        Relative gap to prove; None: the default of the solver.
    max_iter, max_time : optional
        Limits on evaluations and on seconds.
    verbose : bool, default False
        Print progress.
    random_state : int, RandomState or None, default None
        Of the solver and of the choice of validation examples; None is 0.

    Attributes
    ----------
    components_, metric_, solution_, dual_gap_, n_iter_, n_features_in_, feature_names_in_
        As in `sdpmetric.estimators.base.MetricEstimator`.
    solutions_ : list of Solution
        One for each pass, each with its certificate.
    ridge_ : float
        The ridge that was used.
    validation_score_ : float
        With early stopping, the accuracy of the learned metric on the validation examples.

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

    def _state(self, X: Data, y: Labels, targets: sp.csr_array | None, given: Given) -> LMNNProblem:
        return LMNNProblem.from_labels(
            X,
            y,
            self.n_neighbors,
            self.push_weight,
            target_neighbors=targets,
            ridge=self.ridge,
            loss=self.loss,
            search=self.search,
            sample_weight=given.sample_weight,
        )

    @with_callbacks
    def fit_triplets(self, X: ArrayLike, triplets: ArrayLike, weights: ArrayLike | None = None) -> LMNN:
        """Learn from triplets, in one pass.

        Parameters
        ----------
        X : (n, d) array
            Finite numbers; float32 stays float32, everything else becomes float64.
        triplets : (t, 3) integer array
            Row numbers of X: an anchor, an example that is to be near it, and one that is to be further away.
        weights : (t,) array, optional
            Nonnegative weights; default 1.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            What the problem refuses.

        Warns
        -----
        ConvergenceWarning
            If the requested tolerance is not proven, with advice.
        """
        data = self._checked(X)
        state = partial(LMNNProblem.from_triplets, data, push_weight=self.push_weight, ridge=self.ridge, loss=self.loss)
        self._learn_tuples(data, state, triplets, weights)
        self.solutions_ = [self.solution_]
        return self
