"""LSML, SDML and SCML as estimators: methods that are sums of a few terms."""

from __future__ import annotations

from functools import partial
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from sdpmetric.core import validation
from sdpmetric.estimators.callbacks import with_callbacks
from sdpmetric.estimators.data import Data, Labels, Weights
from sdpmetric.estimators.labelled import WeightedEstimator
from sdpmetric.estimators.options import Reduced, Solved, Started, StoppedEarly, options
from sdpmetric.estimators.pairs_base import N_PAIRS, PairsEstimator
from sdpmetric.problems.lsml import LSMLProblem
from sdpmetric.problems.scml import SCMLProblem, local_discriminants
from sdpmetric.problems.sdml import SDMLProblem


@options
class LSML(WeightedEstimator, Reduced, Solved, Started, StoppedEarly):
    """Metric learning from relative comparisons (Liu et al. 2012) [LGZJW2012], in a convex form, solved to a proof.

    Learns from quadruplets, which say that one pair is nearer than another, or from labels, from which they are drawn.

    Parameters
    ----------
    n_components : int, optional
        Columns of `transform`: the leading principal components of the transformed examples. Default: all.
    prior : {"covariance"} or (d, d) array, default "covariance"
        What the metric stays near; see `LSMLProblem`.
    comparison_weight : float, default 1
        Of the comparisons, beside the divergence from the prior.
    n_quadruplets : int, default 1000
        Drawn from labels.
    init, warm_start, early_stopping, validation_fraction, n_iter_no_change
        As in `LMNN`.
    solver, tol, max_iter, max_time, verbose
        As in `sdpmetric.estimators.ITML`; `tol` is 1e-3.
    random_state : int, RandomState or None, default None
        Of the quadruplets drawn from labels; None is 0.

    Attributes
    ----------
    components_, metric_, solution_, dual_gap_, n_iter_, n_features_in_, feature_names_in_
        As in `sdpmetric.estimators.base.MetricEstimator`.

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

    def _problem(self, X: Data, y: Labels, sample_weight: Weights = None) -> LSMLProblem:
        given = (self.n_quadruplets, self.prior, self.comparison_weight)
        return LSMLProblem.from_labels(X, y, *given, sample_weight=sample_weight, random_state=self._seed())

    @with_callbacks
    def fit_quadruplets(self, X: ArrayLike, quadruplets: ArrayLike, weights: ArrayLike | None = None) -> Self:
        """Learn from quadruplets.

        Parameters
        ----------
        X : (n, d) array
        quadruplets : (t, 4) integer array
            Row numbers of X: the near pair, then the far one.
        weights : (t,) array, optional

        Returns
        -------
        self
        """
        data = self._checked(X)
        state = partial(LSMLProblem, data, prior=self.prior, comparison_weight=self.comparison_weight)
        return self._learn_tuples(data, state, quadruplets, weights)

    def fit_triplets(self, X: ArrayLike, triplets: ArrayLike, weights: ArrayLike | None = None) -> Self:
        """Learn from triplets, the quadruplets whose two pairs share an example.

        Parameters
        ----------
        X : (n, d) array
        triplets : (t, 3) integer array
            Row numbers of X: anchor, target, impostor.
        weights : (t,) array, optional

        Returns
        -------
        self
        """
        rows = validation.rectangular("triplets", triplets)
        if rows.ndim != 2 or rows.shape[1] != 3:
            raise ValueError(f"triplets must be an integer array of shape (t, 3), got shape {rows.shape}.")
        fitted: Self = self.fit_quadruplets(X, rows[:, [0, 1, 0, 2]], weights)
        return fitted


@options
class SDML(WeightedEstimator, PairsEstimator, Reduced, Solved, Started, StoppedEarly):
    """Sparse determinant metric learning (Qi et al. 2009) [QTZCZ2009], solved to a proof.

    Parameters
    ----------
    n_components : int, optional
        Columns of `transform`: the leading principal components of the transformed examples. Default: all.
    prior : {"covariance"} or (d, d) array, default "covariance"
        What the metric stays near; see `SDMLProblem`.
    pair_weight : float, default 0.3
        Of the mean over all pairs of their distances, negative where they are dissimilar.
    sparsity : float, default 0.01
        Of the sizes of all entries off the diagonal.
    n_pairs : int or None, default 10000
        Pairs of each kind drawn from labels; None: all.
    init, warm_start, early_stopping, validation_fraction, n_iter_no_change
        As in `LMNN`.
    solver, tol, max_iter, max_time, verbose
        As in `sdpmetric.estimators.ITML`; `tol` is 1e-3.
    random_state : int, RandomState or None, default None
        Of the pairs drawn from labels; None is 0.

    Attributes
    ----------
    components_, metric_, solution_, dual_gap_, n_iter_, n_features_in_, feature_names_in_
        As in `sdpmetric.estimators.base.MetricEstimator`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sdpmetric.estimators import SDML
    >>> X, y = load_iris(return_X_y=True)
    >>> SDML(n_pairs=200).fit(X, y).transform(X).shape
    (150, 4)
    """

    prior: ArrayLike | str = "covariance"
    pair_weight: float = 0.3
    sparsity: float = 0.01
    n_pairs: int | None = N_PAIRS

    def _problem(self, X: Data, y: Labels, sample_weight: Weights = None) -> SDMLProblem:
        given = (self.n_pairs, self.prior, self.pair_weight, self.sparsity)
        return SDMLProblem.from_labels(X, y, *given, sample_weight=sample_weight, random_state=self._seed())

    def _problem_of_pairs(self, X: Data, pairs: ArrayLike, similar: ArrayLike) -> SDMLProblem:
        return SDMLProblem(X, pairs, similar, self.prior, self.pair_weight, self.sparsity)


@options
class SCML(WeightedEstimator, Reduced, Solved, Started, StoppedEarly):
    """Sparse compositional metric learning (Shi, Bellet and Sha 2014) [SBS2014], solved to a proof.

    The metric is a nonnegative combination of given directions, most of them with weight 0.

    Parameters
    ----------
    n_components : int, optional
        Columns of `transform`: the leading principal components of the transformed examples. Default: all.
    sparsity : float, default 1e-3
        Of the sum of all weights.
    bases : (k, d) array, optional
        The directions; default: local discriminants of the labels.
    n_bases : int, optional
        About so many local discriminants; default 20 d, or fewer where there are few examples.
    n_neighbors, n_impostors : int, default 3 and 10
        The nearest members of the class, and of other classes, that make an example's triplets.
    init, warm_start, early_stopping, validation_fraction, n_iter_no_change
        As in `LMNN`.
    solver, tol, max_iter, max_time, verbose
        As in `sdpmetric.estimators.ITML`; `tol` is 1e-3.
    random_state : int, RandomState or None, default None
        Of the clusters in which local discriminants are made; None is 0.

    Attributes
    ----------
    components_, metric_, solution_, dual_gap_, n_iter_, n_features_in_, feature_names_in_
        As in `sdpmetric.estimators.base.MetricEstimator`.

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

    def _problem(self, X: Data, y: Labels, sample_weight: Weights = None) -> SCMLProblem:
        sizes = (self.n_neighbors, self.n_impostors, self.sparsity)
        seed = self._seed()
        return SCMLProblem.from_labels(
            X, y, self.n_bases, *sizes, bases=self.bases, sample_weight=sample_weight, random_state=seed
        )

    @with_callbacks
    def fit_triplets(self, X: ArrayLike, triplets: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Learn from triplets.

        Parameters
        ----------
        X : (n, d) array
        triplets : (t, 3) integer array
            Row numbers of X: anchor, target, impostor.
        y : (n,) array, optional
            Labels to make local discriminants of, where `bases` are not given.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If there are neither bases nor labels, or what the problem refuses.
        """
        data = self._checked(X)
        if self.bases is None and y is None:
            raise ValueError("pass bases= to SCML, or y= of all examples, from which local discriminants are made.")
        bases = self.bases
        if bases is None:
            _, index = validation.check_labels(np.asarray(y), len(data))
            bases = local_discriminants(np.asarray(data, dtype=np.float64), index, self.n_bases, self._seed())
        return self._learn_tuples(data, partial(SCMLProblem, data, bases=bases, sparsity=self.sparsity), triplets)

    def fit_quadruplets(self, X: ArrayLike, quadruplets: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Learn from quadruplets; see `fit_triplets`.

        Parameters
        ----------
        X : (n, d) array
        quadruplets : (t, 4) integer array
            Row numbers of X: the near pair, then the far one.
        y : (n,) array, optional

        Returns
        -------
        self
        """
        fitted: Self = self.fit_triplets(X, quadruplets, y)
        return fitted
