"""The command line: metrics learned from tables, scored, drawn and certified.

Results go to standard output, progress and errors to standard error. The exit code is 0 if the requested gap was proven
(for a stream or a non-convex problem: if the solve ended as it should), 1 if it was not, 2 for bad input. Commands
import what they need when they run, so help and completion are quick.
"""

from __future__ import annotations

import io
import shlex
import sys
import textwrap
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from sdpmetric import __version__
from sdpmetric.cli.options import BAD_INPUT, DATA, JSON, ProblemOptions, SolverOptions, note, with_options

DEMO_SETS = ("rings", "iris", "wine", "digits")  # a learned metric helps on rings

app = typer.Typer(
    help="Learn Mahalanobis metrics by convex optimization, with a proof of how far from optimal they can be.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def command(function: Callable[..., None]) -> Callable[..., None]:
    return app.command()(with_options(function))


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"sdpmetric {__version__}")
        raise typer.Exit


@app.callback()
def options_of_all(
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
        Path | None, typer.Option(help="Save the solution to this .npz file, for 'verify' and Solution.load.")
    ] = None,
    proof: Annotated[
        Path | None,
        typer.Option(help="Write a proof to this .npz file, and its data beside it, for 'sdpmetric check'."),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the examples before and after learning to this .png, .svg or .pdf file.")
    ] = None,
    score: Annotated[
        bool, typer.Option("--score/--no-score", help="Learn a second metric, and score it on held-out examples.")
    ] = True,
    as_json: JSON = False,
) -> None:
    """Learn a metric from labeled data, prove how far from optimal it can be, and say whether it helps.

    The metric is learned from all examples. A second metric, learned from 70 % of every class, is scored on the rest.
    Parameters of statements are those of from_labels, for example --statement itml --set gamma=2.
    """
    from sdpmetric.cli import inputs, results
    from sdpmetric.core.status import Status

    out, n_neighbors = results.Output(as_json), options.n_neighbors or 3
    outputs = {"--output": output, "--proof": proof, "--plot": plot}
    if proof is not None:
        outputs["the data of --proof,"] = inputs.data_beside(proof)
    with inputs.input_errors(data):
        inputs.check_limits(limits)
        inputs.check_outputs(Path(data), {option: path for option, path in outputs.items() if path is not None})
        if plot is not None:
            inputs.check_picture(plot)
        table = inputs.load(data, options)
        stated = inputs.state(table, options)
        problem, tol = stated.problem, results.tolerance(stated.problem, limits)
        if proof is not None:
            inputs.check_proof(proof, problem)
        if plot is not None:
            pictured = inputs.pictured_neighbors(stated, n_neighbors)
    out.say(*table.remarks, problem.describe())
    with inputs.input_errors(data):
        solution = results.run(problem, f"{data}: solving", limits)
    certificate = solution.certificate
    out.say(
        f"{solution.solver}: {solution.status} after {solution.seconds:.2f} s; "
        f"metric of rank {solution.components.shape[-2]}, {certificate.n_active:,} active {certificate.constraints}."
    )
    out.judge(results.sentence(certificate, tol), solution.status.expected)
    if not solution.status.expected:
        out.say(solution.advice)
    out.facts = {"problem": problem.describe()} | results.solution_facts(solution)
    if (caution := problem.caution(solution.components, certificate)) is not None:
        note("Warning: " + caution.replace("pass ridge='auto'", "--ridge auto"))
        out.facts["caution"] = caution
    if output is not None:
        with inputs.input_errors(output):
            solution.save(output)
        out.say(f"Saved the solution to {output}.")
        out.facts["output"] = str(output)
    if proof is not None:
        with inputs.input_errors(proof):
            beside = inputs.write_proof(solution, proof)
        paths = [f"./{path}" if str(path).startswith("-") else str(path) for path in (beside, proof)]
        words = shlex.join(["sdpmetric", "check", *paths])
        out.say(f"Wrote a proof to {proof} and its data to {beside}. Check it:", f"  {words}")
        out.facts |= {"proof": str(proof), "proof_data": str(beside)}
    if plot is not None:
        with inputs.input_errors(plot):
            results.draw(solution, stated, pictured, plot)
        out.say(f"Drew the examples before and after to {plot}.")
        out.facts["plot"] = str(plot)
    interrupted = solution.status is Status.INTERRUPTED
    if score and not interrupted:
        try:
            parted = inputs.state(table, options, inputs.held_out(table.y, n_neighbors))
            scores = results.held_out_scores(parted, limits)
        except (ValueError, ArithmeticError) as error:
            out.say(f"Not scored: {error}")
        else:
            out.say(scores.verdict)
            out.facts["scores"] = scores.to_dict()
    out.finish(solution.status.expected, interrupted=interrupted)


