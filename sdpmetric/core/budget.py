"""Time and iterations that a solve may take."""

from __future__ import annotations

import math
import time

from sdpmetric.core import validation
from sdpmetric.triplets.limits import BudgetSpent


class Budget:
    """Time and iterations that a solve may take."""

    def __init__(self, max_time: float | None = None, max_iter: int | None = None) -> None:
        if max_time is not None and not validation.positive(max_time):
            raise ValueError(f"max_time must be positive or None (no limit), got {max_time!r}.")
        if max_iter is not None and not (validation.is_integer(max_iter) and max_iter > 0):
            raise ValueError(f"max_iter must be a positive integer or None (no limit), got {max_iter!r}.")
        self.max_time = math.inf if max_time is None else float(max_time)
        self.max_iter = math.inf if max_iter is None else int(max_iter)
        self.spent, self.reserve = 0, 0.0
        self._began = time.perf_counter()

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self._began

    @property
    def remaining(self) -> float:
        """Seconds left, possibly infinite."""
        return max(self.max_time - self.elapsed, 0.0)

    @property
    def ends(self) -> float:
        """When the steps have to end, on the clock of ``time.perf_counter``; possibly infinity."""
        return self._began + min(self.max_time, max(self.last - self._began - self.reserve, 0.0))

    @property
    def last(self) -> float:
        """When the certificate has to be there, on the same clock; the rest is for that of the zero metric."""
        return self._began + 1.1 * self.max_time + 0.5

    def spend(self, iterations: int = 1) -> None:
        """Count iterations."""
        if self.spent >= self.max_iter or time.perf_counter() >= self.ends:
            raise BudgetSpent
        self.spent += iterations

    def check_reserve(self) -> None:
        """Raise `BudgetSpent` where not even a quarter of the reserve, which is generous, is left for a certificate."""
        if time.perf_counter() + 0.25 * self.reserve > self.last:
            raise BudgetSpent
