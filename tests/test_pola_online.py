"""Online POLA's update, its batch conversion, and Theorem 1 of the paper, judged by the exact optimum."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from conftest import rounding
from test_pola import separable

import sdpmetric as sm
from sdpmetric.problems.pola import POLAProblem
from sdpmetric.solvers.pola_update import Threshold, project_cone, project_margin, update


def distance(one: Threshold, other: Threshold) -> float:
    """Squared distance of two points."""
    return float(np.sum((one.metric - other.metric) ** 2) + (one.threshold - other.threshold) ** 2)


def random_stream(seed: int) -> tuple[POLAProblem, np.ndarray]:
    """Separable pairs, and an order in which they arrive, some of them often."""
    rng = np.random.default_rng(seed)
    n, d, p = int(rng.integers(6, 20)), int(rng.integers(1, 6)), int(rng.integers(4, 40))
    X, L = rng.normal(size=(n, d)) * 10 ** rng.uniform(-0.5, 0.5), rng.normal(size=(int(rng.integers(1, d + 1)), d))
    pairs = np.array([rng.choice(n, 2, replace=False) for _ in range(p)])
    q = np.sum(((X[pairs[:, 0]] - X[pairs[:, 1]]) @ L.T) ** 2, axis=1)
    start = 1.0 if seed % 2 else float(1 + rng.exponential(2))
    return POLAProblem(X, pairs, q < np.quantile(q, rng.uniform(0.2, 0.8)), None, start), rng.integers(0, p, 4 * p)


def check_theorems(problem: POLAProblem, order: np.ndarray) -> float:
    """Run a stream against the optimum; the share of Theorem 1's bound that it used up."""
    optimum = sm.solve(problem)
    assert optimum.status is sm.Status.OPTIMAL
    comparator = Threshold(optimum.metric, optimum.threshold)
    point = Threshold(np.zeros((problem.X.shape[1],) * 2), problem.initial_threshold)
    squared, mistakes = 0.0, 0
    for t in order:
        v, sign = problem.differences[t], float(problem.signs[t])
        loss = point.loss(v, sign)
        squared += loss**2
        mistakes += sign * (point.threshold - v @ point.metric @ v) <= 0
        moved, _ = project_margin(point, v, sign)
        new, step = update(point, v, sign)
        # What the figure's half projections rely on: the other half would change nothing.
        full = project_cone(moved)
        assert np.abs(full.metric - new.metric).max() <= 1e-9 * max(1.0, np.abs(new.metric).max())
        assert full.threshold == new.threshold >= 1.0
        values = np.linalg.eigvalsh(moved.metric)
        assert (values < -1e-9 * max(1.0, values[-1])).sum() <= (sign > 0)
        assert np.linalg.eigvalsh(new.metric)[0] >= -1e-9 * max(1.0, values[-1])
        # Each update comes nearer to the comparator by the squared length of its first projection, at least.
        nearer = distance(point, comparator) - distance(new, comparator)
        size = distance(point, comparator)
        assert nearer >= step * loss - 1e-8 * max(1.0, size)
        assert abs(distance(point, moved) - step * loss) <= 1e-9 * max(1.0, size)
        point = new
    bound = problem.update_bound(optimum.objective)
    assert squared <= bound + rounding(bound)  # Theorem 1
    assert mistakes <= squared + rounding(squared)  # a mistake costs 1 at least, hence the mistake bound
    return squared / bound


@pytest.mark.parametrize("seed", range(20))
def test_theorem_1_and_the_mistake_bound(seed: int) -> None:
    check_theorems(*random_stream(seed))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200))
def test_theorem_1_and_the_mistake_bound_at_length(seed: int) -> None:
    check_theorems(*random_stream(seed))


def test_theorem_1_is_nearly_tight_for_one_long_dissimilar_pair() -> None:
    """The twin: with a bound 10 % smaller the theorem would be wrong."""
    problem = POLAProblem([[0.0], [3.0]], [[0, 1]], [False])
    share = check_theorems(problem, np.zeros(20, dtype=int))
    assert 0.9 < share <= 1.0


def test_both_projections_are_those_of_the_exact_layer(rng) -> None:
    d = 3
    for sign in (1.0, -1.0):
        L, v, b = rng.normal(size=(2, d)), rng.normal(size=d), 1.0 + 0.3 * rng.exponential()
        point = Threshold(L.T @ L, b)
        for _ in range(20):
            if point.loss(v, sign) > 0.1:
                break
            v = rng.normal(size=d)
        A, t = cp.Variable((d, d), symmetric=True), cp.Variable()
        for given, constraints, found in (
            (point, [sign * (t - cp.trace(np.outer(v, v) @ A)) >= 1], project_margin(point, v, sign)[0]),
            (project_margin(point, v, sign)[0], [A >> 0, t >= 1], update(point, v, sign)[0]),
        ):
            away = cp.sum_squares(A - given.metric) + cp.square(t - given.threshold)
            cp.Problem(cp.Minimize(away), constraints).solve(solver="CLARABEL")
            assert distance(found, Threshold(A.value, float(t.value))) <= 1e-8
            assert abs(away.value - distance(found, given)) <= 1e-5 * max(1.0, away.value)


def test_a_kept_margin_changes_nothing(rng) -> None:
    point = Threshold(np.eye(2), 3.0)
    assert update(point, np.array([0.5, 0.5]), 1.0) == (point, 0.0)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("beta", [0.3, 0.01])
def test_batch_conversion_keeps_its_promises(seed: int, beta: float) -> None:
    problem = separable(seed)
    optimum, batch = sm.solve(problem), sm.solve(problem, solver="batch", beta=beta)
    assert 0 < batch.n_iter <= problem.update_bound(optimum.objective, beta)
    assert batch.lower_bound <= optimum.objective + rounding(optimum.objective)
    assert optimum.lower_bound <= batch.objective + rounding(batch.objective)
    assert problem.objective(batch.components, threshold=batch.threshold) < np.inf


def test_batch_conversion_takes_a_limit() -> None:
    batch = sm.solve(separable(1), solver="batch", beta=1e-6, max_iter=50)
    assert batch.status is sm.Status.USER_LIMIT
    assert batch.n_iter == 50
