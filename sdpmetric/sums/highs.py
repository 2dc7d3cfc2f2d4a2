"""Sums of piecewise linear losses over nonnegative weights, as linear programs by HiGHS.

With the table T of what weights add to the arguments of losses, and the interval ``low <= a <= high`` of slopes of each
loss, the dual is to maximize ``<o, a>`` where ``c + T^T a >= 0``. The multipliers of these constraints are the weights.
"""

from __future__ import annotations

import itertools
import math
import time
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
    # Rows per column up to which most rows decide: larger tables are solved at once, too. With a limit on time rows and
    # columns come and go, as an iteration of the interior point method takes a second there.
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


class LinearProgram:
    """The dual in some multipliers (rows) and for some weights (columns), in units."""

    def __init__(self, problem: MetricProblem, program: WeightedSum) -> None:
        self.program, self.slack = program, problem.dual.slack
        finite = program.high[np.isfinite(program.high)]
        self.unit, self.height = program.unit, float(finite.max(initial=0.0)) or 1.0

    def solve(
        self, rows: Index, columns: Index, budget: Budget, feasibility: bool
    ) -> tuple[FloatArray, FloatArray] | None:
        """All weights and multipliers; None where there is no optimum.

        For feasibility only hard constraints count, whose multipliers are at most 1.
        """
        program = self.program
        free = rows[program.low[rows] < program.high[rows]]
        if not len(free):  # the dual has one point, and the zero metric is optimal if that is feasible
            return None if (program.cost[columns] < 0.0).any() else (np.zeros(len(program.basis)), program.fixed.copy())
        T = self.slack.table(free, columns) / self.unit
        lengths = np.sqrt(np.mean(T * T, axis=0))
        lengths[lengths == 0.0] = 1.0
        T /= lengths
        hard = program.is_hard[free]
        low, high = program.low[free] / self.height, program.high[free] / self.height
        cost = program.cost[columns] / (lengths * self.unit * self.height)
        if feasibility:
            low, high, cost = 0.0 * low, np.where(hard, 1.0, 0.0), 0.0 * cost
        budget.spend()
        tolerances = dict.fromkeys(("primal_feasibility_tolerance", "dual_feasibility_tolerance"), OPTIONS.tolerance)
        limit = (
            {"time_limit": max(budget.deadline - time.perf_counter(), OPTIONS.min_seconds)}
            if math.isfinite(budget.deadline)
            else {}
        )
        solved: OptimizeResult = linprog(
            -program.offset[free] / self.unit,
            A_ub=-T.T,
            b_ub=cost,
            bounds=np.stack([low, high], axis=1),
            method="highs-ds"
            if limit or T.size < OPTIONS.interior_table or len(free) > OPTIONS.interior * len(columns)
            else "highs-ipm",
            options={"presolve": False} | tolerances | limit,
        )
        if solved.status != 0:
            budget.spend(0)  # raises where the time is over
            return None
        w, a = np.zeros(len(program.basis)), program.fixed.copy()
        w[columns] = np.maximum(-solved.ineqlin.marginals, 0.0) / lengths
        a[free] = np.clip(self.height * solved.x, program.low[free], program.high[free])
        return w, a


@solver(MetricProblem, "highs", tol=1e-4, rank=1, takes=takes)
def steps(problem: MetricProblem, budget: Budget, tol: float) -> Iterator[Step]:
    """Solve a linear program over weights of features, or of given directions, by HiGHS.

    Where its table is large, losses and weights are taken in as they are violated.
    """
    yield Step(problem.zero, objective=problem.objective(problem.zero))
    program = WeightedSum(problem, problem.total.stiffened(1.0, OPTIONS.room))
    linear = LinearProgram(problem, program)
    every_row, every_column = np.arange(len(program.offset)), np.arange(len(program.basis))
    rows, columns = every_row, every_column
    large, timed = len(rows) * len(columns) > OPTIONS.full_table, math.isfinite(budget.deadline)
    if large and not program.is_hard.any() and (timed or len(rows) > OPTIONS.square * len(columns)):
        rows, columns = first(program)
    for turn in itertools.count():
        is_complete = len(rows) == len(every_row) and len(columns) == len(every_column)
        solved = linear.solve(rows, columns, budget, feasibility=False)
        if solved is None:
            if not is_complete:
                rows, columns = every_row, every_column
                continue
            contradiction = linear.solve(rows, columns, budget, feasibility=True) if program.is_hard.any() else None
            if contradiction is not None:
                yield Step.certified(problem, problem.zero, contradiction[1])
            return
        w, a = solved
        w, u = program.stretched(w, program.excess(w))
        slack = program.slack(a)
        value = program.value(w, u)
        bound = min(program.dual_value(a, slack, program.cost), value)
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
        renewal = (
            renewed(rows, below, np.where(program.is_lazy, u, 0.0), OPTIONS.first_rows),
            renewed(columns, costly, -slack / program.squared_lengths, OPTIONS.first_columns),
        )
        if np.array_equal(renewal[0], rows) and np.array_equal(renewal[1], columns):
            renewal = every_row, every_column
        rows, columns = renewal


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
