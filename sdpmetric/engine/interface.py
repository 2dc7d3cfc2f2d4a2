"""What solvers and certificates ask of an engine, and which engine is in use.

An engine says two things. *Where parts of the work are held*: `Engine.place` makes one object for each of its shards,
and `Shards.each` calls a method of all of them, so that only arguments and results travel. *What runs the heavy loops*:
`Engine.loops`, or None for the compiled loops on the threads of the process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import pairwise
from typing import Concatenate, Generic, ParamSpec, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray, IndexArray

# Where a part of some work begins and ends, as shares of all of it.
Part = tuple[float, float]
WHOLE: Part = (0.0, 1.0)
P = ParamSpec("P")
R = TypeVar("R")
Held = TypeVar("Held")
Held_co = TypeVar("Held_co", covariant=True)
Shared = TypeVar("Shared")


class TooLittleMemory(MemoryError):
    """A worker cannot hold what is asked of it."""


class ShardLost(Exception):
    """A shard has gone with its machine, and with it what the shard held."""


class Shards(Protocol[Held_co]):
    """Objects that hold a part of the work each, where their loops run."""

    def each(self, method: Callable[Concatenate[Held_co, P], R], *args: P.args, **kwargs: P.kwargs) -> list[R]:
        """Call a method of every object with the same arguments; the results in the order of the shards.

        Parameters
        ----------
        method : callable
            A function of a module or of a class, which processes can name to each other.
        *args, **kwargs
            What it takes besides the object.

        Raises
        ------
        ShardLost
            If an object has gone with its machine.
        """


class Loops(Protocol):
    """The loops over pairs of points and over triplets, somewhere else than on the threads of the process.

    Arrays are NumPy's on the way in and out; points are rows. ``bounds``, (c + 1,), cuts points into blocks, each with
    a metric of its own; candidates are the arrays of `sdpmetric.triplets.triplets.Candidates`.
    """

    def scan(
        self,
        left: NDArray[np.floating],
        right: NDArray[np.floating],
        ceilings: NDArray[np.floating],
        row_labels: IndexArray,
        column_labels: IndexArray,
    ) -> Iterator[tuple[IndexArray, IndexArray]]:
        """Yield, in bounded parts, rows and columns of the entries of ``left @ right.T`` up to the row's ceiling.

        Only entries of different labels count. Each of an entry's terms and sums is rounded once, in the precision of
        the factors, in whatever order.
        """

    def times(self, X: NDArray[np.floating], bounds: NDArray[np.int64], W: NDArray[np.floating]) -> FloatArray:
        """``X[rows] @ W[b]`` for the rows of each block b; X (n, d), W (c, d, r)."""

    def push(
        self,
        X: NDArray[np.floating],
        bounds: NDArray[np.int64],
        candidates: tuple[IndexArray, IndexArray, IndexArray, NDArray[np.int64], IndexArray, FloatArray | None],
        L: FloatArray,
        gamma: float,
        squared: bool,
    ) -> tuple[FloatArray, NDArray[np.floating]]:
        """Smoothed push term at factors L (c, r, d): smoothed loss, loss, active triplets; half its gradient in L.

        ``candidates`` holds anchors, bases, targets, indptr, impostors, weights; see `hinges.smoothed_push`.
        """

    def slopes(
        self,
        Z: NDArray[np.floating],
        candidates: tuple[IndexArray, FloatArray, NDArray[np.int64], IndexArray, FloatArray | None],
        gamma: float,
        squared: bool,
    ) -> tuple[FloatArray, FloatArray]:
        """Sums, (4,), and slopes, (nnz, K), of the loss of every triplet; see `triplets.margins.hinge_slopes`.

        ``candidates`` holds anchors, squared distances to the targets, indptr, impostors, weights.
        """

    def form(
        self,
        X: NDArray[np.floating],
        bounds: NDArray[np.int64],
        first: IndexArray,
        second: IndexArray,
        weights: FloatArray,
    ) -> FloatArray:
        """``sum w (x_a - x_b)(x_a - x_b)^T`` of the pairs of each block, (c, d, d)."""

    def products(
        self, X: NDArray[np.floating], bounds: NDArray[np.int64], first: IndexArray, second: IndexArray, N: FloatArray
    ) -> FloatArray:
        """``(x_a - x_b)^T N (x_a - x_b)`` of all pairs, N (c, d, d) the symmetric matrix of their block."""


class Engine(Protocol):
    """Where parts of the work are held, and what runs their loops."""

    @property
    def local(self) -> bool:
        """Whether the only shard is in this process, so that nothing has to be sent."""

    @property
    def loops(self) -> Loops | None:
        """What runs the heavy loops of this process; None: compiled code on its threads."""

    def place(self, make: Callable[[Shared, Part], Held], shared: Shared, size: int) -> Shards[Held]:
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

        Raises
        ------
        ShardLost
            If a machine went in the meantime.
        MemoryError
            If an object is larger than the memory of its machine.
        """


@dataclass
class Here(Generic[Held]):
    """Shards in this process."""

    held: list[Held]

    def each(self, method: Callable[Concatenate[Held, P], R], *args: P.args, **kwargs: P.kwargs) -> list[R]:
        """See `Shards.each`."""
        return [method(each, *args, **kwargs) for each in self.held]


class Threads:
    """The engine that is used by default: one shard, in this process, whose compiled loops share its threads."""

    local: bool = True
    loops: Loops | None = None

    def place(self, make: Callable[[Shared, Part], Held], shared: Shared, size: int) -> Shards[Held]:
        """See `Engine.place`."""
        return Here([make(shared, WHOLE)])


_THREADS = Threads()
_ENGINE: ContextVar[Engine | None] = ContextVar("engine", default=None)


def current() -> Engine:
    """The engine in use."""
    return _ENGINE.get() or _THREADS


@contextmanager
def using(engine: Engine) -> Iterator[None]:
    """Let loops that the calling thread begins run on an engine."""
    token = _ENGINE.set(engine)
    try:
        yield
    finally:
        _ENGINE.reset(token)


def parts_of(shares: Sequence[float]) -> list[Part]:
    """Parts of some work in proportion to shares."""
    ends = np.concatenate([[0.0], np.cumsum(np.asarray(shares, dtype=np.float64)) / float(np.sum(shares))])
    ends[-1] = 1.0
    return [(float(begin), float(end)) for begin, end in pairwise(ends)]


def dealt(n: int, part: Part) -> NDArray[np.bool_]:
    """Which of n items belong to a part, spread evenly over all of them, however they are ordered."""
    at = np.arange(n) * 0.6180339887498949 % 1.0  # multiples of the golden ratio fall evenly into every interval
    return (at >= part[0]) & ((at < part[1]) | (part[1] == 1.0))
