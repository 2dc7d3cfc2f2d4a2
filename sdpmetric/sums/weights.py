"""Sums of scalar losses over nonnegative weights: what their solvers share, and smooth sums by L-BFGS-B.

Over ``M = sum_j w_j b_j b_j^T`` a sum is ``<c, w> + sum_i l_i(o_i + (T w)_i) + sum_j (h w_j^2 / 2 - g log w_j)`` with a
table T of what each weight adds to the argument of each loss. Slopes a of the losses are multipliers; their slack
``c + T^T a`` says what each weight costs. See ``docs/terms.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from sdpmetric.arrays import BoolArray, FloatArray
from sdpmetric.core.certificate import relative_gap
from sdpmetric.core.registry import solver
from sdpmetric.core.run import Budget, Step
from sdpmetric.engine.interface import check_deadline
from sdpmetric.linalg.distances import PAIRS_AT_ONCE
from sdpmetric.sums.bound_terms import BoundTerms
from sdpmetric.sums.problem import MetricProblem
from sdpmetric.sums.terms.margins import MarginLoss

# Entries of a table at most (512 MiB), entries of rank-one matrices for losses that look at these.
LARGEST_TABLE = 1 << 26
LARGEST_PRODUCTS = 1 << 24
# Excess at which losses cost nothing in spite of rounding, relatively, and where those that have no end nearly do.
BELOW = 1e-6
VANISHED = -40.0
# Multiples of weights that are tried for that.
FURTHEST = 1e12
# Weights below these shares of the largest are set to 0 where that costs less than the last share of the gap.
NEGLIGIBLE = (1e-2, 1e-4, 1e-6)
LITTLE = 0.1
# Of the gap that is requested, the share at which it is proven.
PROVEN = 0.8
# Iterations of the first call of L-BFGS-B and of the longest; each has twice as many as the one before.
FIRST_ITERATIONS = 50
MOST_ITERATIONS = 3200
# Calls without a gap of 0.9 of the best one after which the solver gives up.
PATIENCE = 3
# Share of the gap to which the next call goes.
SMALLER = 0.1
# Pairs of steps and gradients that are kept.
MEMORY = 20
# Where LogDet is part of the sum, weights are at least this share of where they start.
SMALLEST_SHARE = 1e-10


class Program:
    """A sum in all its weights and multipliers."""

    def __init__(self, problem: MetricProblem, total: BoundTerms) -> None:
        self.total, self.basis, k = total, problem.domain.basis, len(problem.domain.basis)
        self.slacks = problem.dual.slack
        self.losses = [loss for loss in total.losses if isinstance(loss, MarginLoss)]
        self.offset = np.concatenate([np.zeros(0), *(total.offset(loss) for loss in self.losses)])
        self.low, self.high = (
            np.concatenate([np.zeros(0), *(loss.box[end] for loss in self.losses)]) for end in (0, 1)
        )
        kinds = ([lazy(loss) for loss in self.losses], [np.full(loss.size, loss.hard) for loss in self.losses])
        self.lazy, self.hard = (np.concatenate([np.zeros(0, dtype=np.bool_), *kind]) for kind in kinds)
        found = [own for term in total.regularizers if (own := term.over_weights) is not None]
        self.curvature, self.log, self.constant = (math.fsum(own[part] for own in found) for part in (0, 2, 3))
        self.linear = sum((own[1] for own in found), np.zeros(k))
        self.size = float(np.abs(self.offset).mean()) if self.offset.any() else 1.0
        self.lengths = np.maximum(np.einsum("ij,ij->i", self.basis, self.basis), 1e-300)
        self.fixed = np.where(self.low == self.high, self.low, 0.0)
        self.cost = self.slack(self.fixed)
        self.linear_cost = self.slack(np.zeros_like(self.fixed))

    def slack(self, a: FloatArray) -> FloatArray:
        """``c + T^T a``, (k,)."""
        B, each = self.basis, self.total.split(a)
        if not self.slacks.domain.has_identity_basis:
            return np.asarray(np.einsum("ij,ij->i", B @ self.total.slack_matrix(each), B))
        weights = self.total.pair_weights(each)
        used = np.flatnonzero(weights)
        found = self.linear + self.total.ridge + np.diag(self.total.entry_matrix(each))
        for first in range(0, len(used), PAIRS_AT_ONCE):
            check_deadline()
            part = used[first : first + PAIRS_AT_ONCE]
            found += weights[part] @ self.slacks.squared_products(self.total.pairs[part])
        return np.asarray(found)

    def excess(self, w: FloatArray) -> FloatArray:
        """``o + T w``, (m,)."""
        used = np.flatnonzero(w)
        return np.concatenate([np.zeros(0), *self.total.excess(np.sqrt(w[used])[:, None] * self.basis[used])])

    def value(self, w: FloatArray, u: FloatArray) -> float:
        """The sum at weights with given excess; infinity where a hard constraint is violated at all."""
        if (u[self.hard] > 0.0).any():
            return math.inf
        parts = [
            self.constant,
            float(self.cost @ w - self.fixed @ (u - self.offset)),
            0.5 * self.curvature * float(w @ w),
        ]
        if self.log:
            parts.append(-self.log * float(np.log(w).sum()) if (w > 0.0).all() else math.inf)
        parts += [loss.value(part) for loss, part in zip(self.losses, self.total.split(u), strict=True)]
        return math.fsum(parts) if math.inf not in parts else math.inf

    def dual_value(self, a: FloatArray, slack: FloatArray, cost: FloatArray) -> float:
        """About what multipliers prove where slacks of weights are such.

        Without regularizers they are made smaller until slacks are not negative, if weights cost enough for that.
        """
        h, g = self.curvature, self.log
        if not (h or g):
            short = slack < 0.0
            if (cost[short] <= 0.0).any():
                return -math.inf
            share = float((cost[short] / (cost[short] - slack[short])).min(initial=1.0))
            a, slack = self.fixed + share * (a - self.fixed), np.maximum(slack, 0.0)
        each = zip(self.losses, self.total.split(a), strict=True)
        parts = [self.constant, float(a @ self.offset), *(-float(loss.conjugates(part).sum()) for loss, part in each)]
        if g and not h and not (slack > 0.0).all():
            return -math.inf
        w, root = np.zeros_like(slack), np.sqrt(slack * slack + 4.0 * h * g)
        if g:
            w = np.where(slack > 0.0, 2.0 * g / (slack + root), (root - slack) / (2.0 * h or 1.0))
            parts.append(-g * float(np.log(w).sum()))
        elif h:
            w = np.maximum(-slack / h, 0.0)
        return -math.inf if -math.inf in parts else math.fsum([*parts, float(slack @ w), 0.5 * h * float(w @ w)])

    def gap(self, w: FloatArray, u: FloatArray, a: FloatArray, slack: FloatArray) -> float:
        """About the relative gap."""
        value = self.value(w, u)
        return relative_gap(value, min(value, self.dual_value(a, slack, self.cost)))

    def components(self, w: FloatArray, enough: float) -> FloatArray:
        """A factor of the metric, in which weights that hardly matter are 0."""
        value, most = self.value(w, self.excess(w)), float(w.max(initial=0.0))
        for share in () if self.log else NEGLIGIBLE:
            fewer = np.where(w > share * most, w, 0.0)
            if self.value(fewer, self.excess(fewer)) <= value + LITTLE * enough * abs(value):
                w = fewer
                break
        used = np.flatnonzero(w)
        return np.asarray(np.sqrt(w[used])[:, None] * self.basis[used])

    def vanishing(self, w: FloatArray, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Weights and their excess; where only losses cost and all fall along the weights, a multiple without."""
        slopes = u - self.offset
        if self.curvature or self.log or self.cost.any() or not (slopes < 0.0).all():
            return w, u
        end = np.where(self.lazy, -BELOW * self.size, VANISHED)
        multiple = (1.0 + 1e-9) * max(1.0, float(((end - self.offset) / slopes).max(initial=0.0)))
        return (w, u) if multiple > FURTHEST else (multiple * w, self.offset + multiple * slopes)


