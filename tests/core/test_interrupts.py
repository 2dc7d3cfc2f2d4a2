"""Interruptions and limits leave a certified point, wherever they come; a second interruption ends a solve at once."""

import logging
import sys
import time
import warnings
from inspect import unwrap

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning
from statements import EXAMPLES, TOLERANCES, entry_of, make

import sdpmetric as sm
from sdpmetric import estimators
from sdpmetric.core.printer import LOGGER, Printer, say
from sdpmetric.core.run import Run
from sdpmetric.core.status import Status
from sdpmetric.core.steps import Budget, Step, TraceRow
from sdpmetric.engine import threads
from sdpmetric.lmnn import impostors
from sdpmetric.lmnn.impostors import SearchOptions
from sdpmetric.programs import atoms

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
                    self.inside = self.inside or frame.f_code is unwrap(Run.over).__code__
                raise KeyboardInterrupt

    def __enter__(self):
        self.before = sys.getprofile()
        sys.setprofile(self)
        return self

    def __exit__(self, *error):
        sys.setprofile(self.before)


@pytest.mark.parametrize(
    ("name", "solver"),
    [
        pytest.param(*row, marks=() if row in (("lmnn", "factored"), ("frml", "riemannian")) else pytest.mark.slow)
        for row in EXAMPLES
    ],
)
@pytest.mark.parametrize("share", SHARES)
def test_an_interruption_at_any_call_leaves_a_certified_point(name, solver, share):
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


LIMIT = 1000.0
# Readings of the clock before it jumps.
JUMPS = (2, 40)


class Clock:
    """The time stands still, and is far beyond the limit from the k-th reading on."""

    def __init__(self, jump: int) -> None:
        self.readings, self.jump = 0, jump

    def __call__(self) -> float:
        self.readings += 1
        return 0.0 if self.readings <= self.jump else 10.0 * LIMIT


@pytest.mark.parametrize(("name", "solver"), EXAMPLES)
def test_every_solver_ends_with_one_certificate_of_a_metric_after_its_limit(name, solver, monkeypatch):
    for jump in JUMPS:
        problem, clock, finished = make(name), Clock(jump), []
        certify = type(problem).certify

        def counted(self, *given, stated=problem, certify=certify, clock=clock, finished=finished, **options):
            has_jumped = clock.readings > clock.jump
            certificate = certify(self, *given, **options)
            if has_jumped and self is stated:
                finished.append(certificate)
            return certificate

        with monkeypatch.context() as patch:
            patch.setattr(time, "perf_counter", clock)
            patch.setattr(type(problem), "certify", counted)
            solution = sm.solve(problem, solver, tol=1e-12, max_time=LIMIT)
        kind, is_hard = solution.certificate.kind, name == "pola, hard"
        assert kind in ("regret", "infeasibility") or solution.components.any() or solution.status.ok
        assert is_hard or np.isfinite(solution.objective)
        assert len(finished) <= 1 + is_hard


def test_a_limit_returns_the_best_evaluated_metric_and_not_the_zero_metric():
    problem = make("mlkr")
    worse, better = (Step(L, objective=problem.objective(L)) for L in (3.0 * np.eye(3), np.eye(3)))
    zero = Step(problem.zero, objective=0.5 * better.objective)

    def steps(*before):
        yield from before
        raise threads.BudgetSpent

    assert better.objective < worse.objective
    for before, best in (((zero,), problem.start), ((zero, worse, better), better.components), ((), problem.start)):
        solution = Run(problem, Budget(), 1e-9).over(steps(*before))
        assert np.array_equal(solution.components, best)
        assert solution.status is Status.USER_LIMIT


