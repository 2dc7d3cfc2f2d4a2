"""Limits that hold: caps on candidates, deadlines of searches, well-separated classes, and a point in any case."""

import time
import warnings
from types import ModuleType

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning

import sdpmetric as sm
from sdpmetric import estimators
from sdpmetric.core.status import Status
from sdpmetric.core.steps import Budget
from sdpmetric.engine import interface
from sdpmetric.lmnn.push import Push
from sdpmetric.lmnn.solvers import frobenius_dual as frobenius
from sdpmetric.lmnn.triplets import impostors
from sdpmetric.lmnn.triplets.impostors import SearchOptions


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


class Clock:
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


@pytest.mark.parametrize("max_time", [64, 76, 92])
def test_a_limit_on_time_leaves_what_was_gained_by_then(max_time: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the middle of a descent or of a search, and where a certificate is all that there is time for."""
    problem, clock = separated(600, 5.0), Clock(monkeypatch)
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


def test_a_frobenius_term_with_too_small_a_cap_ends_with_a_certified_point(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = make_blobs(150, 3, centers=3, cluster_std=4.0, random_state=0)[:2]
    problem = sm.LMNNProblem.from_labels(X, y, frobenius=1.0)
    reference = sm.solve(problem, tol=1e-4)
    monkeypatch.setattr(impostors, "OPTIONS", SearchOptions(fewest_pairs=50, pairs_per_target_pair=0))
    sizes: list[int] = []
    active = frobenius.ActiveSet
    monkeypatch.setattr(
        frobenius, "ActiveSet", lambda *arguments: sizes.append(len(arguments[1])) or active(*arguments)
    )
    solution = sm.solve(problem, solver="dual", tol=1e-4)
    assert max(sizes) <= 50 + 25
    assert solution.lower_bound <= reference.objective * (1 + 1e-9)
    assert solution.objective >= reference.lower_bound * (1 - 1e-9)


FOREIGN_UNIT = 1e-3 * np.eye(20)  # components under which nearly every hinge of `separated` is active


def test_a_certificate_without_time_for_the_objective_says_that_nothing_is_known(monkeypatch) -> None:
    def late(self, *given, **options):
        raise interface.BudgetSpent

    monkeypatch.setattr(sm.LMNNProblem, "certify", late)
    certificate = sm.certify(separated(50), FOREIGN_UNIT, max_time=0.1)
    assert (certificate.objective, certificate.lower_bound) == (np.inf, -np.inf)
    assert "time was over" in certificate.weakness


def test_a_limit_that_leaves_the_zero_metric_does_not_blame_the_weights():
    rng = np.random.default_rng(0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        learner = estimators.LMNN(max_time=1e-6).fit(rng.normal(size=(3000, 12)), np.arange(3000) % 5)
    assert not learner.components_.any()
    assert [warning.category for warning in caught] == [ConvergenceWarning]


def test_more_pairs_than_can_be_listed_in_time() -> None:
    """MCML of 20,000 examples has 400 million pairs; under the zero metric no list of them is needed."""
    y = np.arange(20_000) % 10
    problem = sm.MCMLProblem(np.random.default_rng(0).normal(size=(20_000, 2)), y)
    began = time.process_time()
    solution = sm.solve(problem, max_time=0.5)
    assert solution.objective == pytest.approx(20_000 * np.log(19_999 / 1999), rel=1e-10)
    assert solution.status is Status.USER_LIMIT
    assert sm.verify(problem, np.eye(2), max_time=0.5).objective == np.inf
    assert time.process_time() - began <= 3.2
