"""Decisions that are the same under every near-optimal metric, by strong convexity; see ``docs/decisions.md``."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, singledispatch

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from sdpmetric.arrays import BoolArray, FloatArray, IndexArray
from sdpmetric.classification.ball import Neighbors, Space
from sdpmetric.core import validation
from sdpmetric.core.certificate import Dual, DualityCertificate
from sdpmetric.core.problem import Problem
from sdpmetric.core.solution import Solution
from sdpmetric.formulations import named, to_cvxpy
from sdpmetric.lazy import cvxpy as cp
from sdpmetric.linalg import psd
from sdpmetric.linalg.distances import distances
from sdpmetric.linalg.rigorous import RIGORS, TINY, Rigor, U, above, gamma
from sdpmetric.problems.frobenius import FrobeniusLMNNProblem
from sdpmetric.problems.metric_problem import MetricProblem
from sdpmetric.problems.pola import POLAProblem
from sdpmetric.programs.canonical import no_panic
from sdpmetric.terms.base import Sum
from sdpmetric.terms.linear import Pull
from sdpmetric.terms.margins import MarginLoss
from sdpmetric.terms.pairs import Repulsion
from sdpmetric.verbs import solve

# Share of the objective that programs over all metrics as good as one allow beyond it, to have interior points.
INTERIOR = 1e-6
# Radii of grade "rounding" are as many times as large.
ROUNDING = 1.0 + 1e-9
# Smoothing width of losses whose slopes bound multipliers.
WIDTH = 1e-9


@dataclass(frozen=True, eq=False, repr=False)
class Decisions:
    """Decisions of a metric, and which of them all metrics of a set share.

    Attributes
    ----------
    values : (m,) or (m, k) array
        The decisions: labels, row numbers of neighbors, or whether pairs match.
    settled : bool array of that shape
        Proven to be the same under every metric of the set; the others are *open*.
    rigor : {"float", "rounding", "assumption"}
        As of a certificate: "float" where every rounding is accounted for.
    """

    values: NDArray[np.generic]
    settled: BoolArray
    rigor: Rigor = "float"

    @property
    def share(self) -> float:
        """The share of decisions that are settled."""
        return float(self.settled.mean()) if self.settled.size else 1.0

    def __repr__(self) -> str:
        return f"<Decisions: {int(self.settled.sum()):,} of {self.settled.size:,} settled ({self.share:.1%})>"


@dataclass(frozen=True, eq=False, repr=False)
class NearOptimal:
    """A ball of metrics, proven to contain all metrics of some quality; made by `near_optimal`.

    Attributes
    ----------
    components : (r, d) array
        Factor of the metric in its center.
    radius : float
        In the Frobenius norm; for POLA the threshold counts as one more entry of the metric.
    threshold : float or None
        For POLA, the threshold in the center.
    rigor : {"float", "rounding", "assumption"}
        The grade of what is proven.
    """

    components: FloatArray
    radius: float
    threshold: float | None = None
    rigor: Rigor = "float"

    def distances(self, X: ArrayLike, pairs: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Bounds on squared distances under all these metrics, (p,) each: ``D(v) -+ radius |v|^2``, and at least 0.

        Parameters
        ----------
        X : (n, d) array
            Examples, learned from or new.
        pairs : (p, 2) integer array
            Row numbers of X.
        """
        space = Space.of(self.components, np.full(len(np.asarray(X)), self.radius), X)
        low, high = space.intervals(*validation.check_pairs(pairs, len(space.raw)).T)
        with np.errstate(over="ignore", under="ignore"):
            low, high = np.ldexp(low, space.power), np.ldexp(high, space.power)
        return np.maximum(0.0, np.nextafter(low, -np.inf)), np.nextafter(high, np.inf)

    def neighbors(self, X_train: ArrayLike, X: ArrayLike | None = None, n_neighbors: int = 3) -> Decisions:
        """The nearest examples, and which of them are among the nearest under all these metrics, (m, k).

        Parameters
        ----------
        X_train : (n, d) array
        X : (m, d) array, optional
            Queries; default: the examples, each without itself.
        n_neighbors : int, default 3
        """
        found = Neighbors.of(self.components, self.radius, X_train, X, n_neighbors)
        return Decisions(found.nearest, found.certain, self.rigor)

    def labels(
        self, X_train: ArrayLike, y_train: ArrayLike, X: ArrayLike | None = None, n_neighbors: int = 3
    ) -> Decisions:
        """The labels by the vote of the nearest examples, as `knn_predict` counts it, (m,).

        Parameters
        ----------
        X_train, X, n_neighbors
            As in `neighbors`.
        y_train : (n,) array
        """
        found = Neighbors.of(self.components, self.radius, X_train, X, n_neighbors)
        return Decisions(*found.labels(y_train), self.rigor)

    def matches(self, X: ArrayLike, pairs: ArrayLike, threshold: float | None = None) -> Decisions:
        """Whether squared distances of pairs are at most a threshold, (p,).

        Parameters
        ----------
        X : (n, d) array
        pairs : (p, 2) integer array
        threshold : float, optional
            On *squared* distances. Default, for POLA only: its own, which varies over the metrics of the ball.
        """
        given = self.threshold if threshold is None else threshold
        if given is None:
            raise ValueError("pass threshold=, a squared distance: only solutions of POLA have one of their own.")
        limit = validation.check_number("threshold", given, -math.inf)
        low, high = self.distances(X, pairs)
        if threshold is None:  # the threshold moves by the radius at most; together they move less than that
            low, high = np.maximum(0.0, np.nextafter(low - self.radius, -np.inf)), high + self.radius
            high = np.nextafter(high, np.inf)
        middle = distances(np.asarray(X, dtype=np.float64) @ self.components.T, *np.asarray(pairs).T)
        certain = (high <= limit) | (low > limit)
        return Decisions(np.where(certain, high <= limit, middle <= limit), certain, self.rigor)

    def weights(self) -> tuple[FloatArray, FloatArray]:
        """Bounds on the diagonal of all these metrics, (d,) each: of diagonal metrics the weights of the features."""
        squares, L = np.sum(self.components**2, axis=0), self.components
        off = (gamma(len(L) + 4) * squares + self.radius) * (1.0 + 8.0 * U) + len(L) * TINY
        return np.maximum(0.0, np.nextafter(squares - off, -np.inf)), np.nextafter(squares + off, np.inf)

    def __repr__(self) -> str:
        size = np.linalg.norm(self.components @ self.components.T)
        return f"<All metrics within {self.radius:.3g} of one of norm {size:.3g}>"


