"""FRML: rankings learned by a metric of bounded rank; its expected loss, and the convex relaxation of its AUC form."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from sdpmetric.arrays import SMALLEST_DIVISOR, FloatArray, allow_underflow
from sdpmetric.core import validation
from sdpmetric.core.certificate import Certificate, Multipliers, RelaxationCertificate, StationarityCertificate
from sdpmetric.core.named import scaled_identity
from sdpmetric.core.problem import Problem
from sdpmetric.engine.lazy import cached
from sdpmetric.linalg import psd
from sdpmetric.linalg.rigorous.directed import above, below, gamma, norms_above
from sdpmetric.linalg.rigorous.forms import Images
from sdpmetric.lmnn.problem import LMNNProblem
from sdpmetric.lmnn.sources import ListedTriplets
from sdpmetric.ranking import loops
from sdpmetric.ranking.relevance import Relevance, check_rankings
from sdpmetric.ranking.scores import RankLoss, expected_weights, masked_scores, rank_weights

# More than the roundings of a weight of the relaxation.
ROUNDINGS = 16
# Triplets that the relaxation lists at most.
MAX_TRIPLETS = 20_000_000


@dataclass(init=False, eq=False, repr=False)
class FRMLProblem(Problem):
    """Rankings by a metric of bounded rank (FRML; Lim and Lanckriet 2014) [LL2014].

    For a query q with relevant items ``X+`` and irrelevant items ``X-``, let v be the number of violators, the ``x-``
    with ``h = 1 + d(q, x+) - d(q, x-) > 0``. Minimize over PSD matrices of rank at most `n_components`::

        sum_q 1 / |X+| sum_{x+}  ( E(v) / v * sum of the v positive h  +  lam * d(q, x+) )

    For "auc" ``E(v) = v``: all positive h are added up. For "warp" E is the average over the sampling, truncated by
    gamma, of ``L(v) = 1 + 1/2 + .. + 1/v``; see `sdpmetric.ranking.expected_weights`. The problem is not convex, and
    for "warp" not even continuous, as v jumps; the solver follows the gradient that the sampling has on average.

    Parameters
    ----------
    X : (n, d) array
        The items; finite, float32 stays float32, everything else becomes float64.
    relevance : Relevance, (n,) array of labels, n lists of row numbers, or sparse matrix
        The items that are relevant to each query.
    n_components : int
        Bound on the rank, at most d.
    loss : {"warp", "auc"}, default "warp"
    gamma : float, default 1
        At least 1; WARP draws at most ``|X-| / gamma`` items.
    regularization : float, default 0.01
        ``lam`` in units of the loss of the last rank: ``lam = regularization * L(mean of |X-|)``.
    queries : (m, d) array, optional
        Default: the items, each left out of its own ranking.

    Raises
    ------
    ValueError
        If numbers are not finite or out of range, the rank is above d, counts do not fit, or a query has no relevant or
        no irrelevant item (unless the relevance says to exclude such queries).

    See Also
    --------
    FRMLStream, sdpmetric.estimators.FRML

    Examples
    --------
    >>> import sdpmetric as sm
    >>> ranking = sm.FRMLProblem.from_labels(*sm.datasets.load("iris"), 2, "auc", regularization=0.1)
    >>> found = sm.solve(ranking, solver="relaxed")
    >>> found.certificate.kind
    'relaxation'
    """

    statement: ClassVar[str] = "frml"
    solver_modules: ClassVar[tuple[str, ...]] = ("sdpmetric.ranking.frml_solver",)
    weights: ClassVar[tuple[str, ...]] = ("regularization", "gamma")

    X: NDArray[np.floating]
    relevance: Relevance
    n_components: int
    loss: RankLoss
    gamma: float
    regularization: float
    queries: NDArray[np.floating] | None

    def __init__(
        self,
        X: ArrayLike,
        relevance: Relevance | ArrayLike | sp.sparray | sp.spmatrix,
        n_components: int,
        loss: RankLoss = "warp",
        gamma: float = 1.0,
        regularization: float = 0.01,
        queries: ArrayLike | None = None,
    ) -> None:
        data, relevant_items, query_rows = check_rankings(X, relevance, queries)
        d = data.shape[1]
        validation.check_choice("loss", loss, ("warp", "auc"))
        self.X, self.relevance, self.queries, self.loss = data, relevant_items, query_rows, loss
        self.n_components = validation.check_integer("n_components", n_components, high=d)
        self.gamma = validation.check_number("gamma", gamma, 1.0)
        self.regularization = validation.check_weight("regularization", regularization)

    @classmethod
    def from_labels(
        cls,
        X: ArrayLike,
        y: ArrayLike,
        n_components: int | None = None,
        loss: RankLoss = "warp",
        gamma: float = 1.0,
        regularization: float = 0.01,
    ) -> FRMLProblem:
        """State FRML for labeled data: items of a query's own class are relevant.

        Parameters
        ----------
        X : (n, d) array
        y : (n,) array
            Class labels of any kind; at least two classes, each with at least two members.
        n_components : int, optional
            Default: the number of features.
        loss, gamma, regularization
            As in `FRMLProblem`.
        """
        data = validation.check_examples(X)
        rank = data.shape[1] if n_components is None else n_components
        return cls(data, Relevance.from_labels(y), rank, loss, gamma, regularization)

    @property
    def start(self) -> FloatArray:
        """See `Problem.start`: as many of the features as there are components, those of the widest range."""
        return scaled_identity(self.X, self.n_components)

    def describe(self) -> str:
        gamma = f", gamma {self.gamma:g}" if self.loss == "warp" else ""
        return (
            f"FRML-{self.loss.upper()} (Lim and Lanckriet 2014): {len(self.relevance.queries):,} queries over "
            f"{self.X.shape[0]:,} items, {self.X.shape[1]} features, rank at most {self.n_components}; "
            f"regularization {self.regularization:g}{gamma}"
        )

    @cached
    def scale(self) -> float:
        """The loss of the last rank, at the mean number of irrelevant items."""
        n = len(self.X)
        mean = float(self.relevance.n_irrelevant[self.relevance.queries].mean())
        return float(np.interp(mean, np.arange(n + 1), rank_weights(self.loss, n)))

    @property
    def lam(self) -> float:
        """Weight of the distances to relevant items in the objective."""
        return self.regularization * self.scale

    @allow_underflow
    def objective(self, components: ArrayLike | None = None, *, metric: ArrayLike | None = None) -> float:
        """Evaluate the expected loss over all queries, relevant and irrelevant items, exactly.

        One sort of the items for each query, a block of queries at a time: no memory of n x n; see `Problem.objective`.
        """
        L, _ = validation.check_point(components, metric, self.X.shape[1])
        return self._evaluate(L, with_gradient=False)[0] if L.any() else self._value_at_zero

    def gradient(self, components: ArrayLike) -> FloatArray:
        """Return the gradient of the objective in the metric, (d, d), for fixed numbers of violators.

        This is the mean of the solver's steps. A block of queries at a time, ``O(m n d)`` in all.

        Parameters
        ----------
        components : (r, d) array
        """
        L, _ = validation.check_point(components, None, self.X.shape[1])
        return self._evaluate(L, with_gradient=True)[1]

    @allow_underflow
    def certify(
        self, components: ArrayLike | None = None, *, metric: ArrayLike | None = None, dual: Multipliers | None = None
    ) -> Certificate:
        """Certify any point.

        The only lower bound known is 0, so the certificate's kind is "stationarity", with ``||K||_F ||dF/dK||_F / F``,
        K the factor and F the objective: the relative change of the objective, to first order, if K changes by its own
        length. For "auc", multipliers of the `relaxation`, the same program without the bound on the rank, prove a
        lower bound, and the kind is "relaxation". If the rank of a point is too large, the certificate is about its
        leading part, and `primal_residual` is the largest eigenvalue that was dropped, relative to the largest one.
        See `Problem.certify`; multipliers, ``sm.solve(problem.relaxation).dual``, are for "auc" only.
        """
        full_factor, residual = validation.check_point(components, metric, self.X.shape[1])
        L = full_factor
        if len(L) > self.n_components:
            sigma = np.linalg.svd(L, compute_uv=False)
            dropped = float(sigma[self.n_components]) if len(sigma) > self.n_components else 0.0
            residual = max(residual, (dropped / max(float(sigma[0]), SMALLEST_DIVISOR)) ** 2)
            L = np.asarray(psd.leading(L, self.n_components), dtype=np.float64)
        if dual is not None:
            if self.loss != "auc":
                raise ValueError("only the AUC loss has a convex relaxation; pass no multipliers with loss='warp'.")
            point: tuple[ArrayLike | None, ArrayLike | None] = (L, None)
            if metric is not None and len(L) == len(full_factor):
                point = None, metric
            bound = self.relaxation.certify(point[0], metric=point[1], dual=dual)
            return RelaxationCertificate(
                objective=above(bound.objective, ROUNDINGS),
                lower_bound=below(bound.lower_bound, ROUNDINGS),
                primal_residual=residual,
                n_active=bound.n_active,
                program="FRML-AUC",
                rigor="float",
                info=bound.info,
            )
        if L.any():
            value, gradient, active = self._evaluate(L, with_gradient=True)
        else:
            value, gradient, active = (
                self._value_at_zero,
                np.zeros((L.shape[1],) * 2),
                int(self.relevance.triplet_counts.sum()),
            )
        slope = float(np.linalg.norm(2.0 * L @ gradient)) * float(np.linalg.norm(L))
        # Each hinge is of two distances, each pull of one; if numbers of violators change, losses may change by more.
        rounding = (2.0 * self._value_at_zero + len(self.relevance.queries) * self.lam) * self._distance_error(L)
        return StationarityCertificate(
            objective=math.inf if math.isnan(value) else above(value + rounding, ROUNDINGS),
            lower_bound=0.0,
            primal_residual=residual,
            n_active=active,
            program=f"FRML-{self.loss.upper()}",
            stationarity=slope / max(value, SMALLEST_DIVISOR),
        )

    @cached
    def relaxation(self) -> LMNNProblem:
        """FRML-AUC without the bound on the rank: a convex program, LMNN over all triplets (section 4.1 of the paper).

        Its objective at any metric is this problem's, up to the rounding of weights, which `certify` allows for.

        Raises
        ------
        ValueError
            If the loss is "warp", there is no regularization, or there are more than 20 million triplets.
        """
        if self.loss != "auc" or not self.lam:
            raise ValueError("the relaxation is for loss='auc' with a positive regularization; state the problem so.")
        relevance, X = self.relevance, np.asarray(self.X, dtype=np.float64)
        if (count := int(relevance.triplet_counts.sum())) > MAX_TRIPLETS:
            raise ValueError(f"the relaxation lists {count:,} triplets, more than {MAX_TRIPLETS:,}; use fewer queries.")
        first = 0 if self.queries is None else len(X)  # the row of the first query
        rows = X if self.queries is None else np.concatenate([X, np.asarray(self.queries, dtype=np.float64)])
        checked = validation.check_triplets(relevance.triplets(first), len(rows))
        # Hinges weigh 1 / |X_q+| and pulls lam / |X_q+|, each rounded once, and LMNN halves both.
        weighted_triplets = ListedTriplets.from_triplets(checked, 2.0 / relevance.n_relevant[checked.anchors - first])
        pulls = 2.0 * self.lam / relevance.n_relevant[weighted_triplets.candidates.anchors - first]
        return LMNNProblem(validation.check_examples(rows), replace(weighted_triplets, pulls=pulls), 0.5)

    @property
    def _value_at_zero(self) -> float:
        """Where all m irrelevant items violate, by 1: the first draw finds one, so the expected weight is L(m)."""
        sizes, counts = np.unique(self.relevance.n_irrelevant[self.relevance.queries], return_counts=True)
        return math.fsum(k * rank_weights(self.loss, m)[m] for m, k in zip(sizes.tolist(), counts, strict=True))

    @cached
    def _weights(self) -> dict[int, FloatArray]:
        """Expected weights for each number of irrelevant items that occurs."""
        n = len(self.X)
        sizes = np.unique(self.relevance.n_irrelevant[self.relevance.queries]).tolist()
        weights = {size: expected_weights(self.loss, size, self.gamma) for size in sizes}
        return {size: np.pad(w, (0, n - size), mode="edge") for size, w in weights.items()}

    def _distance_error(self, L: FloatArray) -> float:
        """Return bounds of the errors of squared distances of items from queries, at a factor of floats."""
        X = self.X if self.queries is None else np.concatenate([self.X, self.queries])
        images = Images(X, X.astype(np.float64), L.T)
        longest, error = (
            2.0 * float(lengths.max(initial=0.0)) for lengths in (norms_above(images.points), images.errors)
        )
        return error * (2.0 * longest + error) + gamma(len(L) + 6) * longest * longest

    def _evaluate(self, L: FloatArray, *, with_gradient: bool) -> tuple[float, FloatArray, int]:
        """Return the objective, its gradient by the metric (0 unless asked for), and the number of positive hinges."""
        X = np.asarray(self.X, dtype=np.float64)
        Q = X if self.queries is None else np.asarray(self.queries, dtype=np.float64)
        Z = np.ascontiguousarray(X @ L.T)
        Y = Z if self.queries is None else np.ascontiguousarray(Q @ L.T)
        relevance, d = self.relevance, X.shape[1]
        total, active, gradient = 0.0, 0, np.zeros((d, d))
        item_slopes = np.zeros(len(X))
        for block, scores in masked_scores(Y, Z, relevance):
            weights = np.stack([self._weights[size] for size in relevance.n_irrelevant[block].tolist()])
            order = np.argsort(scores, axis=2) if with_gradient else None
            scores.sort(axis=2)
            distances = *scores, relevance.n_relevant[block], relevance.n_irrelevant[block]
            losses, sorted_slopes = np.empty(len(block)), np.zeros(scores.shape)
            active += loops.expected_losses(distances, weights, self.lam, losses, *sorted_slopes)
            total += float(losses.sum())
            if order is not None:
                slopes = np.empty(scores.shape)
                np.put_along_axis(slopes, order, sorted_slopes, axis=2)
                slopes = slopes.sum(axis=0)
                item_slopes += slopes.sum(axis=0)
                cross = Q[block].T @ (slopes @ X)
                gradient += (Q[block].T * slopes.sum(axis=1)) @ Q[block] - cross - cross.T
        gradient += (X.T * item_slopes) @ X
        return total, psd.symmetrize(gradient), active
