"""Sums of piecewise linear losses over nonnegative weights, as linear programs by HiGHS.

With the table T of what weights add to the arguments of losses, and the interval ``low <= a <= high`` of slopes of each
loss, the dual is to maximize ``<o, a>`` where ``c + T^T a >= 0``. The multipliers of these constraints are the weights.
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

from sdpmetric.arrays import BoolArray, FloatArray
from sdpmetric.core.certificate import InfeasibilityCertificate, relative_gap
from sdpmetric.core.registry import solver
from sdpmetric.core.steps import Budget, Step
from sdpmetric.sums.problem import MetricProblem
from sdpmetric.sums.progress import GAP_SHARE
from sdpmetric.sums.terms.margins import MarginLoss
from sdpmetric.sums.weights import OPTIONS as WEIGHTS
from sdpmetric.sums.weights import WeightedSum, takes_losses

Index = NDArray[np.intp]


@dataclass(frozen=True)
class HighsOptions:
    """Knobs of the solver "highs"."""

    full_table: int = 1 << 20  # entries of a table that is solved at once; else rows and columns come and go
    # Rows per column up to which most rows are active: larger tables are solved at once, too. With a limit on time rows
    # and columns come and go, as an iteration of the interior point method takes a second there.
    square: int = 2
    # Rows per column, and entries, from which the simplex method takes longer than the interior point method: 0.73 and
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


OPTIONS = HighsOptions()


def takes(problem: MetricProblem) -> bool:
    """Whether the sum is a linear program over weights, whose first table is of moderate size."""
    total = problem.total
    if not takes_losses(problem) or total.regularizers:
        return False
    losses = [loss for loss in total.losses if isinstance(loss, MarginLoss)]
    required = sum(loss.size for loss in losses if not loss.kinked)
    linear = all(not loss.conjugates(np.clip(0.5 * loss.item_weights, *loss.box)).any() for loss in losses)
    return linear and required * len(problem.domain.basis) <= WEIGHTS.max_table


def optimum(
    program: WeightedSum, rows: Index, columns: Index, budget: Budget, feasibility: bool = False
) -> tuple[FloatArray, FloatArray] | None:
    """All weights and multipliers, by the dual linear program in some rows and columns; None if that has no optimum.

    For feasibility only hard constraints count, whose multipliers are at most 1.
    """
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
    if feasibility:
        low, high, cost = 0.0 * low, np.where(program.is_hard[free], 1.0, 0.0), 0.0 * cost
    budget.spend()
    options = dict.fromkeys(("primal_feasibility_tolerance", "dual_feasibility_tolerance"), OPTIONS.tolerance)
    is_timed, is_tall = math.isfinite(budget.max_time), len(free) > OPTIONS.interior * len(columns)
    if is_timed:
        options["time_limit"] = max(budget.remaining, OPTIONS.min_seconds)
    solved: OptimizeResult = linprog(
        -program.offset[free] / program.unit,
        A_ub=-T.T,
        b_ub=cost,
        bounds=np.stack([low, high], axis=1),
        method="highs-ds" if is_timed or is_tall or T.size < OPTIONS.interior_table else "highs-ipm",
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
    program = WeightedSum(problem, problem.total.stiffened(1.0, OPTIONS.room))
    rows, columns = all_indices = np.arange(len(program.offset)), np.arange(len(program.basis))
    has_hard, size = program.is_hard.any(), len(rows) * len(columns)
    is_tall = len(rows) > OPTIONS.square * len(columns)
    if size > OPTIONS.full_table and not has_hard and (is_tall or math.isfinite(budget.max_time)):
        rows, columns = first(program)
    for turn in itertools.count():
        is_complete = len(rows) * len(columns) == size
        solved = optimum(program, rows, columns, budget)
        if solved is None and not is_complete:
            rows, columns = all_indices
            continue
        if solved is None:
            contradiction = optimum(program, rows, columns, budget, feasibility=True) if has_hard else None
            if contradiction is not None:
                yield Step.certified(problem, problem.zero, contradiction[1])
            return
        w, a = solved
        w, u = program.stretched(w, program.excess(w))
        slack = program.slack(a)
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
        dropping = turn < OPTIONS.dropping_rounds
        below = dropping & program.is_lazy & (u < OPTIONS.dropped_excess * program.unit)
        costly = dropping & (w == 0.0) & (slack > OPTIONS.dropped_share * program.cost)
        before = rows, columns
        rows = renewed(rows, below, np.where(program.is_lazy, u, 0.0), OPTIONS.first_rows)
        columns = renewed(columns, costly, -slack / program.squared_lengths, OPTIONS.first_columns)
        if all(map(np.array_equal, before, (rows, columns))):
            rows, columns = all_indices


def _dual_value(program: WeightedSum, a: FloatArray, slack: FloatArray) -> float:
    """About the dual value of multipliers, scaled down until no slack is negative; minus infinity if none suffices."""
    cost, short = program.cost, slack < 0.0
    if (cost[short] <= 0.0).any():
        return -math.inf
    share = float((cost[short] / (cost[short] - slack[short])).min(initial=1.0))
    return float((program.fixed + share * (a - program.fixed)) @ program.offset)


def first(program: WeightedSum) -> tuple[Index, Index]:
    """An even choice of the losses, with those that cost everywhere, and the weights that cost least at all slopes."""
    required, lazy = np.flatnonzero(~program.is_lazy), np.flatnonzero(program.is_lazy)
    chosen = np.unique(np.linspace(0, max(len(lazy) - 1, 0), min(OPTIONS.first_rows, len(lazy))).astype(np.intp))
    slack = program.slack(program.high) / program.squared_lengths
    columns = np.sort(np.argsort(slack, kind="stable")[: OPTIONS.first_columns])
    return np.union1d(required, lazy[chosen]), columns


def renewed(chosen: Index, dropped: BoolArray, violation: FloatArray, count: int) -> Index:
    """Numbers that are not dropped, and those that are violated most beside them, sorted: at least so many."""
    outside = np.setdiff1d(np.flatnonzero(violation > 0.0), chosen)
    worst = outside[np.argsort(-violation[outside], kind="stable")[: max(count, len(chosen))]]
    return np.union1d(chosen[~dropped[chosen]], worst)
