"""Sums of scalar losses with one Frobenius term, on their dual: its unknowns are the multipliers alone.

With ``Q(a) = w M0 - S(a)`` the dual is, up to a constant::

    g(a) = <a, c> - sum_i l_i*(a_i) - ||[Q(a)]_+||^2 / (2 w),      lowest <= a <= highest

and ``M(a) = [Q(a)]_+ / w`` is the metric that belongs to a. Every a in the box is dual feasible, and the gradient of g
is the excess of the losses at M(a) minus the excess that gives them the slope a. L-BFGS-B finds about which multipliers
are at their bounds. Newton's method takes over, on ``g(a) - rho / 2 ||(a - center) / units||^2``, since optimal
multipliers are not unique in general and the Hessian of g is singular. It is ``-(F F^T + diag(l*''))``, and row i of
F has the entries ``sqrt(omega_jk / w) (V^T A_i V)_jk`` for the eigenvectors V of Q and the derivative omega of the
projection onto the cone. rho falls from center to center. See ``docs/terms.md``.

*Losses without kinks.* With C the costs, the metric of multipliers c is the positive part of ``Q(c) = T - sum_i c_i A_i
/ w``, ``T = M0 - C / w``. From c steps lead toward the slopes of the losses at that metric, and along the last step. On
the face of metrics with ``E^T M E = 0``, E being the eigenvectors of Q(c) with negative eigenvalues, the metric ``Q - E
E^T Q E E^T`` is affine in the lengths of both, as are the numbers of the losses, so Newton's method costs next to
nothing (`MultiplierSpan`). Points are few, as with conjugate gradients, and each takes one product with the differences
and one with their transpose.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import Bounds

from sdpmetric.arrays import FloatArray
from sdpmetric.core.certificate import InfeasibilityCertificate, Multipliers, relative_gap
from sdpmetric.core.registry import solver
from sdpmetric.core.steps import Budget, Step
from sdpmetric.engine.lazy import cached
from sdpmetric.engine.threads import BudgetSpent
from sdpmetric.linalg import psd
from sdpmetric.linalg.distances import distances
from sdpmetric.linalg.search import GAP_SHARE, Progress, Stop, lbfgs
from sdpmetric.sums.bound_terms import ROOM, BoundTerms, MarginSum, concatenated
from sdpmetric.sums.problem import MetricProblem
from sdpmetric.sums.terms.norms import Frobenius


@dataclass(frozen=True)
class DualOptions:
    """Knobs of the solver "dual"."""

    first_evaluations: int = 25  # of the first round of L-BFGS-B; each round has twice as many as the one before
    max_evaluations: int = 800  # of a round
    max_rounds: int = 100
    patience: int = 3  # rounds without a smaller gap before it stops
    newton_from: int = 100  # evaluations of a round until the relevant multipliers are known
    centers: int = 12  # of the proximal term, in a round
    steps_per_center: int = 12
    first_rho: float = 1e-2  # weight of the proximal term, in units of curvature at most 1 along each multiplier
    rho_ratio: float = 0.1  # from center to center
    min_rho: float = 1e-14
    center_accuracy: float = 1e-2  # a step below this share of the way from the center ends the search for the next one
    max_equations: int = 2500  # of a Newton step
    max_root_entries: int = 5 * 10**7  # of the root F of the curvature: 400 MB
    step_lengths: int = 8  # step lengths to try along a Newton direction
    step_ratio: float = 0.4  # of a length and the one before
    active_sets: int = 12  # that the model of a Newton step tries
    bound_band: float = 1e-3  # share of the largest multiplier: multipliers so near a bound may count as at it
    armijo: float = 1e-4  # share of the ascent that the gradient promises which a step has to bring
    rounding: float = 1e-14  # of dual values, relative to the numbers they are the difference of
    partial_spectrum: float = 0.1  # largest share of negative eigenvalues to compute these alone
    room_share: float = 1e-3  # of the tolerance: room of hard constraints, in their units
    min_room: float = 1e-9
    room_growth: float = 10.0  # if no metric of the multipliers satisfies them
    max_room: float = 1e-2  # share of the tolerance


OPTIONS = DualOptions()
Spectrum = tuple[FloatArray, FloatArray]  # eigenvalues (d,) and eigenvectors (d, d)


def takes(problem: MetricProblem) -> bool:
    """Return whether a sum has one Frobenius term, and scalar losses with conjugates of finite slope."""
    losses = problem.total.losses
    return _is_near_one(problem) and all(loss.scalar.boxed and not loss.scalar.steep for loss in losses)


def takes_span(problem: MetricProblem) -> bool:
    """Return whether a sum has one Frobenius term, and distances with smooth losses of slopes within their limits."""
    losses = problem.total.losses
    is_smooth = all(loss.scalar.steep and not loss.depends_on_entries for loss in losses)
    return bool(losses) and is_smooth and _is_near_one(problem)


def _is_near_one(problem: MetricProblem) -> bool:
    """Return whether all metrics are allowed, and one Frobenius term is the only strictly convex one."""
    is_alone = len(problem.total.regularizers) == 1 and isinstance(problem.dual.minimized, Frobenius)
    return is_alone and not problem.domain.diagonal


def turn(problem: MetricProblem) -> int:
    """Go before "factored" if the dual is the smaller problem, or kinked losses are few enough for Newton's method."""
    is_small = problem.total.kinked and problem.total.n_multipliers <= OPTIONS.max_equations
    return 2 if is_small or _is_smaller(problem) else 4


