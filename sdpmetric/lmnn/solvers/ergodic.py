"""The ergodic dual of the projected subgradient method: averages of slopes, and the lower bound that they prove.

Slopes at single metrics prove little, as each hinge is active or not; their average, weighted by the steps that they
led to, converges to optimal multipliers. The error of its bound halves only if averages start again now and then. The
best multipliers are mixed with each average: sums of squares and largest ratios are convex along the segment between
the two, so a mixture of what the bound needs is enough to choose the best one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.optimize import minimize_scalar

from sdpmetric.arrays import FloatArray, LongArray
from sdpmetric.core.certificate import Dual
from sdpmetric.engine.lazy import cached
from sdpmetric.linalg import psd
from sdpmetric.lmnn.bound import best_multiple_bound
from sdpmetric.lmnn.costs import Push
from sdpmetric.lmnn.solvers.active_set import ActiveSet, carried


@dataclass(frozen=True)
class AverageOptions:
    share: float = 0.7  # the gap has fallen to this share of what it was when the average began,
    patience: int = 5  # searches without an improvement of the average's own bound


OPTIONS = AverageOptions()


@dataclass(frozen=True, eq=False)
class Multipliers:
    """A multiplier ``a >= 0`` for each triplet of a list, and what the lower bound needs of them."""

    push: Push
    values: FloatArray  # (nnz, K)
    matrices: FloatArray  # sum a_t B_t of each metric in the coordinates of the loop, (c, p, p)
    whitened: FloatArray  # the same in coordinates that make the linear cost the identity
    sums: FloatArray  # sum a, sum a^2 / w, and the largest a / w

    @cached
    def bound(self) -> float:
        return _bound(self.push, self.whitened, self.sums)


def _bound(push: Push, whitened: FloatArray, sums: FloatArray) -> float:
    if push.weight == 0.0:
        return 0.0
    largest = max((psd.largest_eigenvalue(B) for B in whitened), default=0.0)
    total, squares, peak = sums.tolist()
    headroom = push.weight / peak if peak > 0 else np.inf
    return best_multiple_bound(total, squares if push.squared else None, largest, push.weight, headroom)[0]


class ErgodicDual:
    """Averages of the slopes of an active set, with the steps as weights, and the best multipliers made of them.

    `whiten` is that of `Coordinates`.
    """

    def __init__(self, active: ActiveSet, whiten: Callable[[FloatArray], FloatArray]) -> None:
        self._active, self._whiten = active, whiten
        self._weight = 0.0
        self._values = np.zeros_like(active.slopes)
        self._matrices = np.zeros_like(active.matrices)
        self.best = self._multipliers(self._values, self._matrices)
        self._objective, self._first_gap = np.inf, np.inf
        self._idle_searches, self._patience, self._useful = 0, OPTIONS.patience, False

    @property
    def bound(self) -> float:
        return self.best.bound

    def multipliers(self) -> Callable[[], Dual]:
        """What lists the multipliers that prove the bound, as they are now."""
        return partial(self._active.dual, self._active.candidates, self.best.values)

    def add(self, step: float) -> None:
        """Count the slopes at the current metric in the average, weighted by the step that they lead to."""
        if self._weight == 0 and step == 0:
            step = 1.0  # one set of slopes is an average, whatever its weight
        self._weight += step
        self._values = self._values + step * self._active.slopes
        self._matrices = self._matrices + step * self._active.matrices

    def follow(self, positions: LongArray) -> None:
        """Carry over the values of each triplet to the list that the active set has now."""
        C = self._active.candidates
        self._values = carried(self._values, positions, C)
        self.best = replace(self.best, values=carried(self.best.values, positions, C))

    def improve(self, objective: float) -> bool:
        """Move the best multipliers toward the average and toward the slopes; whether the average is to start again."""
        old_bound, best = self.bound, self.best
        average = self._multipliers(self._values / self._weight, self._matrices / self._weight)
        for candidate in (average, self._multipliers(self._active.slopes, self._active.matrices)):
            if best.sums[0] == 0:
                best = candidate
            elif candidate.sums[0] > 0:
                best = max(best, candidate, self._mixture(best, candidate), key=lambda multipliers: multipliers.bound)
        self.best = best
        self._idle_searches = 0 if best.bound > old_bound else self._idle_searches + 1
        self._useful = self._useful or best.bound > old_bound
        self._objective = min(self._objective, objective)
        gap = self._objective - best.bound
        if not np.isfinite(self._first_gap):
            self._first_gap = gap
        return gap <= OPTIONS.share * self._first_gap or self._idle_searches >= self._patience

    def restart(self, *, drop: bool) -> None:
        """Forget the average; after one that was of no use the next has twice the time."""
        if drop:
            self.follow(self._active.drop(np.asarray((self._values + self.best.values).any(axis=1))))
        self._weight = 0.0
        self._values, self._matrices = np.zeros_like(self._values), np.zeros_like(self._matrices)
        self._first_gap = self._objective - self.bound
        self._patience = OPTIONS.patience if self._useful else 2 * self._patience
        self._idle_searches, self._useful = 0, False

    def _mixture(self, a: Multipliers, b: Multipliers) -> Multipliers:
        """``(1 - s) a + s b`` with about the s of the best bound."""

        def mixed(s: float, x: FloatArray, y: FloatArray) -> FloatArray:
            return (1 - s) * x + s * y

        def loss(s: float) -> float:
            return -_bound(a.push, mixed(s, a.whitened, b.whitened), mixed(s, a.sums, b.sums))

        best = minimize_scalar(loss, bounds=(0, 1), method="bounded", options={"xatol": 1e-3, "maxiter": 12})
        s = float(best.x)
        return self._multipliers(mixed(s, a.values, b.values), mixed(s, a.matrices, b.matrices))

    def _multipliers(self, values: FloatArray, matrices: FloatArray) -> Multipliers:
        push, weights, ratios = self._active.push, self._active.candidates.weights, values
        if weights is not None:
            ratios = values / np.where(weights > 0, weights, 1.0)[:, None]
        squares = float(np.sum(values * ratios)) if push.squared else 0.0
        sums = np.array([float(values.sum()), squares, float(ratios.max(initial=0.0))])
        return Multipliers(push, values, matrices, self._whiten(matrices), sums)
