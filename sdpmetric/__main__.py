"""``python -m sdpmetric`` is ``sdpmetric``."""

from __future__ import annotations

import os
import signal
from types import FrameType


def _interrupt(number: int, frame: FrameType | None) -> None:
    os._exit(130)  # of a shell: 128 and the number of the signal


def main() -> None:
    """Run the command line; Ctrl-C ends it without a traceback, even while modules are imported."""
    signal.signal(signal.SIGINT, _interrupt)  # `guarded` takes it over while a command runs
    from sdpmetric.cli import main as run

    run()


if __name__ == "__main__":
    main()
