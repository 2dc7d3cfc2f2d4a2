"""ITML with slack: objective by loops, weak duality of any multipliers, the paper's projections, bad input."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from instances import assert_same, rounding

import sdpmetric as sm

PAIRS = np.array([[0, 1], [2, 3], [4, 5], [0, 6], [1, 7], [2, 5], [6, 7], [3, 8], [8, 3]])
SIMILAR = np.array([1, 1, 1, -1, -1, -1, 1, -1, -1])
PRIOR = np.array([[1.0, 0.2, 0.0], [0.2, 0.05, 0.0], [0.0, 0.0, 3.0]])


def make(seed=0, gamma=0.3, **options):
    X = np.random.default_rng(seed).normal(size=(9, 3)) * [1.0, 10.0, 0.3]
    bounds = {"upper": 1.0, "lower": 7.0, "prior": PRIOR} | options
    return sm.ITMLProblem(X, PAIRS, SIMILAR, gamma=gamma, **bounds)


def loop_objective(problem, A):
    """Both divergences, the slacks found pair by pair on a grid's place: max and min."""
    inverse = np.linalg.inv(problem.prior)
    d = len(A)
    total = np.trace(A @ inverse) - math.log(np.linalg.det(A @ inverse)) - d
    for (a, b), s in zip(PAIRS, SIMILAR, strict=True):
        v = problem.X[a] - problem.X[b]
        D = float(v @ A @ v)
        ratio = max(D / problem.upper, 1.0) if s > 0 else min(D / problem.lower, 1.0)
        total += problem.gamma * (ratio - math.log(ratio) - 1)
    return total


def test_objective_is_that_of_loops(rng):
    problem = make()
    for scale in (0.1, 1.0, 4.0):
        L = scale * rng.normal(size=(3, 3))
        assert_same(problem.objective(L), loop_objective(problem, L.T @ L))
    assert problem.objective(L[:2]) == math.inf  # a singular metric


def test_the_program_with_slacks_agrees_with_the_objective_of_the_metric_alone(rng):
    problem = make()
    program = sm.to_cvxpy(problem)
    program.solve(solver="CLARABEL")
    A = next(v for v in program.variables() if v.name() == "M").value
    assert program.value == pytest.approx(loop_objective(problem, A), rel=1e-6)


def test_gradient_is_that_of_differences(rng):
    problem = make()
    L = np.eye(3) + 0.3 * rng.normal(size=(3, 3))
    gradient = 2.0 * L @ problem.total.smoothed(L, 1.0)[2]
    for r, c in ((0, 0), (1, 2), (2, 1)):
        step = np.zeros((3, 3))
        step[r, c] = 1e-6
        slope = (problem.objective(L + step) - problem.objective(L - step)) / 2e-6
        assert slope == pytest.approx(gradient[r, c], rel=1e-6, abs=1e-5)


@given(st.integers(0, 10_000), st.floats(-5, 3))
def test_weak_duality_for_any_metric_and_any_multipliers(seed, decades):
    rng = np.random.default_rng(seed)
    problem = make(seed % 5, gamma=float(rng.choice([0.2, 3.0])))
    a = rng.exponential(10.0**decades, 9) * (rng.random(9) < 0.8) - 0.1 * (rng.random() < 0.3)
    certificate = problem.certify(rng.normal(size=(3, 3)), dual=a)
    best = sm.solve(problem).objective
    assert 0.0 <= certificate.lower_bound <= best + rounding(best)


