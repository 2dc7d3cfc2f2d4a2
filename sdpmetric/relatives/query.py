"""A map of queries near a given one, from triplets: similarities ``q^T W x`` without a cone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation
from sdpmetric.core.certificate import DualityCertificate, Multipliers, check_multipliers
from sdpmetric.core.constraints import Constraints
from sdpmetric.core.problem import Problem
from sdpmetric.core.registry import formulation
from sdpmetric.engine.cached import cached, published
from sdpmetric.lazy import cvxpy as cp
from sdpmetric.linalg.rigorous.directed import (
    TINY,
    above,
    all_above,
    gamma,
    product_above,
    squares_above,
    sum_above,
    sum_below,
)
from sdpmetric.losses import Weighted
from sdpmetric.programs.exact_program import ExactProgram, Point
from sdpmetric.sums.bound_terms import BoundTerms
from sdpmetric.sums.terms.base import ROUNDINGS
from sdpmetric.sums.terms.comparisons import TripletHinge
from sdpmetric.sums.terms.frobenius import Frobenius

# Smoothing widths whose slopes are tried as dual candidates of a point.
WIDTHS = (1e-9, 1e-2, 1.0)


@dataclass(init=False, eq=False, repr=False)
class QueryProblem(Problem):
    """A linear map of queries alone, near a given one.

    Schultz and Joachims's program [SJ2003] for similarities and any square matrix W: minimize::

        sum_t w_t l( margin - q_t^T W (x_t - z_t) )  +  frobenius / 2  ||W - W0||_F^2

    over triplets of a query q, an item x that should be more similar to it, and an item z, divided by the sum of w. W
    need not be symmetric, and items stay as they are. A solution's components are ``W.T``: rows of queries times
    ``components.T`` are compared with rows of items by inner products. There is no metric.

    Parameters
    ----------
    X : (n, d) array
        Queries and items, one below the other if they differ; finite numbers, float32 stays float32.
    triplets : (t, 3) integer array
        Row numbers of X: a query, the item that is more similar to it, and the other one.
    frobenius : float, default 1
        Positive.
    to : (d, d) array, optional
        ``W0``; default the identity.
    loss : {"logistic", "hinge", "squared_hinge", "smooth_hinge"}, default "logistic"
    margin : float, default 0
    triplet_weights : (t,) array, optional
        Nonnegative; default 1.

    See Also
    --------
    sdpmetric.estimators.Adapter

    Examples
    --------
    >>> import sdpmetric as sm
    >>> problem = sm.QueryProblem([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]], [[0, 2, 1]], frobenius=0.1)
    >>> solution = sm.solve(problem)
    >>> solution.relative_gap <= 1e-3, solution.components.shape
    (True, (2, 2))
    """

    weights: ClassVar[tuple[str, ...]] = ("frobenius",)
    has_metric: ClassVar[bool] = False

    X: NDArray[np.floating]
    triplets: NDArray[np.int32]
    frobenius: float
    to: FloatArray
    loss: str
    margin: float
    triplet_weights: FloatArray

    def __init__(
        self,
        X: ArrayLike,
        triplets: ArrayLike,
        frobenius: float = 1.0,
        to: ArrayLike | None = None,
        loss: str = "logistic",
        margin: float = 0.0,
        triplet_weights: ArrayLike | None = None,
    ) -> None:
        data = validation.check_examples(X)
        d = data.shape[1]
        W0 = np.eye(d) if to is None else validation.check_matrix("to", to, (d, d), "the map W0 of queries")
        if loss == "hard":
            raise ValueError("loss='hard' is for metrics; use 'hinge' with a small weight frobenius=.")
        weight = validation.check_number("frobenius", frobenius, np.finfo(np.float64).tiny)
        try:
            bound = TripletHinge(triplets, margin=margin, loss=loss, weights=triplet_weights).bind(data)
        except ValueError as error:
            sentence = str(error).removeprefix("triplet_hinge: ")
            raise ValueError(sentence.replace("anchor, target, impostor", "query, item, other")) from error
        self.X, self.triplets, self.to = data, np.asarray(bound.triplets, dtype=np.int32), W0
        self.frobenius, self.loss, self.margin = weight, loss, bound.margin
        self.triplet_weights = np.asarray(bound.weights, dtype=np.float64)

    def describe(self) -> str:
        (n, d), (term, _) = self.X.shape, self.terms
        return f"map of queries: mean {term.describe()} + {self.frobenius:g} half the square of W - W0: {n:,} x {d}"

    @cached
    def terms(self) -> tuple[TripletHinge, Frobenius]:
        """The loss, whose excess is the margin minus a difference of similarities, and the Frobenius term."""
        weight, w = 1.0 / max(float(self.triplet_weights.sum()), np.finfo(np.float64).tiny), self.triplet_weights
        loss = TripletHinge(self.triplets, margin=self.margin, loss=self.loss, weights=w, weight=weight)
        return loss.bind(self.X), Frobenius(weight=self.frobenius)

    @cached
    def total(self) -> BoundTerms:
        return BoundTerms(np.asarray(self.X, dtype=np.float64), self.terms)

    @property
    def zero(self) -> FloatArray:
        """``W0.T``, where every solve starts."""
        return self.to.T

    @published
    def pairs(self) -> tuple[FloatArray, FloatArray]:
        """The queries and the differences of their two items, (t, d) each."""
        q, x, z = (np.asarray(self.X[rows], dtype=np.float64) for rows in self.triplets.T)
        return q, x - z

    def more_similar(self, components: FloatArray) -> FloatArray:
        """By how much the similarity of each triplet's first item is larger, (t,)."""
        q, differences = self.pairs
        return np.asarray(np.einsum("ij,ij->i", q @ components.T, differences))

    def check_point(self, components: ArrayLike | None, metric: ArrayLike | None) -> tuple[FloatArray, float]:
        """``W.T``; see `Problem.check_point`."""
        d = self.X.shape[1]
        if metric is not None:
            raise ValueError(f"metric= is for metrics; pass the map of queries as components=W.T, ({d}, {d}).")
        return validation.check_matrix("components", components, (d, d), "those of W.T"), 0.0

    def objective(self, components: ArrayLike | None = None, *, metric: ArrayLike | None = None) -> float:
        """Evaluate the sum at ``components = W.T``."""
        L, _ = self.check_point(components, metric)
        distance = 0.5 * self.frobenius * float(np.sum((L - self.to.T) ** 2))
        return self.terms[0].value(self.margin - self.more_similar(L)) + distance

    def certify(
        self, components: ArrayLike | None = None, *, metric: ArrayLike | None = None, dual: Multipliers | None = None
    ) -> DualityCertificate:
        """Certify any map: its objective rounded upward, and the dual value of multipliers rounded downward.

        With multipliers a between 0 and the weights and ``S = sum_t a_t q_t (x_t - z_t)^T`` no map has less than
        ``margin sum a - sum l*(a) - <S, W0> - ||S||_F^2 / (2 frobenius)``. Default: slopes of the losses at the point.
        """
        L, _ = self.check_point(components, metric)
        u = self.margin - self.more_similar(L)
        a, residual = self._feasible(u, dual)
        return DualityCertificate(
            objective=self._highest(L, u),
            lower_bound=max(0.0, self.proven(a)),
            program="map of queries",
            rigor=self.terms[0].rigor,
            primal_residual=0.0,
            n_active=int(np.count_nonzero(a)),
            info={"dual_residual": residual},
        )

    def _feasible(self, u: FloatArray, dual: Multipliers | None) -> tuple[FloatArray, float]:
        """Given multipliers in their box and how far they were from it, or the best slopes of the losses at a point."""
        loss = self.terms[0]
        if dual is None:
            slopes = (loss.smoothed(u, width)[1] for width in (WIDTHS if loss.kinked else WIDTHS[:1]))
            return max(map(loss.clip, slopes), key=self.proven), 0.0
        a = check_multipliers(dual, (loss.size,), "multipliers of the triplets")
        clipped = loss.clip(a)
        return clipped, float(np.abs(clipped - a).max(initial=0.0)) / (float(np.abs(a).max(initial=0.0)) or 1.0)

    def constraints(self, components: FloatArray, dual: Multipliers | None) -> Constraints:
        """All triplets, each about two similarities; see `Constrained.constraints`."""
        loss, (query, better, worse), X = self.terms[0], self.triplets.T, np.asarray(self.X, dtype=np.float64)
        u = self.margin - self.more_similar(components)
        a, maps = self._feasible(u, dual)[0], X[query] @ components.T
        similar = [np.einsum("ij,ij->i", maps, X[items]) for items in (better, worse)]
        sums = {"loss": loss.value(u), "frobenius": 0.5 * float(np.sum((components - self.to.T) ** 2))}
        return Constraints(
            dual=a,
            roles={"query": query, "better": better, "worse": worse},
            multipliers=a,
            excess=u,
            loss=Weighted(loss.scalar, loss.item_weights),
            stretch=[(query, better, similar[0]), (query, worse, -similar[1])],
            sums=sums,
            slopes={"frobenius": sums["frobenius"]},
        )

    def _highest(self, L: FloatArray, u: FloatArray) -> float:
        """A float not below the exact objective of a map of floats with about this excess."""
        (q, differences), d = self.pairs, self.X.shape[1]
        with np.errstate(over="ignore", invalid="ignore"):
            size = np.einsum("ij,ij->i", np.abs(q) @ np.abs(L.T), np.abs(differences)) + self.margin
            error = all_above(gamma(2 * d + 8) * size, 8)
            error += d * (d + 4) * TINY * (1.0 + np.abs(differences).max(initial=0.0))
            entries = all_above(np.abs(L - self.to.T))
            if not (np.isfinite(u + error).all() and np.isfinite(entries).all()):
                return math.inf
            square = product_above(0.5, self.frobenius, squares_above(entries))
            return sum_above(np.array([self.terms[0].upper_bound(u - error, u + error), square]))

    def proven(self, a: FloatArray) -> float:
        """A lower bound from multipliers in their box, rounded downward."""
        q, differences = self.pairs
        with np.errstate(over="ignore", invalid="ignore"):
            weighted = a[:, None] * q
            S, size = weighted.T @ differences, np.abs(weighted).T @ np.abs(differences)
            error = all_above(gamma(len(a) + ROUNDINGS + 4) * size, len(a) + 4)
            error += all_above(len(a) * TINY * (2.0 + np.full_like(S, np.abs(differences).max(initial=0.0))), 2)
            products, S_above = S * self.to, all_above(np.abs(S) + error)
            product_errors = all_above(np.abs(products) * 2.0**-52 + error * np.abs(self.to), 4) + TINY
            if not (np.isfinite(S_above).all() and np.isfinite(products + product_errors).all()):
                return -math.inf
            square = product_above(0.5, squares_above(S_above), above(1.0 / self.frobenius))
            upper = sum_above(products.ravel()), sum_above(product_errors.ravel()), square
            summands = [self.terms[0].dual_value(a), *(-number for number in upper)]
        return sum_below(np.array(summands)) if np.isfinite(summands).all() else -math.inf


@formulation(QueryProblem, exact=False)
def state(problem: QueryProblem) -> ExactProgram:
    """The program of a map of queries; the variable ``W`` is no metric, and no solver of metrics reads it."""
    W = cp.Variable(problem.to.shape, name="W")
    q, differences = problem.pairs
    excess = problem.margin - cp.sum(cp.multiply(q @ W, differences), axis=1)
    loss, constraints = problem.terms[0].expression(excess, cp)
    objective = loss + 0.5 * problem.frobenius * cp.sum_squares(W - problem.to)
    program = cp.Problem(cp.Minimize(objective), cast(list[cp.Constraint], constraints))
    return ExactProgram(program, lambda: Point(W.value))