def near_optimal(solution: Solution, *, optimum: bool = False) -> NearOptimal:
    """Return a ball that contains all metrics at least as good as a solution; what they agree on is settled.

    An objective with a Frobenius term of weight lam is strongly convex. With the proven gap, the optimum is within
    ``sqrt(2 gap / lam)`` of the solution, and every metric whose objective is at most the solution's within twice
    that [YTK2018].

    Parameters
    ----------
    solution : Solution
        Of `FrobeniusLMNNProblem`, `POLAProblem`, or a `MetricProblem` with a `Frobenius` term over all or over diagonal
        metrics, with a proven lower bound.
    optimum : bool, default False
        Return only the ball of half the radius, which contains the optimum.

    Returns
    -------
    NearOptimal

    Raises
    ------
    TypeError
        If the objective is not known to be strongly convex.
    ValueError
        If the solution has no problem or no finite gap.

    Examples
    --------
    >>> import sdpmetric as sm
    >>> X, y = sm.datasets.load("iris")
    >>> solution = sm.solve(sm.FrobeniusLMNNProblem.from_labels(X, y), tol=1e-6)
    >>> near = sm.near_optimal(solution)
    >>> near.labels(X, y)
    <Decisions: 150 of 150 settled (100.0%)>
    >>> low, high = near.distances(X, [[0, 1], [0, 149]])
    >>> bool((high - low < 0.1).all())
    True
    """
    modulus, ball = _curved(solution)
    radius = _root(8.0, solution.certificate.gap, modulus)
    return replace(ball, radius=above(0.5 * radius, 2) if optimum else radius)


