"""Ordinal embedding: points for objects that are known only by comparisons, their dimension chosen by the trace."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Literal, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.csgraph import connected_components, dijkstra
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags, check_array
from sklearn.utils.validation import check_is_fitted

from sdpmetric.arrays import FloatArray
from sdpmetric.core import rounding
from sdpmetric.core.certificate import InfeasibilityCertificate
from sdpmetric.core.run import solve
from sdpmetric.core.solution import Solution
from sdpmetric.estimators.data import Data, divide, tuple_distances, tuple_score
from sdpmetric.estimators.options import Count, Matrix, Positive, Share, estimator
from sdpmetric.linalg.distances import adjoint
from sdpmetric.linalg.psd import smallest_eigenvalue
from sdpmetric.lmnn.kernel import FeatureSpace
from sdpmetric.sums.problem import MetricProblem
from sdpmetric.sums.terms import QuadrupletHinge, Trace

IndexArray = NDArray[np.intp]


@dataclass(frozen=True)
class TraceSearch:
    """How the weight of the trace is chosen, and how a cycle is searched for."""

    patience: int = 3  # weights without a smaller error after which the path ends
    path_gap: float = 1e-2  # relative gap that is proven along the path, at least
    flat_share: float = 1e-3  # of the largest variance, below which a direction is no dimension
    pairs_at_once: int = 256  # from which shortest paths are searched for


OPTIONS = TraceSearch()


@estimator
class OrdinalEmbedding(ClassifierMixin, BaseEstimator):
    """Embed objects from comparisons alone, or from comparisons and a kernel, solved to a proof.

    Minimizes ``mean_t l(m + D(near) - D(far)) + trace c tr G`` over the Gram matrices G of points, or over metrics in
    the feature space of the kernel, where c is the least weight at which all points coincide. With the logistic loss
    and m = 0 it is stochastic triplet embedding [MW2012] in a convex form; with hinges and m = 1 generalized non-metric
    scaling [AWCLKB2007]. The trace keeps the dimension low. It is chosen along a path, each value started from the one
    before, by the error on answers that are held out; then all answers are learned from.

    Parameters
    ----------
    kernel : (n, n) array, optional
        Similarities of the objects, symmetric and PSD, such as ``F @ F.T`` of features. Default: none.
    n_objects : int, optional
        Default: the largest row number plus one. A kernel has one row for each object.
    trace : float, optional
        Between 0 and 1; at 1 all points coincide. Default: the path chooses.
    n_traces, least_trace : int and float, default 12 and 0.01
        Values of the path, from 1 downward; it ends when three in a row do not lower the error.
    loss : {"logistic", "hinge", "squared_hinge", "smooth_hinge"}, default "logistic"
    validation_fraction : float, default 0.2
        Share of the answers that the path holds out, at random.
    tol, max_time : float, default 1e-3 and None
        Relative gap to prove, and seconds, for each value of the path.
    random_state : int, default 0
        Seed of the answers that are held out.

    Attributes
    ----------
    embedding_ : (n, r) array
        The points, centered, the direction of the largest variance first.
    trace_ : float
        The value that was chosen or given.
    traces_, errors_, dimensions_ : (p,) arrays
        The path: values, the share of wrong held-out answers, and directions with at least 1e-3 of the largest
        variance; empty if `trace` is given.
    solution_ : Solution
        Solution for all answers, with certificate and multipliers.
    relative_gap_ : float
        The proven relative gap.
    classes_ : (2,) array
        -1 and 1, what `predict` says.
    n_features_in_ : int
        Columns of the comparisons, 3 or 4.

    See Also
    --------
    TripletClassifier : Learns a metric of given features from triplets.

    Examples
    --------
    >>> from sdpmetric.estimators import OrdinalEmbedding
    >>> triplets = [[i, j, k] for i in range(6) for j in range(6) for k in range(6) if 0 < abs(i - j) < abs(i - k)]
    >>> OrdinalEmbedding().fit(triplets).score(triplets) > 0.9
    True
    """

    kernel: Matrix | None = None
    n_objects: Count | None = None
    trace: Share | None = None
    n_traces: Count = 12
    least_trace: Share = 0.01
    loss: Literal["logistic", "hinge", "squared_hinge", "smooth_hinge"] = "logistic"
    validation_fraction: Share = 0.2
    tol: Positive = 1e-3
    max_time: Positive | None = None
    random_state: int = 0
    classes_: NDArray[np.int64] = field(init=False)

    def fit(self, X: ArrayLike, y: None = None, validation: ArrayLike | None = None) -> Self:
        """Learn from comparisons.

        Parameters
        ----------
        X : (t, 3) or (t, 4) integer array
            Triplets, whose first object is nearer to the second than to the third, or quadruplets, whose first two are
            nearer than the last two. `terms.odd_one_out` and `terms.ranked` make triplets of other answers.
        y : None
            Ignored.
        validation : (v, 3) or (v, 4) integer array, optional
            Answers that score the path, in place of a share of X; they are not learned from. Pass random answers if
            those in X were chosen by `ask`, since these are not a fair sample.

        Warns
        -----
        ConvergenceWarning
            If the requested tolerance is not proven.
        """
        self._validate_params()
        rows = self._rows(X, self._stated_objects)
        self.n_features_in_ = np.shape(X)[1]
        points, start = self._points(1 + int(rows.max())), None
        training, held = rows, rows[:0]
        if validation is not None:
            held = self._rows(validation, len(points))
        elif self.trace is None:
            training_rows, held_rows = divide(len(rows), self.validation_fraction, self.random_state)
            training, held = rows[training_rows], rows[held_rows]
        self.traces_, self.errors_, self.dimensions_ = np.zeros(0), np.zeros(0), np.zeros(0, dtype=np.int64)
        if self.trace is None:
            start = self._path(points, training, held)
        self.trace_ = float(self.traces_[np.argmin(self.errors_)]) if self.trace is None else float(self.trace)
        problem, largest = self._stated(points, rows)
        self.solution_ = self._solved(problem, self.trace_ * largest, start, self.tol)
        self.relative_gap_ = self.solution_.relative_gap
        if not self.solution_.status.expected:
            warnings.warn(
                f"OrdinalEmbedding ended with status {self.solution_.status} at a relative gap of "
                f"{rounding.scientific(self.relative_gap_, 3)}. {self.solution_.advice}",
                ConvergenceWarning,
                stacklevel=2,
            )
        Z = points @ self.solution_.components.T
        U, sizes, _ = np.linalg.svd(Z - Z.mean(axis=0), full_matrices=False)
        self.embedding_, self.classes_ = np.asarray(U * sizes), np.array([-1, 1])
        return self

    def _path(self, points: FloatArray, training: IndexArray, held: IndexArray) -> Data:
        """Set the path of traces, from the largest on, and return the components of least error."""
        problem, largest = self._stated(points, training)
        traces = np.geomspace(1.0, self.least_trace, self.n_traces + 1)[1:]
        components, errors, dimensions = list[Data](), list[float](), list[int]()
        for trace in traces.tolist():
            start = components[-1] if components else None
            L = self._solved(problem, trace * largest, start, max(self.tol, OPTIONS.path_gap)).components
            components.append(L)
            variances = np.linalg.svd(points @ L.T, compute_uv=False) ** 2
            dimensions.append(int(np.sum(variances > OPTIONS.flat_share * variances.max(initial=0.0))))
            errors.append(1.0 - tuple_score(points, held, None, np.asarray(L, dtype=np.float64)))
            best = int(np.argmin(errors))
            if len(errors) - 1 - best >= OPTIONS.patience:
                break
        self.traces_, self.errors_ = traces[: len(errors)], np.array(errors)
        self.dimensions_ = np.array(dimensions, dtype=np.int64)
        return components[best]

    def decision_function(self, X: ArrayLike) -> FloatArray:
        """The second squared distance of each comparison minus the first, (t,).

        With the logistic loss these are the log odds of the answer. X as in `fit`.
        """
        check_is_fitted(self)
        first_distances, second_distances = tuple_distances(self.embedding_, self._rows(X, len(self.embedding_)))
        return second_distances - first_distances

    def predict(self, X: ArrayLike) -> NDArray[np.int64]:
        """Predict which pair is nearer, (t,): 1 for the first, -1 for the second or a tie; X as in `fit`."""
        return np.where(self.decision_function(X) > 0.0, 1, -1)

    def score(self, X: ArrayLike, y: None = None) -> float:
        """Accuracy: the share of comparisons whose first pair is the nearer one; arguments as in `fit`."""
        return float(np.mean(self.predict(X) == 1))

    def ask(self, X: ArrayLike, n: int = 1) -> IndexArray:
        """Choose the comparisons to ask next, in either order: row numbers of X, (n,), the most open one first.

        For these the smaller of the multipliers that the two answers would have is largest: the two distances differ
        least, relative to how much a change of the metric changes their difference.

        Parameters
        ----------
        X : (t, 3) or (t, 4) integer array
            What may be asked.
        n : int, default 1
        """
        check_is_fitted(self)
        rows, points = self._rows(X, len(self.embedding_)), self._points(len(self.embedding_))
        u, v = (points[rows[:, k]] - points[rows[:, k + 1]] for k in (0, 2))
        uu, vv, uv = (np.einsum("ij,ij->i", *pair) for pair in ((u, u), (v, v), (u, v)))
        gradient_norms = np.sqrt(np.maximum(uu * uu + vv * vv - 2.0 * uv * uv, np.finfo(float).tiny))
        return np.argsort(np.abs(self.decision_function(X)) / gradient_norms, kind="stable")[:n]

    def contradictions(self, X: ArrayLike, max_sets: int = 10) -> list[IndexArray]:
        """Sets of answers that no embedding satisfies, each with a proof of infeasibility; needs no fit.

        Without a kernel a set contradicts itself exactly if it contains a cycle, and a shortest cycle is a smallest
        set; if no cycle is left, the other answers have an embedding. A kernel of low rank causes further
        contradictions, which need not be smallest sets. They are proven of coordinates that are computed from the
        kernel and taken as exact: directions of next to no variance are left out.

        Parameters
        ----------
        X : (t, 3) or (t, 4) integer array
        max_sets : int, default 10
            The largest number of sets; no two have an answer in common.

        Returns
        -------
        list of arrays
            Row numbers of X, in order.
        """
        self._validate_params()
        rows = self._rows(X, self._stated_objects)
        points, remaining, contradictions = self._points(1 + int(rows.max())), np.arange(len(rows)), list[IndexArray]()
        while len(contradictions) < max_sets and len(remaining):
            cycle = shortest_cycle(rows[remaining])
            answers = remaining if cycle is None else remaining[cycle]
            if cycle is None and np.linalg.matrix_rank(points - points.mean(axis=0)) == len(points) - 1:
                break
            problem = MetricProblem(points, QuadrupletHinge(rows[answers], loss="hard") + Trace())
            if cycle is None:
                proof = solve(problem, max_time=self.max_time).certificate
            else:
                proof = problem.certify(problem.zero, dual=np.ones(len(answers)))
            if not isinstance(proof, InfeasibilityCertificate):
                break
            contradictions.append(answers[list(proof.contradiction)])
            remaining = np.setdiff1d(remaining, contradictions[-1])
        return contradictions

    @property
    def _stated_objects(self) -> int | None:
        """The number of objects, if it does not follow from comparisons."""
        return self.n_objects if self.kernel is None else len(np.atleast_1d(self.kernel))

    def _rows(self, X: ArrayLike, n: int | None = None) -> IndexArray:
        """Comparisons of n objects as quadruplets."""
        rows = check_array(X, dtype=None, input_name="X")
        if rows.dtype.kind not in "iu" or rows.shape[1] not in (3, 4):
            raise ValueError(
                f"X must be row numbers of objects, triplets (t, 3) or quadruplets (t, 4), got {rows.dtype} of shape "
                f"{rows.shape}."
            )
        outside = (rows < 0) | (rows >= (np.inf if n is None else n))
        if outside.any():
            row_range = "not negative" if n is None else f"0..{n - 1}"
            first = rows[outside.any(axis=1)][0].tolist()
            raise ValueError(f"X names {first}, but row numbers of objects are {row_range}.")
        return np.asarray(rows[:, [0, 1, 0, 2] if rows.shape[1] == 3 else [0, 1, 2, 3]], dtype=np.intp)

    def _points(self, n: int) -> FloatArray:
        """Coordinates of the objects under the identity metric: one for each, or those of the kernel."""
        if self.kernel is not None:
            return FeatureSpace.of(self.kernel, "precomputed", {})[1]
        return np.eye(max(n, self.n_objects or 0))

    def _stated(self, points: FloatArray, rows: IndexArray) -> tuple[MetricProblem, float]:
        """The problem, and the weight of the trace at which the zero metric is optimal."""
        margin = 0.0 if self.loss == "logistic" else 1.0
        loss = QuadrupletHinge(rows, loss=self.loss, margin=margin, weight=1.0 / len(rows))
        problem = MetricProblem(points, loss + Trace())
        total = problem.total
        weights, (first, second) = total.pair_weights(total.slopes(problem.zero)), total.pairs.T
        largest = -smallest_eigenvalue(adjoint(problem.centered, first, second, weights))
        if not largest > 1e-12 * float(np.abs(weights).max(initial=0.0)):
            raise ValueError("the comparisons in X balance each other: no embedding is better than none.")
        return problem, largest

    def _solved(self, problem: MetricProblem, weight: float, start: Data | None, tol: float) -> Solution:
        init = None if start is None or not start.any() else start
        return solve(problem.with_weights(trace=weight), tol=tol, max_time=self.max_time, init=init)

    def __sklearn_tags__(self) -> Tags:
        """X are row numbers of objects, not features, and an answer has its label in its order."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.target_tags.required = tags.classifier_tags.multi_class = False
        return tags


