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


def test_a_late_certificate_of_the_zero_metric_needs_no_coordinates():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 4)), np.repeat([0, 1], 10)
    for make_one in (sm.LMNNProblem.from_labels, sm.KernelLMNNProblem.from_labels):
        for loss in ("hinge", "squared_hinge"):
            problem = make_one(X, y, 2, 0.3, ridge=0.1, loss=loss)
            with deadline.hurried():
                late = problem.certify(problem.zero)
            assert "pull_cost" not in vars(problem) or "coordinates" not in vars(problem.pull_cost)
            exact = problem.push_weight * problem.source.size
            assert late.objective >= exact
            assert late.objective == pytest.approx(exact, rel=1e-12)
            assert late.lower_bound == 0.0 < problem.certify(problem.zero).lower_bound
            assert late.program == problem.certify(problem.zero).program


def test_work_that_no_certificate_needs_ends_after_the_limit():
    X, y = np.random.default_rng(0).normal(size=(12, 3)), np.repeat([0, 1], 6)
    with deadline.deadline(time.perf_counter() - 1.0):
        with pytest.raises(deadline.BudgetSpent):
            _ = sm.MCMLProblem(X, y).moderate
        with pytest.raises(deadline.BudgetSpent):
            _ = sm.LMNNProblem.from_labels(X, y, 2).coordinates
