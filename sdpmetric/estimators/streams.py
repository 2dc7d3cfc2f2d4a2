"""POLA and LEGO as estimators, which also learn from streams of pairs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Literal, Self, cast

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from sklearn.utils.validation import check_is_fitted

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation
from sdpmetric.core.named import Prior, named_prior
from sdpmetric.core.pairs import check_labeled_pairs, check_targets, pairs_of_labels
from sdpmetric.core.problem import Problem
from sdpmetric.core.solution import Solution
from sdpmetric.estimators import base
from sdpmetric.estimators.base import LimitedEstimator
from sdpmetric.estimators.data import N_PAIRS, Count, Data, Labels, Matrix, Positive, Share, Weights, estimator
from sdpmetric.lego.problem import LEGOProblem
from sdpmetric.lego.stream import LEGOStream
from sdpmetric.linalg import psd
from sdpmetric.pola.problem import POLAProblem
from sdpmetric.pola.stream import POLAStream


@estimator
class StreamingEstimator(LimitedEstimator):
    """An estimator that learns from pairs in batch or as a stream; ``stream_`` is the online learner."""

    n_pairs: Count | None = N_PAIRS
    stream_: POLAStream | LEGOStream = field(init=False)

    def partial_fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Continue with the pairs of a batch of labeled examples, in random order.

        Parameters
        ----------
        X : (n, d) array
        y : (n,) array
            Class labels of any kind; one class is enough.

        Raises
        ------
        ValueError
            If the first batch has no pairs of different examples.
        """
        data, labels = self._checked_labels(X, y, reset=not self._streaming(), n_min=1)
        pairs, similar = self._drawn(data, validation.check_labels(labels, len(data), n_classes=1)[1])
        if not (len(pairs) or self._streaming()):
            raise ValueError("the first batch has no pairs of different examples; pass at least two of them.")
        return self._take_pairs(data, pairs, similar) if len(pairs) else self

    def partial_fit_pairs(self, X: ArrayLike, pairs: ArrayLike, similar: ArrayLike) -> Self:
        """Continue with pairs, in their order; arguments as in `fit_pairs`. An invalid pair leaves all unlearned."""
        return self._take_pairs(self._checked(X, reset=not self._streaming(), n_min=1), pairs, similar)

    def _take_pairs(self, X: Data, pairs: ArrayLike, similar: ArrayLike) -> Self:
        raise NotImplementedError

    def _streaming(self) -> bool:
        return hasattr(self, "stream_")

    def _drawn(self, X: Data, index: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
        """Return pairs of the classes in random order, another one for each batch."""
        seed, n_taken = self._seed(), self.stream_.n_items if self._streaming() else 0
        pairs, similar = pairs_of_labels(index, self.n_pairs, seed)
        order = np.random.default_rng([seed, n_taken]).permutation(len(pairs))
        return pairs[order], similar[order]

    def _online(self, stream: POLAStream | LEGOStream, dtype: DTypeLike) -> Self:
        """Keep the metric of the stream, and drop the attributes of a batch fit."""
        self._forget()
        self.components_, self.stream_ = self._padded(stream.components.astype(dtype)), stream
        self.n_iter_ = stream.n_items
        return self


@estimator
class POLA(StreamingEstimator):
    """A metric and a threshold between similar and dissimilar pairs (Shalev-Shwartz, Singer and Ng 2004) [SSN2004].

    `fit` and `fit_pairs` solve the batch problem to a proof. `partial_fit` and `partial_fit_pairs` are the paper's
    online algorithm: they process pairs one after another, continue where the last call ended, and start again after a
    `fit`. Nothing is proven about their metric, and there is no ``solution_``. Program and certificate:
    docs/methods.md.

    Parameters
    ----------
    slack_weight : float, "auto" or None, default "auto"
        Weight of a pair's slack. "auto": 0.01 if the pairs' weights add up to at most 200, else 2 divided by their
        sum, since thousands of pairs would outweigh the norm of the metric. None means hard margins, which are
        feasible for few data sets. If many pairs contradict each other, larger weights take longer.
    initial_threshold : float, default 1
        ``b_1``, at least 1.
    gamma : float, optional
        Online only, for pairs that no metric separates: it shortens the steps; see `sdpmetric.POLAStream`.
    n_pairs : int or None, default 10000
        With labels: the largest number of pairs of each kind that are drawn (online: from each batch); all pairs if
        None.
    solver : {"auto", "dual", "conic", "batch"}, default "auto"
        "batch" is for the hard margin; see `sdpmetric.solve`.
    tol, max_iter, max_time, verbose, random_state
    early_stopping, validation_fraction, n_iter_no_change
        As in `LMNN`; `random_state` also seeds the draw of pairs.

    Attributes
    ----------
    threshold_ : float
        Pairs with a smaller squared distance are similar.
    stream_ : POLAStream
        Online only: the learner, with counts of updates and mistakes and its cumulative loss.
    components_, metric_, solution_, relative_gap_, validation_score_, n_iter_, n_features_in_, feature_names_in_
        As in `LMNN`; online `n_iter_` counts the pairs.

    Examples
    --------
    >>> from sdpmetric.estimators import POLA
    >>> X = [[0.0, 0.0], [0.2, 1.0], [3.0, 0.1], [3.1, 1.2]]
    >>> pola = POLA(slack_weight=None).fit_pairs(X, pairs=[[0, 1], [2, 3], [0, 2], [1, 3]], similar=[1, 1, -1, -1])
    >>> pola.predict_pairs(X, [[0, 1], [1, 2]]).tolist()
    [True, False]
    """

    slack_weight: float | Literal["auto"] | None = "auto"
    initial_threshold: float = 1.0
    gamma: float | None = None
    solver: str = "auto"
    tol: Positive | None = 1e-3
    early_stopping: bool = False
    validation_fraction: Share = 0.1
    n_iter_no_change: Count = 10
    stream_: POLAStream = field(init=False)
    statement = POLAProblem
    checks_neighbors = True
    fit_pairs = base.fit_pairs

    def predict_pairs(self, X: ArrayLike, pairs: ArrayLike) -> NDArray[np.bool_]:
        """Say which pairs are similar, (p,): those with a squared distance below the threshold.

        Arguments as in `pair_distance`.
        """
        check_is_fitted(self)
        return np.asarray(self.pair_distance(X, pairs) ** 2 < self.threshold_)

    def _keep(self, problem: Problem, solution: Solution, score: float | None = None) -> None:
        super()._keep(problem, solution, score)
        self.threshold_ = solution.extras["threshold"]

    # -- online -------------------------------------------------------------------------------------------------------

    def _take_pairs(self, X: Data, pairs: ArrayLike, similar: ArrayLike) -> Self:
        start = (X.shape[1], self.initial_threshold, self.gamma)
        stream = self.stream_ if self._streaming() else POLAStream(*start)
        stream.partial_fit(X, pairs, similar)
        self.threshold_ = stream.threshold
        return self._online(stream, X.dtype)


# Number of first pairs of the stream that choose the default learning rate.
PRETRAINED = 2000


# Pairs, their target distances and the sides on which these bound, in the order of the stream.
Targets = tuple[NDArray[np.int32], FloatArray, FloatArray]


@estimator
class LEGO(StreamingEstimator):
    """LogDet exact gradient online (Jain, Kulis, Dhillon and Grauman 2008) [JKDG2008].

    Similar pairs should be at most `upper` apart, dissimilar pairs at least `lower`, in squared distances. `fit` and
    `fit_pairs` process every pair once; `fit_targets` accepts any targets. `partial_fit`, `partial_fit_pairs` and
    `partial_fit_targets` continue where the last call ended, and start again after a fit; their first batch determines
    defaults. Nothing is proven about the last metric: the certificate is of kind "regret". Program and certificate:
    docs/methods.md.

    Parameters
    ----------
    learning_rate : float, optional
        ``eta``; default: the rate of `LEGOStream.pretrained` with the smallest loss on the first 2000 pairs.
    upper, lower : float, optional
        Default: the 5th and 95th percentile of the pairs' squared distances under the prior.
    prior : {"identity", "covariance", "random"} or (d, d) array, default "identity"
        The initial metric, as in `ITML`. Online, "covariance" is that of the first batch.
    n_pairs : int or None, default 10000
        With labels: the largest number of pairs of each kind that are drawn (online: from each batch); all pairs if
        None.
    max_iter, max_time, verbose, random_state
        As in `LMNN`; `max_iter` limits pairs, and `random_state` seeds the draw of pairs and their order.

    Attributes
    ----------
    learning_rate_, upper_, lower_ : float
        The values used; the last two for similar and dissimilar pairs.
    stream_ : LEGOStream
        Online only: the learner, with its counts and its cumulative loss.
    components_, metric_, solution_, n_iter_, n_features_in_, feature_names_in_
        As in `LMNN`; `n_iter_` counts the pairs, and online there is no ``solution_``.

    Examples
    --------
    >>> from sdpmetric.estimators import LEGO
    >>> X = [[0.0, 0.0], [0.2, 1.0], [3.0, 0.1], [3.1, 1.2]]
    >>> lego = LEGO().fit_targets(X, pairs=[[0, 1], [2, 3], [0, 2], [1, 3]], targets=[0.1, 0.1, 9.0, 9.0])
    >>> lego.solution_.certificate.kind
    'regret'
    """

    learning_rate: float | None = None
    upper: float | None = None
    lower: float | None = None
    prior: Matrix | Prior = "identity"
    stream_: LEGOStream = field(init=False)
    statement = LEGOProblem
    fit, fit_pairs = cast("Callable[..., LEGO]", base.fit_unweighted), base.fit_pairs

    # -- in one pass --------------------------------------------------------------------------------------------------

    def _problem(self, X: Data, y: Labels, weights: Weights = None) -> LEGOProblem:
        self._forget()
        _, index = validation.check_labels(y, len(X))
        return self._stated(X, self._bounded(X, *self._drawn(X, index)))

    def _problem_of_tuples(self, X: Data, tuples: ArrayLike, annotations: ArrayLike | None) -> Problem:
        self._forget()
        return self._stated(X, self._bounded(X, *check_labeled_pairs(tuples, cast(ArrayLike, annotations), len(X))))

    def fit_targets(self, X: ArrayLike, pairs: ArrayLike, targets: ArrayLike, sides: ArrayLike | None = None) -> Self:
        """Learn from pairs with target distances, in their order.

        Parameters
        ----------
        X : (n, d) array
        pairs : (p, 2) integer array
            Row numbers of X.
        targets : (p,) array or float
            Squared distances, at least 0.
        sides : (p,) array or int, optional
            0: the distance should be the target (default); 1: at most; -1: at least.
        """
        data = self._checked(X)
        return self._learn(self._stated(data, check_targets(data, pairs, targets, sides)))

    def _stated(self, X: Data, targets: Targets) -> LEGOProblem:
        self._choose_rate(X, targets)
        return LEGOProblem(X, *targets, self.learning_rate_, self._prior(X))

    # -- online -------------------------------------------------------------------------------------------------------

    def partial_fit_targets(
        self, X: ArrayLike, pairs: ArrayLike, targets: ArrayLike, sides: ArrayLike | None = None
    ) -> Self:
        """Continue with pairs with target distances, in their order; arguments as in `fit_targets`."""
        data = self._checked(X, reset=not self._streaming(), n_min=1)
        return self._take(data, check_targets(data, pairs, targets, sides))

    def _take_pairs(self, X: Data, pairs: ArrayLike, similar: ArrayLike) -> Self:
        return self._take(X, self._bounded(X, *check_labeled_pairs(pairs, similar, len(X))))

    def _take(self, X: Data, targets: Targets) -> Self:
        if self._streaming():
            stream = self.stream_
        else:
            self._choose_rate(X, targets)
            stream = LEGOStream(X.shape[1], self.learning_rate_, self._prior(X))
        if len(targets[0]):
            stream.partial_fit(X, *targets)
        return self._online(stream, X.dtype)

    # -- defaults -------------------------------------------------------------------------------------------

    def _drawn(self, X: Data, index: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
        """Return pairs of the labels in random order, without those of equal examples."""
        pairs, similar = super()._drawn(X, index)
        distinct = (X[pairs[:, 0]] != X[pairs[:, 1]]).any(axis=1)
        return pairs[distinct], similar[distinct]

    def _bounded(self, X: Data, pairs: NDArray[np.int32], similar: NDArray[np.bool_]) -> Targets:
        """Return similar pairs at most `upper_` apart, dissimilar pairs at least `lower_`."""
        validation.check_differences("X", X)
        if not self._streaming():
            G = psd.factor(validation.check_positive_definite("prior", self._prior(X), X.shape[1]))
            Z = (X[pairs[:, 0]].astype(np.float64) - X[pairs[:, 1]]) @ G.T
            low, high = np.percentile(np.sum(Z**2, axis=1), [5, 95]) if len(pairs) else (0.0, 0.0)
            self.upper_ = float(low) if self.upper is None else validation.check_number("upper", self.upper, 0.0)
            self.lower_ = float(high) if self.lower is None else validation.check_number("lower", self.lower, 0.0)
        targets = np.where(similar, self.upper_, self.lower_)
        return check_targets(X, pairs, targets, np.where(similar, 1, -1))

    def _prior(self, X: Data) -> FloatArray:
        return named_prior(self.prior, X, self._seed())

    def _choose_rate(self, X: Data, labeled_pairs: Targets) -> None:
        rate, first = self.learning_rate, (column[:PRETRAINED] for column in labeled_pairs)
        if rate is None:
            rate = LEGOStream.pretrained(X, *first, prior=self._prior(X)).learning_rate
        self.learning_rate_ = rate
