"""Preparation of data: standardizing, reducing, deskewing images."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation

# Images that are sheared at once.
IMAGES_AT_ONCE = 2048


def standardize(X: ArrayLike) -> FloatArray:
    """Subtract each feature's mean and divide by its standard deviation; constant features become 0.

    Parameters
    ----------
    X : (n, d) array

    Returns
    -------
    Z : (n, d) array
        Float64.

    Raises
    ------
    ValueError
        If X is not a finite array of two dimensions, or its squares overflow.

    Examples
    --------
    >>> from sdpmetric import datasets
    >>> datasets.standardize([[1.0, 5.0], [3.0, 5.0]]).tolist()
    [[-1.0, 0.0], [1.0, 0.0]]
    """
    return preparer(X)(X)


def reduce(X: ArrayLike, n_components: int, *, mean_norm: float = 4.0) -> FloatArray:
    """Keep the first principal components, scaled to a mean Euclidean norm.

    The optimum of LMNN does not depend on the scale; a moderate one avoids very large or small numbers in solvers.

    Parameters
    ----------
    X : (n, d) array
    n_components : int
        At most ``min(n, d)``.
    mean_norm : float, default 4

    Returns
    -------
    Z : (n, n_components) array
        Float64.

    Raises
    ------
    ValueError
        As `standardize`, or if `n_components` or `mean_norm` is out of range.

    Examples
    --------
    >>> from sdpmetric import datasets
    >>> datasets.reduce(datasets.load("iris")[0], 2).shape
    (150, 2)
    """
    validation.check_number("mean_norm", mean_norm, 0.0)
    return preparer(X, standardize=False, n_components=n_components, mean_norm=mean_norm)(X)


def preparer(
    X: ArrayLike, *, standardize: bool = True, n_components: int | None = None, mean_norm: float = 4.0
) -> Callable[[ArrayLike], FloatArray]:
    """Fit a preparation to examples, and return it as a function, which takes other examples, too."""
    data = validation.check_data(X).astype(np.float64)
    # Principal components are taken of centered data: the transform of PCA loses digits on a large mean.
    steps = [StandardScaler(with_std=standardize)] if standardize or n_components is not None else ["passthrough"]
    if n_components is not None:
        validation.check_integer("the number of principal components", n_components, high=min(data.shape))
        steps.append(PCA(n_components, svd_solver="full"))
    pipeline, scale = make_pipeline(*steps), 1.0

    def prepare(rows: ArrayLike) -> FloatArray:
        prepared: FloatArray = scale * pipeline.transform(validation.check_data(rows).astype(np.float64))
        if not np.isfinite(prepared).all():
            raise ValueError("X is too large to be prepared: its squares overflow; divide it by a power of 2.")
        return prepared

    with np.errstate(all="ignore"):  # shares of a variance that is 0, and squares that `prepare` refuses
        pipeline.fit(data)
    if n_components is not None:
        size = float(np.linalg.norm(prepare(data), axis=1).mean())
        scale = mean_norm / size if size > 0 else 1.0
    return prepare


def deskew(images: ArrayLike, *, center: bool = False) -> NDArray[np.floating]:
    """Deskew images: each is sheared along its rows until its second mixed moment is 0.

    With pixels as masses, the shear is ``mu11 / mu02``: every row of pixels is shifted by that times its
    distance from the center of mass, which stays in place. A shift by part of a pixel divides each pixel between
    two neighbors, in proportion, so mass and center of a row are right and ``mu11`` becomes 0 up to rounding, unless
    mass is shifted over the edge and lost. [WS2009] deskews MNIST before it learns the metric.

    Parameters
    ----------
    images : (n, h, w) array, or (n, s * s) array of square images row by row
        Pixels, none of them negative: 0 is the background.
    center : bool, default False
        Also move each image until its center of mass is in the middle, which smooths it and leaves ``mu11`` near 0.

    Returns
    -------
    upright : array
        Of the same shape; float32 if `images` is, else float64. An image without extent along its columns is not
        sheared, one without mass not moved.

    Raises
    ------
    ValueError
        If images are not square, or a pixel is negative.

    Examples
    --------
    >>> from sdpmetric import datasets
    >>> datasets.deskew([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]])[0, :, 1].tolist()
    [1.0, 1.0, 1.0]
    """
    pixels = np.asarray(images)
    square = pixels.reshape(len(pixels), -1) if pixels.ndim == 3 else pixels
    flat = validation.check_data(square)
    height, width = pixels.shape[1:] if pixels.ndim == 3 else [math.isqrt(flat.shape[1])] * 2
    if height * width != flat.shape[1]:
        raise ValueError(f"{flat.shape[1]} pixels are not a square image; pass images of shape (n, height, width).")
    if flat.min() < 0:
        raise ValueError(f"a pixel is {flat.min():g}; expected nonnegative pixels with background 0.")
    out = np.empty_like(flat)
    for start in range(0, len(flat), IMAGES_AT_ONCE):
        block = flat[start : start + IMAGES_AT_ONCE].reshape(-1, height, width)
        out[start : start + IMAGES_AT_ONCE] = _upright(block.astype(np.float64), center).reshape(len(block), -1)
    return out.reshape(pixels.shape)


def _upright(P: FloatArray, center: bool) -> FloatArray:
    """Images (n, h, w) with the rows of each shifted, linearly interpolated, and the columns before them to center."""
    _, height, width = P.shape
    down, across = np.arange(height, dtype=np.float64), np.arange(width, dtype=np.float64)
    rows = P.sum(axis=2)
    total = rows.sum(axis=1)
    mass = np.maximum(total, np.finfo(float).tiny)
    mean_column = rows @ down / mass
    from_middle = down - mean_column[:, None]
    spread = (rows * from_middle**2).sum(axis=1)
    mixed = (from_middle * (P @ across)).sum(axis=1)  # from_middle is weighed to 0, so `across` needs no center
    shear = np.divide(mixed, spread, out=np.zeros_like(mixed), where=spread > 0)
    if not center:
        return _shifted(P, shear[:, None] * from_middle)
    lower = np.where(total > 0, mean_column - (height - 1) / 2, 0.0)
    shift = np.where(total > 0, (P @ across).sum(axis=1) / mass - (width - 1) / 2, 0.0)
    P = _shifted(P.swapaxes(1, 2), np.broadcast_to(lower[:, None], (len(P), width))).swapaxes(1, 2)
    return _shifted(P, shear[:, None] * (down - (height - 1) / 2) + shift[:, None])


def _shifted(P: FloatArray, shift: FloatArray) -> FloatArray:
    """Rows of images (n, h, w), each moved to the left by its own `shift`, (n, h); linearly interpolated."""
    width = P.shape[2]
    whole_pixels = np.floor(shift)
    fraction = (shift - whole_pixels)[..., None]
    source = np.arange(width + 1) + whole_pixels[..., None].astype(np.int64)
    inside = (source >= 0) & (source < width)
    pixels = np.where(inside, np.take_along_axis(P, np.clip(source, 0, width - 1), axis=2), 0.0)
    return np.asarray((1 - fraction) * pixels[..., :-1] + fraction * pixels[..., 1:])
