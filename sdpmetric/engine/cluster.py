"""The engine of a Dask cluster: shards are actors on its workers, and only arguments and results travel."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection, Coroutine
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import TYPE_CHECKING, Concatenate, Generic, Protocol, TypeVar
from weakref import WeakKeyDictionary

from sdpmetric.engine import threads
from sdpmetric.engine.interface import (
    BudgetSpent,
    Engine,
    Held,
    P,
    R,
    ShardLost,
    Shards,
    Share,
    Shared,
    Threads,
    TooLittleMemory,
    check_deadline,
    remaining,
    shares_of,
)

if TYPE_CHECKING:
    from distributed import Client, Future
    from distributed.actor import Actor

# Seconds after which a worker that does not answer is looked for.
LOOK = 2.0

ResultT = TypeVar("ResultT", covariant=True)


class Waiting(Protocol[ResultT]):
    """A future of Dask, of one of its actors, or of its loop."""

    def result(self, timeout: float) -> ResultT:
        """What it stands for."""

    def done(self) -> bool:
        """Whether that is there."""


class Dask:
    """Shards on the workers of a Dask cluster, one for each worker, as large as its number of threads is.

    Parameters
    ----------
    client : dask.distributed.Client

    Examples
    --------
    >>> from dask.distributed import Client  # doctest: +SKIP
    >>> sm.solve(problem, engine=Client("tcp://scheduler:8786"))  # doctest: +SKIP
    """

    local: bool = False

    def __init__(self, client: Client) -> None:
        try:
            from distributed import Client
        except ImportError as error:
            raise ImportError(
                "the engine of a Dask cluster needs dask.distributed; install it with pip install 'sdpmetric[dask]'."
            ) from error
        if not isinstance(client, Client):
            raise TypeError(f"client must be a dask.distributed.Client, got {type(client).__name__}.")
        self.client = client
        self._sent: WeakKeyDictionary[object, Future] = WeakKeyDictionary()
        with contextlib.suppress(BudgetSpent):  # a solve whose scheduler does not answer ends with what it has
            self._workers()

    def _workers(self, patience: float = 0.0) -> dict[str, tuple[int, int]]:
        """Threads and bytes of memory, 0 for no limit, of each worker by its address; wait for any so many seconds."""
        began = time.perf_counter()
        while not (workers := self._listed_workers()) and time.perf_counter() < began + patience:
            check_deadline()
            time.sleep(0.1)
        if not workers:
            raise ValueError(
                "the Dask client has no workers; start some, or wait for them with client.wait_for_workers(1)."
            )
        return {address: (int(info["nthreads"]), int(info["memory_limit"])) for address, info in workers.items()}

    def _listed_workers(self) -> dict[str, dict[str, int]]:
        workers: dict[str, dict[str, int]] = self._answer(self.client.scheduler.identity(n_workers=-1))["workers"]
        return workers

    def workers_for(self, size: int, patience: float = 0.0) -> dict[str, int]:
        """Threads of each worker by its address; where all are lost, others are waited for so many seconds."""
        workers = self._workers(patience)
        for address, (_, memory) in workers.items():
            if memory and size > memory:
                raise TooLittleMemory(
                    f"a shard needs about {size / 2**30:.3g} GiB, and worker {address} has {memory / 2**30:.3g} GiB; "
                    "start workers with more memory, or reduce the rows or the features."
                )
        return {address: n for address, (n, _) in workers.items()}

    def place(self, make: Callable[[Shared, Share], Held], shared: Shared, size: int) -> Shards[Held]:
        """See `Engine.place`; where all workers are lost, others are waited for."""
        workers = self.workers_for(size, 30.0)
        if shared not in self._sent or self._sent[shared].status != "finished":
            # One copy, which workers take from each other: Dask's broadcast waits for ever for a worker that has gone.
            self._sent[shared] = self._answer(
                self.client.scatter(shared, hash=False, asynchronous=True), tuple(workers)
            )
        shares = shares_of(list(workers.values()))
        actors = {
            address: self.client.submit(
                _Holder, make, self._sent[shared], share, n, actor=True, pure=False, workers=[address]
            )
            for (address, n), share in zip(workers.items(), shares, strict=True)
        }
        return _Actors(self, {address: self.wait(future, [address]) for address, future in actors.items()})

    def _answer(self, question: Coroutine[object, object, R], workers: Collection[str] = ()) -> R:
        """What the scheduler answers, before the deadline and as long as these workers are there."""
        answer = asyncio.run_coroutine_threadsafe(question, self.client.loop.asyncio_loop)
        try:
            return self.wait(answer, workers)
        finally:
            answer.cancel()

    def wait(self, future: Waiting[R], workers: Collection[str] | None = None) -> R:
        """The result of a future that needs some workers; by default, any one."""
        while True:
            done = future.done()
            try:
                return future.result(timeout=max(min(LOOK, remaining()), 0.0))
            except TimeoutError as error:
                if done:  # Dask itself has given up
                    raise ShardLost(str(error)) from error
                check_deadline()
                if workers is None:
                    self._workers()
                elif gone := set(workers) - set(self._listed_workers() if workers else ()):
                    raise ShardLost(f"worker {min(gone)} has gone.") from error
            except (OSError, CancelledError) as error:  # the worker, or inputs that were lost with one
                raise ShardLost(str(error)) from error


@dataclass
class _Actors(Generic[Held]):
    """Shards on workers; see `Shards`."""

    engine: Dask
    actors: dict[str, Actor]

    def call(self, method: Callable[Concatenate[Held, P], R], *args: P.args, **kwargs: P.kwargs) -> list[R]:
        try:
            futures = {address: actor.call(method, *args, **kwargs) for address, actor in self.actors.items()}
        except RuntimeError as error:  # Dask knows already
            raise ShardLost(str(error)) from error
        return [self.engine.wait(future, [address]) for address, future in futures.items()]


class _Holder(Generic[Held]):
    """What a worker holds: one shard, whose loops run on as many threads as the worker has."""

    def __init__(self, make: Callable[[Shared, Share], Held], shared: Shared, share: Share, n_threads: int) -> None:
        self._n_threads = n_threads
        with threads.limited(n_threads), threads.one_pool():
            self._held = make(shared, share)

    def call(self, method: Callable[Concatenate[Held, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        with threads.limited(self._n_threads), threads.one_pool():
            return method(self._held, *args, **kwargs)


def resolve(engine: Engine | Client | str) -> Engine:
    """The engine that is meant by a name, a Dask client or an engine."""
    if engine == "threads":
        return Threads()
    if isinstance(engine, str):
        raise ValueError(f"engine must be 'threads', a Dask client or one of sdpmetric.engines, got {engine!r}.")
    if hasattr(engine, "place"):
        return engine
    return Dask(engine)
