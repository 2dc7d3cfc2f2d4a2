"""Preparation of data: standardizing, reducing, deskewing images."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.ndimage import affine_transform
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation


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


def reduce(X: ArrayLike, n_components: int) -> FloatArray:
    """Keep the first principal components, scaled to a mean Euclidean norm of 4.

    The optimum of LMNN does not depend on the scale; a moderate one avoids very large or small numbers in solvers.

    Parameters
    ----------
    X : (n, d) array
    n_components : int
        At most ``min(n, d)``.

    Returns
    -------
    Z : (n, n_components) array
        Float64.

    Raises
    ------
    ValueError
        As `standardize`, or if `n_components` is out of range.

    Examples
    --------
    >>> from sdpmetric import datasets
    >>> datasets.reduce(datasets.load("iris")[0], 2).shape
    (150, 2)
    """
    return preparer(X, standardize=False, n_components=n_components)(X)


def preparer(
    X: ArrayLike, *, standardize: bool = True, n_components: int | None = None
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
        scale = 4.0 / size if size > 0 else 1.0
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
    for k, image in enumerate(flat.reshape(-1, height, width)):
        out[k] = _upright(image.astype(np.float64), center).ravel()
    return out.reshape(pixels.shape)


def _upright(image: FloatArray, center: bool) -> FloatArray:
    """Shift each row of an image, (h, w), interpolating linearly; put its center of mass in the middle on request."""
    rows, (down, across) = image.sum(axis=1), map(np.arange, image.shape)
    if not (mass := rows.sum()) > 0.0:
        return image
    mass_center = np.array([rows @ down, (image @ across).sum()]) / mass
    from_middle = down - mass_center[0]
    spread = rows @ from_middle**2
    # from_middle is weighed to 0, so `across` needs no center
    shear = np.array([[1.0, 0.0], [from_middle @ (image @ across) / spread if spread > 0.0 else 0.0, 1.0]])
    target = (np.array(image.shape) - 1.0) / 2.0 if center else mass_center
    return np.asarray(affine_transform(image, shear, mass_center - shear @ target, order=1, mode="grid-constant"))
