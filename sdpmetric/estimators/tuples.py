"""Pairs, triplets and quadruplets of examples as the data of scikit-learn's estimators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import accuracy_score, roc_auc_score
from sklearn.pipeline import Pipeline
from sklearn.utils import Tags, _safe_indexing, check_array, column_or_1d, get_tags
from sklearn.utils._param_validation import HasMethods
from sklearn.utils.validation import check_is_fitted

from sdpmetric.arrays import BoolArray, FloatArray
from sdpmetric.core import validation
from sdpmetric.estimators import data
from sdpmetric.estimators.data import NotNegative, Rate, estimator, tuple_distances
from sdpmetric.estimators.large_margin import MultiMetricLMNN

# Row numbers or names to examples.
Lookup = Callable[[NDArray[np.generic]], ArrayLike]
Examples = Annotated[ArrayLike | Lookup, "array-like", "sparse matrix", callable]


@data.estimator
class TupleEstimator(ClassifierMixin, BaseEstimator):
    """The base of estimators with tuples of examples as samples, classified by the distances of a metric learner.

    Tuples are row numbers of `examples`, (p, k), or the examples themselves, (p, k, d).
    """

    size: ClassVar[int]
    name: ClassVar[str]
    classes_: NDArray[np.generic] = field(init=False)
    estimator: Annotated[TransformerMixin, HasMethods("fit")] = field(kw_only=False)
    examples: Examples | None = None

    def _checked(
        self, X: ArrayLike, examples: Examples | None
    ) -> tuple[ArrayLike, NDArray[np.intp], NDArray[np.generic] | None]:
        """Return the examples of tuples, the tuples as row numbers of them, and their row numbers or names."""
        self._validate_params()
        tuples = check_array(X, dtype=None, ensure_2d=False, allow_nd=True, ensure_all_finite=False, input_name="X")
        if tuples.ndim == 3 and tuples.shape[1] == self.size:
            # Equal examples stay apart: a tuple may hold two, and equal pairs may have different answers.
            return tuples.reshape(-1, tuples.shape[2]), np.arange(tuples[..., 0].size).reshape(tuples.shape[:2]), None
        examples = self.examples if examples is None else examples
        if tuples.ndim != 2 or tuples.shape[1] != self.size or examples is None:
            raise ValueError(
                f"X has shape {tuples.shape}; pass {self.name} of examples, (p, {self.size}, d), or of row numbers, "
                f"(p, {self.size}), together with examples=, to the constructor or as metadata."
            )
        names, index = np.unique(tuples, return_inverse=True)
        index = index.reshape(tuples.shape)
        if callable(examples):
            return examples(names), index, names
        if names.dtype.kind not in "iu":
            raise ValueError(f"X holds {names.dtype} and not integers; row numbers of examples are integers.")
        n = np.shape(examples)[0]
        if names[0] < 0 or names[-1] >= n:
            raise ValueError(
                f"X holds row numbers from {names[0]} to {names[-1]}, and examples has {n} rows. In a "
                "cross-validation, pass examples to the constructor: as metadata they would be split like samples."
            )
        return _safe_indexing(sp.csr_array(examples) if sp.issparse(examples) else examples, names), index, names

    def _learn(
        self, X: ArrayLike, names: NDArray[np.generic] | None, labels: ArrayLike | None, *tuples: ArrayLike
    ) -> None:
        """Fit the learner on the examples of the tuples: from the tuples, from labels, or from neither."""
        learner = clone(self.estimator)
        last = _last(learner)
        if not hasattr(last, "transform") or isinstance(last, MultiMetricLMNN):
            raise TypeError(f"estimator must be a transformer whose embedding has the distances, got {last!r}.")
        annotations = None if labels is None else _labels_of(names, labels)
        if isinstance(learner, Pipeline) and len(learner) > 1:
            head = learner[:-1]
            X = head.fit_transform(X, annotations)
            learner.steps = [*head.steps, learner.steps[-1]]
        if isinstance(last, FrozenEstimator):
            pass
        elif annotations is not None:
            last.fit(X, annotations)
        elif hasattr(last, f"fit_{self.name}"):
            getattr(last, f"fit_{self.name}")(X, *tuples)
        elif self.size > 2 and len(tuples) > 1:
            raise ValueError(f"sample_weight is for {self.name}, but {type(last).__name__} does not learn from them.")
        elif not get_tags(last).target_tags.required:
            last.fit(X)
        else:
            kind = type(last).__name__
            raise TypeError(
                f"{kind} does not learn from {self.name} but from labels: pass labels= of all examples to fit, or a "
                f"learner that is fitted already, FrozenEstimator({kind}().fit(examples, labels))."
            )
        self.estimator_ = learner
        if hasattr(learner, "n_features_in_"):
            self.n_features_in_ = learner.n_features_in_

    def _distances(self, X: ArrayLike, examples: Examples | None) -> tuple[FloatArray, ...]:
        """Return distances within the first pair of each tuple, and within its other pair."""
        check_is_fitted(self)
        rows, index, _ = self._checked(X, examples)
        Z = np.asarray(check_array(self.estimator_.transform(rows), dtype=np.float64))
        return tuple(np.sqrt(squared) for squared in tuple_distances(Z, index))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.three_d_array = False, True
        tags.classifier_tags.multi_class = False
        return tags


class ComparisonEstimator(TupleEstimator):
    """The base for triplets and quadruplets, which say that one pair is nearer than another."""

    def fit(
        self,
        X: ArrayLike,
        y: None = None,
        examples: Examples | None = None,
        labels: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn the metric.

        Parameters
        ----------
        X : (p, k) integers, or (p, k, d) array
            The tuples; the learner sees no other examples.
        y : None
            Ignored: the first pair of each tuple is the nearer one.
        examples : (n, d) array or frame, or callable, optional
            Instead of those of the constructor.
        labels : (n,) array, optional
            Classes of all examples, to learn from instead.
        sample_weight : (p,) array, optional
            Nonnegative weights of the tuples, for a learner from tuples; default 1.
        """
        rows, index, names = self._checked(X, examples)
        self._learn(rows, names, labels, index, *(() if sample_weight is None else (sample_weight,)))
        self.classes_ = np.array([-1, 1])
        return self

    def decision_function(self, X: ArrayLike, examples: Examples | None = None) -> FloatArray:
        """Return the second distance of each tuple minus the first, (p,); positive if the first pair is nearer."""
        first_distances, second_distances = self._distances(X, examples)
        return second_distances - first_distances

    def predict(self, X: ArrayLike, examples: Examples | None = None) -> NDArray[np.int64]:
        """Predict which pair is nearer, (p,): 1 for the first, -1 for the second or a tie; arguments as in `fit`."""
        return np.where(self.decision_function(X, examples) > 0.0, 1, -1)

    def score(
        self, X: ArrayLike, y: None = None, sample_weight: ArrayLike | None = None, examples: Examples | None = None
    ) -> float:
        """Return accuracy: the share of tuples with a first pair that is nearer; arguments as in `fit`."""
        return float(accuracy_score(np.ones(np.shape(X)[0]), self.predict(X, examples), sample_weight=sample_weight))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        return tags


