"""Linear algebra of positive semidefinite (PSD) matrices: projection, factors, numerical rank, whitening.

The one place where a numerical rank is decided is `RANK_TOLERANCE`; everything is relative to the largest eigenvalue.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

RANK_TOLERANCE = 1e-10


def symmetrize(A: FloatArray) -> FloatArray:
    """Return ``(A + A.T) / 2``."""
    return 0.5 * (A + A.T)


def project(A: FloatArray) -> FloatArray:
    """Project a symmetric (d, d) matrix onto the PSD cone in the Frobenius norm."""
    L = factor(A)
    return L.T @ L


def factor(A: FloatArray, *, tolerance: float = 0.0) -> FloatArray:
    """Factor of the PSD part of a symmetric matrix.

    Parameters
    ----------
    A : (d, d) array
        Symmetric. Its negative eigenvalues are dropped.
    tolerance : float, default 0
        Eigenvalues at or below this share of the largest one are dropped too.

    Returns
    -------
    L : (r, d) array
        ``L.T @ L`` is the PSD part of A; the rows are orthogonal, the longest first; r may be 0.
    """
    values, vectors = np.linalg.eigh(symmetrize(A))
    keep = values > max(0.0, tolerance * max(values[-1], 0.0))
    L: FloatArray = (vectors[:, keep] * np.sqrt(values[keep])).T[::-1]
    return np.ascontiguousarray(L)


def largest_eigenvalue(A: FloatArray) -> float:
    """Largest eigenvalue of a symmetric matrix; 0 for the empty matrix."""
    return float(np.linalg.eigvalsh(A)[-1]) if len(A) else 0.0


def smallest_eigenvalue(A: FloatArray) -> float:
    """Smallest eigenvalue of a symmetric matrix; 0 for the empty matrix."""
    return float(np.linalg.eigvalsh(A)[0]) if len(A) else 0.0


@dataclass(frozen=True)
class Whitening:
    """Coordinates in which a PSD cost is the identity on its range.

    Attributes
    ----------
    transform : (d, p) array
        New coordinates are ``X @ transform``. A factor ``L`` in them is ``L @ transform.T`` in the old ones.
    rank : int
        The cost is ``diag(1, .., 1, 0, .., 0)`` with `rank` ones in the new coordinates; the last ``p - rank``
        coordinates span the directions in which the data vary at no cost.
    """

    transform: FloatArray
    rank: int

    @property
    def range(self) -> FloatArray:
        """The (d, rank) part of the transform that spans the range of the cost."""
        return self.transform[:, : self.rank]

    @property
    def null(self) -> FloatArray:
        """The (d, p - rank) part of the transform in which data vary at no cost."""
        return self.transform[:, self.rank :]


def data_basis(X: FloatArray) -> FloatArray:
    """Coordinates in which centered data have unit covariance, directions without variation left out.

    Parameters
    ----------
    X : (n, d) array
        Centered data, in any units: columns are brought to one scale first.

    Returns
    -------
    T : (d, p) array
        ``(X @ T).T @ (X @ T) / n`` is the identity, up to rounding.
    """
    scale = np.sqrt(np.einsum("ij,ij->j", X, X) / len(X))
    scale[scale == 0] = 1.0
    R = np.linalg.qr(X / scale, mode="r")
    _, sigma, Vt = np.linalg.svd(R, full_matrices=False)
    keep = sigma > RANK_TOLERANCE * sigma[0] if sigma.size and sigma[0] > 0 else np.zeros(sigma.size, dtype=bool)
    T: FloatArray = (Vt[keep].T / sigma[keep]) * np.sqrt(len(X)) / scale[:, None]
    return T


def whiten(basis: FloatArray, cost: FloatArray) -> Whitening:
    """Whiten a PSD cost within a data basis, its numerical rank decided relative to its largest eigenvalue.

    Parameters
    ----------
    basis : (d, p) array
        From `data_basis`: there the rank does not depend on the units of the features.
    cost : (p, p) array
        The cost in the coordinates of the basis, PSD.
    """
    values, vectors = np.linalg.eigh(symmetrize(cost))
    top = values[-1] if values.size else 0.0
    keep = values > max(RANK_TOLERANCE * top, 0.0)
    spread = np.concatenate([vectors[:, keep] / np.sqrt(values[keep]), vectors[:, ~keep]], axis=1)
    return Whitening(transform=basis @ spread, rank=int(keep.sum()))
