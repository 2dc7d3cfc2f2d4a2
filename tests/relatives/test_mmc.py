"""MMC: its constraint, a closed form, unbounded directions, bad input."""

import numpy as np
import pytest
from instances import assert_same

import sdpmetric as sm

PAIRS = np.array([[0, 1], [2, 3], [4, 5], [0, 6], [1, 7], [2, 5], [6, 7], [3, 8], [3, 8]])
SIMILAR = np.array([1, 1, 1, -1, -1, -1, 1, -1, -1])


def make(seed=0, d=3, **options):
    X = np.random.default_rng(seed).normal(size=(9, d)) * np.array([1.0, 10.0, 0.3])[:d]
    return sm.MMCProblem(X, PAIRS, SIMILAR, **options)


def test_a_point_that_misses_the_constraint_is_scaled_and_said_to():
    problem = make()
    L = 3.0 * np.eye(3)
    certificate = problem.certify(L)
    spent = sum(9.0 * np.sum((problem.X[a] - problem.X[b]) ** 2) for a, b in PAIRS[SIMILAR > 0])
    assert_same(certificate.primal_residual, spent - 1)
    assert_same(certificate.objective, problem.objective(L / np.sqrt(spent)))
    assert problem.certify(L / np.sqrt(2 * spent)).primal_residual == 0.0


def test_negative_weights_prove_nothing():
    assert make().certify(np.eye(3), dual=-np.ones(5)).lower_bound == -np.inf


def test_one_feature_has_a_closed_form():
    """With d = 1 the constraint decides: sum of distances over the root of the sum of squares."""
    problem = make(d=1)
    x = problem.X[:, 0]
    similar_sum = sum((x[a] - x[b]) ** 2 for (a, b), s in zip(PAIRS, SIMILAR, strict=True) if s > 0)
    far = sum(abs(x[a] - x[b]) for (a, b), s in zip(PAIRS, SIMILAR, strict=True) if s < 0)
    for solver in ("factored", "conic"):
        assert sm.solve(problem, solver=solver).objective == pytest.approx(-far / similar_sum**0.5, rel=1e-6)


def test_directions_that_no_pair_uses_are_harmless_and_free_ones_are_named():
    X = np.concatenate([make().X, np.zeros((9, 1))], axis=1)
    assert sm.solve(sm.MMCProblem(X, PAIRS, SIMILAR)).objective == pytest.approx(sm.solve(make()).objective, rel=1e-6)
    X[8, 3] = 1.0  # example 8 is in dissimilar pairs only
    with pytest.raises(ValueError, match="infinite: dissimilar pairs differ in 1 directions"):
        sm.MMCProblem(X, PAIRS, SIMILAR)
