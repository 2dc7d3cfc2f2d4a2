"""The projected subgradient method: it proves its gap, its bookkeeping is right, and the paper's step stalls."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import make_instance, rounding
from sklearn.datasets import load_iris, load_wine
from sklearn.preprocessing import StandardScaler

import sdpmetric as sm
from sdpmetric.solvers.lmnn.active_set import ActiveSet
from sdpmetric.triplets.margins import slope_adjoint

KNOWN = {("iris", 0.5): 234.33451, ("iris", 0.3): 201.99893, ("wine", 0.5): 208.91116, ("wine", 0.3): 217.49151}


def standardised(name: str, push_weight: float, scale: float = 1.0) -> sm.LMNNProblem:
    X, y = (load_iris if name == "iris" else load_wine)(return_X_y=True)
    return sm.LMNNProblem.from_labels(scale * StandardScaler().fit_transform(X), y, 3, push_weight)


@pytest.mark.parametrize(("name", "push_weight"), KNOWN)
def test_proves_its_gap_at_known_optima(name: str, push_weight: float) -> None:
    solution = sm.solve(standardised(name, push_weight), solver="subgradient", tol=1e-3)
    assert solution.status is sm.Status.OPTIMAL
    assert solution.lower_bound <= KNOWN[name, push_weight] * (1 + 1e-7)
    assert solution.objective >= KNOWN[name, push_weight] * (1 - 1e-7)


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_the_scale_of_the_data_does_not_matter(scale: float) -> None:
    solution = sm.solve(standardised("wine", 0.3, scale), solver="subgradient", tol=1e-3)
    assert solution.status is sm.Status.OPTIMAL
    assert abs(solution.objective - KNOWN["wine", 0.3]) <= 1e-3 * KNOWN["wine", 0.3]


@pytest.mark.parametrize("kind", ["plain", "listed", "duplicates"])
def test_every_watched_bound_is_below_the_optimum(kind: str) -> None:
    problem = make_instance(kind, 5).problem
    optimum = sm.solve(problem, solver="conic").objective
    solution = sm.solve(problem, solver="subgradient", tol=1e-3)
    bounds = solution.trace["lower_bound"]
    assert bounds.max() <= optimum + rounding(optimum)
    assert np.all(np.diff(bounds) >= 0)
    objectives = solution.trace["objective"]
    assert objectives[np.isfinite(objectives)].min() >= optimum - 1e-6 * optimum


def test_incremental_gradient_is_the_gradient_from_scratch() -> None:
    """Weinberger and Saul 2009, Eq. 19 against the gradient below Eq. 18."""
    problem = make_instance("plain", 2).problem
    rng = np.random.default_rng(0)
    active = ActiveSet(problem)
    L = rng.normal(size=(2, problem.coordinates.rank)) * 4
    active.evaluate(problem.points @ L.T, search=True)
    for _ in range(12):
        L = L + 0.2 * rng.normal(size=L.shape)
        active.evaluate(problem.points @ L.T)
        scratch = slope_adjoint(problem.points, active.candidates, active.slopes)
        assert np.abs(active.pushed - scratch).max() <= 1e-10 * max(1.0, np.abs(scratch).max())
    active.evaluate(problem.points @ L.T, search=True)
    T = problem.coordinates.range
    whole = problem.subgradient(problem.lift(L))
    assert np.abs(T.T @ whole @ T - (np.eye(len(L.T)) - active.pushed)).max() <= 1e-9


def test_kept_multipliers_do_not_change_with_the_metric() -> None:
    """The twin of a bug: a kept matrix that moves with the metric proves too much."""
    problem = make_instance("plain", 2).problem
    rng = np.random.default_rng(1)
    active = ActiveSet(problem)
    L = rng.normal(size=(2, problem.coordinates.rank)) * 4
    active.evaluate(problem.points @ L.T, search=True)
    kept, before = active.pushed, active.pushed.copy()
    active.evaluate(problem.points @ (0.5 * L).T)
    assert np.abs(active.pushed - before).max() > 0  # the metric did move it
    assert np.array_equal(kept, before)


def test_the_step_of_the_paper_stalls_above_the_optimum() -> None:
    problem = standardised("wine", 0.5)
    solution = sm.solve(problem, solver="subgradient", step="paper", tol=1e-6, max_iter=3000)
    steps = solution.trace["step"]
    assert steps[-1] < 1e-8 * np.nanmax(steps)
    assert solution.objective > KNOWN["wine", 0.5] * (1 + 1e-5)
    assert solution.status is not sm.Status.OPTIMAL


@pytest.mark.parametrize("kind", ["wide", "pure", "line", "constant"])
def test_null_directions_and_degenerate_data(kind: str) -> None:
    solution = sm.solve(make_instance(kind, 4).problem, solver="subgradient", tol=1e-2)
    assert solution.status is sm.Status.OPTIMAL


def test_ridge_with_all_the_weight_on_the_push() -> None:
    X, y = load_iris(return_X_y=True)
    problem = sm.LMNNProblem.from_labels(X[::2], y[::2], 2, 1.0, ridge=3.0)
    solution, exact = sm.solve(problem, solver="subgradient", tol=1e-2), sm.solve(problem, solver="conic")
    assert solution.status is sm.Status.OPTIMAL
    assert solution.lower_bound <= exact.objective + rounding(exact.objective)


def test_squared_hinge_has_a_valid_bound() -> None:
    problem = make_instance("plain", 6, loss="squared_hinge").problem
    solution = sm.solve(problem, solver="subgradient", tol=1e-2, max_iter=3000)
    exact = sm.solve(problem, solver="conic")
    assert solution.lower_bound <= exact.objective + rounding(exact.objective)
    assert exact.lower_bound <= solution.objective + rounding(solution.objective)


def test_the_iteration_limit_is_kept_and_the_best_point_so_far_returned() -> None:
    problem = standardised("wine", 0.3)
    solution = sm.solve(problem, solver="subgradient", tol=1e-3, max_iter=47)
    assert solution.status is sm.Status.USER_LIMIT
    assert solution.n_iter == 47
    reported = solution.trace["objective"]
    assert solution.objective == pytest.approx(reported[np.isfinite(reported)].min(), rel=1e-9)
    assert 0.5 * KNOWN["wine", 0.3] < solution.lower_bound <= KNOWN["wine", 0.3]


def test_a_start_is_kept_and_only_rescaled() -> None:
    """One iteration evaluates the start: a good metric costs what it costs, and a tenth of it is scaled back."""
    problem = standardised("iris", 0.3)
    L = sm.solve(problem, solver="subgradient", tol=1e-3).components
    for factor, allowed in ((1.0, 1e-9), (0.1, 1e-2)):
        first = sm.solve(problem, solver="subgradient", start=factor * L, max_iter=1)
        assert first.objective == pytest.approx(problem.objective(L), rel=allowed)
    turned = sm.solve(problem, solver="subgradient", start=np.zeros((1, 4)), tol=1e-3)
    assert turned.status is sm.Status.OPTIMAL


def test_single_precision_data_are_proven_as_returned() -> None:
    X, y = load_wine(return_X_y=True)
    problem = sm.LMNNProblem.from_labels(StandardScaler().fit_transform(X).astype(np.float32), y, 3, 0.3)
    solution = sm.solve(problem, solver="subgradient", tol=1e-3)
    assert solution.components.dtype == np.float32
    assert solution.status is sm.Status.OPTIMAL
    assert solution.objective == problem.objective(solution.components)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [({"step": "newton"}, "step must be 'polyak' or 'paper'"), ({"check_every": 0}, "check_every must be a positive")],
)
def test_bad_options(options: dict, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        sm.solve(standardised("iris", 0.3), solver="subgradient", **options)
