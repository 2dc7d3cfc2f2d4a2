"""Margins of triplets, their adjoint, and the slopes and sums of hinges over candidate sets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sdpmetric._loops import hinges
from sdpmetric.arrays import FloatArray, IndexArray
from sdpmetric.engine import threads
from sdpmetric.linalg.distances import adjoint, distances
from sdpmetric.triplets.triplets import Candidates, Triplets


def margin_adjoint(X: FloatArray, triplets: Triplets, values: FloatArray) -> FloatArray:
    """The matrix ``sum_t a_t B_t``, where ``B_t = C_il - C_ij`` belongs to triplet t = (i, j, l)."""
    first = np.concatenate([triplets.anchors, triplets.anchors])
    second = np.concatenate([triplets.impostors, triplets.targets])
    return adjoint(X, first, second, np.concatenate([values, -values]))


def margins(Z: NDArray[np.floating], triplets: Triplets) -> FloatArray:
    """The margin ``<B_t, M> = D_il - D_ij`` of every triplet; the hinge is ``[1 - margin]_+``."""
    far = distances(Z, triplets.anchors, triplets.impostors)
    return far - distances(Z, triplets.anchors, triplets.targets)


def furthest_target(Z: NDArray[np.floating], anchors: IndexArray, targets: IndexArray) -> FloatArray:
    """Largest squared distance from each anchor to its target neighbors, (m,) float64."""
    furthest = np.zeros(len(anchors))
    for column in targets.T:
        np.maximum(furthest, distances(Z, anchors, np.where(column >= 0, column, anchors)), out=furthest)
    return furthest


@dataclass(frozen=True)
class HingeSums:
    """Sums over the triplets of a candidate set, weights included and the push weight left out."""

    loss: float  # ``sum w h(u)`` with ``u = 1 - margin`` and h the hinge or its square, without smoothing
    slopes: float  # ``sum a`` of the slopes a of the (smoothed) loss
    squares: float  # ``sum a^2 / w`` of the slopes
    n_active: int  # Triplets with ``u > 0``


def target_distances(Z: NDArray[np.floating], bases: IndexArray, targets: IndexArray) -> FloatArray:
    """Squared distances from ``bases`` to ``targets``, both (m, K) and padded with -1; -1 there."""
    first = np.broadcast_to(bases if bases.ndim == 2 else bases[:, None], targets.shape)
    near = distances(Z, np.where(targets >= 0, first, 0).ravel(), np.maximum(targets, 0).ravel()).reshape(targets.shape)
    near[targets < 0] = -1.0
    return near


def hinge_slopes(
    Z: NDArray[np.floating],
    candidates: Candidates,
    gamma: float,
    squared: bool,
    near: FloatArray | None = None,
) -> tuple[HingeSums, FloatArray]:
    """Slopes of the loss of every candidate triplet."""
    C, Z = candidates, np.ascontiguousarray(Z, dtype=np.float64)
    near = target_distances(Z, C.anchors, C.targets) if near is None else near
    rows = C.anchors, near, C.indptr, C.impostors, C.weights
    slopes = np.empty((len(C.impostors), C.targets.shape[1]))
    cuts = C.bounds(threads.parts(len(C.impostors) * Z.shape[1]))
    sums = np.empty((len(cuts) - 1, 4))
    threads.run(
        lambda t: hinges.hinge_slopes(Z, *rows, cuts[t], cuts[t + 1], gamma, squared, slopes, sums[t]), len(sums)
    )
    loss, slope, square, active = sums.sum(axis=0)
    return HingeSums(float(loss), float(slope), float(square), round(active)), slopes


def slope_pairs(
    candidates: Candidates, slopes: FloatArray, bases: IndexArray | None = None
) -> tuple[IndexArray, IndexArray, FloatArray]:
    """The pairs and weights w with ``sum_t a_t B_t = D*(w)`` for the slopes that `hinge_slopes` returns."""
    C, rows = candidates, candidates.rows
    push = slopes.sum(axis=1)
    pull: FloatArray = np.zeros(C.targets.shape)
    for j in range(pull.shape[1]):
        pull[:, j] = np.bincount(rows, slopes[:, j], minlength=len(pull))
    row, slot = np.nonzero(pull)
    used = push != 0
    base = C.anchors[row] if bases is None else bases[row, slot]
    first = np.concatenate([C.anchors[rows[used]], base])
    second = np.concatenate([C.impostors[used], C.targets[row, slot]])
    return first, second, np.concatenate([push[used], -pull[row, slot]])
