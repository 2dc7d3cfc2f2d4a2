"""Metric learning to rank (MLR): the statement as a structural SVM, most violated rankings, and the certificate."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from sdpmetric.arrays import FloatArray, IndexArray
from sdpmetric.core import validation
from sdpmetric.core.certificate import DualityCertificate, Multipliers, check_multipliers
from sdpmetric.core.constraints import Constraints
from sdpmetric.core.problem import Problem
from sdpmetric.core.sample_weight import check_sample_weight
from sdpmetric.engine.cached import cached
from sdpmetric.engine.interface import check_last, is_late
from sdpmetric.linalg.rigorous.directed import above, below, gamma, norms_above, product_above, sum_above, trace_above
from sdpmetric.linalg.rigorous.forms import UNDERFLOW, Form, Images
from sdpmetric.losses import Hinge, Weighted
from sdpmetric.ranking import mlr_loops as loops
from sdpmetric.ranking.relevance import Relevance, check_rankings
from sdpmetric.sums import terms
from sdpmetric.sums.problem import MetricProblem

MLRLoss = Literal["auc", "map"]

# Distances in memory at once: a block of queries times all items.
SCORES_AT_ONCE = 1 << 19
# Mean losses below this are taken as 0, as products of it may underflow.
SMALLEST = 1e-290
# Triplets that `MLRProblem.triplets` lists.
MAX_TRIPLETS = 2_000_000


@dataclass(frozen=True)
class Cut:
    """The mean loss is at least ``offset + <A, M>`` at every metric M, about equal where the cut was separated.

    Attributes
    ----------
    offset : float
        What the rankings lose, rounded downward.
    form : Form
        A, with a bound of its error.
    n_violated : int
        Queries whose most violated ranking is not the right one.
    """

    offset: float
    form: Form
    n_violated: int

    @property
    def slope(self) -> FloatArray:
        """A in floating point, (d, d)."""
        return self.form.matrix


class Ranked(NamedTuple):
    """The most violated rankings of some queries."""

    queries: slice
    losses: FloatArray  # What the rankings lose, 0 where the right one is the most violated
    changes: FloatArray  # What the distances add to that
    slopes: FloatArray  # By the distances of the items, (queries, n)
    rounding: FloatArray  # An upper bound of it


@dataclass(init=False, eq=False, repr=False)
class MLRProblem(Problem):
    """Metric learning to rank (McFee and Lanckriet 2010) [ML2010], a structural SVM over metrics.

    For a query q of n, let ``y*`` be a ranking with all relevant items first, and ``psi(q, y)`` the partial order
    feature: the mean over relevant i and irrelevant j of ``+-(phi_i - phi_j)``, the sign being that of the order of i
    and j in y, with ``phi_x = -(q - x)(q - x)^T``. Minimize over PSD matrices M::

        trace(M) + C sum_q v_q max_y ( loss(y) - <M, psi(q, y*) - psi(q, y)> )

    over all rankings y, where v are the weights of the queries over their sum, ``1 / n`` in the paper, and the loss is
    1 minus the AUC, or 1 minus the average precision (MAP). It is convex. For the AUC the maximum is the mean over i
    and j of ``[1 + 2 D(q, i) - 2 D(q, j)]_+``, a hinge over triplets: `triplets` states that. For MAP there are too
    many rankings to list.

    Parameters
    ----------
    X : (n, d) array
        The items; finite, float32 stays float32, everything else becomes float64.
    relevance : Relevance, (n,) array of labels, n lists of row numbers, or sparse matrix
        Which items are relevant to which queries.
    loss : {"auc", "map"}, default "auc"
    slack_weight : float, default 1
        ``C``, positive.
    queries : (m, d) array, optional
        Default: the items, each left out of its own ranking.
    sample_weight : (m,) array, optional
        Weights of the queries, nonnegative; their loss is the weighted mean. As items all count alike. Default 1.

    Raises
    ------
    ValueError
        If numbers are not finite or out of range, counts do not fit, or a query has no relevant or no irrelevant item
        (unless the relevance says to exclude such queries).

    See Also
    --------
    FRMLProblem, Relevance, sdpmetric.estimators.MLR

    Examples
    --------
    >>> import sdpmetric as sm
    >>> X, y = sm.datasets.load("iris")
    >>> bool(sm.solve(sm.MLRProblem.from_labels(X[::3], y[::3]), tol=0.1).relative_gap <= 0.1)
    True
    """

    statement: ClassVar[str] = "mlr"
    weights: ClassVar[tuple[str, ...]] = ("slack_weight",)

    X: NDArray[np.floating]
    relevance: Relevance
    loss: MLRLoss
    slack_weight: float
    queries: NDArray[np.floating] | None
    sample_weight: FloatArray | None

    def __init__(
        self,
        X: ArrayLike,
        relevance: Relevance | ArrayLike | sp.sparray | sp.spmatrix,
        loss: MLRLoss = "auc",
        slack_weight: float = 1.0,
        queries: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> None:
        data, relevant_items, query_rows = check_rankings(X, relevance, queries)
        validation.check_choice("loss", loss, ("auc", "map"))
        self.X, self.relevance, self.queries, self.loss = data, relevant_items, query_rows, loss
        self.slack_weight = validation.check_number("slack_weight", slack_weight, np.finfo(np.float64).tiny)
        self.sample_weight = check_sample_weight(sample_weight, len(data if query_rows is None else query_rows))

    @classmethod
    def from_labels(
        cls,
        X: ArrayLike,
        y: ArrayLike,
        loss: MLRLoss = "auc",
        slack_weight: float = 1.0,
        *,
        sample_weight: ArrayLike | None = None,
    ) -> MLRProblem:
        """State MLR for labeled data: items of a query's own class are relevant.

        Parameters
        ----------
        X : (n, d) array
        y : (n,) array
            Class labels of any kind; at least two classes, each with at least two members.
        loss, slack_weight, sample_weight
            As in `MLRProblem`.
        """
        data = validation.check_examples(X)
        return cls(data, Relevance.from_labels(y), loss, slack_weight, None, sample_weight)

    def describe(self) -> str:
        return (
            f"MLR-{self.loss.upper()} (McFee and Lanckriet 2010): {len(self.relevance.queries):,} queries over "
            f"{self.X.shape[0]:,} items, {self.X.shape[1]} features; slack weight {self.slack_weight:g}"
        )

    def objective(self, components: ArrayLike | None = None, *, metric: ArrayLike | None = None) -> float:
        """The trace and the weighted structural hinge loss over all queries, rounded up; see `Problem.objective`."""
        L, residual = self.check_point(components, metric)
        return self._highest(L, validation.given_metric(metric, residual))[0]

    def separate(self, components: FloatArray) -> Cut:
        """The cut of the most violated rankings of all queries at a metric: a subgradient of the mean loss.

        Parameters
        ----------
        components : (r, d) array
            Factor L of the metric.
        """
        key = np.ascontiguousarray(components, dtype=np.float64).tobytes()
        if key not in self._cuts:
            while len(self._cuts) >= 400:
                self._cuts.pop(next(iter(self._cuts)))
            self._cuts[key] = self._evaluate(components, with_slope=True)[1]
        return self._cuts[key]

    @cached
    def _cuts(self) -> dict[bytes, Cut]:
        """The latest cuts by their factor."""
        return {}

    @property
    def triplets(self) -> MetricProblem:
        """The same statement for the AUC as a sum of terms, trace and hinge over all triplets.

        Raises
        ------
        ValueError
            If the loss is "map", queries are not items, or there are more than 2 million triplets.
        """
        counts = self.relevance.triplet_counts
        count = int(counts.sum())
        if self.loss != "auc" or self.queries is not None or count > MAX_TRIPLETS:
            raise ValueError(
                f"triplets are listed for loss='auc', items as queries, and up to {MAX_TRIPLETS:,} of them; this is "
                f"loss={self.loss!r} with {count:,} triplets. Solve the problem itself."
            )
        weights = np.repeat(2.0 * self.slack_weight * self._shares / counts, counts)
        push = terms.TripletHinge(self.relevance.triplets(), margin=0.5, weights=weights)
        return MetricProblem(self.X, terms.Trace() + push)

    def certify(
        self, components: ArrayLike | None = None, *, metric: ArrayLike | None = None, dual: Multipliers | None = None
    ) -> DualityCertificate:
        """Certify any point.

        For multipliers ``a_k >= 0`` of cuts with ``sum a_k <= 1`` and ``I + C sum a_k slope_k`` PSD, no metric has an
        objective below ``C sum a_k offset_k``: a cut is below the loss everywhere, and the trace and the slopes add up
        to something that is not negative. Multipliers are scaled until they are dual feasible, all rounding included.

        Parameters
        ----------
        components, metric
            As in `Problem.objective`.
        dual : (k (1 + d^2),) array, optional
            For each of k cuts its multiplier, and the factor (d, d) of the metric at which it is separated, flat, with
            rows of zeros at its end. The cuts are computed again, so no value of the caller is used. Default: the
            cut at the point itself, which proves little.
        """
        L, primal_residual = self.check_point(components, metric)
        objective, violated = self._highest(L, validation.given_metric(metric, primal_residual))
        cut_of_point: tuple[FloatArray, list[FloatArray]] = (np.zeros(0), []) if is_late() else (np.ones(1), [L])
        shares, factors = cut_of_point if dual is None else self._cuts_of(dual)
        cuts = [self.separate(factor) for factor in factors]
        a, residual = self._feasible(shares, cuts)
        bound = below(float(a @ [cut.offset for cut in cuts]), len(cuts) + 4)
        return DualityCertificate(
            objective=objective,
            lower_bound=bound,
            primal_residual=primal_residual,
            n_active=violated,
            constraints="queries",
            program=f"MLR-{self.loss.upper()}",
            rigor="float",
            info={"dual_residual": residual},
        )

    def constraints(self, components: FloatArray, dual: Multipliers | None) -> Constraints:
        """Queries; see `Constrained.constraints`. The multiplier of one is the sum of those of its wrong rankings.

        Every cut has a ranking of each query, so a query has its share of the multipliers of all cuts in which it is
        violated. What it costs is its loss times C and its share.
        """
        L, queries = components, self.relevance.queries
        points, _, rows = self._points
        places = queries if self.queries is None else np.full(len(queries), -1)  # of queries apart there is no row of X
        shares, factors = (np.ones(1), [L]) if dual is None else self._cuts_of(dual)
        a, _ = self._feasible(shares, [self.separate(factor) for factor in factors])
        multipliers, slopes = np.zeros(len(queries)), np.zeros((len(queries), len(self.X)))
        for multiplier, factor in zip(a.tolist(), factors, strict=True):
            for ranked in self._ranked(self._images(factor)):
                weight = multiplier * self._shares[ranked.queries]
                multipliers[ranked.queries] += weight * (ranked.losses > 0.0)
                slopes[ranked.queries] += weight[:, None] * ranked.slopes
        blocks = self._ranked(self._images(L))
        excess = np.maximum(np.concatenate([block.losses + block.changes for block in blocks]), 0.0)
        slopes /= np.where(multipliers > 0.0, multipliers, 1.0)[:, None]
        Z, n = points @ L.T, len(self.X)
        stretch = [
            (places, np.full(len(queries), j), -slopes[:, j] * np.sum((Z[rows] - z) ** 2, axis=1))
            for j, z in enumerate(Z[:n])
        ]
        slack = float(self._shares @ excess)
        return Constraints(
            dual=self.multipliers(shares, factors) if dual is None else dual,
            roles={"query": places},
            columns={"query": queries},
            multipliers=multipliers,
            excess=excess,
            loss=Weighted(Hinge(), self.slack_weight * self._shares),
            stretch=stretch,
            sums={"trace": float(np.sum(L * L)), "slack": slack},
            slopes={"slack_weight": slack},
        )

    def _feasible(self, shares: FloatArray, cuts: list[Cut]) -> tuple[FloatArray, float]:
        """Multipliers of cuts that are dual feasible, and how far the given ones were from that."""
        a = np.maximum(shares, 0.0)
        a = np.nextafter(a / total, 0.0) if (total := sum_above(a)) > 1.0 else a
        forms = (cut.form.times(multiplier) for multiplier, cut in zip(a.tolist(), cuts, strict=True))
        smallest_eigenvalue = sum(forms, Form.zero(self.X.shape[1])).smallest_eigenvalue
        if not smallest_eigenvalue > -math.inf:
            return 0.0 * a, math.inf
        C = self.slack_weight
        scale = C if smallest_eigenvalue >= 0.0 else min(C, below(1.0 / -smallest_eigenvalue, 2))
        return a * below(scale, 2), max(0.0, -C * smallest_eigenvalue - 1.0)

    def _cuts_of(self, dual: Multipliers) -> tuple[FloatArray, list[FloatArray]]:
        d = self.X.shape[1]
        numbers = np.asarray(dual, dtype=np.float64) if not hasattr(dual, "triplets") else np.zeros(0)
        count = max(1, numbers.size // (1 + d * d))
        rows = check_multipliers(numbers.ravel(), (count * (1 + d * d),), "a multiplier and a (d, d) factor each")
        table = rows.reshape(count, 1 + d * d)
        factors = [factor.reshape(d, d) for factor in table[:, 1:]]
        return table[:, 0], [factor[factor.any(axis=1)] for factor in factors]

    def multipliers(self, shares: FloatArray, factors: list[FloatArray]) -> FloatArray:
        """Multipliers of cuts and the factors at which they were separated as one array; see `certify`.

        Parameters
        ----------
        shares : (k,) array
        factors : list of (r, d) arrays, r at most d
        """
        d = self.X.shape[1]
        padded = [np.pad(factor, ((0, d - len(factor)), (0, 0))).ravel() for factor in factors]
        return np.concatenate([np.concatenate([[a], row]) for a, row in zip(shares, padded, strict=True)])

    @cached
    def _shares(self) -> FloatArray:
        """Weights of the queries that are asked, their sum 1."""
        queries = self.relevance.queries
        w = np.ones(len(queries)) if self.sample_weight is None else self.sample_weight[queries]
        return np.asarray(w / max(math.fsum(w), np.finfo(np.float64).tiny))

    @cached
    def _points(self) -> tuple[FloatArray, FloatArray, IndexArray]:
        """Items and other queries; the same less a point amid the items, rounded once; rows of the queries asked."""
        X, queries = np.asarray(self.X, dtype=np.float64), self.relevance.queries
        points = X if self.queries is None else np.concatenate([X, np.asarray(self.queries, dtype=np.float64)])
        return points, points - X.mean(axis=0), queries if self.queries is None else queries + len(X)

    def _highest(self, L: FloatArray, metric: FloatArray | None = None) -> tuple[float, int]:
        """A float not below the objective, and how many queries violate."""
        if metric is None and not L.any():  # the worst rankings: all relevant items are behind all others
            queries = self.relevance.queries
            counts = np.stack([self.relevance.n_relevant[queries], self.relevance.n_irrelevant[queries]], axis=1)
            kinds, kind_of_query = np.unique(counts, axis=0, return_inverse=True)
            worst = [np.mean(m / (m + 1.0 + np.arange(k))) if self.loss == "map" else 1.0 for k, m in kinds.tolist()]
            loss = sum_above(self._shares * np.asarray(worst)[kind_of_query.ravel()])
            return product_above(self.slack_weight, above(loss, len(self.X) + 8)), len(queries)
        loss, cut = self._evaluate(L, metric, with_slope=False)
        objective = above(trace_above(L, metric) + product_above(self.slack_weight, loss), 2)
        return (objective if objective < math.inf else math.inf), cut.n_violated

    def _evaluate(self, L: FloatArray, metric: FloatArray | None = None, *, with_slope: bool) -> tuple[float, Cut]:
        """A float not below the mean loss, and the cut of the rankings that are most violated."""
        points, centered, rows = self._points
        X, norms, n = centered[: len(self.X)], norms_above(centered), len(self.X)
        loss_above, offset, size, violated = 0.0, 0.0, 0.0, 0
        slope, item_weights = np.zeros((X.shape[1],) * 2), np.zeros(n)
        for ranked in self._ranked(self._images(L, metric)):
            query_points, shares, slopes = rows[ranked.queries], self._shares[ranked.queries], ranked.slopes
            loss_above += float(shares @ (ranked.losses + ranked.changes + ranked.rounding))
            offset, violated = offset + float(shares @ ranked.losses), violated + int(np.count_nonzero(ranked.losses))
            if with_slope:  # the slopes of a query add up to 0
                slopes *= shares[:, None]
                item_weights += slopes.sum(axis=0)
                cross = centered[query_points].T @ (slopes @ X)
                slope -= cross + cross.T
                np.abs(slopes, out=slopes)
                size += float(slopes.sum(axis=0) @ norms[:n] ** 2 + 2.0 * norms[query_points] @ (slopes @ norms[:n]))
        slope += (X.T * item_weights) @ X
        size = above(size, len(points) + n + 32)
        form = Form(0.5 * (slope + slope.T), above(gamma(len(points) + n + 48) * size) + UNDERFLOW, size + UNDERFLOW)
        offset_below = below(offset, len(rows) + n + 32) if offset > SMALLEST else 0.0
        return above(loss_above, len(rows) + 16), Cut(offset_below, form, violated)

    def _images(self, L: FloatArray, metric: FloatArray | None = None) -> Images:
        points, centered, _ = self._points
        return Images(points, centered, L.T, metric=metric)

    def _ranked(self, images: Images) -> Iterator[Ranked]:
        """The most violated rankings of some queries after the other.

        Rankings depend on differences of distances only: ``|z|^2 - 2 <z, q>`` stands for the distance of item z and
        query q, which may be far away. Relevant items count as far, irrelevant ones as near as rounding allows; that of
        the choice of a ranking and of its value is added, and what a metric near ``L^T L`` may change.
        """
        relevance, (_, centered, rows), n, metric = self.relevance, self._points, len(self.X), images.metric
        P, errors, sizes = images.points, images.errors, norms_above(images.points)
        Z, e, z, g = P[:n], errors[:n], sizes[:n], gamma(P.shape[1] + 12)
        item_errors, coordinates = g * z * z + e * (2.0 * z + e), np.abs(centered)
        if metric is not None:
            metric_errors = coordinates[:n] @ (images.metric_errors * (1.0 + gamma(2 * len(metric) + 16)))
            item_errors += np.einsum("ij,ij->i", metric_errors, coordinates[:n])
        for first in range(0, len(rows), height := max(1, SCORES_AT_ONCE // n)):
            check_last()
            queries = slice(first, first + height)
            query_points, query_items = rows[queries], relevance.queries[queries]
            members = relevance.mask(query_items)
            score_errors = np.outer(sizes[query_points], 2.0 * (g * z + e)) + item_errors + SMALLEST
            score_errors += np.outer(errors[query_points], 2.0 * (z + e))
            if metric is not None:
                score_errors += 2.0 * coordinates[query_points] @ metric_errors.T
            scores = np.einsum("ij,ij->i", Z, Z) - 2.0 * (P[query_points] @ Z.T)
            scores += np.where(members, score_errors, -score_errors)
            slopes, order = np.empty_like(scores), np.argsort(scores, axis=1, kind="stable")
            left_out = relevance.query_items(query_items)
            losses = loops.most_violated(scores, order, members, left_out, self.loss == "map", slopes)
            rounding = 4.0 * gamma(n + 32) * (relevance.n_irrelevant[query_items] + 8.0 * np.abs(scores).max(axis=1))
            yield Ranked(queries, losses, np.einsum("ij,ij->i", slopes, scores), slopes, rounding)
