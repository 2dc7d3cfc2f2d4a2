"""Priors and starts by name, constraints from labels, and the closed forms: covariance, RCA and LFDA."""

import warnings
from itertools import pairwise

import cvxpy as cp
import numpy as np
import pytest
import scipy.linalg
from instances import assert_close
from scipy.spatial.distance import cdist, pdist
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score
from sklearn.neighbors import NearestNeighbors

import sdpmetric as sm
from sdpmetric import constraints, estimators
from sdpmetric.core.named import named_components, named_prior
from sdpmetric.estimators import ITML, LFDA, LMNN, LSML, MLKR, MMC, RCA, SDML, Covariance, closed

RNG = np.random.default_rng(8)
Y = np.repeat([0, 1, 2], [14, 12, 10])
X = (RNG.normal(size=(36, 4)) + np.outer(Y, [1.4, -0.9, 0.0, 0.0])) * [1.0, 3.0, 0.5, 2.0]
SPREAD = np.cov(X.T, bias=True)
NAMES = ("identity", "covariance", "random", "pca", "lda")
STARTED = [
    getattr(estimators, name)()
    for name in estimators.__all__
    if {"init", "tol", "n_iter_no_change"} <= set(getattr(estimators, name).__dataclass_fields__)
    and name not in ("NCA", "MLKR")
]


def test_components_by_name_are_what_the_names_say():
    centered = X - X.mean(axis=0)
    np.testing.assert_array_equal(named_components("identity", X, Y, 3), np.eye(3, 4))
    white = named_components("covariance", X, Y, 4)
    np.testing.assert_allclose(white @ SPREAD @ white.T, np.eye(4), atol=0.03)
    spread = np.var(centered @ white.T / np.linalg.norm(white, axis=1), axis=0)
    assert (np.diff(spread) < 0).all()
    axes = named_components("pca", X, Y, 2)
    np.testing.assert_allclose(axes @ axes.T, np.eye(2), atol=1e-12)
    np.testing.assert_allclose(np.var(centered @ axes.T, axis=0), np.linalg.eigvalsh(SPREAD)[:1:-1])
    assert named_components("lda", X, Y, 2).shape == (2, 4)
    assert named_components("random", X, Y, 2, 3).std() > 0.1


def test_priors_by_name_are_what_the_names_say():
    np.testing.assert_array_equal(named_prior("identity", X), np.eye(4))
    np.testing.assert_allclose(named_prior("identity", X, scaled=True), np.eye(4) / np.linalg.eigvalsh(SPREAD)[-1])
    ridge = 1e-3 * np.trace(SPREAD) / 4
    np.testing.assert_allclose(named_prior("covariance", X) @ (SPREAD + ridge * np.eye(4)), np.eye(4), atol=1e-9)
    assert np.linalg.eigvalsh(named_prior("random", X, 1))[0] > 0


@pytest.mark.parametrize(("estimator", "name"), [(e, NAMES[k % 5]) for k, e in enumerate([*STARTED, *STARTED])])
def test_a_start_by_name_leaves_the_optimum_where_it_is(estimator, name):
    tol, names = estimator.tol, (estimator.init, name)
    reference, named = (clone(estimator).set_params(init=init, random_state=1).fit(X, Y).solution_ for init in names)
    assert named.relative_gap <= tol
    assert named.objective == pytest.approx(reference.objective, rel=3 * tol)


@pytest.mark.parametrize("kind", [ITML, LSML, SDML, estimators.LEGO])
def test_a_prior_by_name_is_the_matrix_of_that_name(kind):
    scaled = kind in (LSML, SDML)
    for name in ("identity", "covariance", "random"):
        matrix = named_prior(name, X, 5, scaled=scaled)
        named, by_matrix = (kind(prior=prior, random_state=5).fit(X, Y).solution_ for prior in (name, matrix))
        assert named.problem.fingerprint() == by_matrix.problem.fingerprint()


def test_covariance_is_its_inverse_and_says_where_it_is_a_pseudo_inverse():
    fitted = Covariance().fit(X)
    np.testing.assert_allclose(fitted.metric_ @ SPREAD, np.eye(4), atol=1e-9)
    assert fitted.ridge_ == 0.0
    flat = np.round(8 * np.hstack([X, X[:, :1] - X[:, 1:2]]))
    flat[:, 4] = flat[:, 0] - flat[:, 1]
    with pytest.warns(UserWarning, match="vary in 4 of 5 directions: the metric is a pseudo-inverse"):
        pseudo = Covariance().fit(flat)
    np.testing.assert_allclose(pseudo.metric_, np.linalg.pinv(np.cov(flat.T, bias=True)), atol=1e-8)
    ridge = Covariance(ridge=0.5).fit(X)
    np.testing.assert_allclose(ridge.metric_ @ (SPREAD + 0.5 * np.eye(4)), np.eye(4), atol=1e-9)
    assert Covariance(ridge="auto").fit(X).ridge_ == pytest.approx((4 / 36) ** 2 * np.trace(SPREAD) / 4)
    with pytest.warns(sm.UselessOptimumWarning):
        Covariance().fit(X[:6])
    weights = np.where(Y == 0, 2.0, 1.0)
    twice = Covariance().fit(np.repeat(X, weights.astype(int), axis=0))
    np.testing.assert_allclose(Covariance().fit(X, sample_weight=weights).metric_, twice.metric_, rtol=1e-8)


