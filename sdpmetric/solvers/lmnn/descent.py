"""Descent in the factors of the metrics: rounds of L-BFGS on the smoothed objective, escapes from a deficient rank."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from sdpmetric.arrays import FloatArray
from sdpmetric.core.multipliers import Dual
from sdpmetric.core.run import Budget
from sdpmetric.solvers.lmnn.refinement import Bound
from sdpmetric.solvers.lmnn.working_set import WorkingSet

# L-BFGS: iterations between two looks at the progress, pairs it remembers, iterations of one round.
LOOK_EVERY, MEMORY, ROUND = 10, 20, 400
# By the precision of the values: rows of the factor shorter than this share of the longest are dropped, and an
# iteration that lowers the value by less than this share of it is the last of its round.
NEGLIGIBLE: dict[type[np.floating], float] = {np.float32: 5e-3, np.float64: 1e-3}
ROUNDING: dict[type[np.floating], float] = {np.float32: 1e-8, np.float64: 0.0}
# A factor is taken to have fallen to zero below this share of where it began: steps have no size there.
COLLAPSED = 1e-12


@dataclass
class State:
    """Where a solve is, kept current so that an interrupted one can still be certified."""

    L: FloatArray  # factors on `LargeMarginProblem.points`, (c, r, rank)
    gamma: float = math.inf  # smoothing width of the latest round
    lower_bound: float = -math.inf  # the best one so far
    proof: Callable[[], Dual] | None = None  # lists the multipliers behind it


@dataclass
class Slow:
    """Enough when the value falls by less than a share of itself between two looks."""

    share: float
    before: float = math.inf

    def __call__(self, L: FloatArray, value: float) -> bool:
        """Look at a factor and its value; whether it is enough."""
        decrease, self.before = self.before - value, value
        return decrease < self.share * value


def descend(
    state: State,
    working: WorkingSet,
    gamma: float,
    budget: Budget,
    enough: Callable[[FloatArray, float], bool],
) -> None:
    """One round of L-BFGS on the smoothed objective; `enough` looks at the factor and the value now and then."""
    start, shape, iterations = state.L, state.L.shape, 0
    state.gamma = gamma

    def evaluate(v: FloatArray) -> tuple[float, FloatArray]:
        budget.spend()
        value = working.value(v.reshape(shape), gamma)
        return value.smoothed, value.gradient.ravel()

    def look(intermediate_result: OptimizeResult) -> None:
        nonlocal iterations
        iterations += 1
        state.L = intermediate_result.x.reshape(shape).copy()
        if iterations % LOOK_EVERY == 0 and enough(state.L, float(intermediate_result.fun)):
            raise StopIteration

    options = {"maxiter": ROUND, "maxfun": 10 * ROUND, "maxcor": MEMORY, "gtol": 0.0, "maxls": 60}
    options["ftol"] = ROUNDING[working.dtype]
    minimize(evaluate, state.L.ravel(), jac=True, method="L-BFGS-B", callback=look, options=options)
    _, sigma, rows = np.linalg.svd(state.L, full_matrices=False)
    longest = sigma.max(axis=1, keepdims=True)
    if not (longest > COLLAPSED * np.abs(start).max()).any():  # no candidate is active: a search will find others
        state.L = math.sqrt(0.5) * start
        return
    sigma[sigma <= NEGLIGIBLE[working.dtype] * longest] = 0.0
    rank = max(1, int((sigma > 0.0).sum(axis=1).max()))
    state.L = np.ascontiguousarray((sigma[:, :, None] * rows)[:, :rank])


def escape(working: WorkingSet, L: FloatArray, gamma: float, bound: Bound) -> FloatArray:
    """Add the directions in which the dual slack is negative: there the gradient in the factor is blind.

    Along them the smoothed objective is convex in the square of the length; a search over powers finds a good one.
    """
    w, rank = bound.eigenvalues, L.shape[2]
    excess = np.where(w[:, ::-1] > 1.0 + 1e-4, w[:, ::-1] - 1.0, 0.0)
    width = int((excess > 0.0).sum(axis=1).max())
    if width == 0:
        return L
    D = np.sqrt(excess[:, :width, None]) * np.swapaxes(bound.eigenvectors[:, :, ::-1][:, :, :width], 1, 2)
    D *= math.sqrt(float(np.sum(L**2)) / float(np.sum(D**2)))
    best, grown = working.value(L, gamma).smoothed, L
    for t in np.geomspace(1e-4, 1.0, 9):
        longer = np.concatenate([L, t * D], axis=1)
        value = working.value(longer, gamma).smoothed
        if value < best:
            best, grown = value, longer
        elif grown is not L:  # before, what a short step gains may be less than rounding
            break
    if grown.shape[1] > rank:  # directions in which the metric is too small
        _, sigma, rows = np.linalg.svd(grown, full_matrices=False)
        grown = sigma[:, :, None] * rows
    return grown
