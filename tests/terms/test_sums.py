"""Sums of terms: exact and fast solver prove each other, and every bound is below every objective."""

from __future__ import annotations

import numpy as np
import pytest
from cases import data, hard_ones, random_hard_problem, random_problem
from instances import rounding
from seeds import blocks

import sdpmetric as sm
from sdpmetric import terms


def sandwich(seed: int) -> None:
    """Bounds from points and multipliers of all kinds, objectives of metrics of all kinds."""
    problem = random_problem(seed)
    rng, B = np.random.default_rng(seed), problem.domain.basis
    k, sizes = len(B), 10 ** rng.uniform(-1.0, 1.0, 4)
    best = sm.solve(problem, tol=1e-3, max_iter=300)
    points = [best.components, B, np.zeros((0, B.shape[1]))]
    if problem.domain.diagonal:
        points += [size * rng.exponential(size=k)[:, None] * B for size in sizes]
    else:
        points += [size * rng.normal(size=(rng.integers(1, k + 2), k)) @ B for size in sizes]
    found = [problem.certify(L) for L in points]
    m = problem.total.n_multipliers
    given = [rng.exponential(10 ** rng.uniform(-2, 1), m), rng.normal(size=m), np.zeros(m)]
    found += [problem.certify(points[1], dual=a) for a in given] + [best.certificate]
    lowest = min(c.objective for c in found)
    highest = max(c.lower_bound for c in found)
    assert highest <= lowest + rounding(lowest), (seed, problem)
    assert np.isfinite(highest), (seed, problem)


@pytest.mark.parametrize("seed", range(40))
def test_bounds_are_below_objectives(seed):
    sandwich(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seeds", blocks(40, 2040), ids=str)
def test_bounds_are_below_objectives_many(seeds):
    for seed in seeds:
        sandwich(seed)


@pytest.mark.parametrize("seed", range(20))
def test_exact_and_fast_solver_prove_each_other(seed):
    problem = random_problem(seed + 3000, 100, 5)
    fast, exact = sm.solve(problem, tol=1e-5), sm.solve(problem, "conic")
    for one in (fast, exact):
        for other in (fast, exact):
            assert one.lower_bound <= other.objective + rounding(other.objective)
            assert other.objective - one.lower_bound <= 1e-4 * abs(other.objective), (seed, problem)


@pytest.mark.parametrize("name", list(hard_ones(np.random.default_rng(0), np.eye(30))))
def test_hard_constraints_and_spreads(name):
    rng = np.random.default_rng(5)
    X = data(rng)
    problem = sm.MetricProblem(X, hard_ones(rng, X)[name])
    fast, exact = sm.solve(problem, tol=1e-4), sm.solve(problem, "conic", tol=1e-5)
    for one in (fast, exact):
        assert one.certificate.primal_residual <= 1e-7
        assert one.relative_gap <= 1e-4, one
        assert one.lower_bound <= min(fast.objective, exact.objective) + 1e-6 * abs(fast.objective)


@pytest.mark.parametrize("kind", ["line", "duplicates", "float32", "wide", "constant"])
def test_hard_data(kind):
    rng = np.random.default_rng(8)
    n, d = 15, {"line": 1, "wide": 20}.get(kind, 3)
    X, y = rng.normal(size=(n, d)), np.arange(n) % 3
    if kind == "duplicates":
        X[3] = X[4]
        X[6] = X[9]
    if kind == "constant":
        X[:, 1] = 0.1
    if kind == "float32":
        X = X.astype(np.float32)
    push = terms.TripletHinge(labels=y, n_neighbors=2)
    for total in (terms.Pull(labels=y) + push, terms.Frobenius() + push, terms.LogDet() + push):
        solution = sm.solve(sm.MetricProblem(X, total), tol=1e-3)
        assert solution.relative_gap <= 1e-3, solution
        assert solution.components.dtype == X.dtype


def test_eq_8_of_nca_is_convex_in_the_metric_and_proven():
    """Weighted pairs under one softmax over all pairs: near pairs become likely, and nothing is better."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    X[30:, :2] = X[:30, :2] + 0.1 * rng.normal(size=(30, 2))
    pairs = np.stack([np.arange(30), 30 + np.arange(30)], axis=1)
    problem = sm.MetricProblem(X, terms.PairSoftmax(pairs, weights=rng.random(30)))
    fast, exact = sm.solve(problem, tol=1e-6), sm.solve(problem, "conic")
    assert fast.relative_gap <= 1e-6
    assert exact.lower_bound <= fast.objective + rounding(fast.objective)
    assert fast.lower_bound <= exact.objective + rounding(exact.objective)
    assert np.diag(fast.metric)[:2].min() > 10 * np.diag(fast.metric)[2:].max()
    L, K = rng.normal(size=(4, 4)), rng.normal(size=(4, 4))
    between = problem.objective(metric=0.5 * (L.T @ L + K.T @ K))
    assert between <= 0.5 * (problem.objective(L) + problem.objective(K)) + rounding(between)


def proven(seed: int) -> None:
    problem = random_hard_problem(seed)
    solution = sm.solve(problem, tol=1e-4)
    assert solution.status in (sm.Status.OPTIMAL, sm.Status.INFEASIBLE), (seed, solution)


@pytest.mark.parametrize("seed", range(12))
def test_sums_with_hard_bounds_are_proven(seed):
    """Multipliers of hard bounds are of any size, and penalties become as steep as these ask for."""
    proven(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seeds", blocks(12, 412), ids=str)
def test_sums_with_hard_bounds_are_proven_many(seeds):
    for seed in seeds:
        proven(seed)
