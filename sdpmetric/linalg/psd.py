"""Linear algebra of positive semidefinite (PSD) matrices: projection, factors, numerical rank, whitening.

`RANK_TOLERANCE` alone decides a numerical rank, relative to the largest singular value of the data
or of a root of the cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray

RANK_TOLERANCE = 1e-10
# Smallest eigenvalue of a Gram matrix, as a share of the largest one, with ten correct digits.
CLEAR = 1e-6


def symmetrize(A: FloatArray) -> FloatArray:
    return 0.5 * (A + A.T)


def project(A: FloatArray) -> FloatArray:
    L = factor(A)
    return L.T @ L


def is_definite(A: FloatArray) -> bool:
    """Return whether a symmetric matrix has a Cholesky factor, which takes a tenth of the time of its eigenvalues."""
    try:
        np.linalg.cholesky(A)
    except np.linalg.LinAlgError:
        return False
    return True


def factor(A: FloatArray, *, tolerance: float = 0.0) -> FloatArray:
    """Factor of the PSD part of a symmetric matrix."""
    if is_diagonal(A):
        rows = np.zeros((int((A.diagonal() > tolerance * A.diagonal().max(initial=0.0)).sum()), len(A)))
        order = np.argsort(-A.diagonal(), kind="stable")[: len(rows)]
        rows[np.arange(len(rows)), order] = np.sqrt(A.diagonal()[order])
        return rows
    values, vectors = np.linalg.eigh(symmetrize(A))
    keep = values > tolerance * values.max(initial=0.0)
    L: FloatArray = (vectors[:, keep] * np.sqrt(values[keep])).T[::-1]
    return np.ascontiguousarray(L)


def root(A: FloatArray, power: float = 0.5) -> FloatArray:
    """Return the symmetric root of a positive definite matrix, or another power of it."""
    if is_diagonal(A):
        return np.diag(A.diagonal() ** power)
    values, vectors = np.linalg.eigh(A)
    return np.asarray((vectors * values**power) @ vectors.T)


def is_diagonal(A: FloatArray) -> bool:
    return int(np.count_nonzero(A)) == int(np.count_nonzero(A.diagonal()))


def multiple_of_identity(A: FloatArray) -> tuple[float, NDArray[np.intp]]:
    """Return the median c of the diagonal, and the rows of a symmetric matrix that are not those of c I."""
    diagonal, c = A.diagonal(), float(np.median(A.diagonal()))
    return c, np.flatnonzero((diagonal != c) | (np.count_nonzero(A, axis=1) != (diagonal != 0.0)))


def balanced_factor(A: FloatArray) -> FloatArray:
    """Return `factor` in units, powers of 2, that make the diagonal about 1, so small entries keep their digits.

    If A has clearly negative eigenvalues in these units, dropping them would change large entries, and the units stay.
    """
    scale = np.ldexp(1.0, np.frexp(np.sqrt(np.where(np.diag(A) > 0.0, np.diag(A), 1.0)))[1])
    balanced = symmetrize(A / scale / scale[:, None])
    values = np.linalg.eigvalsh(balanced)
    # Negative eigenvalues up to this share of the largest one are rounding.
    if values.min(initial=0.0) < -1e-13 * values.max(initial=0.0):
        return factor(A)
    return np.ascontiguousarray(factor(balanced) * scale)


def largest_eigenvalue(A: FloatArray) -> float:
    return float(np.linalg.eigvalsh(A)[-1]) if len(A) else 0.0


@dataclass(frozen=True)
class Whitening:
    """Coordinates that turn a PSD cost into the identity on its range."""

    transform: FloatArray  # (d, p): new coordinates are ``X @ transform``
    inverse: FloatArray  # (p, d): the data are ``(X @ transform) @ inverse``
    rank: int  # The cost is ``diag(1, .., 1, 0, .., 0)`` in the new coordinates, with `rank` entries 1

    @property
    def range(self) -> FloatArray:
        """The (d, rank) part of the transform that spans the range of the cost."""
        return self.transform[:, : self.rank]

    @property
    def null(self) -> FloatArray:
        """The (d, p - rank) part of the transform along which data vary at no cost."""
        return self.transform[:, self.rank :]


def data_basis(X: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return coordinates that give centered data unit covariance, without the directions that do not vary."""
    scale = np.sqrt(np.einsum("ij,ij->j", X, X) / len(X))
    varying = int(np.count_nonzero(scale))
    scale[scale == 0] = 1.0
    R = clear_root(lambda: [X / scale]) if len(X) > X.shape[1] else triangle([X / scale])  # few rows: no Gram matrix
    _, sigma, Vt = np.linalg.svd(R, full_matrices=False)
    keep = sigma > RANK_TOLERANCE * sigma[0] if sigma.size and sigma[0] > 0 else np.zeros(sigma.size, dtype=bool)
    spread = sigma[keep] / np.sqrt(len(X))
    T: FloatArray = (Vt[keep].T / spread) / scale[:, None]
    inverse: FloatArray = spread[:, None] * Vt[keep] * scale
    if len(inverse) < varying:
        # Undoing the scaling moves T out of the row space, which would overstate a trace term.
        Q = np.linalg.qr(inverse.T)[0]
        T = Q @ (Q.T @ T)
    return T, inverse


