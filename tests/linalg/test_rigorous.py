"""Proven bounds against exact rational arithmetic and balls."""

import numpy as np
import pytest
from exact import FAMILIES, Distances, fraction, hostile, rational
from flint import arb, ctx

from sdpmetric.engine import threads
from sdpmetric.linalg import exact, rigorous
from sdpmetric.linalg.rigorous import Images, forms


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
    return Images.of(X, wide - wide.mean(axis=0), T)


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
            monkeypatch.setattr(forms, "WORTH", worth)
            form = images.form(first, second, weights, accuracy=0.0)
            off = rational(form.matrix) - true
            assert np.linalg.norm(as_floats(off), 2) <= form.error
            assert is_psd(true - rational(form.least * np.eye(2)))
            assert is_psd(rational(form.largest * np.eye(2)) - true)
            assert abs(np.trace(as_floats(true))) <= 2 * form.size


def test_congruent_forms_of_indefinite_matrices_are_as_far_off_as_they_say():
    A, V = np.array([[0.0, 1.0], [1.0, 0.0]]), np.diag([0.1, 0.3])  # |V|^T |A| |V| has trace 0
    form = forms.Form.congruent(A, V)
    true = rational(V).transpose() * rational(A) * rational(V)
    off = as_floats(rational(form.matrix) - true)
    assert off.any()
    assert np.linalg.norm(off, 2) <= form.error
    assert np.abs(as_floats(true)).max() <= form.size


def test_forms_are_made_from_differences_where_these_err_less(rng):
    X = rng.normal(size=(40, 3)) + 1e6 * (np.arange(40) % 2)[:, None]  # pairs within two clusters far apart
    first = np.arange(38, dtype=np.int32)
    images, weights = images_of(X, np.eye(3)), np.ones(38)
    form, rough = (images.form(first, first + 2, weights, accuracy=accuracy) for accuracy in (1e-12, np.inf))
    assert form.error < 1e-2 * rough.error
    off = rational(form.matrix) - exact_form(X, np.eye(3), first, first + 2, weights)
    assert np.linalg.norm(as_floats(off), 2) <= form.error


def test_a_feature_that_was_dropped_as_constant_still_counts(rng):
    X = np.column_stack([rng.normal(size=8), 1.0 + 1e-15 * np.arange(8)])
    centered = X - X.mean(axis=0)
    centered[:, 1] = 0.0
    images = Images.of(X, centered, np.diag([1.0, 1e14]))
    D = Distances(X, np.diag([1.0, 1e14]))
    low, high = images.distances(np.array([0], np.int32), np.array([7], np.int32))
    assert low[0] <= fraction(D(0, 7)) <= high[0]
    assert fraction(D(0, 7)) > 1e-3


def test_null_spaces_are_exact(rng):
    for d, rank in ((5, 3), (7, 6), (4, 4)):
        A = rng.integers(-9, 10, size=(40, rank)) @ rng.integers(-3, 4, size=(rank, d)) / 8.0
        whole = exact.integers(A)
        basis = exact.null_space(whole)
        assert not (whole @ basis).any()
        assert basis.shape[1] == d - np.linalg.matrix_rank(A)
    X = rng.normal(size=(30, 3))
    basis = exact.null_space(exact.integers(np.column_stack([X, X[:, 1]])))
    assert np.abs(basis.astype(float)).tolist() == [[0.0], [1.0], [0.0], [1.0]]
