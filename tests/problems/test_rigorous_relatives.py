"""Certificates of Frobenius LMNN, POLA and MMC against exact rational arithmetic."""

import math

import numpy as np
import oracles
import pytest
from exact import FAMILIES, Distances, fraction, hostile, lmnn_objective, number, rational
from flint import arb, fmpq

import sdpmetric as sm


def metric_norm(L) -> fmpq:
    """The exact ``||L^T L||_F^2``."""
    A = rational(L) * rational(L).transpose()
    return sum((A[i, j] ** 2 for i in range(A.nrows()) for j in range(A.ncols())), fmpq(0))


def pairs_of(X, y, rng, p=16):
    pairs = np.unique(np.sort(rng.integers(0, len(X), (p, 2)), axis=1), axis=0)
    pairs = pairs[(pairs[:, 0] != pairs[:, 1])]
    return pairs, y[pairs[:, 0]] == y[pairs[:, 1]]


@pytest.mark.parametrize("family", FAMILIES)
def test_frobenius(family, rng):
    X, y = hostile(family, rng)
    problem = sm.FrobeniusLMNNProblem.from_labels(X, y, 1, 0.4, 0.5)
    solution = sm.solve(problem, tol=1e-5, max_iter=300)
    base = problem.base
    triplets = np.array(oracles.all_triplets(base.source.targets, base.source.labels)).reshape(-1, 3)
    objectives, certificates = [], [solution.certificate]
    scale = 1.0 / np.maximum(np.ptp(np.asarray(X, float), axis=0), 1e-300)
    for L in (
        np.asarray(solution.components, float),
        rng.normal(size=(2, X.shape[1])) * scale,
        0.0 * np.eye(X.shape[1]),
    ):
        value = lmnn_objective(
            np.asarray(X, float), L, np.stack(base.target_pairs, axis=1), triplets, np.ones(len(triplets)), 0.4
        )
        objectives.append(fraction(value + number(0.25) * metric_norm(L)))
        certificates.append(problem.certify(L))
        assert certificates[-1].objective >= objectives[-1]
    assert max(c.lower_bound for c in certificates) <= min(objectives)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("weight", [0.3, None])
def test_pola(family, weight, rng):
    X, y = hostile(family, rng)
    pairs, similar = pairs_of(np.asarray(X, float), y, rng)
    problem = sm.POLAProblem(X, pairs, similar, weight, 1.5)
    solution = sm.solve(problem, tol=1e-5, max_iter=300)
    if not isinstance(solution.certificate.gap, float) or not math.isfinite(solution.objective):
        return
    L, b = np.asarray(solution.components, float), solution.extras["threshold"]
    D = Distances(np.asarray(X, float), L)
    margins = [
        (number(b) - D(int(i), int(j))) * (1 if same else -1) for (i, j), same in zip(pairs, similar, strict=True)
    ]
    if weight is None:  # the least feasible multiple of the point
        least = min([fmpq(1), *margins])
        assert least > 0
        scale = 1 / least
        exact = (scale**2 * metric_norm(L) + (scale * number(b) - number(1.5)) ** 2) / 2
    else:
        slack = sum((max(fmpq(0), 1 - m) for m in margins), fmpq(0))
        exact = (metric_norm(L) + (number(b) - number(1.5)) ** 2) / 2 + number(weight) * slack
    certificate = problem.certify(L, dual=solution.dual, threshold=b)
    if weight is not None:
        assert certificate.objective >= fraction(exact)
    assert max(solution.lower_bound, certificate.lower_bound, problem.certify(L).lower_bound) <= fraction(exact)


@pytest.mark.parametrize("family", [f for f in FAMILIES if f not in ("wide", "constant")])
def test_mmc(family, rng):
    X, y = hostile(family, rng)
    pairs, similar = pairs_of(np.asarray(X, float), y, rng, p=60)
    try:
        problem = sm.MMCProblem(X, pairs, similar)
    except ValueError:
        return
    solution = sm.solve(problem, tol=1e-5, max_iter=300)
    for L in (np.asarray(solution.components, float), np.eye(X.shape[1])):
        D = Distances(np.asarray(X, float), L)
        spent = sum((D(int(i), int(j)) for (i, j), same in zip(pairs, similar, strict=True) if same), fmpq(0))
        lengths = [arb(D(int(i), int(j))).sqrt() for (i, j), same in zip(pairs, similar, strict=True) if not same]
        exact = -sum(lengths, arb(0)) / max(arb(1), arb(spent), key=lambda value: float(value.mid())).sqrt()
        certificate = problem.certify(L)
        assert not arb(certificate.objective) < exact
        for bound in (solution.lower_bound, certificate.lower_bound):
            assert not arb(bound) > exact
