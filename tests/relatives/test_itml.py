"""ITML with slack: multipliers, the paper's projections, priors, bad input."""

import numpy as np
import pytest
from instances import assert_same

import sdpmetric as sm

PAIRS = np.array([[0, 1], [2, 3], [4, 5], [0, 6], [1, 7], [2, 5], [6, 7], [3, 8], [8, 3]])
SIMILAR = np.array([1, 1, 1, -1, -1, -1, 1, -1, -1])
PRIOR = np.array([[1.0, 0.2, 0.0], [0.2, 0.05, 0.0], [0.0, 0.0, 3.0]])


def make(seed=0, gamma=0.3, **options):
    X = np.random.default_rng(seed).normal(size=(9, 3)) * [1.0, 10.0, 0.3]
    bounds = {"upper": 1.0, "lower": 7.0, "prior": PRIOR} | options
    return sm.ITMLProblem(X, PAIRS, SIMILAR, gamma=gamma, **bounds)


@pytest.mark.parametrize("factor", [0.1, 3.0, 50.0])
def test_any_multiple_of_the_best_multipliers_proves_the_best_bound(factor):
    """Also one that is beyond the domain of the dual: all are made smaller, not only the largest."""
    solution = sm.solve(make(), tol=1e-8)
    certificate = make().certify(np.eye(3), dual=factor * solution.dual)
    assert certificate.lower_bound == pytest.approx(solution.lower_bound, rel=1e-7)


def test_a_direction_without_variation_keeps_the_prior():
    X = make().X.copy()
    X[:, 2] = 4.0
    for solver in ("factored", "conic"):
        solution = sm.solve(sm.ITMLProblem(X, PAIRS, SIMILAR, 1.0, 7.0, 0.3, prior=PRIOR), solver=solver, tol=1e-6)
        assert solution.status is sm.Status.OPTIMAL
        assert solution.metric[2, 2] == pytest.approx(3.0, rel=1e-2)


def test_default_bounds_are_percentiles_of_squared_distances():
    problem = sm.ITMLProblem(make().X, PAIRS, SIMILAR)
    D = [float(np.sum((problem.X[a] - problem.X[b]) ** 2)) for a, b in PAIRS]
    assert_same(problem.upper, np.percentile(D, 5))
    assert_same(problem.lower, np.percentile(D, 95))


def test_equal_examples_of_different_labels_are_not_paired():
    rng = np.random.default_rng(2)
    X = rng.integers(0, 2, size=(30, 3)).astype(float)
    y = (rng.random(30) < 0.3).astype(int)
    problem = sm.ITMLProblem.from_labels(X, y)
    distinct = (X[problem.pairs[:, 0]] != X[problem.pairs[:, 1]]).any(axis=1)
    assert (distinct | problem.similar).all()
    assert problem.similar.sum() == sum(y[i] == y[j] for i in range(30) for j in range(i))
    assert (~problem.similar).sum() == sum(y[i] != y[j] and (X[i] != X[j]).any() for i in range(30) for j in range(i))
    assert problem.upper > 0  # though more than a twentieth of the pairs are of equal examples
    with pytest.raises(ValueError, match="pass both"):
        sm.ITMLProblem(X, [[0, 1]], [True])


@pytest.mark.parametrize("size", [1e5, 1e9])
def test_rounding_of_long_differences_never_lifts_the_bound(size: float) -> None:
    X = [[0.0, 0.0], [size, size], [1.0, -1.0], [0.1, 0.3]]
    problem = sm.ITMLProblem(X, [[0, 1], [0, 2]], [True, False], upper=1.0, lower=4.0)
    L = np.array([[1.0, -1.0], [1 / size, 1 / size]]) / 2**0.5
    assert problem.certify(L, dual=[0.9, 0.4]).lower_bound <= problem.objective(L) * (1 + 1e-9)
    assert sm.solve(problem, "conic", max_time=5).lower_bound <= problem.objective(L) * (1 + 1e-9)


def test_similar_duplicates_keep_every_bound():
    X = make().X.copy()
    X[1] = X[0]
    problem = sm.ITMLProblem(X, PAIRS, SIMILAR, 1.0, 7.0, 0.3)
    for solver in ("factored", "conic"):
        assert sm.solve(problem, solver=solver).status is sm.Status.OPTIMAL
