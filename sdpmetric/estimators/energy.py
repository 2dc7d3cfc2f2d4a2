"""Classification by energies under a learned metric, as an estimator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Self, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from sdpmetric.arrays import FloatArray
from sdpmetric.classification.energy import energies, energy_predict
from sdpmetric.estimators import data
from sdpmetric.estimators.data import checked_data, checked_data_and_labels
from sdpmetric.estimators.large_margin import LMNN, LargeMarginProblem, MultiMetricLMNN
from sdpmetric.lmnn.sources import LabeledTriplets

Array = TypeVar("Array", bound=NDArray[np.generic])


@data.estimator
class EnergyClassifier(ClassifierMixin, BaseEstimator):
    """Predict the label that adds least to the objective of LMNN (Weinberger and Saul 2009, Eq. 15) [WS2009].

    Learns a metric, or one for each class, and stores the training examples with their target neighbors. Validation
    examples of early stopping are left out. Program and certificate: docs/methods.md.

    Parameters
    ----------
    estimator : LMNN or MultiMetricLMNN, optional
        The metric learner; default: ``LMNN()``. With several metrics, each class must have one.

    Attributes
    ----------
    estimator_ : LMNN or MultiMetricLMNN
        The fitted clone, with `relative_gap_` and `solution_`.
    classes_ : (c,) array
        Sorted class labels.
    X_fit_, y_fit_ : (m, d) and (m,) arrays
        The training examples.
    target_neighbors_ : (m, k) int32 array
        Their target neighbors, rows of `X_fit_`, padded with -1.
    regions_ : (m,) int32 array or None
        The metric of each training example, None for a single metric.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Examples
    --------
    >>> import sdpmetric as sm
    >>> X, y = sm.datasets.load("iris")
    >>> classifier = sm.estimators.EnergyClassifier(sm.estimators.LMNN(push_weight=0.3)).fit(X[::2], y[::2])
    >>> float(classifier.score(X[1::2], y[1::2])) > 0.9
    True
    """

    estimator: LMNN | MultiMetricLMNN | None = field(default=None, kw_only=False)
    regions_: NDArray[np.int32] | None = field(init=False)

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn the metric, and keep the examples; arguments and warnings are those of `LMNN.fit` without weights.

        Raises
        ------
        ValueError
            If `estimator` is neither LMNN nor MultiMetricLMNN; as it raises it; or if a class has examples of several
            regions.
        """
        self._validate_params()
        data, labels = checked_data_and_labels(self, X, y)
        check_classification_targets(labels)
        learner = (LMNN() if self.estimator is None else clone(self.estimator)).fit(data, labels)
        problem = cast(LargeMarginProblem, learner.solution_.problem)
        regions: NDArray[np.int32] | None = getattr(learner, "regions_", None)
        classes, source = problem.classes, problem.source
        assert classes is not None
        assert isinstance(source, LabeledTriplets)
        if regions is not None and np.unique([source.labels, regions], axis=1).shape[1] > len(classes):
            raise ValueError(
                "energies take one metric for each class, and some class has examples of several regions; pass "
                "MultiMetricLMNN(regions='class')."
            )
        self.estimator_, self.classes_, self.regions_ = learner, classes, regions
        self.X_fit_, self.y_fit_, self.target_neighbors_ = problem.X, classes[source.labels], source.targets
        return self

    def predict(self, X: ArrayLike) -> NDArray[np.generic]:
        """Return the label of least energy of each example, (n,), the first among equals."""
        return self._evaluated(energy_predict, X)

    def energies(self, X: ArrayLike) -> FloatArray:
        """Return what each label would add to the objective for each example, (n, c), in the order of `classes_`."""
        return self._evaluated(energies, X)

    def _evaluated(self, evaluate: Callable[..., Array], X: ArrayLike) -> Array:
        check_is_fitted(self)
        return evaluate(
            self.estimator_.components_,
            self.X_fit_,
            self.y_fit_,
            checked_data(self, X),
            target_neighbors=self.target_neighbors_,
            push_weight=self.estimator_.push_weight,
            regions=self.regions_,
        )

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
