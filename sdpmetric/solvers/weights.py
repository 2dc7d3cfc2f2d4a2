"""Sums of scalar losses over nonnegative weights, by a primal-dual interior point method [Mehrotra1992].

Over ``M = sum_j w_j b_j b_j^T`` a sum is ``<c, w> + sum_i l_i(o_i + (T w)_i) + sum_j (h w_j^2 / 2 - g log w_j)`` with a
table T of what each weight adds to the argument of each loss. Weights w, multipliers a between ``low`` and ``high``,
and nonnegative z, p, q solve it where

    c + T^T a + h w = z,    o + T w - l*'(a) = p - q,    w z = g,    p (high - a) = 0,    q (a - low) = 0

and the method follows the points at which the products exceed that by one positive number, which falls. Each step
solves one system, whose unknowns are the weights or the multipliers, whichever are fewer. See ``docs/terms.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from sdpmetric.arrays import BoolArray, FloatArray
from sdpmetric.bounds.bound_terms import ROOM_SINGLE, BoundTerms
from sdpmetric.core.certificate import InfeasibilityCertificate, relative_gap
from sdpmetric.core.registry import solver
from sdpmetric.core.run import Budget, Step
from sdpmetric.engine import threads
from sdpmetric.engine.interface import check_deadline
from sdpmetric.linalg.distances import PAIRS_AT_ONCE
from sdpmetric.problems.metric_problem import MetricProblem
from sdpmetric.terms.margins import MarginLoss

Index = NDArray[np.intp]
Solve = Callable[[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]

# Entries of a table at most (512 MiB), entries of rank-one matrices for losses that look at these.
LARGEST_TABLE, LARGEST_PRODUCTS = 1 << 26, 1 << 24
# Room of hard constraints in their units, so they hold in spite of rounding.
ROOM = 1e-12
# Multiplications for one system beyond which losses and weights are taken in as they matter; so many to begin with.
WORK, FEW_LOSSES, FEW_WEIGHTS = 1e10, 2048, 256
# Rounds after which those that do not matter are left out again.
ROUNDS = 10
# Iterations of a path at most, and after how many without a bound or a better gap, while slacks of weights that are no
# slacks yet do not get better either, it proves what it can.
ITERATIONS, PATIENCE = 200, 12
# How far a step goes toward the boundary; of the gap that is requested, the share on the path at the end, and the one
# at which it is proven. Values below the last share of the first one count as 0.
BOUNDARY, CENTERED, PROVEN, NOTHING = 0.995, 0.1, 0.8, 1e-12
# Instead of shorter steps, one is taken toward where the products are that share of their average.
SHORT, MIDDLE = 0.3, 0.9
# Excess at which losses cost nothing in spite of rounding, relatively, and where those that have no end nearly do.
BELOW, VANISHED = 1e-6, -40.0
# Multiples of weights that are tried for that.
FURTHEST = 1e12
# What is added to the diagonal of a system that is singular in floating point, as a share of it.
SINGULAR = (0.0, 1e-14, 1e-11, 1e-8)
# Weights below these shares of the largest are set to 0 where that costs less than the last share of the gap.
NEGLIGIBLE, LITTLE = (1e-2, 1e-4, 1e-6), 0.1


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

    def slack(self, a: FloatArray) -> FloatArray:
        """``c + T^T a``, (k,)."""
        B, each = self.basis, self.total.split(a)
        if not self.slacks.domain.plain:
            return np.asarray(np.einsum("ij,ij->i", B @ self.total.slack_matrix(each), B))
        weights = self.total.pair_weights(each)
        used = np.flatnonzero(weights)
        found = self.linear + self.total.ridge + np.diag(self.total.entry_matrix(each))
        for first in range(0, len(used), PAIRS_AT_ONCE):
            check_deadline()
            part = used[first : first + PAIRS_AT_ONCE]
            found += weights[part] @ self.slacks.squares(self.total.pairs[part])
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

    def first(self) -> tuple[Index, Index]:
        """All losses and weights, or where systems of these take long, some to begin with."""
        rows, columns = np.arange(len(self.offset)), np.arange(len(self.basis))
        if len(rows) * len(columns) * min(len(rows), len(columns)) <= WORK:
            return rows, columns
        needed, lazy = np.flatnonzero(~self.lazy), np.flatnonzero(self.lazy)
        if len(lazy) > FEW_LOSSES:
            rows = np.union1d(needed, lazy[np.linspace(0, len(lazy) - 1, FEW_LOSSES).astype(np.intp)])
        if len(columns) > FEW_WEIGHTS and not (self.curvature or self.log):
            slack = self.slack(np.where(self.high < np.inf, self.high, self.low + 1.0))
            columns = np.sort(np.argsort(slack / self.lengths, kind="stable")[:FEW_WEIGHTS])
        return rows, columns

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


@dataclass(frozen=True, eq=False)
class Iterate:
    """Weights, multipliers, and what belongs to their bounds; or a way between such."""

    w: FloatArray
    a: FloatArray
    z: FloatArray
    p: FloatArray
    q: FloatArray

    def plus(self, way: Iterate, s: float, t: float) -> Iterate:
        """At s along the way of weights and excess, and t along that of multipliers and slacks."""
        w, p, q = (x + s * y for x, y in ((self.w, way.w), (self.p, way.p), (self.q, way.q)))
        return Iterate(w, self.a + t * way.a, self.z + t * way.z, p, q)


class Path:
    """The central path of a program in some of its multipliers and weights, the others being 0."""

    def __init__(self, program: Program, rows: Index, columns: Index) -> None:
        self.program = program
        check_deadline()
        self.rows = rows[program.low[rows] < program.high[rows]]
        self.offset, self.low, self.high = (part[self.rows] for part in (program.offset, program.low, program.high))
        self.above, self.below = np.isfinite(self.high), np.isfinite(self.low)
        T, alone = program.slacks.table(self.rows, columns), program.curvature > 0.0 or program.log > 0.0
        matter = T.any(axis=0) | (program.cost[columns] != 0.0) | alone
        self.columns: Index = columns[matter]
        T = T if matter.all() else T[:, matter]
        self.units = self._units(T, program.cost[self.columns])
        self.T = T * self.units
        self.cost, self.curvature = self.units * program.cost[self.columns], program.curvature * self.units**2
        self.linear = not (alone or self._conjugate(self._middle())[1].any())
        self.count = max(1, len(self.cost) + int(self.above.sum()) + int(self.below.sum()))

    def _units(self, T: FloatArray, cost: FloatArray) -> FloatArray:
        """Weights of moderate size: those of the regularizers alone, or what a weight has to be to matter."""
        g, h, middle = self.program.log, self.program.curvature, self._middle()
        if g and h:
            return np.asarray((np.sqrt(cost * cost + 4.0 * h * g) - cost) / (2.0 * h))
        if g:
            return np.asarray(g / np.maximum(cost, 1e-3 * float(np.abs(cost).max()) or 1.0))
        if h:
            return np.full(len(cost), (float(np.abs(cost).max()) or float(np.abs(middle @ T).max()) or h) / h)
        size = np.sqrt(np.sum(T * T, axis=0) / max(len(T), 1)) + np.maximum(cost, 0.0) / (np.abs(middle).sum() or 1.0)
        return 1.0 / np.where(size > 0.0, size, 1.0)

    def multipliers(self, a: FloatArray) -> FloatArray:
        """All multipliers, (m,), from those of the path."""
        found = self.program.fixed.copy()
        found[self.rows] = a
        return found

    def weights(self, w: FloatArray) -> FloatArray:
        """All weights, (k,), from those of the path in its units."""
        found = np.zeros(len(self.program.basis))
        found[self.columns] = self.units * w
        return found

    def _value(self, w: FloatArray, u: FloatArray) -> float:
        """The sum where losses that are not on the path cost nothing."""
        every = np.where(self.program.low == self.program.high, self.program.offset, 0.0)
        every[self.rows] = u
        return self.program.value(self.weights(w), every)

    def _bound(self, a: FloatArray, slack: FloatArray) -> float:
        """What multipliers prove about the sum of what is on the path."""
        return self.program.dual_value(self.multipliers(a), slack / self.units, self.cost / self.units)

    def _conjugate(self, a: FloatArray) -> tuple[FloatArray, FloatArray]:
        """First and second derivatives of the conjugates."""
        program, every = self.program, self.multipliers(a)
        each = list(zip(program.losses, program.total.split(every), strict=True))
        slopes = np.concatenate([np.zeros(0), *(loss.conjugate_slopes(part) for loss, part in each)])
        bends = np.concatenate([np.zeros(0), *(loss.conjugate_curvatures(part) for loss, part in each)])
        return slopes[self.rows], bends[self.rows]

    def _middle(self) -> FloatArray:
        """Multipliers in the middle of their domains, or somewhat away from their only end."""
        a = np.where(self.above, self.high - 1.0, np.where(self.below, self.low + 1.0, 0.0))
        both = self.above & self.below
        a[both] = 0.5 * (self.low[both] + self.high[both])
        bends = self._conjugate(a)[1]
        return np.where(
            self.below & ~self.above & (bends > 0.0), self.low + self.program.size / np.maximum(bends, 1e-300), a
        )

    def _start(self) -> Iterate:
        """Where the path is sought from."""
        T, k, a = self.T, self.T.shape[1], self._middle()
        slack = self.cost + T.T @ a
        w = np.ones(k) if self.program.log else np.full(k, self.program.size / math.sqrt(max(k, 1)))
        if self.program.curvature and not self.program.log:
            w = np.maximum(-slack / self.curvature, 0.0)
            w = np.maximum(w, 0.1 * float(w.mean()) or 1.0)
        off = self.offset + T @ w - self._conjugate(a)[0]
        ends = (self.above, off), (self.below, -off)
        p, q = (np.where(bounded, np.maximum(part, 0.0) + self.program.size, 0.0) for bounded, part in ends)
        slack += self.curvature * w
        return Iterate(w, a, np.maximum(slack, 0.0) + (float(np.abs(slack).sum()) / max(k, 1) or 1.0), p, q)

    def follow(self, enough: float, budget: Budget) -> Iterator[tuple[FloatArray, FloatArray]]:
        """All weights and multipliers, where their gap is small enough, or where multipliers may prove something."""
        at, g, T = self._start(), self.program.log, self.T
        high, low, best, idle, first = math.inf, -math.inf, [math.inf] * 4, 0, math.inf
        exact = self.program.lazy[self.rows].all() and not self.cost.any()  # then losses end at 0
        nothing = 0.0 if exact else NOTHING
        most, least = at.w, at.a
        for iteration in range(ITERATIONS):
            budget.spend()
            (h, b), slack = self._ends(at.a), self.cost + T.T @ at.a
            w, u, slopes, bends = *self._vanishing(at.w, self.offset + T @ at.w), *self._conjugate(at.a)
            value, bound = self._value(w, u), self._bound(at.a, slack)
            most, high = (w, value) if value <= high else (most, high)
            least, low = (at.a, bound) if bound >= low else (least, bound)
            first = abs(high) if math.isinf(first) else first
            gap = relative_gap(high, min(low, high))
            average = self._average(at)
            off = slack + self.curvature * at.w - at.z, self.offset + T @ at.w - slopes - at.p + at.q
            measures = [gap, average, high, float(np.abs(off[0]).max(initial=NOTHING))]
            if any(
                new < old - 0.1 * abs(old) or new < old == math.inf for new, old in zip(measures, best, strict=True)
            ):
                idle, best = 0, list(map(min, measures, best))
            else:
                idle += 1
            if gap <= enough or idle >= PATIENCE or abs(high) <= nothing * first < math.inf:
                break
            if iteration % PATIENCE == PATIENCE - 1 and not math.isfinite(gap):
                yield self.weights(most), self.multipliers(at.a)
            solve = self._system(bends + at.p / h + at.q / b, self.curvature + at.z / at.w)
            affine = self._way(at, off, solve, (g - at.w * at.z, -at.p * h, -at.q * b))
            there, average = at.plus(affine, *self._lengths(at, affine)), max(average, 1e-300)
            target = average * min(1.0, self._average(there) / average) ** 3
            if math.isfinite(high):
                target = max(target, CENTERED * enough * abs(high) / self.count)
            products = (at.w * at.z - g, at.p * h, at.q * b)
            second = (affine.w * affine.z, -affine.p * affine.a, affine.q * affine.a)
            both = zip(products, second, strict=True)
            way = self._way(at, off, solve, tuple(target - one - two for one, two in both))
            if min(self._lengths(at, way)) < SHORT:  # to the middle of the path first
                way = self._way(at, off, solve, tuple(MIDDLE * average - one for one in products))
            at = at.plus(way, *self._lengths(at, way))
        yield self.weights(most), self.multipliers(least)

    def _vanishing(self, w: FloatArray, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Weights and their excess; where only losses cost and all fall along the weights, a multiple without."""
        way, end = u - self.offset, np.where(self.program.lazy[self.rows], -BELOW * self.program.size, VANISHED)
        if self.program.curvature or self.program.log or self.cost.any() or not (way < 0.0).all():
            return w, u
        s = (1.0 + 1e-9) * max(1.0, float(((end - self.offset) / way).max(initial=0.0)))
        if s > FURTHEST:
            return w, u
        return s * w, self.offset + s * way

    def _ends(self, a: FloatArray) -> tuple[FloatArray, FloatArray]:
        """How far multipliers are from their bounds, 1 if there are none."""
        return np.where(self.above, self.high - a, 1.0), np.where(self.below, a - self.low, 1.0)

    def _average(self, at: Iterate) -> float:
        """The average product beyond what LogDet asks for."""
        h, b = self._ends(at.a)
        total = np.maximum(at.w * at.z - self.program.log, 0.0).sum() + at.p @ h + at.q @ b
        return float(total) / self.count

    def _way(
        self, at: Iterate, off: tuple[FloatArray, FloatArray], solve: Solve, goals: tuple[FloatArray, ...]
    ) -> Iterate:
        """Newton's way to where equations hold and products have changed by the goals."""
        (h, b), (goal_w, goal_p, goal_q) = self._ends(at.a), goals
        goal_p, goal_q = np.where(self.above, goal_p, 0.0), np.where(self.below, goal_q, 0.0)
        w, a = solve(goal_w / at.w - off[0], goal_p / h - goal_q / b - off[1])
        return Iterate(w, a, (goal_w - at.z * w) / at.w, (goal_p + at.p * a) / h, (goal_q - at.q * a) / b)

    def _lengths(self, at: Iterate, way: Iterate) -> tuple[float, float]:
        """How far to go, primal and dual; equally far but in linear programs."""
        h, b = self._ends(at.a)
        primal = min(_room(at.w, way.w), _room(at.p, way.p), _room(at.q, way.q))
        dual = min(_room(at.z, way.z), _room(h, np.where(self.above, -way.a, 0.0)))
        dual = min(dual, _room(b, np.where(self.below, way.a, 0.0)))
        ends = (primal, dual) if self.linear else 2 * (min(primal, dual),)
        return min(1.0, BOUNDARY * ends[0]), min(1.0, BOUNDARY * ends[1])

    def _system(self, E: FloatArray, D: FloatArray) -> Solve:
        """Solutions x, y of ``D x + T^T y = right_x`` and ``T x - E y = right_y``, with positive diagonals D and E."""
        check_deadline()
        T, few = self.T, len(D) <= len(E)
        A = _gram(T, 1.0 / E) if few else _gram(T.T, 1.0 / D)
        diagonal = A.diagonal() + (D if few else E)
        for more in SINGULAR:
            A[np.diag_indices(len(A))] = diagonal * (1.0 + more)
            try:
                factor = scipy.linalg.cho_factor(A, check_finite=False)
                break
            except np.linalg.LinAlgError:
                continue
        else:
            raise FloatingPointError("the system of an interior point is singular")

        def solve(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
            if few:
                found = scipy.linalg.cho_solve(factor, x + T.T @ (y / E), check_finite=False)
                return found, (T @ found - y) / E
            found = scipy.linalg.cho_solve(factor, T @ (x / D) - y, check_finite=False)
            return (x - T.T @ found) / D, found

        return solve


def _gram(T: FloatArray, weights: FloatArray) -> FloatArray:
    """The upper triangle of ``T^T diag(weights) T``, (k, k)."""
    k = T.shape[1]
    out, scaled, parts = np.zeros((k, k)), T * weights[:, None], threads.parts(0.5 * T.size * k, threads.PRODUCT_WORK)
    cuts = threads.cuts(k, parts)

    def rows(part: int) -> None:
        own = slice(cuts[part], cuts[part + 1])
        out[own, cuts[part] :] = scaled[:, own].T @ T[:, cuts[part] :]

    with threads.one_pool():
        threads.run(rows, parts)
    return out


def _room(x: FloatArray, way: FloatArray) -> float:
    """The largest multiple of a way along which numbers stay at least 0."""
    falling = way < 0.0
    return float((x[falling] / -way[falling]).min(initial=math.inf))


def takes(problem: MetricProblem) -> bool:
    """Whether a sum is over weights, of scalar losses and of regularizers whose terms are of one weight each."""
    domain, total = problem.domain, problem.total
    if not domain.diagonal or not all(isinstance(loss, MarginLoss) and not loss.rough for loss in total.losses):
        return False
    k, d = domain.basis.shape
    simple = domain.plain and all(term.over_weights is not None for term in total.regularizers)
    if total.regularizers and not simple:
        return False
    always = sum(loss.size for loss in total.losses if isinstance(loss, MarginLoss) and not lazy(loss).all())
    return always * k <= LARGEST_TABLE and (not total.entrywise or k * d * d <= LARGEST_PRODUCTS)


def lazy(loss: MarginLoss) -> BoolArray:
    """Which losses cost nothing where u is not positive, so they may be left out there, (m,)."""
    return np.asarray((loss.box[0] == 0.0) & (loss.scalar.slopes(np.zeros(loss.size), 1.0) == 0.0))


@solver(MetricProblem, "weights", tol=1e-4, rank=1, when=takes)
def steps(problem: MetricProblem, budget: Budget, tol: float) -> Iterator[Step]:
    """Solve a sum over weights of features, or of given directions, by an interior point method.

    Where losses or weights are many, those that matter are taken in step by step.
    """
    yield Step(problem.zero, problem.objective(problem.zero))
    room = ROOM_SINGLE if problem.X.dtype == np.float32 else ROOM
    program = Program(problem, problem.total.stiffened(1.0, room))
    rows, columns = program.first()
    close, rounds = PROVEN * tol, 0
    enough = close if len(rows) == len(program.offset) and len(columns) == len(program.basis) else 0.1
    while True:
        for w, a in Path(program, rows, columns).follow(enough, budget):
            if not (np.isfinite(a).all() and np.isfinite(w).all()):
                raise OverflowError("multipliers or weights are too large for floats")
            u, slack = program.excess(w), program.slack(a)
            more = _with(rows, np.where(program.lazy, u, 0.0)), _with(columns, -slack / program.lengths)
            whole = len(more[0]) == len(rows) and len(more[1]) == len(columns)
            gap = program.gap(w, u, a, slack)
            if gap <= close or (whole and enough == close):
                step = Step.certified(problem, program.components(w, close), a)
                yield step
                if isinstance(step.certificate, InfeasibilityCertificate):
                    return
        if whole and enough == close:
            return
        if not whole and (rounds := rounds + 1) <= ROUNDS:  # leave out again what does not matter
            matter = ~program.lazy | (u > -program.size) | (a > NEGLIGIBLE[0] * program.high)
            used = (w > NEGLIGIBLE[-1] * w.max()) | (slack < 0.5 * program.cost)
            more = more[0][matter[more[0]]], more[1][used[more[1]]]
        rows, columns, enough = *more, close if whole else max(close, min(enough, 0.1 * gap))


def _with(chosen: Index, wanted: FloatArray) -> Index:
    """Numbers with those that are wanted most beside them, sorted: at most as many again."""
    left = np.setdiff1d(np.flatnonzero(wanted > 0.0), chosen)
    return np.sort(np.concatenate([chosen, left[np.argsort(-wanted[left], kind="stable")[: len(chosen)]]]))
