"""The one printer: everything that sdpmetric says on its own while it works passes through here."""

from __future__ import annotations

import logging
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sdpmetric.core import text
from sdpmetric.core.certificate import relative_gap
from sdpmetric.core.files import printable

if TYPE_CHECKING:
    from sdpmetric.core.solution import Solution
    from sdpmetric.core.steps import TraceRow

LOGGER = logging.getLogger("sdpmetric")
HEAD = f"{'iter':>6} {'seconds':>7} {'objective':>14} {'lower bound':>14} {'gap':>8} {'level':>8} {'active':>7}"


class _StandardError(logging.Handler):
    """Standard error as it is when a line is written, which may have been replaced since."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line, unless the program has configured logging since."""
        if not logging.getLogger().handlers:
            sys.stderr.write(self.format(record) + "\n")


def say(text: str) -> None:
    """Log one line as information, to standard error unless the program has configured logging."""
    if not LOGGER.hasHandlers():
        LOGGER.addHandler(_StandardError())
    if LOGGER.level == logging.NOTSET:
        LOGGER.setLevel(logging.INFO)
    LOGGER.info(printable(text))


@dataclass(kw_only=True)
class Printer:
    """Write the progress of a solve, one line for each row of its trace that is due; what is unknown is left blank."""

    write: Callable[[str], None] = field(default=say, kw_only=False)
    interval: float = 0.5
    stream: bool = False
    _last: float = -math.inf
    _best: float = math.inf
    _bound: float = -math.inf

    def __call__(self, row: TraceRow) -> None:
        """Write one row, unless the last one is too fresh or neither objective nor bound is known."""
        self._best = row.objective if self.stream else min(self._best, row.objective)
        self._bound = row.lower_bound if self.stream else max(self._bound, row.lower_bound)
        gap = relative_gap(self._best, self._bound)
        blank = not (math.isfinite(row.objective) or math.isfinite(row.lower_bound))
        if blank or row.seconds - self._last < self.interval:
            return
        scored = not math.isnan(row.score)
        if self._last < 0:
            self.write(HEAD + (f" {'score':>7}" if scored else ""))
        self._last = row.seconds
        cells = (
            f"{row.iteration:6d}",
            f"{row.seconds:7.2f}",
            number_or_blank(row.objective, "14.8g"),
            number_or_blank(row.lower_bound, "14.8g"),
            f"{text.scientific(gap, 3):>8}" if math.isfinite(gap) else " " * 8,
            number_or_blank(row.step_size, "8.2e"),
            f"{row.n_active:7d}" if row.n_active or math.isfinite(row.objective) else "",
            *([number_or_blank(row.score, "7.4f")] if scored else []),
        )
        self.write(" ".join(cells).rstrip())

    def write_end(self, solution: Solution) -> None:
        self.write(str(solution))


def number_or_blank(value: float, form: str) -> str:
    """Return a number as text, or blanks of its width if it is infinite or NaN."""
    return format(value, form) if math.isfinite(value) else " " * int(form.split(".")[0])
