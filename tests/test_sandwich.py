"""Solvers keep what they promise on random problems, and every lower bound is below every objective."""

from collections.abc import Iterable
from functools import partial

import numpy as np
import pytest
from instances import KINDS, few_and_many, make_instance, rounding
from sklearn.cluster import KMeans

import sdpmetric as sm
from sdpmetric.core.registry import solvers_of

POLA = {"dual": 1e-6, "conic": 1e-6}
METRICS = {"conic": 1e-6, "factored": 1e-3, "subgradient": 1e-2}
PAIRS = {"conic": 1e-6, "factored": 1e-6}
# "conic" stands alone. On 5 of 306 ITML problems, with one feature each, the objective of Clarabel's point is within
# 5e-7 of the optimum, and its multipliers of exponential cones prove between 4e-6 and 3e-4.
ITML = {"conic": 1e-3, "factored": 1e-6}


def lmnn(seed: int) -> sm.LMNNProblem:
    """Small, asymmetric, of any kind: unequal classes, listed triplets with weights, a ridge, integer features."""
    rng = np.random.default_rng(seed)
    n, d, k = int(rng.integers(8, 41)), int(rng.integers(1, 6)), int(rng.integers(1, 4))
    X = rng.normal(size=(n, d)) * 10 ** rng.uniform(-1, 1, d)
    if rng.random() < 0.2:
        X = np.round(2 * X / X.std(axis=0))
    mu = float(rng.uniform(0.1, 0.9))
    ridge = float(rng.exponential()) if rng.random() < 0.3 else 0.0
    if rng.random() < 0.3:
        triplets = np.array([rng.choice(n, 3, replace=False) for _ in range(int(rng.integers(1, 120)))])
        return sm.LMNNProblem.from_triplets(X, triplets, rng.exponential(size=len(triplets)), mu, ridge=ridge)
    sizes = rng.multinomial(n - 2 * (k + 1), [0.7, 0.3]) + k + 1
    y = np.repeat([0, 1], sizes)
    X[y == 1] += rng.normal(size=d) * X.std(axis=0)
    return sm.LMNNProblem.from_labels(X, y, k, mu, ridge=ridge)


