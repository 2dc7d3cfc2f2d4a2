"""Solve on a Dask cluster a problem whose rows are made there, and never come to the client."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, cast

from sdpmetric.core import run
from sdpmetric.core.problem import Problem
from sdpmetric.core.solution import Solution
from sdpmetric.core.steps import Budget
from sdpmetric.engine import Dask, threads
from sdpmetric.engine.interface import BudgetSpent, deadline

if TYPE_CHECKING:
    from distributed import Client


def solve(
    client: Client,
    state: Callable[..., Problem],
    *data: object,
    max_time: float | None = None,
    **options: object,
) -> Solution:
    """State and solve a problem on the workers of a Dask cluster.

    One worker puts the data together, states the problem and lets all workers take part in its solution.

    Parameters
    ----------
    client : dask.distributed.Client
    state : callable
        Makes the problem of the data, as `LMNNProblem.from_labels` does, or a `functools.partial` of it.
    *data : Dask arrays, data frames or series, or ordinary arrays
        Arguments of `state`: rows and labels.
    max_time : float, optional
        Seconds from the call on, also those in which the data are made and the problem is stated; default no limit.
        Clocks of the workers' machines should agree with this one.
    **options
        Of `sdpmetric.solve`, besides `engine`.

    Returns
    -------
    Solution
        Without its problem, whose rows stay on the workers.

    Raises
    ------
    MemoryError
        If the data do not fit into the memory of every worker, or a shard of the problem does not.
    TimeoutError
        If there is no solution after 1.2 times `max_time` and a second, as data or statement take longer.

    Examples
    --------
    >>> rows, labels = dask.array.from_zarr("rows.zarr"), dask.array.from_zarr("labels.zarr")  # doctest: +SKIP
    >>> solve(client, sm.LMNNProblem.from_labels, rows, labels, tol=1e-2)  # doctest: +SKIP
    """
    sizes = [getattr(block, "nbytes", None) for block in data]
    block_sizes = [int(size) for size in sizes if isinstance(size, int | float) and math.isfinite(size)]
    limit, future = Budget(max_time).max_time, None
    try:
        with deadline(time.perf_counter() + 1.2 * limit + 1.0):
            engine = Dask(client)
            engine.workers_for(2 * sum(block_sizes))  # the chunks and what is made of them
            how = partial(cast(Callable[..., Solution], run.solve), **options)
            future = client.submit(_solve, state, how, time.time() + limit, *client.compute(list(data)), pure=False)
            return cast(Solution, engine.wait(future))
    except BudgetSpent:
        if future is not None:
            future.cancel()
        raise TimeoutError(
            f"there is no solution after max_time={max_time:g} seconds, since loading the data or stating the problem "
            "took longer, or the scheduler does not answer; raise max_time, or pass fewer rows."
        ) from None


def _solve(state: Callable[..., Problem], solve: Callable[..., Solution], deadline: float, *data: object) -> Solution:
    """Run on a worker, which takes no part as such meanwhile, so its thread is free for a shard."""
    from distributed import get_worker, worker_client

    with threads.limited(get_worker().state.nthreads), worker_client() as client:
        problem = state(*data)
        # A positive limit, in which a solve at least certifies a point.
        limit = None if deadline == math.inf else max(deadline - time.time(), 1e-3)
        solution = solve(problem, engine=Dask(client), max_time=limit)
    return replace(solution, problem=None)
