"""The online update of POLA with full decompositions, as its paper prints it: what the streams are checked against."""

from dataclasses import dataclass

import numpy as np

import sdpmetric as sm
from sdpmetric.linalg import psd


@dataclass(frozen=True, eq=False)
class Threshold:
    """A metric with its threshold: pairs nearer than the threshold are predicted similar."""

    metric: np.ndarray
    threshold: float

    def loss(self, v: np.ndarray, sign: float) -> float:
        """The hinge ``[1 - y (b - v^T A v)]_+`` of a pair with difference v; above 1 where the pair is mistaken."""
        return max(0.0, 1.0 - sign * (self.threshold - float(v @ self.metric @ v)))


def project_margin(point: Threshold, v: np.ndarray, sign: float, gamma: float = 0.0) -> tuple[Threshold, float]:
    """Project onto ``{y (b - v^T A v) >= 1}``, symmetric A; also the step length ``loss / (||v||^4 + 1 + gamma)``."""
    step = point.loss(v, sign) / (float(v @ v) ** 2 + 1.0 + gamma)
    return Threshold(point.metric - sign * step * np.outer(v, v), point.threshold + sign * step), step


def project_cone(point: Threshold) -> Threshold:
    """Project onto ``{A PSD, b >= 1}``."""
    return Threshold(psd.project(point.metric), max(1.0, point.threshold))


def update(point: Threshold, v: np.ndarray, sign: float, gamma: float = 0.0) -> tuple[Threshold, float]:
    """One online step: project onto the pair's margin, then onto metrics and thresholds; also the step length."""
    projected, step = project_margin(point, v, sign, gamma)
    return project_cone(projected) if step else point, step


def separable(seed: int, weight: float | None = None, p: int = 25, start: float = 1.5) -> sm.POLAProblem:
    """A hard margin that can be kept, with a planted metric of rank 2 in 3 dimensions."""
    rng = np.random.default_rng(seed)
    X, L = rng.normal(size=(15, 3)), rng.normal(size=(2, 3))
    pairs = np.array([rng.choice(15, 2, replace=False) for _ in range(p)])
    q = np.sum(((X[pairs[:, 0]] - X[pairs[:, 1]]) @ L.T) ** 2, axis=1)
    return sm.POLAProblem(X, pairs, q < np.quantile(q, 0.4), weight, start)
