"""Metric learning to rank (MLR): the statement as a structural SVM, most violated rankings, and the certificate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from sdpmetric import terms
from sdpmetric._loops import mlr as loops
from sdpmetric._loops import ranking as ranking_loops
from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation
from sdpmetric.core.certificate import DualityCertificate
from sdpmetric.core.multipliers import Multipliers, check_multipliers
from sdpmetric.core.problem import Problem
from sdpmetric.core.sample_weight import check_sample_weight
from sdpmetric.engine.deadline import check_last, is_late
from sdpmetric.linalg import psd
from sdpmetric.problems.metric_problem import MetricProblem
from sdpmetric.problems.rankings import check_rankings
from sdpmetric.ranking.relevance import Relevance

MLRLoss = Literal["auc", "map"]

# Distances in memory at once: a block of queries times all items.
SCORES_AT_ONCE = 1 << 22
# Cuts whose slopes are cached.
KEPT = 400
# Relative rounding of eigenvalues of sums of slopes.
ROUNDING = 1e-12
# Triplets that `MLRProblem.triplets` lists.
MOST_TRIPLETS = 2_000_000


@dataclass(frozen=True)
class Cut:
    """The loss is at least ``offset + <slope, M>`` at every metric M, with equality where the cut was separated.

    Attributes
    ----------
    slope : (d, d) array
    n_violated : int
        Queries whose most violated ranking is not the right one.
    """

    offset: float
    slope: FloatArray
    n_violated: int


@dataclass(frozen=True, init=False, eq=False, repr=False)
class MLRProblem(Problem):
    """Metric learning to rank (McFee and Lanckriet 2010) [ML2010], a structural SVM over metrics.

    For a query q of n, let ``y*`` be a ranking with all relevant items first, and ``psi(q, y)`` the partial order
    feature: the mean over relevant i and irrelevant j of ``+-(phi_i - phi_j)``, the sign being that of the order of i
    and j in y, with ``phi_x = -(q - x)(q - x)^T``. Minimize over PSD matrices M::

        trace(M) + C sum_q v_q max_y ( loss(y) - <M, psi(q, y*) - psi(q, y)> )

    over all rankings y, where v are the weights of the queries over their sum, ``1 / n`` in the paper, and the loss is
    1 less the AUC of y, or 1 less its average precision (MAP). It is convex. For the AUC the maximum is the mean over i
    and j of ``[1 + 2 D(q, i) - 2 D(q, j)]_+``, a hinge over triplets: `triplets` states that. For MAP there are too
    many rankings to list.

    Parameters
    ----------
    X : (n, d) array
        The items; finite, float32 stays float32, everything else becomes float64.
    relevance : Relevance, (n,) array of labels, n lists of row numbers, or sparse matrix
        Who is relevant to whom.
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
    """

    statement: ClassVar[str] = "mlr"
    weights: ClassVar[tuple[str, ...]] = ("slack_weight",)
    refusals: ClassVar[Mapping[str, str]] = {
        "explain": (
            "its multipliers belong to rankings of all items by all queries at once; those of the same statement over "
            "triplets are explained by explain(solve(problem.triplets)), for the AUC."
        ),
        "to_cvxpy": (
            "it has a constraint for every ranking of the items; for the AUC the same statement over triplets is "
            "to_cvxpy(problem.triplets)."
        ),
    }

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
        data, related, asked = check_rankings(X, relevance, queries)
        if loss not in ("auc", "map"):
            raise ValueError(f"loss must be 'auc' or 'map', got {loss!r}.")
        self._assign(
            X=data,
            relevance=related,
            loss=loss,
            slack_weight=validation.check_number("slack_weight", slack_weight, np.finfo(np.float64).tiny),
            queries=asked,
            sample_weight=check_sample_weight(sample_weight, len(data if asked is None else asked)),
        )

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
        """State MLR for labelled data: items of a query's own class are relevant.

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
        """Say in one sentence what is minimised, over how much data."""
        return (
            f"MLR-{self.loss.upper()} (McFee and Lanckriet 2010): {len(self.relevance.queries):,} queries over "
            f"{self.X.shape[0]:,} items, {self.X.shape[1]} features; slack weight {self.slack_weight:g}"
        )

    # -- the statement ------------------------------------------------------------------------------------------

    def objective(self, components: ArrayLike | None = None, *, metric: ArrayLike | None = None) -> float:
        """The trace and the weighted structural hinge loss over all queries; see `Problem.objective`."""
        L, _ = self.check_point(components, metric)
        return float(np.sum(L * L)) + self._evaluate(L, with_slope=False)[0]

    def separate(self, components: FloatArray) -> Cut:
        """The cut of the most violated rankings of all queries at a metric: a subgradient of the loss.

        Parameters
        ----------
        components : (r, d) array
            Factor L of the metric.
        """
        key = np.ascontiguousarray(components, dtype=np.float64).tobytes()
        if key not in self._cuts:
            while len(self._cuts) >= KEPT:
                self._cuts.pop(next(iter(self._cuts)))
            loss, slope, violated = self._evaluate(components, with_slope=True)
            inner = float(np.sum((components @ slope) * components))
            self._cuts[key] = Cut(loss - inner if inner else loss, slope, violated)
        return self._cuts[key]

    @cached_property
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
        related, asked = self.relevance, self.relevance.queries
        count = int((related.n_relevant[asked] * related.n_irrelevant[asked]).sum())
        if self.loss != "auc" or self.queries is not None or count > MOST_TRIPLETS:
            raise ValueError(
                f"triplets are listed for loss='auc', items as queries, and up to {MOST_TRIPLETS:,} of them; this is "
                f"loss={self.loss!r} with {count:,} triplets. Solve the problem itself."
            )
        rows, weights = [], []
        for q, scale in zip(asked.tolist(), self._scales.tolist(), strict=True):
            near, far = related.relevant(q), related.irrelevant(q)
            grid = np.stack(np.meshgrid(near, far, indexing="ij"), axis=-1).reshape(-1, 2)
            rows.append(np.column_stack([np.full(len(grid), q), grid]))
            weights.append(np.full(len(grid), 2.0 * scale / len(grid)))
        push = terms.TripletHinge(np.concatenate(rows), margin=0.5, weights=np.concatenate(weights))
        return MetricProblem(self.X, terms.Trace() + push)

    # -- the certificate ------------------------------------------------------------------------------------------

    def certify(
        self, components: ArrayLike | None = None, *, metric: ArrayLike | None = None, dual: Multipliers | None = None
    ) -> DualityCertificate:
        """Certify any point.

        For multipliers ``a_k >= 0`` of cuts with ``sum a_k <= 1`` and ``I + sum a_k slope_k`` PSD, no metric has an
        objective below ``sum a_k offset_k``: a cut is below the loss everywhere, and the trace and the slopes add up to
        something that is not negative. Multipliers are scaled until they are dual feasible.

        Parameters
        ----------
        components, metric
            As in `Problem.objective`.
        dual : (k (1 + d^2),) array, optional
            For each of k cuts its multiplier, and the factor (d, d) of the metric at which it is separated, flat, with
            rows of zeros at its end. The cuts are computed again, so that no value of the caller is used. Default: the
            cut at the point itself, which proves little.
        """
        L, primal_residual = self.check_point(components, metric)
        loss, _, violated = self._evaluate(L, with_slope=False)
        objective = float(np.sum(L * L)) + loss
        own: tuple[FloatArray, list[FloatArray]] = (np.zeros(0), []) if is_late() else (np.ones(1), [L])
        shares, factors = own if dual is None else self._cuts_of(dual)
        bound, residual = self._bound(shares, [self.separate(factor) for factor in factors])
        return DualityCertificate(
            objective=objective,
            lower_bound=bound,
            primal_residual=primal_residual,
            dual_residual=residual,
            complementarity=max(0.0, objective - bound) / max(1.0, objective),
            n_active=violated,
            constraints="queries",
            program=f"MLR-{self.loss.upper()}",
        )

    def _bound(self, shares: FloatArray, cuts: list[Cut]) -> tuple[float, float]:
        """What multipliers of cuts prove, and how far they were from dual feasible."""
        a = np.maximum(shares, 0.0) / max(1.0, float(np.maximum(shares, 0.0).sum()) * (1.0 + ROUNDING))
        slope = sum((one * cut.slope for one, cut in zip(a, cuts, strict=True)), np.zeros((self.X.shape[1],) * 2))
        size = float(np.abs(slope).max(initial=0.0)) * len(slope)
        least = psd.smallest_eigenvalue(slope) - ROUNDING * size
        offset = float(a @ [cut.offset for cut in cuts]) if len(cuts) else 0.0
        scale = 1.0 / max(1.0, -least)
        bound = scale * offset - ROUNDING * float(a @ [abs(cut.offset) for cut in cuts])
        return max(bound, 0.0), max(0.0, -least - 1.0)

    def _cuts_of(self, dual: Multipliers) -> tuple[FloatArray, list[FloatArray]]:
        d = self.X.shape[1]
        given = np.asarray(dual, dtype=np.float64) if not hasattr(dual, "triplets") else np.zeros(0)
        count = max(1, given.size // (1 + d * d))
        rows = check_multipliers(given.ravel(), count * (1 + d * d), "numbers, a multiplier and a (d, d) factor each")
        table = rows.reshape(count, 1 + d * d)
        factors = [one.reshape(d, d) for one in table[:, 1:]]
        return table[:, 0], [one[one.any(axis=1)] for one in factors]

    def multipliers(self, shares: FloatArray, factors: list[FloatArray]) -> FloatArray:
        """Multipliers of cuts and the factors at which they were separated as one array; see `certify`.

        Parameters
        ----------
        shares : (k,) array
        factors : list of (r, d) arrays, r at most d
        """
        d = self.X.shape[1]
        padded = [np.pad(one, ((0, d - len(one)), (0, 0))).ravel() for one in factors]
        return np.concatenate([np.concatenate([[a], row]) for a, row in zip(shares, padded, strict=True)])

    # -- parts --------------------------------------------------------------------------------------------------

    @cached_property
    def _scales(self) -> FloatArray:
        """What the loss of each query that is asked is multiplied by."""
        asked = self.relevance.queries
        w = np.ones(len(asked)) if self.sample_weight is None else self.sample_weight[asked]
        return np.asarray(self.slack_weight * w / max(float(w.sum()), np.finfo(np.float64).tiny))

    @cached_property
    def _rows(self) -> tuple[FloatArray, FloatArray]:
        """Queries and items less the items' mean."""
        X = self.centered
        if self.queries is None:
            return X, X
        return np.asarray(self.queries, dtype=np.float64) - np.asarray(self.X, dtype=np.float64).mean(axis=0), X

    def _evaluate(self, L: FloatArray, *, with_slope: bool) -> tuple[float, FloatArray, int]:
        """The weighted loss, its slope in the metric (zero where it is not asked for), and the queries that violate."""
        related, d = self.relevance, self.X.shape[1]
        Q, X = self._rows
        asked = related.queries
        columns = np.ascontiguousarray((X @ L.T).T)
        embedded = np.ascontiguousarray(Q @ L.T)
        total, violated, slope, weight_of = 0.0, 0, np.zeros((d, d)), np.zeros(len(X))
        height = max(1, SCORES_AT_ONCE // len(X))
        for first in range(0, len(asked), height):
            check_last()
            block, scales = asked[first : first + height], self._scales[first : first + height]
            scores, slopes = np.empty((len(block), len(X))), np.empty((len(block), len(X)))
            ranking_loops.distances_to(embedded[block], columns, scores)
            order = np.argsort(scores, axis=1, kind="stable")
            own = block if related.leave_one_out else np.full(len(block), -1, dtype=np.int32)
            losses = loops.most_violated(scores, order, related.mask(block), own, self.loss == "map", slopes)
            values = losses + np.einsum("ij,ij->i", slopes, scores)
            total += float(scales @ values)
            violated += int(np.count_nonzero(losses))
            if with_slope:  # the slopes of a query add up to 0
                slopes *= scales[:, None]
                weight_of += slopes.sum(axis=0)
                cross = Q[block].T @ (slopes @ X)
                slope -= cross + cross.T
        slope += (X.T * weight_of) @ X
        return total, psd.symmetrize(slope), violated
