"""MLR: the objective by all rankings, the sandwich with the same statement over triplets, bad input."""

from itertools import permutations

import numpy as np
import pytest
from instances import assert_same, assert_sandwich

import sdpmetric as sm

N = 7
Y = np.array([0, 0, 0, 1, 1, 1, 1])


def data(seed=0, d=2):
    return np.random.default_rng(seed).normal(size=(N, d)) * 10 ** np.linspace(-0.3, 0.3, d)


def make(loss, seed=0, C=3.0, d=2):
    return sm.MLRProblem.from_labels(data(seed, d), Y, loss, C)


def loop_objective(X, related, Q, loss, C, M):
    """Every ranking of every query, feature by feature as the paper states it."""
    total, queries = 0.0, related.queries.tolist()
    for q in queries:
        relevant, irrelevant = related.relevant(q).tolist(), related.irrelevant(q).tolist()
        phi = {x: -np.outer(Q[q] - X[x], Q[q] - X[x]) for x in relevant + irrelevant}

        def psi(y, relevant=relevant, irrelevant=irrelevant, phi=phi):
            place = {x: k for k, x in enumerate(y)}
            signs = [(1 if place[i] < place[j] else -1) * (phi[i] - phi[j]) for i in relevant for j in irrelevant]
            return sum(signs) / len(signs)

        ideal = psi(relevant + irrelevant)
        worst = 0.0
        for y in permutations(relevant + irrelevant):
            place = {x: k for k, x in enumerate(y)}
            if loss == "auc":
                loss_of_ranking = np.mean([place[i] > place[j] for i in relevant for j in irrelevant])
            else:
                hits = sorted(place[i] for i in relevant)
                loss_of_ranking = 1 - np.mean([(k + 1) / (rank + 1) for k, rank in enumerate(hits)])
            worst = max(worst, loss_of_ranking - float(np.sum(M * (ideal - psi(y)))))
        total += worst
    return float(np.trace(M)) + C / len(queries) * total


@pytest.mark.parametrize("loss", ["auc", "map"])
@pytest.mark.parametrize("scale", [0.3, 2.0])
def test_objective_is_that_of_all_rankings(loss, scale):
    problem = make(loss)
    L = scale * np.random.default_rng(4).normal(size=(2, 2))
    expected = loop_objective(problem.X, problem.relevance, problem.X, loss, 3.0, L.T @ L)
    assert_same(problem.objective(L), expected)
    cut = problem.separate(L)
    assert_same(float(np.sum(L**2)) + 3.0 * (cut.offset + float(np.sum(cut.slope * (L.T @ L)))), expected)


@pytest.mark.parametrize("loss", ["auc", "map"])
def test_queries_apart_lists_and_ties(loss):
    X = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 2.0], [2.0, 1.0]])
    Q = np.array([[0.5, 0.0], [0.0, 0.0], [9.0, 9.0]])
    related = sm.Relevance.from_lists([[0, 1], [2, 3, 4], []], 5, leave_one_out=False, unanswerable="exclude")
    problem = sm.MLRProblem(X, related, loss, 2.0, Q)
    for M in (np.eye(2), np.diag([0.1, 0.7]), np.zeros((2, 2))):
        assert_same(problem.objective(metric=M), loop_objective(X, related, Q, loss, 2.0, M))


@pytest.mark.parametrize("C", [30.0])
def test_the_auc_is_a_hinge_over_triplets(C):
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], [12, 9, 6])
    X = rng.normal(size=(27, 3)) + y[:, None]
    problem = sm.MLRProblem.from_labels(X, y, "auc", C)
    L = rng.normal(size=(2, 3))
    assert_same(problem.objective(L), problem.triplets.objective(L))
    ranking, triplets = sm.solve(problem, tol=1e-4), sm.solve(problem.triplets, solver="conic")
    assert ranking.relative_gap <= 1e-4
    assert_sandwich(ranking, triplets)
    assert ranking.objective == pytest.approx(triplets.objective, rel=2e-4)


@pytest.mark.parametrize("C", [1e-250, 1e60, 1e210])
@pytest.mark.parametrize("separated", [1.0, 1e8])
def test_a_solve_ends_by_itself_whatever_the_slack_weight(C, separated):
    """Far queries are more than floats can prove anything of; a solve says so."""
    rng = np.random.default_rng(1)
    X, y = separated + rng.normal(size=(12, 2)), np.repeat([0, 1], 6)
    related = sm.Relevance.from_labels(y, y[:6])
    problem = sm.MLRProblem(X, related, "auc", C, rng.normal(size=(6, 2)))
    solution = sm.solve(problem, tol=1e-7, max_iter=1000)
    proven = solution.certificate.proves_optimal(1e-7)
    assert solution.status.ok == proven
    assert 0.0 <= solution.lower_bound <= solution.objective <= C * (1.0 + 1e-9)
    assert proven or separated == 1e8


def test_classes_that_are_told_apart_already_get_a_short_metric_with_a_proof():
    X = np.random.default_rng(0).normal(size=(30, 2)) * 0.1 + np.repeat([[-1.0], [1.0]], 15, axis=0)
    assert sm.solve(sm.MLRProblem.from_labels(X, np.repeat([0, 1], 15), slack_weight=10.0)).relative_gap <= 1e-2


def test_where_nothing_is_worth_its_trace_the_zero_metric_is_optimal():
    problem = make("map", C=1e-3)
    solution = sm.solve(problem)
    assert solution.status is sm.Status.OPTIMAL
    assert_same(solution.objective, problem.objective(np.zeros((1, 2))))
