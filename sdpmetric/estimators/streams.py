"""The base of estimators that take pairs as a stream, too."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from sdpmetric.core import validation
from sdpmetric.core.pairs import pairs_of_labels
from sdpmetric.estimators.base import MetricEstimator
from sdpmetric.estimators.data import Data
from sdpmetric.streams.lego import LEGOStream
from sdpmetric.streams.pola import POLAStream


class StreamingEstimator(MetricEstimator):
    """An estimator that learns from pairs in batch or as a stream; ``stream_`` is the online learner."""

    n_pairs: int | None

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
        data, labels = self._checked_labels(X, y, reset=not self._streaming(), n_min=1)
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
        return self._take_pairs(self._checked(X, reset=not self._streaming(), n_min=1), pairs, similar)

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
        components, n = stream.components.astype(dtype), self.n_components
        if n is not None and n < len(components):
            _, roots, axes = np.linalg.svd(components, full_matrices=False)
            components = roots[:n, None] * axes[:n]
        self._forget()
        self.components_, self.stream_ = self._padded(components), stream
        self.n_iter_ = self._taken()
        return self
