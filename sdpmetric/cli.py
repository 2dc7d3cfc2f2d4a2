"""The command line: ``sdpmetric demo``, ``solve``, ``compare`` and ``verify``.

Results go to standard output, progress and errors to standard error. The exit code is 0 if the asked gap was proven (of
a stream or a non-convex statement: if the solve ended as it should), 1 if it was not, 2 for bad input.
"""

from __future__ import annotations

import inspect
import json
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.markup import escape

from sdpmetric import datasets
from sdpmetric.core.certificate import Certificate, DualityCertificate
from sdpmetric.core.comparison import Comparison
from sdpmetric.core.comparison import compare as compare_solutions
from sdpmetric.core.printer import Printer, compilation_bar
from sdpmetric.core.problem import Labelled, Problem, statements
from sdpmetric.core.registry import find_solver, solvers_of
from sdpmetric.core.run import Budget, Callback, check_tolerance
from sdpmetric.core.solution import Solution
from sdpmetric.core.status import Status
from sdpmetric.core.trace import TraceRow
from sdpmetric.solve import solve as solve_problem
from sdpmetric.solve import verify as verify_point

Array = NDArray[np.generic]
Value = str | float | int | bool | None
NOT_PROVEN, BAD_INPUT = 1, 2
DEMO_COMPONENTS = 30
DEFAULT = "lmnn"

app = typer.Typer(
    help="Learn Mahalanobis metrics by convex optimization, with a proof of how far from optimal they can be.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help=f"{', '.join(datasets.NAMED)}; NAME.npz of the folder SDPMETRIC_DATA; openml:NAME; or a .csv file with a "
        "header; or an .npz file with X and y.",
    ),
]
Label = Annotated[str | None, typer.Option(help="Column of a CSV file that holds the labels.")]
StatementName = Annotated[str, typer.Option("--statement", help="What is stated about the data, see --help of solve.")]
Neighbors = Annotated[int | None, typer.Option(help="Target neighbors per example. Default: 3.")]
PushWeight = Annotated[float | None, typer.Option(help="mu in (1 - mu) pull + mu push, between 0 and 1. Default: 0.5.")]
Ridge = Annotated[float | None, typer.Option(help="Weight of trace(M). Default: 0.")]
LossName = Annotated[str | None, typer.Option(help="Loss of a triplet: hinge or squared_hinge. Default: hinge.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Any other parameter of the statement; may be repeated."),
]
Standardize = Annotated[
    bool | None, typer.Option("--standardize/--no-standardize", help="Default: standardize, unless --pca is given.")
]
Pca = Annotated[int | None, typer.Option(metavar="N", help="Reduce to N principal components, scaled to mean norm 4.")]
Tolerance = Annotated[float | None, typer.Option(help="Relative gap to prove. Default: that of the solver.")]
MaxTime = Annotated[float | None, typer.Option(help="Seconds at most, for each solver.")]
MaxIter = Annotated[int | None, typer.Option(help="Iterations at most, for each solver.")]
Seed = Annotated[int, typer.Option(help="Seed of the solvers that draw at random.")]


@app.command()
def demo(
    only: Annotated[list[str] | None, typer.Option(help="iris, wine or digits; may be repeated. Default: all.")] = None,
) -> None:
    """Solve iris, wine and digits with three solvers, set them side by side, and say what is proven."""
    chosen = only or ["iris", "wine", "digits"]
    with _input_errors():
        _check_names("data set", chosen, ("iris", "wine", "digits"))
    out, began, proven, tolerances = _out(), time.perf_counter(), True, {}
    for name in chosen:
        problem = _state(_Statement(), name, pca=DEMO_COMPONENTS if name == "digits" else None)
        out.print(f"[bold]{name}[/bold]: {problem.describe()}")
        with compilation_bar(f"{name}: compiling, on the first run only"):
            solve_problem(problem)  # not to be timed as solving
        tolerances = {entry.name: entry.tol for entry in solvers_of(problem)}
        comparison = _run_all(problem, name, tolerances, _Limits())
        out.print(comparison, "")
        proven = proven and _proves(comparison)
    if proven:
        asked = ", ".join(f"{solver} {tol:.0e}" for solver, tol in tolerances.items())
        out.print(
            f"Proven on {', '.join(chosen)} in {time.perf_counter() - began:.0f} s: every solver is within the "
            f"relative gap asked of it ({asked}), and no lower bound exceeds any objective."
        )
    else:
        out.print("Not everything was proven: see the statuses above.")
    _finish(proven)


