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
    tol, max_iter, max_time, verbose, random_state, init, warm_start
        As in `LMNN`.
    early_stopping, validation_fraction, n_iter_no_change
        As in `LMNN`: a share of the examples is kept out; the score is the accuracy of nearest neighbors.

    Attributes
    ----------
    components_, metric_, solution_, relative_gap_, validation_score_, n_iter_, n_features_in_, feature_names_in_
        As in `LMNN`.

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
