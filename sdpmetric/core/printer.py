"""The one printer: everything that sdpmetric says on its own while it works passes through here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from numba.core import event
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from rich.progress import TaskID

    from sdpmetric.core.trace import TraceRow

# Loops that the first solve of an LMNN problem compiles; the rest of them come with other solvers.
LOOPS = 9


class Printer:
    """Print the progress of a solve, one line for each row of its trace that is due.

    Parameters
    ----------
    console : rich.console.Console, optional
        Where to print; default standard output.
    interval : float, default 0.5
        Seconds between lines at least.
    """

    def __init__(self, console: Console | None = None, interval: float = 0.5) -> None:
        self.console = console or Console(highlight=False)
        self.interval = interval
        self._last = -float("inf")

    def __call__(self, row: TraceRow) -> None:
        """Print one row, unless the last one is too fresh."""
        if row.seconds - self._last < self.interval:
            return
        if self._last < 0:
            self.line(f"{'iter':>7} {'seconds':>9} {'objective':>15} {'lower bound':>15} {'step':>9} {'active':>9}")
        self._last = row.seconds
        self.line(
            f"{row.iteration:7d} {row.seconds:9.2f} {row.objective:15.8g} {row.lower_bound:15.8g} "
            f"{row.step:9.2e} {row.n_active:9d}"
        )

    def line(self, text: str) -> None:
        """Print one line as it is."""
        self.console.print(text, markup=False, soft_wrap=True)


@contextmanager
def compilation_bar(title: str, console: Console | None = None) -> Iterator[None]:
    """A bar that moves with every loop that is compiled; no more than the title where there is no terminal.

    Nothing moves where all loops are found in the cache of an earlier run.

    Parameters
    ----------
    title : str
    console : rich.console.Console, optional
        Where to draw; default standard error.
    """
    console = console or Console(stderr=True, highlight=False)
    if not console.is_terminal:
        console.print(f"{title} ...", soft_wrap=True, markup=False)
        yield
        return
    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    bar = Progress(*columns, console=console, transient=True)
    listener = _Advance(bar, bar.add_task(title, total=LOOPS))
    with bar, event.install_listener("numba:compile", listener):
        yield


class _Advance(event.Listener):
    """Moves a bar when a loop of this package has been compiled."""

    def __init__(self, bar: Progress, task: TaskID) -> None:
        self.bar, self.task = bar, task

    def on_start(self, event: event.Event) -> None:
        """Nothing moves yet."""

    def on_end(self, event: event.Event) -> None:
        """Move, unless it was a function of numba's own that a loop is made of."""
        if event.data["dispatcher"].py_func.__module__.startswith("sdpmetric"):
            self.bar.advance(self.task)
