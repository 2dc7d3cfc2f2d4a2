"""The options of the command line, in groups that several commands share. Nothing heavy is imported here."""

from __future__ import annotations

import inspect
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer
from rich.console import Console

if TYPE_CHECKING:
    from sdpmetric.core.problem import Labeled

NAMED = ("iris", "wine", "digits", "breast_cancer", "rings")
BAD_INPUT = 2
# The exit code of a shell: 128 and the number of the signal SIGINT.
INTERRUPTED = 130


def _data_sets(incomplete: str) -> list[str]:
    return [name for name in NAMED if name.startswith(incomplete)]


def _statements(incomplete: str) -> list[str]:
    return [name for name in labeled_statements() if name.startswith(incomplete)]


def labeled_statements(name: str = "") -> dict[str, type[Labeled]]:
    """Import public statements, LMNN first, up to that of a name, and return those that `from_labels` states."""
    import sdpmetric
    from sdpmetric.core.problem import Labeled, statements

    for public_name in ("LMNNProblem", *sdpmetric.__all__):
        if name in statements():
            break
        if public_name.endswith("Problem"):
            getattr(sdpmetric, public_name)
    return {name: kind for name, kind in statements().items() if issubclass(kind, Labeled)}


DATA_HELP = f"{', '.join(NAMED)}; a CSV file with a header; or an .npz file with X and y."
DATA = Annotated[str, typer.Argument(metavar="DATA", help=DATA_HELP, autocompletion=_data_sets)]
JSON = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]

_table = partial(typer.Option, rich_help_panel="Table")
_statement = partial(typer.Option, rich_help_panel="Problem")
_preparation = partial(typer.Option, rich_help_panel="Preparation")
_solver = partial(typer.Option, rich_help_panel="Solver")


