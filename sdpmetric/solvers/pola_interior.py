"""Batch POLA by a primal-dual interior-point method, for pairs that contradict each other.

Where hardly any margin can be satisfied, almost all multipliers are at a bound, large ones cancel in the metric, and
active-set methods take thousands of steps. An interior-point method takes some thirty. Each costs a system of
``min(p, d (d + 1) / 2 + 1)`` equations for p pairs and d features. The direction is that of Nesterov and Todd [NT1998].
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from sdpmetric.arrays import FloatArray
from sdpmetric.core.run import Budget
from sdpmetric.linalg import psd
from sdpmetric.problems.pola import POLAProblem

# Steps at most, the share of the way to the boundary that is taken, and the step below which there is no progress.
STEPS, INSIDE, LEAST_STEP = 100, 0.98, 1e-6
# Systems and matrices are not set up beyond these sizes.
MAX_EQUATIONS, MAX_ENTRIES = 2500, 3 * 10**7


def fits(problem: POLAProblem) -> bool:
    """Whether the systems of a problem are small enough."""
    t, m = _shape(problem)
    return min(t, m) <= MAX_EQUATIONS and t * m <= MAX_ENTRIES


def iterates(problem: POLAProblem, budget: Budget) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Strictly feasible multipliers and metrics with complementarities that go to 0.

    With a hard margin that is infeasible, the multipliers grow along a proof of that.
    """
    state = _Iterate.start(problem)
    for _ in range(STEPS):
        budget.spend()
        try:
            system = _System(problem, state)
            # How far the predictor gets towards complementarity 0 says how much centering is needed (Mehrotra 1992).
            predictor = system.direction(0.0)
            length = system.longest(predictor)
            share = state.moved(predictor, length).complementarity / state.complementarity
            centering = min(1.0, max(share**2, 1e-3)) if length > 0.1 else 0.5
            direction = system.direction(centering * state.complementarity)
            length = system.longest(direction)
        except scipy.linalg.LinAlgError:  # singular up to rounding, or beyond the range of floats: no further step
            return
        if not length > LEAST_STEP:
            return
        state = state.moved(direction, length if length == 1.0 else INSIDE * length)
        yield state.a, state.A


@dataclass(frozen=True, eq=False)
class _Iterate:
    """A point of the primal-dual method.

    ``A S`` goes to 0, with the slack matrix S of A, and so do ``(b - 1) r``, ``a lower`` and ``(ceilings - a) upper``,
    with the margins beyond 1 ``lower`` and the hinges ``upper``.
    """

    a: FloatArray
    room: FloatArray  # ceilings - a
    lower: FloatArray
    upper: FloatArray
    A: FloatArray
    S: FloatArray
    beta: float  # b - 1
    r: float

    @classmethod
    def start(cls, problem: POLAProblem) -> _Iterate:
        """A point that is dual feasible, and primal feasible where the margin is soft."""
        ceilings, d = problem.margins.ceilings, problem.X.shape[1]
        unit = 1.0 / np.sqrt(np.sum(problem.differences**2, axis=1) ** 2 + 1.0)
        a = unit if problem.slack_weight is None else 0.5 * ceilings
        W = problem.matrix(-a)
        A = (2.0 * max(float(np.linalg.eigvalsh(W)[-1]), 0.0) + 1.0) * np.eye(d)
        total = problem.initial_threshold - 1.0 + float(a @ problem.signs)
        beta = max(1.0, 2.0 * total)
        missing = _missing(problem, A, beta)
        size = float(np.mean(unit * np.abs(missing))) / unit
        upper = np.zeros_like(a) if problem.slack_weight is None else np.maximum(missing, 0.0) + size
        return cls(
            a, ceilings - a, np.maximum(-missing, 0.0) + size, upper, A, psd.symmetrize(A - W), beta, beta - total
        )

    @property
    def complementarity(self) -> float:
        """Mean of the products that go to 0."""
        bounded = self.upper > 0.0
        products = float(self.a @ self.lower + self.room[bounded] @ self.upper[bounded])
        n = len(self.a) + int(bounded.sum()) + len(self.A) + 1
        return (products + float(np.sum(self.A * self.S)) + self.beta * self.r) / n

    def moved(self, step: _Iterate, length: float) -> _Iterate:
        """The point so far along a direction."""
        parts = {name: getattr(self, name) + length * getattr(step, name) for name in self.__dataclass_fields__}
        return _Iterate(**parts)


