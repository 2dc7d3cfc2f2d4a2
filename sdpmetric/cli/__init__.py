"""The command line: ``sdpmetric demo``, ``solve``, ``compare``, ``verify`` and ``check``.

Results go to standard output, progress and errors to standard error. The exit code is 0 if the asked gap was proven (of
a stream or a non-convex statement: if the solve ended as it should), 1 if it was not, 2 for bad input.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from sdpmetric import datasets
from sdpmetric.cli.inputs import DEFAULT, Limits, StatementChoice, check_names, input_errors, load_problem, read_point
from sdpmetric.cli.results import finish, progress, proves, run, run_all, sentence, standard_output
from sdpmetric.core.printer import compilation_bar
from sdpmetric.core.registry import find_solver, solvers_of
from sdpmetric.solve import solve as solve_problem
from sdpmetric.solve import verify as verify_point

DEMO_COMPONENTS = 30

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
    with input_errors():
        check_names("data set", chosen, ("iris", "wine", "digits"))
    out, began, proven, tolerances = standard_output(), time.perf_counter(), True, {}
    for name in chosen:
        problem = load_problem(StatementChoice(), name, pca=DEMO_COMPONENTS if name == "digits" else None)
        out.print(f"[bold]{name}[/bold]: {problem.describe()}")
        with compilation_bar(f"{name}: compiling, on the first run only"):
            solve_problem(problem)  # not to be timed as solving
        tolerances = {entry.name: entry.tol for entry in solvers_of(problem)}
        comparison = run_all(problem, name, tolerances, Limits())
        out.print(comparison, "")
        proven = proven and proves(comparison)
    if proven:
        asked = ", ".join(f"{solver} {tol:.0e}" for solver, tol in tolerances.items())
        out.print(
            f"Proven on {', '.join(chosen)} in {time.perf_counter() - began:.0f} s: every solver is within the "
            f"relative gap asked of it ({asked}), and no lower bound exceeds any objective."
        )
    else:
        out.print("Not everything was proven: see the statuses above.")
    finish(proven)


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
    with input_errors():
        limits = Limits(tol, max_time, max_iter, seed)
        if output is not None and not output.parent.is_dir():
            raise ValueError(f"there is no folder {output.parent} to save {output.name} in.")
        what = StatementChoice.of(statement, settings, n_neighbors, push_weight, ridge, loss)
        problem = load_problem(what, data, label, standardize, pca)
        entry = find_solver(problem, solver)
    out = standard_output()
    out.print(problem.describe())
    solution = run(problem, f"{data}: {entry.name}", entry.name, limits)
    certificate = solution.certificate
    out.print(
        f"{entry.name}: {solution.status} after {solution.seconds:.2f} s; "
        f"metric of rank {solution.components.shape[-2]}, {certificate.n_active:,} active {certificate.constraints}."
    )
    out.print(sentence(certificate, entry.tol if tol is None else tol))
    if not solution.status.expected:
        out.print(solution.status.advice)
    if output is not None:
        with input_errors():
            solution.save(output)
        out.print(f"Saved to {output}.")
    finish(solution.status.expected)


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
    with input_errors():
        limits = Limits(tol, max_time, max_iter, seed)
        what = StatementChoice.of(statement, settings, n_neighbors, push_weight, ridge, loss)
        problem = load_problem(what, data, label, standardize, pca)
        known = solvers_of(problem)
        named = [name.strip() for name in solvers.split(",")] if solvers else None
        names = named or [entry.name for entry in known if entry.stream == known[0].stream]
        check_names("solver", names, tuple(entry.name for entry in known))
    out = standard_output()
    out.print(problem.describe())
    comparison = run_all(problem, data, names, limits)
    out.print(comparison)
    finish(proves(comparison))


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
    with input_errors():
        Limits(tol, max_time)
        what = StatementChoice.of(statement, settings, n_neighbors, push_weight, ridge, loss)
        problem = load_problem(what, data, label, standardize, pca)
        components, matrix = read_point(metric, problem)
    out = standard_output()
    out.print(problem.describe())
    with input_errors(), progress(f"{data}: proving a lower bound"):
        certificate = verify_point(problem, components, metric=matrix, rescale=rescale, tol=tol, max_time=max_time)
    out.print(str(certificate), sentence(certificate, tol), sep="\n")
    finish(certificate.proves_optimal(tol))


@app.command()
def check(
    data: Annotated[str, typer.Argument(metavar="DATA", help="A .csv or .npz file: the numbers that were solved.")],
    proof: Annotated[str, typer.Argument(metavar="PROOF", help="A file of Solution.save_proof.")],
) -> None:
    """Check a proof file without the solvers: exit code 0 if proven, 1 if not, 2 for bad input."""
    from sdpmetric.check.__main__ import main as check_files  # needs the extra "check"

    code, text = check_files([data, proof])
    typer.echo(text)
    raise typer.Exit(code)


def main() -> None:
    """Run the command line."""
    app()
