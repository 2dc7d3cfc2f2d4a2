"""LSML, SDML and SCML as estimators: methods that are sums of a few terms."""

from __future__ import annotations

from functools import partial
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from sdpmetric.core import validation
from sdpmetric.estimators.callbacks import with_callbacks
from sdpmetric.estimators.comparisons import QuadrupletsEstimator, rows_of
from sdpmetric.estimators.data import Data
from sdpmetric.estimators.labelled import WeightedEstimator
from sdpmetric.estimators.options import Drawn, Reduced, Solved, Started, StoppedEarly, options
from sdpmetric.estimators.pairs_base import PairsEstimator
from sdpmetric.problems.lsml import LSMLProblem
from sdpmetric.problems.scml import SCMLProblem, local_discriminants
from sdpmetric.problems.sdml import SDMLProblem


@options
class LSML(QuadrupletsEstimator, Reduced, Solved, Started, StoppedEarly):
    """Metric learning from relative comparisons (Liu et al. 2012) [LGZJW2012], in a convex form, solved to a proof.

    Learns from quadruplets, which say that one pair is nearer than another, from triplets, the quadruplets whose pairs
    share an example, or from labels, from which quadruplets are drawn.

    Parameters
    ----------
    prior : {"covariance"} or (d, d) array, default "covariance"
        What the metric stays near; see `LSMLProblem`.
    comparison_weight : float, default 1
        Of the comparisons, beside the divergence from the prior.
    n_quadruplets : int, default 1000
        Drawn from labels.

    Examples
    --------
    >>> from sdpmetric.estimators import LSML
    >>> X = [[0.0, 0.0], [0.2, 3.0], [1.0, 0.1], [1.1, 3.2]]
    >>> LSML().fit_quadruplets(X, [[0, 1, 2, 1], [2, 3, 0, 3]]).transform(X).shape
    (4, 2)
    """

    prior: ArrayLike | str = "covariance"
    comparison_weight: float = 1.0
    n_quadruplets: int = 1000
    _statement = LSMLProblem

    def _problem_of_tuples(self, X: Data, tuples: ArrayLike, weights: ArrayLike | None) -> LSMLProblem:
        rows = np.asarray(tuples)
        return self._with_own(LSMLProblem)(X, rows if rows.shape[1] == 4 else rows[:, [0, 1, 0, 2]], weights)


@options
class SDML(WeightedEstimator, PairsEstimator, Reduced, Drawn, Solved, Started, StoppedEarly):
    """Sparse determinant metric learning (Qi et al. 2009) [QTZCZ2009], solved to a proof.

    Parameters
    ----------
    prior : {"covariance"} or (d, d) array, default "covariance"
        What the metric stays near; see `SDMLProblem`.
    distance_weight : float, default 0.3
        Of the mean over all pairs of their distances, negative where they are dissimilar.
    sparsity : float, default 0.01
        Of the sizes of all entries off the diagonal.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sdpmetric.estimators import SDML
    >>> X, y = load_iris(return_X_y=True)
    >>> SDML(n_pairs=200).fit(X, y).transform(X).shape
    (150, 4)
    """

    prior: ArrayLike | str = "covariance"
    distance_weight: float = 0.3
    sparsity: float = 0.01
    _statement = SDMLProblem


@options
class SCML(QuadrupletsEstimator, Reduced, Solved, Started, StoppedEarly):
    """Sparse compositional metric learning (Shi, Bellet and Sha 2014) [SBS2014], solved to a proof.

    The metric is a nonnegative combination of given directions, most of them with weight 0.

    Parameters
    ----------
    sparsity : float, default 1e-3
        Of the sum of all weights.
    bases : (k, d) array, optional
        The directions; default: local discriminants of the labels.
    n_bases : int, optional
        About so many local discriminants; default 20 d, or fewer where there are few examples.
    n_neighbors, n_impostors : int, default 3 and 10
        The nearest members of the class, and of other classes, that make an example's triplets.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sdpmetric.estimators import SCML
    >>> X, y = load_iris(return_X_y=True)
    >>> SCML().fit(X, y).transform(X).shape[0]
    150
    """

    sparsity: float = 1e-3
    bases: ArrayLike | None = None
    n_bases: int | None = None
    n_neighbors: int = 3
    n_impostors: int = 10
    _statement = SCMLProblem

    @with_callbacks
    def fit_triplets(
        self, X: ArrayLike, triplets: ArrayLike, weights: ArrayLike | None = None, y: ArrayLike | None = None
    ) -> Self:
        """Learn from triplets; errors and warnings are those of `LMNN.fit_triplets`.

        Parameters
        ----------
        X, triplets, weights
            As in `LMNN.fit_triplets`.
        y : (n,) array, optional
            Labels to make local discriminants of, where `bases` are not given.

        Returns
        -------
        self
        """
        return self._fit_tuples(X, rows_of("triplets", triplets, 3), weights, y)

    @with_callbacks
    def fit_quadruplets(
        self, X: ArrayLike, quadruplets: ArrayLike, weights: ArrayLike | None = None, y: ArrayLike | None = None
    ) -> Self:
        """Learn from quadruplets; errors and warnings are those of `LMNN.fit_triplets`.

        Parameters
        ----------
        X, quadruplets, weights
            As in `LSML.fit_quadruplets`.
        y : (n,) array, optional
            As in `fit_triplets`.

        Returns
        -------
        self
        """
        return self._fit_tuples(X, rows_of("quadruplets", quadruplets, 4), weights, y)

    def _fit_tuples(self, X: ArrayLike, tuples: ArrayLike, weights: ArrayLike | None, y: ArrayLike | None) -> Self:
        data, bases = self._checked(X), self.bases
        if bases is None and y is None:
            raise ValueError("pass bases= to SCML, or y= of all examples, from which local discriminants are made.")
        if bases is None:
            _, index = validation.check_labels(np.asarray(y), len(data))
            bases = local_discriminants(np.asarray(data, dtype=np.float64), index, self.n_bases, self._seed())
        state = partial(SCMLProblem, bases=bases, sparsity=self.sparsity)
        return self._learn_tuples(data, lambda X, rows, w: state(X, rows, weights=w), tuples, weights)
