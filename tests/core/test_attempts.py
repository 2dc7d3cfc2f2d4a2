"""Solvers that "auto" tries one after another: the next one where one stalls, from the point and multipliers so far."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

import sdpmetric as sm
from sdpmetric.core.registry import Solver
from sdpmetric.core.run import Attempts, Run
from sdpmetric.core.steps import Budget, Step

X, Y = load_iris(return_X_y=True)
PROBLEM = sm.LMNNProblem.from_labels(X, Y)
OPTIMUM = sm.solve(PROBLEM, tol=1e-4)


def stalls(problem, budget, tol):
    yield Step.certified(problem, np.eye(4))


def fails(problem, budget, tol):
    yield Step.certified(problem, np.eye(4))
    raise FloatingPointError


def closes(problem, budget, tol, *, init=None, multipliers=None):
    assert np.array_equal(init, np.eye(4))
    yield Step.certified(problem, OPTIMUM.components, OPTIMUM.dual)


def entry(steps, *options: str) -> Solver:
    return Solver(steps.__name__, steps, 1e-3, frozenset(options))


def solved(*solvers: Solver, tol: float = 1e-3) -> tuple[sm.Solution, str]:
    run = Run(PROBLEM, Budget(), tol)
    attempts = Attempts(run, solvers, {})
    return run.over(attempts), attempts.solver.name


@pytest.mark.parametrize("first", [stalls, fails])
def test_the_next_solver_goes_on_from_the_best_point(first):
    solution, name = solved(entry(first), entry(closes, "init", "multipliers"))
    assert solution.status is sm.Status.OPTIMAL
    assert name == "closes"


def test_no_other_solver_runs_once_the_tolerance_is_proven():
    last = Solver(
        "closes", lambda *_: iter([Step.certified(PROBLEM, OPTIMUM.components, OPTIMUM.dual)]), 1e-3, frozenset()
    )
    solution, name = solved(last, entry(fails))
    assert (solution.status, name) == (sm.Status.OPTIMAL, "closes")


def test_a_solve_that_no_solver_closes_is_stalled():
    for last in (stalls, fails):  # a failure of a later solver says nothing about the point of an earlier one
        solution, _ = solved(entry(stalls), entry(last))
        assert solution.status is sm.Status.STALLED
        assert solution.objective == pytest.approx(PROBLEM.objective(np.eye(4)), rel=1e-12)