def shortest_cycle(rows: IndexArray) -> IndexArray | None:
    """A smallest set of quadruplets that say of a pair, by way of others, that it is nearer than itself."""
    n = 1 + int(rows.max(initial=0))
    first_pairs, second_pairs = (np.sort(rows[:, side], axis=1) @ [n, 1] for side in (slice(0, 2), slice(2, 4)))
    if (first_pairs == second_pairs).any():
        return np.flatnonzero(first_pairs == second_pairs)[:1]
    names, nodes = np.unique(np.stack([first_pairs, second_pairs]), return_inverse=True)
    first, second = nodes.reshape(2, -1)
    graph = sp.csr_array((np.ones(len(rows)), (first, second)), shape=(len(names), len(names)))
    _, component = connected_components(graph, connection="strong")
    inside = np.flatnonzero(component[first] == component[second])
    if not len(inside):
        return None
    inner = sp.csr_array((np.ones(len(inside)), (first[inside], second[inside])), shape=graph.shape)
    length, closing = np.inf, 0
    reached = np.unique(second[inside])
    for sources in np.split(reached, np.arange(OPTIONS.pairs_at_once, len(reached), OPTIONS.pairs_at_once)):
        # The way back from the far pair of each answer to its near one, which closes a circle.
        path_lengths = dijkstra(inner, indices=sources, unweighted=True, limit=length)
        edges = inside[np.isin(second[inside], sources)]
        edge_lengths = path_lengths[np.searchsorted(sources, second[edges]), first[edges]]
        if edge_lengths.min() < length:
            length, closing = float(edge_lengths.min()), int(edges[np.argmin(edge_lengths)])
        if length == 1.0:
            break
    node, current, cycle = int(second[closing]), int(first[closing]), [closing]
    _, before = dijkstra(inner, indices=node, unweighted=True, return_predecessors=True)
    while current != node:
        cycle.append(int(inside[np.flatnonzero((first[inside] == before[current]) & (second[inside] == current))[0]]))
        current = int(before[current])
    return np.sort(np.array(cycle))
