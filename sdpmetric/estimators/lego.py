"""LEGO as an estimator: one pass over pairs with target distances, or a stream of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sdpmetric.core import validation
from sdpmetric.core.pairs import check_labelled_pairs, check_targets
from sdpmetric.estimators.base import FloatArray
from sdpmetric.estimators.callbacks import with_callbacks
from sdpmetric.estimators.data import Data, Labels, Weights, checked_data
from sdpmetric.estimators.options import Limited, options
from sdpmetric.estimators.pairs_base import StreamingPairsEstimator
from sdpmetric.linalg import psd
from sdpmetric.problems.lego import LEGOProblem
from sdpmetric.streams.lego import LEGOStream

# Number of first pairs of the stream that choose the default learning rate.
PRETRAINED = 2000


@dataclass(frozen=True)
class Targets:
    """Pairs with target distances, in the order of the stream."""

    pairs: NDArray[np.int32]
    targets: FloatArray
    sides: FloatArray


@options
class LEGO(StreamingPairsEstimator, Limited):
    """LogDet exact gradient online (Jain, Kulis, Dhillon and Grauman 2008) [JKDG2008].

    Similar pairs are to be at most `upper` apart, dissimilar ones at least `lower`, in squared distances. `fit` and
    `fit_pairs` take every pair once; `fit_targets` takes targets of any kind. `partial_fit`, `partial_fit_pairs` and
    `partial_fit_targets` continue where the last call ended, and start again after a fit; their first batch determines
    defaults.

    Parameters
    ----------
    learning_rate : float, optional
        ``eta``; default: the rate of `LEGOStream.pretrained` with the smallest loss on the first 2000 pairs.
    upper, lower : float, optional
        Default: the 5th and 95th percentile of the pairs' squared distances under the initial metric.
    initial_metric : (d, d) array, optional
        Positive definite; default: the identity.

    Attributes
    ----------
    learning_rate_, upper_, lower_ : float
        The values used; the last two for similar and dissimilar pairs.
    stream_ : LEGOStream
        Online only: the learner, with its counts and its cumulative loss.
    solution_ : Solution
        Of one pass; there is none online.
    dual_gap_ : float
        The regret relative to the cumulative loss: nothing is proven about the last metric.

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
    initial_metric: ArrayLike | None = None
    stream_: LEGOStream = field(init=False)

    # -- in one pass --------------------------------------------------------------------------------------------------

    def _problem(self, X: Data, y: Labels, sample_weight: Weights = None) -> LEGOProblem:
        _, index = validation.check_labels(y, len(X))
        self.__dict__.pop("stream_", None)
        return self._stated(X, self._bounded(X, *self._drawn(X, index)))

    def _problem_of_pairs(self, X: Data, pairs: ArrayLike, similar: ArrayLike) -> LEGOProblem:
        self.__dict__.pop("stream_", None)
        return self._stated(X, self._bounded(X, *check_labelled_pairs(pairs, similar, len(X))))

    @with_callbacks
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
            0: the distance is to be the target (default); 1: at most; -1: at least.

        Returns
        -------
        self
        """
        data = self._checked(X)
        given = Targets(*check_targets(data, pairs, targets, sides))
        return self._learn(self._stated(data, given), data)

    def _stated(self, X: Data, given: Targets) -> LEGOProblem:
        self._choose_rate(X, given)
        return LEGOProblem(X, given.pairs, given.targets, given.sides, self.learning_rate_, self.initial_metric)

    # -- online -------------------------------------------------------------------------------------------------------

    def partial_fit_targets(
        self, X: ArrayLike, pairs: ArrayLike, targets: ArrayLike, sides: ArrayLike | None = None
    ) -> Self:
        """Go on with pairs with target distances, in their order.

        Parameters
        ----------
        X, pairs, targets, sides
            As in `fit_targets`.

        Returns
        -------
        self
        """
        data = checked_data(self, X, reset=not self._streaming())
        return self._take(data, Targets(*check_targets(data, pairs, targets, sides)))

    def _take_pairs(self, X: Data, pairs: ArrayLike, similar: ArrayLike) -> Self:
        return self._take(X, self._bounded(X, *check_labelled_pairs(pairs, similar, len(X))))

    def _taken(self) -> int:
        return self.stream_.n_items

    def _take(self, X: Data, given: Targets) -> Self:
        if self._streaming():
            stream = self.stream_
        else:
            self._choose_rate(X, given)
            stream = LEGOStream(X.shape[1], self.learning_rate_, self.initial_metric)
        if len(given.pairs):
            stream.partial_fit(X, given.pairs, given.targets, given.sides)
        return self._online(stream, X.dtype)

    # -- defaults -------------------------------------------------------------------------------------------

    def _drawn(self, X: Data, index: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
        """Pairs of the labels in random order, without those of equal examples."""
        pairs, similar = super()._drawn(X, index)
        apart = (X[pairs[:, 0]] != X[pairs[:, 1]]).any(axis=1)
        return pairs[apart], similar[apart]

    def _bounded(self, X: Data, pairs: NDArray[np.int32], similar: NDArray[np.bool_]) -> Targets:
        """Similar pairs at most `upper_` apart, dissimilar ones at least `lower_`."""
        if not self._streaming():
            if self.initial_metric is None:
                G = np.eye(X.shape[1])
            else:
                G = psd.factor(validation.check_positive_definite("initial_metric", self.initial_metric, X.shape[1]))
            Z = (X[pairs[:, 0]].astype(np.float64) - X[pairs[:, 1]]) @ G.T
            with np.errstate(over="ignore"):
                distances = np.sum(Z**2, axis=1)
            if not np.isfinite(distances).all():
                raise ValueError("the squared distances of the pairs are too large for numbers; scale the features.")
            near, far = np.percentile(distances, [5, 95]) if len(pairs) else (0.0, 0.0)
            self.upper_ = float(near) if self.upper is None else validation.check_number("upper", self.upper, 0.0)
            self.lower_ = float(far) if self.lower is None else validation.check_number("lower", self.lower, 0.0)
        targets = np.where(similar, self.upper_, self.lower_)
        return Targets(*check_targets(X, pairs, targets, np.where(similar, 1, -1)))

    def _choose_rate(self, X: Data, given: Targets) -> None:
        if self.learning_rate is not None:
            self.learning_rate_ = self.learning_rate
            return
        head = (given.pairs[:PRETRAINED], given.targets[:PRETRAINED], given.sides[:PRETRAINED])
        self.learning_rate_ = LEGOStream.pretrained(X, *head, initial_metric=self.initial_metric).learning_rate
