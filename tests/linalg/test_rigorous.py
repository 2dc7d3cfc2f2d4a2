"""Proven bounds against exact rational arithmetic and balls; the PSD cone by the axioms of its projection."""

import math
from fractions import Fraction

import numpy as np
import pytest
from exact import FAMILIES, Distances, divergence, fraction, hostile, metric, number, rational
from flint import arb, ctx, fmpq, fmpz
from hypothesis import strategies as st
from instances import assert_close

import sdpmetric as sm
import sdpmetric.engine.lazy
from sdpmetric.engine import threads
from sdpmetric.linalg import exact, psd
from sdpmetric.linalg.rigorous import directed as rigorous
from sdpmetric.linalg.rigorous import forms
from sdpmetric.linalg.rigorous.divergence import LogDetPrior
from sdpmetric.linalg.rigorous.forms import Form, Images


def exact_form(X, T, first, second, weights):
    V = rational(X[first].astype(float)) - rational(X[second].astype(float))
    P = V * rational(T)
    W = rational(np.diag(np.asarray(weights, dtype=float)))
    return P.transpose() * W * P


def as_floats(M):
    return np.array([[float(fraction(M[i, j])) for j in range(M.ncols())] for i in range(M.nrows())])


def images_of(X, T):
    X = np.asarray(X)
    wide = X.astype(np.float64)
    return Images(X, wide - wide.mean(axis=0), T)


def is_psd(M):
    """Whether a symmetric matrix of rational numbers is PSD: elimination with nonnegative pivots."""
    n = M.nrows()
    rows = [[M[i, j] for j in range(n)] for i in range(n)]
    for k in range(n):
        if rows[k][k] < 0 or (rows[k][k] == 0 and any(value != 0 for value in rows[k][k:])):
            return False
        for i in range(k + 1, n) if rows[k][k] != 0 else ():
            share = rows[i][k] / rows[k][k]
            rows[i] = [a - share * b for a, b in zip(rows[i], rows[k], strict=True)]
    return True


def test_sums_are_directed(rng):
    for _ in range(50):
        values = rng.normal(size=20) * 10.0 ** rng.integers(-8, 9, size=20)
        total = sum(fraction(rational([[v]])[0, 0]) for v in values.tolist())
        assert rigorous.sum_below(values) <= total <= rigorous.sum_above(values)
        assert rigorous.sum_above(values) - rigorous.sum_below(values) <= 1e-15 * abs(float(total)) + 1e-300
    assert rigorous.sum_above(np.array([1.0, -1.0])) == 0.0
    assert rigorous.sum_above(np.full(3, 1e308)) == math.inf
    assert rigorous.sum_below(np.full(3, -1e308)) == -math.inf


def test_logarithms_lie_within_their_bounds(rng):
    x = np.concatenate([np.exp(200 * rng.normal(size=500)), 1.0 + 1e-9 * rng.normal(size=100), [1.0, 5e-324, 1e308]])
    low, high = rigorous.log_bounds(x)
    ctx.prec = 120
    for value, below, above in zip(x.tolist(), low.tolist(), high.tolist(), strict=True):
        log = arb(value).log()
        assert arb(below) <= log <= arb(above)
    assert (high - low <= 4e-14 * np.maximum(np.abs(low), 1e-9)).all()


@pytest.mark.parametrize("n", [1, 2, 5, 9])
def test_least_eigenvalues_are_below_the_exact_ones(n, rng):
    for scale in (1.0, 1e-9, 1e9):
        G = rng.normal(size=(n, max(1, n - 1))) * scale
        A = np.asarray(G @ G.T)
        A = 0.5 * (A + A.T)
        low = rigorous.least_eigenvalue(A)
        assert is_psd(rational(A) - rational(low * np.eye(n)))
        assert low >= np.linalg.eigvalsh(A)[0] - 1e-13 * n * np.abs(A).max()
        high = rigorous.largest_eigenvalue(A)
        assert is_psd(rational(high * np.eye(n)) - rational(A))


