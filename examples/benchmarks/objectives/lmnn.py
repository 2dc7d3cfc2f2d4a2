"""LMNN (Weinberger and Saul 2009, Eq. 14): all impostors of everybody, hinges of margin 1.

`lmnn:loss=squared_hinge` is the program that PyLMNN minimizes.
"""

from __future__ import annotations

import numpy as np

import sdpmetric as sm


def statement(X: np.ndarray, y: np.ndarray, n_neighbors: int, push_weight: float, **options: object) -> sm.LMNNProblem:
    """The problem that everybody is judged by."""
    return sm.LMNNProblem.from_labels(X, y, n_neighbors, push_weight, **options)


def objective(problem: sm.LMNNProblem, components: np.ndarray) -> float:
    """The objective of the best multiple of a metric, so that no peer is judged by its units."""
    L = np.asarray(components, dtype=np.float64)
    return problem.objective(problem.best_scale(L) * L)


def above(value: float, lower_bound: float) -> float:
    """How far an objective lies above the proven lower bound, relative to the bound."""
    return (value - lower_bound) / lower_bound
