"""Each slip of docs/errata.md, shown on random data: what is printed fails, and what is meant holds."""

import importlib
import math
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.linalg
from scipy.optimize import minimize_scalar

import sdpmetric as sm
from sdpmetric.ranking.scores import expected_weights, rank_weights

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "errata.md").read_text(encoding="utf-8")


@pytest.fixture
def rng():
    return np.random.default_rng(20090)


@pytest.fixture
def paper(monkeypatch):
    """The figures of LMNN's Table 1."""
    monkeypatch.syspath_prepend(ROOT / "examples" / "reproductions")
    yield importlib.import_module("table1.paper")
    for name in [name for name in sys.modules if name.split(".")[0] == "table1"]:
        sys.modules.pop(name)


def test_every_entry_names_a_test_of_this_file():
    named = re.findall(r"\(`(test_\w+)`\)", PAGE)
    assert sorted(named) == sorted(name for name in globals() if re.match(r"test_(lmnn|nca|lego|pola|frml)_", name))


def test_lmnn_covariance(rng):
    X = rng.normal(size=(40, 5)) * rng.uniform(0.5, 3, 5)
    V = X - X.mean(axis=0)
    printed, meant = np.mean([v.T @ v for v in V]), np.mean([np.outer(v, v) for v in V], axis=0)
    assert np.ndim(printed) == 0
    assert printed == pytest.approx(np.trace(meant))
    np.testing.assert_allclose(meant, np.cov(X.T, bias=True))


def test_lmnn_eq_4(rng):
    C = np.cov(rng.normal(size=(5, 40)) * np.arange(1, 6)[:, None])
    with pytest.raises(ValueError, match="matmul"):
        np.eye(2, 5).T @ C @ np.eye(2, 5)
    square = [np.linalg.qr(rng.normal(size=(5, 5)))[0] for _ in range(10)]
    np.testing.assert_allclose([np.trace(L.T @ C @ L) for L in square], np.trace(C))
    leading = np.linalg.eigh(C)[1][:, :2:-1].T
    assert all(np.trace(L[:2] @ C @ L[:2].T) <= np.trace(leading @ C @ leading.T) * (1 + 1e-12) for L in square)


def test_lmnn_eq_6(rng):
    A, B = rng.normal(size=(2, 4, 4))
    Cw, Cb = A @ A.T + np.eye(4), B[:, :2] @ B[:, :2].T
    values, vectors = scipy.linalg.eigh(Cb, Cw)
    L = vectors[:, :1:-1].T
    np.testing.assert_allclose(np.linalg.solve(Cw, Cb) @ L.T, L.T * values[:1:-1], atol=1e-10)  # as the text says
    np.testing.assert_allclose(L @ Cw @ L.T, np.eye(2), atol=1e-10)
    unit = L / np.linalg.norm(L, axis=1, keepdims=True)
    assert abs(unit[0] @ unit[1]) > 1e-3  # no scales make it a projection


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_lmnn_rank_of_c_b(rng, classes):
    y = np.repeat(np.arange(classes), rng.integers(4, 20, classes))
    X = rng.normal(size=(len(y), 8)) + 3 * rng.normal(size=(classes, 8))[y]
    means = np.stack([(X - X.mean(axis=0))[y == c].mean(axis=0) for c in range(classes)])
    np.testing.assert_allclose(np.bincount(y) @ means, 0.0, atol=1e-10)
    assert np.linalg.matrix_rank(means.T @ means) == classes - 1


def test_lmnn_metric_of_a_map(rng):
    L, v = rng.normal(size=(3, 3)), rng.normal(size=3)
    assert np.sum((L @ v) ** 2) == pytest.approx(v @ (L.T @ L) @ v)
    assert abs(np.sum((L @ v) ** 2) - v @ (L @ L.T) @ v) > 1e-3


def test_lmnn_sizes(paper):
    for name, sizes in paper.SIZES.items():
        assert (sizes.train + sizes.test == sizes.inputs) == (name != "balance"), name
    assert paper.SIZES["20news"].inputs == 18_827
    assert paper.SIZES["olivetti"].features != 38 * 31
    assert paper.SIZES["yale faces"].train != 45 * paper.SIZES["yale faces"].classes
    assert paper.SIZES["isolet"].train == 6238 < paper.SIZES["isolet"].inputs
    # Wine, iris and balance are six sevenths of the data of these names.
    for name, size in (("wine", 178), ("iris", 150), ("balance", 625)):
        assert abs(paper.SIZES[name].inputs - 6 * size / 7) < 1
        assert abs(paper.SIZES[name].train - 0.6 * size) < 1


