"""When a solver of sums that certifies its points round by round has done what it can."""

from __future__ import annotations

import math
from dataclasses import dataclass

# Share of the tolerance below which a gap estimated in floats is proven.
GAP_SHARE = 0.8


@dataclass
class Progress:
    """The smallest gap between objective and bound so far, and how many rounds in a row left 0.9 of it or more."""

    smallest_gap: float = math.inf
    idle_rounds: int = 0

    def record(self, gap: float) -> None:
        """Take the gap of another round into account."""
        self.idle_rounds = 0 if gap < 0.9 * self.smallest_gap else self.idle_rounds + 1
        self.smallest_gap = min(self.smallest_gap, gap)
