"""Sums over nonnegative weights: proven by the interior point method, and their slacks in exact arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from exact import SCALARS, Distances, total
from flint import arb

import sdpmetric as sm
from sdpmetric import terms
from sdpmetric.solvers import weights

LOSSES = ("hinge", "squared_hinge", "smooth_hinge", "logistic")


def rows(rng, n, m, k=3):
    return np.argsort(rng.random((m, n)), axis=1)[:, :k]


def regularizer(name, d):
    A = np.diag(np.linspace(0.5, 2.0, d)) + 0.1
    return {
        "none": terms.Pull([[0, 1]], weights=[0.0]),
        "pull": terms.Pull([[0, 1], [2, 3]]),
        "trace": 0.3 * terms.Trace(),
        "frobenius": 0.2 * terms.Frobenius(to=A),
        "log_det": 0.2 * terms.LogDet(to=A),
        "both": 0.1 * terms.LogDet() + 0.1 * terms.Frobenius(to=A),
    }[name]


def assert_optimal(problem, tol=1e-5, **options):
    found = sm.solve(problem, tol=tol, **options)
    assert found.solver == "weights"
    assert found.certificate.proves_optimal(tol), found
    assert problem.domain.residual(found.components) <= 1e-6
    return found


@pytest.mark.parametrize("cost", ["none", "pull", "trace", "frobenius", "log_det", "both"])
@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_is_proven_beside_every_regularizer(loss, cost):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(30, 5))
    push = terms.TripletHinge(rows(rng, 30, 60), loss=loss, weights=rng.exponential(size=60))
    pairs = terms.PairHinge(rows(rng, 30, 20, 2), rng.random(20) < 0.5, loss=loss)
    problem = sm.MetricProblem(X, 0.1 * push + pairs + regularizer(cost, 5), diagonal=True)
    assert_optimal(problem)
    other = sm.solve(problem, "conic")
    found = sm.solve(problem, tol=1e-6)
    assert found.lower_bound <= other.objective + 1e-9 * abs(other.objective)
    assert other.lower_bound <= found.objective + 1e-9 * abs(found.objective)


@pytest.mark.parametrize("cost", ["trace", "frobenius", "log_det"])
def test_other_losses_and_hard_constraints_are_proven(cost):
    rng = np.random.default_rng(4)
    X, pairs = rng.normal(size=(25, 4)), rows(rng, 25, 12, 2)
    D = np.sum((X[pairs[:, 0]] - X[pairs[:, 1]]) ** 2, axis=1)
    several = [
        terms.DistanceBounds(pairs, 1.2 * D, 0.8 * D),
        terms.DistanceBounds(pairs[:6], 1.2 * D[:6], 0.8 * D[:6], loss="log_ratio"),
        terms.DistanceTargets(pairs, 2.0 * D, rng.integers(-1, 2, 12)),
        terms.DistanceTargets(pairs, 2.0 * D) + terms.Budget(pairs[:5]),
        0.001 * terms.Repulsion(pairs),
        terms.OffDiagonal() + terms.TripletHinge(rows(rng, 25, 20), loss="hard", margin=0.01),
    ]
    for term in several[:-1]:
        assert_optimal(sm.MetricProblem(X, term + regularizer(cost, 4), diagonal=True))
    found = sm.solve(sm.MetricProblem(X, several[-1] + regularizer(cost, 4), diagonal=True))
    assert found.solver == "weights"
    assert found.status.word in ("optimal", "infeasible")


@pytest.mark.parametrize("kind", ["line", "duplicates", "float32", "wide", "constant", "scaled", "hostile"])
@pytest.mark.parametrize("cost", ["none", "trace", "frobenius", "log_det"])
def test_hard_data(kind, cost):
    rng = np.random.default_rng(8)
    n, d = 20, {"line": 1, "wide": 40}.get(kind, 3)
    X = rng.normal(size=(n, d))
    if kind == "duplicates":
        X[3], X[6] = X[4], X[9]
    if kind == "constant":
        X[:, 1] = 0.1
    if kind in ("scaled", "hostile") and cost in ("none", "trace"):
        X *= np.array([1e-5, 1.0, 1e5]) if kind == "scaled" else np.array([1e-9, 1e-30, 1e8])
    X = X.astype(np.float32) if kind == "float32" else X
    problem = sm.MetricProblem(X, terms.TripletHinge(rows(rng, n, 40)) + regularizer(cost, d), diagonal=True)
    found = assert_optimal(problem, 1e-4)
    assert found.components.dtype == X.dtype
    exactly = Distances(X, np.asarray(found.components, dtype=np.float64)) if len(found.components) else None
    i, j, l = problem.total.losses[0].roles().values()
    if cost == "none" and exactly is not None:
        value = total(
            SCALARS["hinge"](1 + exactly(a, b) - exactly(a, c))
            for a, b, c in zip(i.tolist(), j.tolist(), l.tolist(), strict=True)
        )
        assert not value > arb(found.objective)
        assert not value < arb(found.lower_bound)


def test_triplets_that_some_weights_satisfy_cost_nothing():
    rng = np.random.default_rng(1)
    X, triplets = rng.normal(size=(40, 6)), rows(rng, 40, 80)
    i, j, l = triplets.T
    near, far = ((X[i, 0] - X[other, 0]) ** 2 for other in (j, l))
    triplets[near > far] = triplets[near > far][:, [0, 2, 1]]  # the first feature decides
    found = sm.solve(sm.MetricProblem(X, terms.TripletHinge(triplets), diagonal=True))
    assert found.objective == 0.0
    wrong = np.concatenate([triplets, triplets[:, [0, 2, 1]]])
    both = sm.MetricProblem(X, 0.1 * terms.Trace() + terms.TripletHinge(wrong, loss="hard"), diagonal=True)
    assert sm.solve(both).status.word == "infeasible"


def test_constraints_that_contradict_each_other_are_named():
    rng = np.random.default_rng(2)
    X, pairs = rng.normal(size=(30, 10)), rows(rng, 30, 15, 2)
    D = np.sum((X[pairs[:, 0]] - X[pairs[:, 1]]) ** 2, axis=1)
    near = terms.DistanceBounds(pairs, at_most=np.append(0.5 * D[:-1], np.inf), at_least=np.append(0.0 * D[:-1], 1.0))
    again = terms.DistanceBounds(pairs, at_least=0.9 * D)
    for cost in ("trace", "frobenius", "log_det"):
        problem = sm.MetricProblem(X, near + again + regularizer(cost, 10), diagonal=True)
        certificate = sm.solve(problem).certificate
        assert isinstance(certificate, sm.InfeasibilityCertificate)
        assert 2 <= len(certificate.contradiction) <= 11  # weights and one more


@pytest.mark.parametrize("loss", LOSSES)
def test_multipliers_that_are_feasible_prove_their_own_value(loss):
    """Without regularizers slacks are 0 at the anchor, and no multipliers need to be moved from there."""
    rng = np.random.default_rng(12)
    push = terms.TripletHinge(rows(rng, 20, 60), loss=loss)
    problem = sm.MetricProblem(rng.normal(size=(20, 4)), push, diagonal=True)
    found = sm.solve(problem, tol=1e-6)
    a, term = found.dual, problem.total.losses[0]
    certificate = problem.certify(np.zeros((0, 4)), dual=a)
    value = float(np.sum(a * term.offset - term.conjugates(a)))
    assert certificate.lower_bound >= value * (1.0 - 1e-9)
    assert certificate.lower_bound == pytest.approx(found.objective, rel=1e-5)
    for less in (0.5, 0.0):
        worse = np.where(np.arange(60) < 30, less * a, a)
        assert problem.certify(np.zeros((0, 4)), dual=worse).lower_bound <= found.objective


@pytest.mark.parametrize("seed", range(30))
def test_slacks_of_weights_are_within_their_errors(seed):
    """Against rational numbers, on data, multipliers and vectors of all sizes."""
    rng = np.random.default_rng([seed, 5])
    n, d, m = 8, int(rng.integers(1, 5)), 12
    X = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-12, 12, d) + 10.0 ** rng.integers(-3, 9, d)
    X[:, 0] = np.round(X[:, 0]) if seed % 3 == 0 else X[:, 0]
    X = X.astype(np.float32) if seed % 4 == 0 else X
    given = (
        {"diagonal": True}
        if seed % 2
        else {"bases": rng.normal(size=(d + 2, d)) / np.ptp(X.astype(float), axis=0).clip(1e-30)}
    )
    quadruplets = rows(rng, n, m, 4)
    total_of = terms.QuadrupletHinge(quadruplets) + 10.0 ** rng.uniform(-9, 9) * terms.Trace() + terms.Pull([[0, 1]])
    problem = sm.MetricProblem(X, total_of, **given)
    a = rng.exponential(size=m) * 10.0 ** rng.integers(-6, 6, m)
    a[rng.random(m) < 0.3] = 0.0
    slack = problem.dual.slack
    B, data = problem.domain.basis, [[Fraction(float(x)) for x in row] for row in X]
    for in_units, units in ((False, np.ones(len(B))), (True, slack.units)):
        found, error = slack.diagonal([a], [], in_units)
        for b, unit, value, off in zip(B.tolist(), units.tolist(), found.tolist(), error.tolist(), strict=True):
            b = [Fraction(x) * Fraction(unit) for x in b]
            squares = {}

            def square(p, q, b=b, squares=squares):
                if (p, q) not in squares:
                    squares[p, q] = sum(x * (u - v) for x, u, v in zip(b, data[p], data[q], strict=True)) ** 2
                return squares[p, q]

            ridge = Fraction(problem.terms[1].weight) * sum(x * x for x in b)
            exactly = (
                ridge
                + square(0, 1)
                + sum(
                    Fraction(w) * (square(i, j) - square(k, l))
                    for w, (i, j, k, l) in zip(a.tolist(), quadruplets.tolist(), strict=True)
                )
            )
            assert abs(exactly - Fraction(value)) <= Fraction(off)


@pytest.mark.parametrize("seed", range(10))
def test_least_values_over_weights_are_rounded_downwards(seed):
    rng = np.random.default_rng([seed, 6])
    d = int(rng.integers(1, 5))
    A = rng.normal(size=(d, d))
    M0, weight = A @ A.T + 0.1 * np.eye(d), float(10.0 ** rng.uniform(-6, 6))
    s = rng.normal(size=d) * weight
    found = terms.Frobenius(to=M0, weight=weight).bind(np.eye(d)).least_over_weights(s)
    parts = [
        max(Fraction(0), Fraction(weight) * Fraction(m) - Fraction(z)) ** 2 for m, z in zip(np.diag(M0), s, strict=True)
    ]
    size = sum(Fraction(m) ** 2 for m in ((M0 + M0.T) / 2).ravel().tolist())
    exactly = Fraction(weight) / 2 * size - sum(parts) / (2 * Fraction(weight))
    assert Fraction(found) <= exactly
    assert float(exactly - Fraction(found)) <= 1e-12 * weight * float(1 + size)
    log_det = terms.LogDet(weight=weight).bind(np.eye(d))
    s = weight * rng.uniform(-0.9, 3.0, d)
    least, value = (
        log_det.least_over_weights(s),
        sum((arb(z) / arb(weight) + 1).log() for z in s.tolist()) * arb(weight),
    )
    assert not arb(least) > value
    assert least >= float(value) - 1e-12 * weight * d


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("domain", ["diagonal", "bases"])
def test_losses_and_weights_that_matter_are_enough(loss, domain, monkeypatch):
    rng = np.random.default_rng(9)
    X, B = rng.normal(size=(60, 6)), rng.normal(size=(50, 6))
    given = {"diagonal": True} if domain == "diagonal" else {"bases": B}
    cost = 3.0 * terms.Trace() + 0.2 * terms.Pull(rows(rng, 60, 10, 2))
    problem = sm.MetricProblem(X, terms.TripletHinge(rows(rng, 60, 400), loss=loss) + cost, **given)
    whole = assert_optimal(problem)
    for name, value in (("WORK", 10.0), ("FEW_LOSSES", 20), ("FEW_WEIGHTS", 4)):
        monkeypatch.setattr(weights, name, value)
    part = assert_optimal(problem)
    assert part.lower_bound <= whole.objective
    assert whole.lower_bound <= part.objective


def test_what_no_program_of_weights_is_goes_to_another_solver():
    X = np.random.default_rng(0).normal(size=(12, 3))
    softmax = sm.MetricProblem(X, terms.Collapse(np.arange(12) % 2) + terms.Trace(), diagonal=True)
    bases = sm.MetricProblem(X, terms.TripletHinge([[0, 1, 2]]) + terms.Frobenius(), bases=np.eye(3)[::-1])
    roots = sm.MetricProblem(X, terms.Spread([[0, 1]]) + terms.Trace(), diagonal=True)
    for problem in (softmax, bases, roots, sm.MetricProblem(X, terms.TripletHinge([[0, 1, 2]]) + terms.Trace())):
        assert "weights" not in [entry.name for entry in sm.solvers_of(problem)]
        assert sm.solve(problem, tol=1e-3).status.word == "optimal"


def test_a_logistic_loss_alone_says_that_it_has_no_minimum():
    total = terms.TripletHinge([[0, 1, 2], [1, 0, 2]], loss="logistic")
    X = [[0.0, 0.0], [1.0, 0.0], [0.0, 9.0]]
    solution = sm.solve(sm.MetricProblem(X, total, diagonal=True), tol=1e-6)
    assert solution.relative_gap > 1e-6
    assert "no minimum" in solution.advice
    proven = sm.solve(sm.MetricProblem(X, total + terms.Trace(weight=0.01), diagonal=True), tol=1e-6)
    assert proven.relative_gap <= 1e-6
    assert "no minimum" not in proven.advice
