"""Synthetic data after the papers' figures."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation


def concentric_circles(
    n_circles: int = 4, n_points: int = 120, radius: float = 20.0
) -> tuple[FloatArray, NDArray[np.int64], NDArray[np.int64]]:
    """Concentric circles of alternating classes, nearer to each other than the points of a circle are.

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
        0, 1 or 2: the third of the directions that an example lies in, opposite directions being one.

    Examples
    --------
    >>> from sdpmetric import datasets
    >>> len(datasets.concentric_circles())
    3
    """
    _check_counts(n_circles=n_circles, n_points=n_points)
    validation.check_number("radius", radius, 0.0)
    angle = np.tile(2 * np.pi * (np.arange(n_points) + 0.25) / n_points, n_circles)
    circle = np.repeat(np.arange(n_circles), n_points)
    X = (radius + circle)[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return X, circle % 2, (angle % np.pi * 3 / np.pi).astype(np.int64)


def zebra_stripes(
    n_stripes: int = 9,
    n_points: int = 60,
    *,
    spacing: float = 0.9,
    noise: float = 0.12,
    random_state: int | None = None,
) -> tuple[FloatArray, NDArray[np.int64]]:
    """Alternating long, narrow stripes of two classes.

    After Fig. 2 of [WS2009], with other sizes. Only the second feature, of small variance, separates the classes: the
    leading principal component is the useless one, and, for an odd number of stripes, the classes have the same mean,
    so linear discriminant analysis fails. A metric that shrinks the first feature makes no errors.

    Parameters
    ----------
    n_stripes : int, default 9
        At heights 0, 1, 2 and so on.
    n_points : int, default 60
        On each stripe.
    spacing : float, default 0.9
        Between the points of a stripe; each stripe begins at a random place up to five times this far in.
    noise : float, default 0.12
        Standard deviation of both features about these places.
    random_state : int, optional

    Returns
    -------
    X : (n_stripes * n_points, 2) array
    y : (n,) integer array
        0 and 1 in turn.

    Examples
    --------
    >>> from sdpmetric import datasets
    >>> points, labels = datasets.zebra_stripes(random_state=0)
    >>> points.shape[1], len(points) == len(labels)
    (2, True)
    """
    _check_counts(n_stripes=n_stripes, n_points=n_points)
    validation.check_number("spacing", spacing, 0.0)
    validation.check_number("noise", noise, 0.0)
    rng = validation.generator(random_state)
    stripe, place = np.repeat(np.arange(n_stripes), n_points), np.tile(np.arange(n_points), n_stripes)
    along = spacing * (place + 5 * rng.random(n_stripes)[stripe])
    return np.stack([along, stripe], axis=1) + noise * rng.normal(size=(len(stripe), 2)), stripe % 2


def noisy_digits(
    share: float = 0.5, *, amplitude: float = 16.0, random_state: int | None = None
) -> tuple[FloatArray, NDArray[np.int64], NDArray[np.bool_]]:
    """Handwritten digits with noise on some pixels, the same ones in all images.

    After Fig. 2 of [SSN2004], on scikit-learn's digits. A metric can learn to leave out the noisy pixels.

    Parameters
    ----------
    share : float, default 0.5
        Share of the 64 pixels.
    amplitude : float, default 16
        Noise is uniform between 0 and this; ink is at most 16. A noisy pixel is the larger of noise and ink.
    random_state : int, optional

    Returns
    -------
    X : (1797, 64) array
    y : (1797,) integer array
    noisy : (64,) array of bool
        Which pixels.

    Examples
    --------
    >>> from sdpmetric import datasets
    >>> images, labels = datasets.noisy_digits(random_state=0)[:2]
    >>> len(images) == len(labels)
    True
    """
    validation.check_number("share", share, 0.0, 1.0)
    validation.check_number("amplitude", amplitude, 0.0)
    rng = validation.generator(random_state)
    X, y = load_digits(return_X_y=True)
    noisy = np.zeros(X.shape[1], dtype=bool)
    noisy[rng.permutation(len(noisy))[: round(share * len(noisy))]] = True
    X[:, noisy] = np.maximum(X[:, noisy], rng.uniform(0, amplitude, (len(X), int(noisy.sum()))))
    return X, y, noisy


def concentric_rings(
    n_rings: int = 5, n_points: int = 100, *, width: float = 0.1, noise: float = 8.0, random_state: int | None = None
) -> tuple[FloatArray, NDArray[np.int64]]:
    """Concentric rings in two features, a class each, and a third feature of noise.

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
    >>> import numpy as np
    >>> from sdpmetric import datasets
    >>> points, labels = datasets.concentric_rings(random_state=0)
    >>> points.shape[1], len(np.unique(labels))
    (3, 5)
    """
    _check_counts(n_rings=n_rings, n_points=n_points)
    validation.check_number("width", width, 0.0)
    validation.check_number("noise", noise, 0.0)
    rng = validation.generator(random_state)
    ring = np.repeat(np.arange(n_rings), n_points)
    angle, radius = 2 * np.pi * rng.random(len(ring)), 1 + ring + width * rng.normal(size=len(ring))
    features = (radius * np.cos(angle), radius * np.sin(angle), noise * rng.normal(size=len(ring)))
    return np.stack(features, axis=1), ring


def _check_counts(**counts: int) -> None:
    for name, count in counts.items():
        validation.check_integer(name, count)
