"""Early stopping in the one loop: the best score along the way is kept, with the certificate of that very metric."""

from __future__ import annotations

import numpy as np
import pytest
from instances import rounding

import sdpmetric as sm


@pytest.fixture(scope="module")
def problem() -> sm.LMNNProblem:
    rng = np.random.default_rng(5)
    y = rng.choice(3, 70, p=[0.5, 0.3, 0.2])
    return sm.LMNNProblem.from_labels(rng.normal(size=(70, 4)) + np.outer(y, [1, 0, 1, 0]), y, 2, 0.3)


def peak_at(index: int):
    """A score that is highest at one step, whatever the metric."""
    seen: list[np.ndarray] = []

    def score(components: np.ndarray) -> float:
        seen.append(components)
        return -abs(len(seen) - 1 - index)

    return score, seen


@pytest.mark.parametrize("solver", ["factored", "subgradient"])
def test_the_metric_with_the_best_score_is_kept_with_its_own_certificate(problem, solver):
    exact = sm.solve(problem, "conic")
    score, seen = peak_at(2)
    early = sm.solve(problem, solver, score=score, patience=2, tol=1e-12)
    np.testing.assert_array_equal(early.components, seen[2])
    assert early.status is sm.Status.STOPPED_EARLY
    assert len(seen) == 5  # the peak, and two steps that do not better it
    np.testing.assert_array_equal(early.trace["score"], [-2, -1, 0, -1, -2])
    own = problem.objective(early.components)
    assert early.objective == pytest.approx(own, abs=rounding(own))
    assert own > exact.objective + rounding(own)  # not the optimum, and it says so
    assert early.lower_bound <= exact.objective + rounding(own)
    assert early.relative_gap > 1e-12


def test_a_score_alone_is_written_down_and_changes_nothing(problem):
    plain = sm.solve(problem, tol=1e-3)
    score, seen = peak_at(1)
    scored = sm.solve(problem, tol=1e-3, score=score)
    np.testing.assert_array_equal(scored.components, plain.components)
    assert scored.status is sm.Status.OPTIMAL
    assert len(seen) == len(scored.trace)
    assert np.isnan(plain.trace["score"]).all()


def test_equal_scores_keep_the_latest_which_may_be_proven_optimal(problem):
    same = sm.solve(problem, tol=1e-3, score=lambda components: 0.5, patience=1000)
    assert same.status is sm.Status.OPTIMAL
    assert same.relative_gap <= 1e-3


def test_bounded_rank_is_stopped_early_too(problem):
    score, seen = peak_at(0)
    full = len(sm.solve(problem, score=score).trace)
    score, seen = peak_at(full)  # the first step of bounded rank
    bounded = sm.solve(problem, n_components=1, score=score, patience=1)
    assert bounded.components.shape == (1, 4)
    np.testing.assert_array_equal(bounded.components, seen[full])
    assert len(seen) == full + 2


@pytest.mark.parametrize("options", [{"patience": 3}, {"patience": 0, "score": len}, {"patience": True, "score": len}])
def test_patience_needs_a_score_and_a_positive_number(problem, options):
    with pytest.raises(ValueError, match="patience must be a positive number of steps, and needs score="):
        sm.solve(problem, **options)
