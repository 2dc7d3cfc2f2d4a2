"""MCML: objective and gradient by loops, weak duality of any distributions, free directions, bad input."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from instances import assert_same, rounding

import sdpmetric as sm

Y = np.array([0, 0, 0, 1, 1, 1, 1, 2, 2])


def make(seed=0, d=3):
    X = np.random.default_rng(seed).normal(size=(9, d)) * np.array([1.0, 10.0, 0.3])[:d]
    return sm.MCMLProblem.from_labels(X, Y)


def loop_objective(X, y, M):
    total = 0.0
    for i in range(len(X)):
        others = [j for j in range(len(X)) if j != i]
        D = {j: float((X[i] - X[j]) @ M @ (X[i] - X[j])) for j in others}
        Z = sum(math.exp(-D[j]) for j in others)
        mates = [j for j in others if y[j] == y[i]]
        for j in mates:
            p0, p = 1 / len(mates), math.exp(-D[j]) / Z
            total += p0 * math.log(p0 / p)
    return total


def test_objective_is_that_of_loops_and_of_any_scale(rng):
    problem = make()
    for scale in (0.0, 0.01, 0.3):
        L = scale * rng.normal(size=(2, 3))
        assert_same(problem.objective(L), loop_objective(problem.X, Y, L.T @ L))
    assert np.isfinite(problem.objective(1e3 * np.eye(3)))  # where exponentials underflow


@given(st.integers(0, 10_000), st.floats(-3, 3))
def test_weak_duality_for_any_metric_and_any_distributions(seed, decades):
    rng = np.random.default_rng(seed)
    problem = make(seed % 5)
    near = problem.distribution(10.0**decades * rng.normal(size=(2, 3)))
    q = near + (rng.random() < 0.5) * rng.exponential(0.1, (9, 9)) - (rng.random() < 0.3) * 0.05
    certificate = problem.certify(rng.normal(size=(rng.integers(1, 4), 3)), dual=q)
    best = sm.solve(problem).objective
    assert 0.0 <= certificate.lower_bound <= best + rounding(best)
    assert certificate.lower_bound <= certificate.objective + rounding(certificate.objective)


def test_the_bound_of_feasible_distributions_is_their_entropy():
    """Distributions of the solved problem are nearly feasible: nothing is lost in their repair."""
    problem = make()
    solution = sm.solve(problem, solver="conic")
    q = solution.dual
    value = -sum(p * math.log(p) for p in q.ravel() if p > 0) - sum(math.log(np.sum(c == Y) - 1) for c in Y)
    assert value == pytest.approx(solution.lower_bound, rel=1e-6)
    S = np.zeros((3, 3))
    for i in range(9):
        for j in range(9):
            v = problem.X[i] - problem.X[j]
            S += (problem.ideal[i, j] - q[i, j]) * np.outer(v, v)
    assert np.linalg.eigvalsh(S)[0] > -1e-5
    assert abs(np.sum(S * solution.metric)) < 1e-5


@pytest.mark.parametrize("scale", [0.3, 0.9, 0.999, 1.1])
def test_repaired_distributions_are_feasible_and_prove_their_entropy(scale):
    """At metrics short of the optimum the candidate is outside the cone; what is claimed is of one inside."""
    problem = make(1)
    L = np.sqrt(scale) * sm.solve(problem).components
    proven = problem.prove(L, problem.distribution(L))
    q = problem.state_dual(proven.multipliers)
    assert (proven.residual > 1e-6) == (scale < 1)
    assert q.sum(axis=1) == pytest.approx(1.0)
    S = np.zeros((3, 3))
    for i in range(9):
        for j in range(9):
            v = problem.X[i] - problem.X[j]
            S += (problem.ideal[i, j] - q[i, j]) * np.outer(v, v)
    assert np.linalg.eigvalsh(S)[0] >= -1e-12 * np.abs(S).max()
    entropy = -sum(p * math.log(p) for p in q.ravel() if p > 0) - sum(math.log(np.sum(c == Y) - 1) for c in Y)
    assert_same(proven.value, entropy)
    assert proven.value > 0


@pytest.mark.parametrize("kind", ["line", "duplicates", "constant"])
@pytest.mark.parametrize("solver", ["factored", "conic"])
def test_hard_kinds(kind, solver):
    X = make(2, 1 if kind == "line" else 3).X.copy()
    if kind == "duplicates":
        X[0] = X[4]
        X[1] = X[2]
    elif kind == "constant":
        X[:, 2] = 7.0
    assert sm.solve(sm.MCMLProblem(X, Y), solver=solver).status is sm.Status.OPTIMAL


def test_a_direction_that_parts_classes_at_no_cost_is_used_up():
    """Class 2 has a value of its own in the last feature: the infimum is that of each side alone."""
    base = make(3)
    X = np.concatenate([base.X, (Y == 2)[:, None] * 0.01], axis=1)
    problem = sm.MCMLProblem(X, Y)
    alone = sm.MCMLProblem(base.X[Y != 2], Y[Y != 2])  # the two members of class 2 have only each other
    for solver in ("factored", "conic"):
        solution = sm.solve(problem, solver=solver)
        assert solution.status is sm.Status.OPTIMAL
        assert solution.certificate.null_dimension == 1
    # Members of class 2 still cost their pull, so that the two optima bound each other from one side.
    assert solution.objective >= sm.solve(alone).lower_bound - 1e-6
    assert solution.objective < sm.solve(base).objective


@pytest.mark.parametrize("solver", ["factored", "conic"])
def test_equal_examples_leave_nothing_to_learn(solver):
    solution = sm.solve(sm.MCMLProblem.from_labels(np.ones((6, 2)), [0, 0, 0, 1, 1, 1]), solver=solver)
    assert solution.status is sm.Status.OPTIMAL


def test_classes_that_collapse_altogether_are_solved():
    """The infimum is 0 and is not attained: an objective far below what an example costs counts as 0."""
    X = np.array([[1.0, 3.0], [1.0, 3.0], [2.0, 4.0], [2.0, 4.0]])
    problem = sm.MCMLProblem(X, [0, 0, 1, 1])
    solution = sm.solve(problem, tol=1e-3)
    assert solution.status is sm.Status.OPTIMAL
    assert 0.0 < solution.objective <= solution.certificate.resolution <= 1e-9
    assert solution.lower_bound == 0.0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda X: sm.MCMLProblem(X, [0] * 8 + [1]), "class 1 has one member;"),
        (lambda X: sm.MCMLProblem(X, [0] * 9), "one class only"),
        (lambda X: sm.MCMLProblem(X * np.nan, Y), "NaN"),
        (lambda X: sm.MCMLProblem(X, Y[:-1]), "8 labels for 9 rows"),
        (lambda X: sm.MCMLProblem(X, Y).certify(np.eye(3), dual=np.ones(9)), r"finite \(9, 9\) array"),
    ],
)
def test_bad_input_gets_a_sentence(call, words):
    with pytest.raises(ValueError, match=words):
        call(make().X)


def test_programs_that_no_solver_could_hold_are_refused():
    rng = np.random.default_rng(0)
    problem = sm.MCMLProblem(rng.normal(size=(500, 2)), rng.integers(0, 2, 500))
    with pytest.raises(ValueError, match="exponential cones"):
        sm.to_cvxpy(problem)


def test_a_class_of_one_member_is_refused_by_name():
    with pytest.raises(ValueError, match=r"class 'b' has one member;.* merge or drop"):
        sm.MCMLProblem(np.eye(3), ["a", "a", "b"])
