"""LMNN with a Frobenius term on its dual: an active set of triplets, safe screening, proximal Newton steps.

The dual is concave and once differentiable, with a box for each multiplier and nothing else, so that every iterate is
dual feasible. The primal point is ``M(a)``. See ``docs/frobenius.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.optimize import minimize, minimize_scalar

from sdpmetric.distances import distances, margin_adjoint, margins
from sdpmetric.problems import screening
from sdpmetric.problems.frobenius import FrobeniusLMNNProblem
from sdpmetric.problems.screening import Screening
from sdpmetric.solution import Dual
from sdpmetric.solvers.base import Budget, Step
from sdpmetric.triplets import Triplets

FloatArray = NDArray[np.float64]

# Triplets whose margin is missed by no more than this beyond 1 join the active set, and the search is as much wider.
BAND = 0.3
# Silent triplets leave the active set beyond this margin.
DROP = 2.0
# Anchors on which the scale of the first metric is found.
SAMPLE = 300
# Evaluations of L-BFGS-B at first, and the most proximal centers and Newton steps for each of them.
FIRST_ORDER, CENTERS, NEWTON = 100, 12, 12
# Weights of the proximal term, where the curvature along each multiplier is at most 1: from first to last.
PROXIMAL, LEAST_PROXIMAL = 1e-2, 1e-8
# Newton's equations are solved up to this size; beyond it L-BFGS-B is on its own.
MAX_EQUATIONS = 2500
# Rounds of search, and rounds without a better gap, before giving up.
ROUNDS, PATIENCE = 100, 8
# Quadratic terms are brought up to this share of the objective by a proximal term.
SHARE = 0.03
# Where a round leaves more than SLOW of the gap, the proximal term holds the metric back: it shrinks to FADE of itself.
SLOW, FADE = 0.5, 0.3
# A working set is solved to this share of the asked gap, or of the gap that it began with.
INNER, RELATIVE = 0.2, 3e-2
# All triplets are screened again where the gap is this share of what it was.
RESCREEN = 0.2
# A screening that leaves more triplets than this, for each that is active, is not worth looking up.
USEFUL = 10


def steps(
    problem: FrobeniusLMNNProblem, budget: Budget, tol: float, *, start: FloatArray | None = None
) -> Iterator[Step]:
    """Solve LMNN with a Frobenius term.

    Parameters
    ----------
    problem : FrobeniusLMNNProblem
    budget : Budget
        One iteration for each evaluation of the dual.
    tol : float
        Relative gap to prove.
    start : (r, d) array, optional
        Components of a metric, whose triplets are the first active set.

    Yields
    ------
    Step
        One for each round: a solved active set, searched exhaustively, with the share of triplets screened so far.
    """
    base = problem.base
    L = _scaled_identity(problem) if start is None else start
    certificate = problem.certify(L)
    yield Step(L, certificate.objective, certificate.lower_bound, certificate=certificate)
    triplets = _near(problem, L)
    missed = 1.0 - margins(base.embed(L), triplets)
    share = SHARE
    nearness = Nearness.of(problem, L, share * certificate.objective)
    state = _State(problem, triplets, _ceilings(problem, triplets) * np.clip(missed, 0.0, 1.0), nearness)
    found: Screening | None = None
    best_gap, screened_at, patience = math.inf, math.inf, PATIENCE
    for _ in range(ROUNDS):
        state = _solve(state, budget, INNER * tol)
        dual = state.dual
        points = [state.here.components, problem.dual_point(dual).components]
        # The second one is where the proximal term has nothing left to do.
        L = min(points if nearness.weight > 0.0 else points[:1], key=lambda point: problem.objective(point))
        certificate = problem.certify(L, dual=dual)
        if certificate.gap <= RESCREEN * screened_at:
            found, screened_at = problem.screen(L, dual=dual), certificate.gap
        yield Step(
            L,
            certificate.objective,
            certificate.lower_bound,
            partial(_given, dual),
            certificate,
            n_active=certificate.n_active,
            screened=0.0 if found is None else found.share,
        )
        patience = PATIENCE if certificate.gap < 0.9 * best_gap else patience - 1
        if patience == 0:
            return
        share *= 1.0 if certificate.gap < SLOW * best_gap else FADE
        best_gap = min(best_gap, certificate.gap)
        nearness = Nearness.of(problem, L, share * certificate.objective)
        state = _renewed(state, nearness, found)


def _given(dual: Dual) -> Dual:
    return dual


def _scaled_identity(problem: FrobeniusLMNNProblem) -> FloatArray:
    """The multiple of the identity with about the smallest objective, judged on some anchors."""
    base, n = problem.base, len(problem.X)
    among = np.unique(np.linspace(0, n - 1, min(n, SAMPLE)).astype(np.int32))
    identity = np.eye(problem.X.shape[1])
    units = float(np.sqrt(np.mean(base.centered**2))) or 1.0

    def objective(log_scale: float) -> float:
        L = math.exp(log_scale) / units * identity
        return base.partial_objective(base.embed(L), L, among) + problem.penalty(L) * len(among) / n

    found = minimize_scalar(objective, bounds=(-5.0, 3.0), method="bounded", options={"xatol": 0.05})
    scaled: FloatArray = math.exp(found.x) / units * identity
    return scaled


def _near(problem: FrobeniusLMNNProblem, L: FloatArray) -> Triplets:
    """The triplets whose margin is below 1 at a metric, or a little above."""
    base = problem.base
    Z = base.embed(L)
    every = base.push.candidates(Z, widen=BAND)
    weights = np.ones(len(every.impostors)) if every.weights is None else every.weights
    listed, _ = every.triplets((every.targets >= 0)[every.rows] * weights[:, None])
    return listed[margins(Z, listed) <= 1.0 + BAND]


def _ceilings(problem: FrobeniusLMNNProblem, triplets: Triplets) -> FloatArray:
    return problem.base.push_weight * problem.base.source.weights_of(triplets)


@dataclass(frozen=True)
class _Point:
    """The dual at some multipliers: value and gradient, the metric, and the eigenvalues behind the curvature."""

    value: float
    gradient: FloatArray
    values: FloatArray
    vectors: FloatArray
    components: FloatArray


@dataclass(frozen=True, eq=False)
class Nearness:
    """A proximal term ``weight / 2 ||M - center||_F^2``, for problems whose own Frobenius term is slight.

    Attributes
    ----------
    weight : float
    center : (d, d) array
    """

    weight: float
    center: FloatArray

    @classmethod
    def of(cls, problem: FrobeniusLMNNProblem, L: FloatArray, wanted: float) -> Nearness:
        """As much as brings the quadratic terms of a metric to a wanted size, around this metric."""
        M = L.T @ L
        # A metric next to zero says nothing about the size of the optimal one: distances of about 1 do.
        spread = 2.0 * float(np.sum(np.var(problem.base.centered, axis=0)))
        size = max(float(np.sum(M**2)), 1.0 / spread**2) if spread > 0.0 else math.inf
        return cls(max(0.0, 2.0 * wanted / size - problem.frobenius), M)


@dataclass(frozen=True, eq=False)
class _State:
    """Multipliers of an active set of triplets; beside them those that screening has fixed at their upper bounds."""

    problem: FrobeniusLMNNProblem
    triplets: Triplets
    a: FloatArray
    nearness: Nearness
    violated: Triplets = Triplets(*(np.zeros(0, dtype=np.int32) for _ in range(3)))  # noqa: RUF009 never written to

    @cached_property
    def ceilings(self) -> FloatArray:
        return _ceilings(self.problem, self.triplets)

    @cached_property
    def fixed(self) -> tuple[float, FloatArray]:
        """What the fixed multipliers add to ``sum a_t`` and ``sum a_t B_t - C``."""
        values = _ceilings(self.problem, self.violated)
        B = margin_adjoint(self.problem.base.centered, self.violated, values)
        return float(values.sum()), B - self.problem.linear_cost + self.nearness.weight * self.nearness.center

    @property
    def quadratic(self) -> float:
        """Weight of all quadratic terms."""
        return self.problem.frobenius + self.nearness.weight

    @cached_property
    def units(self) -> FloatArray:
        """Units of the multipliers in which the curvature along each is at most 1."""
        X, T = self.problem.base.centered, self.triplets
        pairs = ((T.anchors, T.impostors), (T.anchors, T.targets), (T.targets, T.impostors))
        size = screening.norms(*(distances(X, *pair) for pair in pairs))
        units: FloatArray = math.sqrt(self.quadratic) / np.maximum(size, 1e-100)
        return np.where(size > 0.0, units, 1.0)

    @property
    def dual(self) -> Dual:
        both = np.concatenate([self.triplets.to_array(), self.violated.to_array()])
        return Dual(Triplets.from_array(both), np.concatenate([self.a, _ceilings(self.problem, self.violated)]))

    @cached_property
    def here(self) -> _Point:
        return self.at(self.a)

    @cached_property
    def gap(self) -> float:
        """The gap over the active set, as a sum of terms that are not negative."""
        gradient = self.here.gradient
        return float(np.sum(self.ceilings * np.maximum(gradient, 0.0) - self.a * gradient))

    def at(self, a: FloatArray) -> _Point:
        problem, (total, W) = self.problem, self.fixed
        X, lam = problem.base.centered, self.quadratic
        values, vectors = np.linalg.eigh(W + margin_adjoint(X, self.triplets, a))
        kept = values > 0.0
        L = np.sqrt(values[kept] / lam)[:, None] * vectors[:, kept].T
        value = total + float(a.sum()) - 0.5 * float(np.sum(values[kept] ** 2)) / lam
        return _Point(value, 1.0 - margins(X @ L.T, self.triplets), values, vectors, L)

    def moved(self, a: FloatArray) -> _State:
        """The same active set at other multipliers; what depends on the set is kept."""
        new = replace(self, a=a)
        for name in ("ceilings", "fixed", "units"):
            new.__dict__[name] = getattr(self, name)
        return new


def _renewed(state: _State, nearness: Nearness, found: Screening | None) -> _State:
    """The next active set: what is used or nearly so, what an exhaustive search finds, less what is screened."""
    problem, n, point = state.problem, len(state.problem.X), state.here
    kept = (state.a > 0.0) | (point.gradient > 1.0 - DROP)
    own, near = state.triplets[kept], _near(problem, point.components)
    if found is not None and len(found.undecided) > USEFUL * max(len(own), 1):
        found = None
    fixed = state.violated if found is None else found.violated
    near = near[~np.isin(near.keys(n), np.concatenate([own.keys(n), fixed.keys(n)]))]
    joined = Triplets.from_array(np.concatenate([own.to_array(), near.to_array()]))
    a = np.concatenate([state.a[kept], np.zeros(len(near))])
    if found is not None:
        undecided = np.isin(joined.keys(n), found.undecided.keys(n))
        joined, a = joined[undecided], a[undecided]
    return _State(problem, joined, a, nearness, fixed)


def _solve(state: _State, budget: Budget, tol: float) -> _State:
    """Solve the dual over an active set, to a relative gap or to a share of the gap it begins with."""
    if not len(state.triplets):
        budget.spend()
        return state
    budget.spend()
    goal = max(tol * abs(state.here.value), RELATIVE * state.gap)
    state = _first_order(state, budget)
    weight = PROXIMAL
    for _ in range(CENTERS):
        if state.gap <= goal:
            break
        center, before = state.a, state.gap
        for _ in range(NEWTON):
            new = _newton(state, center, weight, budget)
            if new is None:
                break
            moved = float(np.linalg.norm((new.a - state.a) / state.units))
            state = new
            if state.gap <= goal or moved <= 1e-3 * float(np.linalg.norm((state.a - center) / state.units)):
                break
        weight = max(LEAST_PROXIMAL, weight * (0.1 if state.gap < 0.5 * before else 0.3))
    return state


def _first_order(state: _State, budget: Budget) -> _State:
    units = state.units

    def negative(scaled: FloatArray) -> tuple[float, FloatArray]:
        budget.spend()
        point = state.at(units * scaled)
        return -point.value, -units * point.gradient

    found = minimize(
        negative,
        state.a / units,
        jac=True,
        method="L-BFGS-B",
        bounds=np.stack([np.zeros(len(units)), state.ceilings / units], axis=1),
        options={"maxfun": FIRST_ORDER, "maxiter": FIRST_ORDER, "maxcor": 20, "ftol": 1e-15, "gtol": 1e-12},
    )
    a = np.clip(units * found.x, 0.0, state.ceilings)
    return state.moved(a) if np.isfinite(a).all() else state


def _newton(state: _State, center: FloatArray, weight: float, budget: Budget) -> _State | None:
    """One projected semismooth Newton step on ``g(a) - weight / 2 ||a - center||^2``, in units; None: no ascent."""
    a, unit, ceiling, point = state.a, state.units, state.ceilings, state.here
    gradient = unit * point.gradient - weight * (a - center) / unit
    # Multipliers that are near a bound and pushed there go there, lest clipping bend the direction (Bertsekas 1982).
    ascent = np.clip(a / unit + gradient, 0.0, ceiling / unit) - a / unit
    near = min(1e-3 * float((ceiling / unit).max()), float(np.linalg.norm(ascent))) * unit
    down, up = (a <= np.minimum(near, 0.5 * ceiling)) & (gradient <= 0.0), (a >= ceiling - near) & (gradient >= 0.0)
    free = np.flatnonzero(~(down | up))
    direction = np.where(down, -a, np.where(up, ceiling - a, 0.0))
    if len(free):
        F = _curvature(state, free)
        if min(F.shape) > MAX_EQUATIONS:
            return None
        direction[free] = unit[free] * _damped(F, weight, gradient[free])
    rounding = 1e-14 * (abs(point.value) + float(a.sum()))
    value = point.value - 0.5 * weight * float(np.sum(((a - center) / unit) ** 2))
    for shorter in range(8):
        new = np.clip(a + 0.4**shorter * direction, 0.0, ceiling)
        promised = float(gradient @ ((new - a) / unit))
        if promised <= 0.0:
            continue
        budget.spend()
        moved = state.moved(new)
        gained = moved.here.value - 0.5 * weight * float(np.sum(((new - center) / unit) ** 2)) - value
        if gained >= 1e-4 * promised - rounding:
            return moved
    return None


def _damped(F: FloatArray, weight: float, right: FloatArray) -> FloatArray:
    """Solve ``(F F^T + weight I) x = right`` on the smaller side of F."""
    rows, columns = F.shape
    if rows <= columns:
        return np.asarray(scipy.linalg.solve(F @ F.T + weight * np.eye(rows), right, assume_a="pos"))
    inner = scipy.linalg.solve(F.T @ F + weight * np.eye(columns), F.T @ right, assume_a="pos")
    return np.asarray(right - F @ inner) / weight


def _curvature(state: _State, free: NDArray[np.intp]) -> FloatArray:
    """A root F of the negative Hessian of the dual on some multipliers in units, ``F F^T``.

    The derivative of the projection onto the cone is ``H -> Q (Omega * (Q^T H Q)) Q^T`` with ``Omega`` 1 where both
    eigenvalues are positive, 0 where neither is, and ``l_i / (l_i - l_j)`` between.
    """
    values, X, T = state.here.values, state.problem.base.centered, state.triplets[free]
    positive = values > 0.0
    row, column = np.triu_indices(len(values))
    both, one = positive[row] & positive[column], positive[row] ^ positive[column]
    omega = both.astype(np.float64)
    larger, smaller = np.maximum(values[row], values[column]), np.minimum(values[row], values[column])
    omega[one] = larger[one] / (larger[one] - smaller[one])
    used = omega > 0.0
    row, column = row[used], column[used]
    root = np.sqrt(omega[used] * np.where(row == column, 1.0, 2.0) / state.quadratic)
    Y = X @ state.here.vectors
    U, V = Y[T.anchors] - Y[T.impostors], Y[T.anchors] - Y[T.targets]
    F: FloatArray = U[:, row] * U[:, column] - V[:, row] * V[:, column]
    F *= root
    F *= state.units[free][:, None]
    return F