@app.command()
def solve(
    data: Data,
    label: Label = None,
    statement: StatementName = DEFAULT,
    n_neighbors: Neighbors = None,
    push_weight: PushWeight = None,
    ridge: Ridge = None,
    loss: LossName = None,
    settings: Settings = None,
    standardize: Standardize = None,
    pca: Pca = None,
    solver: Annotated[str, typer.Option(help="By name; default: the statement's own.")] = "auto",
    tol: Tolerance = None,
    max_time: MaxTime = None,
    max_iter: MaxIter = None,
    seed: Seed = 0,
    output: Annotated[Path | None, typer.Option(help="Save the solution to this .npz file.")] = None,
) -> None:
    """Learn a metric from labelled data and prove how far from optimal it can be.

    Statements: lmnn, kernel-lmnn, multi-metric-lmnn, frobenius-lmnn, mmc, mcml, itml, rca, pola, lego, lego-batch, nca,
    frml. Their parameters are those of from_labels, for example --statement itml --set gamma=2.
    """
    with _input_errors():
        limits = _Limits(tol, max_time, max_iter, seed)
        if output is not None and not output.parent.is_dir():
            raise ValueError(f"there is no folder {output.parent} to save {output.name} in.")
        what = _Statement.of(statement, settings, n_neighbors, push_weight, ridge, loss)
        problem = _state(what, data, label, standardize, pca)
        entry = find_solver(problem, solver)
    out = _out()
    out.print(problem.describe())
    solution = _run(problem, f"{data}: {entry.name}", entry.name, limits)
    certificate = solution.certificate
    out.print(
        f"{entry.name}: {solution.status} after {solution.seconds:.2f} s; "
        f"metric of rank {solution.components.shape[-2]}, {certificate.n_active:,} active {certificate.constraints}."
    )
    out.print(_sentence(certificate, entry.tol if tol is None else tol))
    if not solution.status.expected:
        out.print(solution.status.advice)
    if output is not None:
        with _input_errors():
            solution.save(output)
        out.print(f"Saved to {output}.")
    _finish(solution.status.expected)


@app.command()
def compare(
    data: Data,
    label: Label = None,
    statement: StatementName = DEFAULT,
    n_neighbors: Neighbors = None,
    push_weight: PushWeight = None,
    ridge: Ridge = None,
    loss: LossName = None,
    settings: Settings = None,
    standardize: Standardize = None,
    pca: Pca = None,
    solvers: Annotated[str | None, typer.Option(help="Solvers, separated by commas. Default: all that prove.")] = None,
    tol: Tolerance = None,
    max_time: MaxTime = None,
    max_iter: MaxIter = None,
    seed: Seed = 0,
) -> None:
    """Solve with several solvers and set what each of them proves side by side."""
    with _input_errors():
        limits = _Limits(tol, max_time, max_iter, seed)
        what = _Statement.of(statement, settings, n_neighbors, push_weight, ridge, loss)
        problem = _state(what, data, label, standardize, pca)
        known = solvers_of(problem)
        named = [name.strip() for name in solvers.split(",")] if solvers else None
        names = named or [entry.name for entry in known if entry.stream == known[0].stream]
        _check_names("solver", names, tuple(entry.name for entry in known))
    out = _out()
    out.print(problem.describe())
    comparison = _run_all(problem, data, names, limits)
    out.print(comparison)
    _finish(_proves(comparison))


