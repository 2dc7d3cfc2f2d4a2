"""The engine of a Dask cluster: shards are actors on its workers, and only arguments and results travel."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import TYPE_CHECKING, Concatenate, Generic
from weakref import WeakKeyDictionary

from sdpmetric.engine import threads
from sdpmetric.engine.interface import (
    Held,
    Loops,
    P,
    Part,
    R,
    ShardLost,
    Shards,
    Shared,
    TooLittleMemory,
    parts_of,
)

if TYPE_CHECKING:
    from distributed import Client, Future
    from distributed.actor import Actor

# Seconds after which a worker that does not answer is looked for.
LOOK = 2.0


class Dask:
    """Shards on the workers of a Dask cluster, one for each worker, as large as its number of threads is.

    Parameters
    ----------
    client : dask.distributed.Client

    Raises
    ------
    ImportError
        If dask.distributed is not installed.
    TypeError
        If it is not a client.
    ValueError
        If the client has no workers.

    Examples
    --------
    >>> from dask.distributed import Client  # doctest: +SKIP
    >>> sm.solve(problem, engine=Client("tcp://scheduler:8786"))  # doctest: +SKIP
    """

    local: bool = False
    loops: Loops | None = None

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
        self._workers()

    def _workers(self) -> dict[str, tuple[int, int]]:
        """Threads and bytes of memory, 0 for no limit, of each worker by its address."""
        found = self.client.scheduler_info(n_workers=-1)["workers"]
        if not found:
            raise ValueError(
                "the Dask client has no workers; start some, or wait for them with client.wait_for_workers(1)."
            )
        return {address: (int(info["nthreads"]), int(info["memory_limit"])) for address, info in found.items()}

    def workers_for(self, size: int) -> dict[str, int]:
        """Threads of each worker by its address.

        Raises
        ------
        TooLittleMemory
            If one of them cannot hold so many bytes.
        """
        workers = self._workers()
        for address, (_, memory) in workers.items():
            if memory and size > memory:
                raise TooLittleMemory(
                    f"a shard needs about {size / 2**30:.3g} GiB, and worker {address} has {memory / 2**30:.3g} GiB; "
                    "start workers with more memory, or reduce the rows or the features."
                )
        return {address: n for address, (n, _) in workers.items()}

    def place(self, make: Callable[[Shared, Part], Held], shared: Shared, size: int) -> Shards[Held]:
        """See `Engine.place`."""
        workers = self.workers_for(size)
        if shared not in self._sent or self._sent[shared].status != "finished":
            self._sent[shared] = self.client.scatter(shared, broadcast=True, hash=False)
        parts = parts_of(list(workers.values()))
        actors = {
            address: self.client.submit(
                _Holder, make, self._sent[shared], part, n, actor=True, pure=False, workers=[address]
            )
            for (address, n), part in zip(workers.items(), parts, strict=True)
        }
        return _Actors(self, {address: self._wait(future, address) for address, future in actors.items()})

    def _wait(self, future: Future, address: str) -> Actor:
        """The result of a future that belongs to one worker."""
        while True:
            try:
                return future.result(timeout=LOOK)
            except TimeoutError:
                self.look_for(address)
            except CancelledError as error:  # its inputs were lost with a worker
                raise ShardLost(str(error)) from error

    def look_for(self, address: str) -> None:
        """Raise `ShardLost` where a worker is not there any more."""
        if address not in self.client.scheduler_info(n_workers=-1)["workers"]:
            raise ShardLost(f"worker {address} has gone.")


@dataclass
class _Actors(Generic[Held]):
    """Shards on workers; see `Shards`."""

    engine: Dask
    actors: dict[str, Actor]

    def each(self, method: Callable[Concatenate[Held, P], R], *args: P.args, **kwargs: P.kwargs) -> list[R]:
        """See `Shards.each`."""
        results: list[R] = []
        try:
            futures = {address: actor.call(method, *args, **kwargs) for address, actor in self.actors.items()}
        except RuntimeError as error:  # Dask knows already
            raise ShardLost(str(error)) from error
        for address, future in futures.items():
            while True:
                try:
                    results.append(future.result(timeout=LOOK))
                    break
                except TimeoutError:
                    self.engine.look_for(address)
                except (OSError, CancelledError) as error:
                    raise ShardLost(f"worker {address} has gone.") from error
        return results


class _Holder(Generic[Held]):
    """What a worker holds: one shard, whose loops run on as many threads as the worker has."""

    def __init__(self, make: Callable[[Shared, Part], Held], shared: Shared, part: Part, n_threads: int) -> None:
        self._n_threads = n_threads
        with threads.limited(n_threads), threads.one_pool():
            self._held = make(shared, part)

    def call(self, method: Callable[Concatenate[Held, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a method of the shard."""
        with threads.limited(self._n_threads), threads.one_pool():
            return method(self._held, *args, **kwargs)
