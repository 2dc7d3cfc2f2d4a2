"""Measures of the rankings that a metric induces: AUC, mean average precision, NDCG, precision and recall at k."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from sdpmetric.arrays import ENTRIES_AT_ONCE, FloatArray
from sdpmetric.core import validation
from sdpmetric.engine.threads import check_deadline
from sdpmetric.linalg import psd
from sdpmetric.ranking import loops
from sdpmetric.ranking.relevance import Relevance, check_rankings


@dataclass(frozen=True, eq=False)
class RankingScores:
    """Scores of each query's ranking; `auc`, `map`, `ndcg`, `precision` and `recall` are means over queries.

    Attributes
    ----------
    queries : (m,) int32 array
        Rows of the queries that have relevant and irrelevant items.
    auc_of : (m,) array
        Area under the curve of true against false positive rates, ties count half.
    average_precision_of : (m,) array
    ndcg_of : (m,) array
        Normalized discounted cumulative gain of the whole ranking.
    precision_of : (m, len(ks)) array
    ks : tuple of int
    """

    queries: NDArray[np.int32]
    auc_of: FloatArray
    average_precision_of: FloatArray
    ndcg_of: FloatArray
    precision_of: FloatArray
    ks: tuple[int, ...]

    @property
    def auc(self) -> float:
        """Mean area under the curve."""
        return float(self.auc_of.mean())

    @property
    def map(self) -> float:
        """Mean average precision."""
        return float(self.average_precision_of.mean())

    @property
    def ndcg(self) -> float:
        """Mean normalized discounted cumulative gain."""
        return float(self.ndcg_of.mean())

    def precision(self, k: int) -> float:
        """Return the mean share of relevant items among the first k, one of `ks`."""
        return float(self._precision_at(k).mean())

    def recall(self, k: int) -> float:
        """Return the share of queries with a relevant item among the first k, one of `ks`; ties with the k-th count."""
        return float(np.mean(self._precision_at(k) > 0.0))

    def _precision_at(self, k: int) -> FloatArray:
        if k not in self.ks:
            raise ValueError(f"rankings were not measured at {k}, only at {self.ks}; name it in ks=.")
        return self.precision_of[:, self.ks.index(k)]

    def __str__(self) -> str:
        precisions = "".join(f", P@{k} {self.precision(k):.4f}" for k in self.ks)
        return f"AUC {self.auc:.4f}, MAP {self.map:.4f}{precisions} over {len(self.queries):,} queries"


def evaluate(
    X: ArrayLike,
    relevance: Relevance | ArrayLike | sp.sparray | sp.spmatrix,
    queries: ArrayLike | None = None,
    *,
    components: ArrayLike | None = None,
    metric: ArrayLike | None = None,
    ks: Sequence[int] = (1, 10),
) -> RankingScores:
    """Rank the items X for each query and measure the rankings, a block of queries at a time.

    Values are those of scikit-learn's ``roc_auc_score`` and ``average_precision_score`` with minus the squared
    distances as scores, ties included. Within a tie at the k-th place precision is the mean over all orders, as in
    ``ndcg_score``. Distances are sums of squares of differences, without cancellation.

    Examples
    --------
    >>> import sdpmetric as sm
    >>> X, y = sm.datasets.load("iris")
    >>> solution = sm.solve(sm.LMNNProblem.from_labels(X, y))
    >>> scores = sm.ranking.evaluate(X, y, components=solution.components)  # each example asks for its class
    >>> bool(0.7 < scores.map <= 1)
    True
    """
    data, related, query_rows = check_rankings(X, relevance, queries)
    wanted = tuple(sorted({validation.check_integer("an entry of ks", k) for k in ks}))
    L = None
    if metric is not None or components is not None:
        L = validation.check_point(components, metric, data.shape[1])[0]
        L = L if metric is None else psd.factor(np.asarray(metric, dtype=np.float64))
    items, embedded_queries = (_embedded(rows, L) for rows in (data, data if query_rows is None else query_rows))
    measures = []
    for _, scores in sorted_scores(embedded_queries, items, related):
        measures.append(np.empty((len(scores[0]), 3 + len(wanted))))
        loops.measure(scores, np.array(wanted, dtype=np.int64), measures[-1])
    out = np.concatenate(measures)
    return RankingScores(related.queries, out[:, 0], out[:, 1], out[:, 2], out[:, 3:], wanted)


def _embedded(rows: NDArray[np.floating], L: FloatArray | None) -> FloatArray:
    images = np.asarray(rows, dtype=np.float64) if L is None else np.asarray(rows, dtype=np.float64) @ L.T
    size = float(np.abs(images).max(initial=0.0))
    validation.check_range("under the metric, examples have coordinates up to {:.3g}", size)
    return images


def masked_scores(
    queries: FloatArray, items: FloatArray, relevance: Relevance
) -> Iterator[tuple[NDArray[np.int32], FloatArray]]:
    """Yield squared distances of a block of queries, (2, m, n): of relevant and of irrelevant items, else infinity."""
    columns = np.ascontiguousarray(items.T)
    height = max(1, ENTRIES_AT_ONCE // max(1, len(items)))
    for first in range(0, len(relevance.queries), height):
        check_deadline()
        block = relevance.queries[first : first + height]
        distances = np.empty((len(block), len(items)))
        loops.distances_to(queries[block], columns, distances)
        members = relevance.mask(block)
        relevant = members.copy()
        if relevance.leave_one_out:
            relevant[np.arange(len(block)), block] = False
        yield block, np.where([relevant, ~members], distances, np.inf)


def sorted_scores(
    queries: FloatArray, items: FloatArray, relevance: Relevance
) -> Iterator[tuple[NDArray[np.int32], loops.Sorted]]:
    """Yield squared distances of relevant and of irrelevant items, increasing, for a block of queries at a time."""
    for block, scores in masked_scores(queries, items, relevance):
        scores.sort(axis=2)
        yield block, (*scores, relevance.n_relevant[block], relevance.n_irrelevant[block])


RankLoss = Literal["warp", "auc"]


def rank_weights(loss: RankLoss, n: int) -> FloatArray:
    """Return the loss of ranks 0 to n: ``L(k) = 1 + 1/2 + .. + 1/k`` for "warp", ``L(k) = k`` for "auc"."""
    ranks = np.arange(1.0, n + 1)
    return np.concatenate([[0.0], np.cumsum(1.0 / ranks) if loss == "warp" else ranks])


def expected_weights(loss: RankLoss, n_irrelevant: int, gamma: float = 1.0) -> FloatArray:
    """Return the expected weight of the sampled hinge by number of violators (Lim and Lanckriet 2014, section 2.2).

    With v violators among n irrelevant items, WARP with draws up to ``m = n / gamma`` (at least one) weighs by::

        E(v) = sum_{N=1}^{m}  v/n (1 - v/n)^{N-1}  L(floor(n / N))

    and AUC, which draws once, by ``v / n * L(n) = v``. The sampled gradient has the mean ``E(v)`` times the mean
    gradient of the v violated hinges.
    """
    weights = rank_weights(loss, n_irrelevant)
    if loss == "auc":
        return weights
    expected, draws = np.empty(n_irrelevant + 1), np.arange(1, max(1, int(n_irrelevant / gamma)) + 1)
    height = max(1, ENTRIES_AT_ONCE // n_irrelevant)
    for first in range(0, n_irrelevant + 1, height):
        check_deadline()
        violators = np.arange(first, min(first + height, n_irrelevant + 1))
        p = violators[:, None] / n_irrelevant
        expected[violators] = (p * (1.0 - p) ** (draws - 1)) @ weights[n_irrelevant // draws]
    return expected