def span_turn(problem: MetricProblem) -> int:
    """Go before "factored" if the dual is the smaller problem, else only by name: then it takes as many points."""
    return 2 if _is_smaller(problem) else 0


def _is_smaller(problem: MetricProblem) -> bool:
    """Return whether there are fewer multipliers than entries of the metric."""
    k = len(problem.domain.basis)
    return 2 * problem.total.n_multipliers <= k * (k + 1)


@dataclass(frozen=True, eq=False)
class DualPoint:
    """Multipliers (m,), the dual and its gradient there, and the metric that belongs to them, (d, d).

    The spectrum, if computed, is that of the matrix that has the metric as its positive part.
    """

    multipliers: FloatArray
    value: float
    gradient: FloatArray
    metric: FloatArray
    primal: Callable[[], float]
    spectrum: Spectrum | None = None

    @cached
    def objective(self) -> float:
        """The sum at the metric."""
        return self.primal()

    @property
    def gap(self) -> float:
        """The relative gap in floats, 0 if rounding puts the dual above the objective."""
        return relative_gap(self.objective, min(self.value, self.objective))


class SumDual(MarginSum):
    """The dual of a sum; `n_negative` counts the eigenvalues of the last Q that were not positive."""

    best: DualPoint | None

    def __init__(self, total: BoundTerms) -> None:
        """Take a sum, its hard constraints with room."""
        super().__init__(total)
        self.n_negative, self.rho, self.best = 0, OPTIONS.first_rho, None
        (regularizer,), zero = total.regularizers, np.zeros((0, total.centered.shape[1]))
        # w M0 minus the costs, and w/2 |M0|^2.
        self.target = -regularizer.gradient(zero) - self.costs
        self.weight, self.constant = regularizer.weight, regularizer.value(zero)

    @cached
    def combination(self) -> sp.csr_array:
        """The matrix K with ``u = offset + K D`` over all pairs, (m, p)."""
        K = [sp.csr_array((0, len(self.total.costs[1]))), *(loss.combination for loss in self.losses)]
        return sp.csr_array(sp.block_diag(K))

    @cached
    def units(self) -> FloatArray:
        """Units of the multipliers that make the curvature along each at most about 1, (m,)."""
        norms = abs(self.combination) @ distances(*self.total.points)  # not below those of the matrices A_i
        return np.where(norms > 0.0, math.sqrt(self.weight) / np.maximum(norms, 1e-100), 1.0)

    def positive_part(self, Q: FloatArray, spectrum: Spectrum | None = None) -> FloatArray:
        """Return the PSD part of a symmetric matrix; if few of its eigenvalues were negative, only compute these."""
        if spectrum is None and self.n_negative <= OPTIONS.partial_spectrum * len(Q):
            values, V = scipy.linalg.eigh(Q, subset_by_value=(-np.inf, 0.0), driver="evr", check_finite=False)
            self.n_negative = len(values)
            return np.asarray(Q - (V * values) @ V.T)
        values, V = np.linalg.eigh(Q) if spectrum is None else spectrum
        self.n_negative = int(np.count_nonzero(values <= 0.0))
        return np.asarray((V * np.maximum(values, 0.0)) @ V.T)

    def evaluate(self, a: FloatArray, *, spectrum: bool = False) -> DualPoint:
        """Return the dual at multipliers of the box, (m,); with the spectrum on request."""
        Q = self.target - self.matrix(a)
        eigen = np.linalg.eigh(Q) if spectrum else None
        M = self.positive_part(Q, eigen) / self.weight
        excess, half_square = self.offset + self.numbers(M), 0.5 * self.weight * float(np.sum(M * M))
        rows = list(zip(self.losses, self.total.split(a), self.total.split(excess), strict=True))
        gradient = concatenated(u - loss.conjugate_slopes(slopes) for loss, slopes, u in rows)
        conjugates = [float(loss.conjugates(slopes).sum()) for loss, slopes, _ in rows]
        value = math.fsum([float(a @ self.offset), self.constant, -half_square, *(-value for value in conjugates)])

        def primal() -> float:
            squares = half_square + self.constant - float(np.sum(M * self.target))
            return squares + math.fsum(loss.value(u) for loss, _, u in rows)

        point = DualPoint(a, value, gradient, M, primal, eigen)
        if self.best is None or point.value > self.best.value:
            self.best = point
        return point

    def ascend(self, a: FloatArray, budget: Budget, evaluations: int, gap_tol: float = 0.0) -> DualPoint:
        """Return the best point of some evaluations of L-BFGS-B, or the first with a relative gap up to `gap_tol`."""
        lowest, highest, units, largest = self.low, self.high, self.units, np.finfo(np.float64).max
        best = self.evaluate(np.clip(a, lowest, highest))

        def negative(scaled: FloatArray) -> tuple[float, FloatArray]:
            nonlocal best
            budget.spend()
            point = self.evaluate(np.clip(units * scaled, lowest, highest))
            if point.value > best.value:
                best = point
            return -point.value, -units * point.gradient

        if not len(a) or (gap_tol and best.gap <= gap_tol):
            return best
        box = Bounds(np.minimum(lowest / units, largest), np.maximum(highest / units, -largest))
        limits = {"maxfun": evaluations, "maxiter": evaluations, "ftol": 1e-16}

        def stop(scaled: FloatArray, value: float) -> Stop:
            return Stop.TOLERANCE if gap_tol and best.gap <= gap_tol else Stop.NONE

        lbfgs(negative, best.multipliers / units, stop=stop, bounds=box, **limits)
        return best

    def newton(self, a: FloatArray, budget: Budget) -> Iterator[DualPoint]:
        """Yield iterates of the proximal point method, each center found by projected semismooth Newton steps."""
        point = self.evaluate(a, spectrum=True)
        yield point
        for _ in range(OPTIONS.centers):
            center = point.multipliers
            for _ in range(OPTIONS.steps_per_center):
                ascended = self._newton_step(point, center, budget)
                if ascended is None:
                    break
                step = float(np.linalg.norm((ascended.multipliers - point.multipliers) / self.units))
                distance = float(np.linalg.norm((point.multipliers - center) / self.units))
                point = ascended
                yield point
                if step <= OPTIONS.center_accuracy * distance:
                    break
            self.rho = max(OPTIONS.min_rho, OPTIONS.rho_ratio * self.rho)

    def _newton_step(self, point: DualPoint, center: FloatArray, budget: Budget) -> DualPoint | None:
        """Take one projected Newton step on the dual with its proximal term, or return None if it does not rise.

        Multipliers near a bound go there first if their gradient points at it: projection then does not distort the
        rest of the step (Bertsekas 1982).
        """
        a, units, rho, lowest, highest = point.multipliers, self.units, self.rho, self.low, self.high

        def proximal_term(multipliers: FloatArray) -> float:
            return 0.5 * rho * float(np.sum(((multipliers - center) / units) ** 2))

        gradient = units * point.gradient - rho * (a - center) / units
        projected_gradient = (np.clip(a + units * gradient, lowest, highest) - a) / units
        size = float((np.where(np.isfinite(highest), highest, np.abs(a)) / units).max(initial=0.0))
        band = min(OPTIONS.bound_band * size, float(np.linalg.norm(projected_gradient))) * units
        at_lowest = (a - lowest <= np.minimum(band, 0.5 * (highest - lowest))) & (gradient <= 0.0)
        at_highest = (a >= highest - band) & (gradient >= 0.0)
        free = np.flatnonzero(~(at_lowest | at_highest))
        direction = np.where(at_highest, highest - a, 0.0)
        direction[at_lowest] = lowest[at_lowest] - a[at_lowest]
        if len(free):
            F = self._curvature_root(point, free)
            if F is None or not np.isfinite(np.sum(F * F) + np.sum(gradient)):  # products of such data overflow
                return None
            box = ((lowest - a) / units)[free], ((highest - a) / units)[free]
            diagonal = rho + (self.conjugate_curvatures * units**2)[free]
            direction[free] = units[free] * _minimize_in_box(F, diagonal, gradient[free], *box)
        rounding = OPTIONS.rounding * (abs(point.value) + float(np.abs(a).sum()))
        value = point.value - proximal_term(a)
        for trial in range(OPTIONS.step_lengths):
            multipliers = np.clip(a + OPTIONS.step_ratio**trial * direction, lowest, highest)
            promised = float(gradient @ ((multipliers - a) / units))
            if promised <= 0.0:
                continue
            budget.spend()
            ascended = self.evaluate(multipliers, spectrum=True)
            if ascended.value - proximal_term(multipliers) - value >= OPTIONS.armijo * promised - rounding:
                return ascended
        return None

    def _curvature_root(self, point: DualPoint, free: NDArray[np.intp]) -> FloatArray | None:
        """Return the root F of the curvature by some multipliers, in units, (f, .), or None if it is too large."""
        if point.spectrum is None:
            return None
        values, V = point.spectrum
        d, rank = len(values), int(np.count_nonzero(values > 0.0))
        entries = rank * (2 * d - rank + 1) // 2  # of the projection's derivative that are not 0
        if min(len(free), entries) > OPTIONS.max_equations or len(free) * entries > OPTIONS.max_root_entries:
            return None
        (Y, first, second), K = self.total.points, self.combination[free]
        row, column, omega = psd.projection_slopes(values)
        pairs = np.unique(K.indices)
        U = (Y[first[pairs]] - Y[second[pairs]]) @ V
        F = np.asarray(K[:, pairs] @ (U[:, row] * U[:, column]))
        F *= np.sqrt(omega / self.weight)
        F *= self.units[free, None]
        return F


