"""Sums of terms, in a factor of the metric: L-BFGS on smoothed losses, ever less smoothed, with multipliers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize, minimize_scalar

from sdpmetric.core.certificate import DualityCertificate, InfeasibilityCertificate
from sdpmetric.core.registry import find_solver, solver
from sdpmetric.core.run import Budget, BudgetSpent, Step
from sdpmetric.problems.bound_terms import ROOM, ROOM_SINGLE, BoundTerms
from sdpmetric.problems.metric_problem import MetricProblem

FloatArray = NDArray[np.float64]

# Smoothing width, in units of the terms: the first one, the smallest, and what it is multiplied by after a level that
# took few evaluations or as many as are allowed. A large width is easy for a level, and takes more levels.
FIRST, SMALLEST, NARROWER, WIDER = 1.0, 5e-2, 0.15, 8.0
# Evaluations that are few, iterations of a level at most, pairs of vectors that L-BFGS keeps.
FEW, ITERATIONS, MEMORY = 120, 300, 30
# Iterations of the first level where nothing has to be smoothed; each level has twice as many as the one before.
FEW_SMOOTH = 30
# Logarithms of multiples of a point that are tried.
NEAR = (-0.05, 0.05)
# Rows of the factor below this share of the longest are dropped; new ones have this share of it.
NEGLIGIBLE, NEW = 1e-5, 1e-3
# Eigenvalues of the slack matrix below minus this, relative to its size, are descended along.
ESCAPE = 1e-9
# Levels without a better gap after which the solver stops; without a smaller violation before there is one.
PATIENCE, PATIENCE_INFEASIBLE = 4, 40
# Room of hard constraints as a share of the tolerance, and the smallest.
ROOM_SHARE, SMALLEST_ROOM = 1e-3, 1e-9


@dataclass
class Factor:
    """A factor of the metric in the solver's coordinates.

    Attributes
    ----------
    problem : MetricProblem
    total : BoundTerms
        The sum, with hard constraints in units of the objective.
    T : (k, p) array
        ``L = F T^T B`` with B the basis of the domain; for diagonal ones F is a vector and T diagonal.
    F : (r, p) or (k,) array
    """

    problem: MetricProblem
    T: FloatArray
    F: FloatArray
    total: BoundTerms

    def components(self, F: FloatArray | None = None) -> FloatArray:
        """In the data's coordinates, (r, d)."""
        F = self.F if F is None else F
        B = self.problem.domain.basis
        if self.problem.domain.diagonal:
            return (F * np.diag(self.T))[:, None] * B
        return F @ (self.T.T @ B)

    def gradient(self, F: FloatArray, S: FloatArray) -> FloatArray:
        """By F, from the gradient by the metric."""
        B = self.problem.domain.basis
        if self.problem.domain.diagonal:
            return np.asarray(2.0 * F * np.diag(self.T) ** 2 * np.einsum("ij,jk,ik->i", B, S, B))
        C = self.T.T @ B
        return 2.0 * F @ self._pinched(C @ S @ C.T)

    def escape(self, S: FloatArray) -> None:
        """Drop what is negligible, and add directions in which the objective falls."""
        B = self.problem.domain.basis
        if self.problem.domain.diagonal:
            size = float(np.abs(self.F).max(initial=0.0)) or 1.0
            slopes = np.einsum("ij,jk,ik->i", B, S, B) * np.diag(self.T) ** 2
            small = np.abs(self.F) < NEW * size
            falling = slopes < -ESCAPE * np.abs(slopes).max(initial=0.0)
            self.F = np.where(small & falling, NEW * size, self.F)
            return
        if any(term.name == "log_det" for term in self.problem.total.regularizers):
            return  # every direction is there already
        C = self.T.T @ B
        slopes, rows = C @ S @ C.T, [np.zeros((0, self.F.shape[1]))]
        size, steepest = float(np.linalg.norm(self.F, 2)) or 1.0, float(np.abs(slopes).max(initial=0.0))
        for part in self.parts:
            values, vectors = np.linalg.eigh(slopes[np.ix_(part, part)])
            _, sigma, own = np.linalg.svd(self.F[:, part], full_matrices=False)
            significant = sigma > NEGLIGIBLE * size
            found = np.concatenate(
                [sigma[significant, None] * own[significant], NEW * size * vectors[:, values < -ESCAPE * steepest].T]
            )
            rows.append(np.zeros((len(found), self.F.shape[1])))
            rows[-1][:, part] = found
        self.F = np.concatenate(rows)

    @cached_property
    def parts(self) -> list[NDArray[np.intp]]:
        """The columns of T that belong to each block of the domain."""
        reached = [np.flatnonzero(self.T[part].any(axis=0)) for part in self.problem.domain.parts]
        return reached if self.problem.domain.blocks else [np.arange(self.T.shape[1])]

    def _pinched(self, A: FloatArray) -> FloatArray:
        if not self.problem.domain.blocks:
            return A
        out = np.zeros_like(A)
        for part in self.parts:
            out[np.ix_(part, part)] = A[np.ix_(part, part)]
        return out


@solver(MetricProblem, "lmnn", tol=1e-3, default=True, when=lambda problem: problem.recognised is not None)
def lmnn(problem: MetricProblem, budget: Budget, tol: float) -> Iterator[Step]:
    """The default solver of LMNN, for sums that are LMNN of labels; see `sdpmetric.problems.recognition`.

    Parameters
    ----------
    problem : MetricProblem
    budget : Budget
    tol : float
        Relative gap to prove.

    Yields
    ------
    Step
    """
    known = problem.recognised
    if known is None:
        raise ValueError("the sum is not LMNN of labels; use solver='factored'.")
    for step in find_solver(known.problem, "auto").steps(known.problem, budget, tol):
        judged = step.certificate
        yield replace(
            step,
            objective=known.factor * step.objective,
            lower_bound=known.factor * step.lower_bound,
            certificate=known.certificate(judged) if isinstance(judged, DualityCertificate) else None,
        )


