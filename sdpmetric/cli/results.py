"""Solves from the command line: progress on standard error, results on standard output, and the exit code."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import numpy as np
import typer
from numba.core import event
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

from sdpmetric.cli.inputs import Stated, input_errors
from sdpmetric.cli.options import INTERRUPTED, Lines, SolverOptions, note
from sdpmetric.cli.scores import Scores, score
from sdpmetric.core import rounding
from sdpmetric.core.certificate import Certificate, DualityCertificate, relative_gap
from sdpmetric.core.comparison import Comparison
from sdpmetric.core.comparison import compare as compare_solutions
from sdpmetric.core.printer import Printer
from sdpmetric.core.problem import Problem
from sdpmetric.core.registry import solvers_to_try
from sdpmetric.core.run import solve as solve_problem
from sdpmetric.core.solution import Solution
from sdpmetric.core.status import Status
from sdpmetric.core.steps import Callback
from sdpmetric.core.trace import TraceRow


class Output:
    def __init__(self, as_json: bool = False) -> None:
        self.as_json = as_json
        self.facts: dict[str, object] = {}
        # A terminal wraps between words; elsewhere lines are whole, and the width is enough for tables.
        terminal = sys.stdout.isatty()
        self.console = Lines(width=None if terminal else 120, highlight=False, soft_wrap=not terminal)

    def say(self, *text: object, markup: bool = False) -> None:
        if not self.as_json:
            self.console.print(*text, sep="\n", markup=markup)

    def judge(self, text: str, proven: bool) -> None:
        """Print a verdict, with a green or a red mark if colors are on."""
        colored = self.console.color_system is not None and not self.console.no_color
        if colored and not self.console.options.ascii_only:
            text = f"[bold {'green]✓' if proven else 'red]✗'}[/] {escape(text)}"
        else:
            text = escape(text)
        self.say(text, markup=True)

    def finish(self, proven: bool = True, *, interrupted: bool = False) -> None:
        if self.as_json:
            typer.echo(json.dumps(_finite(self.facts), indent=2))
        raise typer.Exit(INTERRUPTED if interrupted else 0 if proven else 1)


def _finite(value: object) -> object:
    """The same without infinities and NaN, which JSON does not have: None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    return [_finite(entry) for entry in value] if isinstance(value, list | tuple) else value


def facts_of(certificate: Certificate) -> dict[str, object]:
    return certificate.to_dict() | {"gap": certificate.gap, "relative_gap": certificate.relative_gap}


def solution_facts(solution: Solution) -> dict[str, object]:
    return {
        "solver": solution.solver,
        "status": solution.status.word,
        "seconds": solution.seconds,
        "iterations": solution.n_iter,
        "rank": solution.components.shape[-2],
        "extras": solution.extras,
        "certificate": facts_of(solution.certificate),
    }


def tolerance(problem: Problem, solver: str, limits: SolverOptions) -> float:
    return solvers_to_try(problem, solver)[0].tol if limits.tol is None else limits.tol


def run(problem: Problem, title: str, solver: str, limits: SolverOptions) -> Solution:
    with progress(title, tolerance(problem, solver, limits)) as callback:
        return solve_problem(
            problem,
            solver,
            callback=callback,
            tol=limits.tol,
            max_time=limits.max_time,
            max_iter=limits.max_iter,
            random_state=limits.seed,
        )


def run_all(problem: Problem, title: str, solvers: Iterable[str], limits: SolverOptions) -> Comparison:
    """Solve with each solver in turn; after an interruption the rest is left out."""
    solutions: list[Solution] = []
    for solver in solvers:
        solutions.append(run(problem, f"{title}: {solver}", solver, limits))
        if solutions[-1].status is Status.INTERRUPTED:
            break
    with input_errors():
        return compare_solutions(*solutions)


class Compiled(event.Listener):
    """Calls a function when a loop of this package has been compiled."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self.on_change = on_change

    def on_start(self, event: event.Event) -> None:
        """Nothing moves yet."""

    def on_end(self, event: event.Event) -> None:
        """Move, unless it was a function of numba's own that a loop is made of."""
        if event.data["dispatcher"].py_func.__module__.startswith("sdpmetric"):
            self.on_change()


@contextmanager
def progress(title: str, tol: float) -> Iterator[Callback]:
    """On standard error a bar that is full when the gap is `tol`; if there is no terminal, a line a second."""
    console = Lines(stderr=True, highlight=False)
    if not console.is_terminal:
        console.print(f"{title} ...", soft_wrap=True, markup=False)
        printer = Printer(note, interval=1.0)

        def line(row: TraceRow) -> None:
            if row.seconds >= 1.0:
                printer(row)

        yield line
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(20),
        TextColumn("{task.fields[now]}"),
    )
    best, bound, first = math.inf, -math.inf, math.nan
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(shortened(title, 28), total=None, now="")

        def live(row: TraceRow) -> None:
            nonlocal best, bound, first
            best, bound = min(best, row.objective), max(bound, row.lower_bound)
            gap, now = relative_gap(best, bound), f"{row.seconds:.0f} s"
            if not math.isfinite(gap):
                bar.update(task, now=now + (f", {best:.6g}" if math.isfinite(best) else ""))
                return
            first = gap if math.isnan(first) else first
            share = math.log(first / max(gap, tol)) / math.log(first / tol) if first > tol else 1.0
            bar.update(task, total=1.0, completed=share, now=f"{now}, gap {rounding.scientific(gap, 2)} of {tol:.0e}")

        with event.install_listener("numba:compile", Compiled(lambda: bar.update(task, now="compiling, once"))):
            yield live


def shortened(text: str, width: int) -> str:
    """Text with its middle left out where it is longer than a width."""
    return text if len(text) <= width else f"{text[: width // 2 - 1]}..{text[-(width - width // 2 - 1) :]}"


def sentence(certificate: Certificate, tol: float) -> str:
    """What is proven, in a sentence."""
    if not isinstance(certificate, DualityCertificate):
        return f"{certificate}."
    low, high = rounding.digits(certificate.lower_bound, certificate.objective)
    between = f"the optimum lies between {low} and {high}"
    gap, ending = certificate.gap_in_words(2), f"{certificate.reservation}."
    if certificate.proves_optimal(tol):
        return f"{'Computed' if certificate.reservation else 'Proven'}: {between} ({gap}, requested {tol:.0e}){ending}"
    return f"Not proven to {tol:.0e}: {between} ({gap}){ending}"


def held_out_scores(stated: Stated, limits: SolverOptions) -> Scores:
    """Learn from the examples that are not held out, and score nearest neighbors on those that are."""
    solution = run(stated.problem, "held-out accuracy", limits.solver, limits)
    X = np.asarray(stated.problem.X, dtype=np.float64)
    return score(solution.components, X, stated.labels, stated.held_out)


def proves(comparison: Comparison) -> bool:
    """Whether every solution ended as it should, and none contradicts another."""
    return comparison.consistent and all(solution.status.expected for solution in comparison.solutions)
