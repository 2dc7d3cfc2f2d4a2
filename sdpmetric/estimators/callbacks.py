"""scikit-learn's callbacks, experimental in 1.9, behind one adapter: the only file that imports them.

With scikit-learn 1.6 to 1.8 estimators work without callbacks: they have no ``set_callbacks``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator


class CallbackContext:
    """A task that nobody follows; scikit-learn's own, from 1.9, has the same methods."""

    def subcontext(self, *, task_name: str, max_subtasks: int | None = 0) -> Self:
        return self

    def call_on_fit_task_begin(self, **state: object) -> Self:
        return self

    def call_on_fit_task_end(self, **state: object) -> bool:
        return False


if TYPE_CHECKING:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
else:
    try:
        from sklearn.callback import CallbackSupportMixin, with_callbacks
    except ImportError:

        class CallbackSupportMixin:
            """Stands for scikit-learn's class if there is none."""

            def _init_callback_context(self, max_subtasks: int | None = 0) -> CallbackContext:
                return CallbackContext()

        def with_callbacks(method: Callable[..., object]) -> Callable[..., object]:
            """The method as it is."""
            return method


@dataclass
class Task:
    """A task of a fit, begun when it is made, and what callbacks of it are told."""

    context: CallbackContext
    estimator: BaseEstimator
    X: NDArray[np.floating]
    y: NDArray[np.generic] | None = None

    def __post_init__(self) -> None:
        self.context.call_on_fit_task_begin(estimator=self.estimator, X=self.X, y=self.y)

    def finish(self, fitted: Callable[[], dict[str, object]] | dict[str, object]) -> bool:
        """Tell that it has ended, with attributes of the estimator as of now; True if a callback asks to stop."""
        state = {"estimator": self.estimator, "X": self.X, "y": self.y}
        return bool(self.context.call_on_fit_task_end(**state, reconstruction_attributes=fitted))

    def subtask(self, name: str, max_subtasks: int | None = 0) -> Task:
        return Task(self.context.subcontext(task_name=name, max_subtasks=max_subtasks), self.estimator, self.X, self.y)


__all__ = ["CallbackContext", "CallbackSupportMixin", "Task", "with_callbacks"]
