"""Pairs, triplets and quadruplets of examples as the data of scikit-learn's estimators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import Tags, _safe_indexing, check_array, column_or_1d, get_tags
from sklearn.utils._param_validation import HasMethods
from sklearn.utils.validation import check_is_fitted

from sdpmetric.arrays import FloatArray
from sdpmetric.estimators import options
from sdpmetric.estimators.held_back import tuple_distances
from sdpmetric.estimators.multi_metric import MultiMetricLMNN

# Row numbers or names to examples.
Lookup = Callable[[NDArray[np.generic]], ArrayLike]
Examples = Annotated[ArrayLike | Lookup, "array-like", "sparse matrix", callable]


@options.estimator
class TupleEstimator(ClassifierMixin, BaseEstimator):
    """The base of estimators whose samples are tuples of examples, told apart by the distances of a metric learner.

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
        """The examples of tuples, the tuples as row numbers of them, and their row numbers or names."""
        self._validate_params()
        tuples = check_array(X, dtype=None, ensure_2d=False, allow_nd=True, ensure_all_finite=False, input_name="X")
        if tuples.ndim == 3 and tuples.shape[1] == self.size:
            # Equal examples stay apart: a tuple may hold two, and equal pairs may have different answers.
            rows = tuples.reshape(-1, tuples.shape[2])
            return rows, np.arange(len(rows)).reshape(tuples.shape[:2]), None
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
                f"X holds row numbers from {names[0]} to {names[-1]}, and examples has {n} rows. A cross-validation "
                "divides whatever has as many rows as there are samples: pass examples to the constructor then."
            )
        return _safe_indexing(sp.csr_array(examples) if sp.issparse(examples) else examples, names), index, names

    def _learn(
        self, X: ArrayLike, names: NDArray[np.generic] | None, labels: ArrayLike | None, *tuples: ArrayLike
    ) -> None:
        """Fit the learner on the examples of the tuples: from the tuples, from labels, or from neither."""
        learner = clone(self.estimator)
        last = learner[-1] if isinstance(learner, Pipeline) else learner
        if not hasattr(last, "transform") or isinstance(last, MultiMetricLMNN):
            raise TypeError(f"estimator must be a transformer whose embedding has the distances, got {last!r}.")
        known = None if labels is None else _labels_of(names, labels)
        if isinstance(learner, Pipeline) and len(learner) > 1:
            head = learner[:-1]
            X = head.fit_transform(X, known)
            learner.steps = [*head.steps, learner.steps[-1]]
        from_tuples = getattr(last, f"fit_{self.name}", None)
        if isinstance(last, FrozenEstimator):
            pass
        elif known is not None:
            last.fit(X, known)
        elif from_tuples is not None:
            from_tuples(X, *tuples)
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
        """Distances between the first and the second of each tuple, and between its other two or its outer ones."""
        check_is_fitted(self)
        rows, index, _ = self._checked(X, examples)
        Z = np.asarray(check_array(self.estimator_.transform(rows), dtype=np.float64))
        return tuple(np.sqrt(squared) for squared in tuple_distances(Z, index))

    def __sklearn_tags__(self) -> Tags:
        """A sample is an array of examples."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.three_d_array = False, True
        tags.classifier_tags.multi_class = False
        return tags


class ComparisonEstimator(TupleEstimator):
    """The base for triplets and quadruplets, which say that one pair is nearer than another."""

    def fit(
        self, X: ArrayLike, y: None = None, examples: Examples | None = None, labels: ArrayLike | None = None
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

        Returns
        -------
        self

        Raises
        ------
        ValueError
            What the learner refuses; or if tuples or labels are not as described.
        TypeError
            If the estimator is no transformer, or learns from labels and gets none.
        """
        rows, index, names = self._checked(X, examples)
        self._learn(rows, names, labels, index)
        self.classes_ = np.array([-1, 1])
        return self

    def decision_function(self, X: ArrayLike, examples: Examples | None = None) -> FloatArray:
        """The second distance of each tuple less the first, (p,); positive where the tuple is as it should be.

        Parameters
        ----------
        X : (p, k) integers, or (p, k, d) array
        examples : (n, d) array or frame, or callable, optional
        """
        near, far = self._distances(X, examples)
        return far - near

    def predict(self, X: ArrayLike, examples: Examples | None = None) -> NDArray[np.int64]:
        """Which pair is nearer, (p,): 1 for the first, -1 for the second, or where they are equally near.

        Parameters
        ----------
        X : (p, k) integers, or (p, k, d) array
        examples : (n, d) array or frame, or callable, optional
        """
        return np.where(self.decision_function(X, examples) > 0.0, 1, -1)

    def score(self, X: ArrayLike, y: None = None, examples: Examples | None = None) -> float:
        """Accuracy: the share of tuples whose first pair is the nearer one.

        Parameters
        ----------
        X : (p, k) integers, or (p, k, d) array
        y : None
            Ignored.
        examples : (n, d) array or frame, or callable, optional
        """
        return float(np.mean(self.predict(X, examples) == 1))

    def __sklearn_tags__(self) -> Tags:
        """A tuple has its label in its order."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        return tags


@options.estimator
class TripletClassifier(ComparisonEstimator):
    """Tell which of two examples is nearer to an anchor, the first one in triplets (anchor, near, far).

    Triplets are row numbers of `examples`, (p, 3), or the examples themselves, (p, 3, d).

    Parameters
    ----------
    estimator : transformer, or a pipeline of them
        Learns from the triplets if it can, as LMNN does; else from ``fit(.., labels=)``, or, as PCA, from the examples;
        ``FrozenEstimator(fitted)`` is taken as it is.
    examples : (n, d) array or frame, or callable, optional
        What row numbers in triplets mean; a callable gets an array of different row numbers or names and returns their
        examples. Default: triplets are given as examples.

    Attributes
    ----------
    estimator_ : estimator
        The fitted clone of `estimator`.
    classes_ : (2,) array
        -1 and 1, what `predict` says.
    n_features_in_ : int
        Of the examples.

    See Also
    --------
    QuadrupletClassifier : For two pairs without a common example.
    PairClassifier : For pairs that are similar or not.

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


