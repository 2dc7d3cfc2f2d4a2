"""Solves from the command line: progress on standard error, results on standard output, and the exit code."""

from __future__ import annotations

import csv
import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import typer
from numba.core import event
from numpy.typing import NDArray
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn
from scipy.stats import binomtest
from sklearn.metrics import roc_auc_score

from sdpmetric.arrays import FloatArray
from sdpmetric.classification import knn_predict
from sdpmetric.cli.inputs import Stated, check_limits, check_output, input_errors, state
from sdpmetric.cli.options import LimitOptions, Lines, ProblemOptions, SolverOptions, note
from sdpmetric.core import rounding, validation
from sdpmetric.core.certificate import Certificate, DualityCertificate, relative_gap
from sdpmetric.core.comparison import Comparison
from sdpmetric.core.comparison import compare as compare_solutions
from sdpmetric.core.files import replacing, write_npz
from sdpmetric.core.pairs import pairs_of_labels
from sdpmetric.core.printer import Printer
from sdpmetric.core.problem import Problem
from sdpmetric.core.registry import solvers_to_try
from sdpmetric.core.run import solve as solve_problem
from sdpmetric.core.solution import Solution
from sdpmetric.core.status import Status
from sdpmetric.core.steps import Callback, Watch
from sdpmetric.core.trace import TraceRow
from sdpmetric.datasets.files import is_number
from sdpmetric.linalg.distances import distances
from sdpmetric.models import Model
from sdpmetric.report.scores import score


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

    def finish(self, proven: bool = True) -> None:
        if self.as_json:
            typer.echo(json.dumps(_finite(self.facts), indent=2))
        raise typer.Exit(0 if proven else 1)


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


def run(problem: Problem, title: str, solver: str, limits: LimitOptions, watch: Watch | None = None) -> Solution:
    tol = solvers_to_try(problem, solver)[0].tol if limits.tol is None else limits.tol
    with progress(title, tol) as callback:
        return solve_problem(
            problem,
            solver,
            callback=callback,
            watch=watch,
            tol=limits.tol,
            max_time=limits.max_time,
            max_iter=limits.max_iter,
            random_state=limits.seed,
        )


def solve(
    data: str,
    options: ProblemOptions,
    limits: SolverOptions,
    output: Path | None,
    out: Output,
    hold_out: bool = False,
    watch: Watch | None = None,
) -> tuple[Stated, Solution]:
    """State a problem and solve it, and say what is proven; `output` is a file that is to be written later."""
    with input_errors(data):
        check_limits(limits)
        if output is not None:
            check_output(output, data)
        stated = state(data, options, hold_out=hold_out)
        entry = solvers_to_try(stated.problem, limits.solver)[0]
    if stated.table.n_skipped:
        out.say(f"{stated.table.n_skipped:,} rows with empty cells are left out.")
    out.say(stated.problem.describe())
    solution = run(stated.problem, f"{data}: {entry.name}", limits.solver, limits, watch)
    certificate = solution.certificate
    out.say(
        f"{solution.solver}: {solution.status} after {solution.seconds:.2f} s; "
        f"metric of rank {solution.components.shape[-2]}, {certificate.n_active:,} active {certificate.constraints}."
    )
    out.judge(sentence(certificate, entry.tol if limits.tol is None else limits.tol), solution.status.expected)
    if not solution.status.expected:
        out.say(solution.advice)
    out.facts = {"problem": stated.problem.describe()} | solution_facts(solution)
    caution = stated.problem.caution(solution.components, certificate)
    if caution is not None:
        note("Warning: " + caution.replace("pass ridge='auto'", "--ridge auto"))
        out.facts["caution"] = caution
    return stated, solution


def run_all(problem: Problem, title: str, solvers: Iterable[str], limits: LimitOptions) -> Comparison:
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


def worth(stated: Stated) -> tuple[str, str]:
    """Accuracy on held-out examples, before and after, with the exact interval; and whether the metric helps."""
    problem, labels = stated.problem, stated.table.labels[stated.rows]
    L = solve_problem(problem).components
    held_scores = score(L, np.asarray(problem.X, dtype=np.float64), np.arange(len(labels)), labels, stated.held_out)
    (before, after), (low, high) = held_scores.correct, held_scores.intervals[1]
    n, interval = held_scores.n, f"(exact 95 % interval {low:.1%} to {high:.1%})"
    return f"{before / n:6.1%} before, {after / n:6.1%} after {interval}", held_scores.verdict


def proves(comparison: Comparison) -> bool:
    """Whether every solution ended as it should, and none contradicts another."""
    return comparison.consistent and all(solution.status.expected for solution in comparison.solutions)


Labels = NDArray[np.generic]


def scores(
    Z: FloatArray, y: Labels, n_neighbors: int, train: tuple[FloatArray, Labels] | None, seed: int
) -> dict[str, Any]:
    """Neighbors that vote for the right label, with an exact interval of their share beside other examples; the AUC."""
    predicted = knn_predict(np.eye(Z.shape[1]), *(train or (Z, y)), Z if train else None, n_neighbors)
    _, index = validation.check_labels(y, len(Z), n_classes=1)
    pairs, similar = pairs_of_labels(index, 10_000, seed)
    squared = distances(np.ascontiguousarray(Z), pairs[:, 0], pairs[:, 1])
    correct, both_kinds = int(np.count_nonzero(predicted == y)), bool(similar.any() and not similar.all())
    interval = list(binomtest(correct, len(y)).proportion_ci(method="exact")) if train else None
    auc = float(roc_auc_score(~similar, squared)) if both_kinds else None
    return {"accuracy": correct / len(y), "right": correct, "interval": interval, "auc": auc}


FORMATS = (".csv", ".npz", ".parquet")
# How a cell begins that a spreadsheet runs.
FORMULAS = ("=", "+", "-", "@", "\t", "\r")


def write(model: Model, Z: NDArray[np.float64], y: NDArray[np.generic] | None, path: Path | None) -> None:
    names = [f"{(model.statement or 'component').replace('-', '_')}{number}" for number in range(Z.shape[1])]
    label = None if y is None else model.label or "label"
    if path is None:
        _csv(sys.stdout, names, Z, label, y)
        return
    if path.suffix.lower() not in FORMATS:
        raise ValueError(f"{path} must end in one of {', '.join(FORMATS)}.")
    if path.suffix.lower() == ".csv":
        with replacing(path) as raw:
            text = TextIOWrapper(raw, "utf-8", newline="")
            _csv(text, names, Z, label, y)
            text.detach()
    elif path.suffix.lower() == ".npz":
        arrays: dict[str, NDArray[np.generic]] = {"X": Z, "feature_names": np.array(names)}
        write_npz(path, arrays if y is None else arrays | {"y": y})
    else:
        try:
            import pandas
        except ImportError as error:
            raise ImportError("Parquet files need pandas and pyarrow: pip install pandas pyarrow.") from error
        frame = pandas.DataFrame(Z, columns=names)
        with replacing(path) as raw:
            (frame if y is None else frame.assign(**{str(label): y})).to_parquet(raw, index=False)


def _csv(
    file: TextIO, names: list[str], Z: NDArray[np.float64], label: str | None, y: NDArray[np.generic] | None
) -> None:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(map(_inert, names if label is None else [*names, label]))
    for row, numbers in enumerate(Z.tolist()):
        writer.writerow(numbers if y is None else [*numbers, _inert(str(y[row]))])


def _inert(text: str) -> str:
    """Text that no spreadsheet takes for a formula: with an apostrophe in front, where it begins like one."""
    return text if not text.startswith(FORMULAS) or is_number(text) else f"'{text}"