@pytest.mark.parametrize("family", FAMILIES)
def test_images_distances_and_forms_enclose_the_exact_ones(family, rng, monkeypatch):
    monkeypatch.setattr(forms, "ROWS_AT_ONCE", 8)  # differences in several blocks, on several threads
    monkeypatch.setattr(threads, "PRODUCT_WORK", 20)
    for _ in range(3):
        X, _ = hostile(family, rng)
        n, d = X.shape
        T = rng.normal(size=(d, 2)) * 10.0 ** rng.integers(-3, 4)
        images = images_of(X, T)
        first, second = (rng.integers(0, n, 30).astype(np.int32) for _ in range(2))
        low, high = images.distances(first, second)
        D = Distances(X, T.T)
        for a, b, below, above in zip(first.tolist(), second.tolist(), low.tolist(), high.tolist(), strict=True):
            assert below <= fraction(D(a, b)) <= above
        weights = rng.normal(size=30)
        true = exact_form(X, T, first, second, weights)
        for worth in (0.0, np.inf):  # by the Laplacian, and by differences
            monkeypatch.setattr(forms, "WORTHWHILE_SHARE", worth)
            form = images.form(first, second, weights, accuracy=0.0)
            error = rational(form.matrix) - true
            assert np.linalg.norm(as_floats(error), 2) <= form.error
            assert is_psd(true - rational(form.smallest_eigenvalue * np.eye(2)))
            assert is_psd(rational(form.largest_eigenvalue * np.eye(2)) - true)
            assert abs(np.trace(as_floats(true))) <= 2 * form.size


def test_congruent_forms_of_indefinite_matrices_are_as_far_off_as_they_say():
    A, V = np.array([[0.0, 1.0], [1.0, 0.0]]), np.diag([0.1, 0.3])  # |V|^T |A| |V| has trace 0
    form = forms.Form.congruent(A, V)
    true = rational(V).transpose() * rational(A) * rational(V)
    error = as_floats(rational(form.matrix) - true)
    assert error.any()
    assert np.linalg.norm(error, 2) <= form.error
    assert np.abs(as_floats(true)).max() <= form.size


@pytest.mark.parametrize("offset", [1e8, -1e15, 2.0**52, 0.1])
def test_differences_beside_a_large_offset_are_exact(rng, offset):
    """Time stamps and identifiers: a feature is 0 after centering only if it is constant."""
    steps = 5.0 * np.spacing(offset) * rng.integers(0, 3, size=20)
    X = np.column_stack([rng.normal(size=20), offset + steps, np.full(20, offset)])
    centered = sm.LMNNProblem.from_labels(X, np.arange(20) % 2, 2).centered
    exact_differences = [Fraction(x) - Fraction(X[0, 1]) for x in X[:, 1]]
    assert [Fraction(x) - Fraction(centered[0, 1]) for x in centered[:, 1]] == exact_differences
    assert not centered[:, 2].any()
    i, j = (rows.astype(np.int32) for rows in np.triu_indices(20, 1))
    images = Images(X, centered, np.diag([1.0, 1.0 / np.spacing(offset), 1.0]))
    D, bounds = Distances(X, images.map), images.distances(i, j)
    assert all(low <= fraction(D(a, b)) <= high for a, b, low, high in zip(i, j, *bounds, strict=True))


def test_null_spaces_are_exact(rng):
    for d, rank in ((5, 3), (7, 6), (4, 4)):
        A = rng.integers(-9, 10, size=(40, rank)) @ rng.integers(-3, 4, size=(rank, d)) / 8.0
        nullity, images = exact.null_directions(A, np.zeros(39, dtype=int), np.arange(1, 40))
        assert nullity == d - np.linalg.matrix_rank(A)
        assert (images == images[0]).all()
    X = np.column_stack([rng.normal(size=(30, 3)), np.zeros(30)])
    X[:, 3] = X[:, 1]
    for value, nullity in ((X[0, 1], 1), (np.nextafter(X[0, 1], 9.0), 0)):
        X[0, 3] = value
        assert exact.null_directions(X, np.zeros(29, dtype=int), np.arange(1, 30))[0] == nullity
    nullity, images = exact.null_directions(X, np.ones(28, dtype=int), np.arange(2, 30))
    assert (nullity, len(set(images[1:, 0].tolist())), images[0, 0] != images[1, 0]) == (1, 1, True)


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
                perturbed = rational(A) + rational(sign * error / n * (Q[:, :1] @ Q[:, :1].T))
                perturbed = (perturbed + perturbed.transpose()) / fmpz(2)
                assert arb(wide[0]) <= log_det(perturbed) <= arb(wide[1])
            assert wide[0] <= low <= high <= wide[1]
    assert rigorous.log_det(np.diag([1.0] * n + [0.0]))[0] == -math.inf
    assert rigorous.log_det(-np.eye(n)) == (-math.inf, math.inf)
    assert rigorous.log_det(np.eye(n), error=1.0) == (-math.inf, math.inf)
    assert Form(np.eye(n), 0.0, float(n)).log_det[0] == pytest.approx(0.0, abs=1e-13)


