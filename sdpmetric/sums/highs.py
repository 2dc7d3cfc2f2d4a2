"""Sums of piecewise linear losses over nonnegative weights, as linear programs by HiGHS.

With the table T of what weights add to the arguments of losses, and the interval ``low <= a <= high`` of slopes of each
loss, the dual is to maximize ``<o, a>`` where ``c + T^T a >= 0``. The multipliers of these constraints are the weights.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult, linprog

from sdpmetric.arrays import BoolArray, FloatArray
from sdpmetric.core.certificate import InfeasibilityCertificate, relative_gap
from sdpmetric.core.registry import solver
from sdpmetric.core.run import Budget, Step
from sdpmetric.sums.problem import MetricProblem
from sdpmetric.sums.terms.margins import MarginLoss
from sdpmetric.sums.weights import LARGEST_TABLE, PROVEN, Program, takes_losses

Index = NDArray[np.intp]

# Entries of a table that is solved as a whole; else rows and columns come and go.
WHOLE_TABLE = 1 << 20
# Rows per column up to which most rows decide: larger tables are solved as a whole, too, by HiGHS's interior
# point method, in 31 processor seconds at 1,500 x 1,536 for more than 52 by its simplex method. With a limit on time
# rows and columns come and go, as an iteration of the former takes a second.
SQUARE = 2
# Rows and columns to begin with; as many, or as many as there are, may come in a round.
FIRST_ROWS = 1024
FIRST_COLUMNS = 128
# Rounds that drop rows whose argument is so far below the kink, in units of the offsets, and columns whose slack is
# above this share of their cost; later rounds only add, so they end.
DROPPING_ROUNDS = 30
DROPPED_BELOW = -0.5
DROPPED_SHARE = 0.3
# Seconds that HiGHS is given at least.
SHORTEST = 0.01
# Room of hard constraints in their units, and what HiGHS may violate a constraint by, its smallest tolerance.
ROOM = 1e-9
TOLERANCE = 1e-10


def takes(problem: MetricProblem) -> bool:
    """Whether the sum is a linear program over weights, whose first table is of moderate size."""
    total = problem.total
    if not takes_losses(problem) or total.regularizers:
        return False
    losses = [loss for loss in total.losses if isinstance(loss, MarginLoss)]
    required = sum(loss.size for loss in losses if not loss.kinked)
    linear = all(not loss.conjugates(np.clip(0.5 * loss.item_weights, *loss.box)).any() for loss in losses)
    return linear and required * len(problem.domain.basis) <= LARGEST_TABLE


class LinearProgram:
    """The dual in some multipliers (rows) and for some weights (columns), in units."""

    def __init__(self, problem: MetricProblem, program: Program) -> None:
        self.program, self.slack = program, problem.dual.slack
        finite = program.high[np.isfinite(program.high)]
        self.size, self.height = program.size, float(finite.max(initial=0.0)) or 1.0

    def solve(
        self, rows: Index, columns: Index, budget: Budget, feasibility: bool
    ) -> tuple[FloatArray, FloatArray] | None:
        """All weights and multipliers; None where there is no optimum.

        For feasibility only hard constraints count, whose multipliers are at most 1.
        """
        program = self.program
        free = rows[program.low[rows] < program.high[rows]]
        T = self.slack.table(free, columns) / self.size
        lengths = np.sqrt(np.mean(T * T, axis=0)) if len(free) else np.zeros(len(columns))
        lengths[lengths == 0.0] = 1.0
        T /= lengths
        hard = program.hard[free]
        low, high = program.low[free] / self.height, program.high[free] / self.height
        cost = program.cost[columns] / (lengths * self.size * self.height)
        if feasibility:
            low, high, cost = 0.0 * low, np.where(hard, 1.0, 0.0), 0.0 * cost
        budget.spend()
        tolerances = dict.fromkeys(("primal_feasibility_tolerance", "dual_feasibility_tolerance"), TOLERANCE)
        limit = (
            {"time_limit": max(budget.deadline - time.perf_counter(), SHORTEST)}
            if math.isfinite(budget.deadline)
            else {}
        )
        found: OptimizeResult = linprog(
            -program.offset[free] / self.size,
            A_ub=-T.T,
            b_ub=cost,
            bounds=np.stack([low, high], axis=1),
            method="highs-ds" if limit or T.size <= WHOLE_TABLE or len(free) > SQUARE * len(columns) else "highs-ipm",
            options={"presolve": False} | tolerances | limit,
        )
        if found.status != 0:
            budget.spend(0)  # raises where the time is over
            return None
        w, a = np.zeros(len(program.basis)), program.fixed.copy()
        w[columns] = np.maximum(-found.ineqlin.marginals, 0.0) / lengths
        a[free] = np.clip(self.height * found.x, program.low[free], program.high[free])
        return w, a


@solver(MetricProblem, "highs", tol=1e-4, rank=1, when=takes)
def steps(problem: MetricProblem, budget: Budget, tol: float) -> Iterator[Step]:
    """Solve a linear program over weights of features, or of given directions, by HiGHS.

    Where its table is large, losses and weights are taken in as they are violated.
    """
    yield Step(problem.zero, objective=problem.objective(problem.zero))
    program = Program(problem, problem.total.stiffened(1.0, ROOM))
    linear = LinearProgram(problem, program)
    every_row, every_column = np.arange(len(program.offset)), np.arange(len(program.basis))
    rows, columns = every_row, every_column
    large, timed = len(rows) * len(columns) > WHOLE_TABLE, math.isfinite(budget.deadline)
    if large and not program.hard.any() and (timed or len(rows) > SQUARE * len(columns)):
        rows, columns = first(program)
    for turn in itertools.count():
        whole = len(rows) == len(every_row) and len(columns) == len(every_column)
        solved = linear.solve(rows, columns, budget, feasibility=False)
        if solved is None:
            if not whole:
                rows, columns = every_row, every_column
                continue
            contradiction = linear.solve(rows, columns, budget, feasibility=True) if program.hard.any() else None
            if contradiction is not None:
                yield Step.certified(problem, problem.zero, contradiction[1])
            return
        w, a = solved
        w, u = program.vanishing(w, program.excess(w))
        slack = program.slack(a)
        value = program.value(w, u)
        bound = min(program.dual_value(a, slack, program.cost), value)
        L = program.components(w, PROVEN * tol)
        if whole or relative_gap(value, bound) <= tol:
            step = Step.certified(problem, L, a)
            yield step
            if whole or isinstance(step.certificate, InfeasibilityCertificate):
                return
        else:
            yield Step(L, objective=value, lower_bound=bound, multipliers=partial(np.copy, a))
        dropping = turn < DROPPING_ROUNDS
        below = dropping & program.lazy & (u < DROPPED_BELOW * program.size)
        costly = dropping & (w == 0.0) & (slack > DROPPED_SHARE * program.cost)
        more = (
            renewed(rows, below, np.where(program.lazy, u, 0.0), FIRST_ROWS),
            renewed(columns, costly, -slack / program.lengths, FIRST_COLUMNS),
        )
        if np.array_equal(more[0], rows) and np.array_equal(more[1], columns):
            more = every_row, every_column
        rows, columns = more


def first(program: Program) -> tuple[Index, Index]:
    """An even choice of the losses, with those that cost everywhere, and the weights that cost least at all slopes."""
    required, lazy = np.flatnonzero(~program.lazy), np.flatnonzero(program.lazy)
    chosen = np.unique(np.linspace(0, max(len(lazy) - 1, 0), min(FIRST_ROWS, len(lazy))).astype(np.intp))
    slack = program.slack(program.high) / program.lengths
    columns = np.sort(np.argsort(slack, kind="stable")[:FIRST_COLUMNS])
    return np.union1d(required, lazy[chosen]), columns


def renewed(chosen: Index, dropped: BoolArray, violation: FloatArray, count: int) -> Index:
    """Numbers that are not dropped, and those that are violated most beside them, sorted: at least so many."""
    outside = np.setdiff1d(np.flatnonzero(violation > 0.0), chosen)
    worst = outside[np.argsort(-violation[outside], kind="stable")[: max(count, len(chosen))]]
    return np.union1d(chosen[~dropped[chosen]], worst)
