"""The base of FRML as a stream: draws of triplets, and a metric of fixed rank that moves by retractions."""

from __future__ import annotations

from typing import Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation
from sdpmetric.ranking import frml_loops as loops
from sdpmetric.ranking.relevance import Relevance

# The largest sum of relative changes ``|c_k| ||h_k||^2`` that one retraction takes; longer steps are shortened.
REACH = 1.0


def check_draws(
    X: ArrayLike,
    relevance: Relevance | ArrayLike | sp.sparray | sp.spmatrix,
    queries: ArrayLike | None,
    n_features: int,
) -> tuple[loops.Draws, Relevance]:
    """Items, queries and relevance for a learner of `n_features` features."""
    items = np.asarray(validation.check_data(X), dtype=np.float64)
    related = Relevance.of(relevance, len(items))
    asked = items if queries is None else np.asarray(validation.check_data(queries), dtype=np.float64)
    for name, rows in (("X", items), ("queries", asked)):
        validation.check_entries(name, rows)
        validation.check_width(name, rows, n_features, "this learner, which cannot change its dimension,")
    if (queries is None) != related.leave_one_out or len(asked) != related.n_queries:
        raise ValueError(
            f"relevance has {related.n_queries} queries with leave_one_out={related.leave_one_out}, but there are "
            f"{len(asked)} rows of queries, {'the items themselves' if queries is None else 'given apart from X'}."
        )
    lists = (related.which, related.indptr, related.indices, related.self_at)
    return (asked, items, related.queries, *lists), related


def check_vector(name: str, given: ArrayLike, n_features: int) -> FloatArray:
    """A finite vector of the learner's dimension, its entries not too large."""
    vector = validation.check_vector(name, given, n_features)
    validation.check_entries(name, vector)
    return vector


def start_factor(init: ArrayLike | None, n_components: int, n_features: int, state: NDArray[np.uint64]) -> FloatArray:
    """A checked copy of the factor to start from; default: random orthonormal rows."""
    if init is None:
        normal = np.random.default_rng(int(state[0])).normal(size=(n_features, n_components))
        return np.ascontiguousarray(np.linalg.qr(normal)[0].T)
    L = validation.check_matrix("init", init, (n_components, n_features))
    sigma = np.linalg.svd(L, compute_uv=False)
    if not sigma[-1] > 1e-6 * sigma[0]:
        raise ValueError(
            f"init has a smaller rank than its {n_components} rows (singular values {sigma[0]:.3g} to "
            f"{sigma[-1]:.3g}), and steps keep the rank; pass rows that are independent."
        )
    return L


def seed(random_state: int | None) -> NDArray[np.uint64]:
    """The state of the random numbers of compiled loops, (1,)."""
    return np.array([validation.seed(random_state, 0)], dtype=np.uint64)


class TripletStream:
    """A metric that takes triplets; derived classes say how it steps."""

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
        """Queries taken so far."""
        return int(self._totals[loops.ITEMS])

    @property
    def mistakes(self) -> int:
        """Queries with a violator so far."""
        return int(self._totals[loops.MISTAKES])

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
            Steps of `batch_size` queries each; default: as many as draw each query once on
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

    def _steps(self, draws: loops.Draws, related: Relevance, count: int) -> float:
        """Draw triplets and take so many steps; return the sum of their losses."""
        raise NotImplementedError


class FactorStream(TripletStream):
    """A metric ``W = K^T K`` of fixed rank that moves by retractions."""

    def __init__(
        self,
        n_features: int,
        n_components: int,
        *,
        step: float = 0.01,
        init: ArrayLike | None = None,
        random_state: int | None = None,
    ) -> None:
        super().__init__(n_features, random_state)
        self.n_components = validation.check_integer("n_components", n_components, 1, self.n_features)
        self.step = validation.check_number("step", step, 0.0)
        self.components = start_factor(init, self.n_components, self.n_features, self._random)
        self._gram = self.components @ self.components.T

    @property
    def metric(self) -> FloatArray:
        """``W = K^T K``, (d, d)."""
        W: FloatArray = self.components.T @ self.components
        return W

    @property
    def shortened(self) -> int:
        """Steps so far that were too long for the retraction and were shortened; if many, `step` is too long."""
        return int(self._totals[loops.SHORTENED])