def _minimize_in_box(
    F: FloatArray, diagonal: FloatArray, linear: FloatArray, low: FloatArray, high: FloatArray
) -> FloatArray:
    """Minimize ``x^T (F F^T + diag(diagonal)) x / 2 - linear^T x`` in a box around 0, by a primal-dual active set.

    With more rows than columns of F the equations are those of Woodbury's identity.
    """
    x, free = np.zeros_like(linear), np.ones(len(linear), dtype=np.bool_)
    gram = F @ F.T if F.shape[0] <= F.shape[1] else None
    squared_norm = np.sum(F * F)
    for _ in range(OPTIONS.active_sets):
        x[free] = 0.0
        residual, weights = (linear - F @ (F.T @ x))[free], diagonal[free]
        if not np.isfinite(squared_norm + np.abs(residual).sum()):
            raise OverflowError("multipliers or products of differences are too large for floats")
        if gram is not None:
            x[free] = cho_solve(cho_factor(gram[np.ix_(free, free)] + np.diag(weights)), residual)
        else:
            scaled = F[free] / weights[:, None]
            capacitance = np.eye(F.shape[1]) + F[free].T @ scaled
            x[free] = residual / weights - scaled @ cho_solve(cho_factor(capacitance), scaled.T @ residual)
        slope = linear - F @ (F.T @ x) - diagonal * x
        pulled_in = ((x <= low) & (slope > 0.0)) | ((x >= high) & (slope < 0.0))
        inside = np.where(free, (x > low) & (x < high), pulled_in)
        x = np.clip(x, low, high)
        if (inside == free).all():
            break
        free = inside
    return x