def several(seed: int) -> sm.MultiMetricLMNNProblem:
    """Regions by class, by clusters or at random; both losses."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(5, 11, size=int(rng.integers(2, 4)))
    y = np.repeat(np.arange(len(sizes)), sizes)[rng.permutation(sizes.sum())]
    d = int(rng.choice([1, 2, 3]))
    X = (rng.normal(size=(len(y), d)) + rng.uniform(0, 1.5) * y[:, None]) * 10 ** rng.uniform(-1, 1)
    k, kind = int(rng.integers(1, 3)), int(rng.integers(0, 3))
    regions = (y, KMeans(2, random_state=0).fit_predict(X), np.arange(len(y)) % 2)[kind]
    if np.bincount(regions).min() <= k:  # an outlier has become a cluster of its own
        regions = y
    ridge = float(rng.choice([0.0, 0.05])) + (0.01 if kind == 1 else 0.0)
    loss = str(rng.choice(["hinge", "hinge", "squared_hinge"]))
    mu = float(rng.uniform(0.1, 0.9))
    return sm.MultiMetricLMNNProblem.from_labels(X, y, k, mu, regions=regions, ridge=ridge, loss=loss)


def of_pairs(kind: str, seed: int) -> sm.Problem:
    """Unequal classes, features in different units, sampled pairs, integer features."""
    rng = np.random.default_rng([seed, {"mmc": 0, "itml": 2}[kind]])
    n, d = int(rng.integers(8, 25)), int(rng.integers(1, 5))
    X = rng.normal(size=(n, d)) * 10 ** rng.uniform(-1, 1, d)
    y = np.repeat([0, 1, 2], [n // 3, n - n // 3 - 2, 2])
    X[y == 1] += rng.normal(size=d) * X.std(axis=0)
    if rng.random() < 0.2:
        X = np.round(3 * X / X.std(axis=0)) + 1e-3 * rng.normal(size=X.shape)
    n_pairs = None if rng.random() < 0.3 else int(rng.integers(3 * d + 5, 60))
    if kind != "itml":
        return sm.MMCProblem.from_labels(X, y, n_pairs)
    D = ((X[:, None] - X[None]) ** 2).sum(axis=2)[np.triu_indices(n, 1)]
    upper, lower = np.percentile(D, [rng.uniform(5, 45), rng.uniform(55, 95)])
    A = rng.normal(size=(d, d))
    prior = "identity" if rng.random() < 0.5 else A @ A.T + 0.1 * np.eye(d)
    gamma = 10 ** rng.uniform(-1, 1)
    return sm.ITMLProblem.from_labels(X, y, n_pairs, upper=upper, lower=lower, gamma=gamma, prior=prior)


def pola(seed: int) -> sm.POLAProblem:
    """Small and asymmetric: separable, contradictory or soft, features in other units, integers, repeated pairs."""
    rng = np.random.default_rng(seed)
    n, d, p = int(rng.integers(4, 15)), int(rng.integers(1, 5)), int(rng.integers(2, 40))
    X = rng.normal(size=(n, d)) * 10 ** rng.uniform(-1, 1, d)
    pairs = np.array([rng.choice(n, 2, replace=False) for _ in range(p)])
    if rng.random() < 0.2:
        X = np.round(2 * X / X.std(axis=0))
    similar = rng.random(p) < 0.4
    if rng.random() < 0.5:  # separable, where no two distances are equal
        q = np.sum(((X[pairs[:, 0]] - X[pairs[:, 1]]) @ rng.normal(size=(d, d))) ** 2, axis=1)
        similar = q < np.quantile(q, 0.4)
    weight = float(10 ** rng.uniform(-2, 2)) if rng.random() < 0.4 else None
    return sm.POLAProblem(X, pairs, similar, weight, float(rng.choice([1.0, 3.0])))


def check_sandwich(problem: sm.Problem, promises: dict[str, float]) -> bool:
    """Whether every solver proves what it promises; only a certificate that names a weakness need not."""
    promises = {entry.name: promises[entry.name] for entry in solvers_of(problem) if entry.name in promises}
    if problem.X.dtype == np.float32:  # the metric is rounded to single precision
        promises = {name: max(tol, 1e-5) for name, tol in promises.items()}
    solutions = {name: sm.solve(problem, solver=name, tol=tol) for name, tol in promises.items()}
    best = min(solution.objective for solution in solutions.values())
    proven = True
    for name, solution in solutions.items():
        if not solution.certificate.settles(promises[name]):
            assert solution.certificate.weakness, f"{name}: {solution}"
            assert solution.certificate.weakness in solution.advice
            proven = False
        assert solution.lower_bound <= best + rounding(best), f"{name}: {solution} and {best}"
    return proven


# Statements, what their solvers promise, and seeds with a story. 57 and 318 of LMNN once ended early: a kept dual
# candidate shared a matrix that moved with the metric. Of seed 44 Clarabel's multipliers prove 8e-6, and the slopes at
# its point 5e-13. Of 73 its point is too far off.
STATEMENTS = {
    "lmnn": (lmnn, METRICS, (57, 318)),
    "several": (several, METRICS, range(2)),
    "mmc": (partial(of_pairs, "mmc"), PAIRS, (44,)),
    "itml": (partial(of_pairs, "itml"), ITML, (73,)),
    "pola": (pola, POLA, range(6)),
}
# Seeds of ITML whose gap stays open: floats have too few digits for the logarithm of distances that are so near.
WEAK = (91, 115, 195)


@pytest.mark.parametrize(
    ("name", "seeds"),
    [case for name, (*_, seeds) in STATEMENTS.items() for case in few_and_many(seeds, 306, name)],
    ids=str,
)
def test_every_solver_proves_what_it_promises(name: str, seeds: Iterable[int]) -> None:
    make, promises, _ = STATEMENTS[name]
    unproven = {seed for seed in seeds if not check_sandwich(make(seed), promises)}
    assert unproven <= {*WEAK} if name == "itml" else not unproven


@pytest.mark.parametrize("seed", WEAK)
def test_advice_says_why_a_gap_stays_open(seed: int) -> None:
    assert "floats have too few digits for the logarithm" in sm.solve(of_pairs("itml", seed), tol=1e-6).advice


@pytest.mark.parametrize("kind", KINDS)
def test_sandwich_of_hard_kinds(kind: str) -> None:
    check_sandwich(make_instance(kind, 3).problem, METRICS | ({"conic": 1e-4} if kind == "float32" else {}))
