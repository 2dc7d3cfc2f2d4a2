"""Online ITML: the explicit step, its rate where the metric would leave the cone, and the books it shares with LEGO."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import sdpmetric as sm

A0 = np.array([[2.0, 0.3, 0.0], [0.3, 1.0, -0.2], [0.0, -0.2, 0.5]])
U, V = np.array([1.0, 0.5, -1.0]), np.array([0.2, -0.7, 0.4])
Z = U - V
P = float(Z @ A0 @ Z)


@pytest.mark.parametrize(("share", "side"), [(0.4, 0), (0.4, 1), (1.2, 0), (1.2, -1), (0.0, 0)])
@pytest.mark.parametrize("rate", [1e-3, 0.05])
def test_step_is_the_minimum_of_divergence_and_tangent(share, side, rate):
    y = share * P
    assert rate * (y - P) * P < 0.5  # no smaller rate is needed
    stream = sm.ITMLStream(3, rate, A0)
    before = stream.components
    outcome = stream.update(U, V, y, side)
    assert outcome.loss == pytest.approx(0.5 * (P - y) ** 2, rel=1e-12)
    np.testing.assert_allclose(outcome.step.apply(before), stream.components, atol=1e-12)
    expected = np.linalg.inv(A0) + rate * (P - y) * np.outer(Z, Z)
    np.testing.assert_allclose(np.linalg.inv(stream.metric), expected, atol=1e-9 * np.abs(expected).max())
    M = cp.Variable((3, 3), symmetric=True)
    tangent = rate * (P - y) * cp.trace(np.outer(Z, Z) @ M)
    program = cp.Problem(cp.Minimize(cp.trace(M @ np.linalg.inv(A0)) - cp.log_det(M) + tangent))
    program.solve(solver="CLARABEL")
    M.value = stream.metric
    assert program.objective.value == pytest.approx(program.value, rel=1e-6)


@pytest.mark.parametrize("rate", [1.0, 1e6])
def test_a_step_that_would_leave_the_cone_doubles_the_distance(rate):
    stream = sm.ITMLStream(3, rate, A0)
    stream.update(U, V, 50 * P, -1)
    assert Z @ stream.metric @ Z == pytest.approx(2 * P, rel=1e-9)
    assert np.linalg.eigvalsh(stream.metric)[0] > 0


def test_small_rates_agree_with_lego():
    rng = np.random.default_rng(3)
    X, pairs = rng.normal(size=(20, 3)), np.array([rng.choice(20, 2, replace=False) for _ in range(50)])
    given = (X, pairs, rng.exponential(2.0, 50), rng.integers(-1, 2, 50))
    moved = []
    for rate in (1e-5, 1e-6):
        one, other = sm.ITMLStream(3, rate).partial_fit(*given), sm.LEGOStream(3, rate).partial_fit(*given)
        moved.append(np.abs(one.metric - other.metric).max() / np.abs(one.metric - np.eye(3)).max())
    assert moved[0] < 0.02
    assert moved[1] == pytest.approx(0.1 * moved[0], rel=0.1)  # they part at second order


def test_stream_and_single_pairs_agree_and_stay_definite():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(50, 3))
    pairs = rng.integers(0, 50, (20_000, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    targets, sides = rng.exponential(3.0, len(pairs)), rng.integers(-1, 2, len(pairs))
    whole = sm.ITMLStream(3, 0.3).partial_fit(X, pairs, targets, sides)
    one = sm.ITMLStream(3, 0.3)
    for (a, b), y, side in zip(pairs[:100], targets, sides, strict=False):
        one.update(X[a], X[b], y, int(side))
    first = sm.ITMLStream(3, 0.3).partial_fit(X, pairs[:100], targets[:100], sides[:100])
    np.testing.assert_array_equal(one.components, first.components)
    assert np.linalg.eigvalsh(whole.metric)[0] > 0
    assert whole.drift() < 1e-8


def test_bad_input_gets_a_sentence():
    with pytest.raises(ValueError, match="learning_rate must be positive"):
        sm.ITMLStream(3, 0.0)
    with pytest.raises(ValueError, match="are equal"):
        sm.ITMLStream(3, 0.1).update(U, U, 1.0)
    with pytest.raises(ValueError, match="targets must be finite"):
        sm.ITMLStream(3, 0.1).partial_fit([U, V], [[0, 1]], -1.0)


def test_a_stream_as_a_problem_is_taken_by_itml_too():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(20, 3))
    pairs = np.array([rng.choice(20, 2, replace=False) for _ in range(50)])
    targets, sides = rng.uniform(0.5, 9.0, size=50), rng.choice([-1, 0, 1], size=50)
    problem = sm.LEGOProblem(X, pairs, targets, sides, learning_rate=0.03)
    solution = sm.solve(problem, solver="itml")
    stream = sm.ITMLStream(3, 0.03).partial_fit(X, pairs, targets, sides)
    np.testing.assert_allclose(solution.components, stream.components, rtol=1e-12)
    assert solution.objective == pytest.approx(stream.cumulative_loss, rel=1e-12)
    assert solution.lower_bound <= min(problem.objective(L) for L in (solution.components, np.eye(3), 0.5 * np.eye(3)))
    assert solution.certificate.kind == "regret"
    assert solution.certificate.regret_bound is None
    assert not solution.certificate.proves_optimal(1.0)
    assert not np.allclose(solution.components, sm.solve(problem).components)
