"""MMC, ITML, LSML, SDML and SCML as estimators: each a statement with its parameters."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from sdpmetric.core import validation
from sdpmetric.core.named import Prior
from sdpmetric.core.problem import Problem
from sdpmetric.core.solution import Solution
from sdpmetric.core.steps import Score
from sdpmetric.estimators import base
from sdpmetric.estimators.base import SolvedEstimator, rows_of
from sdpmetric.estimators.data import N_PAIRS, Count, Data, Labels, Matrix, Weights, estimator
from sdpmetric.linalg.dependence import independent_features
from sdpmetric.relatives.itml import ITMLProblem
from sdpmetric.relatives.lsml import LSMLProblem
from sdpmetric.relatives.mmc import MMCProblem
from sdpmetric.relatives.scml import SCMLProblem, local_discriminants
from sdpmetric.relatives.sdml import SDMLProblem


def _without_zero_features(problem: Problem, components: Data) -> Data:
    """Return components with 0 for features that are 0 in the problem, since a solver may leave any number."""
    return np.where(problem.X.any(axis=0), components, components.dtype.type(0.0))


@estimator
class LSML(SolvedEstimator):
    """Metric learning from relative comparisons (Liu et al. 2012) [LGZJW2012], in a convex form, solved to a proof.

    Learns from quadruplets, which state that one pair is nearer than another; from triplets, quadruplets of
    pairs that share an example; or from quadruplets drawn by labels. Program and certificate:
    docs/methods.md.

    Parameters
    ----------
    prior : {"identity", "covariance", "random"} or (d, d) array, default "identity"
        What the metric stays near, as in `ITML`; "identity" is divided by the largest variance of the data in any
        direction.
    comparison_weight : float, default 1
        Weight of the comparisons, relative to the divergence from the prior.
    n_quadruplets : int, default 1000
        Drawn from labels.
    solver : {"auto", "factored", "conic"}, default "auto"
    tol, max_iter, max_time, verbose, random_state, init, warm_start
    early_stopping, validation_fraction, n_iter_no_change
        As in `LMNN`; `random_state` also seeds the draw of quadruplets.

    Attributes
    ----------
    components_, metric_, solution_, relative_gap_, validation_score_, n_iter_, n_features_in_, feature_names_in_
        As in `LMNN`.
    """

    prior: Matrix | Prior = "identity"
    comparison_weight: float = 1.0
    n_quadruplets: Count = 1000
    statement = LSMLProblem
    fit_triplets, fit_quadruplets = base.fit_triplets, base.fit_quadruplets

    def _problem_of_tuples(self, X: Data, tuples: ArrayLike, annotations: ArrayLike | None) -> Problem:
        rows = np.asarray(tuples)
        return super()._problem_of_tuples(X, rows if rows.shape[1] == 4 else rows[:, [0, 1, 0, 2]], annotations)


@estimator
class SDML(SolvedEstimator):
    """Sparse determinant metric learning (Qi et al. 2009) [QTZCZ2009], solved to a proof.

    The program and its certificate: docs/methods.md.

    Parameters
    ----------
    prior : {"identity", "covariance", "random"} or (d, d) array, default "identity"
        What the metric stays near, as in `ITML`; "identity" is divided by the largest variance of the data in any
        direction.
    distance_weight : float, default 0.3
        Weight of the mean distance over all pairs, with a minus sign for dissimilar pairs.
    sparsity : float, default 0.01
        Weight of the absolute entries off the diagonal.
    n_pairs : int or None, default 10000
        With labels: the largest number of pairs of each kind to draw; all pairs if None.
    solver : {"auto", "graphical_lasso", "factored", "conic"}, default "auto"
    tol, max_iter, max_time, verbose, random_state, init, warm_start
    early_stopping, validation_fraction, n_iter_no_change
        As in `LMNN`; `random_state` also seeds the draw of pairs.

    Attributes
    ----------
    components_, metric_, solution_, relative_gap_, validation_score_, n_iter_, n_features_in_, feature_names_in_
        As in `LMNN`.
    """

    prior: Matrix | Prior = "identity"
    distance_weight: float = 0.3
    sparsity: float = 0.01
    n_pairs: Count | None = N_PAIRS
    statement = SDMLProblem
    fit_pairs = base.fit_pairs


@estimator
class SCML(SolvedEstimator):
    """Sparse compositional metric learning (Shi, Bellet and Sha 2014) [SBS2014], solved to a proof.

    The metric is a nonnegative combination of given directions, most of them with weight 0. Program and certificate:
    docs/methods.md.

    Parameters
    ----------
    sparsity : float, default 1e-3
        Weight of the sum of all weights.
    bases : (k, d) array, optional
        The directions; default: local discriminants of the labels.
    n_bases : int, optional
        About how many local discriminants; default 20 d, or fewer if there are few examples.
    n_neighbors, n_impostors : int, default 3 and 10
        The nearest members of the class, and of other classes, that make an example's triplets.
    solver : {"auto", "highs", "factored", "conic"}, default "auto"
    tol, max_iter, max_time, verbose, random_state, init, warm_start
    early_stopping, validation_fraction, n_iter_no_change
        As in `LMNN`; `random_state` also seeds the choice of examples for local discriminants.

    Attributes
    ----------
    components_, metric_, solution_, relative_gap_, validation_score_, n_iter_, n_features_in_, feature_names_in_
        As in `LMNN`.
    """

    sparsity: float = 1e-3
    bases: Matrix | None = None
    n_bases: Count | None = None
    n_neighbors: Count = 3
    n_impostors: Count = 10
    statement = SCMLProblem

    def fit_triplets(
        self, X: ArrayLike, triplets: ArrayLike, weights: ArrayLike | None = None, y: ArrayLike | None = None
    ) -> Self:
        """Learn from triplets as `LMNN.fit_triplets` does; without `bases`, labels y make local discriminants."""
        return self._fit_with_bases(X, rows_of("triplets", triplets, 3), weights, y)

    def fit_quadruplets(
        self, X: ArrayLike, quadruplets: ArrayLike, weights: ArrayLike | None = None, y: ArrayLike | None = None
    ) -> Self:
        """Learn from quadruplets as `LSML.fit_quadruplets` does; y as in `fit_triplets`."""
        return self._fit_with_bases(X, rows_of("quadruplets", quadruplets, 4), weights, y)

    def _fit_with_bases(self, X: ArrayLike, tuples: ArrayLike, weights: ArrayLike | None, y: ArrayLike | None) -> Self:
        data, bases = self._checked(X), self.bases
        if bases is None and y is None:
            raise ValueError("pass bases= to SCML, or y= of all examples, from which local discriminants are made.")
        if bases is None:
            _, index = validation.check_labels(np.asarray(y), len(data))
            bases = local_discriminants(np.asarray(data, dtype=np.float64), index, self.n_bases, self._seed())

        def state(X: Data, rows: ArrayLike, weights: ArrayLike | None) -> Problem:
            return SCMLProblem(X, rows, bases=bases, sparsity=self.sparsity, weights=weights)

        return self._fit_tuples(data, tuples, weights, state)


@estimator
class MMC(SolvedEstimator):
    """Mahalanobis metric for clustering (Xing, Ng, Jordan and Russell 2002) [XNJR2002], solved to a proof.

    The program and its certificate: docs/methods.md. Features that are combinations of others up to rounding count as
    0, unless `diagonal`, and the certificate is about the data without them (docs/useless_optima.md).

    Parameters
    ----------
    diagonal : bool, default False
        One weight for each feature.
    n_pairs : int or None, default 10000
        With labels: the largest number of pairs of each kind to draw; all pairs if None.
    solver : {"auto", "factored", "conic"}, default "auto"
    tol, max_iter, max_time, verbose, random_state, init, warm_start
    early_stopping, validation_fraction, n_iter_no_change
        As in `LMNN`; `random_state` also seeds the draw of pairs.

    Attributes
    ----------
    components_, metric_, solution_, relative_gap_, validation_score_, n_iter_, n_features_in_, feature_names_in_
        As in `LMNN`.
    """

    diagonal: bool = False
    n_pairs: Count | None = N_PAIRS
    statement = MMCProblem
    checks_neighbors = True
    fit_pairs = base.fit_pairs

    def _problem(self, X: Data, y: Labels, weights: Weights = None) -> Problem:
        return super()._problem(self._independent(X), y, weights)

    def _problem_of_tuples(self, X: Data, tuples: ArrayLike, annotations: ArrayLike | None) -> Problem:
        return super()._problem_of_tuples(self._independent(X), tuples, annotations)

    def _independent(self, X: Data) -> Data:
        """Return the data with 0 in dependent features; a diagonal metric's bounds hold for the data as they are."""
        if self.diagonal:
            return X
        return np.where(independent_features(X) | (np.ptp(X, axis=0) == 0.0), X, X.dtype.type(0.0))

    def _solve(
        self, problem: Problem, y: Labels | None, measure: Score | None, **options: object
    ) -> tuple[Solution, float | None]:
        solution, score = super()._solve(problem, y, measure, **options)
        return replace(solution, components=_without_zero_features(problem, solution.components)), score

    def _measure(self, problem: Problem, y: Labels, X_held: Data, y_held: Labels) -> Score:
        score = super()._measure(problem, y, X_held, y_held)
        return lambda L: score(np.asarray(_without_zero_features(problem, L), dtype=np.float64))


