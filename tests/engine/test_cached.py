"""Cached attributes hold no lock, which Python 3.11's of functools share among all objects of a class."""

import threading

import numpy as np

import sdpmetric as sm


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
