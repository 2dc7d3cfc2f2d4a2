"""The trace of a solve: what a solver knew at each step that it reported."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import overload

import numpy as np

from sdpmetric.arrays import FloatArray
from sdpmetric.core import html

# Rows that a notebook shows at most.
SHOWN = 12


@dataclass(frozen=True)
class TraceRow:
    """One line of a trace; what a solver does not know is NaN.

    Attributes
    ----------
    iteration : int
    seconds : float
        Since the start of the solve.
    objective, lower_bound : float
        As the solver watches them; only the certificate proves anything.
    step_size : float
        Step size, or the smoothing width of the factored solver.
    n_active : int
        Active triplets.
    mistakes : int
        For a stream, whose objective is its cumulative loss: items predicted wrongly so far.
    score : float
        Score on validation examples, larger is better.

    Examples
    --------
    >>> import sdpmetric as sm
    >>> problem = sm.LMNNProblem.from_labels(*sm.datasets.load("iris"))
    >>> solution = sm.solve(problem)
    >>> row = solution.trace[-1]
    >>> row.lower_bound <= row.objective
    True
    """

    iteration: int
    seconds: float
    objective: float
    lower_bound: float
    step_size: float = float("nan")
    n_active: int = 0
    mistakes: int = 0
    score: float = float("nan")


@dataclass
class Trace:
    """The trace of a solve: rows by number, ``trace[-1]``, and columns by name, ``trace["objective"]``.

    Examples
    --------
    >>> import sdpmetric as sm
    >>> problem = sm.LMNNProblem.from_labels(*sm.datasets.load("iris"))
    >>> solution = sm.solve(problem)
    >>> solution.trace[-1].iteration == int(solution.trace["iteration"][-1])
    True
    """

    rows: list[TraceRow] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[TraceRow]:
        return iter(self.rows)

    def _repr_html_(self) -> str:
        names = [f.name for f in fields(TraceRow)]
        columns = [name for name in names if self.rows and np.isfinite(self[name]).any() and self[name].any()]
        shown = self.rows if len(self) <= SHOWN else [*self.rows[: SHOWN // 2], *self.rows[-(SHOWN // 2) :]]
        omitted = f", {len(self) - len(shown):,} in the middle left out" if len(shown) < len(self) else ""
        rows = [[getattr(row, name) for name in columns] for row in shown]
        return html.columns(f"{len(self):,} steps{omitted}", [name.replace("_", " ") for name in columns], rows)

    @overload
    def __getitem__(self, key: int) -> TraceRow: ...
    @overload
    def __getitem__(self, key: str) -> FloatArray: ...
    def __getitem__(self, key: int | str) -> TraceRow | FloatArray:
        if isinstance(key, str):
            return np.array([getattr(row, key) for row in self.rows], dtype=np.float64)
        return self.rows[key]
