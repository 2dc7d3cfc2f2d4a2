"""The one rule for gaps: how far an objective is from a lower bound, and when the gap counts as closed."""

from __future__ import annotations

import math

# A lower bound may exceed an objective by this share of the larger one where rounding is estimated, as in solvers and
# in statements whose bounds are not enclosed; a larger excess is a contradiction.
CONTRADICTION = 1e-12


def absolute_gap(objective: float, lower_bound: float) -> float:
    """The gap ``primal - dual``, at least 0; infinity where evidence is missing or contradicts itself."""
    if not (math.isfinite(objective) and math.isfinite(lower_bound)):
        return math.inf
    gap = objective - lower_bound
    return max(gap, 0.0) if gap >= -CONTRADICTION * max(abs(objective), abs(lower_bound)) else math.inf


def relative_gap(objective: float, lower_bound: float) -> float:
    """The relative gap ``(primal - dual) / max(|primal|, |dual|)``; 0 where both are 0, infinity without evidence.

    A lower bound above the objective by more than rounding is no evidence: one of the two is wrong.
    """
    gap = absolute_gap(objective, lower_bound)
    return gap / max(abs(objective), abs(lower_bound)) if 0.0 < gap < math.inf else gap


def resolved(objective: float, lower_bound: float, resolution: float) -> bool:
    """Whether a gap is open and at most the resolution, which is positive only for optima proven to be at most 0."""
    return 0.0 < absolute_gap(objective, lower_bound) <= resolution < math.inf


def closed(objective: float, lower_bound: float, tol: float, resolution: float = 0.0) -> bool:
    """Whether a point is proven optimal: to a relative gap of `tol`, or by the resolution."""
    return relative_gap(objective, lower_bound) <= tol or resolved(objective, lower_bound, resolution)
