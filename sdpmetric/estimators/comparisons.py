"""The bases of estimators that learn from triplets and quadruplets: one pair is nearer than another."""

from __future__ import annotations

from typing import Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sdpmetric.core import validation
from sdpmetric.core.problem import Problem
from sdpmetric.estimators.callbacks import with_callbacks
from sdpmetric.estimators.data import Data
from sdpmetric.estimators.labelled import WeightedEstimator
from sdpmetric.problems.lmnn import LMNNProblem


class TripletsEstimator(WeightedEstimator):
    """An estimator that learns from triplets, or from labels, which imply them."""

    def _problem_of_tuples(self, X: Data, tuples: ArrayLike, weights: ArrayLike | None) -> Problem:
        """State the problem of checked data and tuples of their rows."""
        return self._with_own(cast(type[LMNNProblem], self._statement).from_triplets)(X, tuples, weights=weights)

    @with_callbacks
    def fit_triplets(self, X: ArrayLike, triplets: ArrayLike, weights: ArrayLike | None = None) -> Self:
        """Learn from triplets.

        Parameters
        ----------
        X : (n, d) array
            As in `fit`.
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
        rows = rows_of("triplets", triplets, 3)
        return self._learn_tuples(self._checked(X), self._problem_of_tuples, rows, weights)


class QuadrupletsEstimator(TripletsEstimator):
    """An estimator that learns from quadruplets, too."""

    def _problem_of_tuples(self, X: Data, tuples: ArrayLike, weights: ArrayLike | None) -> Problem:
        return self._with_own(self._statement)(X, tuples, weights=weights)

    @with_callbacks
    def fit_quadruplets(self, X: ArrayLike, quadruplets: ArrayLike, weights: ArrayLike | None = None) -> Self:
        """Learn from quadruplets; errors and warnings are those of `fit_triplets`.

        Parameters
        ----------
        X : (n, d) array
            As in `fit`.
        quadruplets : (t, 4) integer array
            Row numbers of X: the near pair, then the far one.
        weights : (t,) array, optional
            Nonnegative weights; default 1.

        Returns
        -------
        self
        """
        rows = rows_of("quadruplets", quadruplets, 4)
        return self._learn_tuples(self._checked(X), self._problem_of_tuples, rows, weights)


def rows_of(name: str, tuples: ArrayLike, size: int) -> NDArray[np.integer]:
    """Tuples of row numbers, (t, size)."""
    rows = validation.rectangular(name, tuples)
    if rows.ndim != 2 or rows.shape[1] != size:
        raise ValueError(f"{name} must be an integer array of shape (t, {size}), got shape {rows.shape}.")
    return rows
