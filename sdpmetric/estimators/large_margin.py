"""The base of LMNN's estimators: target neighbors of small classes, several passes, early stopping."""

from __future__ import annotations

import warnings
from functools import partial
from typing import NamedTuple, Self, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sdpmetric.core import validation
from sdpmetric.core.problem import Problem
from sdpmetric.core.solution import Solution
from sdpmetric.estimators.base import FloatArray
from sdpmetric.estimators.callbacks import CallbackContext
from sdpmetric.estimators.data import Data, Labels, Weights
from sdpmetric.estimators.held_back import Examples
from sdpmetric.estimators.labelled import WeightedEstimator
from sdpmetric.estimators.watcher import Watcher
from sdpmetric.problems.lmnn import LMNNProblem
from sdpmetric.problems.multi_lmnn import MultiMetricLMNNProblem
from sdpmetric.triplets import neighbors

LargeMarginProblem = LMNNProblem | MultiMetricLMNNProblem


class Given(NamedTuple):
    """What is given for each example beside its label: a weight, a region."""

    sample_weight: Weights = None
    regions: Labels | None = None


class LargeMarginEstimator(WeightedEstimator):
    """An estimator with target neighbors.

    A class with ``n_neighbors`` or fewer members, which the statements refuse, gets a warning here and fewer target
    neighbors: each member has all the others, and a class of one member serves as impostors only. So a
    cross-validation, which makes small classes smaller, does not fail.

    Parameters
    ----------
    n_neighbors : int, default 3
        Target neighbors per example.
    push_weight : float, default 0.5
        ``mu`` in ``(1 - mu) pull + mu push``.
    loss : {"hinge", "squared_hinge"}, default "hinge"

    Attributes
    ----------
    solutions_ : list of Solution
        One for each pass, each with its certificate.
    ridge_ : float
        The ridge that was used.
    """

    n_neighbors: int
    n_passes: int = 1
    solutions_: list[Solution]
    ridge_: float

    # -- for subclasses -----------------------------------------------------------------------------------------------

    def _state(self, X: Data, y: Labels, targets: sp.csr_array | None, given: Given) -> LargeMarginProblem:
        """State the problem; without target neighbors, with those that the statement chooses."""
        state = self._with_own(cast(type[LMNNProblem], self._statement).from_labels)
        return state(X, y, target_neighbors=targets, sample_weight=given.sample_weight)

    def _coordinates(self, X: Data) -> FloatArray:
        """The coordinates in which target neighbors are nearest before the first pass."""
        return np.asarray(X, dtype=np.float64)

    def _fitted(self, problem: Problem, components: Data) -> dict[str, object]:
        return super()._fitted(problem, components) | {"ridge_": cast(LargeMarginProblem, problem).ridge}

    def _keep(self, problem: Problem, solution: Solution) -> None:
        super()._keep(problem, solution)
        self.solutions_ = [solution]

    # -- fitting ------------------------------------------------------------------------------------------------------

    def _fit(self, X: Data, y: Labels, sample_weight: Weights = None, regions: Labels | None = None) -> Self:
        """Solve, then solve again with the target neighbors that are nearest under the last metric."""
        validation.check_integer("n_passes", self.n_passes)
        context = self._init_callback_context(max_subtasks=int(self.n_passes))
        context.call_on_fit_task_begin(estimator=self, X=X, y=y)
        examples = self._examples(X, y)
        (data, labels), rows = examples.learned, examples.rows
        given = Given(
            None if sample_weight is None else sample_weight[rows], None if regions is None else regions[rows]
        )
        problem = self._state(data, labels, self._targets_of_small_classes(data, labels), given)
        solution, score = self._solve_pass(problem, examples, context)
        best, best_score = (problem, solution), score
        solutions = self.solutions_ = [solution]
        while len(solutions) < self.n_passes:
            points = np.asarray(problem.X, dtype=np.float64) @ self._rows(solution.components).T
            targets = _graph(_targets(points, labels, self.n_neighbors))
            problem = self._state(data, labels, targets, given)
            solution, score = self._solve_pass(problem, examples, context, solution)
            if score >= best_score:  # of equals the latest
                best, best_score = (problem, solution), score
            solutions.append(solution)
        self.__dict__.pop("validation_score_", None)
        if self._stops_early():
            self.validation_score_ = best_score
        self._keep(*best)
        self.solutions_ = solutions
        context.call_on_fit_task_end(estimator=self, X=X, y=y, reconstruction_attributes={})
        return self

    def _solve_pass(
        self,
        problem: LargeMarginProblem,
        examples: Examples,
        context: CallbackContext,
        before: Solution | None = None,
    ) -> tuple[Solution, float]:
        """Solve one pass, started from the pass before; also return its validation score, 0 without any."""
        X, y = examples.X, examples.y
        options: dict[str, object] = {}
        if before is not None and len(before.components):
            options["start"] = np.asarray(before.components, dtype=np.float64)
        measure = self._measure(problem, examples)
        subtask = context.subcontext(task_name="pass", max_subtasks=None)
        subtask.call_on_fit_task_begin(estimator=self, X=X, y=y)
        solution = self._solve(Watcher(self, problem, subtask, X, y, measure), **options)
        self._warn_unless_proven(solution)
        self._warn_if_useless(problem, solution)
        fitted = partial(self._fitted, problem, solution.components)
        subtask.call_on_fit_task_end(estimator=self, X=X, y=y, reconstruction_attributes=fitted)
        return solution, 0.0 if measure is None else measure(np.asarray(solution.components, dtype=np.float64))

    def _targets_of_small_classes(self, X: Data, y: Labels) -> sp.csr_array | None:
        """Target neighbors where a class has too few members for the statement; None where all have enough."""
        k = self.n_neighbors
        classes, index = validation.check_labels(y, len(X))
        counts = np.bincount(index)
        counted = validation.is_integer(k) and k >= 1
        if not counted or counts.min() > k:
            return None  # the statement refuses an n_neighbors that is not a positive integer
        small = np.flatnonzero(counts <= k)
        if counts.max() == 1:
            raise ValueError("every class has one member only, so that there are no target neighbors; merge classes.")
        some = ", ".join(f"{classes[c]!s} ({counts[c]})" for c in small[:10]) + (", .." if len(small) > 10 else "")
        warnings.warn(
            f"these classes have n_neighbors={k} or fewer members: {some}; their members get as many target neighbors "
            "as the class has others. Lower n_neighbors, or merge or drop them, to treat all classes alike.",
            UserWarning,
            stacklevel=4,
        )
        return _graph(_targets(self._coordinates(X), y, k))


def _targets(points: FloatArray, y: Labels, n_neighbors: int) -> NDArray[np.int32]:
    """Nearest examples of the own class, (n, n_neighbors), padded with -1 where the class has fewer others."""
    targets = np.full((len(y), n_neighbors), -1, dtype=np.int32)
    for label in np.unique(y):
        members = np.flatnonzero(y == label)
        k = min(n_neighbors, len(members) - 1)
        if k > 0:
            one_class = np.zeros(len(members), dtype=np.int32)
            targets[members, :k] = members[neighbors.target_neighbors(points[members], one_class, k)]
    return targets


def _graph(targets: NDArray[np.int32]) -> sp.csr_array:
    rows, slots = np.nonzero(targets >= 0)
    return sp.csr_array((np.ones(len(rows)), (rows, targets[rows, slots])), shape=(len(targets), len(targets)))
