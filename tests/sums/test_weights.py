"""Sums over nonnegative weights by HiGHS and descent; the default solver proves its tolerance on plain sums."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from cases import different
from instances import assert_sandwich
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.preprocessing import scale

import sdpmetric as sm
from sdpmetric import terms
from sdpmetric.sums import weights

LOSSES = ("hinge", "squared_hinge", "logistic")


def regularizers(d: int) -> dict[str, terms.Term]:
    A = np.diag(np.linspace(0.5, 2.0, d)) + 0.1
    return {
        "frobenius": terms.Frobenius(),
        "frobenius to I": terms.Frobenius(to=np.eye(d)),
        "trace": terms.Trace(),
        "log_det": terms.LogDet(),
        "log_det and frobenius": terms.LogDet(to=A) + terms.Frobenius(to=A),
        "pull": terms.Pull([[0, 1], [2, 3]]),
        "none": terms.Pull([[0, 1]], weights=[0.0]),
    }


def assert_optimal(problem, tol=1e-5, solver=None, **options):
    solution = sm.solve(problem, tol=tol, **options)
    assert solver in (None, solution.solver)
    assert solution.certificate.proves_optimal(tol), solution
    problem.domain.check(solution.components)
    return solution


@pytest.mark.parametrize("cost", ["none", "pull", "log_det and frobenius"])
@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_is_proven_beside_every_regularizer(loss, cost):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(30, 5))
    push = terms.TripletHinge(different(rng, 60, 3, 30), loss=loss, weights=rng.exponential(size=60))
    pairs = terms.PairHinge(different(rng, 20, 2, 30), rng.random(20) < 0.5, loss=loss)
    problem = sm.MetricProblem(X, 0.1 * push + pairs + 0.1 * regularizers(5)[cost], diagonal=True)
    assert_optimal(problem, solver="highs" if loss == "hinge" and "log_det" not in cost else "factored")
    exact = sm.solve(problem, "conic")
    solution = sm.solve(problem, tol=1e-6)
    assert_sandwich(solution, exact)


@pytest.mark.parametrize("cost", ["trace", "frobenius", "log_det and frobenius"])
def test_other_losses_and_hard_constraints_are_proven(cost):
    rng = np.random.default_rng(4)
    X, pairs = rng.normal(size=(25, 4)), different(rng, 12, 2, 25)
    D = np.sum((X[pairs[:, 0]] - X[pairs[:, 1]]) ** 2, axis=1)
    several = [
        terms.DistanceBounds(pairs, 1.2 * D, 0.8 * D),
        terms.DistanceBounds(pairs[:6], 1.2 * D[:6], 0.8 * D[:6], loss="log_ratio"),
        terms.DistanceTargets(pairs, 2.0 * D, rng.integers(-1, 2, 12)),
        terms.DistanceTargets(pairs, 2.0 * D) + terms.Budget(pairs[:5]),
        0.001 * terms.Repulsion(pairs),
        terms.OffDiagonal() + terms.TripletHinge(different(rng, 20, 3, 25), loss="hard", margin=0.01),
    ]
    for term in several[:-1]:
        assert_optimal(sm.MetricProblem(X, term + 0.2 * regularizers(4)[cost], diagonal=True))
    solution = sm.solve(sm.MetricProblem(X, several[-1] + 0.2 * regularizers(4)[cost], diagonal=True))
    assert solution.status.word in ("optimal", "infeasible")


def test_sums_whose_multipliers_are_all_fixed_end():
    rng = np.random.default_rng(1)
    X, repulsion = rng.normal(size=(12, 3)), terms.Repulsion(different(rng, 9, 3, 12)[:, :2])
    solution = sm.solve(sm.MetricProblem(X, repulsion + 1e-100 * terms.Trace(), diagonal=True), solver="highs")
    assert solution.lower_bound <= solution.objective


@pytest.mark.parametrize("domain", ["diagonal", "bases"])
def test_losses_and_weights_that_matter_are_enough(domain, monkeypatch):
    rng = np.random.default_rng(9)
    X, B = rng.normal(size=(60, 6)), rng.normal(size=(50, 6))
    domain_option = {"diagonal": True} if domain == "diagonal" else {"bases": B}
    cost = 3.0 * terms.Trace() + 0.2 * terms.Pull(different(rng, 10, 2, 60))
    problem = sm.MetricProblem(X, terms.TripletHinge(different(rng, 400, 3, 60)) + cost, **domain_option)
    full = assert_optimal(problem)
    small = replace(weights.HIGHS, full_table=10, first_rows=20, first_columns=4)
    monkeypatch.setattr(weights, "HIGHS", small)
    reduced = assert_optimal(problem)
    assert_sandwich(reduced, full)


def test_what_no_program_of_weights_is_goes_to_another_solver():
    X = np.random.default_rng(0).normal(size=(12, 3))
    bases = sm.MetricProblem(X, terms.TripletHinge([[0, 1, 2]]) + terms.Frobenius(), bases=np.eye(3)[::-1])
    roots = sm.MetricProblem(X, terms.Spread([[0, 1]]) + terms.Trace(), diagonal=True)
    for problem in (bases, roots, sm.MetricProblem(X, terms.TripletHinge([[0, 1, 2]]) + terms.Trace())):
        assert "highs" not in {entry.name for entry in sm.solvers_of(problem)}
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


KINDS = ("triplets", "pairs", "labels")
SETS = {"iris": load_iris, "wine": load_wine, "cancer": load_breast_cancer}


def labeled_rows(kind: str, y: np.ndarray, loss: str, count: int, seed: int) -> terms.Term | terms.Sum:
    """Random triplets or pairs, or the target neighbors and impostors of labels."""
    rng = np.random.default_rng(seed)
    if kind == "labels":
        return terms.Pull(labels=y) + terms.TripletHinge(labels=y, loss=loss)
    if kind == "pairs":
        pairs = rng.integers(len(y), size=(count, 2))
        pairs = pairs[pairs[:, 0] != pairs[:, 1]]
        return terms.PairHinge(pairs, y[pairs[:, 0]] == y[pairs[:, 1]], loss=loss)
    i, j, impostor = rng.integers(len(y), size=(3, 20 * count))
    chosen = (y[i] == y[j]) & (i != j) & (y[i] != y[impostor])
    return terms.TripletHinge(np.stack([i, j, impostor], axis=1)[chosen][:count], loss=loss)


# Breast cancer takes most of the time; the others with more rows, and all of labels, are slow too.
ROWS = [("iris", "triplets", 60, 1), ("iris", "pairs", 60, 1), ("wine", "pairs", 30, 1)]
ROWS += [pytest.param(name, kind, 600, 0, marks=pytest.mark.slow) for name in SETS for kind in KINDS]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("name", "kind", "count", "seed"), ROWS)
def test_auto_proves_its_tolerance(name: str, kind: str, count: int, seed: int) -> None:
    X, y = SETS[name](return_X_y=True)
    for (features, data), loss in product({"standardized": scale(X), "raw": X}.items(), LOSSES):
        for regularizer in ("frobenius", "frobenius to I", "trace", "log_det"):
            problem = sm.MetricProblem(
                data, labeled_rows(kind, y, loss, count, seed) + regularizers(X.shape[1])[regularizer]
            )
            solution = sm.solve(problem, max_time=300)
            assert solution.status.ok, f"{features} {loss} {regularizer}: {solution}"


@pytest.mark.parametrize(
    ("name", "kind", "loss", "regularizer"),
    [("cancer", "triplets", "logistic", "frobenius"), ("wine", "labels", "hinge", "frobenius to I")],
)
def test_raw_features_beside_a_frobenius_term_are_proven(name, kind, loss, regularizer) -> None:
    """Long distances under I say that it is no start, and the fall that is computed from a point is rounding."""
    X, y = SETS[name](return_X_y=True)
    term = labeled_rows(kind, y, loss, 600, 0) + regularizers(X.shape[1])[regularizer]
    assert sm.solve(sm.MetricProblem(X, term)).status is sm.Status.OPTIMAL
