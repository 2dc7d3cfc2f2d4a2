"""Best points and best multipliers on a ray, in closed form, for a metric with a threshold; proofs in docs/pola.md."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def squared_norm(components: FloatArray) -> float:
    """``||A||_F^2`` of the metric with this factor."""
    r, d = components.shape
    return float(np.sum((components @ components.T if r < d else components.T @ components) ** 2))


def extremes(q: FloatArray, similar: NDArray[np.bool_]) -> tuple[float, float]:
    """The largest distance of a similar pair, 0 without one, and the least of a dissimilar pair, or infinity."""
    return float(q[similar].max(initial=0.0)), float(q[~similar].min(initial=math.inf))


def best_hard_threshold(near: float, far: float, start: float) -> float:
    """The threshold ``b >= 1`` nearest to `start` in ``[near + 1, far - 1]``; that interval may be empty."""
    return max(1.0, min(max(start, near + 1.0), far - 1.0))


def best_soft_threshold(q: FloatArray, signs: FloatArray, start: float, weights: FloatArray) -> float:
    """Minimize ``1/2 (b - start)^2 + sum_t w_t [1 - y_t (b - q_t)]_+`` over ``b >= 1``.

    Convex and piecewise quadratic: its slope grows with b, and jumps by ``w_t`` at each corner ``q_t + y_t``.
    """
    order = np.argsort(q + signs, kind="stable")
    corners = (q + signs)[order]
    pushed = np.concatenate([[0.0], np.cumsum(weights[order])]) - float(weights[signs > 0].sum())
    slopes = corners - start + pushed[:-1]  # just left of each corner
    first = int(np.searchsorted(slopes, 0.0))
    below = float(corners[first - 1]) if first else -math.inf
    return max(1.0, below, start - float(pushed[first]))


def best_multiple(size: float, near: float, far: float, start: float) -> float:
    """The scale ``c >= 0`` for which ``(c A, b)``, b the best threshold, has the least hard-margin objective."""
    if far <= near:
        return 1.0
    if far == math.inf:
        return 0.0
    multiple = max(2.0 / (far - near), _ratio((start + 1.0) * far, size + far * far))
    return multiple if multiple < math.inf else 1.0


def best_dual_multiple(total: float, summed: float, size: float, start: float, ceiling: float) -> float:
    """The multiple of multipliers ``a`` with the largest dual value."""
    # The dual value is one parabola while b(tau a) > 1, and another one from `turn` on, where b stays at 1.
    turn = (start - 1.0) / -total if total < 0 else math.inf
    best = _ratio(summed - start * total, size + total * total)
    if best > turn:
        best = max(turn, _ratio(summed - total, size))
    multiple = min(best, ceiling)
    return multiple if multiple < math.inf else 1.0


def _ratio(numerator: float, denominator: float) -> float:
    if numerator <= 0.0:
        return 0.0
    return numerator / denominator if denominator > 0.0 else math.inf
