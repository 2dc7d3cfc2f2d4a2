"""Sums of scalar losses with one Frobenius term, on their dual, whose unknowns are the multipliers alone.

L-BFGS-B and proximal semismooth Newton steps take turns.

With ``Q = weight M0 - S(a)`` the dual is ``sum a c - sum l*(a) - |[Q]_+|^2 / (2 weight)`` up to a constant, and
``M(a) = [Q]_+ / weight`` is the metric that belongs to the multipliers a. Every a in the box is dual feasible. See
``docs/terms.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import minimize

from sdpmetric.arrays import BoolArray, FloatArray, IndexArray
from sdpmetric.core.certificate import InfeasibilityCertificate, Multipliers, relative_gap
from sdpmetric.core.problem import Problem
from sdpmetric.core.registry import solver
from sdpmetric.core.run import Budget, Step
from sdpmetric.engine.cached import cached
from sdpmetric.linalg import psd
from sdpmetric.linalg.distances import Blocks, adjoint, distances, pair_forms
from sdpmetric.sums.bound_terms import ROOM, BoundTerms
from sdpmetric.sums.domains import Domain
from sdpmetric.sums.problem import MetricProblem
from sdpmetric.sums.terms.base import Loss
from sdpmetric.sums.terms.frobenius import Frobenius
from sdpmetric.sums.terms.margins import MarginLoss

# Evaluations of the first round of L-BFGS-B and of the longest; each has twice as many as the one before. The pairs of
# steps and gradients that it keeps, and rounds at most.
FIRST, LONGEST, MEMORY, ROUNDS = 25, 800, 20, 100
# Rounds without a smaller gap before the solver stops.
PATIENCE = 3
# Newton's steps follow rounds of at least so many evaluations, when it is known which multipliers matter.
SETTLED = 100
# Proximal centers, and Newton steps for each of them, at most.
CENTERS, STEPS = 12, 12
# Weights of the proximal term, where the curvature along each multiplier is at most 1: the first, the last, each as a
# share of the one before. Steps below the last share of the way from a center end the search for the next one.
PROXIMAL, LEAST_PROXIMAL, LESS_PROXIMAL, SETTLED_STEP = 1e-2, 1e-14, 0.1, 1e-2
# Newton's equations are solved up to this size, and the root of the curvature has at most so many entries (400 MB).
MAX_EQUATIONS, MAX_ENTRIES = 2500, 5 * 10**7
# A Newton direction is tried at so many lengths, each this share of the one before.
LENGTHS, SHORTER = 8, 0.4
# How often the model of a Newton step is solved, each time with other multipliers at their bounds.
ACTIVE_SETS = 12
# Multipliers within this share of the largest one of a bound may count as at it.
NEAR = 1e-3
# The share of the ascent that the gradient promises which a step has to bring (Armijo).
ARMIJO = 1e-4
# Dual values are compared up to this share of the numbers they are the difference of.
ROUNDING = 1e-14
# The negative part of a spectrum is computed by itself where it was at most this share of all eigenvalues.
PART = 0.1
# Differences of pairs are held where they have at most so many entries.
HELD = 1 << 17
# A gap estimated in floating point has to be below this share of the tolerance before it is proven.
PROVEN = 0.8
# A round that raises the dual by less than this share of the gap is followed by one in the other unknowns of steep
# losses. Their multipliers keep this share of the box away from its ends.
SLOW, AWAY = 0.1, 1e-9
# Excesses of steep losses from which a round starts at most, and at which their slopes count as settled.
MODERATE, STEEPEST = 6.0, 30.0
# Share of the tolerance, in units of hard constraints, that these are given as room, and the smallest room.
ROOM_SHARE, SMALLEST_ROOM = 1e-3, 1e-9
# By how much it grows where no metric satisfies them, and up to which share of the tolerance.
WIDER, LARGEST_ROOM = 10.0, 1e-2


def turn(problem: MetricProblem) -> int:
    """Before "factored", but where no loss has a kink and slopes of conjugates are infinite (logistic) after it."""
    return 2 if problem.total.kinked or not any(_steep(loss) for loss in problem.total.losses) else 4


def fits(problem: MetricProblem) -> bool:
    """Whether "dual" goes first and has fewer unknowns than the metric has entries."""
    k = len(problem.domain.basis)
    return takes(problem) and turn(problem) == 2 and 2 * problem.total.n_multipliers <= k * (k + 1)


def _steep(loss: Loss) -> bool:
    return isinstance(loss, MarginLoss) and loss.scalar.steep


def takes(problem: MetricProblem) -> bool:
    """Whether a sum has scalar losses and one Frobenius term, over metrics whose coordinates are orthonormal."""
    total, domain = problem.total, problem.domain
    regularizers = len(total.regularizers) == 1 and isinstance(problem.dual.minimized, Frobenius)
    return (
        regularizers
        and not domain.diagonal
        and all(isinstance(loss, MarginLoss) and loss.scalar.boxed for loss in total.losses)
    )


class _CloseEnough(Exception):
    """The gap at the multipliers is about small enough to be proven."""


@dataclass(frozen=True)
class DualValue:
    """The dual at some multipliers, its gradient, and the metric there, in the domain, (k, k).

    The spectrum is that of the matrix whose positive part the metric is, where it was computed.
    """

    value: float
    gradient: FloatArray
    cost: Callable[[], float]
    metric: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))
    spectrum: tuple[FloatArray, FloatArray] | None = None

    @cached
    def objective(self) -> float:
        """The sum at the metric."""
        return self.cost()

    @property
    def gap(self) -> float:
        """The relative gap as floats see it, 0 where rounding puts the dual above the objective."""
        return relative_gap(self.objective, min(self.value, self.objective))


@dataclass(eq=False)
class SumDual:
    """The dual of a sum.

    Attributes
    ----------
    total : BoundTerms
        The sum, its hard constraints with room.
    shift : (k, k) array or float
        A linear cost besides, in the domain.
    n_negative : int
        How many eigenvalues the last Q had that were not positive.
    """

    total: BoundTerms
    domain: Domain
    shift: FloatArray | float = 0.0
    n_negative: int = 0
    proximal: float = PROXIMAL

    @cached
    def losses(self) -> list[MarginLoss]:
        """The losses, all of them scalar."""
        return [loss for loss in self.total.losses if isinstance(loss, MarginLoss)]

    @cached
    def weight(self) -> float:
        """Weight of the Frobenius term."""
        return self.total.regularizers[0].weight

    @cached
    def target(self) -> FloatArray:
        """``weight M0 - ridge I``, minus the linear cost, in coordinates of the domain, (k, k)."""
        M0 = -self.total.regularizers[0].gradient(np.zeros((0, self.total.centered.shape[1])))
        return self.domain.block_diagonal(M0 - self.total.ridge * np.eye(len(M0)) - self.shift)

    @cached
    def constant(self) -> float:
        """``weight / 2 |M0|^2``."""
        return self.total.regularizers[0].value(np.zeros((0, self.total.centered.shape[1])))

    @cached
    def points(self) -> tuple[FloatArray, IndexArray, IndexArray]:
        """The examples that pairs name, in coordinates of the domain, and both rows of each pair among them."""
        rows, pairs = np.unique(self.total.pairs, return_inverse=True)
        first, second = np.ascontiguousarray(pairs.reshape(-1, 2).T.astype(np.int32))
        return np.ascontiguousarray(self.total.centered[rows]), first, second

    @cached
    def combination(self) -> tuple[sp.csr_array, sp.csr_array]:
        """The matrix K with ``u = offset + K D`` over all pairs, (m, p), and its transpose."""
        K = sp.block_diag([sp.csr_array((0, len(self.total.costs[1]))), *(loss.combination for loss in self.losses)])
        return sp.csr_array(K), sp.csr_array(K.T)

    @cached
    def offset(self) -> FloatArray:
        """What losses are functions of at the zero metric, (m,)."""
        return np.concatenate([np.zeros(0), *(self.total.offset(loss) for loss in self.losses)])

    @cached
    def box(self) -> tuple[FloatArray, FloatArray]:
        """The lowest and the highest multipliers, (m,)."""
        boxes = [(np.zeros(0), np.zeros(0)), *(loss.box for loss in self.losses)]
        return np.concatenate([low for low, _ in boxes]), np.concatenate([high for _, high in boxes])

    @cached
    def steep(self) -> BoolArray:
        """Where slopes of the conjugate are infinite at the ends of its domain, (m,)."""
        parts = [np.full(loss.size, loss.scalar.steep) for loss in self.losses]
        return np.concatenate([np.zeros(0, dtype=np.bool_), *parts])

    @cached
    def sizes(self) -> FloatArray:
        """A norm of each row of K under the identity, (m,): the curvature along it is at most its square."""
        return np.asarray(abs(self.combination[0]) @ distances(*self.points))

    def positive(self, Q: FloatArray) -> FloatArray:
        """The PSD part of a symmetric matrix; where few of its eigenvalues were negative, only these are computed."""
        if self.n_negative > PART * len(Q):
            return self._positive(*np.linalg.eigh(Q))
        values, V = scipy.linalg.eigh(Q, subset_by_value=(-np.inf, 0.0), driver="evr", check_finite=False)
        self.n_negative = len(values)
        return np.asarray(Q - (V * values) @ V.T)

    def _positive(self, values: FloatArray, V: FloatArray) -> FloatArray:
        self.n_negative = int(np.count_nonzero(values <= 0.0))
        return np.asarray((V * np.maximum(values, 0.0)) @ V.T)

    @cached
    def differences(self) -> FloatArray | None:
        """The difference of the examples of each pair, (p, k), if these are few."""
        Y, first, second = self.points
        return Y[first] - Y[second] if len(first) * Y.shape[1] <= HELD else None

    def at(self, a: FloatArray, *, spectrum: bool = False) -> DualValue:
        """The dual at multipliers of the box, (m,); with the spectrum on request."""
        (Y, first, second), (K, KT), total = self.points, self.combination, self.total
        weights = KT @ a
        weights[: len(total.costs[1])] += total.costs[1]
        V, found = self.differences, None
        if V is None:
            S = adjoint(Y, first, second, weights)
        else:
            used = np.flatnonzero(weights)
            S = psd.symmetrize((V[used] * weights[used, None]).T @ V[used])
        Q = self.target - self.domain.block_diagonal(S)
        if spectrum:
            found = np.linalg.eigh(Q)
        P = (self.positive(Q) if found is None else self._positive(*found)) / self.weight
        if V is None:
            D = pair_forms(Y, P[None], Blocks.one(len(Y)), first, second)
        else:
            D = np.einsum("ij,ij->i", V @ P, V)
        excess, half = self.offset + K @ D, 0.5 * self.weight * float(np.sum(P * P))
        parts, gradient = [float(a @ self.offset), self.constant - half], excess
        if not self.flat:
            own = list(zip(self.losses, total.split(a), strict=True))
            parts += [-float(loss.conjugates(part).sum()) for loss, part in own]
            gradient = excess - np.concatenate([loss.conjugate_slopes(part) for loss, part in own])

        def cost() -> float:
            linear = [half, self.constant - float(np.sum(P * self.target))]
            linear.append(float(total.costs[1] @ D[: len(total.costs[1])]))
            own = zip(self.losses, total.split(excess), strict=True)
            return math.fsum(linear) + sum(loss.value(u) for loss, u in own)

        return DualValue(math.fsum(parts), gradient, cost, P, found)

    @cached
    def flat(self) -> bool:
        """Whether conjugates are 0 in the box, as those of hinges are."""
        return not any(loss.conjugates(loss.item_weights).any() or loss.scalar.steep for loss in self.losses)

    def components(self, a: FloatArray, here: DualValue) -> FloatArray:
        """A factor of the metric at multipliers, in the data's coordinates, (r, d)."""
        P = here.metric
        if not self.n_negative:
            try:
                return np.asarray(np.linalg.cholesky(P).T)
            except np.linalg.LinAlgError:
                pass
        values, V = np.linalg.eigh(P)
        kept = values > 0.0
        return np.asarray((V[:, kept] * np.sqrt(values[kept])).T)

    def ascend(
        self, a: FloatArray, budget: Budget, enough: float, most: int, by_excess: bool
    ) -> tuple[FloatArray, DualValue]:
        """Better multipliers by L-BFGS-B in `most` evaluations, or the first with a relative gap of `enough`.

        Those of steep losses are functions of their excess on request, else they keep away from the ends of their box.
        """
        (lowest, highest), inner = self.box, self.steep & by_excess
        away = np.where(self.steep, AWAY * highest, 0.0)
        ends = (np.where(inner, -STEEPEST, lowest + away), np.where(inner, STEEPEST, highest - away))

        def slopes(t: FloatArray) -> tuple[FloatArray, FloatArray]:
            """Multipliers, and how they change with t."""
            found, rates = t.copy(), np.ones_like(t)
            place = 0
            for loss in self.losses:
                here = slice(place, place + loss.size)
                if loss.scalar.steep and by_excess:
                    found[here] = loss.item_weights * loss.scalar.slopes(t[here], 0.0)
                    rates[here] = loss.item_weights * loss.scalar.slope_rates(t[here])
                place += loss.size
            return found, rates

        init = np.clip(np.where(inner, self._excess(a), a), *ends)
        rates = slopes(np.where(inner, np.clip(init, -MODERATE, MODERATE), a))[1]
        curvature = np.where(inner, rates, 0.0) + (rates * self.sizes) ** 2 / self.weight
        units = np.where(curvature > 0.0, 1.0 / np.sqrt(np.maximum(curvature, 1e-300)), 1.0)
        best: list[tuple[FloatArray, DualValue]] = []

        def negative(scaled: FloatArray) -> tuple[float, FloatArray]:
            budget.spend()
            found, rates = slopes(np.clip(units * scaled, *ends))
            here = self.at(found)
            if not best or here.value > best[0][1].value:
                best[:] = [(found, here)]
                if enough > 0.0 and here.gap <= enough:
                    raise _CloseEnough
            return -here.value, -units * rates * here.gradient

        # Where all unknowns have two bounds, the first step of the method is as long as the box.
        limits = np.where(inner, -np.inf, ends[0]), np.where(inner, np.inf, ends[1])
        largest = np.finfo(np.float64).max
        bounds = np.stack([np.minimum(limits[0] / units, largest), np.maximum(limits[1] / units, -largest)], axis=1)
        options = {"maxfun": most, "maxiter": most, "maxcor": MEMORY, "ftol": 1e-16, "gtol": 0.0}
        with suppress(_CloseEnough):
            if not len(a):
                negative(a)
            else:
                minimize(negative, init / units, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        return best[0]

    def gap(self, a: FloatArray, gradient: FloatArray) -> float:
        """How far the dual can rise in the box, at most: a sum of terms that are not negative."""
        ends = np.where(gradient > 0.0, self.box[1], self.box[0])
        return float(np.sum(np.multiply(ends - a, gradient, out=np.zeros_like(a), where=gradient != 0.0)))

    def newton(self, a: FloatArray, budget: Budget) -> Iterator[tuple[FloatArray, DualValue]]:
        """Iterates of the proximal point method, each center found by projected semismooth Newton steps.

        Optimal multipliers are not unique in general, and the Hessian singular; the proximal term makes it regular.
        """
        here, weight = self.at(a, spectrum=True), self.proximal
        yield a, here
        for _ in range(CENTERS if self.bends is not None else 0):
            center = a
            for _ in range(STEPS):
                new = self._newton_step(a, here, center, weight, budget)
                if new is None:
                    break
                moved = float(np.linalg.norm((new[0] - a) / self.units))
                a, here = new
                yield a, here
                if moved <= SETTLED_STEP * float(np.linalg.norm((a - center) / self.units)):
                    break
            weight = self.proximal = max(LEAST_PROXIMAL, LESS_PROXIMAL * weight)

    @cached
    def units(self) -> FloatArray:
        """Units of the multipliers in which the curvature along each is at most about 1, (m,)."""
        found = math.sqrt(self.weight) / np.maximum(self.sizes, 1e-100)
        return np.where(self.sizes > 0.0, found, 1.0)

    @cached
    def bends(self) -> FloatArray | None:
        """The second derivatives of the conjugates, (m,); None where they or the metric's are not simple."""
        if self.steep.any() or self.domain.blocks:
            return None
        parts = [loss.item_weights for loss in self.losses]
        slopes = [
            loss.conjugate_slopes(w) - loss.conjugate_slopes(0.0 * w)
            for loss, w in zip(self.losses, parts, strict=True)
        ]
        size = np.maximum(np.concatenate([np.zeros(0), *parts]), 1e-300)
        return np.asarray(np.concatenate([np.zeros(0), *slopes]) / size)

    def curvature_root(self, spectrum: tuple[FloatArray, FloatArray], free: NDArray[np.intp]) -> FloatArray:
        """A root F of the curvature ``F F^T`` by some multipliers, in units, without that of conjugates, (f, m)."""
        (Y, first, second), K, (values, vectors) = self.points, self.combination[0][free], spectrum
        used = np.unique(K.indices)
        row, column, slopes = psd.projection_slopes(values)
        U = (Y[first[used]] - Y[second[used]]) @ vectors
        F = np.asarray(K[:, used] @ (U[:, row] * U[:, column]))
        F *= np.sqrt(slopes / self.weight)
        F *= self.units[free, None]
        return F

    def _newton_step(
        self, a: FloatArray, here: DualValue, center: FloatArray, weight: float, budget: Budget
    ) -> tuple[FloatArray, DualValue] | None:
        """One projected Newton step on ``g(a) - weight / 2 ||a - center||^2``, in units; None: no ascent."""
        unit, (lowest, highest), bends = self.units, self.box, self.bends
        if here.spectrum is None or bends is None:
            return None
        gradient = unit * here.gradient - weight * (a - center) / unit
        # Near-active multipliers are fixed at their bound, so projection does not distort the Newton step
        # (Bertsekas 1982).
        ascent = (np.clip(a + unit * gradient, lowest, highest) - a) / unit
        size = float((np.where(np.isfinite(highest), highest, np.abs(a)) / unit).max(initial=0.0))
        near = min(NEAR * size, float(np.linalg.norm(ascent))) * unit
        down = (a - lowest <= np.minimum(near, 0.5 * (highest - lowest))) & (gradient <= 0.0)
        up = (a >= highest - near) & (gradient >= 0.0)
        free = np.flatnonzero(~(down | up))
        direction = np.zeros_like(a)
        direction[down], direction[up] = lowest[down] - a[down], highest[up] - a[up]
        if len(free):
            d, positive = len(here.metric), int(np.count_nonzero(here.spectrum[0] > 0.0))
            entries = positive * (2 * d - positive + 1) // 2  # of the projection's derivative that are not 0
            if min(len(free), entries) > MAX_EQUATIONS or len(free) * entries > MAX_ENTRIES:
                return None
            F = self.curvature_root(here.spectrum, free)
            if not np.isfinite(np.sum(F * F) + np.sum(gradient)):  # products of such data overflow
                return None
            ends = (lowest[free] - a[free]) / unit[free], (highest[free] - a[free]) / unit[free]
            direction[free] = unit[free] * _boxed(F, weight + bends[free] * unit[free] ** 2, gradient[free], *ends)
        rounding = ROUNDING * (abs(here.value) + float(np.abs(a).sum()))
        value = here.value - 0.5 * weight * float(np.sum(((a - center) / unit) ** 2))
        for trial in range(LENGTHS):
            new = np.clip(a + SHORTER**trial * direction, lowest, highest)
            promised = float(gradient @ ((new - a) / unit))
            if promised <= 0.0:
                continue
            budget.spend()
            there = self.at(new, spectrum=True)
            gained = there.value - 0.5 * weight * float(np.sum(((new - center) / unit) ** 2)) - value
            if gained >= ARMIJO * promised - rounding:
                return new, there
        return None

    def moderate(self, a: FloatArray) -> FloatArray:
        """Multipliers to start from: those of steep losses are brought away from the ends of their domains."""
        parts = list[FloatArray]()
        for loss, own in zip(self.losses, self.total.split(a), strict=True):
            reach = loss.conjugate_slopes(own) if loss.scalar.steep else own
            away = np.clip(reach, -MODERATE, MODERATE)
            parts.append(loss.item_weights * loss.scalar.slopes(away, 0.0) if loss.scalar.steep else own)
        return np.concatenate([np.zeros(0), *parts])

    def _excess(self, a: FloatArray) -> FloatArray:
        parts = zip(self.losses, self.total.split(a), strict=True)
        return np.concatenate([np.zeros(0), *(loss.conjugate_slopes(part) for loss, part in parts)])


def _boxed(F: FloatArray, weights: FloatArray, right: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Minimize ``x^T (F F^T + diag(weights)) x / 2 - right^T x`` in a box around 0, by a primal-dual active set."""
    x, free = np.zeros_like(right), np.ones(len(right), dtype=np.bool_)
    gram = F @ F.T if F.shape[0] <= F.shape[1] else None
    for _ in range(ACTIVE_SETS):
        x[free] = 0.0
        rest, w = (right - F @ (F.T @ x))[free], weights[free]
        if gram is not None:
            x[free] = scipy.linalg.solve(gram[np.ix_(free, free)] + np.diag(w), rest, assume_a="pos")
        else:
            own = F[free]
            scaled = own / w[:, None]
            inner = scipy.linalg.solve(np.eye(F.shape[1]) + own.T @ scaled, scaled.T @ rest, assume_a="pos")
            x[free] = rest / w - scaled @ inner
        slope = right - F @ (F.T @ x) - weights * x
        inside = np.where(free, (x > low) & (x < high), ((x <= low) & (slope > 0.0)) | ((x >= high) & (slope < 0.0)))
        x = np.clip(x, low, high)
        if (inside == free).all():
            break
        free = inside
    return x


@solver(MetricProblem, "dual", tol=1e-4, rank=turn, when=takes)
def steps(
    problem: MetricProblem,
    budget: Budget,
    tol: float,
    *,
    init: FloatArray | None = None,
    multipliers: Multipliers | None = None,
) -> Iterator[Step]:
    """Solve a sum of scalar losses with one Frobenius term on its dual, from components or multipliers.

    L-BFGS-B ascends in the multipliers, and Newton's method where conjugates are not steep. It needs the metric only as
    the positive part of one (d, d) matrix, and where that has few negative eigenvalues, only these are computed.
    """
    yield Step(problem.zero, objective=problem.objective(problem.zero))
    hard, room = any(loss.hard for loss in problem.total.losses), min(ROOM, max(SMALLEST_ROOM, ROOM_SHARE * tol))
    dual = SumDual(problem.total.stiffened(1.0, room) if hard else problem.total, problem.domain)
    if init is None:
        nothing = np.zeros(0)
        init = dual.components(nothing, DualValue(0.0, nothing, float, dual.positive(dual.target) / dual.weight))
    slopes = problem.total.slopes(init, 1.0) if multipliers is None else problem.read_dual(multipliers)
    a = dual.moderate(np.concatenate([np.zeros(0), *slopes]))
    while True:
        a, found = yield from _rounds(problem, dual, a, budget, tol)
        if found or not hard or room >= LARGEST_ROOM * tol:
            return
        room = WIDER * room  # a metric at the optimum misses constraints by the rounding of multipliers
        dual = SumDual(problem.total.stiffened(1.0, room), problem.domain)


def _rounds(
    problem: Problem, dual: SumDual, a: FloatArray, budget: Budget, tol: float
) -> Generator[Step, None, tuple[FloatArray, bool]]:
    """Steps from multipliers until the gap no longer falls; the last ones, and whether more is of no use."""
    best, low, idle, most, by_excess = math.inf, -math.inf, 0, FIRST, True
    for _ in range(ROUNDS):
        a, here = dual.ascend(a, budget, PROVEN * tol, most, by_excess)
        if most >= SETTLED and dual.bends is not None:
            for better, here in dual.newton(a, budget):
                a = better
                if here.gap <= PROVEN * tol:
                    break
        gap = here.objective - here.value if math.isfinite(here.objective) else math.inf
        by_excess, most = by_excess == (here.value - low > SLOW * gap), min(2 * most, LONGEST)
        idle = 0 if gap < 0.9 * best else idle + 1
        best, low = min(best, gap), here.value
        step = _step(problem, dual, a, here, proven=idle > 0 or here.gap <= tol)
        yield step
        if isinstance(step.certificate, InfeasibilityCertificate):
            return a, True
        if idle >= PATIENCE:
            break
    return a, math.isfinite(best)


def _step(problem: Problem, dual: SumDual, a: FloatArray, here: DualValue, *, proven: bool) -> Step:
    """The metric of the multipliers, with the problem's certificate or with what floating point says."""
    L = dual.components(a, here)
    if proven or not math.isfinite(here.objective):
        return Step.certified(problem, L, a)
    return Step(L, objective=here.objective, lower_bound=min(here.value, here.objective), multipliers=lambda: a)
