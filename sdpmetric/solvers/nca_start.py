"""Where the solvers of NCA and MLKR begin: the initial components of scikit-learn, and their scale."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation
from sdpmetric.problems.soft_neighbors import SoftNeighborProblem

Init = Literal["auto", "pca", "lda", "identity", "random"]

# Mean squared norms of the embedding among which a start is scaled, the examples that decide, and the share of the
# largest gain over a factor of zeros that is enough.
SIZES, DECIDING, MOST = (0.5, 2.0, 8.0, 32.0, 128.0, 512.0, 2048.0), 500, 0.75
# A start of at most this stationarity cannot be improved by descent: its softmaxes are saturated.
SATURATED = 1e-5


def initial(
    X: NDArray[np.floating],
    index: NDArray[np.integer] | None,
    n_components: int,
    how: Init = "auto",
    random_state: np.random.RandomState | int = 0,
) -> FloatArray:
    """Components to begin with, by the rules of scikit-learn's ``NeighborhoodComponentsAnalysis``."""
    validation.check_spread(X)
    n, d = X.shape
    if how == "auto":
        n_classes = 0 if index is None else len(np.unique(index))
        how = "lda" if n_components <= min(d, n_classes - 1) else "pca" if n_components < min(d, n) else "identity"
    if how == "identity":
        return np.eye(n_components, d)
    if how == "random":
        generator = np.random.RandomState(random_state) if isinstance(random_state, int) else random_state
        return np.asarray(generator.standard_normal(size=(n_components, d)))
    if how == "pca":
        rows = PCA(n_components, random_state=random_state).fit(X).components_
    else:
        rows = LinearDiscriminantAnalysis(n_components=n_components).fit(X, index).scalings_.T[:n_components]
    return np.array(rows, dtype=np.float64, order="C")


def start_of(problem: SoftNeighborProblem, random_state: int = 0) -> FloatArray:
    """`initial` components at the scale of `rescaled`."""
    validation.check_spread(problem.X)  # before it is centered
    L = initial(problem.rows, problem.row_classes, problem.n_components, "identity" if problem.diagonal else "auto")
    return rescaled(problem, L, random_state)


def unsaturated(problem: SoftNeighborProblem, components: FloatArray) -> FloatArray:
    """Components as they are, or rescaled where every softmax is saturated, so the gradient vanishes."""

    def stationarity(L: FloatArray) -> float:
        return problem.stationarity(L, problem.value_and_gradient(L)[1])

    if stationarity(components) > SATURATED or not (problem.rows @ components.T).any():
        return components
    other = rescaled(problem, components)
    return other if stationarity(other) > SATURATED else components


def rescaled(problem: SoftNeighborProblem, components: FloatArray, random_state: int = 0) -> FloatArray:
    """Components at a scale from which descent gets far.

    Where distances are small, every neighbor is as likely as any other; where they are large, only the nearest one is,
    and descent stops at once. Chosen is the smallest scale that brings most of what the best one brings.
    """
    size = float(np.mean(np.sum((problem.rows @ components.T) ** 2, axis=1)))
    n = len(problem.X)
    deciding = np.random.default_rng(random_state).permutation(n)[:DECIDING]
    scaled = [np.sqrt(wanted / size) * components for wanted in SIZES]
    values = np.array([problem.value_and_gradient(factor, deciding)[0] for factor in [0.0 * components, *scaled]])
    enough = values[0] - MOST * max(values[0] - values.min(), 0.0)
    best: FloatArray = scaled[int(np.argmax(values[1:] <= enough))]
    return best