@data.estimator
class TripletClassifier(ComparisonEstimator):
    """Predict which of two examples is nearer to an anchor, in triplets (anchor, near, far).

    Triplets are row numbers of `examples`, (p, 3), or the examples themselves, (p, 3, d).

    Parameters
    ----------
    estimator, examples
        As in `PairClassifier`; the learner learns from the triplets if it has ``fit_triplets``, as LMNN.

    Attributes
    ----------
    estimator_, classes_, n_features_in_
        As in `PairClassifier`; `classes_` are -1 and 1, what `predict` says.

    Examples
    --------
    >>> from sdpmetric.estimators import LMNN, TripletClassifier
    >>> X = [[0.0, 0.0], [0.2, 3.0], [1.0, 0.1], [1.1, 3.2]]
    >>> triplets = [[0, 1, 2], [1, 0, 3], [2, 3, 0], [3, 2, 1]]
    >>> TripletClassifier(LMNN(ridge=0.1), examples=X).fit(triplets).score(triplets)
    1.0
    """

    size = 3
    name = "triplets"


@data.estimator
class QuadrupletClassifier(ComparisonEstimator):
    """Predict whether the first two or the last two examples of a quadruplet are nearer.

    Quadruplets are row numbers of `examples`, (p, 4), or the examples themselves, (p, 4, d).

    Parameters
    ----------
    estimator, examples
        As in `PairClassifier`; the learner learns from the quadruplets if it has ``fit_quadruplets``, as LSML.

    Attributes
    ----------
    estimator_, classes_, n_features_in_
        As in `PairClassifier`; `classes_` are -1 and 1, what `predict` says.

    Examples
    --------
    >>> from sdpmetric.estimators import LSML, QuadrupletClassifier
    >>> X = [[0.0, 0.0], [0.2, 3.0], [1.0, 0.1], [1.1, 3.2]]
    >>> QuadrupletClassifier(LSML(), examples=X).fit([[0, 1, 2, 1], [2, 3, 0, 3]]).score([[0, 1, 0, 3]])
    1.0
    """

    size = 4
    name = "quadruplets"


