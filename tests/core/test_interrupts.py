"""Interruptions and limits leave a certified point, wherever they come; a second interruption ends a solve at once."""

import logging
import re
import sys
import time
import warnings
from types import ModuleType

import cvxpy
import numba as nb
import numpy as np
import pytest
from numba.core import event
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning
from statements import EXAMPLES, TOLERANCES, entry_of, make

import sdpmetric as sm
from sdpmetric import estimators
from sdpmetric.cli.results import Compiled
from sdpmetric.core.printer import LOGGER, Printer, say
from sdpmetric.core.run import Run
from sdpmetric.core.status import Status
from sdpmetric.core.steps import Budget, Step
from sdpmetric.core.trace import TraceRow
from sdpmetric.engine import interface
from sdpmetric.lmnn.push import Push
from sdpmetric.lmnn.solvers.reduced_program import Reduction
from sdpmetric.lmnn.triplets import impostors
from sdpmetric.lmnn.triplets.impostors import SearchOptions
from sdpmetric.programs import atoms
from sdpmetric.programs.backend import Backend
from sdpmetric.sums import domains

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


def separated(n: int = 600, deviation: float = 1.0, **options: float) -> sm.LMNNProblem:
    X, y = make_blobs(n, 20, centers=10, cluster_std=deviation, random_state=0)[:2]
    return sm.LMNNProblem.from_labels(X, y, **options)


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


class PassingClock:
    """Time that passes only where a test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.monkeypatch = 0.0, monkeypatch
        monkeypatch.setattr(time, "perf_counter", lambda: self.now)

    def let_take(self, owner: type | ModuleType, name: str, *seconds: float) -> None:
        """Let a call take so long, the last of several numbers for all later ones, or up to the deadline."""
        method, durations = getattr(owner, name), list(seconds)

        def timed(*arguments: object, **options: object) -> object:
            self.now += min(
                durations.pop(0) if len(durations) > 1 else durations[0], max(interface.remaining() + 1e-6, 0.0)
            )
            interface.check_deadline()
            return method(*arguments, **options)

        self.monkeypatch.setattr(owner, name, timed)


def all_pairs(n: int, d: int) -> sm.MetricProblem:
    pairs = np.argwhere(np.triu(np.ones((n, n)), 1))
    return sm.MetricProblem(make_blobs(n, d, random_state=0)[0], sm.terms.Pull(pairs))


def roots(problem: sm.MetricProblem) -> None:
    problem.dual.slack.coordinates(np.ones(len(problem.total.pairs)), None)


LONG_WORK = {
    "listing triplets": (1e-4, lambda: Reduction(separated(60)).index_sets(0.1 * np.eye(20)[None])),
    "a weighted program": (1e-3, lambda: sm.to_cvxpy(sm.SCMLProblem.from_labels(*make_blobs(60, 5, random_state=0)))),
    "roots of all pairs": (1e-4, lambda: roots(all_pairs(40, 20))),
}


def test_a_limit_does_not_wait_for_the_weights_of_the_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given directions do not span it, and its nearest member takes a minute for 4,000 of them in 200 features."""
    problem = sm.SCMLProblem.from_labels(*make_blobs(60, 5, random_state=0))
    monkeypatch.setattr(domains, "nnls", lambda *arguments, **options: pytest.fail("not in time"))
    monkeypatch.setattr(interface, "FACTORIZATION_RATE", 1.0)
    assert sm.solve(problem, "factored", max_time=1e-3).status is Status.USER_LIMIT


@pytest.mark.parametrize("work", LONG_WORK)
def test_work_that_takes_longer_than_the_time_left_is_not_begun(work, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "perf_counter", lambda: 0.0)
    limit, call = LONG_WORK[work]
    call()
    with interface.deadline(limit, limit), pytest.raises(interface.BudgetSpent):
        call()


def test_a_backend_is_not_begun_where_less_time_is_left_than_compilation_took(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, begun = PassingClock(monkeypatch), []
    problem = sm.SCMLProblem.from_labels(*make_blobs(60, 5, random_state=0)[:2])
    compile_program = cvxpy.Problem.get_problem_data

    def compile_slowly(self, *arguments, **options):
        clock.now += 10.0 * (len(self.constraints) > 1)  # one in a look at the backends
        return compile_program(self, *arguments, **options)

    monkeypatch.setattr(cvxpy.Problem, "get_problem_data", compile_slowly)
    monkeypatch.setattr(Backend, "timed", lambda *arguments: begun.append(1))
    solution = sm.solve(problem, "conic", max_time=12)
    assert (begun, clock.now, solution.status) == ([], 10.0, Status.USER_LIMIT)


def test_a_program_larger_than_the_memory_is_not_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atoms, "memory_size", lambda: 1e5)
    with pytest.raises(MemoryError, match="GiB, and there are"):
        sm.to_cvxpy(separated(60))
    solution = sm.solve(separated(60), "conic")
    assert solution.status is Status.USER_LIMIT
    assert solution.components.any()


@pytest.mark.parametrize("max_time", [64, 76, 92])
def test_a_limit_on_time_leaves_what_was_gained_by_then(max_time: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the middle of a descent or of a search, and where a certificate is all that there is time for."""
    problem, clock = separated(600, 5.0), PassingClock(monkeypatch)
    clock.let_take(Push, "candidates", 10.0)
    clock.let_take(sm.LMNNProblem, "certify", 10.0)
    clock.let_take(Budget, "spend", 0.1)
    solution = sm.solve(problem, solver="factored", tol=1e-6, max_time=max_time)
    searched = solution.trace["objective"][:-1]
    bound = searched[np.isfinite(searched)].min(initial=problem.push_weight * problem.source.size / 100)
    assert solution.status is Status.USER_LIMIT
    assert clock.now <= 1.1 * max_time + 0.51
    assert solution.objective <= bound * (1 + 1e-9)
    assert solution.objective < bound or max_time != 76  # what the first round gained, whose search did not fit
    assert solution.relative_gap < 0.5


FOREIGN_UNIT = 1e-3 * np.eye(20)  # components under which nearly every hinge of `separated` is active


def test_a_certificate_without_time_for_the_objective_says_that_nothing_is_known(monkeypatch) -> None:
    def late(self, *given, **options):
        raise interface.BudgetSpent

    monkeypatch.setattr(sm.LMNNProblem, "certify", late)
    certificate = sm.certify(separated(50), FOREIGN_UNIT, max_time=0.1)
    assert (certificate.objective, certificate.lower_bound) == (np.inf, -np.inf)
    assert "time was over" in certificate.weakness


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_without_time_for_the_certificate_of_the_identity_it_is_returned(dtype, monkeypatch) -> None:
    """Only the zero metric has a certificate in time; its lower bound holds for every metric."""
    certify = sm.LMNNProblem.certify

    def late(self, components=None, **options):
        if np.any(components):
            raise interface.BudgetSpent
        return certify(self, components, **options)

    monkeypatch.setattr(sm.LMNNProblem, "certify", late)
    X = separated(60).X.astype(dtype)
    solution = sm.solve(sm.LMNNProblem.from_labels(X, np.arange(60) % 3), max_time=1e-6)
    assert np.isclose(solution.metric, solution.metric[0, 0] * np.eye(20)).all()
    assert (solution.metric[0, 0] > 0.0, solution.objective, solution.lower_bound) == (True, np.inf, 0.0)
    assert solution.components.dtype == dtype
    assert "time was over" in solution.advice


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
