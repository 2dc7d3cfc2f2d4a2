"""Certificates of a metric that is given as a matrix are about that matrix, not about a factor computed from it."""

from __future__ import annotations

import numpy as np
import oracles
import pytest
from exact import (
    Distances,
    divergence,
    hostile,
    itml_objective,
    lego_loss,
    lfda_objective,
    lmnn_objective,
    mcml_objective,
    metric,
    mlr_objective,
    number,
    rational,
    rca_objective,
)
from flint import arb, ctx, fmpq

import sdpmetric as sm
from sdpmetric.linalg.rigorous import Images


def short(L: np.ndarray) -> np.ndarray:
    """A factor near L with entries of 10 bits, so that ``L^T L`` in floats is exact."""
    power = np.frexp(np.abs(L).max(axis=-2, keepdims=True))[1] - 10
    return np.ldexp(np.rint(np.ldexp(L, -power)), power)


def size(L: np.ndarray) -> fmpq:
    return sum((entry**2 for entry in metric(L).entries()), fmpq(0))


def hinges(problem: sm.LMNNProblem, L: np.ndarray, ridge: float = 0.0, regions: np.ndarray | None = None) -> fmpq:
    base = getattr(problem, "tied", getattr(problem, "base", problem))
    triplets = np.array(oracles.all_triplets(base.source.targets, base.source.labels)).reshape(-1, 3)
    pairs = np.stack(base.target_pairs, axis=1)
    return lmnn_objective(
        base.X, L, pairs, triplets, np.ones(len(triplets)), base.push_weight, ridge, base.squared, regions
    )


def lmnn(X, y, L):
    problem = sm.LMNNProblem.from_labels(X, y, 2, 0.4, ridge=0.1)
    return problem, hinges(problem, L, 0.1)


def squared(X, y, L):
    problem = sm.LMNNProblem.from_labels(X, y, 1, 0.4, loss="squared_hinge")
    return problem, hinges(problem, L)


def several(X, y, L):
    problem = sm.MultiMetricLMNNProblem.from_labels(X, y, 1, 0.4)
    return problem, hinges(problem, [L] * problem.n_regions, regions=problem.regions)


def frobenius(X, y, L):
    problem = sm.FrobeniusLMNNProblem.from_labels(X, y, 1, 0.4, 0.5)
    return problem, hinges(problem, L) + number(0.25) * size(L)


def pola(X, y, L):
    problem = sm.POLAProblem.from_labels(X, y)
    D, b = Distances(X, L), problem.best_threshold(problem.distances(L))
    u = [1 - int(s) * (number(b) - D(int(i), int(j))) for (i, j), s in zip(problem.pairs, problem.signs, strict=True)]
    return problem, (size(L) + (number(b) - 1) ** 2) / 2 + sum((max(fmpq(0), part) for part in u), fmpq(0))


def itml(X, y, L):
    problem = sm.ITMLProblem.from_labels(X, y)
    about = problem.pairs, problem.similar, problem.upper, problem.lower, problem.gamma, problem.prior
    return problem, itml_objective(X, L, *about)


def lego(X, y, L):
    pairs, targets = np.array([[0, 1], [2, 5], [3, 8]]), np.array([1.0, 0.1, 3.0])
    problem = sm.LEGOProblem(X, pairs, targets, np.zeros(3, dtype=int), 0.5)
    return problem, lego_loss(Distances(X, L), pairs, targets, np.zeros(3, dtype=int))


def log_det(X, y, L):
    problem = sm.MetricProblem(X, sm.terms.LogDet() + sm.terms.Trace())
    return problem, divergence(metric(L), problem.terms[0].target) + sum(
        arb(metric(L)[k, k]) for k in range(X.shape[1])
    )


def mlr(X, y, L):
    related = sm.Relevance.from_labels(y)
    problem = sm.MLRProblem(X, related, "map", 2.0)
    return problem, mlr_objective(X, L, related, X, True, 2.0)