class _System:
    """Newton's equations of the perturbed optimality conditions at a point, factorized."""

    def __init__(self, problem: POLAProblem, at: _Iterate) -> None:
        self.problem, self.at = problem, at
        V, y = problem.differences, problem.signs
        self.residual = problem.matrix(-at.a) + at.S - at.A
        self.threshold_residual = problem.initial_threshold - 1.0 + float(at.a @ y) + at.r - at.beta
        self.missing = _missing(problem, at.A, at.beta)
        self.root_A, self.root_S = np.linalg.cholesky(at.A), np.linalg.cholesky(at.S)
        self.inverse = scipy.linalg.cho_solve((self.root_A, True), np.eye(len(at.A)))
        # The scaling point N with N S N = A: in its eigenbasis both sides of A S + S A are diagonal operators.
        values, vectors = np.linalg.eigh(self.root_A.T @ at.S @ self.root_A)
        half = self.root_A @ vectors / values**0.25
        scaling, self.basis = np.linalg.eigh(half @ half.T)
        both = np.outer(scaling, scaling)
        self.slopes, self.slope = both / (1.0 + both), at.beta / (at.beta + at.r)
        row, column = np.triu_indices(len(scaling))
        root = np.sqrt(np.where(row == column, 1.0, 2.0) * self.slopes[row, column])
        U = V @ self.basis
        F = np.concatenate([root * U[:, row] * U[:, column], np.full((len(y), 1), math.sqrt(self.slope))], axis=1)
        F *= y[:, None]
        self.solve = _solver(F, at.lower / at.a + at.upper / at.room)

    def direction(self, tau: float) -> _Iterate:
        """Newton's direction towards the point where all products are `tau`."""
        at, y = self.at, self.problem.signs
        H = self.residual + tau * self.inverse - at.S
        h = self.threshold_residual + tau / at.beta - at.r
        G = self._scaled(H)
        pull = y * (np.sum(self.problem.differences @ G * self.problem.differences, axis=1) - self.slope * h)
        bounded = at.upper > 0.0
        to_lower, to_upper = tau / at.a, np.where(bounded, tau / at.room, 0.0)
        right = self.missing + pull + to_lower - to_upper
        if not np.isfinite(right).all():
            raise scipy.linalg.LinAlgError("the scales of the differences overflow")
        da = self.solve(right)
        dW, total = self.problem.matrix(-da), float(da @ y)
        dA, dbeta = self._scaled(dW + H), self.slope * (total + h)
        lower = to_lower - at.lower - at.lower / at.a * da
        upper = np.where(bounded, to_upper - at.upper + at.upper / at.room * da, 0.0)
        dS = psd.symmetrize(dA - dW - self.residual)
        return _Iterate(da, -da, lower, upper, dA, dS, dbeta, dbeta - total - self.threshold_residual)

    def longest(self, step: _Iterate) -> float:
        """How far a direction stays feasible, 1 at most."""
        at = self.at
        scalars = np.array([at.beta, at.r]), np.array([step.beta, step.r])
        vectors = [(getattr(at, name), getattr(step, name)) for name in ("a", "room", "lower", "upper")]
        lengths = [_longest(value, change) for value, change in [scalars, *vectors]]
        for root, change in ((self.root_A, step.A), (self.root_S, step.S)):
            inner = scipy.linalg.solve_triangular(root, change, lower=True)
            inner = scipy.linalg.solve_triangular(root, inner.T, lower=True)
            lowest = psd.smallest_eigenvalue(psd.symmetrize(inner))
            lengths.append(1.0 if lowest >= 0.0 else -1.0 / lowest)
        return min(1.0, *lengths)

    def _scaled(self, H: FloatArray) -> FloatArray:
        with np.errstate(over="ignore", invalid="ignore"):
            inner = self.slopes * (self.basis.T @ H @ self.basis)
        return psd.symmetrize(self.basis @ inner @ self.basis.T)


def _shape(problem: POLAProblem) -> tuple[int, int]:
    d = problem.X.shape[1]
    return len(problem.pairs), d * (d + 1) // 2 + 1


def _missing(problem: POLAProblem, A: FloatArray, beta: float) -> FloatArray:
    """By how much margins are below 1, (p,)."""
    V = problem.differences
    return 1.0 - problem.margins.of(np.sum(V @ A * V, axis=1), 1.0 + beta)


def _longest(value: FloatArray, change: FloatArray) -> float:
    falling = change < 0.0
    return float((value[falling] / -change[falling]).min(initial=1.0))


def _solver(F: FloatArray, diagonal: FloatArray) -> Callable[[FloatArray], FloatArray]:
    """What solves ``(F F^T + diag) x = right``, factorized on the smaller side of F."""
    t, m = F.shape
    if not (np.isfinite(F).all() and np.isfinite(diagonal).all()):
        raise scipy.linalg.LinAlgError("the scales of the differences overflow")
    if t <= m:
        factor = scipy.linalg.cho_factor(F @ F.T + np.diag(diagonal))
        return lambda right: np.asarray(scipy.linalg.cho_solve(factor, right))
    scaled = F / diagonal[:, None]
    factor = scipy.linalg.cho_factor(np.eye(m) + F.T @ scaled)
    return lambda right: np.asarray(right / diagonal - scaled @ scipy.linalg.cho_solve(factor, scaled.T @ right))
