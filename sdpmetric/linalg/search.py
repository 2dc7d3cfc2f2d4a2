"""Searches in floats: a minimum by L-BFGS-B, and the scale at which a function is smallest; they prove nothing."""

from __future__ import annotations

from collections.abc import Callable

from scipy.optimize import Bounds, OptimizeResult, minimize, minimize_scalar

from sdpmetric.arrays import FloatArray

# Pairs of steps and gradients that L-BFGS-B keeps.
MEMORY = 20
# Values are capped, since Brent's method subtracts them.
LARGEST = 1e300


def lbfgs(
    evaluate: Callable[[FloatArray], tuple[float, FloatArray]],
    start: FloatArray,
    *,
    stop: Callable[[FloatArray, float], bool] | None = None,
    bounds: Bounds | None = None,
    **options: float,
) -> OptimizeResult:
    """Minimize a function with its gradient until ``stop(x, value)`` after an iteration, or no further fall.

    Options are SciPy's. Changes of value and gradient end the search only where an option says so.
    """

    def look(intermediate_result: OptimizeResult) -> None:
        if stop is not None and stop(intermediate_result.x, float(intermediate_result.fun)):
            raise StopIteration

    limits = {"maxcor": MEMORY, "ftol": 0.0, "gtol": 0.0} | options
    return minimize(evaluate, start, jac=True, method="L-BFGS-B", bounds=bounds, callback=look, options=limits)


def best_log_scale(
    objective: Callable[[float], float], logarithms: tuple[float, float], accuracy: float
) -> tuple[float, float]:
    """Return the logarithm of the scale at which an objective is about smallest, and its value there.

    The objective takes the logarithm. It is convex along the square of a metric's scale, so a bounded search finds the
    minimum.
    """
    minimum = minimize_scalar(
        lambda log_scale: min(objective(log_scale), LARGEST),
        bounds=logarithms,
        method="bounded",
        options={"xatol": accuracy},
    )
    return float(minimum.x), float(minimum.fun)
