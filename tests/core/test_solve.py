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


def test_a_callback_may_end_a_solve(problem):
    ended_early = sm.solve(problem, tol=1e-14, callback=lambda row: True)
    assert ended_early.status is sm.Status.USER_LIMIT
    assert len(ended_early.trace) == 1
