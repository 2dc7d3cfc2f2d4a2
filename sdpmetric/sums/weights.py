"""Sums of piecewise linear losses over nonnegative weights, by HiGHS.

Over ``M = sum_j w_j b_j b_j^T`` a sum is ``<c, w> + sum_i l_i(o_i + (T w)_i)`` with a table T of what each weight adds
to the argument of each loss. Slopes a of the losses are multipliers; their slack ``c + T^T a`` says what each weight
costs. Slopes are in an interval ``low <= a <= high``, so the sum is a linear program. Its dual is to maximize ``<o,
a>`` subject to ``c + T^T a >= 0``. The multipliers of these constraints are the weights. See ``docs/terms.md``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult, linprog

from sdpmetric.arrays import SMALLEST_DIVISOR, BoolArray, FloatArray
from sdpmetric.core.certificate import InfeasibilityCertificate, relative_gap
from sdpmetric.core.registry import solver
from sdpmetric.core.steps import Budget, Step
from sdpmetric.linalg.search import GAP_SHARE
from sdpmetric.sums import feasibility
from sdpmetric.sums.bound_terms import BoundTerms, MarginSum, concatenated
from sdpmetric.sums.problem import MetricProblem
from sdpmetric.sums.terms.margins import MarginLoss


class WeightedSum(MarginSum):
    """A sum in all its weights and multipliers."""

    def __init__(self, problem: MetricProblem, total: BoundTerms) -> None:
        super().__init__(total)
        self.basis, self.slacks = problem.domain.basis, problem.dual.slack
        # (m,): losses that cost nothing without a positive excess, so they may be left out there; hard
        # constraints
        self.is_lazy = concatenated(_is_lazy(loss) for loss in self.losses) > 0.0
        self.is_hard = concatenated(np.full(loss.size, float(loss.hard)) for loss in self.losses) > 0.0
        self.unit = float(np.abs(self.offset).mean()) if self.offset.any() else 1.0
        self.squared_lengths = np.maximum(np.einsum("ij,ij->i", self.basis, self.basis), SMALLEST_DIVISOR)
        self.fixed = np.where(self.low == self.high, self.low, 0.0)  # (m,): multipliers of linear losses, else 0
        self.cost = self.slack(self.fixed)  # (k,): of weights, with linear losses

    def slack(self, a: FloatArray) -> FloatArray:
        """Return ``c + T^T a``, (k,)."""
        B, S = self.basis, self.total.slack_matrix(self.total.split(a))
        return np.array(np.diag(S) if self.slacks.domain.has_identity_basis else np.einsum("ij,ij->i", B @ S, B))

    def excess(self, w: FloatArray) -> FloatArray:
        """Return ``o + T w``, (m,)."""
        return concatenated(self.total.excess(self.factor(w)))

    def factor(self, w: FloatArray) -> FloatArray:
        used = np.flatnonzero(w)
        return np.asarray(np.sqrt(w[used])[:, None] * self.basis[used])

    def value(self, w: FloatArray, u: FloatArray) -> float:
        """Return the sum at weights with given excess, infinity if a hard constraint is violated at all."""
        if (u[self.is_hard] > 0.0).any():
            return math.inf
        linear = float(self.cost @ w - self.fixed @ (u - self.offset))
        losses = [loss.value(excess) for loss, excess in zip(self.losses, self.total.split(u), strict=True)]
        return math.inf if math.inf in losses else math.fsum([linear, *losses])

    def components(self, w: FloatArray, gap: float) -> FloatArray:
        """Return a factor of the metric; weights that hardly matter for a relative gap become 0."""
        value, largest = self.value(w, self.excess(w)), float(w.max(initial=0.0))
        for share in HIGHS.negligible:
            sparse = np.where(w > share * largest, w, 0.0)
            if self.value(sparse, self.excess(sparse)) <= value + HIGHS.negligible_gap * gap * abs(value):
                return self.factor(sparse)
        return self.factor(w)


def _is_lazy(loss: MarginLoss) -> FloatArray:
    return np.asarray((loss.box[0] == 0.0) & (loss.scalar.slopes(np.zeros(loss.size), 1.0) == 0.0), dtype=np.float64)


Index = NDArray[np.intp]


@dataclass(frozen=True)
class HighsOptions:
    """Knobs of the solver "highs"."""

    max_table: int = 1 << 26  # entries of a table: 512 MiB
    max_products: int = 1 << 24  # entries of rank-one matrices, for losses that look at these
    negligible: tuple[float, ...] = (1e-2, 1e-4, 1e-6)  # shares of the largest weight: smaller weights become 0
    negligible_gap: float = 0.1  # of the gap asked for: what that may cost
    full_table: int = 1 << 20  # entries of a table that is solved at once; else rows and columns come and go
    # Most rows per column that are mostly active: larger tables are solved at once, too. With a limit on time rows
    # and columns come and go, as an iteration of the interior point method takes a second there.
    square: int = 2
    # Rows per column, and entries, that make the simplex method slower than the interior point method: 0.73 and
    # 0.47 processor seconds at 1,500 x 384, 15 and not ended and 13 at 1,500 x 1,536.
    interior: int = 4
    interior_table: int = 1 << 18
    first_rows: int = 1024  # as many, or as many as there are, may come in a round
    first_columns: int = 128
    dropping_rounds: int = 30  # later rounds only add, so they end
    dropped_excess: float = -0.5  # of the mean offset: rows below it are dropped
    dropped_share: float = 0.3  # of its cost: columns with a larger slack are dropped
    min_seconds: float = 0.01  # that HiGHS is given
    room: float = 1e-9  # of hard constraints, in their units
    tolerance: float = 1e-10  # what HiGHS may violate a constraint by, its smallest tolerance


HIGHS = HighsOptions()


def takes(problem: MetricProblem) -> bool:
    """Return whether the sum is a linear program over weights with a first table of moderate size."""
    domain, total = problem.domain, problem.total
    if not domain.diagonal or total.regularizers or any(loss.has_infinite_slopes for loss in total.losses):
        return False
    required = sum(loss.size for loss in total.losses if not loss.kinked)
    linear = all(not loss.conjugates(np.clip(0.5 * loss.item_weights, *loss.box)).any() for loss in total.losses)
    is_moderate = not total.depends_on_entries or domain.basis.size * domain.basis.shape[1] <= HIGHS.max_products
    return linear and is_moderate and required * len(domain.basis) <= HIGHS.max_table


def optimum(program: WeightedSum, rows: Index, columns: Index, budget: Budget) -> tuple[FloatArray, FloatArray] | None:
    """Return all weights and multipliers, by the dual program in some rows and columns; None without an optimum."""
    free = rows[program.low[rows] < program.high[rows]]
    if not len(free):  # the dual has one point, and the zero metric is optimal if that is feasible
        return None if (program.cost[columns] < 0.0).any() else (np.zeros(len(program.basis)), program.fixed.copy())
    height = float(program.high.max(initial=0.0, where=np.isfinite(program.high))) or 1.0
    T = program.slacks.table(free, columns) / program.unit
    lengths = np.sqrt(np.mean(T * T, axis=0))
    lengths[lengths == 0.0] = 1.0
    T /= lengths
    low, high = program.low[free] / height, program.high[free] / height
    cost = program.cost[columns] / (lengths * program.unit * height)
    budget.spend()
    options = dict.fromkeys(("primal_feasibility_tolerance", "dual_feasibility_tolerance"), HIGHS.tolerance)
    is_timed, is_tall = math.isfinite(budget.max_time), len(free) > HIGHS.interior * len(columns)
    if is_timed:
        options["time_limit"] = max(budget.remaining, HIGHS.min_seconds)
    solved: OptimizeResult = linprog(
        -program.offset[free] / program.unit,
        A_ub=-T.T,
        b_ub=cost,
        bounds=np.stack([low, high], axis=1),
        method="highs-ds" if is_timed or is_tall or T.size < HIGHS.interior_table else "highs-ipm",
        options={"presolve": False} | options,
    )
    if solved.status != 0:
        budget.spend(0)  # raises if the time is over
        return None
    w, a = np.zeros(len(program.basis)), program.fixed.copy()
    w[columns] = np.maximum(-solved.ineqlin.marginals, 0.0) / lengths
    a[free] = np.clip(height * solved.x, program.low[free], program.high[free])
    return w, a


@solver(MetricProblem, "highs", tol=1e-4, rank=1, takes=takes)
def steps(problem: MetricProblem, budget: Budget, tol: float) -> Iterator[Step]:
    """Solve a linear program over weights of features, or of given directions, by HiGHS.

    Where its table is large, losses and weights are taken in as they are violated.
    """
    yield Step(problem.zero, objective=problem.objective(problem.zero))
    program = WeightedSum(problem, problem.total.stiffened(1.0, HIGHS.room))
    rows, columns = all_indices = np.arange(len(program.offset)), np.arange(len(program.basis))
    has_hard, size = program.is_hard.any(), len(rows) * len(columns)
    is_tall = len(rows) > HIGHS.square * len(columns)
    if size > HIGHS.full_table and not has_hard and (is_tall or math.isfinite(budget.max_time)):
        rows, columns = first(program)
    for turn in itertools.count():
        is_complete = len(rows) * len(columns) == size
        solved = optimum(program, rows, columns, budget)
        if solved is None and not is_complete:
            rows, columns = all_indices
            continue
        if solved is None:
            multipliers = feasibility.of_linear_program(problem.dual, np.flatnonzero(program.is_hard))
            if multipliers is not None:
                yield Step.certified(problem, problem.zero, problem.state_dual(multipliers))
            return
        w, a = solved
        u, slack = program.excess(w), program.slack(a)
        value = program.value(w, u)
        bound = min(_dual_value(program, a, slack), value)
        L = program.components(w, GAP_SHARE * tol)
        if is_complete or relative_gap(value, bound) <= tol:
            step = Step.certified(problem, L, a)
            yield step
            if is_complete or isinstance(step.certificate, InfeasibilityCertificate):
                return
        else:
            yield Step(L, objective=value, lower_bound=bound, multipliers=partial(np.copy, a))
        dropping = turn < HIGHS.dropping_rounds
        below = dropping & program.is_lazy & (u < HIGHS.dropped_excess * program.unit)
        costly = dropping & (w == 0.0) & (slack > HIGHS.dropped_share * program.cost)
        before = rows, columns
        rows = renewed(rows, below, np.where(program.is_lazy, u, 0.0), HIGHS.first_rows)
        columns = renewed(columns, costly, -slack / program.squared_lengths, HIGHS.first_columns)
        if all(map(np.array_equal, before, (rows, columns))):
            rows, columns = all_indices


def _dual_value(program: WeightedSum, a: FloatArray, slack: FloatArray) -> float:
    """Return about the dual value of multipliers, scaled until no slack is negative; minus infinity if none is."""
    cost, short = program.cost, slack < 0.0
    if (cost[short] <= 0.0).any():
        return -math.inf
    share = float((cost[short] / (cost[short] - slack[short])).min(initial=1.0))
    return float((program.fixed + share * (a - program.fixed)) @ program.offset)


def first(program: WeightedSum) -> tuple[Index, Index]:
    """Choose losses evenly, with those that cost everywhere, and the weights that cost least at all slopes."""
    required, lazy = np.flatnonzero(~program.is_lazy), np.flatnonzero(program.is_lazy)
    chosen = np.unique(np.linspace(0, max(len(lazy) - 1, 0), min(HIGHS.first_rows, len(lazy))).astype(np.intp))
    slack = program.slack(program.high) / program.squared_lengths
    columns = np.sort(np.argsort(slack, kind="stable")[: HIGHS.first_columns])
    return np.union1d(required, lazy[chosen]), columns


def renewed(chosen: Index, dropped: BoolArray, violation: FloatArray, count: int) -> Index:
    """Return the numbers that are not dropped and the most violated of the rest, sorted; in all at least `count`."""
    outside = np.setdiff1d(np.flatnonzero(violation > 0.0), chosen)
    worst = outside[np.argsort(-violation[outside], kind="stable")[: max(count, len(chosen))]]
    return np.union1d(chosen[~dropped[chosen]], worst)
