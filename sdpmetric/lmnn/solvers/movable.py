"""Multipliers that may move inside their box, and the products that dual refinement takes of them.

With Q the eigenvectors that span a face, ``A(y)_t = <B_t, Q y Q^T>``, and D the room of each multiplier to its bounds,
refinement solves ``A* D A y = E`` and takes ``D A y`` from the multipliers; see `sdpmetric.lmnn.solvers.refinement`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray, IndexArray, LongArray
from sdpmetric.engine.lazy import cached
from sdpmetric.linalg.distances import Blocks, laplacian_form, pair_forms

# Most multiplications to form the matrix of ``A* D A``.
DENSE_WORK = 10_000_000
# Ridge on its diagonal, as a share of its trace: a direction that hardly any multiplier changes stays.
RIDGE = 1e-6


@dataclass(eq=False)
class MovableTriplets:
    """Triplets of this process with multipliers that may move."""

    X: NDArray[np.floating]  # whitened points, in the precision of the products
    blocks: Blocks  # points of one metric each
    impostor_pairs: tuple[IndexArray, IndexArray]  # rows of X: anchor and impostor
    target_pairs: tuple[IndexArray, IndexArray]  # anchor and target neighbor
    values: FloatArray
    limits: FloatArray  # upper ends of the box, possibly infinite
    _points: NDArray[np.floating] = field(init=False)
    _room: FloatArray = field(init=False)

    @cached
    def _pairs(self) -> tuple[IndexArray, IndexArray, LongArray, LongArray]:
        """The pairs, each once, and which of them are the impostor and the target pairs of the triplets."""
        n = len(self.X)
        pairs = np.concatenate([np.stack(self.impostor_pairs), np.stack(self.target_pairs)], axis=1)
        low, high = np.sort(pairs, axis=0).astype(np.int64)
        keys, place = np.unique(low * n + high, return_inverse=True)
        of_impostors, of_targets = place.reshape(2, -1)
        return (keys // n).astype(np.int32), (keys % n).astype(np.int32), of_impostors, of_targets

    @cached
    def _used(self) -> tuple[IndexArray, Blocks, IndexArray, IndexArray]:
        """The points of the pairs, their blocks, and the pairs by numbers of these points."""
        used, place = np.unique(np.concatenate(self._pairs[:2]), return_inverse=True)
        first, second = place.astype(np.int32).reshape(2, -1)
        return used, Blocks(np.searchsorted(used, self.blocks.bounds).astype(np.int64)), first, second

    def set_face(self, Q: FloatArray) -> None:
        """Take products in the coordinates Q, (c, rank, w), and the room to the bounds as it is now."""
        self._points = self.blocks.times(self.X, Q)[self._used[0]]
        values, limits = self.values, self.limits
        self._room = np.where(np.isinf(limits), values, np.minimum(values, limits - values))

    def _change(self, y: FloatArray) -> FloatArray:
        """``D A y``, (t,)."""
        (_, _, of_impostors, of_targets), (_, blocks, first, second) = self._pairs, self._used
        forms = pair_forms(self._points, y, blocks, first, second)
        change: FloatArray = self._room * (forms[of_impostors] - forms[of_targets])
        return change

    def _pair_weights(self, c: FloatArray) -> FloatArray:
        first, _, of_impostors, of_targets = self._pairs
        pushes = np.bincount(of_impostors, c, len(first)).astype(np.float64)
        return pushes - np.bincount(of_targets, c, len(first))

    def curvature(self, y: FloatArray) -> FloatArray:
        """``A* D A y``, (c, w, w)."""
        _, blocks, first, second = self._used
        return laplacian_form(self._points, first, second, self._pair_weights(self._change(y)), blocks)

    def least_change(self, E: FloatArray) -> FloatArray | None:
        """The y with ``A* D A y = E``, by the matrix of this map, or None if products with it take less time."""
        (_, _, of_impostors, of_targets), (_, _, first, second) = self._pairs, self._used
        row, column = np.triu_indices(E.shape[1])
        if len(E) > 1 or len(self.values) * len(row) ** 2 > DENSE_WORK:
            return None
        scale, differences = np.where(row == column, 1.0, math.sqrt(2.0)), self._points[first] - self._points[second]
        forms = differences[:, row] * differences[:, column] * scale
        A = forms[of_impostors] - forms[of_targets]
        H = A.T @ (self._room[:, None] * A)
        if not np.trace(H) > 0.0:  # no multiplier can move
            return None
        if not (trace := float(np.trace(H))) > 0.0:  # no multiplier changes any direction
            return np.zeros_like(E)
        H[np.diag_indices_from(H)] += RIDGE * trace
        y = np.zeros_like(E)
        y[0, row, column] = y[0, column, row] = np.linalg.solve(H, E[0, row, column] * scale) / scale
        return y

    def move(self, y: FloatArray) -> FloatArray:
        """Take ``D A y`` from the multipliers as far as their box allows; the change of ``sum a_t B_t``."""
        values = np.clip(self.values - self._change(y), 0.0, self.limits)
        first, second, _, _ = self._pairs
        weights = self._pair_weights(values - self.values)
        change = laplacian_form(np.asarray(self.X, dtype=np.float64), first, second, weights, self.blocks)
        self.values = values
        return 0.5 * (change + np.swapaxes(change, 1, 2))
