"""Sums of scalar losses over nonnegative weights: what their solvers share, and smooth sums by L-BFGS-B.

Over ``M = sum_j w_j b_j b_j^T`` a sum is ``<c, w> + sum_i l_i(o_i + (T w)_i) + sum_j (h w_j^2 / 2 - g log w_j)`` with a
table T of what each weight adds to the argument of each loss. Slopes a of the losses are multipliers; their slack
``c + T^T a`` says what each weight costs. See ``docs/terms.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from sdpmetric.arrays import FloatArray
from sdpmetric.core.certificate import relative_gap
from sdpmetric.core.registry import solver
from sdpmetric.core.steps import Budget, Step
from sdpmetric.engine.interface import BudgetSpent, check_deadline
from sdpmetric.linalg.distances import PAIRS_AT_ONCE
from sdpmetric.sums.bound_terms import BoundTerms
from sdpmetric.sums.margin_sum import MarginSum, concatenated
from sdpmetric.sums.problem import MetricProblem
from sdpmetric.sums.progress import GAP_SHARE, Progress
from sdpmetric.sums.terms.margins import MarginLoss


@dataclass(frozen=True)
class WeightsOptions:
    """Knobs of what the solvers over weights share, and of "lbfgs"."""

    max_table: int = 1 << 26  # entries of a table: 512 MiB
    max_products: int = 1 << 24  # entries of rank-one matrices, for losses that look at these
    satisfied: float = 1e-6  # of the mean offset: an excess that far below 0 costs nothing in spite of rounding
    vanished: float = -40.0  # excess at which losses that have no end cost next to nothing
    max_multiple: float = 1e12  # of the weights, that is tried for that
    negligible: tuple[float, ...] = (1e-2, 1e-4, 1e-6)  # shares of the largest weight: smaller ones become 0
    negligible_gap: float = 0.1  # of the gap asked for: what that may cost
    first_iterations: int = 20  # of L-BFGS-B; each call has twice as many as the one before
    max_iterations: int = 3200  # of a call
    patience: int = 3  # calls without a smaller gap before the solver stops
    memory: int = 20  # pairs of steps and gradients that are kept
    min_share: float = 1e-10  # of its unit that a weight keeps where LogDet is part of the sum


OPTIONS = WeightsOptions()


class WeightedSum(MarginSum):
    """A sum in all its weights and multipliers: ``h`` and ``g`` of its regularizers, ``c`` its linear cost.

    Attributes
    ----------
    is_lazy, is_hard : (m,) bool arrays
        Losses that cost nothing where their excess is not positive, so they may be left out there; hard constraints.
    fixed : (m,) array
        Multipliers of linear losses, 0 for others.
    cost, linear_cost : (k,) arrays
        What weights cost beside the other losses, and beside all losses.
    """

    def __init__(self, problem: MetricProblem, total: BoundTerms) -> None:
        super().__init__(total)
        self.basis, k, self.slacks = problem.domain.basis, len(problem.domain.basis), problem.dual.slack
        self.is_lazy = concatenated(_is_lazy(loss) for loss in self.losses) > 0.0
        self.is_hard = concatenated(np.full(loss.size, float(loss.hard)) for loss in self.losses) > 0.0
        coefficients = [numbers for term in total.regularizers if (numbers := term.over_weights) is not None]
        self.h, self.g, self.constant = (math.fsum(numbers[place] for numbers in coefficients) for place in (0, 2, 3))
        self.c = sum((numbers[1] for numbers in coefficients), np.zeros(k))
        self.unit = float(np.abs(self.offset).mean()) if self.offset.any() else 1.0
        self.squared_lengths = np.maximum(np.einsum("ij,ij->i", self.basis, self.basis), 1e-300)
        self.fixed = np.where(self.low == self.high, self.low, 0.0)
        self.cost = self.slack(self.fixed)
        self.linear_cost = self.slack(np.zeros_like(self.fixed))

    def slack(self, a: FloatArray) -> FloatArray:
        """``c + T^T a``, (k,)."""
        B, by_loss = self.basis, self.total.split(a)
        if not self.slacks.domain.has_identity_basis:
            return np.asarray(np.einsum("ij,ij->i", B @ self.total.slack_matrix(by_loss), B))
        weights = self.total.pair_weights(by_loss)
        pairs = np.flatnonzero(weights)
        slack = self.c + self.total.ridge + np.diag(self.total.entry_matrix(by_loss))
        for first in range(0, len(pairs), PAIRS_AT_ONCE):
            check_deadline()
            chunk = pairs[first : first + PAIRS_AT_ONCE]
            slack += weights[chunk] @ self.slacks.squared_products(self.total.pairs[chunk])
        return np.asarray(slack)

    def excess(self, w: FloatArray) -> FloatArray:
        """``o + T w``, (m,)."""
        return concatenated(self.total.excess(self.factor(w)))

    def factor(self, w: FloatArray) -> FloatArray:
        used = np.flatnonzero(w)
        return np.asarray(np.sqrt(w[used])[:, None] * self.basis[used])

    def value(self, w: FloatArray, u: FloatArray) -> float:
        """The sum at weights with given excess; infinity where a hard constraint is violated at all."""
        if (u[self.is_hard] > 0.0).any() or (self.g and not (w > 0.0).all()):
            return math.inf
        regularizers = 0.5 * self.h * float(w @ w) - (self.g * float(np.log(w).sum()) if self.g else 0.0)
        linear = float(self.cost @ w - self.fixed @ (u - self.offset))
        losses = [loss.value(excess) for loss, excess in zip(self.losses, self.total.split(u), strict=True)]
        return math.inf if math.inf in losses else math.fsum([self.constant, linear, regularizers, *losses])

    def components(self, w: FloatArray, gap: float) -> FloatArray:
        """A factor of the metric, in which weights that hardly matter beside a relative gap are 0."""
        value, largest = self.value(w, self.excess(w)), float(w.max(initial=0.0))
        for share in () if self.g else OPTIONS.negligible:
            sparse = np.where(w > share * largest, w, 0.0)
            if self.value(sparse, self.excess(sparse)) <= value + OPTIONS.negligible_gap * gap * abs(value):
                return self.factor(sparse)
        return self.factor(w)

    def stretched(self, w: FloatArray, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Weights and their excess; where only losses cost and all fall along the weights, a multiple without."""
        slopes = u - self.offset
        if self.h or self.g or self.cost.any() or not (slopes < 0.0).all():
            return w, u
        satisfied = np.where(self.is_lazy, -OPTIONS.satisfied * self.unit, OPTIONS.vanished)
        multiple = (1.0 + 1e-9) * max(1.0, float(((satisfied - self.offset) / slopes).max(initial=0.0)))
        return (w, u) if multiple > OPTIONS.max_multiple else (multiple * w, self.offset + multiple * slopes)


