"""LORETA on PSD matrices of fixed rank: a bilinear similarity from triplets, by retractions of rank-one steps."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sdpmetric._loops import similarity as loops
from sdpmetric.ranking.relevance import Relevance
from sdpmetric.streams.draws import REACH, Draws
from sdpmetric.streams.triplets import FactorStream

FloatArray = NDArray[np.float64]


class LORETAStream(FactorStream):
    """LORETA with symmetric updates of rank one (PSD-1; Shalit, Weinshall and Chechik 2012) [SWC2012].

    The similarity of two examples is ``q^T W x`` with ``W = K^T K`` of fixed rank. One item of the stream is a query
    with a relevant and an irrelevant item; where ``l = [1 - q^T W u]_+`` with ``u = x+ - x-`` is positive, W moves
    against the gradient of l, whose symmetric part is a difference of two matrices of rank one, by one retraction for
    each. The retraction is that of FRML; the two methods differ only in loss and draws.

    Parameters
    ----------
    n_features : int
    n_components : int
        The rank, at most `n_features`.
    step : float, default 0.01
        Length of the steps.
    start : (n_components, n_features) array, optional
        The factor to start from, of full rank; default: random orthonormal rows.
    random_state : int, optional
        Seed of all draws; default 0.

    Attributes
    ----------
    components : (n_components, n_features) array
    cumulative_loss : float

    Raises
    ------
    ValueError
        If a parameter is out of range, the rank is above the number of features, or `start` has not full rank.
    """

    def __init__(
        self,
        n_features: int,
        n_components: int,
        *,
        step: float = 0.01,
        start: ArrayLike | None = None,
        random_state: int | None = None,
    ) -> None:
        super().__init__(n_features, n_components, step, start, random_state)

    def _step(self, query: FloatArray, u: FloatArray) -> float:
        return float(loops.loreta_step(self.components, self._gram, query, u, self.step, REACH, self._totals))

    def _steps(self, draws: Draws, related: Relevance, count: int) -> float:
        lengths = np.full(count, self.step)
        totals = (self._random, self._totals)
        return float(loops.loreta(self.components, self._gram, *draws, lengths, REACH, *totals))