def test_lmnn_baselines_of_mnist(paper):
    errors = paper.ERRORS["mnist"]
    assert len({errors["euclidean"], errors["pca"], 2.33}) == 3


def test_lmnn_best_result_on_20news(paper):
    ours = {row: error for row, error in paper.ERRORS["20news"].items() if row.startswith("lmnn") or row in paper.OURS}
    assert min(ours, key=ours.get) == "several"
    assert ours["several"] < ours["lmnn"] == 14.98


def test_lmnn_names_of_methods():
    """What the paper calls MCC and MLCC is in the bibliography under the names that its authors gave."""
    bibliography = (ROOT / "docs" / "bibliography.md").read_text(encoding="utf-8")
    assert "MMC" in bibliography
    assert not re.search(r"\bMCC\b|\bMLCC\b", bibliography)


def test_lmnn_rates_of_mcc(paper):
    both = [errors for errors in paper.ERRORS.values() if "mmc" in errors and "nca" in errors]
    assert len(both) == 4
    assert sum(errors["mmc"] > errors["nca"] for errors in both) == 3


def test_lmnn_eigenvectors_of_a_map(rng):
    """Of whitened inputs ``x -> L x`` has the covariance ``L L^T``, with the left singular vectors of L."""
    L, Q = rng.normal(size=(5, 5)), np.linalg.qr(rng.normal(size=(5, 5)))[0]
    singular = np.linalg.svd(L)[0][:, 0]
    assert abs(singular @ np.linalg.eigh(L @ L.T)[1][:, -1]) == pytest.approx(1.0)
    np.testing.assert_allclose((Q @ L).T @ (Q @ L), L.T @ L, atol=1e-12)  # the same metric
    assert abs(np.abs(np.linalg.eigvals(Q @ L)).max() - np.abs(np.linalg.eigvals(L)).max()) > 1e-2
    values, vectors = np.linalg.eig(L)
    assert abs(vectors[:, np.argmax(np.abs(values))] @ singular) < 1.0 - 1e-2
    assert np.iscomplex(np.linalg.eigvals([[0.0, -1.0], [1.0, 0.0]])).all()


def test_lmnn_pruning_of_impostors(rng):
    bound, side = rng.uniform(0, 20, 1000), 1 + rng.uniform(0, 10, 1000) ** 2
    printed, meant = bound > side, bound**2 > side
    assert not np.any(printed & ~meant)
    assert np.mean(meant & ~printed) > 0.1


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
    """Equal optima if each example's target neighbor is the next on its circle, and not if ties go to a row."""
    n, push_weight = 24, 0.5
    angle = 2 * np.pi * (np.arange(n) + 0.5) / n
    X = np.concatenate([r * np.stack([np.cos(angle), np.sin(angle)], axis=1) for r in (4, 4.9)])
    y, halves = np.repeat([0, 1], n), (X[:, 1] > 0).astype(int)
    following = np.concatenate([(np.arange(n) + 1) % n, n + (np.arange(n) + 1) % n])[:, None]

    def both(targets):
        options = {"push_weight": push_weight, "n_neighbors": 1, "target_neighbors": targets}
        one = sm.LMNNProblem.from_labels(X, y, **options)
        two = sm.MultiMetricLMNNProblem.from_labels(X, y, regions=halves, **options)
        return [sm.solve(problem, "conic") for problem in (one, two)]

    one, two = both(following)
    assert two.lower_bound <= one.objective
    assert one.lower_bound <= two.objective
    assert abs(one.objective - two.objective) <= 1e-5 * one.objective
    one, two = both(None)
    assert one.lower_bound >= 73.90
    assert two.objective <= 70.84


def test_nca_square_root(rng):
    B = rng.normal(size=(4, 4))
    Q = B @ B.T + np.eye(4)
    root = scipy.linalg.sqrtm(Q)
    np.testing.assert_allclose(root.T @ root, Q)
    inverse = np.linalg.inv(root)
    np.testing.assert_allclose(inverse.T @ inverse, np.linalg.inv(Q), atol=1e-12)


def test_nca_digits():
    assert 8 * 8 == 64 != 16 * 16 == 256


