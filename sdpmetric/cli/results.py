"""Solves from the command line: progress on standard error, results on standard output, and the exit code."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import typer
from rich.markup import escape
from scipy.stats import binomtest

from sdpmetric.classification import knn_predict
from sdpmetric.cli.inputs import Stated
from sdpmetric.cli.options import INTERRUPTED, LineWriter, SolverOptions, note
from sdpmetric.core import text
from sdpmetric.core.certificate import Certificate, DualityCertificate, relative_gap
from sdpmetric.core.files import replacing
from sdpmetric.core.printer import Printer
from sdpmetric.core.problem import Problem
from sdpmetric.core.registry import solvers_to_try
from sdpmetric.core.run import solve as solve_problem
from sdpmetric.core.solution import Solution
from sdpmetric.core.status import Status
from sdpmetric.core.steps import Callback, TraceRow

NEIGHBORS = 3  # that vote
CHANCE = 0.05  # p value above which chance may explain a difference


class Output:
    """Standard output: text, or one JSON object of `facts`."""

    def __init__(self, as_json: bool = False) -> None:
        self.as_json = as_json
        self.facts: dict[str, object] = {}
        # A terminal wraps between words; elsewhere lines are whole, and the width is enough for tables.
        terminal = sys.stdout.isatty()
        self.console = LineWriter(width=None if terminal else 120, highlight=False, soft_wrap=not terminal)

    def say(self, *text: object, markup: bool = False) -> None:
        if not self.as_json:
            self.console.print(*text, sep="\n", markup=markup)

    def judge(self, text: str, proven: bool) -> None:
        """Print a verdict, with a green or a red mark if colors are on."""
        colored = self.console.color_system is not None and not self.console.no_color
        mark = f"[bold {'green]✓' if proven else 'red]✗'}[/] "
        self.say((mark if colored and not self.console.options.ascii_only else "") + escape(text), markup=True)

    def finish(self, proven: bool = True, *, interrupted: bool = False) -> None:
        """End the command with its exit code."""
        if self.as_json:
            typer.echo(json.dumps(_finite(self.facts), indent=2))
        raise typer.Exit(INTERRUPTED if interrupted else 0 if proven else 1)


def _finite(value: object) -> object:
    """Return a value with None in place of infinities and NaN, which JSON does not have."""
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


def tolerance(problem: Problem, limits: SolverOptions, solver: str | None = None) -> float:
    return solvers_to_try(problem, solver or limits.solver)[0].tol if limits.tol is None else limits.tol


def run(problem: Problem, title: str, limits: SolverOptions, solver: str | None = None) -> Solution:
    """Solve, and show progress."""
    with progress(title, tolerance(problem, limits, solver)) as callback:
        return solve_problem(
            problem,
            solver or limits.solver,
            callback=callback,
            tol=limits.tol,
            max_time=limits.max_time,
            max_iter=limits.max_iter,
            random_state=limits.seed,
        )


def run_through(problem: Problem, title: str, limits: SolverOptions, solver: str | None = None) -> Solution:
    """Solve as `run`; an interrupted solve ends the command."""
    solution = run(problem, title, limits, solver)
    if solution.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return solution


@contextmanager
def progress(title: str, tol: float) -> Iterator[Callback]:
    """Show seconds and gap on standard error, in a line that is drawn over, or a line a second if it is no terminal."""
    console = LineWriter(stderr=True, highlight=False)
    if not console.is_terminal:
        note(f"{title} ...")
        printer = Printer(note, interval=1.0)
        yield lambda row: printer(row) if row.seconds >= 1.0 else None
        return
    best, bound = math.inf, -math.inf
    with console.status(escape(title)) as status:

        def show(row: TraceRow) -> None:
            nonlocal best, bound
            best, bound = min(best, row.objective), max(bound, row.lower_bound)
            gap = relative_gap(best, bound)
            gap_sentence = f", gap {text.scientific(gap, 2)} of {tol:.0e}" if math.isfinite(gap) else ""
            status.update(escape(f"{title}: {row.seconds:.0f} s{gap_sentence}"))

        yield show


def sentence(certificate: Certificate, tol: float) -> str:
    """Return what is proven, in a sentence."""
    if not isinstance(certificate, DualityCertificate):
        return f"{certificate}."
    low, high = text.digits(certificate.lower_bound, certificate.objective)
    between = f"the optimum lies between {low} and {high}"
    gap, ending = certificate.gap_in_words(2), f"{certificate.reservation}."
    if certificate.proves_optimal(tol):
        return f"{'Computed' if certificate.reservation else 'Proven'}: {between} ({gap}, requested {tol:.0e}){ending}"
    return f"Not proven to {tol:.0e}: {between} ({gap}){ending}"


def draw(solution: Solution, stated: Stated, n_neighbors: int, path: Path) -> None:
    """Draw the examples before and after learning, without a window."""
    import matplotlib as mpl

    from sdpmetric.plotting import EmbeddingDisplay

    mpl.use("Agg")
    display = EmbeddingDisplay.from_solution(solution, stated.problem.X, stated.labels, n_neighbors=n_neighbors)
    with replacing(path) as file:
        display.figure_.savefig(file, format=path.suffix.lower().removeprefix("."))


@dataclass(frozen=True)
class Scores:
    """How many of n held-out examples nearest neighbors classify correctly without the metric and with it."""

    n: int
    before: int
    after: int
    gained: int  # right with the metric only
    broken: int  # right without the metric only

    @property
    def p(self) -> float:
        """The p value of the exact sign test of the examples that differ."""
        differ = self.gained + self.broken
        return float(binomtest(self.gained, differ).pvalue) if differ else 1.0

    @property
    def answer(self) -> str:
        """Yes, no, or that the examples do not tell."""
        if self.p < CHANCE:
            return "Yes, it helps" if self.gained > self.broken else "No, it hurts"
        return "No difference" if self.before == self.after else "Unclear"

    @property
    def verdict(self) -> str:
        """Whether the metric helps, with the evidence; if that is not clear, what it would have taken."""
        text = (
            f"{self.answer}: {NEIGHBORS} nearest neighbors classify {self.before:,} of {self.n:,} held-out examples "
            f"correctly without the metric ({self.before / self.n:.1%}) and {self.after:,} with it "
            f"({self.after / self.n:.1%}); exact sign test, p = {self.p:.2g}."
        )
        if self.p < CHANCE:
            return text
        n_wrong, done = self.n - self.before, f"it fixed {self.gained:,} and broke {self.broken:,}."
        fixes = range(self.broken + 1, n_wrong + 1)
        significant = next((k for k in fixes if binomtest(k, k + self.broken).pvalue < CHANCE), None)
        if significant is None:
            return f"{text} Without it {n_wrong:,} of {self.n:,} are wrong, too few for a significant gain; {done}"
        return f"{text} To be significant, the metric would have had to fix {significant:,} examples; {done}"

    def to_dict(self) -> dict[str, object]:
        counts = {"held_out": self.n, "correct_before": self.before, "correct_after": self.after}
        return counts | {"p": self.p, "verdict": self.verdict}


def held_out_scores(stated: Stated, limits: SolverOptions) -> Scores:
    """Learn from the examples that are not held out, and classify those that are by their nearest neighbors."""
    if stated.problem.zero.shape[1:] != stated.held_out_X.shape[1:]:
        raise ValueError("the metric is no single one of the features; cross-validate its estimator in Python.")
    solution = run_through(stated.problem, "held-out accuracy", limits)
    X, truth = np.asarray(stated.problem.X, dtype=np.float64), stated.other_labels
    was_right, is_right = (
        knn_predict(L, X, stated.labels, stated.held_out_X, NEIGHBORS) == truth
        for L in (np.eye(X.shape[1]), np.asarray(solution.components, dtype=np.float64))
    )
    gained, broken = int((is_right & ~was_right).sum()), int((was_right & ~is_right).sum())
    return Scores(len(truth), int(was_right.sum()), int(is_right.sum()), gained, broken)
