"""OASIS: a full bilinear similarity from triplets, by passive-aggressive steps."""

from __future__ import annotations

from typing import Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from sdpmetric import validation
from sdpmetric.kernels import similarity as kernels
from sdpmetric.relevance import Relevance
from sdpmetric.streams.draws import check_count, check_draws, check_vector, seed

FloatArray = NDArray[np.float64]


class OASISStream:
    """OASIS, an online learner of a bilinear similarity (Chechik, Sharma, Shalit and Bengio 2010) [CSSB2010].

    The similarity of two examples is ``q^T S x``; S is neither symmetric nor PSD, so that this is no metric and has no
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
    n_updates, n_items : int
        Steps, and triplets taken.
    mistakes : int
        Triplets with the irrelevant item at least as similar as the relevant one.
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
        self.n_features = check_count("n_features", n_features)
        self.aggressiveness = validation.check_number("aggressiveness", aggressiveness, 0.0)
        given = np.eye(self.n_features) if start is None else np.array(start, dtype=np.float64, order="C")
        if given.shape != (self.n_features, self.n_features) or not np.isfinite(given).all():
            raise ValueError(
                f"start must be a finite matrix of shape ({self.n_features}, {self.n_features}), got {given.shape}."
            )
        self.similarity = given
        self._random = seed(random_state)
        self._totals = np.zeros(4, dtype=np.int64)
        self.cumulative_loss = 0.0

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
        loss = kernels.oasis_step(self.similarity, q, near - far, self.aggressiveness, self._totals)
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
        self.cumulative_loss += kernels.oasis(
            self.similarity, *draws, self.aggressiveness, count, self._random, self._totals
        )
        return self
