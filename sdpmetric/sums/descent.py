"""Sums of terms, in a factor of the metric: L-BFGS on smoothed losses, ever less smoothed, with multipliers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize, minimize_scalar

from sdpmetric.core.certificate import InfeasibilityCertificate, Multipliers
from sdpmetric.core.registry import solver
from sdpmetric.core.run import Budget, BudgetSpent, Step
from sdpmetric.sums.bound_terms import ROOM, ROOM_SINGLE, BoundTerms
from sdpmetric.sums.descent_point import Point
from sdpmetric.sums.problem import MetricProblem

FloatArray = NDArray[np.float64]

# Smoothing width, in units of the terms: the first one, the smallest, and what it is multiplied by after a level that
# took few evaluations or as many as are allowed. A large width is easy for a level, and takes more levels.
FIRST, SMALLEST, NARROWER, MIDDLE, WIDER = 0.3, 5e-2, 0.075, 0.3, 8.0
# The width where nothing has a kink, which roots are smoothed by.
SHARPEST = 1e-9
# Evaluations that are few, iterations of a level at most, pairs of vectors that L-BFGS keeps.
FEW, ITERATIONS, MEMORY = 120, 300, 30
# Iterations of the first level where nothing has to be smoothed; each level has twice as many as the one before. With
# LogDet it has ITERATIONS, but ends where the gap is about CLOSE of the tolerance; the next one, of a tenth of that.
FEW_SMOOTH, CLOSE = 30, 0.5
# Logarithms of multiples of a point that are tried.
NEAR = (-0.05, 0.05)
# Levels without a better gap after which the solver stops; without a smaller violation before there is one.
PATIENCE, PATIENCE_INFEASIBLE = 4, 40
# Penalties of hard constraints change by this factor, so many times at most: they grow where a level does not reduce
# what is violated to a share SLOW, and shrink where a descent ends at a slope above a share OFF of the requested gap.
# The room of hard constraints shrinks where it costs more than that share.
STIFFER, CHANGES, SLOW, OFF = 10.0, 40, 0.25, 0.1
# Room of hard constraints as a share of the tolerance, and the smallest.
ROOM_SHARE, SMALLEST_ROOM = 1e-3, 1e-9


@solver(MetricProblem, "factored", tol=1e-4, rank=3)
def steps(
    problem: MetricProblem,
    budget: Budget,
    tol: float,
    *,
    init: FloatArray | None = None,
    multipliers: Multipliers | None = None,
) -> Iterator[Step]:
    """Minimize a sum of terms in a factor of the metric, from components and multipliers if there are any.

    Losses with kinks are smoothed; each level starts from the multipliers of the one before, as the method of
    multipliers does, so the width need not vanish. After each level the problem certifies point and multipliers.
    """
    point, size = Point.of(problem, init), problem.moderate[2]
    yield Step(problem.zero, objective=problem.objective(problem.zero))
    if init is not None:
        yield Step.certified(problem, init, problem.multipliers(init, FIRST))
    room = ROOM_SINGLE if problem.X.dtype == np.float32 else min(ROOM, max(SMALLEST_ROOM, ROOM_SHARE * tol))
    point.total = problem.total.stiffened(size, room)
    penalty = _Penalty()
    center = None if multipliers is None else problem.read_dual(multipliers)
    best, least, idle, close = math.inf, math.inf, 0, CLOSE * tol
    width = FIRST if problem.total.kinked else SHARPEST
    most = ITERATIONS if problem.total.kinked or _barrier(problem) else FEW_SMOOTH
    while idle < (PATIENCE if math.isfinite(best) else PATIENCE_INFEASIBLE):
        spent = budget.spent
        try:
            a, S = _descend(point, width, center, budget, most, close)
        except BudgetSpent:
            L = point.components(point.F)
            yield _certified(problem, L, point.total, point.smoothed(point.F, width, center)[1], width)
            raise
        step = _certified(problem, point.components(point.F), point.total, a, width)
        yield step
        if isinstance(step.certificate, InfeasibilityCertificate):
            return
        gap = step.objective - step.lower_bound if math.isfinite(step.objective) else math.inf
        off = step.certificate.primal_residual if step.certificate is not None else math.inf
        idle = 0 if gap < 0.9 * best or (best == math.inf and off < 0.9 * least) else idle + 1
        least = off if idle == 0 else least
        best, spent = min(best, gap), budget.spent - spent
        share, slope = OFF * tol * abs(step.lower_bound), point.residual(point.F, S) if spent < ITERATIONS else 0.0
        tight = 2.0 * share < _cost_of(room, point.total, a) and SMALLEST_ROOM < room <= ROOM
        if tight:
            room = max(SMALLEST_ROOM, room * share / _cost_of(room, point.total, a))
        if penalty.changes(_moved(point.total, a, center, width), slope > share) or tight:
            point.total, idle = problem.total.stiffened(penalty.stiffness * size, room), 0
        center = a
        if not problem.total.kinked:
            most, close = 2 * most, 0.1 * close
            point.escape(S)
            continue
        easy, wide = spent <= FEW and width > SMALLEST, width > FIRST
        width *= WIDER if spent >= ITERATIONS else NARROWER if easy else MIDDLE if wide else 1.0
        point.escape(S)


@dataclass
class _Penalty:
    """How steep the penalties of hard constraints are, relative to the size of the objective."""

    stiffness: float = 1.0
    moved: float = math.inf
    left: int = CHANGES

    def changes(self, moved: float, failed: bool) -> bool:
        """Whether the stiffness is another one after a level that moved multipliers, or could not descend."""
        before, self.moved = self.moved, moved
        slow = SLOW * before < moved
        if not self.left or not ((failed and moved >= 0.0) or slow):
            return False
        self.stiffness *= 1.0 / STIFFER if failed else STIFFER
        self.left -= 1
        return True


def _moved(total: BoundTerms, a: list[FloatArray], center: list[FloatArray] | None, width: float) -> float:
    """The longest step of a hard constraint's multiplier, as a violation in its unit; negative without any.

    It is how far the constraint is violated, or how far it is from active while its multiplier is positive.
    """
    before = [np.zeros_like(part) for part in a] if center is None else center
    steps = (
        float(np.abs(new - old).max(initial=0.0)) * width / loss.weight
        for loss, new, old in zip(total.losses, a, before, strict=True)
        if loss.hard
    )
    return max(steps, default=-1.0)


def _cost_of(room: float, total: BoundTerms, a: list[FloatArray]) -> float:
    """What the room of hard constraints costs, by their multipliers."""
    return sum(room * loss.unit * float(part.sum()) for loss, part in zip(total.losses, a, strict=True) if loss.hard)


class _CloseEnough(Exception):
    """The gap at the point is about small enough to be proven."""


def _descend(
    point: Point, width: float, center: list[FloatArray] | None, budget: Budget, most: int, close: float
) -> tuple[list[FloatArray], FloatArray]:
    """Minimize at one width in `most` iterations; the slopes and the slack matrix at the end.

    With a weight w of LogDet and losses without kinks, the gap of a point with its slopes is ``w sum(e - log(1 + e))``
    over the eigenvalues e of ``F S F^T / w``, at most ``w |e|^2`` where these are at most 1/2. The descent ends where
    that is a share `close` of the value.
    """
    shape, weight = point.F.shape, _barrier(point.problem)
    # L-BFGS-B compares changes of the value with the larger of it and 1.
    unit = math.ldexp(1.0, -math.frexp(point.problem.moderate[2])[1])

    def evaluate(flat: FloatArray) -> tuple[float, FloatArray]:
        budget.spend()
        F = flat.reshape(shape)
        value, _, S = point.smoothed(F, width, center)
        if not math.isfinite(value):
            back = F - point.F  # to where the objective is finite
            size = unit * abs(lowest[0])
            return unit * lowest[0] + 10.0 * size, (20.0 * size / np.sum(back**2) * back).ravel()
        if value < lowest[0]:
            lowest[0], point.F = value, F.copy()
            residual = point.residual(F, S) if weight else math.inf
            if residual <= 0.5 * weight and residual * residual <= close * weight * abs(value):
                raise _CloseEnough
        return unit * value, unit * point.gradient(F, S).ravel()

    lowest = [math.inf]
    options = {"maxiter": most, "maxfun": 2 * most, "maxcor": MEMORY, "ftol": 1e-16, "gtol": 0.0}
    with suppress(_CloseEnough):
        if point.F.size:
            minimize(evaluate, point.F.ravel(), jac=True, method="L-BFGS-B", options=options)
    _, a, S = point.smoothed(point.F, width, center)
    return a, S


def _barrier(problem: MetricProblem) -> float:
    """The weight of LogDet where it is the only regularizer and no loss has kinks; else 0."""
    total = problem.total
    return (
        total.regularizers[0].weight if total.barrier and not (total.kinked or problem.dual.bounded_by_slopes) else 0.0
    )


def _certified(problem: MetricProblem, L: FloatArray, total: BoundTerms, a: list[FloatArray], width: float) -> Step:
    """A step at the better one of a point and the one that belongs to the multipliers, at its best multiple."""
    dual = problem.state_dual(a)
    if not (np.isfinite(dual).all() and np.isfinite(L).all()):
        raise OverflowError("multipliers or components are too large for floats")
    if not problem.total.kinked:  # the point is stationary
        return Step.certified(problem, problem.settled(L), dual, step_size=width)
    other = problem.dual.minimizer(a)
    value = total.value(L)[0]
    if other is not None and total.value(other)[0] < value:
        L, value = other, total.value(other)[0]

    D = total.distances(L)
    found = minimize_scalar(
        lambda s: min(total.value(math.exp(s) * L, math.exp(2.0 * s) * D)[0], 1e300),
        bounds=NEAR,
        method="bounded",
        options={"xatol": 1e-10},
    )
    if found.fun < min(value, 1e300):
        L = math.exp(float(found.x)) * L
    return Step.certified(problem, L, dual, step_size=width)
