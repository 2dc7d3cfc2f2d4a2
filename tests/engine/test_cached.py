"""Cached attributes hold no lock, which Python 3.11's of functools share among all objects of a class."""

import os
import threading

import numpy as np
import pytest

import sdpmetric as sm
from sdpmetric.engine.cached import cached

BEGUN, GO_ON = threading.Event(), threading.Event()


class Preparation:
    def __init__(self, slow: bool) -> None:
        self.slow, self.calls = slow, 0

    @cached
    def value(self) -> object:
        """What takes long for one object."""
        self.calls += 1
        if self.slow:
            BEGUN.set()
            GO_ON.wait(30)
        return object()


@pytest.fixture
def preparing():
    BEGUN.clear()
    GO_ON.clear()
    thread = threading.Thread(target=lambda: Preparation(slow=True).value)
    thread.start()
    BEGUN.wait(30)
    yield
    GO_ON.set()
    thread.join()


def test_a_thread_does_not_wait_for_the_same_attribute_of_another_object(preparing) -> None:
    answered = threading.Event()
    threading.Thread(target=lambda: (Preparation(slow=False).value, answered.set()), daemon=True).start()
    assert answered.wait(5)


def test_a_child_forked_during_a_preparation_computes_its_own(preparing) -> None:
    child = os.fork()
    if child == 0:
        os._exit(7 if Preparation(slow=False).value is not None else 1)
    deadline = threading.Timer(10, os.kill, (child, 9))
    deadline.start()
    _, status = os.waitpid(child, 0)
    deadline.cancel()
    assert os.waitstatus_to_exitcode(status) == 7


def test_a_value_is_computed_once_and_has_the_docstring_of_its_method() -> None:
    preparation = Preparation(slow=False)
    assert preparation.value is preparation.value
    assert preparation.calls == 1
    assert Preparation.value.__doc__ == "What takes long for one object."


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


def test_an_attribute_of_a_subclass_may_read_that_of_its_base_class():
    class Base:
        @cached
        def size(self):
            return 3

    class Doubled(Base):
        @cached
        def size(self):
            return 2 * super().size

    doubled = Doubled()
    assert (doubled.size, doubled.size, Base().size) == (6, 6, 3)
