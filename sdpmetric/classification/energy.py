"""Energy-based classification: the label of a new example that adds least to the objective."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Literal, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.neighbors import NearestNeighbors

from sdpmetric.arrays import FloatArray
from sdpmetric.classification import loops
from sdpmetric.classification.nearest import check_regions
from sdpmetric.core import validation
from sdpmetric.engine import threads

# Distances by which the target neighbors of a query are found.
QueryNeighbors = Literal["metric", "euclidean"]

# Distances in memory at once, unless one query has more.
BLOCK = 8_000_000
# Queries of a thread at once, enough for a fast matrix product, and of all threads.
ROWS, ROWS_AT_ONCE = 128, 1024


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
    """Energy of each label for each query: what it adds to the objective (Weinberger and Saul 2009, Eq. 15) [WS2009].

    The energy of label y for a query t is the sum of ``(1 - mu) sum_j D(t, j)`` over its target neighbors j, the k
    nearest training examples of that label, ``mu sum_j sum_l [1 + D(t, j) - D(t, l)]_+`` over its impostors l, and ``mu
    sum_i sum_j [1 + D(i, j) - D(i, t)]_+`` over the examples i to which it is an impostor itself.

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

    See Also
    --------
    energy_predict, sdpmetric.estimators.EnergyClassifier

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
    result = np.empty((len(state.queries[0]), len(state.classes)))
    for block, cost, *scanned in state.blocks():
        thresholds = 1.0 + np.sort(scanned[-1].reshape(len(cost), -1), axis=1)
        push = _by_rows(loops.own_impostors, [*scanned, thresholds], state.starts, state.chunks)
        result[block] = cost + state.push_weight * push
    return result


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

    See Also
    --------
    energies, knn_predict

    Examples
    --------
    >>> import sdpmetric as sm
    >>> X, y = sm.datasets.load("iris")
    >>> problem = sm.LMNNProblem.from_labels(X, y)
    >>> L, targets = sm.solve(problem).components, problem.target_pairs[1].reshape(150, 3)
    >>> sm.classification.energy_predict(L, X, y, X[:5], target_neighbors=targets).tolist()
    [0, 0, 0, 0, 0]
    """
    state = _Energies(components, X_train, y_train, X, target_neighbors, push_weight, regions, query_neighbors)
    chosen = np.empty(len(state.queries[0]), dtype=np.int64)
    for block, cost, *scanned in state.blocks():
        order = np.argsort(cost, axis=1)
        ranked = [*scanned, cost, order]
        chosen[block] = _by_rows(loops.cheapest_labels, ranked, state.starts, state.chunks, state.push_weight)
    return np.asarray(state.classes[chosen])


class _Energies:
    """Checked input, embedded beside norms; training examples are sorted by class."""

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
        targets = validation.check_target_neighbors(_unpadded(target_neighbors), label)
        self.push_weight = validation.check_number("push_weight", push_weight, 0.0, 1.0)
        self.n_neighbors = targets.shape[1]
        if not self.n_neighbors:
            raise ValueError("target_neighbors names no neighbors; pass those that the problem was stated with.")
        factors = validation.check_factors(components, train.shape[1])
        validation.check_width("X", queries, train.shape[1], "X_train")
        validation.check_choice("query_neighbors", query_neighbors, get_args(QueryNeighbors))
        self.metric_of_class = _metrics_of_classes(regions, label, self.classes, len(factors))
        dtype, order = np.result_type(train, queries), np.argsort(label, kind="stable")
        self.starts = np.searchsorted(label[order], np.arange(len(self.classes) + 1))
        self.chunks = np.concatenate([[0], np.cumsum(-(-np.diff(self.starts) // loops.CHUNK))])  # see `loops.scan`
        maps = [L[L.any(axis=1)].T for L in factors]  # without the zeros that factors of several ranks are padded with
        with np.errstate(over="ignore", invalid="ignore"):  # `_check_norms` raises for what overflows
            center = train.mean(axis=0, dtype=np.float64)  # rounding errors of distances are smallest near the origin
            centered, centered_queries = train - center, queries - center
            embedded = [(centered @ V)[order].astype(dtype, copy=False) for V in maps]
            self.reach = _reach(embedded, self.metric_of_class[label[order]], order, targets)
            # |q|^2 - 2 <q, z> + |z|^2 as one product.
            embedded_queries = [(centered_queries @ V).astype(dtype, copy=False) for V in maps]
            self.queries = [_beside_norms(Q, scale=-2.0) for Q in embedded_queries]
            self.train = [np.ascontiguousarray(_beside_norms(Z)[:, [*range(Z.shape[1]), -1, -2]]) for Z in embedded]
        _check_norms(self.queries, self.train)
        self.named = None  # (m, c, k): the queries' target neighbors in class order, -1 for none
        if query_neighbors == "euclidean":
            self.named = _nearest_of_classes(centered[order], centered_queries, self.starts, self.n_neighbors)

    def blocks(self) -> Iterator[tuple[slice, FloatArray, NDArray[np.floating], NDArray[np.floating], FloatArray]]:
        """Queries by blocks: energies without the queries' own impostors, and the output of `loops.scan`."""
        n, n_queries, dtype = len(self.reach), len(self.queries[0]), self.queries[0].dtype
        ceilings = np.nextafter(self.reach[:, 0].astype(dtype), np.inf, dtype=dtype)
        rows = max(1, min(BLOCK // n, ROWS_AT_ONCE, n_queries))
        D, smallest = np.empty((rows, n), dtype), np.empty((rows, self.chunks[-1]), dtype)
        nearest = np.empty((rows, len(self.classes), self.n_neighbors))
        with threads.one_pool():
            for first in range(0, n_queries, rows):
                block = slice(first, first + rows)
                size = len(self.queries[0][block])
                scanned = D[:size], smallest[:size], nearest[:size]
                invaded = np.zeros((size, len(self.classes)))
                for c, (Q, Z) in enumerate(zip(self.queries, self.train, strict=True)):
                    mine = self.metric_of_class == c  # a distance belongs to the class of the example that it leads to
                    if mine.any():
                        sums = self._scan(Q[block], Z, ceilings, mine, *scanned)
                        invaded[:, mine] = sums.sum(axis=1, keepdims=True) - sums[:, mine]
                if self.named is not None:
                    named = self.named[block]
                    squared = np.take_along_axis(D[:size], named.reshape(size, -1), axis=1).reshape(named.shape)
                    nearest[:size] = np.sort(np.where(named < 0, np.inf, squared), axis=2)
                pull = np.where(nearest[:size] < np.inf, nearest[:size], 0.0).sum(axis=2)  # classes may be small
                yield block, (1.0 - self.push_weight) * pull + self.push_weight * invaded, *scanned

    def _scan(
        self,
        Q: NDArray[np.floating],
        Z: NDArray[np.floating],
        ceilings: NDArray[np.floating],
        mine: NDArray[np.bool_],
        D: NDArray[np.floating],
        smallest: NDArray[np.floating],
        nearest: FloatArray,
    ) -> FloatArray:
        """`loops.scan` of all classes, for a part of the queries and one class at a time; returns its sums."""
        sums, classes = np.empty((len(Q), len(self.classes))), len(self.classes)
        cuts = threads.cuts(len(Q), threads.part_count(len(Q), ROWS))

        def scan(task: int) -> None:
            rows, c = slice(*cuts[task // classes :][:2]), task % classes
            some = D[rows], smallest[rows], nearest[rows], sums[rows]
            loops.scan(Q[rows], Z, self.reach, ceilings, self.starts, self.chunks, c, mine[c], *some)

        threads.run(scan, (len(cuts) - 1) * classes)
        return sums


def _by_rows(loop: Callable[..., FloatArray], arrays: Sequence[NDArray[np.generic]], *shared: object) -> FloatArray:
    """Run a compiled loop over all queries in threads; arrays have a row for each query, `rest` is shared."""
    cuts = threads.cuts(len(arrays[0]), threads.part_count(len(arrays[0]), ROWS))
    outputs = [np.empty(0)] * (len(cuts) - 1)

    def some(t: int) -> None:
        outputs[t] = loop(*(array[cuts[t] : cuts[t + 1]] for array in arrays), *shared)

    threads.run(some, len(outputs))
    return np.concatenate(outputs)


def _nearest_of_classes(
    train: NDArray[np.floating], queries: NDArray[np.floating], starts: NDArray[np.int64], k: int
) -> NDArray[np.int64]:
    """The k nearest training examples of each class for each query, (m, c, k), padded with -1."""
    nearest = np.full((len(queries), len(starts) - 1, k), -1, dtype=np.int64)
    for c, (first, last) in enumerate(pairwise(starts.tolist())):
        some = min(k, last - first)
        search = NearestNeighbors(n_neighbors=some).fit(train[first:last])
        nearest[:, c, :some] = first + search.kneighbors(queries, return_distance=False)
    return nearest


def _beside_norms(P: NDArray[np.floating], *, scale: float = 1.0) -> NDArray[np.floating]:
    """Points times `scale`, with a column of their squared norms and one of ones."""
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
    """``1 + D_ij`` for each target neighbor, the largest first, for the training examples in class order."""
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    mine = targets[order]
    reach = np.full(mine.shape, -np.inf)
    for slot in range(mine.shape[1]):
        has = np.flatnonzero(mine[:, slot] >= 0)
        target_rows = place[mine[has, slot]]
        for c, Z in enumerate(embedded):
            under_metric = metric[has] == c  # of an example and its target neighbor alike: they share their class
            i, j = has[under_metric], target_rows[under_metric]
            step = Z[i].astype(np.float64, copy=False) - Z[j]
            reach[i, slot] = 1.0 + np.einsum("ij,ij->i", step, step)
    return np.asarray(np.ascontiguousarray(-np.sort(-reach, axis=1)))


def _unpadded(target_neighbors: ArrayLike | sp.sparray | sp.spmatrix) -> ArrayLike | sp.sparray | sp.spmatrix:
    """Rows of unequal length, padded with -1, as a sparse graph."""
    if sp.issparse(target_neighbors):
        return target_neighbors
    indices = validation.rectangular("target_neighbors", target_neighbors)
    if indices.ndim != 2 or indices.dtype.kind not in "iu" or not (indices == -1).any():
        return indices
    row, slot = np.nonzero(indices != -1)
    column = indices[row, slot]
    validation.check_rows("target_neighbors", column, len(indices))
    return sp.csr_array((np.ones(len(row)), (row, column)), shape=(len(indices), len(indices)))


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
