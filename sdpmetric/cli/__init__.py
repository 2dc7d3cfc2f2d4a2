"""The command line: metrics learned from tables, applied to others, and certified.

Results go to standard output, progress and errors to standard error. The exit code is 0 if the requested gap was proven
(for a stream or a non-convex problem: if the solve ended as it should), 1 if it was not, 2 for bad input. Commands
import what they need when they run, so help and completion are quick.
"""

from __future__ import annotations

import textwrap
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TextIO

import typer

from sdpmetric import __version__
from sdpmetric.cli.options import (
    BAD_INPUT,
    DATA,
    JSON,
    MODEL,
    Command,
    Group,
    LimitOptions,
    ProblemOptions,
    ProofOptions,
    SolverOptions,
    SolversOptions,
    TableOptions,
    note,
    with_options,
)

DEMO_SETS = ("rings", "iris", "wine", "digits")  # a learned metric helps on rings

app = typer.Typer(
    help="Learn Mahalanobis metrics by convex optimization, with a proof of how far from optimal they can be.",
    cls=Group,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def command(function: Callable[..., None]) -> Callable[..., None]:
    return app.command(cls=Command)(with_options(function))


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"sdpmetric {__version__}")
        raise typer.Exit


@app.callback()
def about(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Take the options of no command."""


@command
def solve(
    data: DATA,
    options: ProblemOptions,
    limits: SolverOptions,
    output: Annotated[
        Path | None, typer.Option(help="Save the model to this .npz file, for 'transform' and 'evaluate'.")
    ] = None,
    proof: Annotated[
        Path | None, typer.Option(help="Write what is proven to this .npz file, for 'sdpmetric check'.")
    ] = None,
    as_json: JSON = False,
) -> None:
    """Learn a metric from labeled data and prove how far from optimal it can be.

    Parameters of statements are those of from_labels, for example --statement itml --set gamma=2.
    """
    from sdpmetric.cli import inputs, results

    out = results.Output(as_json)
    stated, solution = results.solve(data, options, limits, output, out)
    out.say("Whether it helps is not known: no examples were held out. Score some by 'sdpmetric report' or 'evaluate'.")
    if output is not None:
        with inputs.input_errors(output):
            stated.model(solution).save(output)
        out.say(f"Saved to {output}.")
        out.facts["output"] = str(output)
    if proof is not None:
        with inputs.input_errors(proof):
            written = stated.write_proof(solution, data, proof)
        out.say(f"Wrote a proof to {proof}. Check it: sdpmetric check {written} {proof}")
        out.facts["proof"] = str(proof)
    out.finish(solution.status.expected)


@command
def transform(
    model: MODEL,
    data: DATA,
    table: TableOptions,
    output: Annotated[
        Path | None, typer.Option(help="A .csv, .npz or .parquet file; default: CSV on standard output.")
    ] = None,
) -> None:
    """Embed other data by a saved model, prepared as the training data were: Euclidean distances are learned ones.

    A table needs the columns that the model was learned from, by name, in any order; the labels are passed on if they
    are there.
    """
    from sdpmetric.cli import inputs, results

    with inputs.input_errors(model, data):
        if output is not None:
            inputs.check_output(output, data, model)
        learned = inputs.learned(model)
        loaded = inputs.load(data, inputs.columns_of(table, model=learned, labeled=False), learned)
        results.write(learned, learned.transform(loaded.X), loaded.y, output)


@command
def evaluate(
    model: MODEL,
    data: DATA,
    table: TableOptions,
    train: Annotated[
        str | None,
        typer.Option(metavar="DATA", help="Where neighbors are searched; default: among the others of DATA."),
    ] = None,
    n_neighbors: Annotated[int, typer.Option(help="Number of neighbors that vote.")] = 3,
    seed: Annotated[int, typer.Option(help="Seed of the pairs drawn for the ROC curve.")] = 0,
    as_json: JSON = False,
) -> None:
    """Score a saved model on labeled data, and the prepared features without it.

    Accuracy of the nearest neighbors, with its exact 95 % interval if they are searched in other data, and the area
    under the ROC curve of distances between pairs of one class and of two. On the data that the metric was learned from
    it prints neither.
    """
    from sdpmetric.cli import inputs, results

    out = results.Output(as_json)
    with inputs.input_errors(model, data):
        inputs.check_limits(LimitOptions(seed=seed))
        learned = inputs.learned(model)
        columns = inputs.columns_of(table, model=learned)
        test = inputs.load(data, columns, learned)
        base = None if train is None else inputs.load(train, columns, learned)
        facts = {}
        for name, embed in (("metric", learned.transform), ("euclidean", learned.prepare)):
            training = None if base is None else (embed(base.X), base.labels)
            facts[name] = results.scores(embed(test.X), test.labels, n_neighbors, training, seed)
        n_seen = inputs.learned_from(model, learned, test)
    n, among = len(test.X), "the others" if base is None else f"{len(base.X):,} examples of {train}"
    out.say(f"{data}: {n:,} examples, neighbors among {among}.")
    metric, euclidean = facts["metric"], facts["euclidean"]
    if n_seen:
        out.say(
            "The metric was learned from these examples: their accuracy says little about others. Pass labeled "
            f"examples that were held out, and --train {data}."
        )
        metric["interval"] = euclidean["interval"] = None
    else:
        exact = "" if base is None else ", exact 95 % interval {:.4f} to {:.4f}".format(*metric["interval"])
        out.say(
            f"{n_neighbors}-nearest-neighbor accuracy {metric['accuracy']:.4f} ({metric['right']:,} of {n:,}{exact}); "
            f"without the metric {euclidean['accuracy']:.4f} ({euclidean['right']:,})."
        )
        if metric["auc"] is not None:
            out.say(f"ROC area of pairs {metric['auc']:.4f}; without the metric {euclidean['auc']:.4f}.")
    out.facts = {
        "data": data,
        "examples": n,
        "train": train,
        "n_neighbors": n_neighbors,
        "training_data": n_seen,
    } | facts
    out.finish()


@command
def compare(data: DATA, options: ProblemOptions, limits: SolversOptions, as_json: JSON = False) -> None:
    """Solve with several solvers and set what each of them proves side by side."""
    from sdpmetric.cli import inputs, results
    from sdpmetric.core.registry import solvers_of

    with inputs.input_errors(data):
        inputs.check_limits(limits)
        problem = inputs.state(data, options).problem
        solvers = solvers_of(problem)
        named = [name.strip() for name in limits.solvers.split(",")] if limits.solvers else None
        names = named or [entry.name for entry in solvers if entry.stream == solvers[0].stream and not entry.relaxed]
        inputs.check_names("solver", names, tuple(entry.name for entry in solvers))
    out = results.Output(as_json)
    out.say(problem.describe())
    comparison = results.run_all(problem, data, names, limits)
    out.say(comparison.table)
    out.judge(comparison.verdict, results.proves(comparison))
    out.facts = {
        "problem": problem.describe(),
        "solutions": [results.solution_facts(solution) for solution in comparison.solutions],
        "consistent": comparison.consistent,
        "verdict": comparison.verdict,
    }
    out.finish(results.proves(comparison))


@command
def verify(
    data: DATA,
    metric: Annotated[
        Path,
        typer.Argument(
            metavar="METRIC",
            help="A model, or an .npz file with 'components' (L), 'metric' (M) or 'scalings' (L transposed).",
        ),
    ],
    options: ProblemOptions,
    proof: ProofOptions,
    key: Annotated[str | None, typer.Option(help="Name of the array in METRIC, if it has another one.")] = None,
    kind: Annotated[str | None, typer.Option(help="What it is: components, metric or scalings.")] = None,
    rescale: Annotated[
        bool, typer.Option("--rescale", help="Certify the best multiple of the metric instead.")
    ] = False,
    as_json: JSON = False,
) -> None:
    """How far is this metric from optimal on this data? A proven bound, for a metric from any source.

    The metric is one in the coordinates of the prepared data: pass the options it was learned with. A model brings
    its own.
    """
    from sdpmetric.cli import inputs, results
    from sdpmetric.core.verbs import verify as verify_point

    with inputs.input_errors(metric, data):
        point = inputs.read_point(metric, key, kind)
        problem = inputs.state(data, options, point.model).problem
        problem.check_point(point.components, point.metric)
    if point.fingerprint not in (None, problem.fingerprint()):
        note(f"Note: {metric} was solved for other data or options than these; it is certified on these.")
    out = results.Output(as_json)
    with inputs.input_errors(metric, data), results.progress(f"{data}: proving a bound", proof.tol):
        certificate = verify_point(
            problem,
            point.components,
            metric=point.metric,
            rescale=rescale,
            tol=proof.tol,
            max_time=proof.max_time,
        )
    out.say(problem.describe(), str(certificate))
    out.judge(results.sentence(certificate, proof.tol), certificate.proves_optimal(proof.tol))
    out.facts = {"problem": problem.describe(), "certificate": results.facts_of(certificate)}
    out.finish(certificate.proves_optimal(proof.tol))


@command
def report(
    data: DATA,
    page: Annotated[Path, typer.Argument(metavar="PAGE", help="The HTML file to write.")],
    options: ProblemOptions,
    limits: SolverOptions,
    everything: Annotated[
        bool, typer.Option("--everything", help="Learn from all examples; none is held out to score the metric.")
    ] = False,
) -> None:
    """Learn a metric and write a page for a browser: whether it helps, the examples moving, and what is proven.

    The metric is learned from 70 % of every class; nearest neighbors are scored on the others.
    """
    from sdpmetric.cli import inputs, results
    from sdpmetric.report import Recorder
    from sdpmetric.report import write as write_report

    out, recorder = results.Output(), Recorder()
    stated, solution = results.solve(data, options, limits, page, out, hold_out=not everything, watch=recorder)
    named = stated.table.features if len(stated.table.features) == stated.problem.X.shape[1] else None
    with inputs.input_errors(page):
        verdict = write_report(
            solution,
            page,
            stated.table.labels[stated.rows],
            title=Path(data).stem if Path(data).suffix else data,
            held_out=stated.held_out,
            feature_names=named if options.pca is None else None,
            example_names=[f"example {row}" for row in stated.rows],
            frames=recorder.frames,
        )
    out.say(verdict, f"Open {page} in a browser.")
    out.finish(solution.status.expected)


@command
def check(
    data: DATA,
    proof: Annotated[str, typer.Argument(metavar="PROOF", help="A file of Solution.save_proof.")],
) -> None:
    """Check a proof file without the solvers: exit code 0 if proven, 1 if not, 2 for bad input.

    DATA are the numbers that were solved: of a named data set as they are, neither standardized nor reduced.
    """
    try:
        from sdpmetric.check.__main__ import main as check_files
    except ImportError as error:
        note(f"Error: {error}")
        raise typer.Exit(BAD_INPUT) from error
    from sdpmetric.cli import inputs, results

    with inputs.input_errors(data), inputs.data_file(data) as file:
        code, text = check_files([file, proof])
        text = text.replace(file, data)
    if code == BAD_INPUT:
        note(text)
    else:
        results.Output().judge(text, code == 0)
    raise typer.Exit(code)


def lines(text: str) -> str:
    """Lines that fit into a terminal of 80 columns, a mark before them included."""
    return textwrap.fill(text, 78, break_long_words=False, break_on_hyphens=False)


@command
def demo(
    only: Annotated[
        list[str] | None, typer.Option(help="rings, iris, wine or digits; may be repeated. Default: all.")
    ] = None,
) -> None:
    """Solve rings, iris, wine and digits with three solvers, set them side by side, and say what is proven.

    In the end: what the metrics are worth on held-out examples, and what to type next.
    """
    from sdpmetric.cli import inputs, results
    from sdpmetric.core.registry import solvers_of

    chosen = only or list(DEMO_SETS)
    with inputs.input_errors():
        inputs.check_names("data set", chosen, DEMO_SETS)
    out, began, proven, tolerances = results.Output(), time.perf_counter(), True, {}
    worth, helps = list[str](), dict[str, list[str]]()
    for name in chosen:
        options = ProblemOptions(pca=30 if name == "digits" else None)
        problem = inputs.state(name, options).problem
        out.say(lines(f"{name}: {problem.describe()}").replace(name, f"[bold]{name}[/bold]", 1), markup=True)
        results.run(problem, f"{name}: first solve, which compiles on a new machine", "auto", LimitOptions())  # untimed
        tolerances = {entry.name: entry.tol for entry in solvers_of(problem) if not entry.relaxed}
        comparison = results.run_all(problem, name, tolerances, LimitOptions())
        out.say(comparison.table)
        out.judge(lines(comparison.verdict), results.proves(comparison))
        out.say("")
        accuracies, verdict = results.worth(inputs.state(name, options, hold_out=True))
        worth.append(f"  {name:7} {accuracies}")
        helps.setdefault(verdict.partition(":")[0], []).append(name)
        proven = proven and results.proves(comparison)
    out.say("Accuracy of 3 nearest neighbors, learned from 70 % and scored on the others:", *worth)
    answers = ". ".join(f"{answer}: {', '.join(names)}" for answer, names in helps.items())
    out.say(lines(f"Does the metric help, by the exact sign test? {answers}."), "")
    requested = ", ".join(f"{solver} {tol:.0e}" for solver, tol in tolerances.items())
    done = (
        f"Proven on {', '.join(chosen)} in {time.perf_counter() - began:.0f} s: every solver is within the requested "
        f"relative gap ({requested}), and no lower bound exceeds any objective."
    )
    out.judge(lines(done) if proven else "Not everything was proven: see the statuses above.", proven)
    out.say(
        "\nNext, with your own table:",
        "  sdpmetric report mine.csv mine.html --label COLUMN",
        "  sdpmetric solve mine.csv --label COLUMN --output model.npz",
    )
    out.finish(proven)


def _warn(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    from sdpmetric.core.files import printable

    typer.echo("Warning: " + "\n".join(map(printable, str(message).split("\n"))), err=True)


def main() -> None:
    """Run the command line; warnings are lines on standard error."""
    warnings.showwarning = _warn
    app()
