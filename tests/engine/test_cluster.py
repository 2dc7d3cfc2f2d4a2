"""Searches on a Dask cluster of two worker processes: the same pairs and proofs, lost workers, deadlines, bad input."""

import os
import signal
import time
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from instances import assert_sandwich
from sklearn.datasets import make_blobs

import sdpmetric as sm
from sdpmetric.engine.threads import BudgetSpent, deadline, mapped, using
from sdpmetric.lmnn import impostors

distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed")


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, worker_dashboard_address=None
        ) as workers,
        distributed.Client(workers) as connection,
    ):
        yield connection


@pytest.fixture(autouse=True)
def many_blocks(monkeypatch):
    """Blocks of few anchors, which fill the memory that is given to them."""
    small = replace(impostors.OPTIONS, work_at_once=100_000, pairs_at_once=100)
    monkeypatch.setattr(impostors, "OPTIONS", small)


def blobs(n=500, loss="hinge", **options):
    X, y = make_blobs(n, 6, centers=4, cluster_std=3.0, random_state=0)
    return sm.LMNNProblem.from_labels(X, y, 3, 0.5, loss=loss, **options)


def square(shift, number):
    return os.getpid(), shift + number**2


def test_blocks_are_done_by_workers_in_their_order(client):
    with using(client):
        processes, squares = zip(*mapped(square, 1, range(20)), strict=True)
        assert list(mapped(square, 1, [7])) == [(os.getpid(), 50)]
    assert squares == tuple(1 + number**2 for number in range(20))
    assert os.getpid() not in processes
    assert [result for _, result in mapped(square, 1, range(20))] == list(squares)


def fail(data, number):
    raise ArithmeticError("block")


def test_errors_of_a_task_arrive(client):
    with using(client), pytest.raises(ArithmeticError, match="block"):
        list(mapped(fail, None, range(2)))


def sleep(data, number):
    time.sleep(number)


def test_a_wait_ends_with_the_deadline(client):
    with using(client), deadline(time.perf_counter()), pytest.raises(BudgetSpent):
        next(mapped(sleep, None, [1, 1]))


def die_once(marker, number):
    if number == 5 and not os.path.exists(marker):
        open(marker, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


@pytest.mark.filterwarnings("ignore")
def test_tasks_of_a_worker_that_is_killed_are_repeated(client, tmp_path):
    with using(client):
        assert list(mapped(die_once, str(tmp_path / "killed"), range(20))) == list(range(20))


@pytest.mark.parametrize("rows", [np.arange(500), np.arange(0, 500, 3)], ids=["all", "some"])
def test_a_search_on_workers_lists_the_same_pairs(client, rows):
    problem = blobs()
    Z = problem.embed(0.1 * np.eye(6))
    push = problem.push.sampled(rows)
    here = push.candidates(Z)
    with using(client):
        there = push.candidates(Z)
    assert len(here.impostors) > 1000
    assert np.array_equal(here.indptr, there.indptr)
    assert np.array_equal(here.impostors, there.impostors)


STATEMENTS = {
    "hinge": blobs,
    "squared hinge": partial(blobs, loss="squared_hinge"),
    "several metrics": lambda: sm.MultiMetricLMNNProblem.from_labels(
        *make_blobs(300, 4, centers=3, cluster_std=3.0, random_state=0)
    ),
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_solve_on_workers_proves_what_one_here_does(client, name):
    problem = STATEMENTS[name]()
    solution = sm.solve(problem, tol=1e-3, engine=client)
    assert solution.status is sm.Status.OPTIMAL
    assert_sandwich(solution, sm.solve(problem, tol=1e-3))
    with using(client):
        there = problem.certify(solution.components, dual=solution.dual)
    here = problem.certify(solution.components, dual=solution.dual)
    assert there.objective == pytest.approx(here.objective, rel=1e-9)
    assert there.lower_bound == pytest.approx(here.lower_bound, rel=1e-9)


@pytest.mark.filterwarnings("ignore")
def test_a_solve_goes_on_after_a_worker_was_killed(client):
    problem, rows_seen = blobs(), []

    def watch(row):
        rows_seen.append(row.iteration)
        if len(rows_seen) == 1:
            os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)

    solution = sm.solve(problem, tol=1e-3, engine=client, callback=watch)
    assert len(rows_seen) > 1
    assert solution.status is sm.Status.OPTIMAL
    assert_sandwich(solution, sm.solve(problem, tol=1e-3))