def triangle(blocks: Iterable[FloatArray]) -> FloatArray:
    """Return the R of a QR decomposition of stacked rows: ``R.T @ R`` is their Gram matrix, without squaring."""
    R = np.zeros((0, 0))
    for block in blocks:
        R = np.asarray(np.linalg.qr(np.concatenate([R, block]) if len(R) else block, mode="r"))
    return R


def clear_root(blocks: Callable[[], Iterable[FloatArray]]) -> FloatArray:
    """Return `triangle` of blocks of rows; a Gram matrix far from singular yields it in a tenth of the time."""
    gram = sum(block.T @ block for block in blocks())
    values = np.linalg.eigvalsh(gram)
    if len(values) and values[0] > CLEAR * values[-1]:
        return np.asarray(np.linalg.cholesky(gram).T)
    return triangle(blocks())


def smallest_whitened(rows: Iterable[FloatArray], scale: FloatArray, weight: float = 1.0) -> FloatArray:
    """Return coordinates (d, d) in which even the smallest costs ``weight^2 |row . x|^2`` are about 1.

    Features are divided by their `scale`, (d,). The smallest cost is taken to be 1e-18 of the largest root at least.
    """
    _, sigma, Vt = np.linalg.svd(triangle(block / scale for block in rows), full_matrices=True)
    sizes = np.full(len(Vt), np.finfo(float).tiny)
    sizes[: len(sigma)] = sigma
    return np.asarray(Vt.T / (np.maximum(sizes, 1e-18 * sizes.max()) * weight) / scale[:, None])


def whiten(basis: FloatArray, inverse: FloatArray, root: FloatArray) -> Whitening:
    """Whiten a PSD cost within a data basis, its numerical rank decided relative to its largest singular value."""
    _, sigma, Vt = np.linalg.svd(root, full_matrices=True)
    rank = int(np.count_nonzero(sigma > RANK_TOLERANCE * sigma[0])) if sigma.size and sigma[0] > 0 else 0
    size = np.ones(len(Vt))
    size[:rank] = sigma[:rank]
    return Whitening(transform=basis @ (Vt.T / size), inverse=(size[:, None] * Vt) @ inverse, rank=rank)


def projection_slopes(values: FloatArray) -> tuple[NDArray[np.intp], NDArray[np.intp], FloatArray]:
    """Return the derivative of the projection onto the cone, at a matrix with these eigenvalues.

    It is ``H -> Q (Omega * (Q^T H Q)) Q^T``. An entry of ``Omega`` is 1 if both eigenvalues are positive, 0 if neither
    is, and ``l_i / (l_i - l_j)`` if one is.
    """
    positive = values > 0.0
    row, column = np.triu_indices(len(values))
    both_positive, one_positive = positive[row] & positive[column], positive[row] ^ positive[column]
    omega = both_positive.astype(np.float64)
    positive_value, other_value = np.maximum(values[row], values[column]), np.minimum(values[row], values[column])
    omega[one_positive] = positive_value[one_positive] / (positive_value[one_positive] - other_value[one_positive])
    used = omega > 0.0
    row, column = row[used], column[used]
    return row, column, omega[used] * np.where(row == column, 1.0, 2.0)


def leading(L: NDArray[np.floating], n_components: int) -> NDArray[np.floating]:
    """Return the factor of the metric ``L.T @ L`` cut down to its leading eigenvectors."""
    _, sigma, rows = np.linalg.svd(L, full_matrices=False)
    return np.ascontiguousarray((sigma[:, None] * rows)[:n_components])


def stack(factors: list[FloatArray]) -> FloatArray:
    """Stack factors of several metrics, (c, r, d), padded with rows of zeros."""
    n_rows = max((len(L) for L in factors), default=0)
    return np.stack([np.pad(L, ((0, n_rows - len(L)), (0, 0))) for L in factors])
