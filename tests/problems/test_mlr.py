"""MLR: the objective by all rankings, subgradients, the sandwich with the same statement over triplets, proofs."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest
from exact import fraction, mlr_objective, number
from instances import assert_same, rounding

import sdpmetric as sm

N = 7
Y = np.array([0, 0, 0, 1, 1, 1, 1])


def data(seed=0, d=2):
    return np.random.default_rng(seed).normal(size=(N, d)) * 10 ** np.linspace(-0.3, 0.3, d)


def make(loss, seed=0, C=3.0, d=2):
    return sm.MLRProblem.from_labels(data(seed, d), Y, loss, C)


def loop_objective(X, related, Q, loss, C, M):
    """Every ranking of every query, feature by feature as the paper states it."""
    total, asked = 0.0, related.queries.tolist()
    for q in asked:
        near, far = related.relevant(q).tolist(), related.irrelevant(q).tolist()
        phi = {x: -np.outer(Q[q] - X[x], Q[q] - X[x]) for x in near + far}

        def psi(y, near=near, far=far, phi=phi):
            place = {x: k for k, x in enumerate(y)}
            signs = [(1 if place[i] < place[j] else -1) * (phi[i] - phi[j]) for i in near for j in far]
            return sum(signs) / len(signs)

        right = psi(near + far)
        worst = 0.0
        for y in permutations(near + far):
            place = {x: k for k, x in enumerate(y)}
            if loss == "auc":
                lost = np.mean([place[i] > place[j] for i in near for j in far])
            else:
                hits = sorted(place[i] for i in near)
                lost = 1 - np.mean([(k + 1) / (at + 1) for k, at in enumerate(hits)])
            worst = max(worst, lost - float(np.sum(M * (right - psi(y)))))
        total += worst
    return float(np.trace(M)) + C / len(asked) * total


@pytest.mark.parametrize("loss", ["auc", "map"])
@pytest.mark.parametrize("scale", [0.0, 0.3, 0.6, 2.0])
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


@pytest.mark.parametrize("loss", ["auc", "map"])
@pytest.mark.parametrize("seed", range(5))
def test_cuts_are_below_the_loss_everywhere(loss, seed):
    problem, rng = make(loss, seed, d=3), np.random.default_rng(seed)
    for _ in range(10):
        L, K = (10 ** rng.uniform(-1, 0.5) * rng.normal(size=(3, 3)) for _ in range(2))
        cut = problem.separate(L)
        loss_there = problem.objective(K) - np.sum(K**2)
        assert 3.0 * (cut.offset + np.sum(cut.slope * (K.T @ K))) <= loss_there + rounding(loss_there)


@pytest.mark.parametrize("C", [1.0, 30.0])
def test_the_auc_is_a_hinge_over_triplets(C):
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], [12, 9, 6])
    X = rng.normal(size=(27, 3)) + y[:, None]
    problem = sm.MLRProblem.from_labels(X, y, "auc", C)
    L = rng.normal(size=(2, 3))
    assert_same(problem.objective(L), problem.triplets.objective(L))
    own, other = sm.solve(problem, tol=1e-4), sm.solve(problem.triplets, solver="conic")
    assert own.relative_gap <= 1e-4
    for below in (own, other):
        for above in (own, other):
            assert below.lower_bound <= above.objective + rounding(above.objective)
    assert own.objective == pytest.approx(other.objective, rel=2e-4)


@pytest.mark.parametrize("C", [1e-250, 1e-20, 1e60, 1e210])
@pytest.mark.parametrize("apart", [1.0, 1e8])
def test_a_solve_ends_by_itself_whatever_the_slack_weight(C, apart):
    """Far queries are more than floats can prove anything of; a solve says so."""
    rng = np.random.default_rng(1)
    X, y = apart + rng.normal(size=(12, 2)), np.repeat([0, 1], 6)
    related = sm.Relevance.from_labels(y, y[:6])
    problem = sm.MLRProblem(X, related, "auc", C, rng.normal(size=(6, 2)))
    found = sm.solve(problem, tol=1e-7, max_iter=1000)
    proven = found.certificate.proves_optimal(1e-7)
    assert found.status is (sm.Status.OPTIMAL if proven else sm.Status.OPTIMAL_INACCURATE)
    assert 0.0 <= found.lower_bound <= found.objective <= C * (1.0 + 1e-9)
    assert proven or apart == 1e8


def hard_rankings(seed):
    """Items and queries that floating point finds hard: far queries, offsets, units, copies, single precision."""
    rng = np.random.default_rng(seed)
    X, Q = rng.normal(size=(6, 2)), rng.normal(size=(3, 2))
    kind = seed % 6
    if kind == 0:
        X = 1e5 + 1e-5 * X
    elif kind == 1:
        X, Q = X + 1e8, Q + 1e8
    elif kind == 2:
        X, Q = X * [1e-6, 1e6], Q * [1e-6, 1e6]
    elif kind == 3:
        X[4:], Q[0] = X[:2], X[0]
    elif kind == 4:
        X, Q = X.astype(np.float32), Q.astype(np.float32)
    else:
        scale = 10.0 ** rng.integers(-120, 70)
        X, Q = X * scale, Q * scale
    related = sm.Relevance.from_lists([[0, 1, 2], [3, 4], [5, 0]], 6, leave_one_out=False)
    C, weights = 10.0 ** rng.uniform(-1, 3), rng.uniform(0.1, 5.0, 3) if seed % 2 else None
    return sm.MLRProblem(X, related, ("auc", "map")[seed // 6 % 2], C, Q, weights)


@pytest.mark.parametrize("seed", range(24))
def test_objective_and_bound_hold_for_the_floats_that_were_given(seed):
    problem, rng = hard_rankings(seed), np.random.default_rng(seed)
    X, Q = (np.asarray(part, dtype=np.float64) for part in (problem.X, problem.queries))
    unit = 1.0 / np.maximum(np.ptp(X, axis=0), 1e-300)
    factors = [np.zeros((1, 2)), np.diag(unit), rng.normal(size=(2, 2)) * unit, 0.1 * rng.normal(size=(1, 2)) * unit]
    least, bounds = [], []
    for L in factors:
        exact = mlr_objective(
            X, L, problem.relevance, Q, problem.loss == "map", problem.slack_weight, problem.sample_weight
        )
        certificate = problem.certify(L, dual=problem.multipliers(np.array([0.5, 0.6]), [L, factors[2]]))
        assert certificate.rigor == "float"
        assert not math.isfinite(certificate.objective) or number(certificate.objective) >= exact
        least.append(exact)
        bounds.append(certificate.lower_bound)
    found = sm.solve(problem, max_iter=15)
    assert number(max(*bounds, found.lower_bound)) <= min(least)
    zero = problem.certify(factors[0]).objective  # tight where nothing cancels
    assert zero <= float(fraction(least[0])) * (1 + 1e-9)


@pytest.mark.parametrize("C", [2.0, 50.0])
def test_average_precision_is_proven_and_rankings_get_better(C):
    rng = np.random.default_rng(1)
    y = np.repeat([0, 1], [25, 35])
    X = rng.normal(size=(60, 4)) * [1.0, 4.0, 1.0, 4.0] + np.outer(y, [2.0, 0.0, 1.0, 0.0])
    problem = sm.MLRProblem.from_labels(X, y, "map", C)
    solution = sm.solve(problem, tol=1e-3)
    assert solution.status is sm.Status.OPTIMAL
    again = problem.certify(solution.components, dual=solution.dual)
    assert again.lower_bound == pytest.approx(solution.lower_bound, rel=1e-9)
    for _ in range(30):
        L = 10 ** rng.uniform(-2, 0) * rng.normal(size=(4, 4))
        assert solution.lower_bound <= problem.objective(L) + rounding(C)
    if C == 50.0:
        before, after = sm.ranking.evaluate(X, y), sm.ranking.evaluate(X, y, components=solution.components)
        assert after.map > before.map


def test_classes_that_are_told_apart_already_get_a_short_metric_with_a_proof():
    X = np.random.default_rng(0).normal(size=(30, 2)) * 0.1 + np.repeat([[-1.0], [1.0]], 15, axis=0)
    assert sm.solve(sm.MLRProblem.from_labels(X, np.repeat([0, 1], 15), slack_weight=10.0)).relative_gap <= 1e-2


@pytest.mark.parametrize("loss", ["auc", "map"])
def test_any_multipliers_prove_something_true(loss):
    problem, rng = make(loss, 3, C=20.0, d=3), np.random.default_rng(0)
    lowest = sm.solve(problem, tol=1e-4).objective
    for _ in range(20):
        shares = rng.exponential(size=4) - 0.1
        factors = [10 ** rng.uniform(-1, 0.5) * rng.normal(size=(rng.integers(1, 4), 3)) for _ in range(4)]
        certificate = problem.certify(np.eye(3), dual=problem.multipliers(shares, factors))
        assert 0.0 <= certificate.lower_bound <= lowest + rounding(lowest)
    assert problem.certify(np.eye(3)).lower_bound <= lowest + rounding(lowest)


def test_where_nothing_is_worth_its_trace_the_zero_metric_is_optimal():
    problem = make("map", C=1e-3)
    solution = sm.solve(problem)
    assert solution.status is sm.Status.OPTIMAL
    assert_same(solution.objective, problem.objective(np.zeros((1, 2))))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: make("ndcg"), "'auc' or 'map'"),
        (lambda: make("auc", C=0.0), "slack_weight"),
        (lambda: make("map").triplets, "loss='auc'"),
        (lambda: sm.MLRProblem(data(), sm.Relevance.from_labels(Y[:6])), "6 items|6 queries|rows"),
        (lambda: make("auc").certify(np.eye(2), dual=np.ones(4)), "dual"),
    ],
)
def test_bad_input_gets_a_sentence(call, words):
    with pytest.raises(ValueError, match=words):
        call()
