"""scikit-learn's callbacks, experimental in 1.9, behind one adapter: the only file that imports them.

With scikit-learn 1.6 to 1.8 estimators work without callbacks: they have no ``set_callbacks``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from sdpmetric.arrays import FloatArray
from sdpmetric.core.steps import Score
from sdpmetric.core.trace import TraceRow


class CallbackContext(Protocol):
    """A task of a fit that callbacks can follow."""

    def subcontext(self, *, task_name: str, max_subtasks: int | None = 0) -> Self:
        """A part of the task."""

    def call_on_fit_task_begin(self, **state: object) -> Self:
        """Tell that the task begins."""

    def call_on_fit_task_end(self, **state: object) -> bool:
        """Tell that the task has ended; True if a callback asks to stop."""


if TYPE_CHECKING:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
else:
    try:
        from sklearn.callback import CallbackSupportMixin, with_callbacks
    except ImportError:

        class _Silent:
            def subcontext(self, *, task_name: str, max_subtasks: int | None = 0) -> Self:
                return self

            def call_on_fit_task_begin(self, **state: object) -> Self:
                return self

            def call_on_fit_task_end(self, **state: object) -> bool:
                return False

        class CallbackSupportMixin:
            """Stands for scikit-learn's class if there is none."""

            def _init_callback_context(self, max_subtasks: int | None = 0) -> CallbackContext:
                return _Silent()

        def with_callbacks(method: Callable[..., object]) -> Callable[..., object]:
            """The method as it is."""
            return method


@dataclass
class Task:
    """A task of a fit, and what callbacks of its steps are told."""

    context: CallbackContext
    estimator: BaseEstimator
    X: NDArray[np.floating]
    y: NDArray[np.generic] | None = None

    def begin(self) -> Self:
        """Tell that the task begins."""
        self.context.call_on_fit_task_begin(estimator=self.estimator, X=self.X, y=self.y)
        return self

    def finish(self, fitted: Callable[[], dict[str, object]] | dict[str, object]) -> bool:
        """Tell that it has ended, with attributes of the estimator as of now; True if a callback asks to stop."""
        state = {"estimator": self.estimator, "X": self.X, "y": self.y}
        return bool(self.context.call_on_fit_task_end(**state, reconstruction_attributes=fitted))

    def subtask(self, name: str, max_subtasks: int | None = 0) -> Task:
        """Begin a part of this task."""
        context = self.context.subcontext(task_name=name, max_subtasks=max_subtasks)
        return Task(context, self.estimator, self.X, self.y).begin()


@dataclass
class Watcher:
    """Follows a solve: scores each metric on what was held back, and tells callbacks of each step."""

    task: Task
    fitted: Callable[[NDArray[np.floating]], dict[str, object]]
    measure: Score | None = None

    def score(self, components: FloatArray) -> float:
        """Score the step that comes next."""
        self._components = components
        return math.nan if self.measure is None else self.measure(components)

    def callback(self, row: TraceRow) -> bool:
        """Report one step; True if a callback asks to stop."""
        if not hasattr(self.task.estimator, "_skl_callbacks"):
            return False
        return self.task.subtask("step").finish(partial(self.fitted, self._components.astype(self.task.X.dtype)))


__all__ = ["CallbackContext", "CallbackSupportMixin", "Task", "Watcher", "with_callbacks"]
