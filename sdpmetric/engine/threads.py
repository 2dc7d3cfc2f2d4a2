"""Work in parts, on the threads of this process or a Dask cluster: one pool, and sums in a fixed order.

The number of parts depends on the work alone. Threads take the next part when they are done with one, so a thread that
waits for a busy core delays the rest by one part at most. The results of the parts are added up in their order: they
are the same bits whatever the number of threads. Compiled loops release the GIL, as NumPy's products do. BLAS is
held to one thread, since its own pool and this one would get into each other's way.

The deadline of the calling thread and the memory of the process are limits of work, too.

The tasks of work by blocks are functions without state, of data and of one block. A cluster is given the data once for
each piece of work, and a task for each block. Workers keep nothing between two pieces of work, and Dask repeats the
tasks of a worker that it has lost.
"""

from __future__ import annotations

import math
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import cache, partial, wraps
from itertools import pairwise
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

if TYPE_CHECKING:
    from distributed import Client

# Coordinate differences of one part at least: half a millisecond. Waking a thread takes about 50 microseconds.
LOOP_WORK = 500_000
# Multiplications of one part of a product at least: half a millisecond.
PRODUCT_WORK = 10_000_000
# Parts of one piece of work at most: more of them even out what the threads do, and cost calls.
MOST_PARTS = 32
# Most parts with an array each, as the arrays must be added up, and bytes of these arrays, two of which there may be.
ACCUMULATORS, ACCUMULATOR_BYTES = 4, 1 << 28

DataT = TypeVar("DataT")
BlockT = TypeVar("BlockT")
ValueT = TypeVar("ValueT")

_limit: ContextVar[int | None] = ContextVar("limit", default=None)


def count() -> int:
    """Return the number of threads: ``NUMBA_NUM_THREADS`` (default: one for each core), or what `limited` says."""
    limit = _limit.get()
    return cores() if limit is None else limit


def cores() -> int:
    """Return ``NUMBA_NUM_THREADS``, by default one for each core."""
    from numba import config  # half a second to import, with the first loop that runs

    return int(config.NUMBA_NUM_THREADS)


@contextmanager
def _holding(variable: ContextVar[ValueT], value: ValueT) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def limited(n_threads: int) -> AbstractContextManager[None]:
    """Hold the calling thread's work to a number of threads, itself included."""
    if n_threads < 1:
        raise ValueError(f"n_threads must be at least 1, got {n_threads!r}.")
    return _holding(_limit, n_threads)


