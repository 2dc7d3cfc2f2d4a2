"""The bases of estimators that take similar and dissimilar pairs, in batch or as a stream."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from sdpmetric.core import validation
from sdpmetric.core.pairs import pairs_of_labels
from sdpmetric.core.problem import Problem
from sdpmetric.core.solution import Solution
from sdpmetric.estimators.callbacks import with_callbacks
from sdpmetric.estimators.data import Data, checked_data, checked_data_and_labels
from sdpmetric.estimators.labelled import LabelledEstimator
from sdpmetric.estimators.options import Drawn, Reduced, options
from sdpmetric.streams.lego import LEGOStream
from sdpmetric.streams.pola import POLAStream


class PairsEstimator(LabelledEstimator):
    """An estimator that learns from similar and dissimilar pairs, or from labels, which imply them."""

    def _problem_of_pairs(self, X: Data, pairs: ArrayLike, similar: ArrayLike) -> Problem:
        """State the problem of checked data."""
        return self._with_own(self._statement)(X, pairs, similar)

    @with_callbacks
    def fit_pairs(self, X: ArrayLike, pairs: ArrayLike, similar: ArrayLike) -> Self:
        """Learn from similar and dissimilar pairs.

        Parameters
        ----------
        X : (n, d) array
            As in `fit`.
        pairs : (p, 2) integer array
            Row numbers of X.
        similar : (p,) array
            bool, or +1 for similar and -1 for dissimilar.

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
        return self._learn_tuples(self._checked(X), self._problem_of_pairs, pairs, similar)


@options
class StreamingPairsEstimator(PairsEstimator, Reduced, Drawn):
    """An estimator that learns from pairs in batch or as a stream; ``stream_`` is the online learner.

    Derived classes define ``_take_pairs``, which takes pairs, and ``_taken``, the number of pairs taken so far.

    Parameters
    ----------
    n_components : int, optional
        Columns of `transform`: the leading principal components of the transformed examples; online, the leading
        eigenvectors of the metric. `solution_` is the whole metric. Default: all.
    """

    def partial_fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Continue with the pairs of a batch of labelled examples, in random order.

        Parameters
        ----------
        X : (n, d) array
        y : (n,) array
            Class labels of any kind; one class is enough.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If X has other features than the batches before, or numbers that are not finite, or the first batch has no
            pairs; later ones may have none.
        """
        data, labels = checked_data_and_labels(self, X, y, reset=not self._streaming())
        _, index = validation.check_labels(labels, len(data), n_classes=1)
        pairs, similar = self._drawn(data, index)
        if len(pairs):
            return self._take_pairs(data, pairs, similar)
        if not self._streaming():
            raise ValueError("the first batch has no pairs of different examples; pass at least two of them.")
        return self

    def partial_fit_pairs(self, X: ArrayLike, pairs: ArrayLike, similar: ArrayLike) -> Self:
        """Continue with pairs, in their order.

        Parameters
        ----------
        X, pairs, similar
            As in `fit_pairs`.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            As `partial_fit`, or if a pair is out of range or repeats a row; then no pair was taken.
        """
        data = checked_data(self, X, reset=not self._streaming())
        return self._take_pairs(data, pairs, similar)

    def _take_pairs(self, X: Data, pairs: ArrayLike, similar: ArrayLike) -> Self:
        """Check pairs, and continue with them."""
        raise NotImplementedError

    def _taken(self) -> int:
        """Pairs that the stream has taken."""
        raise NotImplementedError

    def _streaming(self) -> bool:
        return hasattr(self, "stream_")

    def _drawn(self, X: Data, index: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
        """Pairs of the classes in random order, another one for each batch."""
        seed, taken = self._seed(), self._taken() if self._streaming() else 0
        pairs, similar = pairs_of_labels(index, self.n_pairs, seed)
        order = np.random.default_rng([seed, taken]).permutation(len(pairs))
        return pairs[order], similar[order]

    def _online(self, stream: POLAStream | LEGOStream, dtype: DTypeLike) -> Self:
        """Keep the metric of the stream, and drop the attributes of a batch fit."""
        components, asked = stream.components.astype(dtype), self.n_components
        if asked is not None and validation.check_integer("n_components", asked, 1, stream.n_features) < len(
            components
        ):
            _, roots, axes = np.linalg.svd(components, full_matrices=False)
            components = roots[:asked, None] * axes[:asked]
        self.components_, self.stream_ = self._rows(components), stream
        self.n_iter_ = self._taken()
        for name in ("solution_", "dual_gap_"):
            self.__dict__.pop(name, None)
        return self

    def _keep(self, problem: Problem, solution: Solution) -> None:
        super()._keep(problem, solution)
        self.__dict__.pop("stream_", None)