def _last(learner: TransformerMixin) -> TransformerMixin:
    return learner[-1] if isinstance(learner, Pipeline) else learner


def _labels_of(names: NDArray[np.generic] | None, labels: ArrayLike) -> NDArray[Any]:
    label_array = column_or_1d(labels)
    if names is None or names.dtype.kind not in "iu":
        raise ValueError("labels= are those of examples; pass tuples as row numbers, and examples=.")
    if names[-1] >= len(label_array):
        raise ValueError(f"labels has {len(label_array)} entries, and X names row {names[-1]}; label every example.")
    return np.asarray(label_array[names])


Strategy = Literal["accuracy", "f_beta", "max_tpr", "max_tnr"]


def check_strategy(strategy: Strategy, similar: BoolArray, min_rate: float | None, beta: float) -> None:
    """Raise an error if a strategy cannot choose a threshold by these pairs."""
    validation.check_choice("strategy", strategy, get_args(Strategy))
    if strategy == "f_beta":
        validation.check_number("beta", beta, 0.0)
    if strategy in ("max_tpr", "max_tnr"):
        validation.check_number("min_rate", np.nan if min_rate is None else min_rate, 0.0, 1.0)
    if not len(similar):
        raise ValueError("there are no pairs to choose a threshold by; pass at least one.")
    if strategy != "accuracy" and (similar.all() or not similar.any()):
        kind = "dissimilar" if similar.all() else "similar"
        raise ValueError(f"strategy={strategy!r} needs pairs of both kinds, and none is {kind}; use 'accuracy'.")


def best_threshold(
    distances: FloatArray, similar: BoolArray, strategy: Strategy, min_rate: float | None, beta: float
) -> float:
    """Return the best threshold for labeled pairs; pairs at most this far apart are called similar.

    It is halfway between two distances, and the smallest if several are equally good.
    """
    check_strategy(strategy, similar, min_rate, beta)
    order, positive = np.argsort(distances, kind="stable"), np.count_nonzero(similar)
    negative, ordered = len(similar) - positive, distances[order]
    # cut c calls the first c pairs similar; equal distances are on one side
    cuts = np.concatenate([[0], 1 + np.flatnonzero(np.diff(ordered) > 0), [len(ordered)]])
    tp = np.concatenate([[0], np.cumsum(similar[order])])[cuts]
    tn = negative - (cuts - tp)
    if strategy == "accuracy":
        quality = (tp + tn).astype(np.float64)
    elif strategy == "f_beta":
        weighted = (1.0 + beta**2) * tp
        total = weighted + beta**2 * (positive - tp) + (negative - tn)
        quality = np.divide(weighted, total, out=np.zeros(len(cuts)), where=total > 0)
    else:
        rates = (tp / positive, tn / negative)
        target_rates, opposite_rates = rates if strategy == "max_tpr" else rates[::-1]
        # of equally good cuts, the one with the better other rate
        quality = np.where(opposite_rates >= float(min_rate or 0.0), target_rates + 1e-12 * opposite_rates, -1.0)
    cut = int(cuts[np.argmax(quality)])
    if cut == len(ordered):
        return float(ordered[-1])
    below = float(ordered[cut - 1]) if cut else (0.0 if ordered[0] > 0.0 else -1.0)
    half = below + (float(ordered[cut]) - below) / 2.0
    return half if half < ordered[cut] else below  # adjacent floats have nothing between them


def check_answers(name: str, answers: ArrayLike, n: int) -> tuple[NDArray[np.generic], BoolArray]:
    """Return the labels of dissimilar and similar pairs, and which of n pairs are similar."""
    labels = column_or_1d(answers)
    validation.check_count(name, len(labels), n, "pair")
    for classes in (np.array([False, True]), np.array([-1, 1]), np.array([0, 1])):
        alike = classes.dtype.kind == labels.dtype.kind or (labels.dtype.kind in "iuf" and classes.dtype.kind == "i")
        if alike and np.isin(labels, classes).all():
            return classes, np.asarray(labels == classes[1])
    raise ValueError(f"{name} must be 1 for similar and -1 or 0 for dissimilar pairs, or bool.")


