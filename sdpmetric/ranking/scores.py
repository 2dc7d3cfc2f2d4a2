"""Measures of the rankings that a metric induces: AUC, mean average precision, NDCG, precision and recall at k."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation
from sdpmetric.engine.threads import check_deadline
from sdpmetric.linalg import psd
from sdpmetric.ranking import loops
from sdpmetric.ranking.relevance import Relevance

# Scores in memory at once, 32 MiB: a block of queries times all items.
SCORES_AT_ONCE = 1 << 22


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

    Examples
    --------
    >>> import sdpmetric as sm
    >>> from sdpmetric import ranking
    >>> X, y = sm.datasets.load("iris")
    >>> problem = sm.LMNNProblem.from_labels(X, y)
    >>> solution = sm.solve(problem)
    >>> relevance = sm.Relevance.from_labels(y)  # each example asks for the rest of its class
    >>> scores = ranking.evaluate(X, relevance, components=solution.components)
    >>> bool(0.7 < scores.map <= 1)
    True
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
        """Mean share of relevant items among the first k.

        Parameters
        ----------
        k : int
            One of `ks`.
        """
        return float(self._precision_at(k).mean())

    def recall(self, k: int) -> float:
        """Share of queries with a relevant item among the first k; one that ties with the k-th counts.

        Parameters
        ----------
        k : int
            One of `ks`.
        """
        return float(np.mean(self._precision_at(k) > 0.0))

    def _precision_at(self, k: int) -> FloatArray:
        if k not in self.ks:
            raise ValueError(f"rankings were not measured at {k}, only at {self.ks}; name it in ks=.")
        return self.precision_of[:, self.ks.index(k)]

    def __str__(self) -> str:
        precisions = "".join(f", P@{k} {self.precision(k):.4f}" for k in self.ks)
        return f"AUC {self.auc:.4f}, MAP {self.map:.4f}{precisions} over {len(self.queries):,} queries"


def evaluate(
    items: ArrayLike,
    relevance: Relevance | ArrayLike,
    queries: ArrayLike | None = None,
    *,
    components: ArrayLike | None = None,
    metric: ArrayLike | None = None,
    similarity: ArrayLike | None = None,
    ks: Sequence[int] = (1, 10),
) -> RankingScores:
    """Rank the items for each query and measure the rankings, a block of queries at a time.

    Values are those of scikit-learn's ``roc_auc_score`` and ``average_precision_score`` with minus the squared
    distances as scores, ties included. Within a tie at the k-th place precision is the mean over all orders, as in
    ``ndcg_score``. Distances are sums of squares of differences, without cancellation.
    """
    X = validation.check_matrix("items", items, ("n", "d"))
    checked = Relevance.of(relevance, len(X))
    if (queries is None) != checked.leave_one_out:
        raise ValueError(
            "queries must be given if relevance is between queries and items, and not given if the items are the "
            "queries (relevance.leave_one_out)."
        )
    Q = X if queries is None else validation.check_matrix("queries", queries, ("q", X.shape[1]))
    if len(Q) != checked.n_queries:
        raise ValueError(f"relevance has {checked.n_queries} queries, but there are {len(Q)} rows of queries.")
    wanted = tuple(sorted({validation.check_integer("an entry of ks", k) for k in ks}))
    query_space, item_space, products = _spaces(Q, X, components, metric, similarity)
    answerable = checked.queries
    out = np.empty((len(answerable), 3 + len(wanted)))
    done = 0
    for block, scores in sorted_scores(query_space, item_space, checked, products=products):
        loops.measure(scores, np.array(wanted, dtype=np.int64), out[done : done + len(block)])
        done += len(block)
    return RankingScores(answerable, out[:, 0], out[:, 1], out[:, 2], out[:, 3:], wanted)


def sorted_scores(
    queries: FloatArray, items: FloatArray, relevance: Relevance, *, products: bool = False
) -> Iterator[tuple[NDArray[np.int32], loops.Sorted]]:
    """Scores of relevant and of irrelevant items in increasing order, for a block of queries at a time."""
    columns = np.ascontiguousarray(items.T)
    height = max(1, SCORES_AT_ONCE // max(1, len(items)))
    for first in range(0, len(relevance.queries), height):
        check_deadline()
        block = relevance.queries[first : first + height]
        scores = np.empty((len(block), len(items)))
        loops.distances_to(queries[block], columns, scores, products)
        mask = relevance.mask(block)
        irrelevant = np.where(mask, np.inf, scores)
        if relevance.leave_one_out:
            mask[np.arange(len(block)), block] = False
        relevant = np.where(mask, scores, np.inf)
        relevant.sort(axis=1)
        irrelevant.sort(axis=1)
        yield block, (relevant, irrelevant, relevance.n_relevant[block], relevance.n_irrelevant[block])


def _spaces(
    Q: FloatArray, X: FloatArray, components: ArrayLike | None, metric: ArrayLike | None, similarity: ArrayLike | None
) -> tuple[FloatArray, FloatArray, bool]:
    d = X.shape[1]
    if sum(argument is not None for argument in (components, metric, similarity)) > 1:
        raise ValueError("pass at most one of components=, metric= and similarity=.")
    if similarity is not None:
        S = validation.check_matrix("similarity", similarity, (d, d))
        with np.errstate(over="ignore", invalid="ignore"):
            images = Q @ S
            products = float(np.abs(images).max(initial=0.0)) * float(np.abs(X).max(initial=0.0)) * d
        if not np.isfinite(products):
            raise ValueError("similarities of these queries and items overflow; scale the features or the similarity.")
        return images, X, True
    items, query_images = X, Q
    if metric is not None or components is not None:
        L = validation.check_point(components, metric, d)[0]
        L = L if metric is None else psd.factor(np.asarray(metric, dtype=np.float64))
        items = X @ L.T
        query_images = items if Q is X else Q @ L.T
    for images in (items, query_images):
        size = float(np.abs(images).max(initial=0.0))
        validation.check_range("under the metric, examples have coordinates up to {:.3g}", size)
    return query_images, items, False


RankLoss = Literal["warp", "auc"]


def rank_weights(loss: RankLoss, n: int) -> FloatArray:
    """The loss of ranks 0 to n: ``L(k) = 1 + 1/2 + .. + 1/k`` for "warp", ``L(k) = k`` for "auc"."""
    ranks = np.arange(1.0, n + 1)
    return np.concatenate([[0.0], np.cumsum(1.0 / ranks) if loss == "warp" else ranks])


def _first_violator(
    n_irrelevant: int, gamma: float, violators: NDArray[np.integer]
) -> tuple[NDArray[np.int64], FloatArray]:
    """Draw numbers 1 to m, and the probability that the first violator is met at each: (m,) and (len, m) arrays."""
    draws = np.arange(1, max(1, int(n_irrelevant / gamma)) + 1, dtype=np.int64)
    p = np.asarray(violators, dtype=np.float64)[:, None] / n_irrelevant
    return draws, p * (1.0 - p) ** (draws - 1)


def expected_weights(loss: RankLoss, n_irrelevant: int, gamma: float = 1.0) -> FloatArray:
    """The expected weight of the sampled hinge for every number of violators (Lim and Lanckriet 2014, section 2.2).

    With v violators among n irrelevant items, WARP with draws up to ``m = n / gamma`` (at least one) weighs by::

        E(v) = sum_{N=1}^{m}  v/n (1 - v/n)^{N-1}  L(floor(n / N))

    and AUC, which draws once, by ``v / n * L(n) = v``. The sampled gradient has the mean ``E(v)`` times the mean
    gradient of the v violated hinges.
    """
    weights = rank_weights(loss, n_irrelevant)
    if loss == "auc":
        return weights
    expected = np.empty(n_irrelevant + 1)
    height = max(1, (1 << 21) // n_irrelevant)
    for first in range(0, n_irrelevant + 1, height):
        check_deadline()
        violators = np.arange(first, min(first + height, n_irrelevant + 1))
        draws, probabilities = _first_violator(n_irrelevant, gamma, violators)
        expected[violators] = probabilities @ weights[n_irrelevant // draws]
    return expected
