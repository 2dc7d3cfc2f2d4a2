"""The verbs: solve, verify, compare; limits, interruption, and the sentences of their errors."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from instances import rounding

import sdpmetric as sm


@pytest.fixture(scope="module")
def problem() -> sm.LMNNProblem:
    rng = np.random.default_rng(3)
    y = rng.choice(3, 80, p=[0.5, 0.3, 0.2])
    return sm.LMNNProblem.from_labels(rng.normal(size=(80, 5)) + 0.8 * np.outer(y, [1, 0, 1, 0, 0]), y, 2, 0.3)


@pytest.fixture(scope="module")
def exact(problem: sm.LMNNProblem) -> sm.Solution:
    return sm.solve(problem, solver="conic")


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({"solver": "simplex"}, ValueError, "unknown solver 'simplex'; choose one of 'auto', 'factored'"),
        ({"stepp": "paper"}, TypeError, "does not take stepp; its options are"),
        ({"solver": "conic", "step": "paper"}, TypeError, "solver 'conic' does not take step"),
        ({"tol": 0.0}, ValueError, "tol must be a positive relative gap"),
        ({"max_time": -1.0}, ValueError, "max_time must be positive"),
        ({"max_iter": 0}, ValueError, "max_iter must be a positive integer"),
        ({"init": np.eye(3)}, ValueError, "init must have shape"),
        ({"random_state": "a"}, ValueError, "random_state must be an integer of at least 0, got 'a'"),
        ({"random_state": -1}, ValueError, "random_state must be an integer of at least 0, got -1"),
    ],
)
def test_errors_are_sentences(problem: sm.LMNNProblem, options: dict, error: type, sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        sm.solve(problem, **options)


@pytest.mark.parametrize("given", [None, np.eye(3), sm.LMNNProblem])
def test_what_is_no_problem_is_refused_by_every_verb(given: object) -> None:
    for verb in (sm.certify, sm.verify, sm.path, sm.to_cvxpy):
        with pytest.raises(TypeError, match=f"{verb.__name__} takes a problem.*got {type(given).__name__}"):
            verb(given)


def test_what_is_no_estimator_is_named(problem: sm.LMNNProblem) -> None:
    with pytest.raises(TypeError, match="estimator must be fitted, with components_ or an affine transform, got str"):
        sm.verify(problem, estimator="LMNN")


@pytest.mark.parametrize("solver", ["factored", "subgradient", "conic"])
def test_interruption_returns_the_best_certified_point(
    problem: sm.LMNNProblem, exact: sm.Solution, solver: str
) -> None:
    calls = 0

    def interrupt(row: sm.TraceRow) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise KeyboardInterrupt

    solution = sm.solve(problem, solver=solver, tol=1e-12, callback=interrupt)
    assert solution.status in (sm.Status.INTERRUPTED, sm.Status.OPTIMAL)
    assert len(solution.trace) == calls
    assert solution.objective == pytest.approx(problem.objective(solution.components), rel=1e-9)
    assert solution.lower_bound <= exact.objective + rounding(exact.objective)


@pytest.mark.parametrize("solver", ["factored", "subgradient"])
def test_time_limit_and_callback_stop_with_a_certificate(problem: sm.LMNNProblem, solver: str) -> None:
    late = sm.solve(problem, solver=solver, tol=1e-14, max_time=0.05)
    assert late.status is not sm.Status.OPTIMAL
    assert 0 <= late.lower_bound <= late.objective
    told = sm.solve(problem, solver=solver, tol=1e-14, callback=lambda row: True)
    assert told.status is sm.Status.USER_LIMIT
    assert len(told.trace) == 1


def test_progress_is_logged_only_when_asked(problem: sm.LMNNProblem, caplog: pytest.LogCaptureFixture) -> None:
    sm.solve(problem)
    assert not caplog.messages
    solution = sm.solve(problem, verbose=True)
    assert "lower bound" in caplog.messages[0]
    assert caplog.messages[-1] == str(solution)
    assert " inf" not in caplog.text


def test_single_precision_is_certified_as_it_is_returned(problem: sm.LMNNProblem) -> None:
    single = sm.LMNNProblem(problem.X.astype(np.float32), problem.source, problem.push_weight)
    solution = sm.solve(single, tol=1e-3)
    assert solution.components.dtype == solution.metric.dtype == np.float32
    assert solution.objective == pytest.approx(single.objective(solution.components), rel=1e-11)  # rounded upwards
    assert solution.status is sm.Status.OPTIMAL


def test_verify_judges_any_metric(problem: sm.LMNNProblem, exact: sm.Solution) -> None:
    tol = 1e-3
    poor = sm.verify(problem, components=np.eye(5), tol=tol)
    assert poor.objective == pytest.approx(problem.objective(np.eye(5)))
    assert exact.objective * (1 - 2 * tol) <= poor.lower_bound <= exact.objective + rounding(exact.objective)
    same = sm.verify(problem, metric=np.eye(5), tol=tol)
    fitted = sm.verify(problem, estimator=SimpleNamespace(components_=np.eye(5)), tol=tol)
    assert same.objective == pytest.approx(poor.objective) == pytest.approx(fitted.objective)
    good = sm.verify(problem, components=exact.components, tol=tol)
    assert good.proves_optimal(tol)


def test_verify_rescales_in_favour(problem: sm.LMNNProblem) -> None:
    shrunk = 1e-3 * np.eye(5)
    plain, rescaled = (sm.verify(problem, components=shrunk, rescale=again) for again in (False, True))
    assert rescaled.objective < plain.objective
    assert "multiplied by" in rescaled.program
    best = min(problem.objective(s * np.eye(5)) for s in np.geomspace(0.05, 2, 60))
    assert rescaled.objective <= best * (1 + 1e-3)


def test_verify_takes_exactly_one_metric(problem: sm.LMNNProblem) -> None:
    with pytest.raises(ValueError, match="exactly one"):
        sm.verify(problem)
    with pytest.raises(ValueError, match="exactly one"):
        sm.verify(problem, components=np.eye(5), estimator=SimpleNamespace(components_=np.eye(5)))


def test_comparison_reads_well(problem: sm.LMNNProblem, exact: sm.Solution) -> None:
    comparison = sm.compare(exact, sm.solve(problem))
    text = str(comparison)
    assert "conic" in text
    assert "factored" in text
    assert comparison.verdict.startswith("Proven: the optimum lies between")
    assert comparison._repr_html_().count("<tr>") == 3
    with pytest.raises(ValueError, match="at least one"):
        sm.compare()
    other = sm.solve(problem.with_weights(push_weight=0.4))
    with pytest.raises(ValueError, match="different problems"):
        sm.compare(exact, other)


def test_import_does_no_work() -> None:
    import subprocess
    import sys

    code = "import sdpmetric, logging, warnings; assert not logging.getLogger('sdpmetric').handlers"
    done = subprocess.run([sys.executable, "-W", "error::UserWarning", "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
