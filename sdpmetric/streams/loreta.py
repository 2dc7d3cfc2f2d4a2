"""LORETA on PSD matrices of fixed rank: a bilinear similarity from triplets, by retractions of rank-one steps."""

from __future__ import annotations

from typing import Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from sdpmetric import validation
from sdpmetric.kernels import similarity as kernels
from sdpmetric.relevance import Relevance
from sdpmetric.streams.draws import REACH, check_count, check_draws, check_rank, check_vector, seed, start_factor

FloatArray = NDArray[np.float64]


class LORETAStream:
    """LORETA with symmetric updates of rank one (PSD-1; Shalit, Weinshall and Chechik 2012) [SWC2012].

    The similarity of two examples is ``q^T W x`` with ``W = K^T K`` of fixed rank. One item of the stream is a query
    with a relevant and an irrelevant item; where ``l = [1 - q^T W u]_+`` with ``u = x+ - x-`` is positive, W moves
    against the gradient of l, whose symmetric part is a difference of two matrices of rank one, by one retraction for
    each. The retraction is that of FRML, so that the two differ in loss and draws alone.

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
        W, a similarity; it is PSD, so that it is a metric too.
    n_updates, n_items : int
        Steps, and triplets taken.
    mistakes : int
        Triplets with the irrelevant item at least as similar as the relevant one.
    shortened : int
        Rank-one steps that were longer than the retraction reaches and were shortened.
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
        self.n_features = check_count("n_features", n_features)
        self.n_components = check_rank(n_components, self.n_features)
        self.step = validation.check_number("step", step, 0.0)
        self._random = seed(random_state)
        self.components = start_factor(start, self.n_components, self.n_features, self._random)
        self._gram = self.components @ self.components.T
        self._totals = np.zeros(4, dtype=np.int64)
        self.cumulative_loss = 0.0

    @property
    def metric(self) -> FloatArray:
        """``W = K^T K``, (d, d)."""
        W: FloatArray = self.components.T @ self.components
        return W

    @property
    def n_updates(self) -> int:
        """Steps so far."""
        return int(self._totals[kernels.UPDATES])

    @property
    def n_items(self) -> int:
        """Triplets taken so far."""
        return int(self._totals[kernels.TRIPLETS])

    @property
    def mistakes(self) -> int:
        """Triplets ranked wrongly so far."""
        return int(self._totals[kernels.MISTAKES])

    @property
    def shortened(self) -> int:
        """Rank-one steps that were shortened so far."""
        return int(self._totals[kernels.SHORTENED])

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
        loss = kernels.loreta_step(self.components, self._gram, q, near - far, self.step, REACH, self._totals)
        self._totals[kernels.TRIPLETS] += 1
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
        count = len(related.queries) if n_steps is None else check_count("n_steps", n_steps)
        self.cumulative_loss += kernels.loreta(
            self.components,
            self._gram,
            *draws,
            np.full(count, self.step),
            REACH,
            self._random,
            self._totals,
        )
        return self
