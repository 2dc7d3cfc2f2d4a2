"""The one printer: everything that sdpmetric says on its own while it works passes through here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    from sdpmetric.core.trace import TraceRow


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
