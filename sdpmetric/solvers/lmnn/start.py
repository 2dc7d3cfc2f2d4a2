"""Where descent in the factor starts."""

from __future__ import annotations

import math

import numpy as np

from sdpmetric.arrays import FloatArray
from sdpmetric.linalg import psd
from sdpmetric.problems.lmnn import LMNNProblem
from sdpmetric.triplets.margins import margins

# Triplets that the starting scale is chosen by.
SAMPLE = 30_000
# Directions of a factor that descent starts with; those that it lacks are added where they pay.
LEADING = 96


def scaled_start(problem: LMNNProblem, start: FloatArray | None, rng: np.random.Generator) -> tuple[FloatArray, bool]:
    """A factor on `LMNNProblem.points` at the scale that is best for a sample of triplets, and whether it is `start`.

    From a start at the wrong scale the first level can wander off by orders of magnitude. A given start competes with
    the Euclidean metric and the whitened one, so that a bad one does no harm.
    """
    inverse = problem.coordinates.inverse[: problem.coordinates.rank]
    euclidean = psd.factor(inverse @ inverse.T)
    shapes = [euclidean, np.eye(problem.coordinates.rank)] + ([] if start is None else [start @ inverse.T])
    triplets, share = problem.source.sample(SAMPLE, rng)
    best, chosen, warm = math.inf, euclidean, False
    for L in shapes:
        trace = float(np.sum(L**2))
        if not trace > 0.0:
            continue
        margin = margins(problem.points @ L.T, triplets)
        for s in np.geomspace(1e-4, 1e8, 49) / trace:
            loss = np.maximum(0.0, 1.0 - s * margin)
            value = s * trace + problem.push_weight / share * float(np.sum(loss**2 if problem.squared else loss))
            if value < best:
                best, chosen, warm = value, math.sqrt(s) * L, L is shapes[-1] and start is not None
    return chosen if warm else _leading(problem.points, chosen), warm


def _leading(points: FloatArray, L: FloatArray) -> FloatArray:
    """The part of a factor (r, rank) along the directions in which the embedded points vary most."""
    if len(L) <= LEADING:
        return L
    _, directions = np.linalg.eigh(np.cov(points @ L.T, rowvar=False))
    return np.ascontiguousarray(directions[:, -LEADING:].T @ L)
