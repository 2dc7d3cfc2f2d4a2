"""The pool of threads, the same bits with any number of them, and preparations that wait for no other object's."""

import multiprocessing
import os
import threading
import time
from itertools import pairwise

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from threadpoolctl import threadpool_limits

import sdpmetric as sm
from sdpmetric.classification import energies
from sdpmetric.engine import threads
from sdpmetric.engine.lazy import Loop


def test_several_threads_take_part_and_no_more_than_allowed():
    def sleep(task, used):
        used.add(threading.get_ident())
        time.sleep(0.02)

    for limit, worth, expected in [(2, None, 2), (2, 1, 1), (1, None, 1)]:
        used: set[int] = set()
        with threads.limited(limit):
            threads.run(lambda task, used=used: sleep(task, used), 10, worth)
        assert 1 <= len(used) <= expected
        assert threading.get_ident() in used
    with pytest.raises(ValueError, match="n_threads"), threads.limited(0):
        pass


def test_a_thread_that_is_late_is_not_waited_for():
    """All of the pool's threads are busy with something else: the caller does everything by itself."""
    finished = threading.Event()
    size = threads._pool(os.getpid())._max_workers
    busy = [threads._pool(os.getpid()).submit(finished.wait, 10) for _ in range(size)]
    calls = []
    try:
        with threads.limited(4):
            threads.run(calls.append, 10)
        waited = any(future.done() for future in busy)
    finally:
        finished.set()
    assert calls == list(range(10))
    assert not waited
    assert all(future.result() for future in busy)


@pytest.mark.parametrize("n_threads", [1, 3])
def test_errors_arrive_from_whichever_thread(n_threads):
    def fail(task):
        time.sleep(0.002)
        if task == 5:
            raise ArithmeticError("task 5")

    with threads.limited(n_threads), pytest.raises(ArithmeticError, match="task 5"):
        threads.run(fail, 30)
    for n_tasks in (0, 1, 100):
        calls = []
        threads.run(calls.append, n_tasks)
        assert sorted(calls) == list(range(n_tasks))


@threads.in_parts(lambda X, seen: threads.of_equal_items(len(X), 1))
def total_and_count(run, X, seen):
    seen.append(run)
    return sum(X[run[0] : run[1]]), run[1] - run[0]


@threads.in_parts(lambda X: threads.of_equal_items(len(X), 1), accumulates=True)
def shifted(run, X, out):
    out[:] = 0.0
    out[run[0] : run[1]] = X[run[0] : run[1]] + 1.0


