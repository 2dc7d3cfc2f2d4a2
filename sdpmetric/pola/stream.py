"""Online POLA: a metric and a threshold from pairs that come one after another."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation
from sdpmetric.pola import loops as pola
from sdpmetric.pola.threshold import LONGEST, PairStream


class POLAStream(PairStream):
    """Online POLA (Shalev-Shwartz, Singer and Ng 2004, Fig. 1) [SSN2004].

    For each pair with difference v and sign y, the metric A and the threshold b are projected onto ``y (b - v^T A v) >=
    1`` and then onto PSD metrics and thresholds of at least 1. If some metric and threshold have no loss on the stream,
    the iterates stay bounded (Lemma 3; docs/pola.md has the form that holds). The units of the features matter:
    scale them so that squared distances are around 1.

    Parameters
    ----------
    n_features : int
        d.
    initial_threshold : float, default 1
        ``b_1``, at least 1. Fig. 1 of the paper allows any real number; below 1 the threshold could stay below 1
        (docs/errata.md).
    gamma : float, optional
        For pairs that no metric separates: every step is shortened to ``loss / (||v||^4 + 1 + gamma)``. None: the
        separable version.

    Raises
    ------
    ValueError
        If a parameter is out of range.
    """

    def __init__(self, n_features: int, initial_threshold: float = 1.0, gamma: float | None = None) -> None:
        super().__init__(n_features, initial_threshold, gamma)
        self._rank = self.n_features
        self._A, self._B = np.zeros((self._rank, self._rank)), np.zeros((self._rank, self._rank))

    def _take(self, X: NDArray[np.floating], pairs: NDArray[np.int32], similar: NDArray[np.bool_]) -> FloatArray:
        validation.check_entries("an example", X, LONGEST / (2 * np.sqrt(self.n_features)))
        losses, lengths, data = np.zeros(len(pairs)), np.zeros(len(pairs)), np.asarray(X, dtype=np.float64)
        about = (0, len(pairs), self.gamma or 0.0, 0.0, self._A, self._B, self._state, self._counts)
        pola.run(data, pairs, similar, *about, losses, lengths)
        return losses

    def _coordinates(self, X: NDArray[np.floating]) -> FloatArray:
        return np.asarray(X, dtype=np.float64)
