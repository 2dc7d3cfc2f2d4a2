"""The one linear map and its adjoint, and sums of hinges over candidates."""

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from instances import assert_close, assert_same, make_instance, rounding

from sdpmetric.engine import threads
from sdpmetric.linalg import distances as dist
from sdpmetric.triplets.margins import hinge_slopes, margin_adjoint, margins, slope_pairs
from sdpmetric.triplets.triplets import Triplets

SEEDS = st.integers(0, 2**32 - 1)


def pairs_of(seed):
    rng = np.random.default_rng(seed)
    n, d, p = (int(v) for v in rng.integers([2, 1, 0], [12, 6, 40]))
    X = rng.normal(size=(n, d)) * 10 ** rng.uniform(-3, 3)
    return rng, X, rng.integers(0, n, p), rng.integers(0, n, p), rng.normal(size=p)


@given(SEEDS)
def test_adjoint_identity(seed):
    rng, X, a, b, w = pairs_of(seed)
    L = rng.normal(size=(rng.integers(0, 5), X.shape[1]))
    left = dist.distances(X @ L.T, a, b) @ w
    A = dist.adjoint(X, a, b, w)
    right = np.sum((L.T @ L) * A)
    size = np.abs(w).sum() * np.sum((X @ L.T) ** 2)
    assert abs(left - right) <= 1e-12 * max(size, 1e-300)
    assert_close(A, A.T)


def test_differences_come_block_by_block(rng, monkeypatch):
    X, a, b = rng.normal(size=(9, 3)), rng.integers(0, 9, 20), rng.integers(0, 9, 20)
    monkeypatch.setattr(dist, "PAIRS_AT_ONCE", 6)
    w = rng.random(20)
    blocks = list(dist.weighted_differences(X, a, b, w))
    assert [len(block) for block in blocks] == [6, 6, 6, 2]
    assert_close(np.concatenate(blocks), w[:, None] * (X[a] - X[b]))
    assert [block.shape for block in dist.weighted_differences(X, a[:0], b[:0], w[:0])] == [(0, 3)]


def test_distances_take_any_layout(rng):
    Z = rng.normal(size=(8, 6))
    a, b = np.array([0, 3, 3, 7]), np.array([1, 3, 4, 0])
    expected = np.sum((Z[a] - Z[b]) ** 2, axis=1)
    assert_close(dist.distances(np.asfortranarray(Z), a, b), expected)
    assert_close(dist.distances(np.repeat(Z, 2, axis=1)[:, ::2], a, b), expected)
    single = dist.distances(Z.astype(np.float32), a.astype(np.int32), b)
    assert single.dtype == np.float64
    assert np.abs(single - expected).max() < 1e-5
    assert dist.distances(np.zeros((4, 0)), np.array([1]), np.array([2])).tolist() == [0.0]


def test_margins_and_their_adjoint(rng):
    X = rng.normal(size=(7, 3))
    rows = np.array([[0, 1, 2], [3, 1, 6], [0, 1, 2], [5, 4, 0]])
    triplets, L = Triplets.from_array(rows), rng.normal(size=(2, 3))
    statement = oracles.Statement(X, [], [tuple(r) for r in rows], [1.0] * 4, 0.3)
    expected = np.array([np.sum(statement.margin_matrix(t) * (L.T @ L)) for t in rows])
    assert_close(margins(X @ L.T, triplets), expected)
    a = rng.random(4)
    total = sum(at * statement.margin_matrix(t) for at, t in zip(a, rows, strict=True))
    assert_close(margin_adjoint(X, triplets, a), total)


def smoothed(u, width, squared):
    """Value and slope of the smoothed hinge, straight from its definition."""
    if u <= 0:
        return 0.0
    if squared:
        return 2 * u
    return 1.0 if u >= width else u / width


@pytest.mark.parametrize("in_parts", [False, True])
@pytest.mark.parametrize("kind", ["plain", "graph", "listed", "line"])
@pytest.mark.parametrize(("width", "squared"), [(0.0, False), (0.5, False), (0.0, True)])
def test_hinge_slopes_match_a_loop(kind, width, squared, in_parts, rng, monkeypatch):
    if in_parts:
        monkeypatch.setattr(threads, "LOOP_WORK", 1)
    case = make_instance(kind, 3)
    L = case.random_factor(rng)
    M, X = L.T @ L, case.statement.X
    C = case.problem.candidates(case.problem.embed(L))
    sums, slopes = hinge_slopes(X @ L.T, C, width, squared)
    total = {}
    for t, w in zip(case.statement.triplets, case.statement.weights, strict=True):
        total[t] = total.get(t, 0.0) + w
    expected = {t: w * smoothed(case.statement.hinge(M, t), width, squared) for t, w in total.items()}
    hinges = {t: case.statement.hinge(M, t) for t in total}
    triplets, values = C.triplets(slopes)
    found = dict(zip(map(tuple, triplets.to_array().tolist()), values, strict=True))
    assert set(found) == {t for t, value in expected.items() if value > 0}
    for t, value in found.items():
        assert_same(value, expected[t])
    assert_same(sums.loss, sum(w * hinges[t] ** (1 + squared) for t, w in total.items()))
    assert_same(sums.slopes, sum(expected.values()))
    assert_same(sums.squares, sum(expected[t] ** 2 / w for t, w in total.items() if w > 0))
    assert sums.n_active == sum(hinges[t] > 0 for t, w in total.items() if w > 0)
    B = sum((a * case.statement.margin_matrix(t) for t, a in expected.items()), np.zeros((case.d, case.d)))
    scale = max(1e-300, sum(expected.values())) * np.abs(X).max() ** 2
    assert_close(dist.adjoint(X, *slope_pairs(C, slopes)), B, scale)
    # The twin: one slope off by a hair, and the adjoint no longer agrees.
    if len(values):
        slopes[np.nonzero(slopes)[0][0], np.nonzero(slopes)[1][0]] *= 1 + 1e-5
        assert abs(slopes.sum() - sum(expected.values())) > rounding(0.0) or sums.slopes == 0
