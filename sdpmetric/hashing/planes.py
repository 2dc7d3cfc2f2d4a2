"""The hyperplanes of hash bits, which move with a metric, and the pending steps, which the keys do not include yet."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dger

from sdpmetric.streams.step import MetricStep

FloatArray = NDArray[np.float64]
Rows = NDArray[np.floating]

# A step changes the metric by right mate^T, symmetrized. Where the mate is parallel to the right, up to this share of
# its length, one inner product with an example does for both.
PARALLEL = 1e-9


class Planes:
    """Normals ``R G`` of b hyperplanes under a factor G that moves by rank-one steps, at the last `settle` (base) and now."""

    def __init__(self, components: FloatArray, directions: FloatArray) -> None:
        self.components = np.array(components, dtype=np.float64, order="C")
        self.directions = directions
        self.renew()
        self.settle()

    def push(self, step: MetricStep) -> None:
        """Move the factor and the normals by one step."""
        left, right = step.left, step.right
        image = self.directions @ left
        self.pending += 1
        if self.lost:
            self._forget()
        else:
            # |G u + left (right . u)|^2 - |G u|^2 = (right . u) (mate . u)
            mate = 2.0 * (left @ self.components) + (left @ left) * right
            size = float(right @ right)
            scale = float(mate @ right) / size if size > 0.0 else 0.0
            parallel = float(np.abs(mate - scale * right).max()) <= PARALLEL * float(np.abs(mate).max())
            self._rights.append(right)
            self._images.append(image)
            self._scales.append(scale if parallel else np.nan)
            if not parallel:
                self._mates.append(mate)
        for matrix, vector in ((self.components, left), (self.now, image)):
            dger(1.0, right, vector, a=matrix.T, overwrite_a=1)  # in place: the transpose has Fortran's order

    @property
    def lost(self) -> bool:
        """Whether the base can no longer be brought up to date step by step."""
        return self.pending > int(self.components.shape[1])

    @property
    def moved(self) -> FloatArray:
        """Change of the normals, (b, d): its inner product with an example is the change of the projection."""
        change: FloatArray = self.now - self.base
        return change

    def steps(self, dtype: np.dtype[np.floating]) -> tuple[Rows, FloatArray, Rows]:
        """Rights (K, d), scales (K,) and mates of the pending steps, as `kernels.hashing.rank` takes them."""
        d = self.components.shape[1]
        rights, mates = (np.array(given, dtype=dtype).reshape(-1, d) for given in (self._rights, self._mates))
        return rights, np.array(self._scales, dtype=np.float64), mates

    def images(self, dtype: np.dtype[np.floating]) -> Rows:
        """What the pending steps add to the normals, ``images.T @ rights``; (K, b)."""
        return np.array(self._images, dtype=dtype).reshape(-1, len(self.base))

    def norms(self, X: Rows) -> FloatArray:
        """Squared norms ``|G x|^2`` of the rows of X, in float64."""
        Z = X @ self.components.T.astype(X.dtype)
        squares: FloatArray = np.einsum("ij,ij->i", Z, Z, dtype=np.float64)
        return squares

    def renew(self) -> None:
        """Recompute the normals, so that rounding errors do not accumulate."""
        self.now = np.ascontiguousarray(self.directions @ self.components)

    def settle(self) -> None:
        """Make now the base."""
        self.base = self.now.copy()
        self.pending = 0
        self._forget()

    def _forget(self) -> None:
        self._rights: list[FloatArray] = []
        self._mates: list[FloatArray] = []
        self._images: list[FloatArray] = []
        self._scales: list[float] = []
