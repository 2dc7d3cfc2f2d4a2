"""Solutions of one problem side by side, as a table for terminals and notebooks, and what they prove together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sdpmetric.core import text
from sdpmetric.core.certificate import AS_SAVED, absolute_gap
from sdpmetric.core.solution import Solution, check_solution
from sdpmetric.core.text import digits, scientific
from sdpmetric.linalg.rigorous.directed import RIGORS

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table


@dataclass(frozen=True)
class Comparison:
    """Solutions of one problem side by side; prints as a table, in terminals and notebooks.

    Attributes
    ----------
    solutions : tuple of Solution

    Examples
    --------
    >>> import sdpmetric as sm
    >>> problem = sm.LMNNProblem.from_labels(*sm.datasets.load("iris"))
    >>> solution = sm.solve(problem)
    >>> comparison = sm.compare(solution, sm.solve(problem, solver="conic"))
    >>> comparison.consistent, comparison.verdict[:6]
    (True, 'Proven')
    """

    solutions: tuple[Solution, ...]

    COLUMNS = ("solver", "status", "objective", "lower bound", "gap", "seconds", "active")

    @property
    def consistent(self) -> bool:
        """Whether every lower bound is at or below every objective; see `sdpmetric.core.certificate`."""
        lowest = min(s.objective for s in self.solutions)
        return all(s.lower_bound <= lowest or absolute_gap(lowest, s.lower_bound) == 0.0 for s in self.solutions)

    @property
    def verdict(self) -> str:
        """One sentence: what these solutions prove together."""
        best = min(self.solutions, key=lambda solution: solution.objective)
        lowest, highest = best.objective, max(s.lower_bound for s in self.solutions)
        if not self.consistent:
            return f"Contradiction: a lower bound of {highest:.10g} lies above an objective of {lowest:.10g}."
        weakest = max((s.certificate for s in self.solutions), key=lambda certificate: RIGORS.index(certificate.rigor))
        head = "Computed" if weakest.reservation else "Proven"
        head = AS_SAVED.capitalize() if any(s.certificate.as_saved for s in self.solutions) else head
        gap = replace(best.certificate, lower_bound=highest).gap_in_words(2)
        low, high = digits(highest, lowest)
        return (
            f"{head}: the optimum lies between {low} and {high} ({gap}); every lower bound is below every "
            f"objective{weakest.reservation}."
        )

    def rows(self) -> list[tuple[str, ...]]:
        """The cells of the table, a tuple for each solution."""
        return [
            (
                s.solver,
                str(s.status) if not s.certificate.as_saved else f"{s.status} (as saved)",
                *reversed(digits(s.lower_bound, s.objective)),
                scientific(s.relative_gap, 2),
                f"{s.seconds:.2f}",
                f"{s.certificate.n_active:,}",
            )
            for s in self.solutions
        ]

    @property
    def table(self) -> Table:
        """The table alone, narrow enough for 80 columns; no cell is folded or cut, however narrow the terminal is."""
        from rich.box import SIMPLE_HEAD
        from rich.table import Table

        table, rows = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0)), self.rows()
        for name, *cells in zip(self.COLUMNS, *rows, strict=True):
            is_text = name in ("solver", "status")
            table.add_column(name, justify="left" if is_text else "right", no_wrap=True, min_width=max(map(len, cells)))
        for row in rows:
            table.add_row(*row)
        return table

    def __rich__(self) -> Group:
        from rich.console import Group

        return Group(self.table, self.verdict)

    def __str__(self) -> str:
        from rich.console import Console

        console = Console(width=120, no_color=True, highlight=False)
        with console.capture() as capture:
            console.print(self.table)
        return "\n".join(line.rstrip() for line in capture.get().splitlines()) + f"\n{self.verdict}"

    def _repr_html_(self) -> str:
        return text.columns(self.verdict, self.COLUMNS, self.rows())


def compare(*solutions: Solution) -> Comparison:
    """Compare solutions of one problem, and say what they prove together.

    Parameters
    ----------
    *solutions : Solution
        At least one; all of the same problem.

    Returns
    -------
    comparison : Comparison
        Prints as a table; `verdict` is the sentence below it.

    See Also
    --------
    Comparison, solve, verify

    Examples
    --------
    >>> import sdpmetric as sm
    >>> problem = sm.LMNNProblem.from_labels(*sm.datasets.load("iris"))
    >>> solution = sm.solve(problem)
    >>> sm.compare(solution, sm.solve(problem, solver="conic")).consistent
    True
    """
    if not solutions:
        raise ValueError("compare needs at least one solution.")
    for solution in solutions:
        check_solution("compare", solution)
    prints = {s.problem.fingerprint() for s in solutions if s.problem is not None}
    if len(prints) > 1:
        raise ValueError("these solutions belong to different problems; compare solutions of one problem.")
    kinds = sorted({f"{s.certificate.program} ({s.certificate.kind})" for s in solutions})
    if len(kinds) > 1:
        raise ValueError(
            "these solutions are of different objectives or carry different kinds of certificates, so their "
            f"numbers do not compare: {', '.join(kinds)}."
        )
    return Comparison(solutions)
