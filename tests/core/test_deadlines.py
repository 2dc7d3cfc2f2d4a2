"""Limits on time without timing: a clock that jumps beyond the limit, and how often it is read after that."""

from __future__ import annotations

import time

import numpy as np
import pytest
from test_contract import EXAMPLES, make

import sdpmetric as sm
from sdpmetric.engine import deadline, threads

LIMIT = 1000.0
# Readings before the clock jumps, and how many may come after that: compiled loops read it when they begin.
JUMPS, READINGS = (2, 40), 120


class Clock:
    """The time stands still, and is far beyond the limit from the k-th reading on."""

    def __init__(self, jump: int) -> None:
        self.readings, self.jump = 0, jump

    def __call__(self) -> float:
        self.readings += 1
        return 0.0 if self.readings <= self.jump else 10.0 * LIMIT


@pytest.mark.parametrize(("name", "solver"), EXAMPLES)
def test_every_solver_ends_soon_after_its_limit(name, solver, monkeypatch):
    for jump in JUMPS:
        problem, clock = make(name), Clock(jump)
        with monkeypatch.context() as patch:
            patch.setattr(time, "perf_counter", clock)
            solution = sm.solve(problem, solver, tol=1e-12, max_time=LIMIT)
        assert clock.readings - jump <= READINGS, f"{clock.readings - jump} readings after the limit, jump {jump}"
        assert not np.isnan(solution.objective)


def test_of_several_items_the_first_is_always_taken():
    with deadline.deadline(time.perf_counter() - 1.0):
        assert list(deadline.in_time([1, 2, 3])) == [1]
    assert list(deadline.in_time([1, 2, 3])) == [1, 2, 3]
    assert list(deadline.in_time([])) == []


def test_compiled_loops_end_after_the_last_moment_only():
    now, done = time.perf_counter(), []
    with deadline.deadline(now - 1.0, now + 1000.0):
        threads.run(done.append, 2)
    with deadline.deadline(now - 1.0, now - 1.0), pytest.raises(deadline.BudgetSpent):
        threads.run(done.append, 2)
    assert sorted(done) == [0, 1]