@solver(MetricProblem, "factored", tol=1e-4, default=True)
def steps(problem: MetricProblem, budget: Budget, tol: float, *, start: FloatArray | None = None) -> Iterator[Step]:
    """Minimise a sum of terms in a factor of the metric.

    Losses with kinks are smoothed; each level starts from the multipliers of the one before, as the method of
    multipliers does, so that the width need not vanish. After each level the problem judges point and multipliers.

    Parameters
    ----------
    problem : MetricProblem
    budget : Budget
        Spent once for every evaluation.
    tol : float
        Relative gap to prove; the caller stops at it.
    start : (r, d) array, optional
        Components to start from; default: the best multiple of the identity where costs are whitened.

    Yields
    ------
    Step
        Each with the problem's certificate.
    """
    T, multiple, size = problem.moderate
    factor = Factor(problem, T, _start(problem, T, multiple, start), problem.total)
    zero = np.zeros((0, problem.X.shape[1]))
    yield Step.certified(problem, zero, problem.multipliers(zero, FIRST))
    if start is not None:
        yield Step.certified(problem, start, problem.multipliers(start, FIRST))
    room = ROOM_SINGLE if problem.X.dtype == np.float32 else min(ROOM, max(SMALLEST_ROOM, ROOM_SHARE * tol))
    factor.total = problem.total.stiffened(size, room)
    center: list[FloatArray] | None = None
    best, least, idle, width = math.inf, math.inf, 0, FIRST
    most = ITERATIONS if problem.total.kinked else FEW_SMOOTH
    while idle < (PATIENCE if math.isfinite(best) else PATIENCE_INFEASIBLE):
        spent = budget.spent
        try:
            a, S = _descend(factor, width, center, budget, most)
        except BudgetSpent:
            L = factor.components()
            yield _judged(problem, L, factor.total, factor.total.smoothed(L, width, center)[1], width)
            raise
        step = _judged(problem, factor.components(), factor.total, a, width)
        yield step
        if isinstance(step.certificate, InfeasibilityCertificate):
            return
        gap = step.objective - step.lower_bound if math.isfinite(step.objective) else math.inf
        off = step.certificate.primal_residual if step.certificate is not None else math.inf
        idle = 0 if gap < 0.9 * best or (best == math.inf and off < 0.9 * least) else idle + 1
        least = off if idle == 0 else least
        best, center, spent = min(best, gap), a, budget.spent - spent
        if not problem.total.kinked:
            most *= 2
            continue
        width *= WIDER if spent >= ITERATIONS else NARROWER if spent <= FEW and width > SMALLEST else 1.0
        factor.escape(S)


def _start(problem: MetricProblem, T: FloatArray, multiple: float, start: FloatArray | None) -> FloatArray:
    if problem.domain.diagonal:
        k = len(problem.domain.basis)
        if start is None:
            return multiple * np.ones(k)
        roots = np.sqrt(problem.domain.combination(start.T @ start)) / np.maximum(np.diag(T), 1e-300)
        return np.asarray(roots + 1e-3 * (float(roots.max()) or 1.0))
    if start is None:
        return multiple * np.eye(T.shape[1])
    found = np.linalg.lstsq(problem.domain.basis.T @ T, start.T, rcond=None)[0].T
    sizes = np.linalg.norm(found)
    return np.concatenate([found, 1e-3 * (sizes or 1.0) * np.eye(T.shape[1])])


def _descend(
    factor: Factor, width: float, center: list[FloatArray] | None, budget: Budget, most: int
) -> tuple[list[FloatArray], FloatArray]:
    """Minimise at one width in `most` iterations; the slopes and the gradient by the metric at the end."""
    shape = factor.F.shape

    def evaluate(flat: FloatArray) -> tuple[float, FloatArray]:
        budget.spend()
        F = flat.reshape(shape)
        value, _, S = factor.total.smoothed(factor.components(F), width, center)
        if not math.isfinite(value):
            back = F - factor.F  # to where the objective is finite
            return lowest[0] + 10.0 * abs(lowest[0]), (20.0 * abs(lowest[0]) / np.sum(back**2) * back).ravel()
        if value < lowest[0]:
            lowest[0], factor.F = value, F.copy()
        return value, factor.gradient(F, S).ravel()

    lowest = [math.inf]
    options = {"maxiter": most, "maxfun": 2 * most, "maxcor": MEMORY, "ftol": 1e-16, "gtol": 0.0}
    if factor.F.size:
        minimize(evaluate, factor.F.ravel(), jac=True, method="L-BFGS-B", options=options)
    _, a, S = factor.total.smoothed(factor.components(), width, center)
    return a, S


def _judged(problem: MetricProblem, L: FloatArray, total: BoundTerms, a: list[FloatArray], width: float) -> Step:
    """A step at the better one of a point and the one that belongs to the multipliers, at its best multiple."""
    dual = np.concatenate([np.zeros(0), *a])
    if not problem.total.kinked:  # the point is stationary
        return Step.certified(problem, L, dual, step=width)
    other = problem.dual.minimizer(a)
    value = total.value(L)[0]
    if other is not None and total.value(other)[0] < value:
        L, value = other, total.value(other)[0]

    def multiple(s: float) -> float:
        return min(total.value(math.exp(s) * L)[0], 1e300)

    found = minimize_scalar(multiple, bounds=NEAR, method="bounded", options={"xatol": 1e-10})
    if found.fun < min(value, 1e300):
        L = math.exp(float(found.x)) * L
    return Step.certified(problem, L, dual, step=width)