@dataclass(frozen=True, kw_only=True)
class ProblemOptions:
    """Which columns are read, what problem is stated for them, and how they are prepared."""

    label: Annotated[str | None, _table(help="Column of a CSV file that holds the labels.")] = None
    columns: Annotated[
        list[str] | None, _table(metavar="A,B,..", help="Features, in this order. Default: all other columns.")
    ] = None
    drop: Annotated[list[str] | None, _table(metavar="A,B,..", help="Columns to leave out.")] = None
    delimiter: Annotated[
        str | None, _table(help="Between the cells of a CSV file: a character, or 'tab'. Default: detected.")
    ] = None
    decimal: Annotated[str, _table(help="Decimal point of a CSV file, . or ,")] = "."
    thousands: Annotated[str | None, _table(help="Mark between groups of three digits, for example a comma.")] = None
    skip_missing: Annotated[bool, _table("--skip-missing", help="Leave out rows with empty cells, NA, NaN or ?.")] = (
        False
    )
    statement: Annotated[
        str,
        _statement(
            help="Problem class: lmnn, itml, mmc, pola, nca and others; an unknown name lists all.",
            autocompletion=_statements,
        ),
    ] = "lmnn"
    n_neighbors: Annotated[int | None, _statement(help="Target neighbors per example. Default: 3.")] = None
    push_weight: Annotated[
        float | None, _statement(help="mu in (1 - mu) pull + mu push, between 0 and 1. Default: 0.5.")
    ] = None
    ridge: Annotated[
        str | None,
        _statement(
            metavar="NUMBER|auto",
            help="Weight of trace(M) in LMNN. Default: auto, as of the estimator; 0 is the paper's program.",
        ),
    ] = None
    loss: Annotated[str | None, _statement(help="Loss of a triplet: hinge or squared_hinge. Default: hinge.")] = None
    settings: Annotated[
        list[str] | None,
        _statement("--set", metavar="NAME=VALUE", help="Any other parameter of the problem class; may be repeated."),
    ] = None
    standardize: Annotated[
        bool | None, _preparation("--standardize/--no-standardize", help="Default: standardize, unless --pca is given.")
    ] = None
    pca: Annotated[
        int | None, _preparation(metavar="N", help="Reduce to N principal components, scaled to mean norm 4.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class SolverOptions:
    """How a problem is solved, and how long."""

    solver: Annotated[str, _solver(help="By name; default: that of the problem class.")] = "auto"
    tol: Annotated[float | None, _solver(help="Relative gap to prove. Default: that of the solver.")] = None
    max_time: Annotated[float | None, _solver(help="Most seconds for each solve; a certificate follows.")] = None
    max_iter: Annotated[int | None, _solver(help="Most iterations for each solve.")] = None
    seed: Annotated[int, _solver(help="Seed of the solvers that draw at random.")] = 0


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command an option for each field of the dataclasses that it takes, and guard its streams."""
    hints = get_type_hints(command, include_extras=True)
    groups = {name: kind for name, kind in hints.items() if kind in (ProblemOptions, SolverOptions)}
    parameters = [
        parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY)
        for name, parameter in inspect.signature(command).parameters.items()
        if name not in groups
    ]
    for group in groups.values():
        option_hints = get_type_hints(group, include_extras=True)
        parameters += [
            inspect.Parameter(
                option.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=option.default,
                annotation=option_hints[option.name],
            )
            for option in fields(group)
        ]

    def expanded(**options: object) -> None:
        built = {
            name: group(**{option.name: options.pop(option.name) for option in fields(group)})
            for name, group in groups.items()
        }
        with guarded():
            command(**options, **built)

    paragraphs = (inspect.getdoc(command) or "").split("\n\n")
    expanded.__name__ = command.__name__
    expanded.__doc__ = "\n\n".join(" ".join(lines.split()) for lines in paragraphs)
    expanded.__dict__["__signature__"] = inspect.Signature(parameters)
    expanded.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return expanded


class LineWriter(Console):
    """A console that leaves a broken pipe to `guarded`, and prints no control character but the end of a line."""

    def print(self, *objects: Any, **options: Any) -> None:  # noqa: ANN401 -- as in rich
        """Print text that may come from a file, or what rich draws itself, such as a line of progress."""
        from sdpmetric.core.files import printable

        lines = ["\n".join(map(printable, line.split("\n"))) if isinstance(line, str) else line for line in objects]
        super().print(*lines, **options)

    def on_broken_pipe(self) -> None:
        """Raise the error that is being handled again."""
        raise BrokenPipeError


def note(text: str) -> None:
    """Print text on standard error; it is lost if that cannot be written."""
    with suppress(OSError):
        console = LineWriter(stderr=True, highlight=False)
        console.print(text, markup=False, soft_wrap=not console.is_terminal)  # a terminal wraps between words


@contextmanager
def guarded() -> Iterator[None]:
    """End a command in one sentence if a stream or file cannot be written or memory is short; silently on a pipe."""
    if sys.stdout is None:
        note("Error: standard output is closed; send it to a file or to /dev/null.")
        raise typer.Exit(BAD_INPUT)
    outside = signal.getsignal(signal.SIGINT)
    try:
        with suppress(ValueError):  # of a thread that is not the main one
            signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            yield
        finally:
            with suppress(ValueError):
                signal.signal(signal.SIGINT, outside)
            sys.stdout.flush()
    except BrokenPipeError:
        _silence()
        raise typer.Exit(141) from None  # 128 and the number of SIGPIPE
    except KeyboardInterrupt:
        note("Interrupted.")
        raise typer.Exit(INTERRUPTED) from None
    except OSError as error:
        _silence()
        note(f"Error: {error if error.errno is None else f'standard output cannot be written: {error.strerror}.'}")
        raise typer.Exit(BAD_INPUT) from error
    except MemoryError as error:
        note("Error: the memory of this machine does not suffice; take fewer examples, or fewer features (--pca).")
        raise typer.Exit(BAD_INPUT) from error


def _silence() -> None:
    """Send to nowhere what is left to be written to standard output, which Python tries again when it ends."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