@pytest.mark.parametrize("n", [0, 1, 10, 1000])
def test_a_loop_in_parts_goes_over_all_items_once(n, monkeypatch):
    monkeypatch.setattr(threads, "LOOP_WORK", 10)
    X, seen = np.arange(float(n)), []
    with threads.limited(3):
        assert total_and_count(X, seen) == (X.sum(), n)
        nothing, arrays = shifted(X)
    assert nothing is None
    assert len(arrays) == min(max(n // 10, 1), threads.ACCUMULATORS)
    assert np.array_equal(arrays.sum(axis=0), X + 1.0)
    assert len(seen) == min(max(n // 10, 1), threads.MOST_PARTS)
    assert sorted(seen)[0][0] == 0
    assert all(before[1] == after[0] for before, after in pairwise(sorted(seen)))


def _meet(pipe):
    """Two tasks that wait for each other: one thread alone cannot do both."""
    barrier = threading.Barrier(2, timeout=10)
    with threads.limited(2):
        threads.run(lambda task: barrier.wait(), 2)
    pipe.send("met")


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_has_threads_of_its_own():
    with threads.limited(2):
        threads.run(lambda task: time.sleep(0.01), 4)
    fork = multiprocessing.get_context("fork")
    receiver, sender = fork.Pipe()
    child = fork.Process(target=_meet, args=(sender,), daemon=True)
    child.start()
    assert receiver.poll(20), "the child got nothing done"
    assert receiver.recv() == "met"
    child.join()


def pool_threads(kind):
    """Of the libraries that were there when the package first looked; others, as a test may import, are not its own."""
    return {library["num_threads"] for library in threads._libraries().info() if library["user_api"] == kind}


def test_blas_is_held_to_one_thread_as_long_as_anybody_needs_it():
    with threadpool_limits(limits=2, user_api="blas"):
        before = pool_threads("blas")
        first, second = threads.one_pool(), threads.one_pool()
        first.__enter__()
        second.__enter__()
        assert pool_threads("blas") == {1}
        first.__exit__(None, None, None)  # in another order than they began
        assert pool_threads("blas") == {1}
        second.__exit__(None, None, None)
        assert pool_threads("blas") == before


def data(n=900, d=12):
    X, y = make_blobs(n, d, centers=5, cluster_std=4.0, random_state=0)
    return X, y


STATEMENTS = {
    "subgradient": lambda X, y: sm.LMNNProblem.from_labels(X[:400], y[:400], 3, 0.5),
    "single precision": lambda X, y: sm.LMNNProblem.from_labels(X.astype(np.float32), y, 3, 0.5),
    "several": lambda X, y: sm.MultiMetricLMNNProblem.from_labels(X, y, 3, 0.5),
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_results_are_the_same_bits_with_any_number_of_threads(name, monkeypatch):
    """Threads of the pool and of BLAS, on data that are cut into parts: otherwise there would be nothing to see."""
    monkeypatch.setattr(threads, "LOOP_WORK", 2_000)
    monkeypatch.setattr(threads, "PRODUCT_WORK", 20_000)
    X, y = data()
    results = []
    for n_threads, blas in ((1, 1), (2, 2), (3, 1)):
        with threads.limited(n_threads), threadpool_limits(limits=blas, user_api="blas"):
            solver, energy = ("subgradient" if name == "subgradient" else "auto"), b""
            solution = sm.solve(STATEMENTS[name](X, y), solver, tol=1e-2, max_iter=150)
            if name == "subgradient":
                targets = solution.problem.source.targets
                energy = energies(solution.components, X[:400], y[:400], X + 0.1, target_neighbors=targets).tobytes()
        results.append(
            (solution.components.tobytes(), solution.objective, solution.lower_bound, solution.n_iter, energy)
        )
    assert results[0] == results[1] == results[2]


def test_a_solve_does_not_wait_for_the_preparation_of_another_problem(monkeypatch) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), np.arange(40) % 2
    slow, quick = (sm.LMNNProblem.from_labels(X + shift, y) for shift in (1.0, 2.0))
    sm.solve(sm.LMNNProblem.from_labels(X, y))  # loops are compiled
    compute = sm.LMNNProblem.pull_costs.compute
    begun, go_on = threading.Event(), threading.Event()

    def pull_costs(problem):
        if problem is slow:
            begun.set()
            go_on.wait(30)
        return compute(problem)

    monkeypatch.setattr(sm.LMNNProblem.pull_costs, "compute", pull_costs)
    thread = threading.Thread(target=sm.solve, args=(slow,))
    thread.start()
    assert begun.wait(10)
    solution = sm.solve(quick, max_time=5.0)
    go_on.set()
    thread.join()
    assert solution.status is sm.Status.OPTIMAL


def test_loops_work_where_no_folder_can_keep_them(monkeypatch):
    """Of a user without a writable home, in an environment of another one, numba finds no place for its cache."""

    def no_place(self, function):
        raise RuntimeError("cannot cache function: no locator available")

    monkeypatch.setattr("numba.core.caching.FunctionCache.__init__", no_place)
    assert Loop(abs_of_each, {})(np.array([-1.0, 2.0])) == 3.0


def abs_of_each(numbers):
    total = 0.0
    for number in numbers:
        total += abs(number)
    return total
