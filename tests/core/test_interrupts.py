"""An interruption ends a solve with a certified point, wherever it comes; a second one ends it at once."""

import logging
import re
import sys
import time

import numba as nb
import numpy as np
import pytest
from numba.core import event
from statements import EXAMPLES, TOLERANCES, entry_of, make

import sdpmetric as sm
from sdpmetric.cli.results import Compiled
from sdpmetric.core.printer import LOGGER, Printer, say
from sdpmetric.core.run import Run
from sdpmetric.core.status import Status
from sdpmetric.core.steps import Budget, Step
from sdpmetric.core.trace import TraceRow

# Of the calls that an undisturbed solve makes, after which it is interrupted.
SHARES = (0.03, 0.5, 0.97)


class Interrupt:
    """Ctrl-C at the n-th call in this package, once; `inside` says whether `Run.over` guarded its work."""

    def __init__(self, seconds: float) -> None:
        self.calls, self.at, self.inside = 0, seconds, False

    def __call__(self, frame, event, argument):
        if event == "call" and frame.f_globals.get("__name__", "").startswith("sdpmetric"):
            self.calls += 1
            if self.calls == self.at:
                while frame.f_back is not None:
                    frame = frame.f_back
                    self.inside = self.inside or frame.f_code is Run.over.__code__
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
        certificate = sm.certify(make(name), solution.components)
        assert certificate.objective == pytest.approx(solution.objective, rel=1e-9, abs=1e-9)
    ended = solution.status is Status.INTERRUPTED or solution.certificate.settles(tol)
    assert ended or not interrupt.inside


@pytest.mark.parametrize(("name", "solver"), [("lmnn", "factored"), ("frml", "riemannian")])
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

    def slow(self, *arguments, **options):
        begun.append(1)
        if len(begun) <= times:
            raise KeyboardInterrupt
        return certify(self, *arguments, **options)

    monkeypatch.setattr(type(problem), "certify", slow)
    steps = iter([Step(0.1 * np.eye(3)[:2])])
    if times == 2:
        with pytest.raises(KeyboardInterrupt):
            Run(problem, Budget(), 1e-3).over(steps)
        return
    solution = Run(problem, Budget(), 1e-3).over(steps)
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


def test_too_little_memory_for_a_certificate_leaves_a_point_that_has_one(monkeypatch):
    problem = make("lmnn")
    good, certify = problem.lift(np.eye(3)), type(problem).certify
    first = Step.certified(problem, good)

    def steps():
        yield first
        yield Step(2.0 * good, objective=first.objective)

    def small(self, components=None, **options):
        if components is not None and np.array_equal(components, 2.0 * good):
            raise MemoryError
        return certify(self, components, **options)

    monkeypatch.setattr(type(problem), "certify", small)
    solution = Run(problem, Budget(), 1e-9).over(steps())
    assert np.array_equal(solution.components, good)
    assert solution.status is Status.USER_LIMIT
    assert "memory" in solution.status.advice


LIMIT = 1000.0
# Readings before the clock jumps, and how many may come after that: compiled loops read it when they begin.
JUMPS, READINGS = (2, 40), 120


class Clock:
    """The time stands still, and is far beyond the limit from the k-th reading on."""

    def __init__(self, jump: int) -> None:
        self.readings, self.jump = 0, jump

    def __call__(self) -> float:
        self.readings += 1
        return 0.0 if self.readings <= self.jump else 10.0 * LIMIT


@pytest.mark.parametrize(("name", "solver"), EXAMPLES)
def test_every_solver_ends_soon_after_its_limit(name, solver, monkeypatch):
    for jump in JUMPS:
        problem, clock = make(name), Clock(jump)
        with monkeypatch.context() as patch:
            patch.setattr(time, "perf_counter", clock)
            solution = sm.solve(problem, solver, tol=1e-12, max_time=LIMIT)
        assert clock.readings - jump <= READINGS, f"{clock.readings - jump} readings after the limit, jump {jump}"
        assert not np.isnan(solution.objective)


@pytest.mark.parametrize(("module", "moves"), [("sdpmetric.linalg.pair_loops", 1), ("numba.np.linalg", 0)])
def test_compilation_of_each_loop_of_the_package_is_seen_once(module, moves):
    advanced = []

    def double(x):
        return 2 * x

    double.__module__ = module
    loop = nb.njit(double)
    with event.install_listener("numba:compile", Compiled(lambda: advanced.append(1))):
        loop(1)
        loop(2)
    loop(1.5)  # compiled again, but no longer watched
    assert len(advanced) == moves


def lines(*rows, **options):
    written = []
    printer = Printer(written.append, interval=0.0, **options)
    for row in rows:
        printer(row)
    return written


def test_the_time_left_is_extrapolated_from_the_rate_of_the_gap():
    rows = [TraceRow(k, 10.0 * k, 1.0, 1.0 - 10.0**-k) for k in range(5)]
    written = lines(*rows, TraceRow(5, 42.0, 1.0, 0.0), TraceRow(6, 99.0, 1.0, 0.0), tol=1e-5)[1:]
    estimates = [re.findall(r"(\d+) s left$", line) for line in written[1:]]
    assert estimates == [[str(s)] for s in (40, 30, 20, 10, 8)] + [[]]
    assert max(map(len, written)) <= 80
    assert "left" not in "".join([written[0], *lines(*rows)])


def test_lines_go_to_logging_where_it_is_configured_else_to_standard_error(caplog, capsys, monkeypatch):
    with caplog.at_level(logging.INFO, logger="sdpmetric"):
        say("one line")
    assert [(record.name, record.message) for record in caplog.records] == [("sdpmetric", "one line")]
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(LOGGER, "handlers", [])
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    say("one line")
    assert capsys.readouterr() == ("", "one line\n")
