"""Synthetic data after the papers' figures."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation

Labels = NDArray[np.int64]


def concentric_circles(
    n_circles: int = 4, n_points: int = 120, radius: float = 20.0
) -> tuple[FloatArray, Labels, Labels]:
    """Return concentric circles of alternating classes, nearer to each other than the points of a circle are.

    After Fig. 7 of [WS2009]: every nearest neighbor is of the other class, and no single linear map changes that, since
    what must be stretched is the radius. Three metrics, each for a third of the directions, can.

    Parameters
    ----------
    n_circles : int, default 4
        At radii ``radius``, ``radius + 1`` and so on.
    n_points : int, default 120
        On each circle, at the same angles.
    radius : float, default 20
        Radius of the innermost circle; its neighbors are ``2 * pi * radius / n_points`` apart.

    Returns
    -------
    X : (n_circles * n_points, 2) array
    y : (n,) integer array
        0 and 1 in turn.
    thirds : (n,) integer array
        0, 1 or 2: the third of the directions that an example lies in; opposite directions are one.

    Examples
    --------
    >>> from sdpmetric import datasets
    >>> len(datasets.concentric_circles())
    3
    """
    _check(("n_circles", n_circles), ("n_points", n_points), radius=radius)
    angle = np.tile(2 * np.pi * (np.arange(n_points) + 0.25) / n_points, n_circles)
    circle = np.repeat(np.arange(n_circles), n_points)
    X = (radius + circle)[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return X, circle % 2, (angle % np.pi * 3 / np.pi).astype(np.int64)


def concentric_rings(
    n_rings: int = 5, n_points: int = 100, *, width: float = 0.1, noise: float = 8.0, random_state: int | None = None
) -> tuple[FloatArray, Labels]:
    """Return concentric rings in two features, one class each, and a third feature of noise.

    After Fig. 2 of [GRHS2005], with other sizes. The noise has the largest variance, so it is a principal component,
    and all classes have the same mean, so linear discriminant analysis fails.

    Parameters
    ----------
    n_rings : int, default 5
        At radii 1, 2, 3 and so on.
    n_points : int, default 100
        On each ring, at random angles.
    width : float, default 0.1
        Standard deviation of the radius within a ring.
    noise : float, default 8
        Standard deviation of the third feature.
    random_state : int, optional

    Returns
    -------
    X : (n_rings * n_points, 3) array
    y : (n,) integer array
        The ring, from 0.

    Examples
    --------
    >>> from sdpmetric import datasets
    >>> datasets.concentric_rings(random_state=0)[0].shape
    (500, 3)
    """
    _check(("n_rings", n_rings), ("n_points", n_points), width=width, noise=noise)
    rng = validation.generator(random_state)
    ring = np.repeat(np.arange(n_rings), n_points)
    angle, radius = 2 * np.pi * rng.random(len(ring)), 1 + ring + width * rng.normal(size=len(ring))
    features = (radius * np.cos(angle), radius * np.sin(angle), noise * rng.normal(size=len(ring)))
    return np.stack(features, axis=1), ring


def _check(*counts: tuple[str, int], **sizes: float) -> None:
    for name, count in counts:
        validation.check_integer(name, count)
    for name, size in sizes.items():
        validation.check_number(name, size, 0.0)
