"""The bases of estimators that learn from labels, and from weights of the examples."""

from __future__ import annotations

from typing import ClassVar, Self, cast

from numpy.typing import ArrayLike
from sklearn.utils import Tags

from sdpmetric.core.problem import Labelled, Problem
from sdpmetric.estimators.base import MetricEstimator
from sdpmetric.estimators.callbacks import with_callbacks
from sdpmetric.estimators.data import Data, Labels, Weights, checked_data_and_labels, weighed


class LabelledEstimator(MetricEstimator):
    """An estimator that learns from labels."""

    _statement: ClassVar[type[Problem]]

    def _problem(self, X: Data, y: Labels, sample_weight: Weights = None) -> Problem:
        """State the problem of checked data, with weights where `fit` takes any."""
        state = cast(type[Labelled], self._statement).from_labels
        return self._with_own(state)(X, y, sample_weight=sample_weight)

    @with_callbacks
    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from labels.

        Parameters
        ----------
        X : (n, d) array or sparse matrix
            Finite numbers; float32 stays float32, everything else becomes float64. Sparse data are made dense.
        y : (n,) array
            Class labels of any kind; at least two classes.

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
            If the solve did not end as it should, with advice.
        """
        return self._fit(*self._checked_labels(X, y))

    def _fit(self, X: Data, y: Labels, sample_weight: Weights = None) -> Self:
        """Learn from checked data."""
        examples = self._examples(X, y)
        weights = None if sample_weight is None else sample_weight[examples.rows]
        problem = self._problem(*examples.learned, weights)
        return self._learn(problem, X, y, self._measure(problem, examples))

    def _checked_labels(self, X: ArrayLike, y: ArrayLike) -> tuple[Data, Labels]:
        return checked_data_and_labels(self, X, y, n_min=2)

    def __sklearn_tags__(self) -> Tags:
        """Labels are required."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


class WeightedEstimator(LabelledEstimator):
    """An estimator that learns from labelled examples with weights."""

    @with_callbacks
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from labels.

        Parameters
        ----------
        X : (n, d) array or sparse matrix
            Finite numbers; float32 stays float32, everything else becomes float64. Sparse data are made dense.
        y : (n,) array
            Class labels of any kind, at least two classes; or numbers, where targets are continuous.
        sample_weight : (n,) array, optional
            Nonnegative weights of the examples; the statement's ``from_labels`` says what they mean. Examples of weight
            0 are left out.

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
        UserWarning
            If a class has as few members as there are target neighbors asked for, or fewer.
        UselessOptimumWarning
            If the optimum is likely to fit the training data only.
        """
        data, labels = self._checked_labels(X, y)
        weights, rows = weighed(sample_weight, len(data))
        return self._fit(data[rows], labels[rows], weights)