def lazy(loss: MarginLoss) -> BoolArray:
    """Which losses cost nothing where u is not positive, so they may be left out there, (m,)."""
    return np.asarray((loss.box[0] == 0.0) & (loss.scalar.slopes(np.zeros(loss.size), 1.0) == 0.0))


def takes_losses(problem: MetricProblem) -> bool:
    """Whether a sum is over weights, of scalar losses and of regularizers whose terms are of one weight each."""
    domain, total = problem.domain, problem.total
    if not domain.diagonal or not all(
        isinstance(loss, MarginLoss) and not loss.has_infinite_slopes for loss in total.losses
    ):
        return False
    d = domain.basis.shape[1]
    simple = domain.has_identity_basis and all(term.over_weights is not None for term in total.regularizers)
    return (simple or not total.regularizers) and not (
        total.depends_on_entries and len(domain.basis) * d * d > LARGEST_PRODUCTS
    )


def takes(problem: MetricProblem) -> bool:
    """Whether no loss has a kink, and the table is of moderate size."""
    size = problem.total.n_multipliers * len(problem.domain.basis)
    return takes_losses(problem) and not problem.total.kinked and size <= LARGEST_TABLE


@solver(MetricProblem, "lbfgs", tol=1e-4, rank=1, when=takes)
def steps(problem: MetricProblem, budget: Budget, tol: float, *, init: FloatArray | None = None) -> Iterator[Step]:
    """Solve a sum of smooth losses over weights of features, or of given directions, by L-BFGS-B."""
    yield Step(problem.zero, objective=problem.objective(problem.zero))
    program = Program(problem, problem.total)
    k, losses = len(program.basis), program.losses
    T = problem.dual.slack.table(np.arange(len(program.offset)), np.arange(k))
    size = float(np.abs(program.offset).mean()) or 1.0
    rates = [loss.conjugate_curvatures(0.5 * loss.item_weights) for loss in losses]
    rates = 1.0 / np.maximum(np.concatenate([np.zeros(0), *rates]), 1e-300)
    curvature = program.curvature + np.where(program.low < program.high, rates, 0.0) @ (T * T)
    if program.log:
        with np.errstate(over="ignore"):
            curvature += (np.maximum(program.cost, 0.0) + np.abs(T).T @ rates * size) ** 2 / program.log
    units = 1.0 / np.sqrt(np.where((curvature > 0.0) & (curvature < np.inf), curvature, 1.0))
    x = np.ones(k) if program.log else np.zeros(k)
    if init is not None:
        x = np.maximum(problem.domain.combination(init.T @ init) / units, x * SMALLEST_SHARE)
    best, idle, iterations, enough = math.inf, 0, FIRST_ITERATIONS, 0.5 * PROVEN * tol
    bounds = np.stack([np.full(k, SMALLEST_SHARE if program.log else 0.0), np.full(k, np.inf)], axis=1)

    def evaluate(x: FloatArray) -> tuple[float, FloatArray]:
        budget.spend()
        w = units * x
        u = program.offset + T @ w
        with np.errstate(over="ignore", invalid="ignore"):
            a = slopes(u)
            gradient = program.linear_cost + T.T @ a + program.curvature * w
            value = program.value(w, u)
            if program.log:
                gradient -= program.log / np.maximum(w, 1e-300)
        if not (math.isfinite(value) and np.isfinite(gradient).all()):
            raise OverflowError("weights or slopes are too large for floats")
        return value, units * gradient

    def slopes(u: FloatArray) -> FloatArray:
        each = zip(losses, program.total.split(u), strict=True)
        return np.concatenate([np.zeros(0), *(loss.smoothed(part, 0.0)[1] for loss, part in each)])

    def gap(x: FloatArray) -> float:
        u = program.offset + T @ (units * x)
        a = slopes(u)
        return program.gap(units * x, u, a, program.linear_cost + T.T @ a)

    def stop(intermediate_result: OptimizeResult) -> None:
        if gap(np.asarray(intermediate_result.x)) <= enough:
            raise StopIteration

    options = {"maxcor": MEMORY, "ftol": 0.0, "gtol": 0.0}
    while idle < PATIENCE:
        limits = {"maxiter": iterations, "maxfun": 2 * iterations}
        found = minimize(
            evaluate, x, jac=True, method="L-BFGS-B", bounds=bounds, callback=stop, options=options | limits
        )
        x, iterations = np.asarray(found.x), min(2 * iterations, MOST_ITERATIONS)
        w, u = program.vanishing(units * x, program.offset + T @ (units * x))
        step = Step.certified(problem, program.components(w, PROVEN * tol), slopes(u))
        yield step
        distance = relative_gap(step.objective, min(step.lower_bound, step.objective))
        best, idle = min(best, distance), 0 if distance < 0.9 * best else idle + 1
        enough *= SMALLER  # where several regularizers are bounded one by one, the certificate proves less than the gap
