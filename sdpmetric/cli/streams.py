"""The standard streams of a command: lines on standard error, and what happens where a stream cannot be written."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import typer
from rich.console import Console

BAD_INPUT = 2
# What a shell says of a program that a closed pipe has ended: 128 and the number of SIGPIPE.
BROKEN_PIPE = 141


class Lines(Console):
    """A console that leaves a broken pipe to `guarded`."""

    def on_broken_pipe(self) -> None:
        """Raise the error that is being handled again."""
        raise BrokenPipeError


@contextmanager
def guarded() -> Iterator[None]:
    """End a command in one sentence where a stream or file cannot be written or memory is short; silently on a pipe."""
    if sys.stdout is None:
        note("Error: standard output is closed; send it to a file or to /dev/null.")
        raise typer.Exit(BAD_INPUT)
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        _silence()
        raise typer.Exit(BROKEN_PIPE) from None
    except OSError as error:
        _silence()
        note(f"Error: {error if error.errno is None else f'standard output cannot be written: {error.strerror}.'}")
        raise typer.Exit(BAD_INPUT) from error
    except MemoryError as error:
        note("Error: the memory of this machine does not suffice; take fewer examples, or fewer features (--pca).")
        raise typer.Exit(BAD_INPUT) from error


def note(text: str) -> None:
    """A line on standard error, where it can be written."""
    with suppress(OSError):
        Lines(stderr=True, soft_wrap=True, highlight=False).print(text, markup=False)


def _silence() -> None:
    """Send to nowhere what is left to be written to standard output, which Python tries again when it ends."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
