"""The ergodic dual of the projected subgradient method: averages of slopes, and the lower bound that they prove."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.optimize import minimize_scalar

from sdpmetric.arrays import FloatArray
from sdpmetric.core.certificate import Dual
from sdpmetric.engine.cached import cached
from sdpmetric.linalg import psd
from sdpmetric.lmnn.bound import best_multiple_bound
from sdpmetric.lmnn.push import Push
from sdpmetric.lmnn.solvers.active_set import ActiveSet, Positions, carried

# An average starts afresh once the gap has fallen to this share of what it was when the average began, or once the
# average's own bound has not improved for so many searches.
RESTART_SHARE = 0.7
PATIENCE = 5


@dataclass(frozen=True, eq=False)
class Multipliers:
    """A multiplier ``a >= 0`` for each triplet of a list, and what the lower bound needs of them."""

    push: Push
    values: FloatArray  # (nnz, K)
    matrices: FloatArray  # sum a_t B_t of each metric in the coordinates of the loop, (c, p, p)
    whitened: FloatArray  # the same in coordinates in which the linear cost is the identity
    sums: FloatArray  # sum a, sum a^2 / w, and the largest a / w

    @cached
    def bound(self) -> float:
        """The best lower bound of all multiples, up to rounding."""
        return _bound(self.push, self.whitened, self.sums)


def _bound(push: Push, whitened: FloatArray, sums: FloatArray) -> float:
    if push.weight == 0.0:
        return 0.0
    top = max((psd.largest_eigenvalue(B) for B in whitened), default=0.0)
    total, squares, peak = sums.tolist()
    headroom = push.weight / peak if peak > 0 else np.inf
    return best_multiple_bound(total, squares if push.squared else None, top, push.weight, headroom)[0]


class ErgodicDual:
    """Averages of the slopes of an active set, with the steps as weights, and the best multipliers made of them.

    Parameters
    ----------
    whiten : callable
        As in `Coordinates.whiten`.
    """

    def __init__(self, active: ActiveSet, whiten: Callable[[FloatArray], FloatArray]) -> None:
        self._active, self._whiten = active, whiten
        self._weight = 0.0
        self._values = np.zeros_like(active.slopes)
        self._matrices = np.zeros_like(active.matrices)
        self.best = self._multipliers(self._values, self._matrices)
        self._objective, self._first = np.inf, np.inf
        self._stale, self._patience, self._useful = 0, PATIENCE, False

    @property
    def bound(self) -> float:
        """The best lower bound so far."""
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

    def follow(self, positions: Positions) -> None:
        """Carry over what is known of each triplet to the list that the active set has now."""
        C = self._active.candidates
        self._values = carried(self._values, positions, C)
        self.best = replace(self.best, values=carried(self.best.values, positions, C))

    def improve(self, objective: float) -> bool:
        """Move the best multipliers toward the average, and toward the slopes at the current metric."""
        before, best = self.bound, self.best
        average = self._multipliers(self._values / self._weight, self._matrices / self._weight)
        for candidate in (average, self._multipliers(self._active.slopes, self._active.matrices)):
            if best.sums[0] == 0:
                best = candidate
            elif candidate.sums[0] > 0:
                best = max(best, candidate, self._mixture(best, candidate), key=lambda each: each.bound)
        self.best = best
        self._stale = 0 if best.bound > before else self._stale + 1
        self._useful = self._useful or best.bound > before
        self._objective = min(self._objective, objective)
        gap = self._objective - best.bound
        if not np.isfinite(self._first):
            self._first = gap
        return gap <= RESTART_SHARE * self._first or self._stale >= self._patience

    def restart(self, *, drop: bool) -> None:
        """Forget the average; after one that was of no use the next has twice the time."""
        if drop:
            self.follow(self._active.drop(np.asarray((self._values + self.best.values).any(axis=1))))
        self._weight = 0.0
        self._values, self._matrices = np.zeros_like(self._values), np.zeros_like(self._matrices)
        self._first = self._objective - self.bound
        self._patience = PATIENCE if self._useful else 2 * self._patience
        self._stale, self._useful = 0, False

    def _mixture(self, one: Multipliers, other: Multipliers) -> Multipliers:
        """The mixture of two that proves about the most; squares and peaks are convex along the way."""

        def mixed(share: float, own: FloatArray, more: FloatArray) -> FloatArray:
            return (1 - share) * own + share * more

        def loss(share: float) -> float:
            whitened, sums = mixed(share, one.whitened, other.whitened), mixed(share, one.sums, other.sums)
            return -_bound(one.push, whitened, sums)

        found = minimize_scalar(loss, bounds=(0, 1), method="bounded", options={"xatol": 1e-3, "maxiter": 12})
        share = float(found.x)
        return self._multipliers(mixed(share, one.values, other.values), mixed(share, one.matrices, other.matrices))

    def _multipliers(self, values: FloatArray, matrices: FloatArray) -> Multipliers:
        push, weights, relative = self._active.push, self._active.candidates.weights, values
        if weights is not None:
            relative = values / np.where(weights > 0, weights, 1.0)[:, None]
        squares = float(np.sum(values * relative)) if push.squared else 0.0
        sums = np.array([float(values.sum()), squares, float(relative.max(initial=0.0))])
        return Multipliers(push, values, matrices, self._whiten(matrices), sums)
