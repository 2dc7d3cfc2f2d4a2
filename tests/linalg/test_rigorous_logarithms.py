"""Proven bounds of exponentials, entropies and log determinants against balls and exact rational arithmetic."""

import math

import numpy as np
import pytest
from exact import divergence, metric, rational
from flint import arb, arb_mat, ctx, fmpq, fmpz

from sdpmetric.linalg import rigorous
from sdpmetric.linalg.rigorous import Form, Images, LogDetPrior


@pytest.fixture(autouse=True)
def digits():
    before, ctx.prec = ctx.prec, 300
    yield
    ctx.prec = before


def ball(value: fmpq) -> arb:
    return arb(value)


def log_det(M) -> arb:
    return ball(M.det()).log()


def test_exponentials_lie_within_their_bounds(rng):
    x = np.concatenate([rng.normal(size=400), 200 * rng.normal(size=400), 1e-9 * rng.normal(size=50)])
    x = np.concatenate([x, 0.5 * math.log(2) * np.arange(-9, 10), [0.0, -745.0, -760.0, 709.7, 712.0, 900.0, -1e300]])
    low, high = rigorous.exp_bounds(x)
    for value, below, above in zip(x.tolist(), low.tolist(), high.tolist(), strict=True):
        exact = arb(value).exp()
        assert arb(below) <= exact
        assert above == math.inf or exact <= arb(above)
    sane = np.abs(x) < 700
    assert (high - low <= 5e-14 * low)[sane].all()
    assert [float(bound[0]) for bound in rigorous.exp_bounds(np.array([-np.inf]))] == [0.0, 0.0]


def test_log_sum_exp_lies_within_its_bounds(rng):
    for scale in (1e-12, 1.0, 1e3):
        low = scale * rng.normal(size=(40, 6))
        high = low + 1e-13 * scale
        low[:20, 2] = high[:20, 2] = -np.inf
        below, above = rigorous.log_sum_exp(low, high)
        for least, most, first, last in zip(below.tolist(), above.tolist(), low, high, strict=True):
            assert arb(least) <= sum((arb(v).exp() for v in first.tolist() if v > -np.inf), arb(0)).log()
            assert sum((arb(v).exp() for v in last.tolist() if v > -np.inf), arb(0)).log() <= arb(most)
        assert (above - below <= 1e-12 * scale + 1e-13).all()
    assert rigorous.log_sum_exp(*[np.full((1, 2), -np.inf)] * 2)[1].tolist() == [-np.inf]


def test_entropies_of_exact_distributions_lie_within_their_bounds(rng):
    q = rng.exponential(size=(60, 7)) ** rng.integers(1, 40, size=(60, 1))
    q[rng.random(q.shape) < 0.2] = 0.0
    q[:, 0] += 1e-300
    rounded = rigorous.distributions(q)
    low, high = rigorous.entropies(rounded, roundings=2)
    plain = rigorous.entropies(rounded)
    for k, row in enumerate(rounded.tolist()):
        exact = [fmpq(*value.as_integer_ratio()) for value in row]
        total = sum(exact, fmpq(0))
        assert abs(float(ball(total - 1).mid())) <= 2.1 * rigorous.U
        for p, bounds in (([v / total for v in exact], (low, high)), (exact, plain)):
            entropy = -sum((ball(v) * ball(v).log() for v in p if v > 0), arb(0))
            assert arb(float(bounds[0][k])) <= entropy <= arb(float(bounds[1][k]))
    assert (high - low <= 1e-13 * (1.0 + high)).all()


@pytest.mark.parametrize("r", [1, 2, 5])
def test_log_determinants_of_grams_lie_within_their_bounds(r, rng):
    for decades in (0, 3, 6):
        L = rng.normal(size=(r + 2, r)) * 10.0 ** (decades * rng.uniform(-1, 1, size=r))
        L = L @ (np.eye(r) + 0.5 * rng.normal(size=(r, r)))
        low, high = rigorous.log_det_gram(L)
        M = rational(L).transpose() * rational(L)
        assert arb(low) <= log_det(M) <= arb(high)
        assert high - low <= 1e-13 * (r * np.linalg.cond(L) + r * abs(low))
    L[:, 0] = 0.0
    assert rigorous.log_det_gram(L)[0] == -math.inf
    assert rigorous.log_det_gram(np.ones((1, 2)))[0] == -math.inf
    assert rigorous.log_det_gram(np.zeros((0, 0))) == (0.0, 0.0)


