"""The PSD cone: projection axioms, factors, and the coordinates in which a cost is the identity."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from instances import assert_close

import sdpmetric._loops
from sdpmetric.linalg import psd

SEEDS = st.integers(0, 2**32 - 1)


def symmetric(seed):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 7))
    A = rng.normal(size=(d, d)) * 10 ** rng.uniform(-4, 4)
    return A + A.T, rng


def random_psd(rng, d, size):
    L = rng.normal(size=(rng.integers(0, d + 1), d))
    return size * L.T @ L


def check_projection(project, seed):
    A, rng = symmetric(seed)
    size, d = np.abs(A).max(), len(A)
    P, N = project(A), project(-A)
    assert_close(project(P), P, size)
    # Moreau: A = P - N with both in the cone and orthogonal to each other.
    assert_close(P - N, A, size)
    assert np.linalg.eigvalsh(P)[0] >= -1e-12 * size
    assert abs(np.sum(P * N)) <= 1e-9 * size**2
    # Nearest: no other member of the cone is closer.
    for other in (random_psd(rng, d, size), P + random_psd(rng, d, 1e-3 * size), 0.99 * P):
        assert np.linalg.norm(A - P) <= np.linalg.norm(A - other) + 1e-12 * size


@given(SEEDS)
def test_projection_axioms(seed):
    check_projection(psd.project, seed)


def test_factor_keeps_the_psd_part_longest_row_first():
    A = np.diag([3.0, -2.0, 5.0, 1e-13])
    L = psd.factor(A)
    assert L.shape == (3, 4)
    assert_close(L.T @ L, np.diag([3.0, 0.0, 5.0, 1e-13]))
    assert np.all(np.diff(np.linalg.norm(L, axis=1)) < 0)
    assert psd.factor(A, tolerance=1e-10).shape == (2, 4)
    assert psd.factor(-np.eye(3)).shape == (0, 3)
    assert psd.factor(np.zeros((2, 2)), tolerance=0.5).shape == (0, 2)


@given(SEEDS, st.booleans(), st.floats(0, 8))
def test_data_basis_whitens_the_data_within_their_row_space(seed, wide, decades):
    rng = np.random.default_rng(seed)
    n, d = (5, 8) if wide else (20, 4)
    X = rng.normal(size=(n, d)) * 10 ** rng.uniform(-decades / 2, decades / 2, d)
    X[:, 2] = 7.0
    X -= X.mean(axis=0)
    X[:, 2] = 0.0
    T, inverse = psd.data_basis(X)
    Y = X @ T
    assert Y.shape[1] == (4 if wide else 3)
    assert np.abs(Y.T @ Y / n - np.eye(Y.shape[1])).max() < 1e-7
    assert (np.abs(Y @ inverse - X) / np.where(X.any(axis=0), X.std(axis=0), 1.0)).max() < 1e-7
    if decades < 4:  # T = P T for the projection P onto the row space
        P = np.linalg.pinv(X) @ X
        assert_close(P @ T, T)


def test_data_basis_of_constant_data_is_empty():
    T, inverse = psd.data_basis(np.zeros((5, 3)))
    assert T.shape == (3, 0)
    assert inverse.shape == (0, 3)


@given(SEEDS, st.floats(-7, 0))
def test_whitening_makes_the_cost_the_identity_on_its_range(seed, decade):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(30, 5))
    X -= X.mean(axis=0)
    T, inverse = psd.data_basis(X)
    root = rng.normal(size=(9, 5)) @ np.diag([1, 3, 10.0**decade, 0, 0]) @ np.linalg.qr(rng.normal(size=(5, 5)))[0]
    W = psd.whiten(T, inverse, root)
    assert W.rank == 3
    assert W.range.shape == (5, 3)
    assert W.null.shape == (5, 2)
    # A factor goes back and forth without changing any distance between data.
    L = rng.normal(size=(2, 5))
    assert_close(X @ W.transform @ (L @ W.inverse.T).T, X @ L.T, scale=10 ** (-decade / 2))
    in_basis = inverse @ W.transform
    C = in_basis.T @ root.T @ root @ in_basis
    assert np.abs(C - np.diag([1, 1, 1, 0, 0])).max() < 1e-7 * 10 ** (-decade / 7)


def test_projection_slopes_are_the_derivative_of_the_projection(rng) -> None:
    """Along a direction, by differences, at a matrix with eigenvalues of both signs; none where all are negative."""
    Q = np.linalg.qr(rng.normal(size=(5, 5)))[0]
    values = np.array([2.0, 0.7, 0.3, -0.4, -1.5])
    A, H = (Q * values) @ Q.T, psd.symmetrize(rng.normal(size=(5, 5)))
    row, column, slopes = psd.projection_slopes(values)
    along = float(np.sum(slopes * (Q.T @ H @ Q)[row, column] ** 2))
    step = 1e-6
    differences = (psd.project(A + step * H) - psd.project(A - step * H)) / (2 * step)
    assert along == pytest.approx(float(np.sum(H * differences)), rel=1e-7)
    assert len(row) == 6 + 6, "all of the positive block, and what is between the blocks"
    assert psd.projection_slopes(-np.abs(values))[2].size == 0


# -- What holds for every compiled loop --------------------------------------------------------------------------------


# numba gives the code behind these one name each, or one for several of them, whatever they were asked to do.
VARIANTS = {
    "sort",
    "argsort",
    "searchsorted",
    "digitize",
    "partition",
    "argpartition",
    "median",
    "quantile",
    "percentile",
}


@pytest.mark.parametrize(
    "file", sorted(Path(sdpmetric._loops.__file__).parent.glob("*.py")), ids=lambda file: file.stem
)
def test_no_variants_that_two_processes_could_mix_up_in_their_caches(file):
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.FunctionDef) and any("njit" in ast.unparse(d) for d in node.decorator_list):
            called = {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}
            assert not called & VARIANTS, f"{file.name}: {node.name}"
