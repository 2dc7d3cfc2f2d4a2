"""The base of LMNN's estimators: target neighbors of small classes, several passes, early stopping."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Self, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation
from sdpmetric.core.problem import Problem
from sdpmetric.core.solution import Solution
from sdpmetric.estimators.base import SolvedEstimator
from sdpmetric.estimators.callbacks import Task
from sdpmetric.estimators.data import Data, Labels, Weights
from sdpmetric.problems.lmnn import LMNNProblem
from sdpmetric.problems.multi_lmnn import MultiMetricLMNNProblem
from sdpmetric.triplets import neighbors

LargeMarginProblem = LMNNProblem | MultiMetricLMNNProblem


class LargeMarginEstimator(SolvedEstimator):
    """An estimator with target neighbors, of which it may choose new ones in several passes.

    A class with ``n_neighbors`` or fewer members, which the statements refuse, gets a warning here and fewer target
    neighbors: each member has all the others, and a class of one member serves as impostors only. So a
    cross-validation, which makes small classes smaller, does not fail.
    """

    n_neighbors: int
    n_passes: int = 1
    solutions_: list[Solution]
    ridge_: float

    def _problem(
        self, X: Data, y: Labels, weights: Weights = None, targets: sp.csr_array | None = None, **about: object
    ) -> Problem:
        state = cast(type[LMNNProblem], self.statement).from_labels
        return self._state(state, X, y, target_neighbors=targets, sample_weight=weights, **about)

    def _problem_of_tuples(self, X: Data, tuples: ArrayLike, about: ArrayLike | None) -> Problem:
        return self._state(cast(type[LMNNProblem], self.statement).from_triplets, X, tuples, about)

    def _coordinates(self, X: Data) -> FloatArray:
        """The coordinates in which target neighbors are nearest before the first pass."""
        return np.asarray(X, dtype=np.float64)

    def _fitted(self, problem: Problem, components: Data) -> dict[str, object]:
        return super()._fitted(problem, components) | {"ridge_": cast(LargeMarginProblem, problem).ridge}

    def _keep(self, problem: Problem, solution: Solution, score: float | None = None) -> None:
        super()._keep(problem, solution, score)
        self.solutions_ = [solution]

    def _fit(self, X: Data, y: Labels, weights: Weights = None, regions: Labels | None = None) -> Self:
        """Solve, then solve again with the target neighbors that are nearest under the last metric."""
        task = Task(self._init_callback_context(max_subtasks=int(self.n_passes)), self, X, y).begin()
        rows, held = self._divided(len(y), y)
        data, labels = X[rows], y[rows]
        weights = None if weights is None else weights[rows]
        about = {} if regions is None else {"regions": regions[rows]}
        targets, start = self._targets_of_small_classes(data, labels), dict[str, FloatArray]()
        passes: list[tuple[Problem, Solution, float | None]] = []
        for number in range(self.n_passes):
            problem = self._problem(data, labels, weights, targets, **about)
            measure = self._measure(problem, labels, X[held], y[held]) if self.early_stopping else None
            part = task.part("pass", max_subtasks=None)
            solution, score = self._solve(problem, part, measure, **start)
            part.end(partial(self._fitted, problem, solution.components))
            passes.append((problem, solution, score))
            if number + 1 < self.n_passes:
                L = np.asarray(solution.components, dtype=np.float64)
                points = np.asarray(problem.X, dtype=np.float64) @ self._padded(L).T
                targets, start = _targets(points, labels, self.n_neighbors), {"start": L} if len(L) else {}
        self._keep(*max(reversed(passes), key=lambda one: one[2] or 0.0))  # of equals the latest
        self.solutions_ = [solution for _, solution, _ in passes]
        task.end({})
        return self

    def _targets_of_small_classes(self, X: Data, y: Labels) -> sp.csr_array | None:
        """Target neighbors where a class has too few members for the statement; None where all have enough."""
        k = self.n_neighbors
        classes, index = validation.check_labels(y, len(X))
        counts = np.bincount(index)
        if counts.min() > k:
            return None
        small = np.flatnonzero(counts <= k)
        if counts.max() == 1:
            raise ValueError("every class has one member only, so that there are no target neighbors; merge classes.")
        some = ", ".join(f"{classes[c]!s} ({counts[c]})" for c in small[:10]) + (", .." if len(small) > 10 else "")
        warnings.warn(
            f"these classes have n_neighbors={k} or fewer members: {some}; their members get as many target neighbors "
            "as the class has others. Lower n_neighbors, or merge or drop them, to treat all classes alike.",
            UserWarning,
            stacklevel=5,
        )
        return _targets(self._coordinates(X), y, k)


def _targets(points: FloatArray, y: Labels, n_neighbors: int) -> sp.csr_array:
    """Nearest examples of the own class as an (n, n) graph, fewer than asked for where the class is small."""
    rows: list[NDArray[np.intp]] = []
    ends: list[NDArray[np.intp]] = []
    for label in np.unique(y):
        members = np.flatnonzero(y == label)
        if k := min(n_neighbors, len(members) - 1):
            one_class = np.zeros(len(members), dtype=np.int32)
            nearest = neighbors.target_neighbors(points[members], one_class, k)
            rows.append(np.repeat(members, k))
            ends.append(members[nearest].ravel())
    pairs = np.concatenate(rows), np.concatenate(ends)
    return sp.csr_array((np.ones(len(pairs[0])), pairs), shape=(len(y), len(y)))
