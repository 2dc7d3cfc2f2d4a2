"""LEGO's corrected theorem holds on streams, its comparator is proven, and its certificates are valid."""

import math

import numpy as np
import pytest
from instances import rounding
from lego_streams import divergence, make_stream, run
from seeds import blocks

import sdpmetric as sm


def check_theorem(problem):
    """The corrected Theorem 2.2 with the exact comparator; the share of its allowance that was lost."""
    stream, eta, reach = run(problem), problem.learning_rate, run(problem).reach
    batch = sm.LEGOBatchProblem(problem)
    exact = sm.solve(batch, tol=1e-6)
    assert exact.status is sm.Status.OPTIMAL
    A = exact.metric
    expected = divergence(A, problem.prior) + eta * problem.objective(metric=A)
    assert exact.objective == pytest.approx(expected, rel=1e-6, abs=1e-9)
    allowed = problem.allowance(reach, metric=A)
    assert allowed == pytest.approx((1 / eta + reach) * expected, rel=1e-6, abs=1e-9)
    assert stream.cumulative_loss <= allowed + rounding(allowed)
    # The paper's constants, with R the largest of targets and predictions, allow more.
    R = math.sqrt(reach)
    assert 1 / eta + reach <= 1 / eta + (R / 2 + math.sqrt(R**2 / 4 + 1 / eta)) ** 2
    solution = sm.solve(problem)
    certificate = sm.regret(problem, solution)
    assert certificate.objective == pytest.approx(stream.cumulative_loss, rel=1e-12)
    assert certificate.objective <= certificate.regret_bound + rounding(certificate.regret_bound)
    assert certificate.regret_bound <= solution.certificate.regret_bound * (1 + 1e-6)
    assert certificate.regret_bound >= (1 / eta + reach) * exact.lower_bound * (1 - 1e-9)  # none is tighter
    assert certificate.kind == "regret"
    assert not certificate.proves_optimal(1.0)
    return stream.cumulative_loss / max(allowed, 1e-300)


@pytest.mark.parametrize("seed", range(4))
def test_corrected_theorem_holds(seed):
    assert check_theorem(make_stream(seed)) <= 1.0 + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("seeds", blocks(1000, 1200), ids=str)
def test_corrected_theorem_holds_at_length(seeds):
    for seed in seeds:
        assert check_theorem(make_stream(seed)) <= 1.0 + 1e-9, seed


def test_a_lower_bound_that_is_positive():
    """One pair is to be at least 4 and at most 1 apart: 1/2 (x - 4)^2 + 1/2 (x - 1)^2 is 2.25 at best."""
    problem = sm.LEGOProblem([[0.0], [1.0]], [[0, 1], [1, 0]], [4.0, 1.0], [-1, 1], 0.3)
    certificate = problem.certify(metric=[[2.5]])
    assert certificate.objective == pytest.approx(2.25, rel=1e-12)
    assert certificate.lower_bound == pytest.approx(2.25, rel=1e-9)
    assert problem.certify(metric=[[1.0]], dual=[-2.0, 1.0]).lower_bound <= 2.25
    solution = sm.solve(problem)
    assert 0.0 < solution.lower_bound <= 2.25 * (1 + 1e-9)


def test_solve_takes_the_stream_once():
    problem = make_stream(4, d=3, p=60)
    solution = sm.solve(problem)
    stream = run(problem)
    assert solution.status is sm.Status.STREAM_ENDED
    assert solution.certificate.kind == "regret"
    assert not solution.certificate.proves_optimal(1.0)
    np.testing.assert_array_equal(solution.components, stream.components)
    assert solution.objective == stream.cumulative_loss
    assert solution.n_iter == 60
    assert (np.diff(solution.trace["objective"]) >= 0).all()
    assert "regret" in str(solution)
    truncated = sm.solve(problem, max_iter=25)
    assert truncated.status is sm.Status.USER_LIMIT
    assert truncated.n_iter == 25
    first = run(problem.head(25))
    np.testing.assert_array_equal(truncated.components, first.components)
    assert truncated.objective == first.cumulative_loss
    assert truncated.certificate.regret_bound >= truncated.objective
    tiny = sm.solve(problem, max_time=1e-9)
    assert tiny.status is sm.Status.USER_LIMIT
    assert tiny.objective == 0.0


def test_reach_counts_targets_beyond_the_distance():
    """With p^2 in place of p max(p, y) the allowance would be 1.9, and 49 is lost."""
    problem = sm.LEGOProblem([[0.0], [math.sqrt(0.1)]], [[0, 1]], 10.0, None, 100.0)
    stream = run(problem)
    assert stream.reach == pytest.approx(1.0, rel=1e-12)
    assert check_theorem(problem) <= 1.0
    best = sm.solve(sm.LEGOBatchProblem(problem)).components
    assert problem.allowance(0.1**2, best) < 2.0 < 49.0 < stream.cumulative_loss
