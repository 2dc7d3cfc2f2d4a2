"""RCA: its statement against the formulas, the closed form against the conic solver, chunklets of every kind."""

import math
from itertools import pairwise

import numpy as np
import pytest
from exact import metric, rca
from instances import assert_close, assert_same, rounding

import sdpmetric as sm


def example(seed: int = 0, ridge: float = 0.0) -> sm.RCAProblem:
    """Five chunklets of unequal size, and loose examples, in different units."""
    rng = np.random.default_rng(seed)
    chunks = rng.choice([-1, 0, 1, 2, 3, 7], 40, p=[0.2, 0.3, 0.2, 0.15, 0.1, 0.05])
    return sm.RCAProblem(rng.normal(size=(40, 3)) @ rng.normal(size=(3, 3)) * [1, 100, 0.1], chunks, ridge)


def covariance(problem: sm.RCAProblem) -> np.ndarray:
    """The paper's C, in loops."""
    total, count = np.zeros((3, 3)), 0
    for chunk in set(problem.chunks.tolist()) - {-1}:
        members = [x for x, c in zip(problem.X, problem.chunks, strict=True) if c == chunk]
        if len(members) > 1:
            mean = sum(members) / len(members)
            total += sum(np.outer(x - mean, x - mean) for x in members)
            count += len(members)
    return total / count + problem.ridge * np.eye(3)


@pytest.mark.parametrize("ridge", [0.0, 0.3])
@pytest.mark.parametrize("seed", range(2))
def test_closed_form_and_conic_solver_agree_with_the_formulas(seed, ridge):
    problem = example(seed, ridge)
    C = covariance(problem)
    closed, conic = sm.solve(problem), sm.solve(problem, "conic")
    np.testing.assert_allclose(closed.metric, np.linalg.inv(C), rtol=1e-7)
    for solution in (closed, conic):
        assert solution.status is sm.Status.OPTIMAL
        assert solution.relative_gap <= 1e-6
        assert solution.lower_bound == 3.0
    assert closed.solver == "closed"
    assert closed.objective <= conic.objective + rounding(conic.objective)
    M = np.random.default_rng(seed).normal(size=(3, 3)) / [1, 100, 0.1]
    expected = np.trace(C @ M.T @ M) - np.linalg.slogdet(C @ M.T @ M)[1]
    assert_same(problem.objective(M), expected)
    assert problem.certify(M).relative_gap > 1e-3  # another metric is told apart


def test_singular_metrics_cost_infinitely_much():
    problem = example()
    assert problem.objective(np.eye(3)[:2]) == math.inf
    assert problem.certify(np.eye(3)[:2]).relative_gap == math.inf


def test_features_without_variation_are_left_out():
    problem = example()
    wider = sm.RCAProblem(np.insert(problem.X, 1, 5.0, axis=1), problem.chunks)
    assert wider.certify(wider.closed_form()).lower_bound == 3.0
    assert_close(
        np.delete(wider.closed_form(), 1, axis=1).T @ np.delete(wider.closed_form(), 1, axis=1),
        sm.solve(problem).metric,
    )


@pytest.mark.parametrize(
    ("twin", "exactly"),
    [
        (lambda X: X[:, 0] / 2.54, False),
        (lambda X: X[:, 0] + X[:, 1], False),
        (lambda X: X[:, 0] * (1.0 + 1e-13), False),
        (lambda X: 4.0 * X[:, 0], True),
        (lambda X: np.full(len(X), 3.0), True),
    ],
)
def test_features_that_depend_on_each_other_are_left_out_only_if_they_do_so_exactly(twin, exactly):
    """Sepal length in inches varies a little differently: the exact covariance has rank 5, a metric found has 4."""
    X, y = sm.datasets.load("iris")
    X = np.column_stack([X, twin(X)])
    solution = sm.solve(sm.RCAProblem.from_labels(X, y))
    labels = np.unique(y, return_inverse=True)[1]
    exact = rca(X, metric(solution.components), labels)
    assert (solution.status is sm.Status.OPTIMAL) is exactly
    assert bool(exact.is_finite()) is exactly
    assert solution.objective >= exact
    assert solution.certificate.rigor == "float"
    if not exactly:
        assert solution.objective == solution.problem.objective(solution.components) == math.inf
        assert "pass a positive ridge" in str(solution.certificate)
    ridged = sm.RCAProblem.from_labels(X, y, ridge=1e-3)
    solution = sm.solve(ridged)
    assert solution.status is sm.Status.OPTIMAL
    assert solution.certificate.weakness is None
    assert solution.objective >= rca(X, metric(solution.components), labels, 1e-3, directions=4)
    assert ("4 largest eigenvalues of 5" in ridged.describe()) is bool(np.ptp(X[:, 4]) > 0.0)


def test_pairs_connect_chunklets():
    problem = example(3)
    members = [np.flatnonzero(problem.chunks == c) for c in range(4)]
    pairs = [pair for rows in members for pair in pairwise(rows.tolist())]
    similar = [True] * len(pairs) + [False]
    found = sm.RCAProblem.from_pairs(problem.X, [*pairs, [int(members[0][0]), int(members[1][0])]], similar)
    expected = sm.RCAProblem(problem.X, np.where(problem.chunks == 7, -1, problem.chunks))
    assert_close(sm.solve(found).metric, sm.solve(expected).metric)