def test_an_estimate_that_closes_the_gap_ends_a_solve_only_if_a_certificate_does():
    problem = make("lmnn")
    optimum = sm.solve(problem)
    claimed = Step(2.0 * problem.lift(np.eye(3)), objective=1e-3, lower_bound=1e-3)
    proven = Step.certified(problem, optimum.components, optimum.dual)
    remaining = iter([claimed, proven, claimed])
    solution = Run(problem, Budget(), 1e-3).over(remaining)
    assert (list(remaining), solution.status) == ([claimed], Status.OPTIMAL)
    assert solution.objective == pytest.approx(optimum.objective, rel=1e-9)
    alone = Run(problem, Budget(), 1e-3).over(iter([claimed]))
    assert (alone.status, alone.objective > optimum.objective) == (Status.STALLED, True)


def test_a_line_of_progress_fits_a_terminal_and_shows_the_best_objective_and_bound_so_far():
    written = []
    printer = Printer(written.append, interval=0.0)
    for row in (TraceRow(1, 0.0, 1.0, 0.5), TraceRow(2, 1.0, 2.0, 0.75), TraceRow(3, 2.0, np.inf, -np.inf)):
        printer(row)
    assert [line.split()[4] for line in written[1:]] == ["5.00e-01", "2.50e-01"]
    assert max(map(len, written)) <= 80


def test_lines_go_to_logging_where_it_is_configured_else_to_standard_error(caplog, capsys, monkeypatch):
    with caplog.at_level(logging.INFO, logger="sdpmetric"):
        say("one line")
    assert [(record.name, record.message) for record in caplog.records] == [("sdpmetric", "one line")]
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(LOGGER, "handlers", [])
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    say("one line")
    assert capsys.readouterr() == ("", "one line\n")


def separated(n: int) -> sm.LMNNProblem:
    return sm.LMNNProblem.from_labels(*make_blobs(n, 20, centers=10, random_state=0)[:2])


def test_more_active_triplets_than_the_cap_end_with_a_certified_point(monkeypatch: pytest.MonkeyPatch) -> None:
    """With two classes at one place, no metric separates them: the anchors are fewer, and no bound is claimed."""
    monkeypatch.setattr(impostors, "OPTIONS", SearchOptions(fewest_pairs=250, pairs_per_target_pair=1))
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(120, 4)), np.repeat([0, 1], 60)
    X[:36], X[60:96] = 0.0, 0.0
    problem = sm.LMNNProblem.from_labels(X, y)
    solution = sm.solve(problem, solver="factored", max_time=1)
    reference = sm.solve(sm.LMNNProblem.from_labels(X, y), solver="conic", tol=1e-4)
    assert solution.lower_bound <= reference.objective * (1 + 1e-6)
    assert solution.objective >= reference.lower_bound * (1 - 1e-6)
    assert problem.certify(solution.components).objective == pytest.approx(solution.objective, rel=1e-9)


def test_a_program_larger_than_the_memory_is_not_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atoms, "memory_size", lambda: 1e5)
    with pytest.raises(MemoryError, match="GiB, and there are"):
        sm.to_cvxpy(separated(60))
    solution = sm.solve(separated(60), "conic")
    assert solution.status is Status.USER_LIMIT
    assert solution.components.any()


def test_a_limit_that_leaves_the_start_does_not_blame_the_weights():
    rng = np.random.default_rng(0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        learner = estimators.LMNN(max_time=1e-6).fit(rng.normal(size=(3000, 12)), np.arange(3000) % 5)
    assert learner.components_.any()
    assert [warning.category for warning in caught] == [ConvergenceWarning]


@pytest.mark.parametrize("name", ["frml", "nca", "mlkr"])
def test_the_zero_metric_needs_no_pass_over_all_pairs(name):
    """What is returned where time is short costs what nearly equal examples cost."""
    problem = make(name)
    zero, near = (problem.certify(factor) for factor in (problem.zero, 1e-12 * np.eye(3)[: len(problem.zero) or 2]))
    assert zero.objective == pytest.approx(near.objective, rel=1e-9)
    assert zero.n_active == near.n_active
