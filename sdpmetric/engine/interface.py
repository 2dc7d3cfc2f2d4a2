"""When the work of the calling thread has to end."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import pairwise
from typing import Concatenate, Generic, ParamSpec, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

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


# Where a part of some work begins and ends, as shares of all of it.
Share = tuple[float, float]
FULL_SHARE: Share = (0.0, 1.0)
P = ParamSpec("P")
R = TypeVar("R")
Held = TypeVar("Held")
Held_co = TypeVar("Held_co", covariant=True)
Shared = TypeVar("Shared")


class TooLittleMemory(MemoryError):
    """A worker cannot hold what is asked of it."""


class ShardLost(Exception):
    """A shard has gone with its machine, and with it what the shard held."""


def repeat_if_lost(work: Callable[[], R]) -> R:
    """Repeat some work if shards are lost meanwhile, up to 16 times."""
    for _ in range(16):
        try:
            return work()
        except ShardLost as error:
            lost_shard = error
    raise ShardLost("the engine lost workers again and again; check them, or leave engine= out.") from lost_shard


class Shards(Protocol[Held_co]):
    """Objects that hold a part of the work each, where their loops run."""

    def call(self, method: Callable[Concatenate[Held_co, P], R], *args: P.args, **kwargs: P.kwargs) -> list[R]:
        """Call a method of every object with the same arguments; the results in the order of the shards."""


class Engine(Protocol):
    """Where parts of the work are held."""

    @property
    def local(self) -> bool:
        """Whether the only shard is in this process, so nothing has to be sent."""

    def place(self, make: Callable[[Shared, Share], Held], shared: Shared, size: int) -> Shards[Held]:
        """Make one object for each shard, where its loops will run.

        Parameters
        ----------
        make : callable
            ``make(shared, part)`` with the part of the work that is the object's; a function that processes can name
            to each other.
        shared : object
            What all of them need. It is sent once, however often it is used.
        size : int
            Bytes that each of the objects will take.
        """


@dataclass
class LocalShards(Generic[Held]):
    """Shards in this process."""

    held: list[Held]

    def call(self, method: Callable[Concatenate[Held, P], R], *args: P.args, **kwargs: P.kwargs) -> list[R]:
        return [method(shard, *args, **kwargs) for shard in self.held]


class Threads:
    """The engine that is used by default: one shard, in this process, whose compiled loops share its threads."""

    local: bool = True

    def place(self, make: Callable[[Shared, Share], Held], shared: Shared, size: int) -> Shards[Held]:
        return LocalShards([make(shared, FULL_SHARE)])


_THREADS = Threads()
_ENGINE: ContextVar[Engine | None] = ContextVar("engine", default=None)


def current() -> Engine:
    return _ENGINE.get() or _THREADS


@contextmanager
def using(engine: Engine | None) -> Iterator[None]:
    """Let loops that the calling thread begins run on an engine; None: on the threads of this process."""
    token = _ENGINE.set(engine)
    try:
        yield
    finally:
        _ENGINE.reset(token)


def shares_of(shares: Sequence[float]) -> list[Share]:
    """Parts of some work in proportion to shares."""
    bounds = np.concatenate([[0.0], np.cumsum(np.asarray(shares, dtype=np.float64)) / float(np.sum(shares))])
    bounds[-1] = 1.0
    return [(float(begin), float(stop)) for begin, stop in pairwise(bounds)]


def in_share(n: int, share: Share) -> NDArray[np.bool_]:
    """Which of n items belong to a part, spread evenly over all of them, however they are ordered."""
    positions = np.arange(n) * 0.6180339887498949 % 1.0  # multiples of the golden ratio fall evenly into every interval
    return (positions >= share[0]) & ((positions < share[1]) | (share[1] == 1.0))
