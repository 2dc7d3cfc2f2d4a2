"""The PSD cone: projection axioms; bounds hold where squares and products underflow."""

import ast
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from exact import lmnn_objective, metric, number
from flint import fmpq
from hypothesis import given
from hypothesis import strategies as st
from instances import assert_close

import sdpmetric as sm
import sdpmetric.engine.compiled
from sdpmetric.linalg import psd
from sdpmetric.linalg.rigorous import directed as rigorous

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
    for candidate in (random_psd(rng, d, size), P + random_psd(rng, d, 1e-3 * size), 0.99 * P):
        assert np.linalg.norm(A - P) <= np.linalg.norm(A - candidate) + 1e-12 * size


@given(SEEDS)
def test_projection_axioms(seed):
    check_projection(psd.project, seed)


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


@pytest.mark.parametrize("file", sorted(Path(sdpmetric.__file__).parent.rglob("*loops.py")), ids=lambda file: file.stem)
def test_no_variants_that_two_processes_could_mix_up_in_their_caches(file):
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.FunctionDef) and any("loop" in ast.unparse(d) for d in node.decorator_list):
            called = {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}
            assert not called & VARIANTS, f"{file.name}: {node.name}"


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


def test_lmnn_with_a_huge_frobenius_weight() -> None:
    rng = np.random.default_rng(3)
    X, y, L = rng.normal(size=(9, 2)), np.arange(9) % 2, 1e-81 * rng.normal(size=(2, 2))
    problem = sm.LMNNProblem.from_labels(X, y, 1, 0.0, frobenius=1e300)
    pull = lmnn_objective(X, L, np.stack(problem.target_pairs, axis=1), [], [], 0.0)
    size = sum((entry**2 for entry in metric(L).entries()), fmpq(0))
    assert number(problem.certify(L).objective) >= pull + number(5e299) * size