def leave_one_out(solution: Solution, y: ArrayLike, n_neighbors: int = 3) -> Decisions:
    """Predict each example's label from its neighbors; settled if learning without the example would not change it.

    With ``U_i`` the gradient of the losses that contain row i, each at its multiplier, the optimum without them is
    within ``||U_i|| / (2 lam)`` of ``M + U_i / (2 lam)``, plus 1.21 times ``sqrt(2 gap / lam)``. No program is solved.

    Parameters
    ----------
    solution : Solution
        As in `near_optimal`, with multipliers.
    y : (n,) array
        Labels of the examples of the problem.
    n_neighbors : int, default 3

    Returns
    -------
    Decisions
        (n,), of grade "rounding": the gradients are summed in floating point.

    Raises
    ------
    TypeError, ValueError
        As `near_optimal`.

    Examples
    --------
    >>> import sdpmetric as sm
    >>> X, y = sm.datasets.load("iris")
    >>> solution = sm.solve(sm.FrobeniusLMNNProblem.from_labels(X, y, frobenius=100.0), tol=1e-6)
    >>> found = sm.leave_one_out(solution, y)
    >>> found.values.shape, found.share > 0.5
    ((150,), True)
    """
    modulus, ball = _curved(solution)
    X, k, losses = _stated(solution).X, n_neighbors, _losses(_stated(solution), solution)
    own = _root(2.0, max(solution.certificate.gap, solution.objective - losses.lower_bound), modulus)
    found = Neighbors.of(ball.components, (own + losses.norms() / modulus) * ROUNDING, X, None, k)
    values, settled = found.labels(y)
    for i in np.flatnonzero(~settled).tolist():
        rest, near = np.arange(len(X)) != i, _without(ball, modulus, own, *losses.gradient(i))
        one = near.labels(X[rest], np.asarray(y)[rest], X[i : i + 1], k)
        settled[i] = one.settled[0] and one.values[0] == values[i]
    return Decisions(values, settled, "rounding")


def _without(ball: NearOptimal, modulus: float, own: float, slope: FloatArray, shift: float) -> NearOptimal:
    """A ball around the optimum without losses of this gradient, and around the solution."""
    metric = ball.components.T @ ball.components + 0.5 / modulus * slope
    radius = 1.21 * own + 0.5 / modulus * math.hypot(float(np.linalg.norm(slope)), shift)
    return NearOptimal(psd.factor(np.asarray(metric)), radius * ROUNDING, None, "rounding")


def unchanged_between(first: Solution, second: Solution, decide: Callable[[NearOptimal], Decisions]) -> Decisions:
    """Find decisions that do not change for any weight between two solved values.

    Between two values of a weight, the objective of a metric is affine in the weight and the optimum is concave: it is
    above the chord of the two lower bounds. The gap to the chord puts the optimum of every value in between into a ball
    around the first or the second solution.

    Parameters
    ----------
    first, second : Solution
        Solutions of one problem with two values of its weights, as `path` returns them.
    decide : callable
        For example ``lambda near: near.labels(X, y, X_validation)``.

    Returns
    -------
    Decisions
        Those of the first solution; at most as many as are open change between the two.

    Raises
    ------
    TypeError, ValueError
        As `near_optimal`, and if the two are of different data or statements.

    Examples
    --------
    >>> import sdpmetric as sm
    >>> X, y = sm.datasets.load("iris")
    >>> problem = sm.FrobeniusLMNNProblem.from_labels(X, y)
    >>> solved = sm.path(problem, frobenius=[10.0, 10.1], tol=1e-6)
    >>> sm.unchanged_between(*solved, lambda near: near.labels(X, y)).share > 0.9
    True
    """
    ends, (own, other) = (first, second), (_stated(first), _stated(second))
    if type(own) is not type(other) or not np.array_equal(own.X, other.X):
        raise ValueError("the solutions are of different problems; pass two of one path, which differ in weights only.")
    curved = [_curved(end) for end in ends]
    modulus, found = min(each for each, _ in curved), []
    for (_, ball), here, opposite in zip(curved, ends, reversed(ends), strict=True):
        there = _stated(opposite).certify(here.components).objective
        found.append((ball, here.certificate.gap, max(0.0, there - opposite.lower_bound)))
    # The gap of each rises along the chord from its own value to the other's; they are taken where both are alike.
    (_, a, b), (_, c, d) = found
    share = min(1.0, max(0.0, (d - a) / (b - a + d - c))) if b - a + d - c > 0.0 else 0.5
    gaps = (max(a, a + share * (b - a)), max(c, c + (1.0 - share) * (d - c)))
    sides = [
        decide(replace(ball, radius=_root(2.0, above(gap, 8) + 8.0 * U * (a + b + c + d), modulus)))
        for (ball, _, _), gap in zip(found, gaps, strict=True)
    ]
    same = sides[0].settled & sides[1].settled & (sides[0].values == sides[1].values)
    return Decisions(sides[0].values, same, sides[0].rigor)


