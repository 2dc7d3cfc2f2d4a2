"""Objectives, terms and certificates against exact arithmetic: values are those of the formulas, bounds hold."""

import zlib

import exact
import numpy as np
import oracles
import pytest
from adversary.campaign import STATEMENTS
from adversary.sums import COSTS, LOSSES, Maker
from exact import FAMILIES, Distances, definite, fraction, hostile, lmnn_objective, number, rational
from flint import arb, ctx, fmpq_mat

import sdpmetric as sm
from sdpmetric import LMNNProblem, terms
from sdpmetric.linalg.rigorous.forms import Images
from sdpmetric.lmnn.bound import DualCandidate
from sdpmetric.lmnn.margins import inactive_beyond


def exact_objective(problem, L):
    triplets = np.array(oracles.all_triplets(problem.source.targets, problem.source.labels)).reshape(-1, 3)
    pairs = np.stack(problem.target_pairs, axis=1)
    X = np.asarray(problem.X, dtype=np.float64)
    return fraction(lmnn_objective(X, L, pairs, triplets, np.ones(len(triplets)), problem.push_weight, problem.ridge))


def test_null_directions_are_decided_exactly():
    """Whole numbers that depend on each other, and a feature that is constant within classes, cost no accuracy."""
    rng = np.random.default_rng(3)
    y = np.arange(30) % 3
    A = rng.integers(0, 9, size=(30, 3)).astype(float)
    X = np.column_stack([A, A[:, 0] + 2 * A[:, 1], 1.0 * (y == 0)])
    problem = LMNNProblem.from_labels(X, y, 2, 0.5)
    solution = sm.solve(problem, tol=1e-4)
    assert problem.cones[0].weakness is None
    assert solution.relative_gap <= 1e-4
    assert solution.lower_bound > 0.0
    assert solution.lower_bound <= exact_objective(problem, solution.components) <= solution.objective
    blurred = LMNNProblem.from_labels(X + 1e-14 * rng.normal(size=X.shape), y, 2, 0.5)
    assert blurred.cones[0].weakness is not None
    assert blurred.certify(solution.components, dual=solution.dual).lower_bound <= exact_objective(
        blurred, solution.components
    )


def test_classes_that_differ_by_rounding_along_a_null_direction_prove_nothing():
    """Floats see one group in the data, elimination two: along that direction the metric costs nothing."""
    t = np.arange(6.0)
    X = np.concatenate([np.column_stack([t, t]), np.column_stack([t, t + 2.0**-44])])
    problem = LMNNProblem.from_labels(X, np.repeat([0, 1], 6), 1)
    assert problem.objective(2.0**45 * np.array([[1.0, -1.0]])) == 0.0
    assert problem.certify(np.eye(2)).lower_bound == 0.0


@pytest.mark.parametrize("family", ["plain", "offset", "scales", "duplicates", "grid", "float32", "midpoint"])
@pytest.mark.parametrize("ridge", [1e-6, 0.3, "auto"])
def test_few_examples_of_many_features_have_dual_slacks_that_are_psd_in_the_whole_space(family, ridge, rng):
    """The features are more than the differences span, so coordinates in their span have to decide about all of it."""
    for _ in range(3):
        X, y = hostile("plain" if family == "midpoint" else family, rng, n=7, d=9)
        if family == "midpoint":  # on a line up to rounding
            X[0] = X[1] + rng.random() * (X[2] - X[1])
        problem = LMNNProblem.from_labels(X, y, 1, 0.5, ridge=ridge)
        triplets = np.array(oracles.all_triplets(problem.source.targets, problem.source.labels)).reshape(-1, 3)
        dual = sm.Dual(
            sm.Triplets.from_array(triplets), rng.uniform(0.5, 1.0, len(triplets)) * 10.0 ** rng.integers(-6, 20)
        )
        certificate = problem.certify(np.zeros((1, X.shape[1])), dual=dual)
        candidate = DualCandidate.of(problem.push, dual, problem.cones)
        multiple, clipped = 1.0 / candidate.ratio, candidate.multipliers
        assert 0.0 < multiple < np.inf
        assert certificate.lower_bound > 0.0
        assert certificate.weakness is None
        P = rational(X)
        slack, differing = ridge_of(problem), {}
        for i, j in zip(*map(np.ndarray.tolist, problem.target_pairs), strict=True):
            differing[i, j] = differing.get((i, j), 0) + number(1.0 - problem.push_weight)
        t = number(np.nextafter(multiple, 0.0))
        rows = zip(clipped.triplets.to_array().tolist(), clipped.values.tolist(), strict=True)
        for (i, j, l), a in rows:
            differing[i, l] = differing.get((i, l), 0) - t * number(a)
            differing[i, j] = differing.get((i, j), 0) + t * number(a)
        for (i, j), weight in differing.items():
            v = fmpq_mat(1, X.shape[1], [P[i, k] - P[j, k] for k in range(X.shape[1])])
            slack += v.transpose() * v * weight
        assert definite(slack)


