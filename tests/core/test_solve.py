"""The verbs: solve, verify, compare; limits, interruption, and the sentences of their errors."""

from types import SimpleNamespace

import numpy as np
import pytest
from instances import rounding

import sdpmetric as sm


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(3)
    y = rng.choice(3, 80, p=[0.5, 0.3, 0.2])
    return sm.LMNNProblem.from_labels(rng.normal(size=(80, 5)) + 0.8 * np.outer(y, [1, 0, 1, 0, 0]), y, 2, 0.3)


@pytest.fixture(scope="module")
def exact(problem):
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
        ({"max_iter": np.inf}, ValueError, "max_iter must be a positive integer or None"),
        ({"max_iter": 1.5}, ValueError, "max_iter must be a positive integer or None"),
        ({"callback": 3}, TypeError, "callback must be a function or None, got 3"),
        ({"score": 3}, TypeError, "score must be a function or None, got 3"),
        ({"init": np.eye(3)}, ValueError, "init must have shape"),
        ({"random_state": "a"}, ValueError, "random_state must be an integer of at least 0, got 'a'"),
        ({"random_state": -1}, ValueError, "random_state must be an integer of at least 0, got -1"),
    ],
)
def test_errors_are_sentences_before_any_work(problem, options, error, sentence, monkeypatch):
    monkeypatch.setattr(type(problem), "objective", None)
    with pytest.raises(error, match=sentence):
        sm.solve(problem, **options)


@pytest.mark.parametrize("value", [None, np.eye(3), sm.LMNNProblem])
def test_what_is_no_problem_is_refused_by_every_verb(value):
    for verb in (sm.certify, sm.verify, sm.path, sm.to_cvxpy):
        with pytest.raises(TypeError, match=f"{verb.__name__} takes a problem.*got {type(value).__name__}"):
            verb(value)


def test_progress_is_logged_only_when_asked(problem, caplog):
    sm.solve(problem)
    assert not caplog.messages
    solution = sm.solve(problem, verbose=True)
    assert "lower bound" in caplog.messages[0]
    assert caplog.messages[-1] == str(solution)
    assert " inf" not in caplog.text


def test_verify_judges_any_metric(problem, exact):
    tol, eye = 1e-3, np.eye(5)
    poor = sm.verify(problem, components=eye, tol=tol)
    assert poor.objective == pytest.approx(problem.objective(eye))
    assert exact.objective * (1 - 2 * tol) <= poor.lower_bound <= exact.objective + rounding(exact.objective)
    fitted = SimpleNamespace(components_=eye)
    for point in ({"metric": eye}, {"estimator": fitted}):
        assert sm.verify(problem, **point, tol=tol).objective == pytest.approx(poor.objective)
    assert sm.verify(problem, components=exact.components, tol=tol).proves_optimal(tol)
    rescaled = sm.verify(problem, components=1e-3 * eye, rescale=True)
    assert "multiplied by" in rescaled.program
    best = min(problem.objective(s * eye) for s in np.geomspace(0.05, 2, 60))
    assert rescaled.objective <= best * (1 + 1e-3)
    for point in ({}, {"components": eye, "estimator": fitted}):
        with pytest.raises(ValueError, match="exactly one"):
            sm.verify(problem, **point)
    with pytest.raises(TypeError, match="estimator must be fitted, with components_ or an affine transform, got str"):
        sm.verify(problem, estimator="LMNN")


def test_a_callback_may_end_a_solve(problem):
    ended_early = sm.solve(problem, tol=1e-14, callback=lambda row: True)
    assert ended_early.status is sm.Status.USER_LIMIT
    assert len(ended_early.trace) == 1
