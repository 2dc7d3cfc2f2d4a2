"""Tolerances that may be out of reach: what a looser one has proven, a tighter one proves too."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.preprocessing import StandardScaler

import sdpmetric as sm
from sdpmetric.datasets import reduce


def solved(name: str, tol: float) -> sm.Solution:
    load = {"iris": load_iris, "wine": load_wine, "breast cancer": load_breast_cancer, "digits": load_digits}[name]
    X, y = load(return_X_y=True)
    if name == "digits":
        some = np.random.default_rng(0).permutation(len(X))[:500]
        X, y = reduce(X[some], 30), y[some]
    else:
        X = StandardScaler().fit_transform(X)
    return sm.solve(sm.LMNNProblem.from_labels(X, y), solver="factored", tol=tol)


def check(name: str, tols: list[float], reached: float) -> None:
    proven = np.inf
    for tol in tols:
        solution = solved(name, tol)
        assert solution.relative_gap <= proven
        if solution.relative_gap <= tol:
            proven = tol
    assert proven <= reached


@pytest.mark.parametrize("name", ["iris", pytest.param("wine", marks=pytest.mark.slow)])
def test_the_gap_does_not_grow_when_the_tolerance_shrinks(name: str) -> None:
    check(name, [1e-3, 1e-8, 1e-12], 1e-8)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("name", "reached"), [("iris", 1e-8), ("wine", 1e-8), ("breast cancer", 1e-8), ("digits", 1e-7)]
)
def test_the_gap_does_not_grow_over_ten_tolerances(name: str, reached: float) -> None:
    check(name, [10.0**-k for k in range(3, 13)], reached)


@pytest.mark.slow
def test_all_digits_are_proven_to_1e_8() -> None:
    X, y = load_digits(return_X_y=True)
    problem = sm.LMNNProblem.from_labels(reduce(X, 30), y)
    assert sm.solve(problem, solver="factored", tol=1e-8).relative_gap <= 1e-8
