"""Maximally collapsing metric learning (MCML) as an estimator."""

from __future__ import annotations

from sdpmetric.estimators.labelled import WeightedEstimator
from sdpmetric.estimators.options import Reduced, Solved, Started, StoppedEarly, options
from sdpmetric.problems.mcml import MCMLProblem


@options
class MCML(WeightedEstimator, Reduced, Solved, Started, StoppedEarly):
    """Maximally collapsing metric learning (Globerson and Roweis 2006) [GR2006], solved to a proof.

    Time and memory are quadratic in the number of examples.

    Parameters
    ----------
    solver : {"auto", "factored", "conic"}, default "auto"
        See `sdpmetric.solve`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sdpmetric.estimators import MCML
    >>> X, y = load_iris(return_X_y=True)
    >>> bool(MCML(tol=1e-3).fit(X, y).dual_gap_ <= 1e-3)
    True
    """

    _statement = MCMLProblem