@command
def verify(
    data: DATA,
    metric: Annotated[
        Path, typer.Argument(metavar="METRIC", help="An .npz file with the array 'components' (L) or 'metric' (M).")
    ],
    options: ProblemOptions,
    rescale: Annotated[
        bool, typer.Option("--rescale", help="Certify the best multiple of the metric instead.")
    ] = False,
    tol: Annotated[float, typer.Option(help="Relative gap to prove.")] = 1e-3,
    as_json: JSON = False,
) -> None:
    """Prove how far a metric from any source is from optimal on this data.

    The metric is one in the coordinates of the prepared data: pass the options it was learned with.
    """
    from sdpmetric.cli import inputs, results
    from sdpmetric.core.verbs import verify as verify_point

    with inputs.input_errors(metric, data):
        components, matrix, fingerprint = inputs.read_metric(metric)
        table = inputs.load(data, options)
        problem = inputs.state(table, options).problem
        problem.check_point(components, matrix)
    if fingerprint not in (None, problem.fingerprint()):
        note(f"Note: {metric} was solved for other data or options than these; it is certified on these.")
    out = results.Output(as_json)
    with inputs.input_errors(metric, data), results.progress(f"{data}: proving a bound", tol):
        certificate = verify_point(problem, components, metric=matrix, rescale=rescale, tol=tol)
    out.say(*table.remarks, problem.describe(), str(certificate))
    out.judge(results.sentence(certificate, tol), certificate.proves_optimal(tol))
    out.facts = {"problem": problem.describe(), "certificate": results.facts_of(certificate)}
    out.finish(certificate.proves_optimal(tol))


@command
def check(
    data: Annotated[str, typer.Argument(metavar="DATA", help="The .npz file of the data that the proof is about.")],
    proof: Annotated[str, typer.Argument(metavar="PROOF", help="A file of 'solve --proof' or Solution.save_proof.")],
) -> None:
    """Check a proof file without the solvers: exit code 0 if proven, 1 if not, 2 for bad input."""
    from sdpmetric.check.__main__ import main as check_files
    from sdpmetric.cli import results

    code, text = check_files([data, proof])
    if code == BAD_INPUT:
        note(text)
    else:
        results.Output().judge(text, code == 0)
    raise typer.Exit(code)


def _filled(text: str) -> str:
    """Return lines that fit into a terminal of 80 columns, a mark before them included."""
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
    from sdpmetric.core.validation import check_choice
    from sdpmetric.core.verbs import compare

    chosen, limits = only or list(DEMO_SETS), SolverOptions()
    with inputs.input_errors():
        for name in chosen:
            check_choice("--only", name, DEMO_SETS)
    out, began, proven, tolerances = results.Output(), time.perf_counter(), True, {}
    worth, helps = list[str](), dict[str, list[str]]()
    for name in chosen:
        options = ProblemOptions(pca=30 if name == "digits" else None)
        table = inputs.load(name, options)
        problem = inputs.state(table, options).problem
        out.say(_filled(f"{name}: {problem.describe()}").replace(name, f"[bold]{name}[/bold]", 1), markup=True)
        tolerances = {entry.name: entry.tol for entry in solvers_of(problem) if not entry.relaxed}
        # The first solve is not timed: it compiles the loops on a new machine.
        titles = {"auto": f"{name}: first solve, which compiles on a new machine"}
        titles |= {solver: f"{name}: {solver}" for solver in tolerances}
        solutions = [results.run_through(problem, title, limits, solver) for solver, title in titles.items()]
        comparison = compare(*solutions[1:])
        is_proven = comparison.consistent and all(solution.status.expected for solution in comparison.solutions)
        out.say(comparison.table)
        out.judge(_filled(comparison.verdict), is_proven)
        out.say("")
        parted = inputs.state(table, options, inputs.held_out(table.y, 3))
        scores = results.held_out_scores(parted, limits)
        worth.append(f"  {name:7}{scores.before / scores.n:6.1%} before, {scores.after / scores.n:6.1%} after")
        helps.setdefault(scores.answer, []).append(name)
        proven = proven and is_proven
    out.say("Accuracy of 3 nearest neighbors, learned from 70 % and scored on the others:", *worth)
    answers = ". ".join(f"{answer}: {', '.join(names)}" for answer, names in helps.items())
    out.say(_filled(f"Does the metric help, by the exact sign test? {answers}."), "")
    requested = ", ".join(f"{solver} {tol:.0e}" for solver, tol in tolerances.items())
    done = (
        f"Proven on {', '.join(chosen)} in {time.perf_counter() - began:.0f} s: every solver is within the requested "
        f"relative gap ({requested}), and no lower bound exceeds any objective."
    )
    out.judge(_filled(done) if proven else "Not everything was proven: see the statuses above.", proven)
    out.say("\nNext, with your own table:", "  sdpmetric solve mine.csv --label COLUMN --plot before_after.png")
    out.finish(proven)


def _warn(message: Warning | str, *_: object, **__: object) -> None:
    note(f"Warning: {message}")


def main() -> None:
    """Run the command line; warnings are lines on standard error."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # of letters that a terminal lacks
    warnings.showwarning = _warn
    app()
