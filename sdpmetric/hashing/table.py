"""Rows of an index: examples, projections, keys, norms and ids, in arrays that grow and are compacted."""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
Rows = NDArray[np.floating]

# The arrays are compacted once this share of the rows is removed.
DEAD_SHARE = 0.25


class Table:
    """Rows in order of insertion; removal leaves gaps until `close` compacts the arrays."""

    def __init__(self, d: int, b: int, dtype: np.dtype[np.floating]) -> None:
        self._held: dict[str, NDArray[np.generic]] = {
            "X": np.empty((0, d), dtype),
            "projections": np.empty((0, b), dtype),
            "keys": np.empty((0, -(-b // 64)), np.uint64),
            "norms": np.empty(0, np.float64),
            "ids": np.empty(0, np.int64),
            "alive": np.empty(0, np.bool_),
        }
        self.size = 0
        self.slots: dict[int, int] = {}
        self._show()

    def __len__(self) -> int:
        return len(self.slots)

    def append(
        self, ids: NDArray[np.int64], X: Rows, projections: Rows, keys: NDArray[np.uint64], norms: FloatArray
    ) -> None:
        """Add rows at the end."""
        new = {"X": X, "projections": projections, "keys": keys, "norms": norms, "ids": ids}
        end = self.size + len(ids)
        for name, held in self._held.items():
            if end > len(held):
                grown = np.empty((max(end, 3 * len(held) // 2), *held.shape[1:]), held.dtype)
                grown[: self.size] = held[: self.size]
                self._held[name] = grown
            self._held[name][self.size : end] = new.get(name, True)
        self.slots.update(zip(ids.tolist(), range(self.size, end), strict=True))
        self.size = end
        self._show()

    def remove(self, ids: NDArray[np.int64]) -> bool:
        """Drop rows by id; returns whether the arrays were compacted, which renumbers slots."""
        gone = [self.slots.pop(i) for i in ids.tolist()]
        self.alive[gone] = False
        if len(self) >= (1.0 - DEAD_SHARE) * self.size:
            return False
        self.close()
        return True

    def close(self) -> None:
        """Compact the arrays; the order stays."""
        rows = np.flatnonzero(self.alive)
        self._held = {name: held[: self.size][rows] for name, held in self._held.items()}
        self.size = len(rows)
        self._show()
        self.slots = dict(zip(self.ids.tolist(), range(self.size), strict=True))

    def _show(self) -> None:
        end = slice(self.size)
        self.X = cast(Rows, self._held["X"][end])
        self.projections = cast(Rows, self._held["projections"][end])
        self.keys = cast(NDArray[np.uint64], self._held["keys"][end])
        self.norms = cast(FloatArray, self._held["norms"][end])
        self.ids = cast(NDArray[np.int64], self._held["ids"][end])
        self.alive = cast(NDArray[np.bool_], self._held["alive"][end])
