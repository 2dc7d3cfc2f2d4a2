"""When the work of the calling thread has to end."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_DEADLINE: ContextVar[float] = ContextVar("deadline", default=math.inf)


class BudgetSpent(Exception):
    """Time or iterations ran out during a step."""


@contextmanager
def deadline(at: float) -> Iterator[None]:
    """Let work end with `BudgetSpent` once ``time.perf_counter()`` has passed a time; not across a ``yield``."""
    token = _DEADLINE.set(at)
    try:
        yield
    finally:
        _DEADLINE.reset(token)


def check_deadline() -> None:
    """Raise `BudgetSpent` after the deadline."""
    if time.perf_counter() > _DEADLINE.get():
        raise BudgetSpent


def remaining() -> float:
    """Seconds before the deadline, possibly infinite."""
    return _DEADLINE.get() - time.perf_counter()
