"""FRML as a stream: a metric of fixed rank that learns rankings from one query after another."""

from __future__ import annotations

from typing import Literal, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation
from sdpmetric.engine.lazy import fixed
from sdpmetric.engine.threads import check_deadline
from sdpmetric.ranking import loops as loops
from sdpmetric.ranking.relevance import Relevance, check_rankings
from sdpmetric.ranking.scores import RankLoss, rank_weights

# Steps between two looks at the clock.
STEPS_AT_ONCE = 64


class FRMLStream:
    """FRML, learning of rankings by a metric of fixed rank (Lim and Lanckriet 2014) [LL2014].

    One item of the stream is a query with a relevant item and irrelevant items. With ``d`` the squared distances under
    ``W = K^T K``, an irrelevant item ``x-`` violates the ranking if ``1 + d(q, x+) - d(q, x-) > 0``. WARP draws
    irrelevant items until it meets a violator, at most ``m = n_irrelevant / gamma`` of them (Algorithm 2 there, the
    rank-gamma truncation); the number of draws N estimates the rank of the relevant item, and the loss is::

        L(floor(n_irrelevant / N)) / scale * [1 + d(q, x+) - d(q, x-)]_+  +  regularization * d(q, x+)

    with ``L(k) = 1 + 1/2 + .. + 1/k``, and 0 for the first part if no violator is met. AUC draws one irrelevant item,
    and ``L(k) = k``. After `batch_size` items W moves against the mean gradient, by the retraction of second order onto
    the matrices of its rank (Algorithm 1 there), at a cost linear in the number of features.

    Parameters
    ----------
    n_features : int
    n_components : int
        The rank, at most `n_features`.
    loss : {"warp", "auc"}, default "warp"
    gamma : float, default 1
        At least 1: a relevant item with an estimated rank below `gamma` is near the top already and is not pushed
        further up. WARP only.
    regularization : float, default 0.01
        Weight of the distance to the relevant item, relative to hinges of weight 1 at the last rank.
    step : float, default 0.01
        Length of the first step. Data that are multiplied by s need a step divided by ``s**4``.
    decay : float, default 0
        Step t is ``step / (1 + decay * t)``.
    batch_size : int, default 5
        Items between two steps.
    scale : float, optional
        What losses of ranks are divided by; default: the loss of the last rank, at the first item or, in `partial_fit`,
        at the mean number of irrelevant items.
    init : (n_components, n_features) array, optional
        The factor to start from, of full rank; default: random orthonormal rows.
    random_state : int, optional
        Seed of all draws; default 0.

    Attributes
    ----------
    components : (n_components, n_features) array
    cumulative_loss : float
        Sum of the sampled losses, each before its update.

    Examples
    --------
    >>> import sdpmetric as sm
    >>> X, y = sm.datasets.load("iris")
    >>> stream = sm.FRMLStream(4, 2, random_state=0)
    >>> stream.partial_fit(X, y).metric.shape
    (4, 4)
    """

    def __init__(
        self,
        n_features: int,
        n_components: int,
        *,
        loss: RankLoss = "warp",
        gamma: float = 1.0,
        regularization: float = 0.01,
        step: float = 0.01,
        decay: float = 0.0,
        batch_size: int = 5,
        scale: float | None = None,
        init: ArrayLike | None = None,
        random_state: int | None = None,
    ) -> None:
        self.n_features = validation.check_integer("n_features", n_features)
        self.n_components = validation.check_integer("n_components", n_components, 1, self.n_features)
        self._random = np.array([validation.seed(random_state, 0)], dtype=np.uint64)  # state of the loops' draws
        self._totals = np.zeros(loops.N_TOTALS, dtype=np.int64)
        self.cumulative_loss = 0.0
        self.step = validation.check_number("step", step, 0.0)
        self.components = start_factor(init, self.n_components, self.n_features, self._random)
        self._gram = self.components @ self.components.T
        validation.check_choice("loss", loss, ("warp", "auc"))
        self.loss: Literal["warp", "auc"] = loss
        self.gamma = validation.check_number("gamma", gamma, 1.0)
        self.regularization = validation.check_weight("regularization", regularization)
        self.decay = validation.check_number("decay", decay, 0.0)
        self.batch_size = validation.check_integer("batch_size", batch_size)
        self.scale = None if scale is None else validation.check_number("scale", scale, np.finfo(float).tiny)
        size = 2 * self.batch_size
        self._batch = np.empty((size, self.n_features)), np.empty((size, self.n_components)), np.empty(size)
        self._pending_items = self._used = 0  # queries of the batch, and differences

    @property
    def metric(self) -> FloatArray:
        """``W = K^T K``, (d, d)."""
        W: FloatArray = self.components.T @ self.components
        return W

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

    @property
    def shortened(self) -> int:
        """Steps so far that were too long for the retraction and were shortened; if many, `step` is too long."""
        return int(self._totals[loops.SHORTENED])

    @property
    def n_evaluations(self) -> int:
        """Distances from a query to an item (``f_q``) that were evaluated so far."""
        return int(self._totals[loops.EVALUATIONS])

    def update(self, query: ArrayLike, relevant: ArrayLike, irrelevant: ArrayLike) -> float:
        """Take one query with a relevant item and all irrelevant items; W moves after every `batch_size` of them.

        Parameters
        ----------
        query, relevant : (d,) arrays
        irrelevant : (n, d) array
            At least one row; rows are drawn from it at random.

        Returns
        -------
        float
            The sampled loss before the update.

        Raises
        ------
        ValueError
            If the dimension is another one than before, numbers are not finite or above 1e60, or there is no
            irrelevant item.
        """
        q, relevant_item = self._vector("query", query), self._vector("relevant", relevant)
        rows = validation.check_matrix("irrelevant", irrelevant, ("m", self.n_features))
        if not len(rows):
            raise ValueError("irrelevant is empty; a query without irrelevant items has no loss; leave it out.")
        validation.check_entries("irrelevant", rows)
        rule, none = self._rule(len(rows), float(len(rows))), np.zeros(0, dtype=np.int32)
        place = self._random, self._totals, self._batch, self._used
        loss, self._used = loops.sample(self.components, (q, relevant_item), fixed(rows), none, rule, *place)
        self.cumulative_loss += loss
        self._pending_items += 1
        if self._pending_items == self.batch_size:
            self._end_batch()
        return float(loss)

    def _vector(self, name: str, vector: ArrayLike) -> FloatArray:
        checked = validation.check_vector(name, vector, self.n_features)
        validation.check_entries(name, checked)
        return checked

    def _end_batch(self) -> None:
        length = float(self._lengths(1)[0]) / self._pending_items
        loops.end_batch(self.components, self._gram, self._batch, self._used, length, self._totals)
        self._pending_items = self._used = 0

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
            Steps of `batch_size` queries each; default: as many as draw each query once on average.

        Raises
        ------
        ValueError
            If the dimension is another one than before, numbers are not finite or above 1e60, or a query has no
            relevant or no irrelevant item (unless the relevance says to exclude such queries).
        """
        items, related, query_rows = check_rankings(X, relevance, queries)
        validation.check_width("X", items, self.n_features, "this stream")
        data = np.asarray(items, dtype=np.float64)
        rows = data if query_rows is None else np.asarray(query_rows, dtype=np.float64)
        for name, checked in (("X", data), ("queries", rows)):
            validation.check_entries(name, checked)
        n_passes = -(-len(related.queries) // self.batch_size)
        count = n_passes if n_steps is None else validation.check_integer("n_steps", n_steps)
        rule = self._rule(len(data), float(related.n_irrelevant[related.queries].mean()))
        if self._pending_items:
            self._end_batch()
        lists = related.list_of_query, related.indptr, related.indices, related.self_position
        draws, lengths = (rows, data, related.queries, *lists), self._lengths(count)
        for first in range(0, count, STEPS_AT_ONCE):
            check_deadline()
            self.cumulative_loss += loops.frml(
                self.components,
                self._gram,
                draws,
                rule,
                self.batch_size,
                lengths[first : first + STEPS_AT_ONCE],
                self._random,
                self._totals,
            )
        return self

    def _rule(self, n: int, mean_irrelevant: float) -> loops.Rule:
        """Return how n items are sampled; losses are divided by `scale`, which the first item sets if it is None."""
        weights = rank_weights(self.loss, n)
        if self.scale is None:
            self.scale = float(np.interp(mean_irrelevant, np.arange(n + 1), weights))
        return weights / self.scale, self.loss == "warp", self.gamma, self.regularization

    def _lengths(self, count: int) -> FloatArray:
        lengths: FloatArray = self.step / (1.0 + self.decay * np.arange(self.n_updates, self.n_updates + count, 1.0))
        return lengths


def start_factor(init: ArrayLike | None, n_components: int, n_features: int, state: NDArray[np.uint64]) -> FloatArray:
    """Return a checked copy of the factor to start from; default: random orthonormal rows."""
    if init is None:
        normal = np.random.default_rng(int(state[0])).normal(size=(n_features, n_components))
        return np.ascontiguousarray(np.linalg.qr(normal)[0].T)
    L = validation.check_matrix("init", init, (n_components, n_features))
    sigma = np.linalg.svd(L, compute_uv=False)
    # Rows of a start have full rank if their singular values are above this share of the largest.
    if not sigma[-1] > 1e-6 * sigma[0]:
        raise ValueError(
            f"init has a smaller rank than its {n_components} rows (singular values {sigma[0]:.3g} to "
            f"{sigma[-1]:.3g}), and steps keep the rank; pass rows that are independent."
        )
    return L