def test_chunklets_are_drawn_within_classes():
    chunks = constraints.chunks(Y, 6, 3, random_state=1)
    assert [np.unique(Y[chunks == k]).size for k in range(6)] == [1] * 6
    assert np.unique(chunks, return_counts=True)[1].tolist() == [18] + [3] * 6
    drawn, from_chunks = RCA(n_chunks=6, chunk_size=3, random_state=1).fit(X, Y), RCA().fit_chunks(X, chunks)
    np.testing.assert_array_equal(drawn.components_, from_chunks.components_)


def test_diagonal_mmc_is_the_program_of_the_paper():
    fitted = MMC(diagonal=True, n_pairs=40).fit(X, Y)
    problem, metric = fitted.solution_.problem, fitted.metric_
    np.testing.assert_array_equal(metric, np.diag(np.diag(metric)))
    squared = (X[problem.pairs[:, 0]] - X[problem.pairs[:, 1]]) ** 2
    w = cp.Variable(4, nonneg=True)
    similar_sum, far = squared[problem.similar].sum(axis=0), squared[~problem.similar]
    optimum = cp.Problem(cp.Maximize(cp.sum(cp.sqrt(far @ w))), [similar_sum @ w <= 1]).solve(solver="CLARABEL")
    assert fitted.solution_.lower_bound <= -optimum * (1 - 1e-6)
    assert fitted.solution_.objective == pytest.approx(-optimum, rel=1e-3)
    assert fitted.solution_.objective > MMC(n_pairs=40).fit(X, Y).solution_.lower_bound


def test_scores_are_those_of_neighbors_among_the_others():
    fitted = LMNN(n_neighbors=1).fit(X, Y)
    nearest = NearestNeighbors(n_neighbors=1).fit(fitted.transform(X)).kneighbors(return_distance=False)[:, 0]
    assert fitted.score(X, Y) == accuracy_score(Y, Y[nearest])
    assert 0.3 < Covariance().fit(X).score(X, Y) <= 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert 0.5 < MLKR(max_iter=50).fit(X, X[:, 0]).score(X, X[:, 0]) <= 1.0


GROUPS = np.repeat([0, 1, 2, 3], [9, 6, 3, 1])
N = len(GROUPS)
DRAWS = np.random.default_rng(0)
POINTS = DRAWS.normal(size=(N, 3)) * [1.0, 30.0, 0.3] + 7.0 + np.arange(N)[:, None] % 3
CHUNKS = np.where((np.arange(N) % 5 > 0) & (GROUPS < 3), GROUPS, -1)
WEIGHTS = DRAWS.integers(1, 4, size=N)


def covariance(X, chunks) -> np.ndarray:
    """Section 2 of the paper, member by member."""
    groups = [X[chunks == c] for c in sorted(set(chunks.tolist()) - {-1}) if np.sum(chunks == c) > 1]
    return sum((G - G.mean(axis=0)).T @ (G - G.mean(axis=0)) for G in groups) / sum(map(len, groups))


def scatters(X, y, k) -> tuple[np.ndarray, np.ndarray]:
    """Section 3 of the paper, pair by pair: between and within classes."""
    D, n = cdist(X, X), len(X)
    s = np.array([np.sort(D[i, y == y[i]])[min(k, np.sum(y == y[i]) - 1)] for i in range(n)])
    B, W = np.zeros((2, X.shape[1], X.shape[1]))
    for i in range(n):
        for j in range(n):
            V, n_c = np.outer(X[i] - X[j], X[i] - X[j]) / 2, np.sum(y == y[i])
            if y[i] != y[j]:
                B += V / n
            elif s[i] * s[j] > 0:
                A = np.exp(-(D[i, j] ** 2) / (s[i] * s[j]))
                B, W = B + A * (1 / n - 1 / n_c) * V, W + A / n_c * V
    return B, W


