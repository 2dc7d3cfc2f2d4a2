"""Settled decisions: under adversarial metrics, exact solves and exact arithmetic none of them changes."""

import re
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from adversary.campaign import tried

import sdpmetric as sm
from sdpmetric import terms
from sdpmetric.classification import knn_predict, nearest_neighbors
from sdpmetric.classification.near_optimal import Decisions, NearOptimal

K = 3


def data(n: int = 60, d: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    return np.ascontiguousarray(rng.normal(size=(n, d)) + np.array([0.0, 1.2, 2.4])[y, None] * (np.arange(d) < 2)), y


def statements() -> dict[str, sm.Problem]:
    X, y = data()
    pairs = np.random.default_rng(1).permutation(60).reshape(30, 2)
    same = y[pairs[:, 0]] == y[pairs[:, 1]]
    hinge = terms.PairHinge(pairs, same)
    return {
        "lmnn": sm.LMNNProblem.from_labels(X, y, frobenius=20.0),
        "pola": sm.POLAProblem(X, pairs, same, slack_weight=0.3),
        "sum": sm.MetricProblem(X, hinge + terms.Pull(pairs[same]) + terms.Frobenius(weight=3.0)),
        "diagonal": sm.MetricProblem(X, hinge + 0.2 * terms.Trace() + terms.Frobenius(), diagonal=True),
    }


def factor(M: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(M)
    return (vectors * np.sqrt(np.maximum(values, 0.0))).T


def adversaries(region: NearOptimal, X: np.ndarray, rng: np.random.Generator, n: int = 15) -> list[np.ndarray]:
    """Factors in the ball: steps of the radius against comparisons of neighbors with others, back in the cone."""
    M, metrics = region.components.T @ region.components, []
    close = nearest_neighbors(region.components, X, n_neighbors=12)[1]
    for _ in range(n):
        i = rng.integers(len(X))
        inside, outside = X[i] - X[close[i, rng.integers(K)]], X[i] - X[close[i, rng.integers(K, 12)]]
        B = np.outer(outside, outside) - np.outer(inside, inside)
        metrics.append(factor(M - region.radius * B / np.linalg.norm(B)))
    return metrics


@pytest.mark.parametrize("name", sorted(statements()))
def test_no_metric_of_the_ball_contradicts_what_is_settled(name):
    (X, y), problem, rng = data(), statements()[name], np.random.default_rng(0)
    solution, pairs = sm.solve(problem, tol=1e-6), rng.integers(0, 60, (200, 2))
    for radius in (1e-4, 1e-2, 1e-1):
        region = replace(sm.near_optimal(solution), radius=radius)
        labels, neighbors, (low, high) = region.labels(X, y), region.neighbors(X), region.distances(X, pairs)
        matches = region.matches(X, pairs, 2.0)
        if radius == 1e-4:
            assert labels.share > 0.8
            assert neighbors.share > 0.8
        for L in adversaries(region, X, rng):
            assert np.linalg.norm(L.T @ L - region.components.T @ region.components) <= radius * (1 + 1e-6)
            assert (knn_predict(L, X, y) == labels.values)[labels.settled].all()
            neighbors_there = nearest_neighbors(L, X, n_neighbors=K)[1]
            shared = (neighbors.values[:, :, None] == neighbors_there[:, None]).any(axis=2)
            assert shared[neighbors.settled].all()
            D = np.sum(((X[pairs[:, 0]] - X[pairs[:, 1]]) @ L.T) ** 2, axis=1)
            assert ((low <= D) & (high >= D)).all()
            assert ((D <= 2.0) == matches.values)[matches.settled].all()


@pytest.mark.parametrize("name", sorted(statements()))
def test_metrics_as_good_as_the_solution_are_in_the_ball(name):
    problem = statements()[name]
    rough, exact = sm.solve(problem, tol=1e-2), sm.solve(problem, tol=1e-9)
    start, best = (np.asarray(solution.components.T @ solution.components) for solution in (rough, exact))
    region, half = sm.near_optimal(rough), sm.near_optimal(rough, optimum=True)
    # Beyond the optimum on the ray from the solution, the farthest metric that is as good, up to a hair.
    low, high = 1.0, 10.0
    for _ in range(40):
        midpoint = 0.5 * (low + high)
        good = problem.objective(factor(start + midpoint * (best - start))) <= rough.objective
        low, high = (midpoint, high) if good else (low, midpoint)
    far = np.linalg.norm(factor(start + low * (best - start)).T @ factor(start + low * (best - start)) - start)
    assert 0.0 < np.linalg.norm(best - start) <= half.radius
    assert far <= region.radius


BALLS = "0 frobenius, stamps; 2 frobenius, duplicates; 2 pola, stamps; 1 pola, grid; 3 pola, scales; 1 hard, stamps"
BALLS += "; 3 hard, last digits; 1 curved, stamps; 1 curved, duplicates; 1 curved, grid"


@pytest.mark.parametrize(("seed", "statement", "family"), re.findall(r"(\d+) ([a-z ]+), ([a-z0-9 ]+)", BALLS))
def test_exact_metrics_as_good_are_in_the_ball_and_keep_what_is_settled(seed, statement, family):
    outcome = tried(int(seed), statement, family, only=("near",))
    assert outcome.violations == []
    assert outcome.claims >= 2


def test_the_radius_is_the_distance_of_the_farthest_metric_that_is_as_good():
    X, center = data()[0], np.diag([1.0, 2.0, 3.0, 4.0])
    problem, L = sm.MetricProblem(X, terms.Frobenius(center)), np.sqrt(center + 0.1 * np.diag([1.0, 0.0, 2.0, 0.0]))
    solution = replace(sm.solve(problem), components=L, certificate=problem.certify(L))
    distance = np.linalg.norm(L.T @ L - center)  # the mirror image is as good, and twice as far
    assert 2.0 * distance <= sm.near_optimal(solution).radius <= 2.0 * distance * (1 + 1e-6)
    assert distance <= sm.near_optimal(solution, optimum=True).radius <= distance * (1 + 1e-6)


def test_the_threshold_of_pola_moves_with_the_metric():
    (X, _), rng = data(), np.random.default_rng(0)
    region = replace(sm.near_optimal(sm.solve(statements()["pola"])), radius=0.02)
    pairs = rng.integers(0, 60, (300, 2))
    matches, V = region.matches(X, pairs), X[pairs[:, 0]] - X[pairs[:, 1]]
    assert 0.5 < matches.share < 1.0
    M, b = region.components.T @ region.components, region.threshold
    for v, match, decided in zip(V, matches.values, matches.settled, strict=True):
        size = region.radius / np.hypot(v @ v, 1.0) * (-1.0 if match else 1.0)
        moved_distance = (
            v @ (M - size * np.outer(v, v)) @ v <= b + size
        )  # of all in the ball the most against the match
        assert not decided or moved_distance == match


@pytest.mark.parametrize(("shift", "scale"), [(0.0, 2.0**-480), (0.0, 2.0**400), (1e6, 1.0), (1e15, 1.0)])
def test_decisions_are_exact_arithmetics_at_any_scale(shift, scale):
    rng = np.random.default_rng(3)
    X = scale * (shift + rng.integers(-3, 4, (30, 2)) + np.where(rng.random((30, 2)) < 0.5, 0.0, 1e-9))
    L = np.array([[1.0, 0.3], [0.0, 1e-4]])
    region, pairs = NearOptimal(L, 1e-12), rng.integers(0, 30, (60, 2))
    low, high = region.distances(X, pairs)
    exact = [[Fraction(value) for value in row] for row in X.tolist()]
    factors = [[Fraction(value) for value in row] for row in L.tolist()]

    def bounds(i: int, j: int) -> tuple[Fraction, Fraction]:
        v = [a - b for a, b in zip(exact[i], exact[j], strict=True)]
        D = sum(sum(a * b for a, b in zip(row, v, strict=True)) ** 2 for row in factors)
        slack = Fraction(region.radius) * sum(a * a for a in v)
        return D - slack, D + slack

    for (i, j), below, above in zip(pairs.tolist(), low, high, strict=True):
        lower, upper = bounds(i, j)
        assert Fraction(float(below)) <= max(lower, 0)
        assert Fraction(float(above)) >= upper
    neighbors = region.neighbors(X)
    for i, (rows, certain) in enumerate(zip(neighbors.values, neighbors.settled, strict=True)):
        for j in rows[certain]:
            intervals = [bounds(i, l) for l in range(30) if l not in (i, j)]
            assert sum(upper <= bounds(i, int(j))[0] for _, upper in intervals) < K
            assert sum(exact[l] == exact[int(j)] for l in range(30) if l != i and l != j) < K


def test_radius_infinity_leaves_everything_open_and_zero_radius_nothing_but_ties():
    X, y = data()
    L = np.eye(4)
    assert NearOptimal(L, np.inf).labels(X, y).share == 0.0
    assert NearOptimal(L, 0.0).neighbors(X).share == 1.0
    twice = np.repeat(X[:10], 2, axis=0)
    tied = NearOptimal(L, 0.0).neighbors(twice, n_neighbors=2)
    assert tied.settled[:, 0].all()
    assert not tied.settled[:, 1].any()  # two equal examples are second
    assert "3 of 4 settled" in repr(Decisions(np.arange(4), np.arange(4) > 0))