@app.command()
def verify(
    data: Data,
    metric: Annotated[
        Path, typer.Argument(metavar="METRIC", help="An .npz file with the array 'components' (L) or 'metric' (M).")
    ],
    label: Label = None,
    statement: StatementName = DEFAULT,
    n_neighbors: Neighbors = None,
    push_weight: PushWeight = None,
    ridge: Ridge = None,
    loss: LossName = None,
    settings: Settings = None,
    standardize: Standardize = None,
    pca: Pca = None,
    rescale: Annotated[bool, typer.Option("--rescale", help="Judge the best multiple of the metric instead.")] = False,
    tol: Annotated[float, typer.Option(help="Relative gap to prove.")] = 1e-3,
    max_time: MaxTime = None,
) -> None:
    """How far is this metric from optimal on this data? Proven, whoever learned it.

    The metric is judged in the coordinates of the prepared data: pass the options it was learned with.
    """
    with _input_errors():
        _Limits(tol, max_time)
        what = _Statement.of(statement, settings, n_neighbors, push_weight, ridge, loss)
        problem = _state(what, data, label, standardize, pca)
        components, matrix = _read_point(metric, problem)
    out = _out()
    out.print(problem.describe())
    with _input_errors(), _progress(f"{data}: proving a lower bound"):
        certificate = verify_point(problem, components, metric=matrix, rescale=rescale, tol=tol, max_time=max_time)
    out.print(str(certificate), _sentence(certificate, tol), sep="\n")
    _finish(certificate.proves_optimal(tol))


def main() -> None:
    """Run the command line."""
    app()


if __name__ == "__main__":
    main()


# -- reading ----------------------------------------------------------------------------------------------------------


@contextmanager
def _input_errors() -> Iterator[None]:
    """Turn what is wrong with the input into one sentence on standard error and the exit code 2."""
    try:
        yield
    except (ValueError, TypeError, OSError) as error:
        Console(stderr=True, soft_wrap=True, highlight=False).print(
            f"Error: {str(error).splitlines()[0]}", markup=False
        )
        raise typer.Exit(BAD_INPUT) from error


def _check_names(what: str, given: list[str], known: tuple[str, ...]) -> None:
    for name in given:
        if name not in known:
            raise ValueError(f"unknown {what} {name!r}; choose from {', '.join(known)}.")


@dataclass(frozen=True)
class _Limits:
    """What every solver is told alike."""

    tol: float | None = None
    max_time: float | None = None
    max_iter: int | None = None
    random_state: int = 0

    def __post_init__(self) -> None:
        Budget(self.max_time, self.max_iter)
        if self.tol is not None:
            check_tolerance(self.tol)


@dataclass(frozen=True)
class _Statement:
    """A statement by name, and the parameters that it is given."""

    name: str = DEFAULT
    parameters: tuple[tuple[str, Value], ...] = ()

    @classmethod
    def of(
        cls,
        name: str,
        settings: list[str] | None,
        n_neighbors: int | None,
        push_weight: float | None,
        ridge: float | None,
        loss: str | None,
    ) -> _Statement:
        """The parameters that were given, those of ``--set`` as JSON where they are JSON."""
        named = {"n_neighbors": n_neighbors, "push_weight": push_weight, "ridge": ridge, "loss": loss}
        given: dict[str, Value] = {key: value for key, value in named.items() if value is not None}
        for setting in settings or []:
            key, equals, value = setting.partition("=")
            if not equals or not key.isidentifier():
                raise ValueError(f"--set takes NAME=VALUE, got {setting!r}.")
            try:
                given[key] = json.loads(value)
            except json.JSONDecodeError:
                given[key] = value
        return cls(name, tuple(given.items()))

    def make(self, X: Array, y: Array) -> Problem:
        """State it for labelled data."""
        known = {name: kind for name, kind in statements().items() if issubclass(kind, Labelled)}
        _check_names("statement", [self.name], tuple(known))
        kind = known[self.name]
        takes = [name for name in inspect.signature(kind.from_labels).parameters if name not in ("X", "y")]
        foreign = [name for name, _ in self.parameters if name not in takes]
        if foreign:
            raise ValueError(
                f"statement {self.name!r} has no parameter {', '.join(foreign)}; it takes {', '.join(takes) or 'none'}."
            )
        return kind.from_labels(X, y, **dict(self.parameters))