@solver(MetricProblem, "dual", tol=1e-4, rank=turn, takes=takes)
def steps(
    problem: MetricProblem,
    budget: Budget,
    tol: float,
    *,
    init: FloatArray | None = None,
    multipliers: Multipliers | None = None,
) -> Iterator[Step]:
    """Solve a sum of scalar losses with one Frobenius term on its dual, from components or multipliers.

    L-BFGS-B and Newton's method take turns. They need the metric only as the positive part of one (d, d) matrix. If
    that has few negative eigenvalues, L-BFGS-B computes only these.
    """
    yield Step(problem.zero, objective=problem.objective(problem.zero))
    has_hard = any(loss.hard for loss in problem.total.losses)
    room = min(ROOM, max(OPTIONS.min_room, OPTIONS.room_share * tol))
    dual = SumDual(problem.total.stiffened(1.0, room) if has_hard else problem.total)
    if multipliers is None:
        L = psd.factor(dual.positive_part(dual.target) / dual.weight) if init is None else init
        a = concatenated(problem.total.slopes(L, 1.0))
    else:
        a = concatenated(problem.read_dual(multipliers))
    while True:
        try:
            a, is_done = yield from _rounds(problem, dual, a, budget, tol)
        except (BudgetSpent, KeyboardInterrupt):
            if dual.best is not None:
                yield _step(dual.best)
            raise
        if is_done or not has_hard or room >= OPTIONS.max_room * tol:
            return
        room = OPTIONS.room_growth * room  # a metric at the optimum misses constraints by the rounding of multipliers
        dual = SumDual(problem.total.stiffened(1.0, room))