def distance_range(solution: Solution, pair: tuple[int, int], *, tol: float = 1e-6) -> tuple[float, float]:
    """Bound the squared distance of two examples over all metrics at least as good as a solution.

    For sums of terms that need not be strongly convex. Every ``t > 0`` proves ``D >= (min (F + t D) - F(M)) / t`` for
    every metric with an objective of at most F(M), and ``D <= (F(M) - min (F - t D)) / t``; the minima are bounded by
    the certificates of the sums with one more term. The best t is a multiplier of the exact program of the end.

    Parameters
    ----------
    solution : Solution
        A solution of a `MetricProblem` over all, diagonal or otherwise restricted metrics.
    pair : (int, int)
        Row numbers of the examples of the problem.
    tol : float, default 1e-6
        Relative gap of each solve. Any gap keeps the bounds true.

    Returns
    -------
    low, high : float
        At least 0; infinity where nothing is proven.

    Raises
    ------
    TypeError
        If the problem is no sum of terms.
    ValueError
        If the solution has no problem.

    Examples
    --------
    >>> import sdpmetric as sm
    >>> from sdpmetric import terms
    >>> X, triplets = [[0.0, 0.0], [1.0, 0.0], [0.0, 3.0]], [[0, 1, 2]]
    >>> problem = sm.MetricProblem(X, terms.TripletHinge(triplets) + terms.Trace())
    >>> low, high = sm.distance_range(sm.solve(problem, tol=1e-9), (0, 2))
    >>> bool(0.99 < low <= 1.0 <= high < 1.01)
    True
    """
    problem = _stated(solution)
    if not isinstance(problem, MetricProblem) or not (problem.domain.plain and not problem.domain.blocks):
        raise TypeError(
            f"distance_range takes solutions of a MetricProblem over all or over diagonal metrics, got "
            f"{type(problem).__name__}: state it as such a sum; for a problem with a Frobenius term use near_optimal."
        )
    rows, best = np.array([pair]), solution.certificate.objective
    v = problem.centered[rows[0, 0]] - problem.centered[rows[0, 1]]
    if not v.any():
        return 0.0, 0.0
    program = to_cvxpy(problem)
    variables = named(program)
    D = v**2 @ variables["w"] if problem.domain.diagonal else v @ variables["M"] @ v
    within, ends = program.objective.args[0] <= best + INTERIOR * abs(best), []
    for kind, sense in ((Pull, cp.Minimize), (Repulsion, cp.Maximize)):
        with suppress(cp.error.SolverError), no_panic():
            cp.Problem(sense(D), [*program.constraints, within]).solve(solver=cp.CLARABEL)
        price = 0.0 if within.dual_value is None else float(within.dual_value)
        if not price > 0.0:
            ends.append(-math.inf)
            continue
        more = Sum((*problem.terms, kind(rows, weight=1.0 / price)))
        bound = solve(MetricProblem(problem.X, more, diagonal=problem.domain.diagonal), tol=tol).lower_bound
        rounding = 8.0 * U * (abs(bound) + abs(best))
        ends.append((bound - best - rounding) * price)
    return max(0.0, ends[0]), -ends[1]