@pytest.mark.parametrize("values", [(3.0, 2.0, 1.0), (3.0, 1.0, -2.0), (-1.0, -2.0, -3.0)])
def test_positive_parts_are_of_any_matrix_that_a_form_allows(values):
    A, error = np.diag(values), 2.0**-20
    exact_part = sum((number(v) + number(error)) ** 2 for v in values if v > 0.0)
    assert number(Form(A, error, float(np.abs(A).sum())).positive_part) ** 2 >= exact_part


@pytest.mark.parametrize("identity", [True, False])
def test_divergences_from_a_prior_and_determinants_relative_to_it(identity, rng):
    d = 3
    for decades in (0, 2, 3):
        G = rng.normal(size=(d + 1, d)) * 10.0 ** (decades * rng.uniform(-1, 1, size=d))
        A0 = np.eye(d) if identity else G.T @ G
        A0 = 0.5 * (A0 + A0.T)
        prior = LogDetPrior(A0, np.eye(d) if identity else np.linalg.cholesky(A0))
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
        images = Images(X, X - X.mean(axis=0), prior.root)
        values, vectors = np.linalg.eigh(np.eye(d) + images.form(first, second, w).matrix)
        assert values[0] > 0.0
        P = np.ascontiguousarray(prior.root @ (vectors / np.sqrt(values)))
        form = Images(X, X - X.mean(axis=0), P).form(first, second, w)
        V = rational(X[first]) - rational(X[second])
        F = V.transpose() * rational(np.diag(w)) * V
        exact = log_det(rational(np.eye(d)) + rational(A0) * F)
        interval = prior.log_det(P, form)
        assert arb(interval) <= exact
        assert interval >= float(exact.mid()) - 1e-12 * np.linalg.cond(A0)


SEEDS = st.integers(0, 2**32 - 1)


pytestmark = pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
SCALES = [10.0**power for power in range(-170, 171, 20)] + [1e-162, 1e-81]


def squares(A: np.ndarray) -> Fraction:
    return sum((Fraction(value) ** 2 for value in np.ravel(A).tolist()), Fraction())


def not_below(value: float, exact: Fraction) -> bool:
    return value == np.inf or Fraction(value) >= exact


@pytest.mark.parametrize("scale", SCALES)
def test_norms_and_products(scale: float) -> None:
    rng = np.random.default_rng(0)
    for _ in range(5):
        A = scale * rng.normal(size=(3, 4)) * 10.0 ** rng.uniform(-8, 8, 4)
        A[1] = 0.0
        assert not_below(rigorous.squares_above(A), squares(A))
        norm, rows = rigorous.norm_above(A), rigorous.norms_above(A)
        assert norm == np.inf or Fraction(norm) ** 2 >= squares(A)
        assert rigorous.norm_above(A[1:2]) == 0.0
        for row, column in zip(rows.tolist(), A, strict=True):
            assert row == np.inf or Fraction(row) ** 2 >= squares(column)
        assert rows[1] == 0.0
        metric_norm = rigorous.metric_norm_above(A)
        assert metric_norm == np.inf or number(metric_norm) ** 2 >= sum((v**2 for v in metric(A).entries()), fmpq(0))
        factors = [abs(float(v)) for v in A[0]] + [1e300, 1e-300]
        exact = Fraction(1)
        for factor in factors:
            exact *= Fraction(factor)
        assert not_below(rigorous.product_above(*factors), exact)
    assert rigorous.product_above(0.0, scale) == 0.0


@pytest.mark.parametrize("d", [1, 2, 6])
def test_a_projection_onto_the_cone_is_that_of_moreau(d, rng) -> None:
    """A matrix is the difference of its projection and that of its negative: both PSD, and orthogonal to each other."""
    for size in (1e-4, 1.0, 1e4):
        A = size * rng.normal(size=(d, d))
        A += A.T
        P, N = psd.project(A), psd.project(-A)
        assert_close(P - N, A, size)
        assert min(np.linalg.eigvalsh(P)[0], np.linalg.eigvalsh(N)[0]) >= -1e-12 * size
        assert abs(np.sum(P * N)) <= 1e-9 * size**2
