"""Maps of queries against exact arithmetic, a general solver, and hostile data."""

import numpy as np
import pytest
from exact import SCALARS, number, rational, square
from flint import arb, ctx

import sdpmetric as sm

ctx.prec = 400
LOSSES = ["logistic", "hinge", "squared_hinge", "smooth_hinge"]


def data(seed=0, n=14, d=3, t=20):
    rng = np.random.default_rng(seed)
    triplets = np.array([rng.permutation(n)[:3] for _ in range(t)])
    return rng.normal(size=(n, d)), triplets


HOSTILE = {
    "plain": lambda X: X,
    "large": lambda X: 1e60 * X,
    "small": lambda X: 1e-80 * X,
    "sizes": lambda X: X * np.logspace(-160, 0, len(X))[:, None],
    "units": lambda X: X * np.array([1e-9, 1.0, 1e9]),
    "far away": lambda X: 1e8 + X,
    "equal rows": lambda X: np.repeat(X[::2], 2, axis=0),
    "whole": lambda X: np.round(3.0 * X),
    "single precision": lambda X: (1e5 * X).astype(np.float32),
}


def exact(problem, L):
    """The objective at a map of floats, in rational numbers and balls."""
    X, W, W0 = rational(problem.X), rational(L).transpose(), rational(problem.to)
    weights = [number(w) for w in problem.terms[0].item_weights.tolist()]
    S, loss = X * W * X.transpose(), SCALARS[problem.loss]
    losses = [
        arb(w) * arb(loss(number(problem.margin) - S[q, x] + S[q, z]))
        for w, (q, x, z) in zip(weights, problem.triplets.tolist(), strict=True)
    ]
    return sum(losses, arb(0)) + arb(number(problem.frobenius) * square(W - W0) / 2)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", HOSTILE)
def test_objectives_and_bounds_hold_in_exact_arithmetic(loss, kind):
    X, triplets = data()
    X = HOSTILE[kind](X)
    size = float(np.mean(np.asarray(X, dtype=np.float64) ** 2)) ** 2
    rng = np.random.default_rng(1)
    weights = rng.uniform(0.0, 2.0, len(triplets))
    options = {"frobenius": max(0.05 * size, 1e-300), "to": rng.normal(size=(3, 3)), "triplet_weights": weights}
    problem = sm.QueryProblem(X, triplets, loss=loss, margin=0.3, **options)
    solution = sm.solve(problem, tol=1e-9, max_iter=2000)
    points = [solution.components, np.eye(3), 1e3 * rng.normal(size=(3, 3)), problem.zero]
    for L in points:
        L = np.asarray(L, dtype=np.float64)
        value = exact(problem, L)
        certificate = sm.certify(problem, L)
        assert not arb(certificate.objective) < value
        recertified = sm.certify(problem, L, dual=solution.dual)
        for proven in (certificate, solution, recertified):
            assert not arb(proven.lower_bound) > value
    if kind in ("plain", "whole"):
        assert solution.relative_gap <= 1e-6
        assert solution.objective == pytest.approx(float(exact(problem, solution.components)), rel=1e-9)


def test_roundings_of_sums_that_cancel_are_accounted_for():
    for seed in range(20):
        (X, triplets), W0 = data(seed), 1e6 * np.random.default_rng(seed).normal(size=(3, 3))
        canceling = np.concatenate([triplets, triplets[::-1, [0, 2, 1]]])
        problem = sm.QueryProblem(X, canceling, to=W0, loss="hinge", margin=1e-3)
        weights = problem.terms[0].item_weights  # with these the sum over triplets and their opposites is 0
        assert number(problem.proven(weights)) <= number(1e-3) * sum(number(w) for w in weights)
        far, even = sm.QueryProblem(1e8 + X, triplets, 1e-300, loss="hinge"), np.eye(3) - np.ones((3, 3)) / 3.0
        assert not arb(sm.certify(far, even).objective) < exact(far, even)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_optimum_is_that_of_a_general_solver(loss):
    import cvxpy as cp

    (X, triplets), W0 = data(3), np.diag([1.0, 2.0, 0.5])
    problem = sm.QueryProblem(X, triplets, 0.2, to=W0, loss=loss, margin=1.0)
    W = cp.Variable((3, 3))
    q, x, z = (X[rows] for rows in triplets.T)
    u = 1.0 - cp.sum(cp.multiply(q @ W, x - z), axis=1)
    value = cp.sum(problem.terms[0].scalar.expression(u, cp)[0]) / len(triplets) + 0.1 * cp.sum_squares(W - W0)
    best = cp.Problem(cp.Minimize(value)).solve(solver="CLARABEL")
    for entry in sm.solvers_of(problem):
        solution = sm.solve(problem, entry.name, tol=1e-6)
        assert solution.status.word == "optimal"
        assert solution.objective == pytest.approx(best, rel=1e-5)
        assert sm.verify(problem, solution.components + 0.1).lower_bound <= best * (1 + 1e-6)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_maps_that_are_too_large_for_floats_end_with_a_status():
    X, triplets = data()
    for entry in sm.solvers_of(problem := sm.QueryProblem(1e150 * X, triplets, 1e-300, loss="smooth_hinge")):
        solution = sm.solve(problem, entry.name, max_iter=50)
        assert solution.status.word != "optimal"
        assert not arb(solution.objective) < exact(problem, solution.components)


def distant_clusters(rng):
    return np.concatenate([rng.normal(size=(20, 3)), 50.0 + rng.normal(size=(20, 3))])


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(
    "features", [distant_clusters, lambda rng: rng.normal(size=(40, 4)) * [1.0, 1e-2, 30.0, 500.0]]
)
def test_features_of_any_size_are_proven(loss, features):
    rng = np.random.default_rng(0)
    triplets = np.argsort(rng.random((120, 40)), axis=1)[:, :3]
    problem = sm.QueryProblem(features(rng), triplets, 0.1, loss=loss, margin=1.0)
    assert sm.solve(problem, tol=1e-6).relative_gap <= 1e-6


def test_explanations_add_up_and_the_program_is_bounded_by_itself():
    X, triplets = data(6)
    problem = sm.QueryProblem(X, triplets, 0.2, margin=1.0)
    solution = sm.solve(problem, tol=1e-6)
    explanation = sm.explain(solution)
    sums = explanation.slacks.sums
    assert 0.2 * sums["frobenius"] + sums["loss"] == pytest.approx(solution.objective)
    assert list(explanation.support.columns) == ["query", "better", "worse"]
    between = sm.bound(sm.to_cvxpy(problem))
    assert between.lower_bound <= solution.objective
    assert solution.lower_bound <= between.upper_bound