def zero_weights(solution: Solution) -> Decisions:
    """Decide which features a diagonal metric uses; settled if the optimum is proven to agree, (d,).

    A settled weight is positive in the whole ball around the optimum, or zero at the optimum, since its dual slack is
    positive for all slopes of the losses that the ball allows.

    Parameters
    ----------
    solution : Solution
        A solution of a `MetricProblem` over diagonal metrics with ``Frobenius()``, other terms linear or `MarginLoss`.

    Returns
    -------
    Decisions
        Whether each weight is positive, of grade "rounding".

    Raises
    ------
    TypeError, ValueError
        As `near_optimal`, and for other sums.

    Examples
    --------
    >>> import sdpmetric as sm
    >>> from sdpmetric import terms
    >>> X, y = sm.datasets.load("iris")
    >>> pairs, same = [[0, 1], [0, 60], [70, 120], [90, 95]], [True, False, False, True]
    >>> losses = terms.PairHinge(pairs, same) + terms.Trace(weight=0.1) + terms.Frobenius()
    >>> solution = sm.solve(sm.MetricProblem(X, losses, diagonal=True), tol=1e-9)
    >>> sm.zero_weights(solution)
    <Decisions: 4 of 4 settled (100.0%)>
    """
    problem, near = _stated(solution), near_optimal(solution, optimum=True)
    total = problem.total if isinstance(problem, MetricProblem) and problem.domain.diagonal else None
    if total is None or total.entrywise or [term.value(problem.zero) for term in total.regularizers] != [0.0]:
        raise TypeError(
            "zero_weights takes solutions of MetricProblem(..., diagonal=True) with losses of distances and one "
            "Frobenius() around 0; leave out other regularizers, to= and OffDiagonal."
        )
    low, high = near.distances(problem.X, total.pairs)
    weights = np.zeros(len(total.pairs))
    weights[: len(total.costs[1])] = total.costs[1]
    for loss, own, (up, down, _, _) in zip(total.losses, total.places, total.signed, strict=True):
        ends = (loss.offset + up @ low[own] - down @ high[own], loss.offset + up @ high[own] - down @ low[own])
        # Slopes of a smoothed loss are slopes of the loss at most the width times themselves below.
        least, most = (loss.smoothed(u, WIDTH)[1] for u in (ends[0], ends[1] + 2.0 * WIDTH * loss.unit))
        weights[own] += up.T @ least - down.T @ most
    V = problem.centered[total.pairs[:, 0]] - problem.centered[total.pairs[:, 1]]
    slack, size = weights @ V**2 + total.ridge, np.abs(weights) @ V**2 + total.ridge
    values = np.diag(near.components.T @ near.components) > 0.0
    zero, positive = slack > 1e-9 * size, near.weights()[0] > 0.0
    return Decisions(positive | (values & ~zero), positive | zero, "rounding")


# -- what statements say ---------------------------------------------------------------------------------------------


def _stated(solution: Solution) -> Problem:
    """The problem of a solution."""
    if solution.problem is None:
        raise ValueError("the solution was loaded without its problem; pass it to Solution.load(path, problem).")
    return solution.problem


def _curved(solution: Solution) -> tuple[float, NearOptimal]:
    """The modulus of strong convexity, and the solution as a ball of radius 0."""
    problem, L = _stated(solution), np.asarray(solution.components, dtype=np.float64)
    found, own = problem.strong_convexity(L), solution.certificate
    if found is None:
        raise TypeError(
            f"{type(problem).__name__} is not known to be strongly convex, so metrics as good as this one may be far "
            "from it: use FrobeniusLMNNProblem, POLAProblem, or a MetricProblem over all or over diagonal metrics with "
            "terms.Frobenius(); distance_range bounds single distances of other sums of terms."
        )
    if not isinstance(own, DualityCertificate) or own.as_saved or not math.isfinite(own.gap):
        raise ValueError(f"the solution has no proven gap ({own}); solve the problem with its default solver.")
    rigor = max(found.rigor, own.rigor, key=RIGORS.index)
    return found.modulus, NearOptimal(found.components, 0.0, found.threshold, rigor)


def _root(factor: float, gap: float, modulus: float) -> float:
    """A float not below ``sqrt(factor gap / modulus)``; each root by itself, as quotients may underflow."""
    gap = above(gap, 2)
    return above(math.sqrt(factor) * math.sqrt(gap) / math.sqrt(modulus), 8) if gap > 0.0 else 0.0


