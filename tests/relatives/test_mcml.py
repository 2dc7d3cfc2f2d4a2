"""MCML: free directions, classes that collapse, bad input."""

import numpy as np
import pytest

import sdpmetric as sm

Y = np.array([0, 0, 0, 1, 1, 1, 1, 2, 2])


def make(seed=0, d=3):
    X = np.random.default_rng(seed).normal(size=(9, d)) * np.array([1.0, 10.0, 0.3])[:d]
    return sm.MCMLProblem.from_labels(X, Y)


def test_a_direction_that_parts_classes_at_no_cost_is_used_up():
    """Class 2 has a value of its own in the last feature: the infimum is that of each side alone."""
    base = make(3)
    X = np.concatenate([base.X, (Y == 2)[:, None] * 0.01], axis=1)
    problem = sm.MCMLProblem(X, Y)
    without_class = sm.MCMLProblem(base.X[Y != 2], Y[Y != 2])  # the two members of class 2 have only each other
    for solver in ("factored", "conic"):
        solution = sm.solve(problem, solver=solver)
        assert solution.status is sm.Status.OPTIMAL
        assert solution.certificate.info["null_dimension"] == 1
    # Members of class 2 still cost their pull, so that the two optima bound each other from one side.
    assert solution.objective >= sm.solve(without_class).lower_bound - 1e-6
    assert solution.objective < sm.solve(base).objective


def test_classes_that_collapse_altogether_are_solved():
    """The infimum is 0 and is not attained: an objective far below what an example costs counts as 0."""
    X = np.array([[1.0, 3.0], [1.0, 3.0], [2.0, 4.0], [2.0, 4.0]])
    problem = sm.MCMLProblem(X, [0, 0, 1, 1])
    solution = sm.solve(problem, tol=1e-3)
    assert solution.status is sm.Status.OPTIMAL
    assert 0.0 < solution.objective <= solution.certificate.resolution <= 1e-9
    assert solution.lower_bound == 0.0


def test_programs_that_no_solver_could_hold_are_refused():
    rng = np.random.default_rng(0)
    problem = sm.MCMLProblem(rng.normal(size=(500, 2)), rng.integers(0, 2, 500))
    with pytest.raises(ValueError, match="exponential cones"):
        sm.to_cvxpy(problem)
