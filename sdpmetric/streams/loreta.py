"""LORETA on PSD matrices of fixed rank: a bilinear similarity from triplets, by retractions of rank-one steps."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sdpmetric._loops import similarity as loops
from sdpmetric.core import validation
from sdpmetric.streams.draws import REACH, Draws, check_rank, start_factor
from sdpmetric.streams.triplets import TripletStream

FloatArray = NDArray[np.float64]


class LORETAStream(TripletStream):
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
    metric : (n_features, n_features) array
        W, a similarity; as it is PSD, it is a metric too.
    n_updates, n_items : int
        Steps, and triplets taken.
    mistakes : int
        Triplets with the irrelevant item at least as similar as the relevant one.
    shortened : int
        Rank-one steps that were too long for the retraction and were shortened.
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
        super().__init__(n_features, random_state)
        self.n_components = check_rank(n_components, self.n_features)
        self.step = validation.check_number("step", step, 0.0)
        self.components = start_factor(start, self.n_components, self.n_features, self._random)
        self._gram = self.components @ self.components.T

    @property
    def metric(self) -> FloatArray:
        """``W = K^T K``, (d, d)."""
        W: FloatArray = self.components.T @ self.components
        return W

    @property
    def shortened(self) -> int:
        """Rank-one steps that were shortened so far."""
        return int(self._totals[loops.SHORTENED])

    def _step(self, query: FloatArray, u: FloatArray) -> float:
        return float(loops.loreta_step(self.components, self._gram, query, u, self.step, REACH, self._totals))

    def _steps(self, draws: Draws, count: int) -> float:
        lengths = np.full(count, self.step)
        totals = (self._random, self._totals)
        return float(loops.loreta(self.components, self._gram, *draws, lengths, REACH, *totals))