def test_the_bound_is_the_formula():
    """At small multipliers, of which the best multiple is searched: never less than at 1."""
    problem = make()
    a = 1e-3 * np.arange(1.0, 10.0)
    P = np.linalg.inv(PRIOR)
    value = 0.0
    for (i, j), s, ap in zip(PAIRS, SIMILAR, a, strict=True):
        v = problem.X[i] - problem.X[j]
        P += s * ap * np.outer(v, v)
        value += problem.gamma * math.log(1 - s * ap * (problem.upper if s > 0 else problem.lower) / problem.gamma)
    value += math.log(np.linalg.det(P @ PRIOR))
    assert problem.certify(np.eye(3), dual=a).lower_bound >= value - 1e-12
    # At the optimum the best multiple is 1, and the formula is the bound.
    solution = sm.solve(problem, tol=1e-10)
    P, value = np.linalg.inv(PRIOR), 0.0
    for (i, j), s, ap in zip(PAIRS, SIMILAR, solution.dual, strict=True):
        v = problem.X[i] - problem.X[j]
        P += s * ap * np.outer(v, v)
        value += problem.gamma * math.log(1 - s * ap * (problem.upper if s > 0 else problem.lower) / problem.gamma)
    assert value + math.log(np.linalg.det(P @ PRIOR)) == pytest.approx(solution.lower_bound, rel=1e-8)
    assert np.linalg.inv(P) == pytest.approx(solution.metric, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("factor", [0.1, 3.0, 50.0])
def test_any_multiple_of_the_best_multipliers_proves_the_best_bound(factor):
    """Also one that is beyond the domain of the dual: all are made smaller, not only the largest."""
    solution = sm.solve(make(), tol=1e-8)
    found = make().certify(np.eye(3), dual=factor * solution.dual)
    assert found.lower_bound == pytest.approx(solution.lower_bound, rel=1e-7)


def test_a_projection_meets_its_constraint():
    """After one sweep over one pair the distance equals its slack: coordinate ascent is exact."""
    problem = sm.ITMLProblem(make().X, PAIRS[:1], [1], 0.2, 5.0, gamma=0.7)
    solution = sm.solve(problem, solver="bregman", tol=1e-12, max_iter=3)
    v = problem.X[0] - problem.X[1]
    xi = 1 / (1 / 0.2 - solution.dual[0] / 0.7)
    assert float(v @ solution.metric @ v) == pytest.approx(xi, rel=1e-9)
    assert solution.status is sm.Status.OPTIMAL


def test_a_prior_that_keeps_all_bounds_is_the_optimum():
    X = make().X
    problem = sm.ITMLProblem(X, PAIRS, SIMILAR, upper=1e4, lower=2e4, gamma=0.3)
    problem = sm.ITMLProblem(X, problem.pairs[problem.similar], np.ones(4, bool), 1e4, 2e4, 0.3)
    for solver in ("factored", "bregman"):
        solution = sm.solve(problem, solver=solver)
        assert solution.objective <= 1e-6
        assert solution.lower_bound >= 0.0
    assert problem.objective(metric=np.eye(3)) == 0.0
    assert problem.certify(metric=np.eye(3)).proves_optimal(1e-9)


def test_similar_duplicates_keep_every_bound():
    X = make().X.copy()
    X[1] = X[0]
    problem = sm.ITMLProblem(X, PAIRS, SIMILAR, 1.0, 7.0, 0.3)
    for solver in ("factored", "bregman", "conic"):
        assert sm.solve(problem, solver=solver).status is sm.Status.OPTIMAL


def test_a_direction_without_variation_keeps_the_prior():
    X = make().X.copy()
    X[:, 2] = 4.0
    for solver in ("factored", "bregman", "conic"):
        solution = sm.solve(sm.ITMLProblem(X, PAIRS, SIMILAR, 1.0, 7.0, 0.3, prior=PRIOR), solver=solver, tol=1e-6)
        assert solution.status is sm.Status.OPTIMAL
        assert solution.metric[2, 2] == pytest.approx(3.0, rel=1e-2)


def test_default_bounds_are_percentiles_of_squared_distances():
    problem = sm.ITMLProblem(make().X, PAIRS, SIMILAR)
    D = [float(np.sum((problem.X[a] - problem.X[b]) ** 2)) for a, b in PAIRS]
    assert_same(problem.upper, np.percentile(D, 5))
    assert_same(problem.lower, np.percentile(D, 95))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"gamma": 0.0}, "gamma must be positive"),
        ({"gamma": -1.0}, "gamma must be a finite number"),
        ({"gamma": np.nan}, "gamma must be a finite number"),
        ({"upper": 7.0}, "upper must be positive and below lower"),
        ({"upper": 8.0}, "upper must be positive and below lower"),
        ({"upper": 0.0}, "upper must be positive"),
        ({"prior": np.diag([1.0, 1.0, 0.0])}, "positive definite"),
        ({"prior": np.eye(2)}, r"shape \(3, 3\)"),
    ],
)
def test_bad_parameters_get_a_sentence(options, words):
    with pytest.raises(ValueError, match=words):
        make(**{"gamma": 0.3, **options})


def test_bad_pairs_get_a_sentence():
    X = make().X.copy()
    X[6] = X[0]
    with pytest.raises(ValueError, match=r"dissimilar pair \[0, 6\] has two equal examples"):
        sm.ITMLProblem(X, PAIRS, SIMILAR)
    with pytest.raises(ValueError, match="there are no pairs"):
        sm.ITMLProblem(X, [], [])
    with pytest.raises(ValueError, match="similar and as dissimilar"):
        sm.ITMLProblem(X, [[0, 1], [1, 0]], [True, False])
    with pytest.raises(ValueError, match="9 finite multipliers"):
        make().certify(np.eye(3), dual=np.ones(3))


@pytest.mark.parametrize("size", [1e5, 1e8, 1e9])
def test_rounding_of_long_differences_never_lifts_the_bound(size: float) -> None:
    X = [[0.0, 0.0], [size, size], [1.0, -1.0], [0.1, 0.3]]
    problem = sm.ITMLProblem(X, [[0, 1], [0, 2]], [True, False], upper=1.0, lower=4.0)
    L = np.array([[1.0, -1.0], [1 / size, 1 / size]]) / 2**0.5
    assert problem.certify(L, dual=[0.9, 0.4]).lower_bound <= problem.objective(L) * (1 + 1e-9)
    assert sm.solve(problem, "conic", max_time=5).lower_bound <= problem.objective(L) * (1 + 1e-9)


def test_equal_examples_of_different_labels_are_not_paired():
    rng = np.random.default_rng(2)
    X = rng.integers(0, 2, size=(30, 3)).astype(float)
    y = (rng.random(30) < 0.3).astype(int)
    problem = sm.ITMLProblem.from_labels(X, y)
    apart = (X[problem.pairs[:, 0]] != X[problem.pairs[:, 1]]).any(axis=1)
    assert (apart | problem.similar).all()
    assert problem.similar.sum() == sum(y[i] == y[j] for i in range(30) for j in range(i))
    assert (~problem.similar).sum() == sum(y[i] != y[j] and (X[i] != X[j]).any() for i in range(30) for j in range(i))
    assert problem.upper > 0  # though more than a twentieth of the pairs are of equal examples
    with pytest.raises(ValueError, match="pass both"):
        sm.ITMLProblem(X, [[0, 1]], [True])