@estimator
class ITML(SolvedEstimator):
    """Information-theoretic metric learning (Davis et al. 2007) [DKJSD2007], solved to a proof.

    The program and its certificate: docs/methods.md.

    Parameters
    ----------
    upper, lower : float, optional
        Bounds on the squared distances of similar and of dissimilar pairs; default: the 5th and 95th percentile of the
        pairs' squared distances under the prior.
    gamma : float or "auto", default "auto"
        Weight of a pair's slack against the divergence from the prior. "auto": 1 while the pairs' weights add up to
        100 at most, and 100 divided by their sum if to more, since thousands of pairs would outweigh the prior.
    prior : {"identity", "covariance", "random"} or (d, d) array, default "identity"
        What the metric stays near, positive definite: the identity, the inverse of the data's covariance with 0.1 % of
        the mean variance added, a random matrix, or a given one.
    n_pairs : int or None, default 10000
        With labels: the largest number of pairs of each kind to draw; all pairs if None.
    solver : {"auto", "factored", "conic"}, default "auto"
    tol, max_iter, max_time, verbose, random_state, init, warm_start
    early_stopping, validation_fraction, n_iter_no_change
        As in `LMNN`; `random_state` also seeds the draw of pairs.

    Attributes
    ----------
    components_, metric_, solution_, relative_gap_, validation_score_, n_iter_, n_features_in_, feature_names_in_
        As in `LMNN`.
    """

    upper: float | None = None
    lower: float | None = None
    gamma: float | Literal["auto"] = "auto"
    prior: Matrix | Prior = "identity"
    n_pairs: Count | None = N_PAIRS
    statement = ITMLProblem
    fit_pairs = base.fit_pairs