def _is_lazy(loss: MarginLoss) -> FloatArray:
    return np.asarray((loss.box[0] == 0.0) & (loss.scalar.slopes(np.zeros(loss.size), 1.0) == 0.0), dtype=np.float64)


def takes_losses(problem: MetricProblem) -> bool:
    """Whether a sum is over weights, of scalar losses and of regularizers whose terms are of one weight each."""
    domain, total = problem.domain, problem.total
    scalar = all(isinstance(loss, MarginLoss) and not loss.has_infinite_slopes for loss in total.losses)
    separable = domain.has_identity_basis and all(term.over_weights is not None for term in total.regularizers)
    size = domain.basis.size * domain.basis.shape[1] if total.depends_on_entries else 0
    return domain.diagonal and scalar and (separable or not total.regularizers) and size <= OPTIONS.max_products


def takes(problem: MetricProblem) -> bool:
    """Whether no loss has a kink, and the table is of moderate size."""
    size = problem.total.n_multipliers * len(problem.domain.basis)
    return takes_losses(problem) and not problem.total.kinked and size <= OPTIONS.max_table


@solver(MetricProblem, "lbfgs", tol=1e-4, rank=1, takes=takes)
def steps(problem: MetricProblem, budget: Budget, tol: float, *, init: FloatArray | None = None) -> Iterator[Step]:
    """Solve a sum of smooth losses over weights of features, or of given directions, by L-BFGS-B."""
    yield Step(problem.zero, objective=problem.objective(problem.zero))
    total = WeightedSum(problem, problem.total)
    k, options = len(total.basis), OPTIONS
    T = problem.dual.slack.table(np.arange(len(total.offset)), np.arange(k))
    rates = 1.0 / np.maximum(total.conjugate_curvatures, 1e-300)
    curvature = total.h + np.where(total.low < total.high, rates, 0.0) @ (T * T)
    if total.g:
        curvature += (np.maximum(total.cost, 0.0) + np.abs(T).T @ rates * total.unit) ** 2 / total.g
    units = 1.0 / np.sqrt(np.where((curvature > 0.0) & (curvature < np.inf), curvature, 1.0))
    lowest = np.full(k, options.min_share if total.g else 0.0)
    x = np.ones(k) if total.g else np.zeros(k)
    if init is not None:
        x = np.maximum(problem.domain.combination(init.T @ init) / units, lowest)

    lowest_value, reached = math.inf, units * x

    def slopes(u: FloatArray) -> FloatArray:
        by_loss = zip(total.losses, total.total.split(u), strict=True)
        return concatenated(loss.smoothed(excess, 0.0)[1] for loss, excess in by_loss)

    def evaluate(x: FloatArray) -> tuple[float, FloatArray]:
        nonlocal lowest_value, reached
        budget.spend()
        w = units * x
        u = total.offset + T @ w
        gradient = total.linear_cost + T.T @ slopes(u) + total.h * w
        value = total.value(w, u)
        if value < lowest_value:
            lowest_value, reached = value, w
        if total.g:
            gradient -= total.g / np.maximum(w, 1e-300)
        if not (math.isfinite(value) and np.isfinite(gradient).all()):
            raise OverflowError("weights or slopes are too large for floats")
        return value, units * gradient

    bounds = np.stack([lowest, np.full(k, np.inf)], axis=1)
    progress, iterations = Progress(), options.first_iterations
    while progress.idle_rounds < options.patience:
        limits = {"maxiter": iterations, "maxfun": 2 * iterations, "maxcor": options.memory, "ftol": 0.0, "gtol": 0.0}
        try:
            x = minimize(evaluate, x, jac=True, method="L-BFGS-B", bounds=bounds, options=limits).x
        except (BudgetSpent, KeyboardInterrupt):
            yield Step(total.factor(reached), objective=lowest_value)
            raise
        iterations = min(2 * iterations, options.max_iterations)
        w, u = total.stretched(units * x, total.offset + T @ (units * x))
        step = Step.certified(problem, total.components(w, GAP_SHARE * tol), slopes(u))
        yield step
        progress.record(relative_gap(step.objective, min(step.lower_bound, step.objective)))
