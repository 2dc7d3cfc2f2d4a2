"""The engine of a Dask cluster, on two worker processes: certificates, lost workers, bad input."""

import asyncio
import os
import signal
import time
from concurrent.futures import Future
from dataclasses import replace

import numpy as np
import pytest
from instances import assert_sandwich, rounding
from sklearn.datasets import make_blobs

import sdpmetric as sm
from sdpmetric.adapters import dask as adapter
from sdpmetric.engine import cluster, interface

distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed")
dask = pytest.importorskip("dask", reason="dask is not installed")
da = pytest.importorskip("dask.array", reason="dask.array is not installed")


@pytest.fixture(scope="module")
def workers():
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, worker_dashboard_address=None
    ) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def client(workers):
    with distributed.Client(workers) as connection:
        yield connection


def blobs(n=250, **options):
    X, y = make_blobs(n, 6, centers=4, cluster_std=3.0, random_state=0)
    return sm.LMNNProblem.from_labels(X, y, 3, 0.5, **options)


def test_a_solve_on_workers_is_certified_as_here(client):
    problem = blobs()
    local, distributed_solution = sm.solve(problem), sm.solve(problem, engine=client)
    assert distributed_solution.status is sm.Status.OPTIMAL
    assert_sandwich(distributed_solution, local)
    certificate = problem.certify(distributed_solution.components, dual=distributed_solution.dual)
    assert abs(certificate.objective - distributed_solution.objective) <= rounding(certificate.objective)
    assert abs(certificate.lower_bound - distributed_solution.lower_bound) <= rounding(certificate.lower_bound)


def test_workers_that_go_between_two_looks_at_them_end_no_solve(client, monkeypatch):
    engine = sm.engines.Dask(client)
    listed, looks = engine._listed_workers, iter([True, False])
    monkeypatch.setattr(engine, "_listed_workers", lambda: listed() if next(looks, True) else {})
    assert sm.solve(blobs(), engine=engine).status is sm.Status.OPTIMAL


def test_problems_larger_than_the_memory_of_a_worker_are_refused(client, monkeypatch):
    engine = sm.engines.Dask(client)
    address = next(iter(engine._workers()))
    monkeypatch.setattr(engine, "_workers", lambda *_: {address: (1, 1000)})
    with pytest.raises(MemoryError, match="start workers with more memory"):
        sm.solve(blobs(), engine=engine)


def test_a_client_without_workers_is_refused():
    with (
        distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=None) as nobody,
        distributed.Client(nobody) as client,
        pytest.raises(ValueError, match="has no workers"),
    ):
        sm.solve(blobs(), engine=client)


def chunk(number, client):
    """Rows that are made on a worker."""
    assert os.getpid() != client
    rng = np.random.default_rng(number)
    return rng.normal(size=(100, 60)) + 0.5 * np.eye(4, 60)[np.arange(100) % 4]


def test_rows_of_a_dask_array_never_come_to_the_client(client, monkeypatch):
    came, gather = [], distributed.Client._gather

    async def watched(self, *args, **kwargs):
        came.append(await gather(self, *args, **kwargs))
        return came[-1]

    monkeypatch.setattr(distributed.Client, "_gather", watched)
    made = [dask.delayed(chunk)(number, os.getpid()) for number in range(8)]
    rows, labels = da.concatenate([da.from_delayed(block, (100, 60), float) for block in made]), np.arange(800) % 4
    solution = adapter.solve(client, sm.LMNNProblem.from_labels, rows, da.from_array(labels), tol=0.1)
    assert len(came) == 1
    assert came[0][0] is solution  # and nothing else was gathered
    assert solution.problem is None
    problem = sm.LMNNProblem.from_labels(np.concatenate([chunk(number, 0) for number in range(8)]), labels)
    certificate = problem.certify(solution.components, dual=solution.dual)
    assert certificate.proves_optimal(0.1)
    assert abs(certificate.objective - solution.objective) <= rounding(certificate.objective)


def test_a_limit_on_time_counts_from_the_call_on(client, monkeypatch):
    with pytest.raises(TimeoutError, match=r"max_time=0\.1"):
        adapter.solve(client, sm.LMNNProblem.from_labels, dask.delayed(time.sleep)(2), None, max_time=0.1)

    def slow(X, y):
        time.sleep(0.2)
        return sm.LMNNProblem.from_labels(X, y)

    def record_limit(problem, engine, max_time):
        return replace(sm.solve(problem, max_iter=1), seconds=max_time)

    monkeypatch.setattr(adapter.run, "solve", record_limit)
    X, y = make_blobs(60, 3, random_state=0)[:2]
    assert adapter.solve(client, slow, X, y, max_time=1e4).seconds < 1e4 - 0.1
    assert adapter.solve(client, slow, X, y).seconds is None


def test_what_a_worker_refuses_reaches_the_client(client):
    with pytest.raises(ValueError, match="classes"):
        adapter.solve(client, sm.LMNNProblem.from_labels, da.zeros((10, 2)), np.zeros(10))


@pytest.mark.filterwarnings("ignore")
def test_a_solve_goes_on_after_a_worker_was_killed(client, monkeypatch):
    monkeypatch.setattr(cluster, "LOOK", 0.2)
    rows_seen = []

    def watch(row):
        rows_seen.append(row.iteration)
        if len(rows_seen) == 3:
            pid = next(iter(client.run(os.getpid).values()))
            os.kill(pid, signal.SIGKILL)

    solution = sm.solve(blobs(), tol=1e-3, engine=client, callback=watch)
    assert len(rows_seen) > 3
    assert solution.status is sm.Status.OPTIMAL


def test_every_wait_ends_with_the_deadline(client):
    engine = sm.engines.Dask(client)
    with interface.deadline(time.perf_counter() - 1.0):
        for never in (Future(), asyncio.run_coroutine_threadsafe(asyncio.sleep(600), client.loop.asyncio_loop)):
            with pytest.raises(interface.BudgetSpent):
                engine.wait(never, [])
        with pytest.raises(interface.BudgetSpent):
            engine.place(make_nothing, blobs(), 0)
    assert never.cancel()


def make_nothing(shared, share):
    """A shard that is never made."""


def test_a_scheduler_that_does_not_answer_ends_a_solve_at_its_limit(client, monkeypatch):
    async def frozen(**_):
        await asyncio.sleep(3600.0)

    problem = blobs()
    sm.solve(problem)
    monkeypatch.setattr(client.scheduler, "identity", frozen)
    began = time.perf_counter()
    solution = sm.solve(problem, engine=client, max_time=2.0)
    assert time.perf_counter() - began < 1.2 * 2.0 + 1.0
    assert solution.status is sm.Status.USER_LIMIT
    assert np.isfinite(solution.objective)
