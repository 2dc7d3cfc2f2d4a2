"""The softmax over squared distances that NCA chooses neighbors by, and how many neighbors that is."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

# Probabilities that stand in memory at once, unless one example has more.
BLOCK = 4_000_000


def distribution(Z: FloatArray, examples: NDArray[np.integer]) -> FloatArray:
    """The probabilities ``p_ij`` of some embedded examples, (m, n); 0 for an example with itself."""
    centered = Z - Z.mean(axis=0)
    norms = np.einsum("ij,ij->i", centered, centered)
    D = np.maximum(norms[examples, None] + norms - 2 * centered[examples] @ centered.T, 0.0)
    D[np.arange(len(examples)), examples] = np.inf
    E = np.exp(D.min(axis=1, keepdims=True) - D)
    return np.asarray(E / E.sum(axis=1, keepdims=True))


def perplexity(Z: FloatArray) -> FloatArray:
    """The exponential of the entropy of each example's probabilities, (n,): its effective number of neighbors."""
    found = np.empty(len(Z))
    height = max(1, BLOCK // len(Z))
    for first in range(0, len(Z), height):
        rows = np.arange(first, min(first + height, len(Z)))
        p = distribution(Z, rows)
        found[rows] = np.exp(-np.sum(p * np.log(np.maximum(p, np.finfo(float).tiny)), axis=1))
    return found
