"""What the command line shows while loops are compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from numba.core import event
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn


@contextmanager
def compilation_bar(title: str, console: Console | None = None) -> Iterator[None]:
    """A bar that moves with every loop that is compiled; no more than the title if there is no terminal.

    Nothing moves where all loops are found in the cache of an earlier run.
    """
    console = console or Console(stderr=True, highlight=False)
    if not console.is_terminal:
        console.print(f"{title} ...", soft_wrap=True, markup=False)
        yield
        return
    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    bar = Progress(*columns, console=console, transient=True)
    # An LMNN problem's first solve compiles 9 loops; the others come with other solvers.
    task = bar.add_task(title, total=9)
    with bar, event.install_listener("numba:compile", Compiled(lambda: bar.advance(task))):
        yield


class Compiled(event.Listener):
    """Calls a function when a loop of this package has been compiled."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self.moved = on_change

    def on_start(self, event: event.Event) -> None:
        """Nothing moves yet."""

    def on_end(self, event: event.Event) -> None:
        """Move, unless it was a function of numba's own that a loop is made of."""
        if event.data["dispatcher"].py_func.__module__.startswith("sdpmetric"):
            self.moved()