@pytest.mark.parametrize("n", [1, 3, 6])
def test_log_determinants_lie_within_their_bounds(n, rng):
    for decades in (0, 2, 4):
        G = rng.normal(size=(n, n)) * 10.0 ** (decades * rng.uniform(-1, 1, size=n))
        A = G.T @ G
        A = 0.5 * (A + A.T)
        error = 1e-13 * float(np.trace(A))
        low, high = rigorous.log_det(A)
        assert arb(low) <= log_det(rational(A)) <= arb(high)
        assert high - low <= 1e-12 * n * (np.linalg.cond(A) + abs(low))
        wide = Form(A, error, float(np.trace(A))).log_det
        if math.isfinite(wide[0]):
            Q = np.linalg.eigh(A)[1]
            for sign in (-0.99, 0.99):  # matrices at the edge of what the form allows
                moved = rational(A) + rational(sign * error / n * (Q[:, :1] @ Q[:, :1].T))
                moved = (moved + moved.transpose()) / fmpz(2)
                assert arb(wide[0]) <= log_det(moved) <= arb(wide[1])
            assert wide[0] <= low <= high <= wide[1]
    assert rigorous.log_det(np.diag([1.0] * n + [0.0]))[0] == -math.inf
    assert rigorous.log_det(-np.eye(n)) == (-math.inf, math.inf)
    assert rigorous.log_det(np.eye(n), error=1.0) == (-math.inf, math.inf)
    assert Form.identity(n).log_det[0] == pytest.approx(0.0, abs=1e-13)


def test_the_largest_eigenvalues_alone_have_a_product_of_their_own(rng):
    V = rational(rng.integers(-5, 6, size=(3, 7)) / 4.0)
    A = V.transpose() * V  # of rank 3; exact in floats
    floats = np.array([[float(A[i, j].p) / float(A[i, j].q) for j in range(7)] for i in range(7)])
    low, high = rigorous.log_det(floats, rank=3)
    exact = log_det(V * V.transpose())
    assert arb(low) <= exact
    assert high == math.inf
    assert low == pytest.approx(float(exact.mid()), rel=1e-12)
    assert arb_mat(A).nrows() == 7


@pytest.mark.parametrize("plain", [True, False])
def test_divergences_from_a_prior_and_determinants_relative_to_it(plain, rng):
    d = 3
    for decades in (0, 2, 3):
        G = rng.normal(size=(d + 1, d)) * 10.0 ** (decades * rng.uniform(-1, 1, size=d))
        A0 = np.eye(d) if plain else G.T @ G
        A0 = 0.5 * (A0 + A0.T)
        prior = LogDetPrior.of(A0, np.eye(d) if plain else np.linalg.cholesky(A0))
        far = rng.normal(size=(d, d)) @ np.linalg.cholesky(A0).T
        for L in (far, np.linalg.cholesky(A0).T):
            value, exact = prior.divergence(L), divergence(metric(L), A0)
            assert exact <= arb(value)
            assert value <= float(exact.mid()) + 1e-13 * d * d * np.linalg.cond(A0) * (1.0 + float(exact.mid()))
        assert prior.divergence(L) <= 1e-20 * np.linalg.cond(A0) ** 2  # the prior itself
        assert prior.divergence(far[:2]) == math.inf
        # Pairs of both signs: A0^-1 + F is positive definite, and nearly the identity after P.
        X = rng.normal(size=(8, d)) / np.sqrt(np.diag(A0))
        first, second = (np.arange(6, dtype=np.int32), np.arange(1, 7, dtype=np.int32))
        w = np.array([1.0, -0.02, 0.5, 2.0, -0.01, 0.3])
        images = Images.of(X, X - X.mean(axis=0), prior.root)
        values, vectors = np.linalg.eigh(np.eye(d) + images.form(first, second, w).matrix)
        assert values[0] > 0.0
        P = np.ascontiguousarray(prior.root @ (vectors / np.sqrt(values)))
        form = Images.of(X, X - X.mean(axis=0), P).form(first, second, w)
        V = rational(X[first]) - rational(X[second])
        F = V.transpose() * rational(np.diag(w)) * V
        exact = log_det(rational(np.eye(d)) + rational(A0) * F)
        found = prior.log_det(P, form)
        assert arb(found) <= exact
        assert found >= float(exact.mid()) - 1e-12 * np.linalg.cond(A0)
