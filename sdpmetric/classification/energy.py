"""Energy-based classification: the label of a new example that adds least to the objective.

Impostors of all labels of a query are counted in one pass: with its distances sorted, ``sum_l [a - D_tl]_+`` is the
number of those below a, times a, minus their sum. Impostors only add to the cost of a label. So if only the least
energy is wanted, labels are tried in the order of their other costs.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Literal, TypeVar, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.neighbors import NearestNeighbors

from sdpmetric.arrays import ENTRIES_AT_ONCE, FloatArray, LongArray
from sdpmetric.classification.nearest import check_regions
from sdpmetric.core import validation
from sdpmetric.engine import threads
from sdpmetric.linalg.distances import distances

# Distances that determine the target neighbors of a query.
QueryNeighbors = Literal["metric", "euclidean"]
ScalarT = TypeVar("ScalarT", bound=np.generic)
# Of some queries energies without their own impostors, (m, c), distances to all examples, distances to their target
# neighbors of each label, (m, c, k), and to the nearest example of each.
Block = tuple[FloatArray, NDArray[np.floating], FloatArray, FloatArray]

# Queries at once, enough for a fast matrix product.
ROWS = 64


def energies(
    components: ArrayLike,
    X_train: ArrayLike,
    y_train: ArrayLike,
    X: ArrayLike,
    *,
    target_neighbors: ArrayLike,
    push_weight: float = 0.5,
    regions: ArrayLike | None = None,
    query_neighbors: QueryNeighbors = "metric",
) -> FloatArray:
    """Return the energy of each label: what a query adds to the objective (Weinberger and Saul 2009, Eq. 15) [WS2009].

    The energy of label y for a query t is the sum of ``(1 - mu) sum_j D(t, j)`` over its target neighbors j, the k
    nearest training examples of that label, ``mu sum_j sum_l [1 + D(t, j) - D(t, l)]_+`` over its impostors l, and ``mu
    sum_i sum_j [1 + D(i, j) - D(i, t)]_+`` over the examples i that it is an impostor of.

    With several metrics, each belongs to a class, and the distance from an example to another one is that of the
    other's class, so ``D(i, t)`` depends on the label that is tried for t.

    Parameters
    ----------
    components : (r, d) array, or (c, r, d) for c metrics
        As learned, with its margin of 1.
    X_train : (n, d) array
    y_train : (n,) array
    X : (m, d) array
        Queries.
    target_neighbors : (n, k) integer array
        Target neighbors of the training examples, as in `LMNNProblem.from_labels`, padded with -1.
    push_weight : float, default 0.5
        ``mu``, as the metric was learned.
    regions : (n,) integer array, optional
        The metric of each training example, if there are several; the same for all examples of a class.
    query_neighbors : {"metric", "euclidean"}, default "metric"
        The target neighbors of a query: the k nearest of each label under the learned metric, or by Euclidean distance
        in the coordinates of the data, which is the paper's rule.

    Returns
    -------
    energies : (m, c) array
        Columns in the sorted order of the classes.

    Examples
    --------
    >>> import sdpmetric as sm
    >>> X, y = sm.datasets.load("iris")
    >>> problem = sm.LMNNProblem.from_labels(X, y)
    >>> L, targets = sm.solve(problem).components, problem.target_pairs[1].reshape(150, 3)
    >>> sm.classification.energies(L, X, y, X[:5], target_neighbors=targets).shape
    (5, 3)
    """
    state = _Energies(components, X_train, y_train, X, target_neighbors, push_weight, regions, query_neighbors)
    return state.by_blocks(state.all_energies)


def energy_predict(
    components: ArrayLike,
    X_train: ArrayLike,
    y_train: ArrayLike,
    X: ArrayLike,
    *,
    target_neighbors: ArrayLike,
    push_weight: float = 0.5,
    regions: ArrayLike | None = None,
    query_neighbors: QueryNeighbors = "metric",
) -> NDArray[np.generic]:
    """Predict the label of least energy for each query; ties go to the first.

    Parameters
    ----------
    components, X_train, y_train, X, target_neighbors, push_weight, regions, query_neighbors
        As in `energies`.

    Returns
    -------
    labels : (m,) array
    """
    state = _Energies(components, X_train, y_train, X, target_neighbors, push_weight, regions, query_neighbors)
    return np.asarray(state.classes[state.by_blocks(state.cheapest_labels)])


class _Energies:
    """Checked input, embedded, with its norms; training examples are sorted by class."""

    def __init__(
        self,
        components: ArrayLike,
        X_train: ArrayLike,
        y_train: ArrayLike,
        X: ArrayLike,
        target_neighbors: ArrayLike,
        push_weight: float,
        regions: ArrayLike | None,
        query_neighbors: QueryNeighbors,
    ) -> None:
        train, queries = validation.check_data(X_train), validation.check_data(X)
        self.classes, label = validation.check_labels(np.asarray(y_train), len(train))
        targets = validation.check_target_neighbors(target_neighbors, label)
        self.push_weight = validation.check_share("push_weight", push_weight)
        self.n_neighbors = int(np.count_nonzero(targets >= 0, axis=1).max())
        if not self.n_neighbors:
            raise ValueError("target_neighbors names no neighbors; pass those that the problem was stated with.")
        factors = validation.check_factors(components, train.shape[1])
        validation.check_width("X", queries, train.shape[1], "X_train")
        validation.check_choice("query_neighbors", query_neighbors, get_args(QueryNeighbors))
        self.metric_of_class = _metrics_of_classes(regions, label, self.classes, len(factors))
        dtype, order = np.result_type(train, queries), np.argsort(label, kind="stable")
        self.label = label[order]
        self.starts = np.searchsorted(self.label, np.arange(len(self.classes) + 1))
        maps = [L[L.any(axis=1)].T for L in factors]  # without the zeros that factors of several ranks are padded with
        with np.errstate(over="ignore", invalid="ignore"):  # `_check_norms` raises for what overflows
            center = train.mean(axis=0, dtype=np.float64)  # rounding errors of distances are smallest near the origin
            centered, centered_queries = train - center, queries - center
            embedded = [(centered @ V)[order].astype(dtype, copy=False) for V in maps]
            self.reach = _reach(embedded, self.metric_of_class[self.label], order, targets)
            # |q|^2 - 2 <q, z> + |z|^2 as one product.
            embedded_queries = [(centered_queries @ V).astype(dtype, copy=False) for V in maps]
            self.queries = [_beside_norms(Q, scale=-2.0) for Q in embedded_queries]
            self.train = [np.ascontiguousarray(_beside_norms(Z)[:, [*range(Z.shape[1]), -1, -2]]) for Z in embedded]
            self.ceilings = np.nextafter(self.reach[:, 0].astype(dtype), np.inf, dtype=dtype)
        _check_norms(self.queries, self.train)
        self.named = None  # (m, c, k): the queries' target neighbors in class order, -1 for none
        if query_neighbors == "euclidean":
            self.named = _nearest_of_classes(centered[order], centered_queries, self.starts, self.n_neighbors)

    def by_blocks(self, method: Callable[[Block], NDArray[ScalarT]]) -> NDArray[ScalarT]:
        """Return what a method makes of all queries, a block of them at a time."""
        rows, outputs = max(1, min(ENTRIES_AT_ONCE // len(self.reach), ROWS)), dict[int, NDArray[ScalarT]]()

        def evaluate(t: int) -> None:
            outputs[t] = method(self._block(slice(t * rows, (t + 1) * rows)))

        n_blocks = -(-len(self.queries[0]) // rows)
        with threads.one_pool():
            threads.run(evaluate, n_blocks)
        return np.concatenate([outputs[t] for t in range(n_blocks)])

    def _block(self, block: slice) -> Block:
        m, c, k = len(self.queries[0][block]), len(self.classes), self.n_neighbors
        D, invaded = np.empty((m, len(self.reach)), self.queries[0].dtype), np.zeros((m, c))
        for metric, (Q, Z) in enumerate(zip(self.queries, self.train, strict=True)):
            mine = self.metric_of_class == metric  # a distance belongs to the class of the example that it leads to
            squared = Q[block] @ Z.T
            np.copyto(D, squared, where=mine[self.label])
            row, column, squared_distances = _below(squared, self.ceilings)
            depths = np.maximum(self.reach[column] - squared_distances[:, None], 0.0).sum(axis=1)
            sums = np.bincount(row * c + self.label[column], depths, m * c).reshape(m, c)
            invaded[:, mine] = sums.sum(axis=1, keepdims=True) - sums[:, mine]
        nearest = np.full((m, c, k), np.inf)
        for label, (first, last) in enumerate(pairwise(self.starts.tolist())):
            n_targets = min(k, last - first)
            targets = np.partition(D[:, first:last], n_targets - 1, axis=1)[:, :n_targets]
            nearest[:, label, :n_targets] = np.sort(targets, axis=1)
        closest = nearest[:, :, 0]
        if self.named is not None:
            named = self.named[block]
            squared = np.take_along_axis(D, named.reshape(m, -1), axis=1).reshape(named.shape)
            nearest = np.sort(np.where(named < 0, np.inf, squared.astype(np.float64)), axis=2)
        pull = np.where(nearest < np.inf, nearest, 0.0).sum(axis=2)  # classes may be small
        return (1.0 - self.push_weight) * pull + self.push_weight * invaded, D, nearest, closest

    def all_energies(self, block: Block) -> FloatArray:
        """Return the energy of every label, (m, c)."""
        cost, D, nearest, _ = block
        limits, ordered = np.where(nearest < np.inf, 1.0 + nearest, 0.0), np.sort(D, axis=1)
        rows = zip(ordered, limits, strict=True)
        counts = np.stack([np.searchsorted(row, limits_of_row.ravel()) for row, limits_of_row in rows])
        sums = np.pad(np.cumsum(ordered, axis=1, dtype=np.float64), ((0, 0), (1, 0)))
        totals = np.take_along_axis(sums, counts, axis=1).reshape(limits.shape)
        push = np.asarray(counts.reshape(limits.shape) * limits - totals)
        for label, (first, last) in enumerate(pairwise(self.starts.tolist())):
            for j in range(self.n_neighbors):  # examples of the label itself are not impostors
                push[:, label, j] -= np.maximum(limits[:, label, j, None] - D[:, first:last], 0.0).sum(axis=1)
        return np.asarray(cost + self.push_weight * np.maximum(push.sum(axis=2), 0.0))

    def cheapest_labels(self, block: Block) -> NDArray[np.int64]:
        """Return the label of least energy, the first among equals, (m,)."""
        cost, D, nearest, closest = block
        labels, lowest_energy = np.zeros(len(D), dtype=np.int64), np.full(len(D), np.inf)
        for tried in np.argsort(cost, axis=1).T:
            queries = np.flatnonzero(cost[np.arange(len(D)), tried] <= lowest_energy)
            if not len(queries):
                break
            label = tried[queries]
            limits = np.where(nearest[queries, label] < np.inf, 1.0 + nearest[queries, label], 0.0)
            ceilings, push = limits.max(axis=1), np.zeros(len(queries))
            for rival, (first, last) in enumerate(pairwise(self.starts.tolist())):
                reached = np.flatnonzero((closest[queries, rival] < ceilings) & (label != rival))
                row, _, squared_distances = _below(D[queries[reached], first:last], ceilings[reached, None])
                depths = np.maximum(limits[reached[row]] - squared_distances[:, None], 0.0).sum(axis=1)
                push[reached] += np.bincount(row, depths, len(reached))
            energy, lowest = cost[queries, label] + self.push_weight * push, lowest_energy[queries]
            better = (energy < lowest) | ((energy == lowest) & (label < labels[queries]))
            labels[queries[better]], lowest_energy[queries[better]] = label[better], energy[better]
        return labels


def _below(D: NDArray[np.floating], limits: NDArray[np.floating]) -> tuple[LongArray, LongArray, FloatArray]:
    """Return rows and columns of the distances below their limits, and these distances."""
    hits = np.flatnonzero(limits > D)
    row, column = np.divmod(hits, D.shape[1])
    return row, column, D.ravel()[hits].astype(np.float64)


def _nearest_of_classes(
    train: NDArray[np.floating], queries: NDArray[np.floating], starts: NDArray[np.int64], k: int
) -> NDArray[np.int64]:
    """Return the k nearest training examples of each class for each query, (m, c, k), padded with -1."""
    nearest = np.full((len(queries), len(starts) - 1, k), -1, dtype=np.int64)
    for c, (first, last) in enumerate(pairwise(starts.tolist())):
        some = min(k, last - first)
        search = NearestNeighbors(n_neighbors=some).fit(train[first:last])
        nearest[:, c, :some] = first + search.kneighbors(queries, return_distance=False)
    return nearest


def _beside_norms(P: NDArray[np.floating], *, scale: float = 1.0) -> NDArray[np.floating]:
    """Return points times `scale`, with a column of their squared norms and a column of 1."""
    norms = np.einsum("ij,ij->i", P, P)[:, None]
    return np.concatenate([P * P.dtype.type(scale), norms, np.ones_like(norms)], axis=1)


def _check_norms(queries: list[NDArray[np.floating]], train: list[NDArray[np.floating]]) -> None:
    for Q, Z in zip(queries, train, strict=True):
        with np.errstate(over="ignore"):
            largest = 4 * (Q[:, -2].max() + Z[:, -1].max())
        if not np.isfinite(largest):
            raise ValueError(
                f"squared distances under the metric overflow {Q.dtype}; scale the data down, or pass float64."
            )


def _reach(
    embedded: list[NDArray[np.floating]],
    metric: NDArray[np.int64],
    order: NDArray[np.int64],
    targets: NDArray[np.int32],
) -> FloatArray:
    """Return ``1 + D_ij`` for each target neighbor, the largest first, for the training examples in class order."""
    place = np.argsort(order).astype(np.int32)
    row, slot = np.nonzero(targets >= 0)
    i, j = place[row], place[targets[row, slot]]
    reach = np.full(targets.shape, -np.inf)
    for c, Z in enumerate(embedded):
        mine = metric[i] == c  # an example and its target neighbor share their class and its metric
        reach[i[mine], slot[mine]] = 1.0 + distances(np.ascontiguousarray(Z, dtype=np.float64), i[mine], j[mine])
    return np.asarray(np.ascontiguousarray(-np.sort(-reach, axis=1)))


def _metrics_of_classes(
    regions: ArrayLike | None, label: NDArray[np.int32], classes: NDArray[np.generic], n_metrics: int
) -> NDArray[np.int64]:
    region = check_regions(regions, len(label), n_metrics)
    metric = np.zeros(len(classes), dtype=np.int64)
    metric[label] = region
    if (metric[label] != region).any():
        mixed = classes.tolist()[label[metric[label] != region][0]]
        raise ValueError(f"class {mixed!r} has examples of several metrics; energies need one metric for each class.")
    return metric