@dataclass(frozen=True, eq=False)
class _Losses:
    """Parts ``w v v^T`` of gradients by multiplier, v the difference of a pair; the rows of the losses they belong to.

    The lower bound is that of the multipliers; shifts are what the losses add to the slope of POLA's threshold.
    """

    pairs: IndexArray
    weights: FloatArray
    owners: list[IndexArray]
    lower_bound: float
    shifts: FloatArray
    centered: FloatArray

    def norms(self) -> FloatArray:
        """The norms of the gradients of all rows, (n,)."""
        found = (self.gradient(i) for i in range(len(self.centered)))
        return np.array([math.hypot(np.linalg.norm(slope), shift) for slope, shift in found])

    def gradient(self, i: int) -> tuple[FloatArray, float]:
        """The sum of the parts that belong to losses of a row, and of their shifts."""
        own = self._of_rows.indices[self._of_rows.indptr[i] : self._of_rows.indptr[i + 1]]
        V = self.centered[self.pairs[own, 0]] - self.centered[self.pairs[own, 1]]
        return (V.T * self.weights[own]) @ V, float(self.shifts[own].sum())

    @cached_property
    def _of_rows(self) -> sp.csr_array:
        """Which parts belong to losses of each row."""
        part = np.tile(np.arange(len(self.pairs)), len(self.owners))
        rows, used = np.concatenate(self.owners), self.weights[part] != 0.0
        return sp.csr_array(
            (np.ones(used.sum()), (rows[used], part[used])), shape=(len(self.centered), len(self.pairs))
        )


@singledispatch
def _losses(problem: Problem, solution: Solution) -> _Losses:
    raise TypeError(f"leave_one_out does not support the losses of {type(problem).__name__}.")


@_losses.register
def _(problem: FrobeniusLMNNProblem, solution: Solution) -> _Losses:
    L = np.asarray(solution.components, dtype=np.float64)
    found = problem.constraints(L, solution.dual).dual
    assert isinstance(found, Dual)
    (i, j, l), a, pull = found.triplets.to_array().T, found.values, problem.base.pull_cost
    pairs = np.concatenate([np.stack(each, axis=1) for each in ((i, l), (i, j), (pull.first, pull.second))])
    owners = [np.concatenate(each) for each in ((i, i, pull.first), (j, j, pull.second), (l, l, pull.first))]
    weights = np.concatenate([-a, a, pull.scales])
    return _Losses(pairs, weights, owners, problem.dual_point(found).value, np.zeros(len(pairs)), problem.centered)


@_losses.register
def _(problem: POLAProblem, solution: Solution) -> _Losses:
    L = np.asarray(solution.components, dtype=np.float64)
    a = np.asarray(problem.constraints(L, solution.dual).dual)
    proven = problem.as_sum.dual.prove([a], problem.as_sum.zero)
    signed = proven.multipliers[0] * problem.signs
    return _Losses(problem.pairs, signed, list(problem.pairs.T), proven.value, signed, problem.centered)


@_losses.register
def _(problem: MetricProblem, solution: Solution) -> _Losses:
    proven = problem.prove(np.asarray(solution.components, dtype=np.float64), solution.dual)
    total, (rows, costs) = problem.total, problem.total.costs
    pairs, weights, owners = [rows], [costs], [[rows[:, 0], rows[:, 1]]]
    for loss, a in zip(total.losses, proven.multipliers, strict=True):
        if not isinstance(loss, MarginLoss):
            raise TypeError(
                f"leave_one_out needs losses of single pairs, triplets or quadruplets; {loss.name} has others."
            )
        K = loss.combination.tocoo()
        pairs, weights = [*pairs, loss.distance_pairs()[K.col]], [*weights, K.data * a[K.row]]
        owners.append([role[K.row] for role in loss.roles().values()])
    most = max(len(each) for each in owners)
    roles = [np.concatenate([each[min(t, len(each) - 1)] for each in owners]) for t in range(most)]
    stacked = np.concatenate(pairs)
    return _Losses(stacked, np.concatenate(weights), roles, proven.value, np.zeros(len(stacked)), problem.centered)
