"""An interruption ends a solve with a certified point, wherever it comes; a second one ends it at once."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from test_contract import EXAMPLES, TOLERANCES, data, entry_of, make

import sdpmetric as sm
from sdpmetric.core.run import Budget, Step, run
from sdpmetric.core.status import Status

# Of the calls that an undisturbed solve makes, after which it is interrupted.
SHARES = (0.03, 0.2, 0.5, 0.8, 0.97)


class Interrupt:
    """Ctrl-C at the n-th call of a function of this package, once; `inside` says whether `run` was at work."""

    def __init__(self, at: float) -> None:
        self.calls, self.at, self.inside = 0, at, False

    def __call__(self, frame, event, argument):
        if event == "call" and frame.f_globals.get("__name__", "").startswith("sdpmetric"):
            self.calls += 1
            if self.calls == self.at:
                while frame is not None:
                    self.inside = self.inside or frame.f_code is run.__code__
                    frame = frame.f_back
                raise KeyboardInterrupt

    def __enter__(self):
        self.before = sys.getprofile()
        sys.setprofile(self)
        return self

    def __exit__(self, *error):
        sys.setprofile(self.before)


def check(name, solver, share):
    tol = TOLERANCES.get(solver, entry_of(name, solver).tol)
    options = {"tol": tol, "max_iter": 200}
    with Interrupt(np.inf) as counted:
        sm.solve(make(name), solver, **options)
    problem = make(name)
    with Interrupt(max(1, int(share * counted.calls))) as interrupt:
        try:
            solution = sm.solve(problem, solver, **options)
        except KeyboardInterrupt:
            assert not interrupt.inside
            return
    assert not np.isnan(solution.objective)
    assert np.isfinite(solution.components).all()
    if solution.certificate.kind not in ("regret", "infeasibility"):
        again = sm.certify(make(name), solution.components)
        assert again.objective == pytest.approx(solution.objective, rel=1e-9, abs=1e-9)
    ended = solution.status is Status.INTERRUPTED or solution.certificate.settles(tol)
    assert ended or not interrupt.inside


@pytest.mark.parametrize(("name", "solver"), [("lmnn", "factored"), ("frml", "riemannian"), ("rca", "closed")])
@pytest.mark.parametrize("share", SHARES)
def test_an_interruption_at_any_call_leaves_a_certified_point(name, solver, share):
    check(name, solver, share)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "solver"), EXAMPLES)
def test_an_interruption_at_any_call_of_any_solver_leaves_a_certified_point(name, solver):
    for share in SHARES:
        check(name, solver, share)


@pytest.mark.parametrize("times", [1, 2])
def test_an_interruption_of_the_certificate_begins_it_again_and_a_second_one_ends_at_once(times, monkeypatch):
    problem, begun = make("frml"), []
    certify = type(problem).certify

    def slow(self, *given, **options):
        begun.append(1)
        if len(begun) <= times:
            raise KeyboardInterrupt
        return certify(self, *given, **options)

    monkeypatch.setattr(type(problem), "certify", slow)
    steps = iter([Step(0.1 * np.eye(3)[:2])])
    if times == 2:
        with pytest.raises(KeyboardInterrupt):
            run(problem, steps, Budget(), solver="none", tol=1e-3)
        return
    solution = run(problem, steps, Budget(), solver="none", tol=1e-3)
    assert solution.components.any()
    assert solution.status is Status.INTERRUPTED


def test_a_path_ends_at_the_solve_that_is_interrupted(monkeypatch):
    steps = Budget.spend

    def spend(self, iterations=1):
        steps(self, iterations)
        raise KeyboardInterrupt

    monkeypatch.setattr(Budget, "spend", spend)
    solutions = sm.path(make("lmnn"), push_weight=[0.3, 0.5, 0.7])
    assert [s.status for s in solutions] == [Status.INTERRUPTED]
    assert np.isfinite(solutions[0].objective)


def test_a_bound_on_the_rank_ends_after_an_interruption_of_the_full_solve(monkeypatch):
    seen = []

    def interrupt(row):
        seen.append(row)
        raise KeyboardInterrupt

    X, y = data()
    solution = sm.solve(sm.LMNNProblem.from_labels(X, y, 2), n_components=1, callback=interrupt)
    assert solution.status is Status.INTERRUPTED
    assert len(solution.components) == 1
    assert np.isfinite(solution.objective)


def test_too_little_memory_leaves_the_best_certified_point():
    problem = make("lmnn")
    good = problem.lift(np.eye(3))

    def steps():
        yield Step.certified(problem, good)
        raise MemoryError("Unable to allocate 1.8 GiB")

    solution = run(problem, steps(), Budget(), solver="none", tol=1e-9)
    assert solution.objective == problem.certify(good).objective
    assert solution.status is Status.USER_LIMIT
    assert "memory" in solution.status.advice


def test_too_little_memory_for_a_certificate_leaves_a_point_that_has_one(monkeypatch):
    problem = make("lmnn")
    good, certify = problem.lift(np.eye(3)), type(problem).certify
    first = Step.certified(problem, good)

    def steps():
        yield first
        yield Step(2.0 * good, first.objective)

    def small(self, components=None, **options):
        if components is not None and np.array_equal(components, 2.0 * good):
            raise MemoryError
        return certify(self, components, **options)

    monkeypatch.setattr(type(problem), "certify", small)
    solution = run(problem, steps(), Budget(), solver="none", tol=1e-9)
    assert np.array_equal(solution.components, good)
    assert solution.status is Status.USER_LIMIT
