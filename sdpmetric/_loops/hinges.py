"""Compiled loops over the hinges of triplets: their slopes, and the smoothed push term with its gradient.

All loops walk *candidates* (see `sdpmetric.triplets.triplets.Candidates`): row ``r`` holds an anchor, up to K target
neighbors (padded with -1), and a slice of possible impostors.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sdpmetric._loops import FAST, loop
from sdpmetric._loops.pairs import distance
from sdpmetric.arrays import FloatArray, IndexArray


@loop(inline="always")
def _loss(u: float, gamma: float, squared: bool) -> tuple[float, float]:
    """Value and slope at u > 0 of the squared hinge, or of the hinge made quadratic on [0, gamma]."""
    if squared:
        return u * u, 2.0 * u
    if u >= gamma:
        return u - 0.5 * gamma, 1.0
    return 0.5 * u * u / gamma, u / gamma


@loop(nogil=True, fastmath=FAST)
def hinge_slopes(
    Z: NDArray[np.floating],
    anchors: IndexArray,
    near: FloatArray,
    indptr: NDArray[np.int64],
    impostors: IndexArray,
    weights: FloatArray | None,
    begin: int,
    end: int,
    gamma: float,
    squared: bool,
    slopes: FloatArray,
    sums: FloatArray,
) -> None:
    """Slope of every triplet's loss in rows `begin` to `end` (rows of `slopes` are candidate pairs, columns targets).

    `near` holds the squared distances to the target neighbors of each row, padded at the end with -1.

    The sums are: loss without smoothing, slopes, slopes squared over weight, triplets with positive hinge.
    """
    K = near.shape[1]
    total = slope = square = active = 0.0
    for r in range(begin, end):
        if indptr[r] == indptr[r + 1]:
            continue
        i = anchors[r]
        size = 0
        while size < K and near[r, size] >= 0.0:
            size += 1
        for p in range(indptr[r], indptr[r + 1]):
            dP = distance(Z, i, impostors[p])
            w = 1.0
            if weights is not None:
                w = weights[p]
            for j in range(K):
                slopes[p, j] = 0.0
            for j in range(size):
                u = 1.0 + near[r, j] - dP
                if u > 0.0:
                    a = w * _loss(u, gamma, squared)[1]
                    slopes[p, j] = a
                    total += w * (u * u if squared else u)
                    slope += a
                    if w > 0.0:
                        square += a * a / w
                        active += 1.0
    sums[0], sums[1], sums[2], sums[3] = total, slope, square, active


@loop(nogil=True, fastmath=FAST)
def smoothed_push(
    Z: NDArray[np.floating],
    anchors: IndexArray,
    bases: IndexArray,
    targets: IndexArray,
    indptr: NDArray[np.int64],
    impostors: IndexArray,
    weights: FloatArray | None,
    first: int,
    last: int,
    gamma: float,
    squared: bool,
    Y: NDArray[np.floating],
    sums: FloatArray,
) -> None:
    """Sums of the smoothed loss in rows `first` to `last`, and in Y its weighted graph Laplacian times Z.

    Target ``[r, j]`` is compared with the point ``bases[r, j]``, the anchor, possibly under another metric. The sums
    are: smoothed loss, loss without smoothing, active triplets. The gradient in the embedded points is ``2 * Y``.
    """
    K, R = targets.shape[1], Z.shape[1]
    Y[:] = 0.0
    dT = np.empty(K)
    wT = np.empty(K)
    smooth = total = active = 0.0
    for r in range(first, last):
        if indptr[r] == indptr[r + 1]:
            continue
        i = anchors[r]
        size, furthest = 0, 0.0
        while size < K and targets[r, size] >= 0:
            dT[size] = distance(Z, bases[r, size], targets[r, size])
            furthest = max(furthest, dT[size])
            wT[size] = 0.0
            size += 1
        for p in range(indptr[r], indptr[r + 1]):
            l = impostors[p]
            dP = distance(Z, i, l)
            if dP < 1.0 + furthest:
                w = 1.0
                if weights is not None:
                    w = weights[p]
                push = 0.0
                for j in range(size):
                    u = 1.0 + dT[j] - dP
                    if u > 0.0:
                        value, a = _loss(u, gamma, squared)
                        smooth += w * value
                        total += w * (u * u if squared else u)
                        if w > 0.0:
                            active += 1.0
                        push += w * a
                        wT[j] += w * a
                slope = Z.dtype.type(push)
                for q in range(R):
                    g = slope * (Z[i, q] - Z[l, q])
                    Y[i, q] -= g
                    Y[l, q] += g
        for j in range(size):
            if wT[j] > 0.0:
                b, l, slope = bases[r, j], targets[r, j], Z.dtype.type(wT[j])
                for q in range(R):
                    g = slope * (Z[b, q] - Z[l, q])
                    Y[b, q] += g
                    Y[l, q] -= g
    sums[0], sums[1], sums[2] = smooth, total, active
