"""Slips of docs/errata.md that formulas alone do not show: what is printed fails on data, and what is meant holds."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import sdpmetric as sm
from sdpmetric.ranking.scores import expected_weights, rank_weights

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "errata.md").read_text(encoding="utf-8")


def test_every_test_of_this_file_is_named_by_an_entry():
    named = re.findall(r"Test:\s+`(\w+)`", PAGE)
    assert sorted(named) == sorted(name for name in globals() if re.match(r"test_(lmnn|lego|pola|frml)_", name))


# -- LMNN -------------------------------------------------------------------------------------------------------------


def test_lmnn_stripes_are_vertical():
    rng = np.random.default_rng(0)
    n = 600
    stripe, along, offset = rng.integers(0, 6, n), rng.uniform(0, 6, n), 30 * rng.integers(0, 2, n)
    across, y = stripe + rng.uniform(0.1, 0.9, n), stripe % 2
    for vertical in (True, False):
        X = np.c_[across + offset, along] if vertical else np.c_[along + offset, across]
        before = leave_one_out(X, y)
        centered = X - np.stack([X[y == c].mean(axis=0) for c in (0, 1)])[y]
        values, vectors = np.linalg.eigh(centered.T @ centered)
        rca = leave_one_out(X @ vectors / np.sqrt(values), y)
        mmc = leave_one_out(X @ sm.solve(sm.MMCProblem.from_labels(X, y, 1000, random_state=0)).components.T, y)
        lmnn = leave_one_out(X @ sm.solve(sm.LMNNProblem.from_labels(X, y, 3)).components.T, y)
        assert lmnn <= before
        if vertical:  # as the figure claims: RCA and MMC raise the error
            assert min(rca, mmc) > before + 0.02
        else:
            assert max(rca, mmc) <= before


def leave_one_out(X, y):
    D = np.sum((X[:, None] - X) ** 2, axis=2) + np.diag(np.full(len(X), np.inf))
    return np.mean(y[np.argmin(D, axis=1)] != y)


def test_lmnn_two_metrics_on_circles():
    push_weight = 0.3
    angle = 2 * np.pi * (np.arange(60) + 0.5) / 60
    X = np.concatenate([r * np.stack([np.cos(angle), np.sin(angle)], axis=1) for r in (10, 11)])
    y, halves = np.repeat([0, 1], 60), (X[:, 1] > 0).astype(int)
    one = sm.solve(sm.LMNNProblem.from_labels(X, y, 1, push_weight), tol=1e-4)
    two = sm.solve(sm.MultiMetricLMNNProblem.from_labels(X, y, 1, push_weight, regions=halves), tol=1e-4)
    assert one.lower_bound <= two.objective * (1 + 1e-9)
    assert two.lower_bound <= one.objective * (1 + 1e-9)
    assert abs(one.objective - two.objective) <= 2e-4 * one.objective
    # Sectors that are no halves do gain: the test can fail.
    four = (2 * angle / np.pi).astype(int)
    more = sm.solve(sm.MultiMetricLMNNProblem.from_labels(X, y, 1, push_weight, regions=np.tile(four, 2)), tol=1e-3)
    assert more.objective < one.lower_bound


# -- LEGO -------------------------------------------------------------------------------------------------------------


def q_squared(R, eta):
    return (R / 2 + math.sqrt(R**2 / 4 + 1 / eta)) ** 2


def test_lego_theorem_2_2():
    u, eta = math.sqrt(10.0), 1.0
    stream = sm.LEGOStream(1, eta)
    loss, a = stream.update([u], [-u], 1.0).loss, 1 / 40
    divergence = a - math.log(a) - 1
    printed = (1 / eta + q_squared(10, eta)) * divergence
    assert loss > 2.7 * printed
    # The step's progress towards the comparator is less than the loss times the largest alpha of Lemma 2.1.
    new = stream.metric[0, 0]
    progress = divergence - (a / new - math.log(a / new) - 1)
    assert progress < eta / (1 + eta * q_squared(10, eta)) * loss
    # With R the largest of predictions and targets both hold.
    assert loss <= (1 / eta + q_squared(40, eta)) * divergence
    assert progress >= eta / (1 + eta * q_squared(40, eta)) * loss


@pytest.mark.parametrize(("p", "y", "side"), [(4.0, 1.0, 1), (0.5, 2.0, -1)])
def test_lego_squared_hinge(p, y, side):
    eta = 0.7
    stream = sm.LEGOStream(1, eta, [[p]])
    stream.update([1.0], [0.0], y, side)
    for factor in (0.25, 0.5, 1.0):

        def cost(s, factor=factor):
            return math.exp(s) / p - s + eta * factor * max(0.0, side * (math.exp(s) - y)) ** 2

        least = math.exp(minimize_scalar(cost).x)
        assert (abs(least - stream.metric[0, 0]) < 1e-5) == (factor == 0.5)


def test_lego_query_of_the_second_hash(rng):
    B, steps = rng.normal(size=(4, 4)), rng.normal(size=(5, 4))
    stream = sm.LEGOStream(4, 0.1, B @ B.T + np.eye(4))
    r, first, meant, printed = rng.normal(size=4), stream.components, np.zeros(4), np.zeros(4)
    for z in steps:
        G, A = stream.components, stream.metric
        stream.update(z, np.zeros(4), 1.0)
        factor = np.linalg.norm(stream.components - G) / np.linalg.norm(np.outer(G @ z, A @ z))
        alpha = math.copysign(factor, 1.0 - z @ A @ z)  # towards the target
        meant += alpha * r @ G @ np.outer(z, z) @ A
        printed += alpha * r @ A @ np.outer(z, z) @ G
    moved = r @ (stream.components - first)
    np.testing.assert_allclose(moved, meant, atol=1e-10)
    assert np.abs(moved - printed).max() > 1e-2 * np.abs(moved).max()


# -- POLA -------------------------------------------------------------------------------------------------------------


def separable_stream(rng, d=3, n=60):
    """Pairs that some (A*, b*) without a loss is known for, all features and scales random."""
    factor = rng.normal(size=(2, d)) * 10 ** rng.uniform(-1, 0.5)
    A, b = factor.T @ factor, 1 + rng.exponential()
    X = rng.normal(size=(n, d)) * 10 ** rng.uniform(-0.5, 0.5)
    pairs = np.array([rng.choice(n, 2, replace=False) for _ in range(10 * n)])
    margin = np.einsum("ij,jk,ik->i", X[pairs[:, 0]] - X[pairs[:, 1]], A, X[pairs[:, 0]] - X[pairs[:, 1]]) - b
    kept = np.abs(margin) >= 1
    return X, pairs[kept], margin[kept] < 0, A, b


@pytest.mark.parametrize("seed", range(3))
def test_pola_lemma_3(seed):
    rng = np.random.default_rng(seed)
    X, pairs, similar, A, b = separable_stream(rng)
    for first in (1.0, 2 * b, 100.0):
        stream = sm.POLAStream(X.shape[1], first)
        start = math.hypot(np.linalg.norm(A), first - b)
        # |w - (0, 1)| <= |w - w*| + |w* - (0, 1)|, where the first is at most |w_1 - w*|.
        allowed = start + math.hypot(np.linalg.norm(A), b - 1)
        printed = 4 * (np.sum(A**2) + b**2)
        norms = [(first - 1) ** 2]
        for (i, j), same in zip(pairs, similar, strict=True):
            stream.update(X[i], X[j], bool(same))
            norms.append(np.sum(stream.metric**2) + (stream.threshold - 1) ** 2)
            distance = np.linalg.norm(stream.metric - A) ** 2 + (stream.threshold - b) ** 2
            assert distance <= start**2 * (1 + 1e-9)
        assert max(norms) <= allowed**2 * (1 + 1e-9)
        if abs(first - b) <= b:
            assert max(norms) <= printed * (1 + 1e-9)
        if first == 1.0:
            assert max(norms) <= 4 * (np.sum(A**2) + (b - 1) ** 2) * (1 + 1e-9)
        if (first - 1) ** 2 > printed:
            assert norms[0] > printed  # false before the first pair
    trivial = sm.POLAStream(1, 100.0)
    trivial.update([0.0], [1.0], True)  # without loss for A* = 0, b* = 1
    assert np.sum(trivial.metric**2) + (trivial.threshold - 1) ** 2 == 9801 > 4 * (0 + 1)


def test_pola_threshold_after_a_similar_pair():
    b, v = -3.0, 0.5
    b += (1.0 - b) / (v**4 + 1.0)  # A_1 = 0: the step of Fig. 1 after a similar pair
    assert b < 1.0
    with pytest.raises(ValueError, match="initial_threshold"):
        sm.POLAStream(1, -3.0)
    stream = sm.POLAStream(2, 1.0)
    rng = np.random.default_rng(0)
    for _ in range(200):
        before, same = stream.threshold, bool(rng.integers(0, 2))
        stream.update(*rng.normal(size=(2, 2)), same)
        assert stream.threshold >= (before if same else 1.0)


# -- FRML -------------------------------------------------------------------------------------------------------------


def lemma_3_2(L, Z):
    """V of Lemma 3.2 at W = L L^T, and the pseudo-inverse of W, for the tangent part of Z."""
    P, inverse = L @ np.linalg.pinv(L), np.linalg.pinv(L @ L.T)
    s, p = P @ Z @ P, (np.eye(len(P)) - P) @ Z @ P + P @ Z @ (np.eye(len(P)) - P)
    return L @ L.T + s / 2 + p - s @ inverse @ s / 8 - p @ inverse @ s / 2, inverse, s + p


def test_frml_lemma_3_2(rng):
    L, Z = rng.normal(size=(6, 3)), rng.normal(size=(6, 6))
    Z = Z + Z.T
    W, P = L @ L.T, L @ np.linalg.pinv(L)

    def beyond(t, transposed):
        """The retraction less W and the step, over t^2: its part in the tangent space, to be of order t."""
        V, inverse, tangent = lemma_3_2(L, t * Z)
        R = V @ inverse @ (V.T if transposed else V)
        left = (R - W - tangent) / t**2
        return np.abs(left - (np.eye(6) - P) @ left @ (np.eye(6) - P)).max(), np.abs(R - R.T).max() / t**2

    meant, printed = ([beyond(t, transposed) for t in (1e-2, 1e-3)] for transposed in (True, False))
    assert meant[1][0] < meant[0][0] / 5  # of second order
    assert meant[1][1] < 1e-6
    assert printed[1][0] > printed[0][0] / 2  # of first order only
    assert printed[1][1] > 0.05 * np.abs(Z).max()  # and no symmetric matrix


def test_frml_algorithm_1(rng):
    L, V = rng.normal(size=(6, 3)), rng.normal(size=(6, 2))
    for weights, agree in (([0.2, -0.3], False), ([0.2, 0.2], True)):
        U = V * weights
        half, inverse, _ = lemma_3_2(L, U @ V.T)
        A1, A2 = np.linalg.pinv(L) @ U, np.linalg.pinv(L) @ V
        meant, printed = (L + (U - L @ A1 / 2 + (3 / 8 * L @ A1 - U / 2) @ S) @ A2.T for S in (A2.T @ A1, A1.T @ A2))
        np.testing.assert_allclose(meant @ meant.T, half @ inverse @ half.T, atol=1e-10)
        assert np.allclose(meant, printed) == agree


def test_frml_last_draw():
    n, gamma = 50, 10
    weights = rank_weights("warp", n)
    truncated = np.where(np.arange(n + 1) < gamma, 0.0, weights)
    p = np.arange(n + 1) / n

    def expected(last, loss):
        draws = np.arange(1, last + 1)
        return (p[:, None] * (1 - p[:, None]) ** (draws - 1)) @ loss[n // draws]

    # The loss L_gamma, however many draws; the draws of section 2.2; and those of Algorithm 2, one more.
    np.testing.assert_allclose(expected(n, truncated), expected_weights("warp", n, gamma), atol=1e-12)
    np.testing.assert_allclose(expected(n // gamma, weights), expected_weights("warp", n, gamma), atol=1e-12)
    assert (expected(n // gamma + 1, weights) - expected_weights("warp", n, gamma)).max() > 0.1
