"""Sums of terms in a factor of the metric: L-BFGS on smoothed losses, level by level, with multipliers.

At a level with width g each loss is ``max over a of { a u - l*(a) - g/2 (a - center)^2 }``; its slope a is the dual
candidate. The center of the next level is that slope, as in the method of multipliers, so the gap closes although g
stays above 0. The gap of a point has two parts::

    gap_of_smoothing = F(M) - F_g(M)           which a smaller width makes smaller
    gap_of_descent = F_g(M) - lower bound      which further descent makes smaller, and a larger width makes easy

If a level ends by itself, the second is small, and the width falls. If it takes all its iterations, the second is
large, and the width grows. Sums without kinks have the second alone. Hard constraints are penalties with
multipliers, as steep as these ask for, and hold with some room, so points keep them exactly.

The unknowns F are those in a solver's coordinates T. A factor (r, p) means ``L = F T^T B`` for the basis B of the
domain, roots of weights (k,) mean ``L = diag(F) T^T B``. With the slack matrix S, the gradient of the smoothed sum by
the metric, the gradient by a factor is ``2 L S B^T T``. It does not see the directions that F lacks: those that make S
negative are added to a factor after each level.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from sdpmetric.arrays import SMALLEST_DIVISOR, FloatArray
from sdpmetric.core.certificate import InfeasibilityCertificate, Multipliers
from sdpmetric.core.registry import solver
from sdpmetric.core.steps import Budget, Step
from sdpmetric.engine.lazy import cached
from sdpmetric.engine.threads import BudgetSpent, deadline
from sdpmetric.linalg.distances import times
from sdpmetric.linalg.search import Progress, Stop, lbfgs
from sdpmetric.sums.bound_terms import ROOM, ROOM_SINGLE, BoundTerms
from sdpmetric.sums.domains import ByLoss
from sdpmetric.sums.problem import MetricProblem
from sdpmetric.sums.terms.base import Regularizer

NEGLIGIBLE_ROW = 1e-5  # share of the longest row of a factor: shorter rows are dropped
NEW_ROW = 1e-3  # its share that a new row has
SMALLEST_FALL = 1e-9  # of the slack matrix: directions with eigenvalues below minus this share are added


@dataclass
class DescentPoint(ABC):
    """A metric ``L^T L`` of the domain."""

    problem: MetricProblem
    T: FloatArray
    F: FloatArray
    total: BoundTerms

    @classmethod
    def of(cls, problem: MetricProblem, init: FloatArray | None) -> DescentPoint:
        """Return the components (r, d) to start from: given, or those of the default start."""
        T, multiple, _ = problem.descent_start
        is_diagonal = problem.domain.diagonal
        kind, identity = (Weights, np.ones(len(T))) if is_diagonal else (Factor, np.eye(T.shape[1]))
        point = kind(problem, T, multiple * identity, problem.total)
        if init is not None:
            point.move_to(init)
        return point

    @cached
    def map(self) -> FloatArray:
        """``T^T B``, B the basis of the domain, (p, d)."""
        return self.T.T @ self.problem.domain.basis

    @abstractmethod
    def move_to(self, components: FloatArray) -> None:
        """Start near given components (r, d), with a share of every direction that may lower the objective."""

    @abstractmethod
    def components(self, F: FloatArray) -> FloatArray:
        """Return L in the data's coordinates, (r, d)."""

    @abstractmethod
    def gradient(self, L: FloatArray, S: FloatArray) -> FloatArray:
        """Return the gradient by F, at its components and slack matrix."""

    @abstractmethod
    def escape(self, S: FloatArray) -> None:
        """Drop negligible rows, and add directions that lower the objective."""

    def smoothed(self, F: FloatArray, width: float, center: ByLoss | None) -> tuple[float, ByLoss, FloatArray]:
        """Return the smoothed sum, the slopes of the losses, and the slack matrix (d, d)."""
        return self.total.smoothed(self.components(F), width, center)


