"""Priors and starts by name, constraints made from labels, and the estimators that only make sense of them."""

import re
import warnings

import cvxpy as cp
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score
from sklearn.neighbors import NearestNeighbors

import sdpmetric as sm
from sdpmetric import constraints, estimators
from sdpmetric.check.__main__ import main as check_files
from sdpmetric.core.named import RIDGE, named_components, named_prior
from sdpmetric.estimators import ITML, LMNN, LSML, MLKR, MMC, RCA, SDML, Covariance

RNG = np.random.default_rng(8)
Y = np.repeat([0, 1, 2], [14, 12, 10])
X = (RNG.normal(size=(36, 4)) + np.outer(Y, [1.4, -0.9, 0.0, 0.0])) * [1.0, 3.0, 0.5, 2.0]
SPREAD = np.cov(X.T, bias=True)
NAMES = ("identity", "covariance", "random", "pca", "lda")
STARTED = [
    getattr(estimators, name)()
    for name in estimators.__all__
    if {"init", "tol", "n_iter_no_change"} <= set(getattr(estimators, name).__dataclass_fields__)
    and name not in ("NCA", "MLKR", "OrdinalEmbedding")
]


def test_components_by_name_are_what_the_names_say():
    centered = X - X.mean(axis=0)
    np.testing.assert_array_equal(named_components("identity", X, Y, 3), np.eye(3, 4))
    white = named_components("covariance", X, Y, 4)
    np.testing.assert_allclose(white @ SPREAD @ white.T, np.eye(4), atol=30 * RIDGE)
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
    ridge = RIDGE * np.trace(SPREAD) / 4
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


def test_diagonal_mmc_is_the_program_of_the_paper(tmp_path):
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
    exact = sm.solve(problem, "conic")
    assert exact.objective == pytest.approx(-optimum, rel=1e-3)
    np.savez(tmp_path / "data.npz", X=problem.X, pairs=problem.pairs, similar=problem.similar)
    fitted.solution_.save_proof(tmp_path / "proof.json")
    code, text = check_files([str(tmp_path / "data.npz"), str(tmp_path / "proof.json")])
    assert code == 0
    assert float(re.search(r"no metric has one below (-[\d.]+\d)", text)[1]) == pytest.approx(-optimum, rel=1e-3)
    by_pairs = MMC(diagonal=True).fit_pairs(X, problem.pairs, problem.similar)
    assert by_pairs.solution_.problem.fingerprint() == problem.fingerprint()


def test_scores_are_those_of_neighbors_among_the_others():
    fitted = LMNN(n_neighbors=1).fit(X, Y)
    nearest = NearestNeighbors(n_neighbors=1).fit(fitted.transform(X)).kneighbors(return_distance=False)[:, 0]
    assert fitted.score(X, Y) == accuracy_score(Y, Y[nearest])
    assert 0.3 < Covariance().fit(X).score(X, Y) <= 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert 0.5 < MLKR(max_iter=50).fit(X, X[:, 0]).score(X, X[:, 0]) <= 1.0
