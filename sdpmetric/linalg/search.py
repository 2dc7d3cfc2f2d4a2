"""Searches in floats: a minimum by L-BFGS-B, and the best scale of a function; they prove nothing."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from scipy.optimize import Bounds, OptimizeResult, minimize, minimize_scalar

from sdpmetric.arrays import LARGEST_VALUE, FloatArray

# Share of the tolerance below which a gap estimated in floats is proven.
GAP_SHARE = 0.8


class Stop(IntEnum):
    """Why a round of a solver ended; the trace of a solve keeps it."""

    NONE = 0  # this is no end of a round
    TOLERANCE = 1  # the gap is within the tolerance
    SMOOTHING = 2  # the gap is mostly that of the smoothing, which a smaller width makes smaller
    STALLED = 3  # the descent is slow beside what is left to gain
    COLLAPSED = 4  # the factor has fallen to zero
    LIMIT = 5  # the round has used all its iterations or evaluations
    CONVERGED = 6  # no step lowers the value any more

    def __str__(self) -> str:
        return self.name.lower() if self else ""


def lbfgs(
    evaluate: Callable[[FloatArray], tuple[float, FloatArray]],
    start: FloatArray,
    *,
    stop: Callable[[FloatArray, float], Stop] | None = None,
    bounds: Bounds | None = None,
    **options: float,
) -> tuple[OptimizeResult, Stop]:
    """Minimize a function with its gradient, and return why it ended.

    After each iteration ``stop(x, value)`` may give a reason to end. Options are SciPy's; small changes of value and
    gradient are no reason unless an option says so.
    """
    reason = Stop.NONE

    def look(intermediate_result: OptimizeResult) -> None:
        nonlocal reason
        reason = Stop.NONE if stop is None else stop(intermediate_result.x, float(intermediate_result.fun))
        if reason:
            raise StopIteration

    limits = {"maxcor": 20, "ftol": 0.0, "gtol": 0.0} | options
    minimum = minimize(evaluate, start, jac=True, method="L-BFGS-B", bounds=bounds, callback=look, options=limits)
    return minimum, reason or (Stop.LIMIT if minimum.status == 1 else Stop.CONVERGED)


def best_log_scale(
    objective: Callable[[float], float], logarithms: tuple[float, float], accuracy: float
) -> tuple[float, float]:
    """Return the logarithm of the scale that about minimizes an objective, and its value there.

    The objective takes the logarithm. It is convex along the square of a metric's scale, so a bounded search finds the
    minimum.
    """
    minimum = minimize_scalar(
        lambda log_scale: min(objective(log_scale), LARGEST_VALUE),
        bounds=logarithms,
        method="bounded",
        options={"xatol": accuracy},
    )
    return float(minimum.x), float(minimum.fun)


@dataclass
class Progress:
    """The smallest gap between objective and bound so far, and how many rounds in a row left 0.9 of it or more."""

    smallest_gap: float = math.inf
    idle_rounds: int = 0

    def record(self, gap: float) -> None:
        """Take the gap of another round into account."""
        self.idle_rounds = 0 if gap < 0.9 * self.smallest_gap else self.idle_rounds + 1
        self.smallest_gap = min(self.smallest_gap, gap)
