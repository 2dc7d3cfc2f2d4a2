"""The bases of FRML, LORETA and OASIS: streams of triplets of a query, a relevant and an irrelevant item."""

from __future__ import annotations

from typing import Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from sdpmetric._loops import frml as loops
from sdpmetric.core import validation
from sdpmetric.ranking.relevance import Relevance
from sdpmetric.streams.draws import Draws, check_draws, check_vector, seed, start_factor

FloatArray = NDArray[np.float64]


class TripletStream:
    """A metric or similarity that takes triplets; derived classes say how it steps."""

    batch_size = 1  # items between two steps

    def __init__(self, n_features: int, random_state: int | None) -> None:
        self.n_features = validation.check_integer("n_features", n_features)
        self._random = seed(random_state)
        self._totals = np.zeros(5, dtype=np.int64)
        self.cumulative_loss = 0.0

    @property
    def n_updates(self) -> int:
        """Steps of the metric so far."""
        return int(self._totals[loops.UPDATES])

    @property
    def n_items(self) -> int:
        """Triplets, of FRML queries, taken so far."""
        return int(self._totals[loops.ITEMS])

    @property
    def mistakes(self) -> int:
        """Triplets with the irrelevant item before the relevant one so far; of FRML, queries with a violator."""
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
        self._totals[loops.ITEMS] += 1
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
        """Draw queries, relevant and irrelevant items uniformly, and take them in one compiled loop.

        Parameters
        ----------
        X : (n, d) array
            The items.
        relevance : Relevance, (n,) array of labels, lists for each query, or sparse matrix
        queries : (m, d) array, optional
            Default: the items, each left out of its own ranking.
        n_steps : int, optional
            Steps, of one item each, of FRML of `batch_size` queries; default: as many as draw each query once on
            average.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If the dimension is another one than before, numbers are not finite or above 1e70, or a query has no
            relevant or no irrelevant item (unless the relevance says to exclude such queries).
        """
        draws, related = check_draws(X, relevance, queries, self.n_features)
        all_once = -(-len(related.queries) // self.batch_size)
        count = all_once if n_steps is None else validation.check_integer("n_steps", n_steps)
        self.cumulative_loss += self._steps(draws, related, count)
        return self

    def _step(self, query: FloatArray, u: FloatArray) -> float:
        """Take a query and the relevant item less the irrelevant one; return the loss before."""
        raise NotImplementedError

    def _steps(self, draws: Draws, related: Relevance, count: int) -> float:
        """Draw triplets and take so many steps; return the sum of their losses."""
        raise NotImplementedError


class FactorStream(TripletStream):
    """A metric ``W = K^T K`` of fixed rank that moves by retractions."""

    def __init__(
        self, n_features: int, n_components: int, step: float, start: ArrayLike | None, random_state: int | None
    ) -> None:
        super().__init__(n_features, random_state)
        self.n_components = validation.check_integer("n_components", n_components, 1, self.n_features)
        self.step = validation.check_number("step", step, 0.0)
        self.components = start_factor(start, self.n_components, self.n_features, self._random)
        self._gram = self.components @ self.components.T

    @property
    def metric(self) -> FloatArray:
        """``W = K^T K``, (d, d); of LORETA a similarity, which is a metric too, as it is PSD."""
        W: FloatArray = self.components.T @ self.components
        return W

    @property
    def shortened(self) -> int:
        """Steps so far that were too long for the retraction and were shortened; if many, `step` is too long."""
        return int(self._totals[loops.SHORTENED])
