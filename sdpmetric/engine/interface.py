"""When the work of the calling thread has to end."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_DEADLINE: ContextVar[float] = ContextVar("deadline", default=math.inf)


class BudgetSpent(Exception):
    """Time or iterations ran out during a step."""


@contextmanager
def deadline(time_limit: float) -> Iterator[None]:
    """Let `check_deadline` raise once ``time.perf_counter()`` has passed a time; not across a ``yield``."""
    token = _DEADLINE.set(time_limit)
    try:
        yield
    finally:
        _DEADLINE.reset(token)


def check_deadline() -> None:
    """Raise `BudgetSpent` after the deadline of the calling thread; loops longer than a step call this."""
    if remaining() < 0.0:
        raise BudgetSpent


def remaining() -> float:
    """Return the seconds before the deadline, possibly infinite."""
    return _DEADLINE.get() - time.perf_counter()


def memory_size() -> float:
    """Bytes that this process may have: those of the machine or fewer; infinity where the system does not say."""
    try:
        import resource
    except ImportError:  # not on Windows
        return math.inf
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return min(math.inf if limit < 0 else limit, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
