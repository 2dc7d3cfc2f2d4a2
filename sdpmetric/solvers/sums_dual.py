"""Sums of scalar losses with one Frobenius term, on their dual, whose unknowns are the multipliers alone.

With ``Q = weight M0 - S(a)`` the dual is ``sum a c - sum l*(a) - |[Q]_+|^2 / (2 weight)`` up to a constant, and
``M(a) = [Q]_+ / weight`` is the metric that belongs to the multipliers a. Every a in the box is dual feasible. See
``docs/terms.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.optimize import minimize

from sdpmetric.arrays import BoolArray, FloatArray, IndexArray
from sdpmetric.bounds.bound_terms import ROOM, BoundTerms
from sdpmetric.core.certificate import InfeasibilityCertificate, relative_gap
from sdpmetric.core.registry import solver
from sdpmetric.core.run import Budget, Step
from sdpmetric.linalg.distances import Blocks, adjoint, distances, pair_forms
from sdpmetric.problems.metric_problem import MetricProblem
from sdpmetric.terms.frobenius import Frobenius
from sdpmetric.terms.margins import MarginLoss

# Evaluations of the first round of L-BFGS-B and of the longest; each has twice as many as the one before. The pairs of
# steps and gradients that it keeps, and rounds at most.
FIRST, LONGEST, MEMORY, ROUNDS = 25, 800, 20, 100
# Rounds without a smaller gap before the solver stops.
PATIENCE = 3
# The negative part of a spectrum is computed by itself where it was at most this share of all eigenvalues.
PART = 0.3
# A gap estimated in floating point has to be below this share of the tolerance before it is proven.
PROVEN = 0.8
# A round that raises the dual by less than this share of the gap is followed by one in the other unknowns of steep
# losses. Their multipliers keep this share of the box away from its ends.
SLOW, AWAY = 0.1, 1e-9
# Excesses of steep losses from which a round starts at most, and at which their slopes count as settled.
MODERATE, STEEPEST = 6.0, 30.0
# Share of the tolerance, in units of hard constraints, that these are given as room, and the smallest room.
ROOM_SHARE, SMALLEST_ROOM = 1e-3, 1e-9


def fits(problem: MetricProblem) -> bool:
    """Whether there are fewer multipliers than entries of the metric, so that the dual is the smaller problem."""
    k = len(problem.domain.basis)
    return takes(problem) and 2 * problem.total.n_multipliers <= (k if problem.domain.diagonal else k * (k + 1))


def takes(problem: MetricProblem) -> bool:
    """Whether a sum has scalar losses and one Frobenius term, over metrics whose coordinates are orthonormal."""
    total, domain = problem.total, problem.domain
    regularizers = len(total.regularizers) == 1 and isinstance(problem.dual.final, Frobenius)
    return (
        regularizers
        and domain.complete
        and all(isinstance(loss, MarginLoss) and loss.scalar.boxed for loss in total.losses)
    )


class _CloseEnough(Exception):
    """The gap at the multipliers is about small enough to be proven."""


@dataclass(frozen=True)
class _Value:
    """The dual at some multipliers, its gradient, and the metric there: its objective, and it in the domain, (k, k)."""

    value: float
    gradient: FloatArray
    objective: float
    metric: FloatArray

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
    n_negative : int
        How many eigenvalues the last Q had that were not positive.
    """

    problem: MetricProblem
    total: BoundTerms
    n_negative: int = 0

    @cached_property
    def losses(self) -> list[MarginLoss]:
        """The losses, all of them scalar."""
        return [loss for loss in self.total.losses if isinstance(loss, MarginLoss)]

    @cached_property
    def weight(self) -> float:
        """Weight of the Frobenius term."""
        return self.total.regularizers[0].weight

    @cached_property
    def target(self) -> FloatArray:
        """``weight M0 - ridge I`` in coordinates of the domain, (k, k)."""
        term, B = self.total.regularizers[0], self.problem.domain.basis
        M0 = -term.gradient(np.zeros((0, B.shape[1])))
        return self._pinched(B @ (M0 - self.total.ridge * np.eye(len(M0))) @ B.T)

    @cached_property
    def constant(self) -> float:
        """``weight / 2 |M0|^2``."""
        return self.total.regularizers[0].value(self.problem.zero)

    @cached_property
    def points(self) -> tuple[FloatArray, IndexArray, IndexArray]:
        """The examples that pairs name, in coordinates of the domain, and both rows of each pair among them."""
        rows, pairs = np.unique(self.total.pairs, return_inverse=True)
        first, second = np.ascontiguousarray(pairs.reshape(-1, 2).T.astype(np.int32))
        return np.ascontiguousarray(self.total.centered[rows] @ self.problem.domain.basis.T), first, second

    @cached_property
    def combination(self) -> tuple[sp.csr_array, sp.csr_array]:
        """The matrix K with ``u = offset + K D`` over all pairs, (m, p), and its transpose."""
        K = sp.block_diag([sp.csr_array((0, len(self.total.costs[1]))), *(loss.combination for loss in self.losses)])
        return sp.csr_array(K), sp.csr_array(K.T)

    @cached_property
    def offset(self) -> FloatArray:
        """What losses are functions of at the zero metric, (m,)."""
        return np.concatenate([np.zeros(0), *(self.total.offset(loss) for loss in self.losses)])

    @cached_property
    def box(self) -> tuple[FloatArray, FloatArray]:
        """The lowest and the highest multipliers, (m,)."""
        boxes = [(np.zeros(0), np.zeros(0)), *(loss.box for loss in self.losses)]
        return np.concatenate([low for low, _ in boxes]), np.concatenate([high for _, high in boxes])

    @cached_property
    def steep(self) -> BoolArray:
        """Where slopes of the conjugate are infinite at the ends of its domain, (m,)."""
        parts = [np.full(loss.size, loss.scalar.steep) for loss in self.losses]
        return np.concatenate([np.zeros(0, dtype=np.bool_), *parts])

    @cached_property
    def sizes(self) -> FloatArray:
        """A norm of each row of K under the identity, (m,): the curvature along it is at most its square."""
        return np.asarray(abs(self.combination[0]) @ distances(*self.points))

    def _pinched(self, A: FloatArray) -> FloatArray:
        return np.diag(np.diag(A)) if self.problem.domain.diagonal else self.problem.domain.pinched(A)

    def positive(self, Q: FloatArray) -> FloatArray:
        """The PSD part of a symmetric matrix; where few of its eigenvalues were negative, only these are computed."""
        if self.problem.domain.diagonal:
            return np.maximum(Q, 0.0)
        few = self.n_negative <= PART * len(Q)
        part = (-np.inf, 0.0) if few else (0.0, np.inf)
        values, V = scipy.linalg.eigh(Q, subset_by_value=part, driver="evr", check_finite=False)
        self.n_negative = len(values) if few else len(Q) - len(values)
        found = (V * values) @ V.T
        return np.asarray(Q - found if few else found)

    def at(self, a: FloatArray) -> _Value:
        """The dual at multipliers of the box, (m,)."""
        (Y, first, second), (K, KT), total = self.points, self.combination, self.total
        weights = KT @ a
        weights[: len(total.costs[1])] += total.costs[1]
        P = self.positive(self.target - self._pinched(adjoint(Y, first, second, weights))) / self.weight
        D = pair_forms(Y, P[None], Blocks.one(len(Y)), first, second)
        excess, half = self.offset + K @ D, 0.5 * self.weight * float(np.sum(P * P))
        value, gradient = [float(a @ self.offset), self.constant - half], []
        objective = [
            half,
            self.constant - float(np.sum(P * self.target)),
            float(total.costs[1] @ D[: len(total.costs[1])]),
        ]
        for loss, part, u in zip(self.losses, total.split(a), total.split(excess), strict=True):
            value.append(-float(loss.conjugates(part).sum()))
            gradient.append(u - loss.conjugate_slopes(part))
            objective.append(loss.value(u))
        return _Value(math.fsum(value), np.concatenate([np.zeros(0), *gradient]), sum(objective), P)

    def components(self, here: _Value) -> FloatArray:
        """A factor of the metric there, in the data's coordinates, (r, d)."""
        P, B = here.metric, self.problem.domain.basis
        if self.problem.domain.diagonal:
            return np.asarray(np.sqrt(np.diag(P))[:, None] * B)
        if not self.n_negative:
            try:
                return np.asarray(np.linalg.cholesky(P).T @ B)
            except np.linalg.LinAlgError:
                pass
        values, V = np.linalg.eigh(P)
        kept = values > 0.0
        return np.asarray((V[:, kept] * np.sqrt(values[kept])).T @ B)

    def ascend(
        self, a: FloatArray, budget: Budget, enough: float, most: int, by_excess: bool
    ) -> tuple[FloatArray, _Value]:
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

        start = np.clip(np.where(inner, self._excess(a), a), *ends)
        rates = slopes(np.where(inner, np.clip(start, -MODERATE, MODERATE), a))[1]
        curvature = np.where(inner, rates, 0.0) + (rates * self.sizes) ** 2 / self.weight
        units = np.where(curvature > 0.0, 1.0 / np.sqrt(np.maximum(curvature, 1e-300)), 1.0)
        best: list[tuple[FloatArray, _Value]] = []

        def negative(scaled: FloatArray) -> tuple[float, FloatArray]:
            budget.spend()
            found, rates = slopes(np.clip(units * scaled, *ends))
            here = self.at(found)
            if not best or here.value > best[0][1].value:
                best[:] = [(found, here)]
                if here.gap <= enough:
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
                minimize(negative, start / units, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        return best[0]

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


@solver(MetricProblem, "dual", tol=1e-4, default=fits, when=takes)
def steps(problem: MetricProblem, budget: Budget, tol: float, *, start: FloatArray | None = None) -> Iterator[Step]:
    """Solve a sum of scalar losses with one Frobenius term on its dual.

    L-BFGS-B ascends in the multipliers. It needs the metric only as the positive part of one (d, d) matrix, and where
    that has few negative eigenvalues, only these are computed.
    """
    yield Step(problem.zero, problem.objective(problem.zero))
    total = problem.total
    if any(loss.hard for loss in total.losses):
        total = total.stiffened(1.0, min(ROOM, max(SMALLEST_ROOM, ROOM_SHARE * tol)))
    dual = SumDual(problem, total)
    if start is None:
        start = dual.components(_Value(0.0, np.zeros(0), 0.0, dual.positive(dual.target) / dual.weight))
    a = dual.moderate(np.concatenate([np.zeros(0), *problem.total.slopes(start, 1.0)]))
    best, low, idle, most, by_excess = math.inf, -math.inf, 0, FIRST, True
    for _ in range(ROUNDS):
        a, here = dual.ascend(a, budget, PROVEN * tol, most, by_excess)
        gap = here.objective - here.value if math.isfinite(here.objective) else math.inf
        by_excess, most = by_excess == (here.value - low > SLOW * gap), min(2 * most, LONGEST)
        idle = 0 if gap < 0.9 * best else idle + 1
        best, low = min(best, gap), here.value
        step = _step(dual, a, here, proven=idle > 0 or here.gap <= tol)
        yield step
        if isinstance(step.certificate, InfeasibilityCertificate) or idle >= PATIENCE:
            return


def _step(dual: SumDual, a: FloatArray, here: _Value, *, proven: bool) -> Step:
    """The metric of the multipliers, with the problem's certificate or with what floating point says."""
    L = dual.components(here)
    if proven or not math.isfinite(here.objective):
        return Step.certified(dual.problem, L, a)
    return Step(L, here.objective, min(here.value, here.objective), lambda: a)
