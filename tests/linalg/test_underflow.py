"""Bounds hold where squares and products underflow, and huge weights make what is lost count: exact arithmetic."""

from fractions import Fraction

import numpy as np
import pytest
from exact import lmnn_objective, metric, number
from flint import fmpq

import sdpmetric as sm
from sdpmetric.linalg.rigorous import directed as rigorous

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