def _state(
    what: _Statement,
    data: str,
    label: str | None = None,
    standardize: bool | None = None,
    pca: int | None = None,
) -> Problem:
    """Load, prepare, and state the problem."""
    X, y = datasets.load(data, label)
    if standardize or (standardize is None and pca is None):
        X = datasets.standardize(X)
    if pca is not None:
        X = datasets.reduce(X, pca)
    return what.make(X, y)


def _read_point(path: Path, problem: Problem) -> tuple[Array | None, Array | None]:
    """Components or metric from a file, whichever its key names; the other one is None."""
    arrays = datasets.read_npz(path)
    components, metric = arrays.get("components"), arrays.get("metric")
    if (components is None) == (metric is None):
        raise ValueError(
            f"{path} holds the arrays {', '.join(arrays) or '(none)'}; expected exactly one of 'components' (a factor "
            "L) and 'metric' (the matrix M), since a matrix is never guessed to be one or the other."
        )
    problem.check_point(components, metric)
    if "about" in arrays and json.loads(str(arrays["about"])).get("fingerprint") not in (None, problem.fingerprint()):
        Console(stderr=True, soft_wrap=True).print(
            f"Note: {path} was solved for other data or options than these; it is judged on these."
        )
    return components, metric


# -- solving ----------------------------------------------------------------------------------------------------------


def _run(problem: Problem, title: str, solver: str, limits: _Limits) -> Solution:
    with _progress(title) as callback:
        return solve_problem(problem, solver, callback=callback, **asdict(limits))


def _run_all(problem: Problem, title: str, solvers: Iterable[str], limits: _Limits) -> Comparison:
    """Solve with each solver in turn; after an interruption the rest is left out."""
    solutions: list[Solution] = []
    for solver in solvers:
        solutions.append(_run(problem, f"{title}: {solver}", solver, limits))
        if solutions[-1].status is Status.INTERRUPTED:
            break
    with _input_errors():
        return compare_solutions(*solutions)


@contextmanager
def _progress(title: str) -> Iterator[Callback]:
    """A live line on a terminal; elsewhere a line for the title and one a second; always on standard error."""
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        console.print(f"{title} ...", soft_wrap=True, markup=False)
        printer = Printer(console, interval=1.0)

        def line(row: TraceRow) -> None:
            if row.seconds >= 1.0:
                printer(row)

        yield line
        return
    with console.status(escape(title)) as status:

        def live(row: TraceRow) -> None:
            status.update(
                f"{escape(title)}: {row.seconds:.0f} s, iteration {row.iteration}, "
                f"objective {row.objective:.6g}, lower bound {row.lower_bound:.6g}"
            )

        yield live


# -- reporting --------------------------------------------------------------------------------------------------------


def _out() -> Console:
    """Standard output; wide enough for the table where it is not a terminal."""
    return Console(width=None if sys.stdout.isatty() else 120, highlight=False, soft_wrap=True)


def _sentence(certificate: Certificate, tol: float) -> str:
    if not isinstance(certificate, DualityCertificate):
        return f"{certificate}."
    between = f"the optimum lies between {certificate.lower_bound:.8g} and {certificate.objective:.8g}"
    gap = f"relative gap {certificate.relative_gap:.1e}"
    if certificate.proves_optimal(tol):
        return f"Proven: {between} ({gap}, asked {tol:.0e})."
    return f"Not proven to {tol:.0e}: {between} ({gap})."


def _proves(comparison: Comparison) -> bool:
    return comparison.consistent and all(solution.status.expected for solution in comparison.solutions)


def _finish(proven: bool) -> None:
    raise typer.Exit(0 if proven else NOT_PROVEN)
