"""LFDA: scatters by loops from the paper, the eigenproblem by SciPy, the sandwich, several modes, refusals."""

import math

import numpy as np
import pytest
import scipy.linalg
from exact import lfda_scatters
from instances import assert_close, assert_same, rounding
from scipy.spatial.distance import cdist
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

import sdpmetric as sm
from sdpmetric.bounds import lfda_bounds

Y = np.repeat(["a", "b", "c", "lone"], [9, 6, 3, 1])
N = len(Y)


def data(seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(N, 3)) * [1.0, 3.0, 0.3] + 7.0 + np.arange(N)[:, None] % 3


def scatters(X, y, k):
    """Section 3 of the paper, pair by pair: between and within classes."""
    index = np.unique(y, return_inverse=True)[1]
    return [np.array(M.tolist(), dtype=float) for M in lfda_scatters(X, index, k)]


@pytest.mark.parametrize(("k", "r", "ridge"), [(7, 1, 0.0), (2, 2, 0.0), (3, 3, 0.5)])
@pytest.mark.parametrize("block", [lfda_bounds.BLOCK, 20])
def test_objective_and_optimum_are_those_of_loops_and_scipy(k, r, ridge, block, monkeypatch):
    monkeypatch.setattr(lfda_bounds, "BLOCK", block)
    X = data(k)
    problem = sm.LFDAProblem(X, Y, r, k, ridge)
    B, W = scatters(X, Y, k)
    W += ridge * np.eye(3)
    L = np.random.default_rng(r).normal(size=(r, 3))
    assert_same(problem.objective(L), -float(np.trace(np.linalg.solve(L @ W @ L.T, L @ B @ L.T))))
    assert_same(problem.objective(metric=7.0 * L.T @ L), problem.objective(L))
    values, vectors = scipy.linalg.eigh(B, W)
    solution = sm.solve(problem)
    assert solution.status is sm.Status.OPTIMAL
    assert_same(solution.objective, -float(np.maximum(values[::-1][:r], 0.0).sum()))
    assert solution.lower_bound <= problem.objective(L) + rounding(1.0)
    assert_same(problem.objective(vectors[:, ::-1][:, :1].T), -values[-1])
    exact = sm.solve(problem, solver="conic")
    assert exact.objective == pytest.approx(solution.objective, rel=1e-5)
    assert exact.lower_bound <= solution.objective + rounding(1.0)


def test_nothing_is_claimed_of_directions_that_rounding_hides():
    X, y = sm.datasets.load("iris")
    X = np.column_stack([X, X[:, 0] / 2.54])
    solution = sm.solve(sm.LFDAProblem(X, y, 5))
    assert solution.lower_bound == -math.inf
    assert solution.status is not sm.Status.OPTIMAL
    assert "pass a positive ridge" in str(solution)
    assert sm.solve(sm.LFDAProblem(X, y, 5, ridge=0.1)).status is sm.Status.OPTIMAL
    assert sm.solve(sm.LFDAProblem(np.column_stack([X[:, :4], 2.0 * X[:, 0]]), y, 5)).status is sm.Status.OPTIMAL


def test_embeddings_span_the_same_and_are_scaled_as_they_say():
    X = data(1)
    problem = sm.LFDAProblem(X, Y, 2, 3)
    W = scatters(X, Y, 3)[1]
    weighted, plain, basis = (problem.closed_form(how) for how in ("weighted", "plain", "orthonormalized"))
    values = problem.eigenpairs[0][:2]
    assert_close(plain @ W @ plain.T, np.eye(2))
    assert_close(weighted, np.sqrt(values)[:, None] * plain)
    assert_close(basis @ basis.T, np.eye(2))
    for L in (plain, basis):
        assert_same(problem.objective(L), problem.objective(weighted))


def test_classes_of_two_modes_are_told_apart_where_lda_fails():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 200)
    centers = np.where(y == 0, np.where(rng.random(400) < 0.5, -6.0, 6.0), 0.0)
    X = np.stack([centers + rng.normal(size=400), 3.0 * rng.normal(size=400)], axis=1)
    direction = sm.solve(sm.LFDAProblem(X, y, 1)).components[0] * X.std(axis=0)
    assert abs(direction[0]) > 0.95 * np.linalg.norm(direction)
    assert abs(LinearDiscriminantAnalysis().fit(X, y).scalings_[0, 0]) < 0.9
    Z = X @ sm.solve(sm.LFDAProblem(X, y, 1)).components.T
    D = cdist(Z, Z) + np.diag([np.inf] * 400)
    assert np.mean(y[D.argmin(axis=1)] == y) > 0.95


def test_copies_constant_features_and_small_classes():
    X = np.concatenate([data(2), data(2)[:5]])
    X = np.column_stack([X, np.full(len(X), 3.0)])
    y = np.concatenate([Y, Y[:5]])
    solution = sm.solve(sm.LFDAProblem(X, y, 2, 1))
    assert solution.status is sm.Status.OPTIMAL
    assert_close(solution.components[:, 3], np.zeros(len(solution.components)), 1.0)
