"""Domains, LMNN as a sum, sums without a minimum, and constraints that contradict each other."""

import numpy as np
import pytest
from cases import data, different
from instances import assert_same, assert_sandwich

import sdpmetric as sm
from sdpmetric import terms


def restricted(domain, rng, d):
    return {"diagonal": True, "bases": rng.normal(size=(4 * d, d))}[domain]


def rows_of_tasks(tasks, rng, m, k):
    rows = different(rng, 40 * m, k, len(tasks))
    return rows[(tasks[rows] == tasks[rows[:, :1]]).all(axis=1)][:m]


@pytest.mark.parametrize("kind", ["pull", "log_det"])
def test_tasks_with_a_shared_part(kind):
    rng = np.random.default_rng(3)
    X, tasks = data(rng, 45, 3), np.arange(45) % 3
    triplets, pairs = rows_of_tasks(tasks, rng, 60, 3), rows_of_tasks(tasks, rng, 40, 2)
    cost = terms.Pull(pairs) if kind == "pull" else terms.LogDet()
    total, sharing = cost + 0.3 * terms.TripletHinge(triplets), 2.0
    problem = sm.MetricProblem(X, total, tasks=np.array(["c", "a", "b"])[tasks], sharing=sharing)
    fast, exact = sm.solve(problem, tol=1e-5), sm.solve(problem, "conic")
    for first in (fast, exact):
        for second in (fast, exact):
            assert first.lower_bound <= second.objective + 1e-8 * abs(second.objective)
            assert second.objective - first.lower_bound <= 1e-4 * abs(second.objective)
    # The objective from the metrics of the tasks, by loops; "a" is task 1.
    metrics = problem.task_metrics(fast.components)[[2, 0, 1]]
    D = [(X[i] - X[j]) @ metrics[tasks[i]] @ (X[i] - X[j]) for i, j in [*triplets[:, :2], *triplets[:, ::2]]]
    hinges = np.maximum(1.0 + np.array(D[:60]) - np.array(D[60:]), 0.0).sum()
    if kind == "pull":
        pull = sum((X[i] - X[j]) @ metrics[tasks[i]] @ (X[i] - X[j]) for i, j in pairs)
        assert_same(fast.objective, pull + 0.3 * hinges)
    else:
        assert fast.objective >= 0.3 * hinges - 1e-9


def lmnn_problems(rng, X, y, loss):
    weights, masked = rng.exponential(size=len(X)), np.where(rng.random(len(X)) < 0.3, 0.0, 1.0)
    triplets = rows_of_tasks(y, rng, 90, 2)
    triplets = np.column_stack([triplets, (triplets[:, 0] + 1) % len(X)])
    labeled = {"push_weight": 0.7, "loss": loss}
    return {
        "labels": sm.LMNNProblem.from_labels(X, y, **labeled),
        "ridge": sm.LMNNProblem.from_labels(X, y, 2, ridge=0.4, **labeled),
        "weights": sm.LMNNProblem.from_labels(X, y, sample_weight=weights, **labeled),
        "zero weights": sm.LMNNProblem.from_labels(X, y, sample_weight=masked, **labeled),
        "push alone": sm.LMNNProblem.from_labels(X, y, 1, 1.0, ridge=2.0, loss=loss),
        "triplets": sm.LMNNProblem.from_triplets(X, triplets, rng.exponential(size=len(triplets)), **labeled),
    }


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("name", ["labels", "ridge", "weights", "zero weights", "push alone", "triplets"])
def test_lmnn_and_its_sum_are_the_same_problem(name, loss):
    rng = np.random.default_rng(1)
    X, y = data(rng, 45, 4), np.arange(45) % 3
    lmnn = lmnn_problems(rng, X, y, loss)[name]
    total = lmnn.as_sum()
    for scale in (0.0, 0.1, 1.0, 10.0):
        L = scale * rng.normal(size=(3, 4))
        assert_same(total.objective(L), lmnn.objective(L))
        assert_sandwich(total.certify(L), lmnn.certify(L))
    fast, summed = sm.solve(lmnn, tol=1e-6), sm.solve(total, "factored", tol=1e-5)
    assert_sandwich(fast, summed)
    assert summed.objective - summed.lower_bound <= 1e-4 * summed.objective
    # Each certifies the metric of the other.
    assert_sandwich(total.certify(fast.components), lmnn.certify(summed.components), fast)


def test_a_sum_of_many_labeled_triplets_names_the_problem_without_a_list():
    rng = np.random.default_rng(1)
    X, y = data(rng, 200, 2), np.arange(200) % 2
    pull, push = 0.6 * terms.Pull(labels=y), 1.4 * terms.TripletHinge(labels=y, loss="squared_hinge")
    problem, L = sm.MetricProblem(X, pull + push + terms.Trace()), rng.normal(size=(2, 2))
    assert "push_weight=0.7, ridge=0.5, loss='squared_hinge'" in problem.easier()
    lmnn = sm.LMNNProblem.from_labels(X, y, push_weight=0.7, ridge=0.5, loss="squared_hinge")
    assert_same(problem.objective(L), 2.0 * lmnn.objective(L))
    for total in (pull + push + terms.LogDet(), pull + terms.TripletHinge(labels=y, n_neighbors=2), pull + push + push):
        assert "LMNNProblem" not in sm.MetricProblem(X, total).easier()
    assert "LMNNProblem" not in sm.MetricProblem(X, pull + push, diagonal=True).easier()


@pytest.mark.parametrize(
    ("solver", "domain"), [("conic", None), ("factored", "diagonal"), ("factored", "bases"), ("conic", "tasks")]
)
def test_constraints_that_are_named_contradict_each_other_and_are_needed_for_it(solver, domain):
    """Two pairs with the same difference, one 1 apart at most and one 2 at least, among bounds that hold anyway."""
    rng = np.random.default_rng(0)
    X = rng.integers(-9, 10, size=(12, 3)).astype(float)
    X[1] = X[0] + X[4] - X[3]
    pairs = np.array([[0, 1], [3, 4], [5, 6], [5, 7], [6, 7], [8, 9], [10, 11], [0, 5]])
    upper, lower = np.full(8, 900.0), np.full(8, 1e-3)
    upper[0], lower[1] = 1.0, 2.0  # the contradiction
    domain_option = {} if domain is None else {"tasks": np.zeros(12)} if domain == "tasks" else {domain: True}
    domain_option = domain_option if domain != "bases" else {domain: restricted(domain, rng, 3)}
    problem = sm.MetricProblem(X, terms.Trace() + terms.DistanceBounds(pairs, upper, lower), **domain_option)
    solution = sm.solve(problem, solver)
    assert solution.status is sm.Status.INFEASIBLE
    assert solution.certificate.contradiction == (0, 9)
    # Also of multipliers that spread a proof over constraints that it does not need.
    weights = np.where(np.isin(np.arange(16), [0, 9]), 1.0, 1e-5)
    assert problem.certify(problem.zero, dual=weights).contradiction == (0, 9)
