"""Maximally collapsing metric learning (MCML) as an estimator."""

from __future__ import annotations

from dataclasses import field

from sdpmetric.estimators.base import SolvedEstimator
from sdpmetric.estimators.options import Count, estimator
from sdpmetric.problems.mcml import MCMLProblem


@estimator
class MCML(SolvedEstimator):
    """Maximally collapsing metric learning (Globerson and Roweis 2006) [GR2006], solved to a proof.

    Time and memory are quadratic in the number of examples.

    Parameters
    ----------
    n_components : int, optional
        Columns of `transform`: the leading principal components of the transformed examples; `solution_` is the whole
        metric. Default: all.
    solver : {"auto", "factored", "conic"}, default "auto"
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
        Keep a share of the examples out of the fit, and end it after so many steps without a better score on them, the
        accuracy of nearest neighbors; the best metric is taken.

    Attributes
    ----------
    components_, metric_ : (r, d) and (d, d) arrays
        The factor L, in the dtype of the data, and ``L.T @ L``.
    solution_ : Solution
        With certificate, status, multipliers and trace.
    relative_gap_, validation_score_ : float
        The proven relative gap; with early stopping, the score on what was kept out.
    n_iter_, n_features_in_, feature_names_in_
        Evaluations of objective and gradient; features, and their names where the data have any.

    See Also
    --------
    NCA : The same neighbors, where only one of the class has to be near; not convex.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sdpmetric.estimators import MCML
    >>> X, y = load_iris(return_X_y=True)
    >>> bool(MCML(tol=1e-3).fit(X, y).relative_gap_ <= 1e-3)
    True
    """

    n_components: Count | None = field(default=None, kw_only=False)
    statement = MCMLProblem