def ridge_of(problem) -> fmpq_mat:
    d = problem.X.shape[1]
    return fmpq_mat(d, d, [number(problem.ridge) if k % (d + 1) == 0 else 0 for k in range(d * d)])


@pytest.mark.parametrize("method", ["brute", "ball_tree"])
@pytest.mark.parametrize("family", FAMILIES)
def test_triplets_that_the_search_leaves_out_are_inactive(method, family, rng):
    """Exactly: D(i, l) >= 1 + max_j D(i, j) for every impostor that is not listed, however large the images are."""
    for size in (1.0, 1e3, 1e7):
        X, y = hostile(family, rng, n=16)
        problem = LMNNProblem.from_labels(X, y, 1, 0.5, search=method)
        d = X.shape[1]
        L = rng.normal(size=(min(2, d), d)) * size / np.maximum(np.abs(X.astype(float) - X[0]).max(axis=0), 1e-300)
        images = Images(problem.X, problem.centered, L.T)
        candidates = set()
        for _, block in problem.push.blocks_by_region(images.points, widen=inactive_beyond(images)):
            candidates |= set(zip(block.anchors[block.rows].tolist(), block.impostors.tolist(), strict=True))
        D = Distances(np.asarray(X, dtype=np.float64), L)
        for i, j in zip(*map(np.ndarray.tolist, problem.target_pairs), strict=True):
            for l in np.flatnonzero(problem.source.labels != problem.source.labels[i]).tolist():
                if (i, l) not in candidates:
                    assert D(i, l) >= 1 + D(i, j)


def short(L: np.ndarray) -> np.ndarray:
    """A factor near L with entries of 10 bits, so that ``L^T L`` in floats is exact."""
    power = np.frexp(np.abs(L).max(axis=-2, keepdims=True))[1] - 10
    return np.ldexp(np.rint(np.ldexp(L, -power)), power)


def test_distances_of_a_singular_metric_are_between_their_bounds() -> None:
    rng = np.random.default_rng(1)
    for d in (1, 2, 5):
        X, L = rng.normal(size=(8, d)) * 10.0 ** rng.uniform(-6, 6, d), short(rng.normal(size=(1, d)))
        images = Images(X, X - X.mean(axis=0), rng.normal(size=(d, 2)), metric=L.T @ L)
        first, second = np.triu_indices(8, 1)
        low, high = images.distances(first, second)
        for i, j, a, b in zip(first, second, low, high, strict=True):
            assert number(a) <= Distances(X, L)(int(i), int(j)) <= number(b)


@pytest.fixture(autouse=True)
def digits():
    before, ctx.prec = ctx.prec, 256
    yield
    ctx.prec = before


def assert_value(value: float, expected) -> None:
    """Objectives are rounded upward, by little; that they are never below is the adversary's to judge."""
    assert value == pytest.approx(float(arb(expected)), rel=1e-7)


# What hard POLA costs is that of a multiple of the point, and a stream's is no objective.
@pytest.mark.parametrize("statement", sorted({*STATEMENTS} - {"hard", "pola stream"}))
def test_objectives_are_those_of_the_papers(statement):
    judged = 0
    for seed in range(8):
        rng = np.random.default_rng([seed, zlib.crc32(statement.encode())])
        try:
            case = STATEMENTS[statement](*hostile("plain", rng), rng)
        except ValueError:  # weights may leave nothing in some direction
            continue
        d = case.X.shape[1]
        for r in (0, d):
            L = rng.normal(size=(r, d)) * 10 ** rng.uniform(-1, 0.5)
            M = exact.metric(L)
            if case.inside is not None and r:
                F = case.inside(rng)
                M, L = exact.metric(F), np.array([[float(v) for v in row] for row in F.tolist()])
            L = L[: case.rank]
            extras = case.extras(rng)
            points = np.stack([L] * case.several) if case.several else L
            expected = case.value(M, **extras) if case.inside is not None else case.exact(points, **extras)
            if expected is None or not arb(expected).is_finite():
                continue
            assert_value(case.problem.certify(points, **extras).objective, expected)
            if statement != "mmc":  # whose points are scaled to the budget by `certify` only
                assert_value(case.problem.objective(points, **extras), expected)
            judged += bool(r)
    # Random points seldom satisfy hard bounds; the campaign has points that do.
    assert judged >= {"bounds": 1, "tight": 0}.get(statement, 4)


@pytest.mark.parametrize("name", [*LOSSES, *COSTS])
def test_values_of_terms_are_those_of_their_formulas(name):
    for seed in range(4):
        rng = np.random.default_rng([seed, 3])
        X, y = hostile("plain", rng)
        term, value = getattr(Maker(X, y, rng), name)()
        problem, L = sm.MetricProblem(X, 0.7 * term + 50.0 * terms.Trace()), rng.normal(size=(3, 3))
        M = exact.metric(L)
        expected = arb(number(0.7)) * value(Distances(X, M=M), M) + 50 * exact.trace(M)
        assert_value(problem.certify(L).objective, expected)
        assert_value(problem.objective(L), expected)