@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_rca_is_the_inverse_of_the_paper_s_covariance(ridge):
    fitted = RCA(ridge=ridge).fit_chunks(POINTS, CHUNKS)
    np.testing.assert_allclose(fitted.metric_, np.linalg.inv(covariance(POINTS, CHUNKS) + ridge * np.eye(3)), rtol=1e-9)
    copies = np.repeat(np.arange(N), WEIGHTS)
    weighted, repeated = (
        RCA(ridge=ridge).fit_chunks(POINTS, CHUNKS, WEIGHTS),
        RCA(ridge=ridge).fit_chunks(POINTS[copies], CHUNKS[copies]),
    )
    np.testing.assert_allclose(weighted.metric_, repeated.metric_, rtol=1e-9)
    members = [np.flatnonzero(c == CHUNKS) for c in range(3)]
    pairs = [pair for rows in members for pair in pairwise(rows.tolist())] + [[int(members[0][0]), int(members[1][0])]]
    paired = RCA(ridge=ridge).fit_pairs(POINTS, pairs, [True] * (len(pairs) - 1) + [False])
    np.testing.assert_allclose(paired.metric_, fitted.metric_, rtol=1e-9)
    labeled = RCA(ridge=ridge).fit(POINTS, GROUPS)
    np.testing.assert_allclose(labeled.metric_, RCA(ridge=ridge).fit_chunks(POINTS, GROUPS).metric_, rtol=1e-12)
    np.testing.assert_allclose(Covariance().fit(POINTS).metric_, np.linalg.inv(np.cov(POINTS.T, ddof=0)), rtol=1e-9)
    assert not {"solution_", "relative_gap_", "certificate_"} & set(vars(labeled))


@pytest.mark.parametrize(("k", "r", "ridge"), [(7, 1, 0.0), (2, 2, 0.0), (3, 3, 0.5)])
@pytest.mark.parametrize("block", [closed.ENTRIES_AT_ONCE, 20])
def test_lfda_is_the_eigenproblem_of_the_paper(k, r, ridge, block, monkeypatch):
    monkeypatch.setattr(closed, "ENTRIES_AT_ONCE", block)
    B, W = scatters(POINTS, GROUPS, k)
    W += ridge * np.eye(3)
    values, vectors = (array[..., ::-1][..., :r] for array in scipy.linalg.eigh(B, W))
    values = np.maximum(values, 0.0)
    weighted, unscaled, basis = (
        LFDA(r, n_neighbors=k, ridge=ridge, embedding=name).fit(POINTS, GROUPS)
        for name in ("weighted", "plain", "orthonormalized")
    )
    assert_close(weighted.metric_, (vectors * values) @ vectors.T)
    L = unscaled.components_[values > 0.0]
    assert_close(L @ W @ L.T, np.eye(len(L)))
    assert_close(basis.components_ @ basis.components_.T, np.diag((values > 0.0).astype(float)))
    assert np.linalg.matrix_rank(np.concatenate([L, basis.components_]), tol=1e-8) == len(L)
    copies = np.repeat(np.arange(N), WEIGHTS)  # scales of at least as many neighbors as there are members
    weighted_fit = LFDA(n_neighbors=100, ridge=ridge).fit(POINTS, GROUPS, WEIGHTS)
    repeated_fit = LFDA(n_neighbors=100, ridge=ridge).fit(POINTS[copies], GROUPS[copies])
    assert_close(weighted_fit.metric_, repeated_fit.metric_)


@pytest.mark.parametrize("estimator", [LFDA(), RCA(), Covariance(ridge="auto")], ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("n_rows", [False, True])
def test_features_of_a_tiny_spread_count_for_as_little_as_they_vary(estimator, n_rows):
    """Real embeddings have a feature of spread 1e-8 beside others of 0.1, and a feature of a single nonzero entry."""
    X, y = np.random.default_rng(1).normal(size=(60, 20)), np.arange(60) % 3
    X[:, 0] += y
    rows = slice(12 if n_rows else 60)
    X, y = X[rows], y[rows]
    narrow = X.copy()
    narrow[:, 7] *= 1e-8
    spike = X.copy()
    spike[:, 7] = 1e-8 * (np.arange(len(X)) == 5)
    constant = X.copy()
    constant[:, 7] = 0.1
    for ridge in (clone(estimator).fit(narrow, y).ridge_, 0.1, 1e-7):
        learned = [clone(estimator).set_params(ridge=ridge).fit(Z, y) for Z in (constant, narrow, spike)]
        expected, *distances_beside = (
            pdist(e.transform(Z)) for e, Z in zip(learned, (constant, narrow, spike), strict=True)
        )
        assert not learned[0].metric_[7].any()
        for distances in distances_beside:
            np.testing.assert_allclose(distances, expected, rtol=1e-5, atol=1e-7 * expected.max())
    if not n_rows:
        single = clone(estimator).fit(narrow.astype(np.float32), y)
        assert single.components_.dtype == single.transform(narrow.astype(np.float32)).dtype == np.float32
    if not (n_rows or isinstance(estimator, LFDA)):  # without a ridge units do not matter, but for LFDA's affinities
        unregularized = clone(estimator).set_params(ridge=0.0)
        np.testing.assert_allclose(
            pdist(clone(unregularized).fit(narrow, y).transform(narrow)),
            pdist(unregularized.fit(X, y).transform(X)),
            rtol=1e-9,
        )
