"""The scale at which the solvers of NCA and MLKR begin."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation
from sdpmetric.core.named import Init, named_components
from sdpmetric.nca.soft_neighbors import SoftNeighborProblem

# Mean squared norms of the embedding among which a start is scaled.
SIZES = tuple(0.5 * 4.0**k for k in range(7))
# A start of at most this stationarity cannot be improved by descent: its softmaxes are saturated.
SATURATED = 1e-5


def start_of(problem: SoftNeighborProblem, random_state: int = 0) -> FloatArray:
    """`initial` components at the scale of `rescaled`."""
    validation.check_spread(problem.X)  # before it is centered
    how: Init = "identity" if problem.diagonal else "auto"
    L = named_components(how, problem.rows, problem.row_classes, problem.n_components)
    return rescaled(problem, L, random_state)


def unsaturated(problem: SoftNeighborProblem, components: FloatArray) -> FloatArray:
    """Return components as they are, or rescaled if every softmax is saturated; then the gradient vanishes."""

    def stationarity(L: FloatArray, anchors: NDArray[np.integer] | None = None) -> float:
        return problem.stationarity(L, problem.value_and_gradient(L, anchors)[1])

    if stationarity(components, sample_of(problem, 0)) > SATURATED:  # most starts are not
        return components
    if stationarity(components) > SATURATED or not (problem.rows @ components.T).any():
        return components
    rescaled_components = rescaled(problem, components)
    return rescaled_components if stationarity(rescaled_components) > SATURATED else components


def sample_of(problem: SoftNeighborProblem, random_state: int) -> NDArray[np.integer]:
    """Return up to 500 examples that stand for all where a start is chosen."""
    return validation.generator(random_state).permutation(len(problem.X))[:500]


def rescaled(problem: SoftNeighborProblem, components: FloatArray, random_state: int = 0) -> FloatArray:
    """Components at a scale from which descent gets far.

    Where distances are small, every neighbor is as likely as any other; where they are large, only the nearest one is,
    and descent stops at once. Chosen is the smallest scale that brings most of what the best one brings.
    """
    size = float(np.mean(np.sum((problem.rows @ components.T) ** 2, axis=1)))
    deciding = sample_of(problem, random_state)
    scaled = [np.sqrt(wanted / size) * components for wanted in SIZES]
    values = np.array([problem.value_and_gradient(factor, deciding)[0] for factor in [0.0 * components, *scaled]])
    # The smallest scale is taken that gains at least this share of the largest gain over a factor of zeros.
    acceptable = values[0] - 0.75 * max(values[0] - values.min(), 0.0)
    best: FloatArray = scaled[int(np.argmax(values[1:] <= acceptable))]
    return best
