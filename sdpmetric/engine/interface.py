"""When the work of the calling thread has to end."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

ItemT = TypeVar("ItemT")

_DEADLINE: ContextVar[float] = ContextVar("deadline", default=math.inf)
_LAST: ContextVar[float] = ContextVar("last", default=math.inf)
_HURRIED: ContextVar[bool] = ContextVar("hurried", default=False)


class BudgetSpent(Exception):
    """Time or iterations ran out during a step."""


@contextmanager
def deadline(time_limit: float, last: float | None = None) -> Iterator[None]:
    """Let work end with `BudgetSpent` once ``time.perf_counter()`` has passed a time; not across a ``yield``."""
    tokens = _DEADLINE.set(time_limit), _LAST.set(_LAST.get() if last is None else last)
    try:
        yield
    finally:
        _DEADLINE.reset(tokens[0])
        _LAST.reset(tokens[1])


def check_deadline() -> None:
    if time.perf_counter() > _DEADLINE.get():
        raise BudgetSpent


# LAPACK does about so many multiplications in a second on one thread of a fast machine.
FACTORIZATION_RATE = 2.5e10


def check_time_for(multiplications: float) -> None:
    """Raise `BudgetSpent` where the deadline comes before a factorization of so many multiplications ends."""
    if multiplications > FACTORIZATION_RATE * remaining():
        raise BudgetSpent


def check_last(multiplications: float = 0.0) -> None:
    """Raise `BudgetSpent` where nothing that takes so many multiplications can be finished any more."""
    if time.perf_counter() + multiplications / FACTORIZATION_RATE > _LAST.get():
        raise BudgetSpent


def memory_size() -> float:
    """Bytes that this process may have: those of the machine or fewer; infinity where the system does not say."""
    try:
        import resource
    except ImportError:  # not on Windows
        return math.inf
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return min(math.inf if limit < 0 else limit, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


def remaining() -> float:
    """Seconds before the deadline, possibly infinite."""
    return _DEADLINE.get() - time.perf_counter()


@contextmanager
def hurried() -> Iterator[None]:
    """Let work that is begun after the deadline do what it must, without a deadline; not across a ``yield``."""
    token = _HURRIED.set(True)
    try:
        yield
    finally:
        _HURRIED.reset(token)


def is_late() -> bool:
    """Whether only what must be done is to be done."""
    return _HURRIED.get() or remaining() < 0.0


def in_time(items: Iterable[ItemT]) -> Iterator[ItemT]:
    """The first item, and the others as long as it is not late."""
    for k, item in enumerate(items):
        if k and is_late():
            return
        yield item