@estimator
class PairClassifier(TupleEstimator):
    """Classify pairs as similar or dissimilar by a learned metric and a threshold.

    Pairs are row numbers of `examples`, (p, 2), or the examples themselves, (p, 2, d).

    Parameters
    ----------
    estimator : transformer, or a pipeline of them
        Learns from the pairs if it can, as ITML does. Others learn from the labels of ``fit(.., labels=)`` or, as PCA
        does, from the examples alone. ``FrozenEstimator(fitted)`` is used as it is.
    examples : (n, d) array or frame, or callable, optional
        The examples whose row numbers the pairs hold. A callable gets distinct row numbers, or names, and returns
        their examples. Default: pairs hold the examples themselves.
    strategy : {"auto", "accuracy", "f_beta", "max_tpr", "max_tnr"}, default "auto"
        How `fit` chooses the threshold, on the pairs it learns from; see `calibrate_threshold`. "auto" takes the
        learner's own threshold if it has one, as POLA does, else it means "accuracy".
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
        Number of features of the examples.

    See Also
    --------
    TripletClassifier, QuadrupletClassifier : For comparisons of distances.

    Examples
    --------
    >>> from sdpmetric.estimators import ITML, PairClassifier
    >>> X = [[0.0, 0.0], [0.2, 1.0], [3.0, 0.1], [3.1, 1.2]]
    >>> classifier = PairClassifier(ITML(), examples=X).fit([[0, 1], [2, 3], [0, 2], [1, 3]], [1, 1, -1, -1])
    >>> classifier.predict([[0, 3], [2, 3]]).tolist()
    [-1, 1]
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
        """Learn the metric from labeled pairs, then the threshold.

        Parameters
        ----------
        X : (p, 2) integers, or (p, 2, d) array
            Pairs; the learner sees no other examples.
        y : (p,) array
            1 for similar, -1 or 0 for dissimilar; or bool.
        examples : (n, d) array or frame, or callable, optional
            Instead of those of the constructor.
        labels : (n,) array, optional
            Classes of all examples: the metric is then learned from the classes of the examples in pairs, and only the
            threshold from y.
        """
        rows, index, names = self._checked(X, examples)
        classes, similar = check_answers("y", y, len(index))
        strategy: Strategy = "accuracy" if self.strategy == "auto" else self.strategy
        check_strategy(strategy, similar, self.min_rate, self.beta)  # before any work
        self._learn(rows, names, labels, index, similar)
        self.classes_ = classes
        threshold = getattr(_last(self.estimator_), "threshold_", None)
        if self.strategy == "auto" and threshold is not None:
            self.threshold_ = float(np.sqrt(max(threshold, 0.0)))  # of squared distances
            return self
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
            What to maximize: the accuracy; the F-beta score of the similar pairs; the share of similar pairs that are
            recognized while at least `min_rate` of the dissimilar pairs are; or the reverse.
        min_rate : float, optional
            Between 0 and 1.
        beta : float, default 1
        examples : (n, d) array or frame, or callable, optional
        """
        (distances,) = self._distances(X, examples)
        _, similar = check_answers("y", y, len(distances))
        self.threshold_ = best_threshold(distances, similar, strategy, min_rate, beta)
        return self

    def set_threshold(self, threshold: float) -> Self:
        """Set the largest distance of similar pairs."""
        check_is_fitted(self)
        self.threshold_ = validation.check_number("threshold", threshold, -np.inf)
        return self

    def pair_score(self, X: ArrayLike, examples: Examples | None = None) -> FloatArray:
        """Return the similarity of pairs: minus the learned distance, (p,); arguments as in `fit`."""
        return -self._distances(X, examples)[0]

    def decision_function(self, X: ArrayLike, examples: Examples | None = None) -> FloatArray:
        """Return how far pairs are below the threshold, (p,); at least 0 for similar pairs; arguments as in `fit`."""
        scores = self.pair_score(X, examples)
        return self.threshold_ + scores

    def predict(self, X: ArrayLike, examples: Examples | None = None) -> NDArray[np.generic]:
        """Return labels of pairs, (p,), in the coding of `classes_`; arguments as in `fit`."""
        check_is_fitted(self)
        return self.classes_[(self.decision_function(X, examples) >= 0.0).astype(np.intp)]

    def score(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None, examples: Examples | None = None
    ) -> float:
        """Return the area under the ROC curve, which does not depend on the threshold; arguments as in `fit`."""
        scores = self.pair_score(X, examples)
        return float(roc_auc_score(check_answers("y", y, len(scores))[1], scores, sample_weight=sample_weight))