def _rounds(
    problem: MetricProblem, dual: SumDual, a: FloatArray, budget: Budget, tol: float
) -> Generator[Step, None, tuple[FloatArray, bool]]:
    """Yield steps until the gap no longer falls; return the last multipliers, and whether more rounds are useless."""
    progress, evaluations = Progress(), OPTIONS.first_evaluations
    for _ in range(OPTIONS.max_rounds):
        point = dual.ascend(a, budget, evaluations, GAP_SHARE * tol)
        if evaluations >= OPTIONS.newton_from:
            newton_points = dual.newton(point.multipliers, budget)
            while point.gap > GAP_SHARE * tol and (ascended := next(newton_points, None)) is not None:
                point = ascended
        a, evaluations = point.multipliers, min(2 * evaluations, OPTIONS.max_evaluations)
        progress.record(point.objective - point.value if math.isfinite(point.objective) else math.inf)
        step, is_closed = _step(point), point.gap <= GAP_SHARE * tol
        if progress.idle_rounds or point.gap <= tol or not math.isfinite(point.objective):
            step = Step.certified(problem, step.components, a)
        yield replace(step, stop=Stop.TOLERANCE if is_closed else Stop.STALLED if progress.idle_rounds else Stop.LIMIT)
        if isinstance(step.certificate, InfeasibilityCertificate):
            return a, True
        if progress.idle_rounds >= OPTIONS.patience:
            break
    return a, math.isfinite(progress.smallest_gap)


def _step(point: DualPoint) -> Step:
    bound, multipliers = min(point.value, point.objective), partial(np.copy, point.multipliers)
    return Step(psd.factor(point.metric), objective=point.objective, lower_bound=bound, multipliers=multipliers)


# -- losses without kinks, in the span of multipliers ------------------------------------------------------------------


@dataclass(frozen=True)
class SpanOptions:
    """Knobs of the solver "span"."""

    nearness: float = 0.1  # weight of the way from the last point, as few steps may be left on its face
    newton_steps: int = 8  # at most, in the lengths of two steps
    smallest_decrease: float = 1e-3  # that a Newton step has to promise, as a share of the tolerance times the sum
    step_lengths: int = 10  # that are tried, each half of the one before
    near_gap: float = 5.0  # times the tolerance: the gap from which eigenvalues are worth a better bound
    patience: int = 3  # points without a smaller gap before it stops