class Factor(DescentPoint):
    """A factor: ``L = F T^T B``, F (r, p)."""

    def move_to(self, components: FloatArray) -> None:
        F: FloatArray = np.linalg.lstsq(self.map.T, components.T, rcond=None)[0].T.astype(np.float64)
        if self.problem.total.barrier or not F.any():
            self.F = np.concatenate([F, NEW_ROW * (np.linalg.norm(F) or 1.0) * np.eye(self.T.shape[1])])
        else:
            self.F = F
            self.escape(self.smoothed(F, 1.0, None)[2])

    def components(self, F: FloatArray) -> FloatArray:
        return times(F, self.map)

    def gradient(self, L: FloatArray, S: FloatArray) -> FloatArray:
        return 2.0 * times(L @ S, self.map.T)

    def escape(self, S: FloatArray) -> None:
        if self.problem.total.barrier:
            self._whiten()
            return  # every direction is there already
        S = times(times(S, self.map.T).T, self.map.T)
        size, steepest = float(np.linalg.norm(self.F, 2)) or 1.0, float(np.abs(S).max(initial=0.0))
        eigenvalues, vectors = np.linalg.eigh(S)
        _, sigma, Vt = np.linalg.svd(self.F, full_matrices=False)
        long = sigma > NEGLIGIBLE_ROW * size
        falling = vectors[:, eigenvalues < -SMALLEST_FALL * steepest].T
        self.F = np.concatenate([sigma[long, None] * Vt[long], NEW_ROW * size * falling])

    def _whiten(self) -> None:
        """Choose coordinates that make the metric I: there the curvature of LogDet is I, however long the metric is."""
        R = np.asarray(np.linalg.qr(self.F, mode="r"))
        if R.shape[0] != R.shape[1] or not np.diag(R).all():
            return
        before = self.T, self.F
        self.T, self.F = self.T @ R.T, np.eye(len(R))
        self.__dict__.pop("map", None)
        if not math.isfinite(self.smoothed(self.F, 1.0, None)[0]):  # by rounding of extreme numbers
            self.T, self.F = before
            self.__dict__.pop("map", None)


class Weights(DescentPoint):
    """Roots of weights: ``M = sum_j F_j^2 b_j b_j^T``, b the rows of ``T^T B``, F (k,)."""

    def move_to(self, components: FloatArray) -> None:
        weights = self.problem.domain.combination(components.T @ components)
        roots = np.sqrt(weights) / np.maximum(np.diag(self.T), SMALLEST_DIVISOR)
        self.F = np.asarray(roots + NEW_ROW * (float(roots.max()) or 1.0))

    def components(self, F: FloatArray) -> FloatArray:
        return F[:, None] * self.map

    def gradient(self, L: FloatArray, S: FloatArray) -> FloatArray:
        return np.asarray(2.0 * np.einsum("ij,ij->i", L @ S, self.map))

    def escape(self, S: FloatArray) -> None:
        S = np.einsum("ij,ij->i", self.map @ S, self.map)
        size, steepest = float(np.abs(self.F).max(initial=0.0)) or 1.0, float(np.abs(S).max(initial=0.0))
        falling = (np.abs(self.F) < NEW_ROW * size) & (S + SMALLEST_FALL * steepest < 0.0)
        self.F = np.where(falling, NEW_ROW * size, self.F)


@dataclass(frozen=True)
class DescentOptions:
    """Knobs of the solver "factored"; widths are in units of the terms."""

    first_width: float = 0.3
    min_width: float = 5e-2
    smooth_width: float = 1e-9  # of roots, if no loss has a kink
    width_ratio: float = 4.0  # growth after a level that took all its iterations, and fall after another level
    iterations: int = 300  # of a level at most
    smooth_iterations: int = 30  # of the first level, if nothing has a kink and no gap ends it; then twice as many
    memory: int = 30  # pairs of steps and gradients that L-BFGS keeps
    large_memory: int = 10  # the same of factors with more entries than the next number, whose pairs take time
    large_factor: int = 50_000
    gap_share: float = 0.5  # without kinks the first level ends at this share of the tolerance, each later at a tenth
    check_ratio: float = 1.25  # growth of the iterations from one check of the gap to the next
    patience: int = 4  # levels without a smaller gap before it stops
    infeasible_patience: int = 40  # levels before a feasible point is known
    penalty_ratio: float = 10.0  # of the stiffness of penalties and the one before
    penalty_changes: int = 40
    slow_violation: float = 0.25  # share of a violation: a level that leaves more makes penalties stiffer
    room_share: float = 1e-3  # of the tolerance: room of hard constraints, in their units
    min_room: float = 1e-9


