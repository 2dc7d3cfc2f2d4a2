"""The base of LORETA and OASIS: streams of triplets of a query, a relevant and an irrelevant item."""

from __future__ import annotations

from typing import Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from sdpmetric._loops import similarity as loops
from sdpmetric.core import validation
from sdpmetric.ranking.relevance import Relevance
from sdpmetric.streams.draws import Draws, check_draws, check_vector, seed

FloatArray = NDArray[np.float64]


class TripletStream:
    """A bilinear similarity that takes triplets; derived classes say how it steps.

    Parameters
    ----------
    n_features : int
    random_state : int or None
        Seed of all draws; None: 0.
    """

    def __init__(self, n_features: int, random_state: int | None) -> None:
        self.n_features = validation.check_integer("n_features", n_features)
        self._random = seed(random_state)
        self._totals = np.zeros(4, dtype=np.int64)
        self.cumulative_loss = 0.0

    @property
    def n_updates(self) -> int:
        """Steps so far."""
        return int(self._totals[loops.UPDATES])

    @property
    def n_items(self) -> int:
        """Triplets taken so far."""
        return int(self._totals[loops.TRIPLETS])

    @property
    def mistakes(self) -> int:
        """Triplets ranked wrongly so far."""
        return int(self._totals[loops.MISTAKES])

    def update(self, query: ArrayLike, relevant: ArrayLike, irrelevant: ArrayLike) -> float:
        """Take one triplet.

        Parameters
        ----------
        query, relevant, irrelevant : (d,) arrays

        Returns
        -------
        float
            The loss before the update.

        Raises
        ------
        ValueError
            If the dimension is another one than before, or numbers are not finite or above 1e70.
        """
        q = check_vector("query", query, self.n_features)
        near = check_vector("relevant", relevant, self.n_features)
        far = check_vector("irrelevant", irrelevant, self.n_features)
        loss = self._step(q, near - far)
        self._totals[loops.TRIPLETS] += 1
        self.cumulative_loss += loss
        return float(loss)

    def partial_fit(
        self,
        X: ArrayLike,
        relevance: Relevance | ArrayLike | sp.sparray | sp.spmatrix,
        queries: ArrayLike | None = None,
        *,
        n_steps: int | None = None,
    ) -> Self:
        """Draw triplets uniformly and take them in one compiled loop; see `FRMLStream.partial_fit`.

        Parameters
        ----------
        X : (n, d) array
        relevance : Relevance, (n,) array of labels, lists for each query, or sparse matrix
        queries : (m, d) array, optional
            Default: the items.
        n_steps : int, optional
            Triplets; default: one for each query on average.
        """
        draws, related = check_draws(X, relevance, queries, self.n_features)
        count = len(related.queries) if n_steps is None else validation.check_integer("n_steps", n_steps)
        self.cumulative_loss += self._steps(draws, count)
        return self

    def _step(self, query: FloatArray, u: FloatArray) -> float:
        """Take a query and the relevant item less the irrelevant one; return the loss before."""
        raise NotImplementedError

    def _steps(self, draws: Draws, count: int) -> float:
        """Draw and take so many triplets; return the sum of their losses."""
        raise NotImplementedError
