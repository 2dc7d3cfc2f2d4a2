"""Domains, sums that are shipped statements, sums without a minimum, and constraints that contradict each other."""

import numpy as np
import pytest
from cases import data, different
from instances import assert_same, assert_sandwich

import sdpmetric as sm
from sdpmetric import terms

DOMAINS = ("diagonal", "bases")


def restricted(domain, rng, d):
    return {"diagonal": True, "bases": rng.normal(size=(4 * d, d))}[domain]


def within(tasks, rng, m, k):
    rows = different(rng, 40 * m, k, len(tasks))
    return rows[(tasks[rows] == tasks[rows[:, :1]]).all(axis=1)][:m]


@pytest.mark.parametrize("kind", ["pull", "log_det"])
def test_tasks_with_a_shared_part(kind):
    rng = np.random.default_rng(3)
    X, tasks = data(rng, 45, 3), np.arange(45) % 3
    triplets, pairs = within(tasks, rng, 60, 3), within(tasks, rng, 40, 2)
    cost = terms.Pull(pairs) if kind == "pull" else terms.LogDet()
    total, sharing = cost + 0.3 * terms.TripletHinge(triplets), 2.0
    problem = sm.MetricProblem(X, total, tasks=np.array(["c", "a", "b"])[tasks], sharing=sharing)
    fast, exact = sm.solve(problem, tol=1e-5), sm.solve(problem, "conic")
    for one in (fast, exact):
        for other in (fast, exact):
            assert one.lower_bound <= other.objective + 1e-8 * abs(other.objective)
            assert other.objective - one.lower_bound <= 1e-4 * abs(other.objective)
    # The objective from the metrics of the tasks, by loops; "a" is task 1.
    metrics = problem.task_metrics(fast.components)[[2, 0, 1]]
    D = [(X[i] - X[j]) @ metrics[tasks[i]] @ (X[i] - X[j]) for i, j in [*triplets[:, :2], *triplets[:, ::2]]]
    hinges = np.maximum(1.0 + np.array(D[:60]) - np.array(D[60:]), 0.0).sum()
    if kind == "pull":
        pull = sum((X[i] - X[j]) @ metrics[tasks[i]] @ (X[i] - X[j]) for i, j in pairs)
        assert_same(fast.objective, pull + 0.3 * hinges)
    else:
        assert fast.objective >= 0.3 * hinges - 1e-9


@pytest.mark.parametrize(("loss", "ridge"), [("hinge", 0.0), ("squared_hinge", 0.5)])
def test_pull_and_push_of_labels_go_to_the_solvers_of_lmnn(loss, ridge):
    rng = np.random.default_rng(1)
    X, y = data(rng, 60, 4), np.arange(60) % 3
    total = 0.6 * terms.Pull(labels=y) + 1.4 * terms.TripletHinge(labels=y, loss=loss) + ridge * terms.Trace()
    problem = sm.MetricProblem(X, total)
    lmnn = sm.LMNNProblem.from_labels(X, y, push_weight=0.7, ridge=ridge / 2, loss=loss)
    assert problem.recognized.problem.fingerprint() == lmnn.fingerprint()
    assert sm.solvers_of(problem)[0].name == "lmnn"
    fast, plain, generic = sm.solve(problem), sm.solve(lmnn), sm.solve(problem, "factored")
    assert_same(fast.objective, 2 * plain.objective)
    assert_same(fast.lower_bound, 2 * plain.lower_bound)
    assert_sandwich(generic, fast)
    assert sm.explain(fast).certificate.lower_bound == pytest.approx(fast.lower_bound, rel=1e-6)


def test_sums_that_differ_from_lmnn_are_not_recognized():
    rng = np.random.default_rng(1)
    X, y = data(rng, 60, 4), np.arange(60) % 3
    pull, push = terms.Pull(labels=y), terms.TripletHinge(labels=y)
    for total in (
        pull + push + terms.LogDet(),
        pull + terms.TripletHinge(labels=y, margin=2.0),
        terms.Pull(labels=y, n_neighbors=2) + push,
        pull + terms.TripletHinge(labels=y, loss="logistic"),
        terms.Pull(labels=y, sample_weight=rng.exponential(size=60)) + push,
        pull + push + push,
    ):
        assert sm.MetricProblem(X, total).recognized is None
    assert sm.MetricProblem(X, pull + push, diagonal=True).recognized is None


@pytest.mark.parametrize(
    ("solver", "domain"),
    [("conic", None), ("factored", "diagonal"), ("factored", "bases"), ("conic", "tasks")],
)
def test_constraints_that_are_named_contradict_each_other_and_are_needed_for_it(solver, domain):
    """Two pairs with the same difference, one 1 apart at most and one 2 at least, among bounds that hold anyway."""
    rng = np.random.default_rng(0)
    X = rng.integers(-9, 10, size=(12, 3)).astype(float)
    X[1] = X[0] + X[4] - X[3]
    pairs = np.array([[0, 1], [3, 4], [5, 6], [5, 7], [6, 7], [8, 9], [10, 11], [0, 5]])
    upper, lower = np.full(8, 900.0), np.full(8, 1e-3)
    upper[0], lower[1] = 1.0, 2.0  # the contradiction
    where = {} if domain is None else {"tasks": np.zeros(12)} if domain == "tasks" else {domain: True}
    where = where if domain != "bases" else {domain: restricted(domain, rng, 3)}
    problem = sm.MetricProblem(X, terms.Trace() + terms.DistanceBounds(pairs, upper, lower), **where)
    solution = sm.solve(problem, solver)
    assert solution.status is sm.Status.INFEASIBLE
    assert solution.certificate.contradiction == (0, 9)
    # Also of multipliers that spread a proof over constraints that it does not need.
    given = np.where(np.isin(np.arange(16), [0, 9]), 1.0, 1e-5)
    assert problem.certify(problem.zero, dual=given).contradiction == (0, 9)
