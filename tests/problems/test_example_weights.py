"""Weights of examples: what they mean, and that every solver and certificate takes them."""

from __future__ import annotations

import numpy as np
import pytest
from instances import assert_same

import sdpmetric as sm

LOSSES = ["squared_hinge"]
RNG = np.random.default_rng(5)
Y = np.repeat([0, 1, 2], [14, 12, 10])
X = RNG.normal(size=(36, 4)) + np.outer(Y, [1.2, -0.8, 0.0, 0.0])
COUNTS = RNG.integers(1, 4, size=36)
WEIGHTS = RNG.uniform(0.2, 3.0, size=36)


def repeated(**arguments):
    """The problem of repeated rows, each copy with the target neighbors of its row."""
    plain = sm.LMNNProblem.from_labels(X, Y, 2, 0.4)
    copies = np.repeat(np.arange(36), COUNTS)
    first = np.searchsorted(copies, np.arange(36))
    return sm.LMNNProblem.from_labels(
        X[copies], Y[copies], push_weight=0.4, target_neighbors=first[plain.source.targets[copies]], **arguments
    )


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("ridge", [0.3])
def test_whole_weights_are_repeated_rows(loss, ridge):
    weighted = sm.LMNNProblem.from_labels(X, Y, 2, 0.4, loss=loss, ridge=ridge, sample_weight=COUNTS)
    copied = repeated(loss=loss, ridge=ridge)
    for scale in (0.0, 0.3, 1.0, 5.0):
        L = scale * RNG.normal(size=(3, 4))
        one, two = weighted.certify(L), copied.certify(L)
        assert_same(weighted.objective(L), copied.objective(L))
        assert one.objective == pytest.approx(two.objective, rel=1e-9)
        assert one.lower_bound == pytest.approx(two.lower_bound, rel=1e-6, abs=1e-9)
    solved = sm.solve(weighted, tol=1e-4)
    assert solved.status.ok
    assert sm.certify(copied, solved.components).objective == pytest.approx(solved.objective, rel=1e-9)
    assert sm.solve(copied, tol=1e-4).certificate.lower_bound <= solved.objective * (1 + 1e-9)


@pytest.mark.parametrize("solver", ["factored", "subgradient", "conic"])
@pytest.mark.parametrize("loss", LOSSES)
def test_every_solver_proves_its_gap(solver, loss):
    problem = sm.LMNNProblem.from_labels(X, Y, 2, 0.4, loss=loss, sample_weight=WEIGHTS)
    found, exact = sm.solve(problem, solver=solver, tol=1e-3), sm.solve(problem, solver="conic", tol=1e-5)
    assert found.status.ok
    assert exact.certificate.lower_bound <= found.objective * (1 + 1e-9)
    assert found.certificate.lower_bound <= exact.objective * (1 + 1e-9)
    plain = sm.LMNNProblem.from_labels(X, Y, 2, 0.4, loss=loss)
    assert plain.fingerprint() != problem.fingerprint()
    anchors, targets = problem.target_pairs
    Z = X @ found.components.T
    pull = float(np.sum((Z[anchors] - Z[targets]) ** 2, axis=1) @ WEIGHTS[anchors])
    at = sm.explain(found).sensitivity.weights["push_weight"]
    assert at == pytest.approx((found.objective - 0.6 * pull) / 0.4 - pull, rel=1e-5)


@pytest.mark.parametrize("loss", LOSSES)
def test_several_metrics_take_weights(loss):
    arguments = {"n_neighbors": 2, "push_weight": 0.4, "loss": loss}
    weighted = sm.MultiMetricLMNNProblem.from_labels(X, Y, **arguments, sample_weight=COUNTS)
    plain = sm.MultiMetricLMNNProblem.from_labels(X, Y, **arguments)
    copies = np.repeat(np.arange(36), COUNTS)
    first = np.searchsorted(copies, np.arange(36))
    targets = first[plain.source.targets[copies]]
    copied = sm.MultiMetricLMNNProblem.from_labels(
        X[copies], Y[copies], 1, push_weight=0.4, loss=loss, target_neighbors=targets
    )
    for scale in (0.0, 0.3, 2.0):
        L = scale * RNG.normal(size=(3, 2, 4))
        assert_same(weighted.objective(L), copied.objective(L))
        one, two = weighted.certify(L), copied.certify(L)
        assert one.objective == pytest.approx(two.objective, rel=1e-9)
        assert one.lower_bound == pytest.approx(two.lower_bound, rel=1e-6, abs=1e-9)
    solved = sm.solve(weighted, tol=1e-3)
    assert solved.status.ok
    assert sm.solve(copied, tol=1e-3).certificate.lower_bound <= solved.objective * (1 + 1e-9)


def test_a_feature_space_and_a_frobenius_term_take_weights():
    kernel = sm.KernelLMNNProblem.from_labels(X, Y, 2, kernel="rbf", ridge=0.1, sample_weight=WEIGHTS)
    assert sm.solve(kernel).status.ok
    frobenius = sm.FrobeniusLMNNProblem.from_labels(X, Y, 2, sample_weight=WEIGHTS)
    found, exact = sm.solve(frobenius, tol=1e-4), sm.solve(frobenius, solver="conic", tol=1e-5)
    assert found.status.ok
    assert max(s.certificate.lower_bound for s in (found, exact)) <= min(found.objective, exact.objective) * (1 + 1e-9)
