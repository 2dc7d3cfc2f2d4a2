"""Certificates of a metric that is given as a matrix are about that matrix, not about a factor computed from it."""

from __future__ import annotations

import numpy as np
from exact import Distances, lfda, lfda_scatters, metric, mlr, number, rational
from flint import arb, ctx

import sdpmetric as sm
from sdpmetric.linalg.rigorous import Images


def short(L: np.ndarray) -> np.ndarray:
    """A factor near L with entries of 10 bits, so that ``L^T L`` in floats is exact."""
    power = np.frexp(np.abs(L).max(axis=-2, keepdims=True))[1] - 10
    return np.ldexp(np.rint(np.ldexp(L, -power)), power)


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
        exact, found = lfda(lfda_scatters(X, y, 2), L), problem.certify(metric=L.T @ L)
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
        queries = [(q, related.relevant(q).tolist(), related.irrelevant(q).tolist()) for q in range(8)]
        exact = mlr(Distances(X, L), metric(L), queries, 1e12, False)
        found = problem.certify(metric=L.T @ L)
        assert number(found.objective) >= exact, seed
        assert found.objective <= float(exact) * 1.01, seed
