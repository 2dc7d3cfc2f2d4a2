"""scikit-learn's callbacks, experimental in 1.9, behind one adapter: the only file that imports them.

With scikit-learn 1.6 to 1.8 estimators work without callbacks: they have no ``set_callbacks``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, Self


class CallbackContext(Protocol):
    """A task of a fit that callbacks can follow."""

    def subcontext(self, *, task_name: str, max_subtasks: int | None = 0) -> Self:
        """A part of the task."""

    def call_on_fit_task_begin(self, **seen: object) -> Self:
        """Tell that the task begins."""

    def call_on_fit_task_end(self, **seen: object) -> bool:
        """Tell that the task has ended; True if a callback asks to stop."""


if TYPE_CHECKING:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
else:
    try:
        from sklearn.callback import CallbackSupportMixin, with_callbacks
    except ImportError:

        class _Silent:
            """A task without callbacks."""

            def subcontext(self, *, task_name: str, max_subtasks: int | None = 0) -> Self:
                return self

            def call_on_fit_task_begin(self, **seen: object) -> Self:
                return self

            def call_on_fit_task_end(self, **seen: object) -> bool:
                return False

        class CallbackSupportMixin:
            """Stands for scikit-learn's class where there is none."""

            def _init_callback_context(self, max_subtasks: int | None = 0) -> CallbackContext:
                return _Silent()

        def with_callbacks(method: Callable[..., object]) -> Callable[..., object]:
            """The method as it is."""
            return method


__all__ = ["CallbackContext", "CallbackSupportMixin", "with_callbacks"]