OPTIONS = DescentOptions()


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

    After each level the problem certifies the point and its multipliers. The solver stops if `patience` levels have
    not made the gap smaller.
    """
    options, has_kinks, point = OPTIONS, problem.total.kinked, DescentPoint.of(problem, init)
    yield Step(problem.zero, objective=problem.objective(problem.zero))
    if init is not None:
        yield Step.certified(problem, init, problem.multipliers(init, options.first_width))
    penalty = Penalty.of(problem, tol)
    point.total = penalty.total
    center = None if multipliers is None else problem.read_dual(multipliers)
    width, close = options.first_width if has_kinks else options.smooth_width, options.gap_share * tol
    iterations = options.iterations if has_kinks or _sole_regularizer(problem) else options.smooth_iterations
    progress = Progress()
    if _sole_regularizer(problem):
        point.total = penalty.total.in_single_precision(tol)
    # Without kinks nothing is hard, every point is feasible, and levels take twice as long each time.
    while progress.idle_rounds < (
        options.infeasible_patience if has_kinks and math.isinf(progress.smallest_gap) else options.patience
    ):
        try:
            a, S, n_evaluations, reason = _descend(point, width, center, budget, iterations, close)
        except (BudgetSpent, KeyboardInterrupt):
            with deadline(math.inf):
                L = problem.normalized(point.components(point.F))
                step = Step(L, objective=problem.objective(L), step_size=width)
            yield step
            raise
        step = replace(_certified(point, a, width), stop=reason)
        yield step
        if isinstance(step.certificate, InfeasibilityCertificate):
            return
        point.total = penalty.total
        progress.record(step.objective - step.lower_bound if math.isfinite(step.objective) else math.inf)
        took_all = n_evaluations >= options.iterations
        if penalty.is_stiffer_after(a, center, width):
            point.total, progress.idle_rounds = penalty.total, 0
        center = a
        if not has_kinks:
            iterations, close = 2 * iterations, 0.1 * close
        elif took_all:
            width *= options.width_ratio
        elif width > options.min_width:
            width /= options.width_ratio
        point.escape(S)


@dataclass
class Penalty:
    """The penalties that stand for hard constraints: how steep they are, and the room that they leave."""

    problem: MetricProblem
    room: float  # in units of the constraints
    stiffness: float = 1.0  # relative to the size of the objective
    violation: float = math.inf  # the largest one that the last level left; see `_violation`
    changes_left: int = OPTIONS.penalty_changes
    total: BoundTerms = field(init=False)  # the sum with these penalties

    def __post_init__(self) -> None:
        self.total = self.problem.total.stiffened(self.stiffness * self.problem.descent_start[2], self.room)

    @classmethod
    def of(cls, problem: MetricProblem, tol: float) -> Penalty:
        room = min(ROOM, max(OPTIONS.min_room, OPTIONS.room_share * tol))
        return cls(problem, ROOM_SINGLE if problem.X.dtype == np.float32 else room)

    def is_stiffer_after(self, a: ByLoss, center: ByLoss | None, width: float) -> bool:
        """Make penalties stiffer, and return True, if a level that ended at a hardly reduced the violation."""
        before, self.violation = self.violation, _violation(self.total, a, center, width)
        if not self.changes_left or self.violation <= OPTIONS.slow_violation * before:
            return False
        self.stiffness, self.changes_left = OPTIONS.penalty_ratio * self.stiffness, self.changes_left - 1
        self.__post_init__()
        return True


def _violation(total: BoundTerms, a: ByLoss, center: ByLoss | None, width: float) -> float:
    """Return the longest step of a hard constraint's multiplier, as a violation in its unit; negative without any.

    It is how far the constraint is violated, or how far it is from active while its multiplier is positive.
    """
    before = list(map(np.zeros_like, a)) if center is None else center
    violations = (
        float(np.abs(new - old).max(initial=0.0)) * width / loss.weight
        for loss, new, old in zip(total.losses, a, before, strict=True)
        if loss.hard
    )
    return max(violations, default=-1.0)


def _descend(
    point: DescentPoint, width: float, center: ByLoss | None, budget: Budget, iterations: int, close: float
) -> tuple[ByLoss, FloatArray, int, Stop]:
    """Minimize at one width, and leave the point at the best factor.

    Returns its slopes, slack matrix, the number of evaluations, and why the level ended.

    Without kinks the gap of a factor with its slopes a is ``<S(a), M> + r(M)`` at the factor minus its minimum. If a
    regularizer bounds that, descent ends if the gap is at most the share `close` of the value.
    """
    shape, regularizer, before = point.F.shape, _sole_regularizer(point.problem), budget.spent
    # L-BFGS-B compares changes of the value with the larger of it and 1.
    unit = math.ldexp(1.0, -math.frexp(point.problem.descent_start[2])[1])
    a, S, reason = list[FloatArray](), point.F, Stop.NONE
    lowest, last, n_iterations, next_check = math.inf, math.inf, 0, 3.0

    def evaluate(flat: FloatArray) -> tuple[float, FloatArray]:
        nonlocal lowest, a, S
        budget.spend()
        F = flat.reshape(shape)
        L = point.components(F)
        value, slopes, slack = point.total.smoothed(L, width, center)
        if not math.isfinite(value):  # a parabola that leads back to finite objectives
            direction, size = F - point.F, unit * abs(lowest)
            return unit * lowest + 10.0 * size, (20.0 * size / np.sum(direction**2) * direction).ravel()
        if value < lowest:
            lowest, point.F, a, S = value, F.copy(), slopes, slack
        return unit * value, unit * point.gradient(L, slack).ravel()

    def stop(flat: FloatArray, value: float) -> Stop:
        nonlocal n_iterations, next_check, last
        n_iterations, fall, last, tolerance = n_iterations + 1, last - lowest, lowest, close * abs(lowest)
        if regularizer is None or n_iterations < next_check:
            return Stop.NONE
        next_check = OPTIONS.check_ratio * n_iterations
        if fall > tolerance:  # as a rule the gap is still larger
            return Stop.NONE
        gradient = point.problem.domain.restricted(S)
        is_close = regularizer.inner_gap(point.components(point.F), gradient, tolerance) <= tolerance
        return Stop.TOLERANCE if is_close else Stop.NONE

    memory = OPTIONS.memory if point.F.size <= OPTIONS.large_factor else OPTIONS.large_memory
    limits = {"maxiter": iterations, "maxfun": 2 * iterations, "maxcor": memory, "ftol": 1e-16}
    if point.F.size:
        reason = lbfgs(evaluate, point.F.ravel(), stop=stop, **limits)[1]
    if math.isinf(lowest):
        _, a, S = point.smoothed(point.F, width, center)
    return a, S, budget.spent - before, reason


def _sole_regularizer(problem: MetricProblem) -> Regularizer | None:
    """Return the regularizer, if it is the only one and no loss has kinks."""
    return None if problem.total.kinked or problem.dual.bounded_by_slopes else problem.dual.minimized


def _certified(point: DescentPoint, a: ByLoss, width: float) -> Step:
    """Return a step at the better one of a point and the one that belongs to the multipliers."""
    problem, total, L = point.problem, point.total, point.components(point.F)
    dual = problem.state_dual(a)
    if not (np.isfinite(dual).all() and np.isfinite(L).all()):
        raise OverflowError("multipliers or components are too large for floats")
    if not problem.total.kinked:  # the point is stationary
        return replace(Step.certified(problem, problem.normalized(L), dual), step_size=width)
    minimizer = problem.dual.minimizer(a)
    if minimizer is not None and total.value(minimizer)[0] < total.value(L)[0]:
        L = minimizer
    return replace(Step.certified(problem, L, dual), step_size=width)