@options.estimator
class QuadrupletClassifier(ComparisonEstimator):
    """Tell which of two pairs is nearer, the first two or the last two examples of quadruplets.

    Quadruplets are row numbers of `examples`, (p, 4), or the examples themselves, (p, 4, d).

    Parameters
    ----------
    estimator : transformer, or a pipeline of them
        Learns from the quadruplets if it has ``fit_quadruplets``, as LSML does; else from ``fit(.., labels=)``, or, as
        PCA, from the examples; ``FrozenEstimator(fitted)`` is taken as it is.
    examples : (n, d) array or frame, or callable, optional
        What row numbers in quadruplets mean; a callable gets an array of different row numbers or names and returns
        their examples. Default: quadruplets are given as examples.

    Attributes
    ----------
    estimator_ : estimator
        The fitted clone of `estimator`.
    classes_ : (2,) array
        -1 and 1, what `predict` says.
    n_features_in_ : int
        Of the examples.

    See Also
    --------
    TripletClassifier : For two pairs with a common example.
    PairClassifier : For pairs that are similar or not.

    Examples
    --------
    >>> from sdpmetric.estimators import RCA, QuadrupletClassifier
    >>> X = [[0.0, 0.0], [0.2, 3.0], [1.0, 0.1], [1.1, 3.2]]
    >>> classifier = QuadrupletClassifier(RCA(), examples=X)
    >>> classifier.fit([[0, 1, 2, 1], [2, 3, 0, 3]], labels=[0, 0, 1, 1]).score([[0, 1, 0, 3]])
    1.0
    """

    size = 4
    name = "quadruplets"


def _labels_of(names: NDArray[np.generic] | None, labels: ArrayLike) -> NDArray[Any]:
    """Labels of the examples that are in tuples."""
    given = column_or_1d(labels)
    if names is None or names.dtype.kind not in "iu":
        raise ValueError("labels= are those of examples; pass tuples as row numbers, and examples=.")
    if names[-1] >= len(given):
        raise ValueError(f"labels has {len(given)} entries, and X names row {names[-1]}; pass one for each example.")
    known: NDArray[Any] = given[names]
    return known