def q_squared(R, eta):
    return (R / 2 + math.sqrt(R**2 / 4 + 1 / eta)) ** 2


def test_lego_theorem_2_2():
    u, eta = math.sqrt(10.0), 1.0
    stream = sm.LEGOStream(1, eta)
    loss, a = stream.update([u], [-u], 1.0).loss, 1 / 40
    divergence = a - math.log(a) - 1
    printed = (1 / eta + q_squared(10, eta)) * divergence
    assert loss > 2.7 * printed
    # The step's progress toward the comparator is less than the loss times the largest alpha of Lemma 2.1.
    new = stream.metric[0, 0]
    progress = divergence - (a / new - math.log(a / new) - 1)
    assert progress < eta / (1 + eta * q_squared(10, eta)) * loss
    # With R the largest of predictions and targets both hold.
    assert loss <= (1 / eta + q_squared(40, eta)) * divergence
    assert progress >= eta / (1 + eta * q_squared(40, eta)) * loss


def test_lego_corollary():
    sum_of_squares = 1 + q_squared(2, 1.0)
    assert sum_of_squares == pytest.approx(4 + 2 * math.sqrt(2))
    assert abs(sum_of_squares - (4 + math.sqrt(2))) > 1
    assert abs(sum_of_squares - 2 * (4 + math.sqrt(2))) > 1
    # With a large rate the second constant tends to R^2, half of what is printed.
    assert 1e-9 + q_squared(2, 1e9) == pytest.approx(2**2)


@pytest.mark.parametrize(("p", "y", "side"), [(4.0, 1.0, 1), (0.5, 2.0, -1)])
def test_lego_squared_hinge(p, y, side):
    eta = 0.7
    stream = sm.LEGOStream(1, eta, [[p]])
    stream.update([1.0], [0.0], y, side)
    for factor in (0.25, 0.5, 1.0):

        def cost(s, factor=factor):
            return math.exp(s) / p - s + eta * factor * max(0.0, side * (math.exp(s) - y)) ** 2

        minimizer = math.exp(minimize_scalar(cost).x)
        assert (abs(minimizer - stream.metric[0, 0]) < 1e-5) == (factor == 0.5)


def test_lego_query_of_the_second_hash(rng):
    B, steps = rng.normal(size=(4, 4)), rng.normal(size=(5, 4))
    stream = sm.LEGOStream(4, 0.1, B @ B.T + np.eye(4))
    r, first, meant, printed = rng.normal(size=4), stream.components, np.zeros(4), np.zeros(4)
    for z in steps:
        G, A = stream.components, stream.metric
        stream.update(z, np.zeros(4), 1.0)
        factor = np.linalg.norm(stream.components - G) / np.linalg.norm(np.outer(G @ z, A @ z))
        alpha = math.copysign(factor, 1.0 - z @ A @ z)  # toward the target
        meant += alpha * r @ G @ np.outer(z, z) @ A
        printed += alpha * r @ A @ np.outer(z, z) @ G
    shifted = r @ (stream.components - first)
    np.testing.assert_allclose(shifted, meant, atol=1e-10)
    assert np.abs(shifted - printed).max() > 1e-2 * np.abs(shifted).max()


def test_lego_eq_3_2(rng):
    """Both sides are of the same point: with two points they differ."""
    (x, u, z, r), B = rng.normal(size=(4, 4)), rng.normal(size=(4, 4))
    stream = sm.LEGOStream(4, 0.1, B @ B.T + np.eye(4))
    G, A = stream.components, stream.metric
    stream.update(z, np.zeros(4), 1.0)
    step = stream.components - G
    alpha = np.trace(step @ np.outer(A @ z, G @ z)) / ((z @ A @ A @ z) * (z @ A @ z))
    np.testing.assert_allclose(r @ stream.components @ u, r @ G @ u + alpha * (r @ G @ z) * (z @ A @ u), atol=1e-9)
    assert abs(r @ stream.components @ x - r @ G @ u - alpha * (r @ G @ z) * (z @ A @ u)) > 1e-3


def test_lego_hash_bits(rng):
    G, u, v = rng.normal(size=(3, 3)), rng.normal(size=3), rng.normal(size=3)
    R = rng.normal(size=(200_000, 3)) @ G
    angle = math.acos((G @ u) @ (G @ v) / np.linalg.norm(G @ u) / np.linalg.norm(G @ v))
    for scale in (0.1, 1.0, 10.0):
        assert np.mean((R @ (scale * u) >= 0) == (R @ v >= 0)) == pytest.approx(1 - angle / math.pi, abs=0.01)


