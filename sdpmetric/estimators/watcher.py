"""Follows a solve for an estimator: scores each metric, and tells callbacks of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sdpmetric.core.problem import Problem
from sdpmetric.core.run import Score
from sdpmetric.core.trace import TraceRow
from sdpmetric.estimators.callbacks import CallbackContext

if TYPE_CHECKING:
    from sdpmetric.estimators.base import MetricEstimator
    from sdpmetric.estimators.data import Data, Labels

FloatArray = NDArray[np.float64]


@dataclass
class Watcher:
    """Follows a solve step by step: scores each metric, and tells scikit-learn's callbacks of it as a subtask.

    Attributes
    ----------
    estimator : MetricEstimator
    problem : Problem
        What is solved.
    context : CallbackContext
        Of the task whose subtasks the steps are.
    X, y : arrays
        What is fitted, for callbacks that ask for it.
    measure : callable, optional
        Score of components on validation examples, larger is better.
    """

    estimator: MetricEstimator
    problem: Problem
    context: CallbackContext
    X: Data
    y: Labels | None = None
    measure: Score | None = None

    def score(self, components: FloatArray) -> float:
        """Score the step that comes next."""
        self._components = components
        return math.nan if self.measure is None else self.measure(components)

    def callback(self, row: TraceRow) -> bool:
        """Report one step; True if a callback asks to stop."""
        if not hasattr(self.estimator, "_skl_callbacks"):
            return False
        seen = {"estimator": self.estimator, "X": self.X, "y": self.y}
        step = self.context.subcontext(task_name="step").call_on_fit_task_begin(**seen)
        components = self._components.astype(self.X.dtype)
        fitted = partial(self.estimator._fitted, self.problem, components)  # for callbacks that ask for it
        return bool(step.call_on_fit_task_end(**seen, reconstruction_attributes=fitted))
