"""OASIS: a full bilinear similarity from triplets, by passive-aggressive steps."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sdpmetric._loops import similarity as loops
from sdpmetric.core import validation
from sdpmetric.ranking.relevance import Relevance
from sdpmetric.streams.draws import Draws
from sdpmetric.streams.triplets import TripletStream

FloatArray = NDArray[np.float64]


class OASISStream(TripletStream):
    """OASIS, an online learner of a bilinear similarity (Chechik, Sharma, Shalit and Bengio 2010) [CSSB2010].

    The similarity of two examples is ``q^T S x``; S is neither symmetric nor PSD, so it is not a metric and has no
    `components`: rank with ``ranking.evaluate(..., similarity=stream.similarity)``. One item of the stream is a query
    with a relevant and an irrelevant item; with ``u = x+ - x-`` and the loss ``l = [1 - q^T S u]_+`` the step is::

        S += tau q u^T,   tau = min(aggressiveness, l / (||q||^2 ||u||^2))

    Parameters
    ----------
    n_features : int
    aggressiveness : float, default 0.1
        The largest step, C in the paper.
    start : (d, d) array, optional
        Default: the identity.
    random_state : int, optional
        Seed of all draws; default 0.

    Attributes
    ----------
    similarity : (d, d) array
    cumulative_loss : float

    Raises
    ------
    ValueError
        If a parameter is out of range, or `start` has another shape.
    """

    def __init__(
        self,
        n_features: int,
        *,
        aggressiveness: float = 0.1,
        start: ArrayLike | None = None,
        random_state: int | None = None,
    ) -> None:
        super().__init__(n_features, random_state)
        self.aggressiveness = validation.check_number("aggressiveness", aggressiveness, 0.0)
        given = np.eye(self.n_features) if start is None else np.array(start, dtype=np.float64, order="C")
        if given.shape != (self.n_features, self.n_features) or not np.isfinite(given).all():
            raise ValueError(
                f"start must be a finite matrix of shape ({self.n_features}, {self.n_features}), got {given.shape}."
            )
        self.similarity = given

    def _step(self, query: FloatArray, u: FloatArray) -> float:
        return float(loops.oasis_step(self.similarity, query, u, self.aggressiveness, self._totals))

    def _steps(self, draws: Draws, related: Relevance, count: int) -> float:
        totals = (self._random, self._totals)
        return float(loops.oasis(self.similarity, *draws, self.aggressiveness, count, *totals))