def separable_stream(rng, d=3, n=60):
    """Pairs that some (A*, b*) without a loss is known for, all features and scales random."""
    factor = rng.normal(size=(2, d)) * 10 ** rng.uniform(-1, 0.5)
    A, b = factor.T @ factor, 1 + rng.exponential()
    X = rng.normal(size=(n, d)) * 10 ** rng.uniform(-0.5, 0.5)
    pairs = np.array([rng.choice(n, 2, replace=False) for _ in range(10 * n)])
    margin = np.einsum("ij,jk,ik->i", X[pairs[:, 0]] - X[pairs[:, 1]], A, X[pairs[:, 0]] - X[pairs[:, 1]]) - b
    separated = np.abs(margin) >= 1
    return X, pairs[separated], margin[separated] < 0, A, b


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


def test_pola_triangle_inequality(rng):
    for _ in range(20):
        L, (a, b, c) = rng.normal(size=(2, 3)), rng.normal(size=(3, 3))
        first, second, straight = (np.linalg.norm(L @ v) for v in (a - b, b - c, a - c))
        assert straight <= first + second
        assert first + second > straight


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


def test_pola_predictions_at_the_threshold(monkeypatch):
    b = squared = 1.5
    for y in (1, -1):
        predicted, mistake = (1 if squared <= b else -1), y * (b - squared) <= 0  # Fig. 1; section 4
        assert (predicted == y and mistake) == (y == 1)
        assert max(0.0, y * (squared - b) + 1) == 1.0  # the loss that the bound counts
    stream = sm.POLAStream(1)
    monkeypatch.setattr(stream, "distances", lambda X, pairs: np.full(len(pairs), stream.threshold))
    assert not stream.predict([[0.0], [1.0]], [[0, 1]]).any()


def test_frml_violators():
    rng = np.random.default_rng(1)
    relevant, irrelevant = rng.exponential(2.0, (2, 1000))
    hinge = 1 + relevant - irrelevant > 0
    assert not np.any(hinge & (irrelevant - relevant > 1))  # f(x+) - f(x-) > 1: not one of them is a violator
    algorithm_2 = relevant - irrelevant > 1
    assert np.all(hinge[algorithm_2])
    assert np.any(hinge & ~algorithm_2 & (irrelevant > relevant))


def test_frml_eq_6():
    def printed(relevant, far):
        return max(0.0, 1 - relevant + far) - 0.1 * relevant

    def eq_5(relevant, far):
        return max(0.0, 1 + relevant - far) + 0.1 * relevant

    assert printed(100.0, 1.0) < printed(1.0, 100.0)
    assert eq_5(100.0, 1.0) > eq_5(1.0, 100.0)


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
        remainder = (R - W - tangent) / t**2
        return np.abs(remainder - (np.eye(6) - P) @ remainder @ (np.eye(6) - P)).max(), np.abs(R - R.T).max() / t**2

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


def test_frml_retraction_of_nothing(rng):
    L = rng.normal(size=(5, 2))
    W = L @ L.T
    for Z, expected in ((0 * W, W), (W, (11 / 8) ** 2 * W)):  # a gradient of 0, as meant and as printed
        V, inverse, _ = lemma_3_2(L, Z)
        np.testing.assert_allclose(V @ inverse @ V.T, expected, atol=1e-10)


def test_frml_factor(rng):
    L = rng.normal(size=(5, 2))  # d x m, as Algorithm 1 has it
    assert (L @ L.T).shape == (5, 5)
    assert (L.T @ L).shape == (2, 2)


def test_frml_loss_of_a_rank():
    alpha = 1 / np.arange(1, 51)
    printed, meant = np.full(50, alpha.sum()), np.cumsum(alpha)
    assert np.ptp(printed) == 0.0
    np.testing.assert_allclose(rank_weights("warp", 50)[1:], meant)


def test_frml_eq_4():
    relevant, far = 1.0, np.r_[0.999, np.full(9, 1.999)]
    hinges = np.maximum(0.0, 1 + relevant - far)
    L = rank_weights("warp", 10)
    surrogate = L[np.sum(hinges > 0)] * hinges.mean()
    assert surrogate < 0.3 < 1 == L[np.sum(far < relevant)]


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