SPAN = SpanOptions()
MultiplierStep = tuple[FloatArray, FloatArray, FloatArray]  # multipliers (m,), their matrix (d, d), its numbers (m,)


class MultiplierSpan(MarginSum):
    """Multipliers with the metric that belongs to them, and steps to better ones; see the head of this file."""

    def __init__(self, total: BoundTerms, tol: float) -> None:
        super().__init__(total)
        (regularizer,), zero = total.regularizers, np.zeros((0, total.centered.shape[1]))
        self.tol, self.weight, self.constant = tol, regularizer.weight, regularizer.value(zero)
        self.target = (-regularizer.gradient(zero) - self.costs) / self.weight  # T
        self.multipliers, self.slack = np.zeros(len(self.offset)), np.zeros_like(self.target)  # c, and its matrix
        self.numbers_of_Q = self.offset + self.numbers(self.target)
        self.last_step: MultiplierStep | None = None
        self._move_to_metric()

    def _move_to_metric(self) -> None:
        """Take the positive part of Q as the metric, and the losses with their slopes there."""
        Q, Y = self.target - self.slack / self.weight, self.total.points[0]
        if not np.isfinite(Q).all():
            raise OverflowError("multipliers or products of differences are too large for floats")
        values, self.null = scipy.linalg.eigh(Q.astype(Y.dtype), subset_by_value=(-np.inf, 0.0), check_finite=False)
        root = self.null * np.sqrt(-values)
        self.metric, self.excess = Q + root @ root.T, self.numbers_of_Q
        if len(values):
            self.excess = self.excess + self.numbers(np.eye(len(values)), Y @ root)
        self.loss, self.slopes = self._losses(self.excess)

    def _losses(self, excess: FloatArray) -> tuple[float, FloatArray]:
        """Return the losses and their slopes, (m,)."""
        smoothed = [loss.smoothed(u, 1.0) for loss, u in zip(self.losses, self.total.split(excess), strict=True)]
        return math.fsum(value for value, _ in smoothed), concatenated(slopes for _, slopes in smoothed)

    def step_toward(self, a: FloatArray, A: FloatArray) -> None:
        """Move to the best metric along the way to multipliers a with the matrix A, and along the last step."""
        difference = (A - self.slack).astype(self.total.centered.dtype)
        steps = [(a - self.multipliers, difference, self.numbers(difference))]
        if self.last_step is not None:
            steps.append(self.last_step)
        lengths = np.eye(len(steps))[0]
        if self.null.shape[1] < len(self.null):  # else the face holds the metric 0 alone
            lengths = self._best_lengths([A for _, A, _ in steps], np.stack([u for _, _, u in steps]))
        multipliers, matrix, numbers = (np.tensordot(lengths, changes, 1) for changes in zip(*steps, strict=True))
        self.last_step = multipliers, matrix.astype(difference.dtype), numbers
        self.multipliers, self.slack = self.multipliers + multipliers, self.slack + matrix
        self.numbers_of_Q = self.numbers_of_Q - numbers / self.weight
        self._move_to_metric()

    def _best_lengths(self, matrices: list[FloatArray], numbers: FloatArray) -> FloatArray:
        """Minimize over the lengths of steps by Newton's method, on the face of the metric."""
        E, w, from_target = self.null, self.weight, self.metric - self.target
        flat = np.stack([A.ravel() for A in matrices]).astype(np.float64)
        gram, pull = flat @ flat.T, flat @ from_target.ravel()
        nearness = SPAN.nearness * gram
        if E.shape[1]:
            Z, on_face = self.total.points[0] @ E, [E.T @ A @ E for A in matrices]
            numbers = numbers - np.stack([self.numbers(A, Z) for A in on_face])
            flat = np.stack([A.ravel() for A in on_face]).astype(np.float64)
            gram, pull = gram - flat @ flat.T, pull - flat @ (E.T @ from_target @ E).ravel()
        gram = gram + nearness

        def evaluate(lengths: FloatArray) -> tuple[float, FloatArray]:
            value, slopes = self._losses(self.excess - lengths @ numbers / w)
            return value + float(0.5 * lengths @ gram @ lengths / w - lengths @ pull), slopes

        lengths, value, slopes = np.zeros(len(matrices)), self.loss, self.slopes
        for _ in range(SPAN.newton_steps):
            by_loss = zip(self.losses, self.total.split(slopes), strict=True)
            inverse = concatenated(loss.conjugate_curvatures(a) for loss, a in by_loss)
            curvature = np.divide(1.0, inverse, out=np.zeros_like(inverse), where=inverse > 0.0)
            gradient = (gram @ lengths - numbers @ slopes) / w - pull
            hessian = (numbers * curvature) @ numbers.T / w**2 + gram / w
            if not (np.isfinite(hessian).all() and np.isfinite(gradient).all()):
                raise OverflowError("multipliers or products of differences are too large for floats")
            step = np.linalg.lstsq(hessian, -gradient)[0]
            promised = -float(gradient @ step)
            if not promised > SPAN.smallest_decrease * self.tol * abs(value):
                break
            for share in 0.5 ** np.arange(SPAN.step_lengths):
                following = evaluate(lengths + share * step)
                if following[0] <= value - OPTIONS.armijo * share * promised:
                    break
            else:
                break
            lengths, (value, slopes) = lengths + share * step, following
        return lengths

    def point(self, A: FloatArray) -> DualPoint:
        """Return the metric with its sum, and about the better dual value of c and of the slopes, whose matrix A is.

        That of the slopes is first for the multiplier of the cone at the metric, and for the best one if that is near
        the sum. Clipping of c counts to first order. As a is a slope at u, ``l*(a) = a u - l(u)``.
        """
        c, a, w, M = self.multipliers, self.slopes, self.weight, self.metric
        clipped = np.clip(c, self.low, self.high)
        by_loss = zip(self.losses, self.total.split(clipped), strict=True)
        conjugates = math.fsum(float(loss.conjugates(slopes).sum()) for loss, slopes in by_loss)
        squares = 0.5 * w * float(np.vdot(M, M))
        of_c = float(c @ self.offset + (clipped - c) @ self.excess) - conjugates + self.constant - squares
        of_slopes = self.loss - float(a @ (self.excess - self.offset)) + self.constant
        objective = self.loss + squares - w * float(np.vdot(M, self.target)) + self.constant

        def with_square(square: float) -> DualPoint:
            value = of_slopes - 0.5 * w * square
            best, value = (a, value) if value > of_c else (clipped, of_c)
            return DualPoint(best, value, self.excess, M, lambda: objective)

        point = with_square(float(np.sum((M - (A - self.slack) / w) ** 2)))
        if point.gap <= SPAN.near_gap * self.tol:
            eigenvalues = scipy.linalg.eigvalsh((self.target - A / w).astype(A.dtype), check_finite=False)
            point = with_square(float(np.sum(np.maximum(eigenvalues, 0.0) ** 2)))
        return point


