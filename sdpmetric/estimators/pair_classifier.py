"""Similar and dissimilar pairs as the data of a classifier."""

from __future__ import annotations

from dataclasses import field
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import Pipeline
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_is_fitted

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation
from sdpmetric.estimators.options import NotNegative, Rate, estimator
from sdpmetric.estimators.thresholds import Strategy, best_threshold
from sdpmetric.estimators.tuples import Examples, TupleEstimator


@estimator
class PairClassifier(TupleEstimator):
    """Tell similar from dissimilar pairs by a learned metric and a threshold.

    Pairs are row numbers of `examples`, (p, 2), or the examples themselves, (p, 2, d).

    Parameters
    ----------
    estimator : transformer, or a pipeline of them
        Learns from the pairs if it can, as ITML does; else from ``fit(.., labels=)``, or, as PCA, from the examples;
        ``FrozenEstimator(fitted)`` is taken as it is.
    examples : (n, d) array or frame, or callable, optional
        What row numbers in pairs mean; a callable gets an array of different row numbers or names and returns their
        examples. Default: pairs are given as examples.
    strategy : {"auto", "accuracy", "f_beta", "max_tpr", "max_tnr"}, default "auto"
        How `fit` chooses the threshold, on the pairs it learns from; see `calibrate_threshold`. "auto": that of the
        learner if it has one, as POLA does, else "accuracy".
    min_rate, beta : float
        As in `calibrate_threshold`.

    Attributes
    ----------
    threshold_ : float
        Pairs at most this distance apart are similar; not squared.
    estimator_ : estimator
        The fitted clone of `estimator`.
    classes_ : (2,) array
        Labels of dissimilar and of similar pairs, as in `fit`: (-1, 1), (0, 1) or (False, True).
    n_features_in_ : int
        Of the examples.

    See Also
    --------
    TripletClassifier, QuadrupletClassifier : For comparisons of distances.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import cross_val_score
    >>> from sdpmetric.estimators import ITML, PairClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> pairs = np.random.default_rng(0).permutation(150).reshape(75, 2)
    >>> similar = np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1, -1)
    >>> bool(cross_val_score(PairClassifier(ITML(), examples=X), pairs, similar, cv=3).mean() > 0.8)
    True
    """

    size = 2
    name = "pairs"
    strategy: Strategy | Literal["auto"] = "auto"
    min_rate: Rate | None = None
    beta: NotNegative = 1.0
    threshold_: float = field(init=False)

    def fit(
        self, X: ArrayLike, y: ArrayLike, examples: Examples | None = None, labels: ArrayLike | None = None
    ) -> Self:
        """Learn the metric from labelled pairs, then the threshold.

        Parameters
        ----------
        X : (p, 2) integers, or (p, 2, d) array
            Pairs; the learner sees no other examples.
        y : (p,) array
            1 for similar, -1 or 0 for dissimilar; or bool.
        examples : (n, d) array or frame, or callable, optional
            Instead of those of the constructor.
        labels : (n,) array, optional
            Classes of all examples: the metric is learned from those of the examples in pairs, and only the threshold
            from y.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            What the learner refuses; or if pairs, labels or the strategy are not as described.
        TypeError
            If the estimator is no transformer, or learns from labels and gets none.
        """
        rows, index, names = self._checked(X, examples)
        classes, similar = _similar(y, len(index))
        self._learn(rows, names, labels, index, similar)
        self.classes_ = classes
        last = self.estimator_[-1] if isinstance(self.estimator_, Pipeline) else self.estimator_
        if self.strategy == "auto" and hasattr(last, "threshold_"):
            self.threshold_ = float(np.sqrt(max(last.threshold_, 0.0)))  # of squared distances
            return self
        strategy: Strategy = "accuracy" if self.strategy == "auto" else self.strategy
        return self.calibrate_threshold(X, y, strategy, min_rate=self.min_rate, beta=self.beta, examples=examples)

    def calibrate_threshold(
        self,
        X: ArrayLike,
        y: ArrayLike,
        strategy: Strategy = "accuracy",
        *,
        min_rate: float | None = None,
        beta: float = 1.0,
        examples: Examples | None = None,
    ) -> Self:
        """Choose the threshold again, best on pairs that were not used for learning.

        Parameters
        ----------
        X : (p, 2) integers, or (p, 2, d) array
        y : (p,) array
        strategy : {"accuracy", "f_beta", "max_tpr", "max_tnr"}, default "accuracy"
            What is largest: the accuracy; the F-beta score of the similar pairs; the share of similar pairs that are
            recognised, where at least `min_rate` of the dissimilar ones are; the reverse.
        min_rate : float, optional
            Between 0 and 1.
        beta : float, default 1
        examples : (n, d) array or frame, or callable, optional

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If an argument is out of range, or the strategy needs pairs of both kinds.
        """
        (apart,) = self._distances(X, examples)
        _, similar = _similar(y, len(apart))
        self.threshold_ = best_threshold(apart, similar, strategy, min_rate, beta)
        return self

    def set_threshold(self, threshold: float) -> Self:
        """Set the distance up to which pairs are similar.

        Parameters
        ----------
        threshold : float

        Returns
        -------
        self
        """
        check_is_fitted(self)
        self.threshold_ = validation.check_number("threshold", threshold, -np.inf)
        return self

    def pair_score(self, X: ArrayLike, examples: Examples | None = None) -> FloatArray:
        """Similarity of pairs: minus the learned distance, (p,).

        Parameters
        ----------
        X : (p, 2) integers, or (p, 2, d) array
        examples : (n, d) array or frame, or callable, optional
        """
        (apart,) = self._distances(X, examples)
        return -apart

    def decision_function(self, X: ArrayLike, examples: Examples | None = None) -> FloatArray:
        """How far pairs are below the threshold, (p,); similar where it is at least 0.

        Parameters
        ----------
        X : (p, 2) integers, or (p, 2, d) array
        examples : (n, d) array or frame, or callable, optional
        """
        scores = self.pair_score(X, examples)
        return self.threshold_ + scores

    def predict(self, X: ArrayLike, examples: Examples | None = None) -> NDArray[np.generic]:
        """Labels of pairs, (p,), in the coding of `classes_`.

        Parameters
        ----------
        X : (p, 2) integers, or (p, 2, d) array
        examples : (n, d) array or frame, or callable, optional
        """
        check_is_fitted(self)
        return self.classes_[(self.decision_function(X, examples) >= 0.0).astype(np.intp)]

    def score(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        examples: Examples | None = None,
    ) -> float:
        """Area under the ROC curve; it does not depend on the threshold.

        Parameters
        ----------
        X : (p, 2) integers, or (p, 2, d) array
        y : (p,) array
        sample_weight : (p,) array, optional
        examples : (n, d) array or frame, or callable, optional
        """
        scores = self.pair_score(X, examples)
        _, similar = _similar(y, len(scores))
        return float(roc_auc_score(similar, scores, sample_weight=sample_weight))


def _similar(y: ArrayLike, n: int) -> tuple[NDArray[np.generic], NDArray[np.bool_]]:
    """The labels of dissimilar and similar pairs, and which of n pairs are similar."""
    given = column_or_1d(y)
    if len(given) != n:
        raise ValueError(f"y has {len(given)} labels for {n} pairs; pass one for each.")
    for classes in (np.array([False, True]), np.array([-1, 1]), np.array([0, 1])):
        alike = classes.dtype.kind == given.dtype.kind or (given.dtype.kind in "iuf" and classes.dtype.kind == "i")
        if alike and np.isin(given, classes).all():
            return classes, np.asarray(given == classes[1])
    raise ValueError("y must be 1 for similar and -1 or 0 for dissimilar pairs, or bool.")
