"""Similar and dissimilar pairs as the data of a classifier."""

from __future__ import annotations

from dataclasses import field
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import Pipeline
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_is_fitted

from sdpmetric.arrays import BoolArray, FloatArray
from sdpmetric.classification.guarantees import Control, GuaranteedThreshold, disjoint_pairs, guaranteed_threshold
from sdpmetric.core import validation
from sdpmetric.estimators.options import NotNegative, Rate, Share, estimator
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
    guarantee : {"false_matches", "false_non_matches", "precision"}, optional
        What is bounded by `alpha` with confidence ``1 - delta``, as in `guaranteed_threshold`, on pairs that `fit`
        holds back: no two of them, and no pair that is learned from, share an example. `strategy` is not used then.
    alpha, delta : float, default 0.01 and 0.05
        The largest share of errors, and one minus the confidence.
    validation_fraction : float, default 0.5
        Share that is held back of the pairs that can be, where there is a guarantee.
    random_state : int, default 0
        Of the pairs that are held back.

    Attributes
    ----------
    threshold_ : float
        Pairs at most this distance apart are similar; not squared.
    guarantee_ : GuaranteedThreshold or None
        With counts and bounds, where the threshold was chosen with a guarantee.
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
    guarantee: Control | None = None
    alpha: Share = 0.01
    delta: Share = 0.05
    validation_fraction: Share = 0.5
    random_state: int = 0
    threshold_: float = field(init=False)
    guarantee_: GuaranteedThreshold | None = field(init=False)

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
            What the learner refuses; or if pairs, labels or the strategy are not as described; or if the pairs do not
            suffice for the guarantee: how many are missing.
        TypeError
            If the estimator is no transformer, or learns from labels and gets none.
        """
        rows, index, names = self._checked(X, examples)
        classes, similar = _similar(y, len(index))
        if self.guarantee is not None:
            return self._fit_guaranteed(X, y, examples, labels, index, similar)
        self._learn(rows, names, labels, index, similar)
        self.classes_, self.guarantee_ = classes, None
        last = self.estimator_[-1] if isinstance(self.estimator_, Pipeline) else self.estimator_
        if self.strategy == "auto" and hasattr(last, "threshold_"):
            self.threshold_ = float(np.sqrt(max(last.threshold_, 0.0)))  # of squared distances
            return self
        strategy: Strategy = "accuracy" if self.strategy == "auto" else self.strategy
        return self.calibrate_threshold(X, y, strategy, min_rate=self.min_rate, beta=self.beta, examples=examples)

    def _fit_guaranteed(
        self,
        X: ArrayLike,
        y: ArrayLike,
        examples: Examples | None,
        labels: ArrayLike | None,
        index: NDArray[np.intp],
        similar: BoolArray,
    ) -> Self:
        """Hold pairs back, learn from those that share no example with them, and choose the threshold on the former."""
        kind = {"false_matches": ~similar, "false_non_matches": similar}.get(str(self.guarantee))
        counted = np.arange(len(index)) if kind is None else np.flatnonzero(kind)
        free = counted[disjoint_pairs(index[counted], self.random_state)]
        chosen = np.random.default_rng(self.random_state).permutation(free)
        held = np.sort(chosen[: max(1, round(self.validation_fraction * len(free)))])
        rest = np.flatnonzero(~np.isin(index, index[held]).any(axis=1))
        if not len(rest) or not len(held):
            raise ValueError(
                f"guarantee={self.guarantee!r} holds {len(held)} of {len(index)} pairs back, and {len(rest)} share no "
                "example with them; pass more pairs, a smaller validation_fraction, or guarantee=None and the pairs of "
                "other examples to calibrate_threshold(.., guarantee=)."
            )
        pairs, given = np.asarray(X), column_or_1d(y)
        plain = clone(self).set_params(guarantee=None).fit(pairs[rest], given[rest], examples, labels)
        for name, value in vars(plain).items():
            if name.endswith("_"):
                setattr(self, name, value)
        return self.calibrate_threshold(
            pairs[held], given[held], examples=examples, guarantee=self.guarantee, alpha=self.alpha, delta=self.delta
        )

    def calibrate_threshold(
        self,
        X: ArrayLike,
        y: ArrayLike,
        strategy: Strategy = "accuracy",
        *,
        min_rate: float | None = None,
        beta: float = 1.0,
        examples: Examples | None = None,
        guarantee: Control | None = None,
        alpha: float = 0.01,
        delta: float = 0.05,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Choose the threshold again, best on pairs that were not used for learning, or with a guarantee.

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
        guarantee, alpha, delta
            As in the constructor, instead of a strategy; the learner must not have seen these examples.
        groups : (p,) or (p, g) array, optional
            As in `guaranteed_threshold`; default: the two examples of each pair.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If an argument is out of range, the strategy needs pairs of both kinds, or the pairs do not suffice for the
            guarantee: the sentence says how many are missing.
        """
        (apart,) = self._distances(X, examples)
        _, similar = _similar(y, len(apart))
        if guarantee is not None:
            names = self._checked(X, examples)[1] if groups is None else groups
            found = guaranteed_threshold(
                apart,
                similar,
                alpha=alpha,
                delta=delta,
                control=guarantee,
                groups=names,
                random_state=self.random_state,
            )
            if found.threshold is None:
                raise ValueError(str(found))
            self.threshold_, self.guarantee_ = found.threshold, found
            return self
        self.guarantee_ = None
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
        self.threshold_, self.guarantee_ = validation.check_number("threshold", threshold, -np.inf), None
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
