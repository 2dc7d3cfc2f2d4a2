"""Points along a solve, few enough to keep: for pictures of the way to a solution."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

# At most this many points are kept, and this many numbers in all.
MOST, NUMBERS = 16, 1 << 21


@dataclass(frozen=True, eq=False)
class Frame:
    """A point that a solver passed."""

    row: int  # Its row of the trace
    components: NDArray[np.floating]  # (r, d), or (c, r, d) for c metrics


@dataclass
class Recorder:
    """Keeps every first, second, fourth or so point: twice as sparse whenever there are too many."""

    frames: list[Frame] = field(default_factory=list)
    stride: int = 1

    def see(self, row: int, components: NDArray[np.floating]) -> None:
        """Take note of a point."""
        if row % self.stride:
            return
        self.frames.append(Frame(row, components))
        while len(self.frames) > 1 and (
            len(self.frames) > MOST or sum(frame.components.size for frame in self.frames) > NUMBERS
        ):
            self.stride *= 2
            self.frames = [frame for frame in self.frames if frame.row % self.stride == 0]
