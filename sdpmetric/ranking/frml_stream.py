"""FRML as a stream: a metric of fixed rank that learns rankings from one query after another."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation
from sdpmetric.ranking import frml_loops as loops
from sdpmetric.ranking.relevance import Relevance
from sdpmetric.ranking.scores import RankLoss, rank_weights
from sdpmetric.ranking.triplet_stream import REACH, FactorStream, check_vector


class FRMLStream(FactorStream):
    """FRML, learning of rankings by a metric of fixed rank (Lim and Lanckriet 2014) [LL2014].

    One item of the stream is a query with a relevant item and irrelevant ones. With ``d`` the squared distances under
    ``W = K^T K``, an irrelevant item ``x-`` violates the ranking where ``1 + d(q, x+) - d(q, x-) > 0``. WARP draws
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
        At least 1: a relevant item whose estimated rank is a number below `gamma`, so which is already near the top, is
        not pushed further up. WARP only.
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

    Raises
    ------
    ValueError
        If a parameter is out of range, the rank is above the number of features, or `init` has not full rank.
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
        super().__init__(n_features, n_components, step=step, init=init, random_state=random_state)
        validation.check_choice("loss", loss, ("warp", "auc"))
        self.loss: Literal["warp", "auc"] = loss
        self.gamma = validation.check_number("gamma", gamma, 1.0)
        self.regularization = validation.check_number("regularization", regularization, 0.0)
        self.decay = validation.check_number("decay", decay, 0.0)
        self.batch_size = validation.check_integer("batch_size", batch_size)
        self.scale = None if scale is None else validation.check_number("scale", scale, np.finfo(float).tiny)
        self._pending: list[tuple[FloatArray, float]] = []
        self._taken = 0

    @property
    def n_evaluations(self) -> int:
        """Distances from a query to an item (``f_q``) that were evaluated so far."""
        return int(self._totals[loops.EVALUATIONS])

    def update(self, query: ArrayLike, relevant: ArrayLike, irrelevant: ArrayLike) -> float:
        """Take one query with a relevant item and all its irrelevant ones; W moves after every `batch_size` of them.

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
            If the dimension is another one than before, numbers are not finite or above 1e70, or there is no
            irrelevant item.
        """
        q = check_vector("query", query, self.n_features)
        near = check_vector("relevant", relevant, self.n_features)
        rows = validation.check_matrix("irrelevant", irrelevant, ("m", self.n_features))
        if not len(rows):
            raise ValueError("irrelevant is empty; a query without irrelevant items has no loss; leave it out.")
        validation.check_entries("irrelevant", rows)
        n = len(rows)
        weights = self._weights(n, float(n))
        limit = 1.0 + float(np.sum((self.components @ (q - near)) ** 2))
        loss, weight = self.regularization * (limit - 1.0), 0.0
        most = max(1, int(n / self.gamma)) if self.loss == "warp" else 1
        for draw in range(1, most + 1):
            v = q - rows[loops.uniform(self._random, n)]
            distance = float(np.sum((self.components @ v) ** 2))
            self._totals[loops.EVALUATIONS] += 1
            if distance < limit:
                weight = float(weights[n // draw])
                loss += weight * (limit - distance)
                self._totals[loops.MISTAKES] += 1
                self._pending.append((v, weight))
                break
        self._pending.append((q - near, -(weight + self.regularization)))
        self._totals[loops.EVALUATIONS] += 1
        self._totals[loops.ITEMS] += 1
        self.cumulative_loss += loss
        self._taken += 1
        if self._taken == self.batch_size:
            self._end_batch()
        return loss

    def _end_batch(self) -> None:
        V, c = (np.array(part) for part in zip(*self._pending, strict=True))
        c *= float(self._lengths(1)[0]) / self._taken
        if loops.retract(self.components, self._gram, V, V @ self.components.T, c, REACH) < 1.0:
            self._totals[loops.SHORTENED] += 1
        self._totals[loops.UPDATES] += 1
        if self.n_updates % loops.REFRESH == 0:
            loops.refresh_gram(self.components, self._gram)
        self._pending, self._taken = [], 0

    def _steps(self, draws: loops.Draws, related: Relevance, count: int) -> float:
        weights = self._weights(len(draws[1]), float(related.n_irrelevant[related.queries].mean()))
        if self._taken:
            self._end_batch()
        loss = loops.frml(
            self.components,
            self._gram,
            draws,
            weights,
            self.loss == "warp",
            self.gamma,
            self.regularization,
            self.batch_size,
            self._lengths(count),
            REACH,
            self._random,
            self._totals,
        )
        return float(loss)

    def _weights(self, n: int, irrelevant: float) -> FloatArray:
        weights = rank_weights(self.loss, n)
        if self.scale is None:
            self.scale = float(np.interp(irrelevant, np.arange(n + 1), weights))
        scaled: FloatArray = weights / self.scale
        return scaled

    def _lengths(self, count: int) -> FloatArray:
        lengths: FloatArray = self.step / (1.0 + self.decay * np.arange(self.n_updates, self.n_updates + count, 1.0))
        return lengths
