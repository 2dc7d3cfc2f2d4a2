"""Made-up data on which the papers show what their methods do."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def concentric_circles(
    n_circles: int = 4, n_points: int = 120, radius: float = 20.0
) -> tuple[FloatArray, NDArray[np.int64], NDArray[np.int64]]:
    """Concentric circles of alternating classes, nearer to each other than the points of a circle are.

    After Fig. 7 of Weinberger and Saul (2009) [WS2009]: every nearest neighbor is of the other class, and no single
    linear map changes that, since what must be stretched is the radius. Three metrics, each for a third of the
    directions, can (a metric does not tell a direction from its opposite).

    Parameters
    ----------
    n_circles : int, default 4
        At radii ``radius``, ``radius + 1`` and so on.
    n_points : int, default 120
        On each circle, at the same angles.
    radius : float, default 20
        Of the innermost circle; its neighbors are ``2 * pi * radius / n_points`` apart.

    Returns
    -------
    X : (n_circles * n_points, 2) array
    y : (n,) integer array
        0 and 1 in turns.
    thirds : (n,) integer array
        0, 1 or 2: the third of the directions that an example lies in, opposite directions being one.
    """
    angle = np.tile(2 * np.pi * (np.arange(n_points) + 0.25) / n_points, n_circles)
    circle = np.repeat(np.arange(n_circles), n_points)
    X = (radius + circle)[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return X, circle % 2, (angle % np.pi * 3 / np.pi).astype(np.int64)