@solver(MetricProblem, "span", tol=1e-4, rank=span_turn, takes=takes_span)
def span_steps(
    problem: MetricProblem,
    budget: Budget,
    tol: float,
    *,
    init: FloatArray | None = None,
    multipliers: Multipliers | None = None,
) -> Iterator[Step]:
    """Solve a sum of smooth losses with one Frobenius term in the span of the slopes at a few of its points.

    It stops if some points have not made the gap smaller.
    """
    yield Step(problem.zero, objective=problem.objective(problem.zero))
    total, point, progress = problem.total, None, Progress()
    span = MultiplierSpan(total.in_single_precision(tol), tol)
    try:
        start = None if init is None else total.slopes(init, 1.0)
        if multipliers is not None:
            start = problem.read_dual(multipliers)
        if start is not None:
            span.step_toward(a := concatenated(start), span.matrix(a))
        while progress.idle_rounds < SPAN.patience:
            budget.spend()
            A = span.matrix(span.slopes).astype(span.total.centered.dtype)
            point = span.point(A)
            progress.record(point.objective - min(point.value, point.objective))
            if point.gap <= GAP_SHARE * tol:
                yield replace(_step(point), stop=Stop.TOLERANCE)
            span.step_toward(span.slopes, A)
    except (BudgetSpent, KeyboardInterrupt):
        if point is not None:
            yield _step(point)
        raise
    if point is not None:
        yield replace(_step(point), stop=Stop.STALLED)