def part_count(work: float, smallest_work: float | None = None, max_parts: int = MOST_PARTS) -> int:
    """Return the number of parts for an amount of work; a part has at least `smallest_work`, default `LOOP_WORK`."""
    return int(min(max(work // (LOOP_WORK if smallest_work is None else smallest_work), 1), max_parts))


def cuts(n: int, n_parts: int) -> NDArray[np.int64]:
    """Return where parts of n equal items begin and end, (n_parts + 1,)."""
    return np.arange(n_parts + 1, dtype=np.int64) * n // n_parts


# A loop over items: its coordinate differences, the number of items, and the bounds of a given number of parts.
Workload = tuple[float, int, Callable[[int], NDArray[np.int64]]]


def of_equal_items(n: int, differences: int) -> Workload:
    return n * differences, n, partial(cuts, n)


def in_parts(
    work: Callable[..., Workload], *, accumulates: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a loop over a run of items; its first argument is the begin and end of the run.

    The decorated function takes the other arguments and goes over all items, by parts on the threads. It returns the
    numbers that the loop returns, a tuple, added up in the order of the parts. A loop that `accumulates` adds up in an
    array besides, its last argument, of the shape of its second: the arrays of all parts are returned with the sums.
    """

    def decorate(loop: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(loop)
        def over_all(*arguments: object) -> object:
            differences, n, cut = work(*arguments)
            like = cast("NDArray[np.floating]", arguments[0])
            most = max(2, min(ACCUMULATORS, ACCUMULATOR_BYTES // max(like.nbytes, 1))) if accumulates else MOST_PARTS
            n_parts = part_count(differences, max_parts=most)
            runs = [(0, n)] if n_parts == 1 else list(pairwise(cut(n_parts).tolist()))
            sums = [None] * n_parts
            arrays = np.empty((n_parts, *like.shape), like.dtype) if accumulates else None

            def do(t: int) -> None:
                sums[t] = loop(runs[t], *arguments) if arrays is None else loop(runs[t], *arguments, arrays[t])

            run(do, n_parts)
            total = sums[0] if n_parts == 1 or sums[0] is None else tuple(map(sum, zip(*sums, strict=True)))
            return total if arrays is None else (total, arrays)

        return over_all

    return decorate


def run(task: Callable[[int], object], n_tasks: int, n_parts: int | None = None) -> None:
    """Call a task with every number below `n_tasks`, each on one of the threads, the caller's included.

    `n_parts`, by default `n_tasks`, is the size of the work, see `part_count`: no more threads than this are used.
    """
    n_parts = n_tasks if n_parts is None else min(n_parts, n_tasks)
    n_threads = 1 if n_parts <= 1 else min(count(), n_parts)
    if n_threads <= 1:
        for task_number in range(n_tasks):
            task(task_number)
        return
    waiting = deque(range(n_tasks))

    def work() -> None:
        while waiting:
            try:
                task_number = waiting.popleft()
            except IndexError:  # another thread was faster
                return
            task(task_number)

    helpers = [_pool(os.getpid()).submit(work) for _ in range(n_threads - 1)]
    try:
        work()
    finally:  # a helper that has not begun is not waited for
        waiting.clear()
        late = [helper for helper in helpers if not helper.cancel()]
        errors = [helper.exception() for helper in late]
    for error in errors:
        if error is not None:
            raise error


@cache
def _pool(process: int) -> ThreadPoolExecutor:
    """Return the pool of a process; a forked child has none of its parent's threads. They start when first needed."""
    return ThreadPoolExecutor(max(cores(), 1), thread_name_prefix="sdpmetric")


class _Blas:
    """BLAS held to one thread while anybody needs it, in whatever order they begin and end."""

    def __init__(self) -> None:
        self.lock, self.users = Lock(), 0

    def __enter__(self) -> None:
        with self.lock:
            if self.users == 0:
                self.held = _libraries().limit(limits=1, user_api="blas")
            self.users += 1

    def __exit__(self, *error: object) -> None:
        with self.lock:
            self.users -= 1
            if self.users == 0:
                self.held.restore_original_limits()


_blas = _Blas()


@cache
def _libraries() -> ThreadpoolController:
    """Find the libraries, once: looking for them takes longer than a small evaluation."""
    return ThreadpoolController()


def one_pool() -> AbstractContextManager[None]:
    """Hold BLAS to one thread, so no other pool of threads competes with this one."""
    return _blas


@contextmanager
def without_openmp() -> Iterator[None]:
    """Hold the OpenMP regions that the calling thread enters, scikit-learn's, to this one thread."""
    with _libraries().limit(limits=1, user_api="openmp"):
        yield


_DEADLINE: ContextVar[float] = ContextVar("deadline", default=math.inf)


class BudgetSpent(Exception):
    """Time or iterations ran out during a step."""


def deadline(time_limit: float) -> AbstractContextManager[None]:
    """Let `check_deadline` raise once ``time.perf_counter()`` has passed a time; not across a ``yield``."""
    return _holding(_DEADLINE, time_limit)


def check_deadline() -> None:
    """Raise `BudgetSpent` after the deadline of the calling thread; loops longer than a step call this."""
    if remaining() < 0.0:
        raise BudgetSpent


def remaining() -> float:
    """Return the seconds before the deadline, possibly infinite."""
    return _DEADLINE.get() - time.perf_counter()


def memory_size() -> float:
    """Return the bytes that this process may have: the machine's or fewer, or infinity if the system does not say."""
    try:
        import resource
    except ImportError:  # not on Windows
        return math.inf
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return min(math.inf if limit < 0 else limit, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


ResultT = TypeVar("ResultT")

_CLIENT: ContextVar[Client | None] = ContextVar("client", default=None)


def using(client: Client | None) -> AbstractContextManager[None]:
    """Run work by blocks that the calling thread begins on a cluster, or in this process if it is None."""
    return _holding(_CLIENT, client)


def mapped(function: Callable[[DataT, BlockT], ResultT], data: DataT, blocks: Sequence[BlockT]) -> Iterator[ResultT]:
    """Return ``function(data, block)`` for each block, in order; a single one is not worth a message to a cluster."""
    client = _CLIENT.get()
    if client is None or len(blocks) == 1:
        return (function(data, block) for block in blocks)
    return _on(client, function, data, blocks)


def _on(
    client: Client, function: Callable[[DataT, BlockT], ResultT], data: DataT, blocks: Sequence[BlockT]
) -> Iterator[ResultT]:
    """See `mapped`."""
    from dask import config

    # The data are an argument of a task, which Dask repeats elsewhere; data that are scattered go with their worker.
    with config.set({"distributed.admin.large-graph-warning-threshold": "1 TiB"}):
        sent = client.submit(_itself, data, pure=False)
    futures = client.map(_on_one_thread, *zip(*((function, sent, block) for block in blocks), strict=True), pure=False)
    for future in futures:
        seconds = remaining()
        try:
            yield future.result(timeout=None if seconds == math.inf else max(seconds, 0.0))
        except TimeoutError:
            raise BudgetSpent from None


def _itself(data: DataT) -> DataT:
    return data


def _on_one_thread(function: Callable[[DataT, BlockT], ResultT], data: DataT, block: BlockT) -> ResultT:
    """Run a worker's task on one thread, since a worker runs as many tasks at once as it has threads."""
    with limited(1):
        return function(data, block)


def client_of(engine: Client | str | None) -> Client | None:
    """Return the client that is meant by an engine; None for the threads of this process."""
    if engine is None or engine == "threads":
        return None
    try:
        from distributed import Client
    except ImportError as error:
        raise ImportError(
            "a Dask cluster needs dask.distributed; install it with pip install 'sdpmetric[dask]'."
        ) from error
    if not isinstance(engine, Client):
        raise TypeError(f"engine must be 'threads' or a dask.distributed.Client, got {engine!r}.")
    return engine