CASES = {
    "lmnn": lmnn,
    "squared": squared,
    "several": several,
    "frobenius": frobenius,
    "pola": pola,
    "itml": itml,
    "lego": lego,
    "rca": lambda X, y, L: (sm.RCAProblem(X, y, 0.1), rca_objective(X, L, y, 0.1)),
    "mcml": lambda X, y, L: (sm.MCMLProblem(X, y), mcml_objective(X, L, y)),
    "mlr": mlr,
    "lfda": lambda X, y, L: (sm.LFDAProblem(X, y, n_neighbors=2, ridge=0.1), lfda_objective(X, L, y, 2, 0.1)),
    "log det": log_det,
}


@pytest.mark.parametrize("case", CASES)
def test_objectives_of_given_metrics_are_not_below_the_exact_ones(case: str) -> None:
    """Features in units from 1e-6 to 1e6, where rounding of a factor is far more than that of the distances."""
    ctx.prec = 256
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X, y = hostile("scales", rng, n=12, d=3)
        X, y = np.asarray(X, dtype=np.float64), np.unique(y, return_inverse=True)[1]
        L = short(rng.normal(size=(3, 3)) / np.ptp(X, axis=0))
        problem, exact = CASES[case](X, y, L)
        M = L.T @ L
        assert rational(M) == metric(L)
        given = np.stack([M] * problem.n_regions) if case == "several" else M
        found = problem.certify(metric=given)
        assert not arb(found.objective) < exact, (case, seed)
        near = problem.certify(np.stack([L] * problem.n_regions) if case == "several" else L).objective
        assert found.objective <= near + 1e-9 * abs(near), (case, seed)
        if case != "lego":  # which has a regret in its place
            assert not sm.verify(problem, metric=given, max_time=0.01).objective < found.objective


def test_distances_of_a_singular_metric_are_between_their_bounds() -> None:
    rng = np.random.default_rng(1)
    for d in (1, 2, 5):
        X, L = rng.normal(size=(8, d)) * 10.0 ** rng.uniform(-6, 6, d), short(rng.normal(size=(1, d)))
        images = Images.of(X, X - X.mean(axis=0), rng.normal(size=(d, 2)), metric=L.T @ L)
        first, second = np.triu_indices(8, 1)
        low, high = images.distances(first, second)
        for i, j, a, b in zip(first, second, low, high, strict=True):
            assert number(a) <= Distances(X, L)(int(i), int(j)) <= number(b)


def test_lfda_of_a_singular_metric_is_about_its_own_row_space() -> None:
    """The row space of the computed factor of ``L^T L`` is near that of L only."""
    ctx.prec = 256
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(12, 4)), np.repeat([0, 1], 6)
        problem = sm.LFDAProblem(X, y, 2, 2)
        L = short(rng.normal(size=(2, 4))) * [[2.0**14], [1.0]]
        assert rational(L.T @ L) == metric(L)
        exact, found = lfda_objective(X, L, y, 2), problem.certify(metric=L.T @ L)
        assert not arb(found.objective) < exact, seed
        assert found.objective <= float(exact) + 1e-3 * abs(float(exact)), seed


def test_mlr_of_a_metric_that_cancels() -> None:
    """Items vary along the direction of the small eigenvalue of the metric."""
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X, y = np.outer(rng.normal(size=8), [0.1, 0.1]), np.repeat([0, 1], 4)
        L = np.array([[2.0**20, 1.0 - 2.0**20], rng.integers(-9, 9, 2)])
        assert rational(L.T @ L) == metric(L)
        related = sm.Relevance.from_labels(y)
        problem = sm.MLRProblem(X, related, "auc", 1e12)
        exact, found = mlr_objective(X, L, related, X, False, 1e12), problem.certify(metric=L.T @ L)
        assert number(found.objective) >= exact, seed
        assert found.objective <= float(exact) * 1.01, seed
