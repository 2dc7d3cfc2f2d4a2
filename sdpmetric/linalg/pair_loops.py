"""Compiled loops over a run of pairs of points: distances, quadratic forms and graph Laplacians."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray, IndexArray
from sdpmetric.engine.compiled import FAST, loop


@loop(fastmath=FAST, inline="always")
def distance(Z: NDArray[np.floating], i: int, j: int) -> float:
    s = 0.0
    for q in range(Z.shape[1]):
        u = Z[i, q] - Z[j, q]
        s += u * u
    return s


@loop(nogil=True, fastmath=FAST)
def pair_distances(
    Z: FloatArray, first: IndexArray, second: IndexArray, first_pair: int, stop: int, out: FloatArray
) -> None:
    """Squared Euclidean distances between rows of Z, for pairs `first_pair` to `stop`."""
    for p in range(first_pair, stop):
        out[p] = distance(Z, first[p], second[p])


@loop(nogil=True, fastmath=FAST)
def pair_forms(
    P: FloatArray, W: FloatArray, first: IndexArray, second: IndexArray, first_pair: int, stop: int, out: FloatArray
) -> None:
    """The forms ``(P_i - P_j) . (W_i - W_j)`` of pairs `first_pair` to `stop`."""
    for p in range(first_pair, stop):
        i, j, s = first[p], second[p], 0.0
        for q in range(P.shape[1]):
            s += (P[i, q] - P[j, q]) * (W[i, q] - W[j, q])
        out[p] = s


@loop(nogil=True, fastmath=FAST)
def laplacian_times(
    X: FloatArray, first: IndexArray, second: IndexArray, weights: FloatArray, first_pair: int, stop: int, Y: FloatArray
) -> None:
    """In Y the product of X with the weighted graph Laplacian of pairs `first_pair` to `stop`."""
    Y[:] = 0.0
    for p in range(first_pair, stop):
        i, j, w = first[p], second[p], weights[p]
        for q in range(X.shape[1]):
            g = w * (X[i, q] - X[j, q])
            Y[i, q] += g
            Y[j, q] -= g
