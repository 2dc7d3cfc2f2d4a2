"""The maximum of a smooth concave function over a box, by L-BFGS-B in units in which its curvature is about 1."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

FloatArray = NDArray[np.float64]


def ascend(
    function: Callable[[FloatArray], tuple[float, FloatArray]],
    a: FloatArray,
    units: FloatArray,
    ceilings: FloatArray,
    *,
    evaluations: int,
    memory: int,
) -> FloatArray:
    """A better point of the box ``0 <= a <= ceilings``, or the given one where numbers overflow on the way.

    Parameters
    ----------
    function : callable
        Value and gradient at a point of the box, concave.
    a : (t,) array
        Where to start.
    units : (t,) array
        Positive.
    ceilings : (t,) array
        Possibly infinite.
    evaluations : int
        Calls of `function` at most.
    memory : int
        Pairs that the method remembers.
    """

    def negative(scaled: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = function(units * scaled)
        return -value, -units * gradient

    found = minimize(
        negative,
        a / units,
        jac=True,
        method="L-BFGS-B",
        bounds=np.stack([np.zeros(len(units)), ceilings / units], axis=1),
        options={"maxfun": evaluations, "maxiter": evaluations, "maxcor": memory, "ftol": 1e-15, "gtol": 1e-12},
    )
    better: FloatArray = np.clip(units * found.x, 0.0, ceilings)
    return better if np.isfinite(better).all() else a
