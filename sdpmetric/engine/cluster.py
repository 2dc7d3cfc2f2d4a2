"""Work by blocks, on a Dask cluster if one is in use: functions without state, of data and of one block.

A cluster is given the data once for each piece of work, and a task for each block. Workers keep nothing between two
pieces of work, and Dask repeats the tasks of a worker that it has lost.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, TypeVar

from sdpmetric.engine import threads
from sdpmetric.engine.threads import BudgetSpent, remaining

if TYPE_CHECKING:
    from distributed import Client

DataT = TypeVar("DataT")
BlockT = TypeVar("BlockT")
ResultT = TypeVar("ResultT")

_CLIENT: ContextVar[Client | None] = ContextVar("client", default=None)


@contextmanager
def using(client: Client | None) -> Iterator[None]:
    """Run work by blocks that the calling thread begins on a cluster, or in this process if it is None."""
    token = _CLIENT.set(client)
    try:
        yield
    finally:
        _CLIENT.reset(token)


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
    """A worker runs as many tasks at once as it has threads."""
    with threads.limited(1):
        return function(data, block)


def client_of(engine: Client | str | None) -> Client | None:
    """The client that is meant by an engine; None for the threads of this process."""
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
