"""Bounds on triplets that hold with rounding: inactive triplets, largest possible hinges, forms of multipliers."""

from __future__ import annotations

import numpy as np

from sdpmetric._loops import bounds
from sdpmetric.arrays import FloatArray, IndexArray
from sdpmetric.engine import threads
from sdpmetric.linalg.rigorous import ACCURACY, Form, Images, above, gamma, norms_above, square, sum_above
from sdpmetric.triplets import totals
from sdpmetric.triplets.margins import slope_pairs
from sdpmetric.triplets.triplets import Candidates, Triplets


def inactive_beyond(images: Images) -> float:
    """How much wider than the computed limits to search, so every triplet not found has a hinge of 0, proven.

    With ``s_l`` and ``s_j`` the computed distances (not squared) of an impostor and a target neighbor, g their relative
    error and e the largest error of an image, the hinge is 0 if
    ``s_l (1 - g) - 2 e >= sqrt(1 + (s_j (1 + g) + 2 e)^2)``. The right side is at most
    ``(1 + g) sqrt(1 + s_j^2) + 2 e``, and the root is at least 1, so it suffices that
    ``s_l >= sqrt(1 + s_j^2) (1 + g + 4 e) / (1 - g)``. With a metric near that of the images, squared distances are off
    by a rest besides, and twice that beside 1 is enough.
    """
    g = gamma(images.map.shape[1] + 8)
    e = float(images.errors.max(initial=0.0))
    return above((1.0 + 2.0 * images.rest) * square(1.0 + g + 4.0 * e) / (1.0 - g) ** 2 - 1.0 + 1e-15, 10)


def with_rest(highest: FloatArray, rest: float) -> FloatArray:
    """Upper bounds of distances to target neighbors, for hinges with impostors that are nearer by a rest."""
    return np.nextafter(highest + rest, np.inf) if rest else highest


def largest_hinges(
    images: Images, candidates: Candidates, near: FloatArray, highest: FloatArray, *, squared: bool
) -> tuple[float, int]:
    """An upper bound of the weighted sum of hinges of candidate triplets, and how many of them are positive."""
    C, P, errors, g = candidates, images.points, images.errors, gamma(images.map.shape[1] + 8)
    losses, active = np.zeros(len(C.anchors)), np.zeros(len(C.anchors), dtype=np.int64)
    cuts = C.bounds(threads.parts(len(C.impostors) * P.shape[1]))
    rows = C.anchors, near, highest, C.indptr, C.impostors, C.weights
    threads.run(
        lambda t: bounds.largest_hinges(P, errors, *rows, cuts[t], cuts[t + 1], squared, g, losses, active),
        len(cuts) - 1,
    )
    most = int(np.diff(C.indptr).max(initial=0)) * C.targets.shape[1]
    return above(sum_above(losses), most + 12), int(active.sum())


def slope_form(images: Images, candidates: Candidates, slopes: FloatArray, *, accuracy: float = ACCURACY) -> Form:
    """``sum_t a_t B_t`` of the slopes that `hinge_slopes` returns, in the coordinates of the images, with its error."""
    most = int(np.bincount(candidates.rows).max(initial=0)) + slopes.shape[1]
    return images.form(*slope_pairs(candidates, slopes), roundings=most, accuracy=accuracy)


def margin_form(images: Images, triplets: Triplets, values: FloatArray, *, accuracy: float = ACCURACY) -> Form:
    """``sum_t a_t B_t`` of listed triplets, in the coordinates of the images, with its error."""
    first = np.concatenate([triplets.anchors, triplets.anchors])
    second = np.concatenate([triplets.impostors, triplets.targets])
    return images.form(first, second, np.concatenate([values, -values]), accuracy=accuracy)


def unit_hinges(images: Images, groups: IndexArray, highest: float) -> bool:
    """`sdpmetric.triplets.totals.unit_hinges` of exact images."""
    error = float(images.errors.max(initial=0.0))
    return error * error <= totals.COINCIDENT and totals.unit_hinges(images.points, groups, highest, error)


def scatter_form(
    images: Images, labels: IndexArray, groups: IndexArray, anchors: FloatArray, impostors: FloatArray
) -> Form:
    """`sdpmetric.triplets.totals.impostor_scatter` of exact images, with its error.

    Every sum in it errs by at most ``gamma_{n + c + 64}``, c the number of cells, of sums over pairs of one group of
    ``v_i w_l (|p_i| + |p_l|)^2``, fewer than 64 times. Errors of the images add what they add to a form; the sum over
    pairs of their distances is bounded by that of the squares.
    """
    P = images.points
    G = totals.impostor_scatter(P, labels, groups, anchors, impostors)
    lengths = norms_above(P) ** 2
    v, w, vp, wp = (np.bincount(groups, each) for each in (anchors, impostors, anchors * lengths, impostors * lengths))
    n, e = len(P), float(images.errors.max(initial=0.0))
    pairs, size = above(float(v @ w), 2 * n), above(2.0 * float(vp @ w + v @ wp), 2 * n + 8)
    own = 64.0 * gamma(2 * n + 64) * size
    return Form(0.5 * (G + G.T), above(own + 4.0 * e * (pairs * size) ** 0.5 + 4.0 * e * e * pairs, 8), size)
