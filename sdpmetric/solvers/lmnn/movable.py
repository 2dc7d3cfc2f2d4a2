"""Multipliers that may move inside their box, and the products that dual refinement takes of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray, IndexArray
from sdpmetric.linalg.distances import Blocks, laplacian_form, pair_forms


@dataclass(eq=False)
class Movable:
    """Triplets whose multipliers may move.

    Attributes
    ----------
    X : (n, rank) array
        Whitened points, in the precision of the products.
    blocks : Blocks
        Points of one metric each.
    far, near : pairs of (t,) int32 arrays
        Rows of X: anchor and impostor, anchor and target neighbor.
    values, limits : (t,) arrays
        Their multipliers, and the upper ends of their box, possibly infinite.
    """

    X: NDArray[np.floating]
    blocks: Blocks
    far: tuple[IndexArray, IndexArray]
    near: tuple[IndexArray, IndexArray]
    values: FloatArray
    limits: FloatArray
    _points: NDArray[np.floating] = field(init=False)
    _room: FloatArray = field(init=False)

    def __len__(self) -> int:
        return len(self.values)

    @cached_property
    def _pairs(self) -> tuple[IndexArray, IndexArray, NDArray[np.int64], NDArray[np.int64]]:
        """The pairs, each once, and which of them are the far and the near ones of the triplets."""
        n = len(self.X)
        ends = np.sort(np.concatenate([np.stack(self.far), np.stack(self.near)], axis=1), axis=0).astype(np.int64)
        keys, place = np.unique(ends[0] * n + ends[1], return_inverse=True)
        far, near = place.reshape(2, -1)
        return (keys // n).astype(np.int32), (keys % n).astype(np.int32), far, near

    @cached_property
    def _used(self) -> tuple[IndexArray, Blocks, IndexArray, IndexArray]:
        """The points of the pairs, their blocks, and the pairs by numbers of these points."""
        used, place = np.unique(np.concatenate(self._pairs[:2]), return_inverse=True)
        first, second = place.astype(np.int32).reshape(2, -1)
        return used, Blocks(np.searchsorted(used, self.blocks.bounds).astype(np.int64)), first, second

    def face(self, Q: FloatArray) -> None:
        """Take products in the coordinates Q, (c, rank, w), and the room to the bounds as it is now."""
        self._points = self.blocks.times(self.X, Q)[self._used[0]]
        values, limits = self.values, self.limits
        self._room = np.where(np.isinf(limits), values, np.minimum(values, limits - values))

    def _change(self, y: FloatArray) -> FloatArray:
        """``D A y``: the room to the bounds times ``<B_t, Q y Q^T>``, (t,)."""
        (_, _, far, near), (_, blocks, first, second) = self._pairs, self._used
        forms = pair_forms(self._points, y, blocks, first, second)
        change: FloatArray = self._room * (forms[far] - forms[near])
        return change

    def _weights(self, c: FloatArray) -> FloatArray:
        """The weight of each pair in ``sum c_t B_t``."""
        first, _, far, near = self._pairs
        return np.bincount(far, c, len(first)).astype(np.float64) - np.bincount(near, c, len(first))

    def curvature(self, y: FloatArray) -> FloatArray:
        """``A* D A y``, (c, w, w)."""
        _, blocks, first, second = self._used
        return laplacian_form(self._points, first, second, self._weights(self._change(y)), blocks)

    def move(self, y: FloatArray) -> FloatArray:
        """Take ``D A y`` from the multipliers as far as their box allows; the change of ``sum a_t B_t``."""
        new = np.clip(self.values - self._change(y), 0.0, self.limits)
        first, second, _, _ = self._pairs
        weights = self._weights(new - self.values)
        moved = laplacian_form(np.asarray(self.X, dtype=np.float64), first, second, weights, self.blocks)
        self.values = new
        return 0.5 * (moved + np.swapaxes(moved, 1, 2))
