"""The budget that a solver is given, the steps that it yields, and their trace."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields
from typing import Self, overload

import numpy as np

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation
from sdpmetric.core.certificate import Certificate, Dual, Multipliers, relative_gap
from sdpmetric.core.problem import Problem
from sdpmetric.core.status import Status
from sdpmetric.core.text import Printed, aligned
from sdpmetric.engine.threads import BudgetSpent, check_deadline, deadline
from sdpmetric.linalg.search import Stop


class Budget:
    """Time and iterations that a solve may take."""

    def __init__(self, max_time: float | None = None, max_iter: int | None = None) -> None:
        self.max_time = math.inf if max_time is None else validation.check_limit("max_time", max_time, "number or None")
        self.max_iter = math.inf if max_iter is None else validation.check_integer("max_iter", max_iter)
        self.spent = 0
        self.began = time.perf_counter()

    @property
    def elapsed(self) -> float:
        return time.perf_counter() - self.began

    @property
    def remaining(self) -> float:
        """Seconds left, possibly infinite."""
        return max(self.max_time - self.elapsed, 0.0)

    @property
    def deadline(self) -> float:
        """When the steps have to end, on the clock of ``time.perf_counter``; possibly infinity."""
        return self.began + self.max_time

    def spend(self, iterations: int = 1) -> None:
        """Count iterations; raise `BudgetSpent` if there are none left, or no time."""
        if self.spent >= self.max_iter:
            raise BudgetSpent
        check_deadline()
        self.spent += iterations


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
        For a stream, with its cumulative loss as objective: items predicted wrongly so far.
    score : float
        Score on validation examples, larger is better.
    stop : Stop
        Why a round of the solver ended at this step: ``stalled``, for example.
    """

    iteration: int
    seconds: float
    objective: float
    lower_bound: float
    step_size: float = float("nan")
    n_active: int = 0
    mistakes: int = 0
    score: float = float("nan")
    stop: Stop = Stop.NONE

    def cells(self, names: Iterable[str]) -> list[object]:
        """Return the values of some columns; a reason to stop in words."""
        return [str(self.stop) if name == "stop" else getattr(self, name) for name in names]


@dataclass
class Trace(Printed):
    """The trace of a solve: rows by number, ``trace[-1]``, and columns by name, ``trace["objective"]``.

    It prints as a table of what the solver knew.
    """

    rows: list[TraceRow] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[TraceRow]:
        return iter(self.rows)

    def __str__(self) -> str:
        names = [f.name for f in fields(TraceRow)]
        columns = [name for name in names if self.rows and np.isfinite(self[name]).any() and self[name].any()]
        return aligned([name.replace("_", " ") for name in columns], [row.cells(columns) for row in self])

    @overload
    def __getitem__(self, key: int) -> TraceRow: ...
    @overload
    def __getitem__(self, key: str) -> FloatArray: ...
    def __getitem__(self, key: int | str) -> TraceRow | FloatArray:
        if isinstance(key, str):
            return np.array([getattr(row, key) for row in self.rows], dtype=np.float64)
        return self.rows[key]


Callback = Callable[[TraceRow], bool | None]
Score = Callable[[FloatArray], float]


@dataclass(frozen=True, kw_only=True)
class Step:
    """The report of a solver after some iterations: a point, with bounds of the optimum as far as it has them.

    Attributes
    ----------
    components : (r, d) array, or (c, r, d) for c metrics
        The point, in the data's own coordinates.
    objective, lower_bound : float
        Bounds of the optimum, as the solver computes them. The infinite defaults are the trivial bounds: of a point
        that was not evaluated, or without a known lower bound.
    multipliers : callable or None
        Returns the multipliers behind `lower_bound`, as they are at this step.
    certificate : Certificate or None
        The problem's own, of this point, if the solver asked for it.
    step_size, n_active : float and int
        For the trace: step size or smoothing width, and active triplets or pairs.
    score : float
        On validation examples; NaN without them.
    extras : dict of str to float
        For `Solution.extras`, if only this solver knows them.
    status : Status or None
        How the solve ended, if it ends by itself here and the certificate does not say it.
    stop : Stop
        Why a round of the solver ended here.
    """

    components: FloatArray = field(kw_only=False)
    objective: float = math.inf
    lower_bound: float = -math.inf
    multipliers: Callable[[], Multipliers] | None = None
    certificate: Certificate | None = None
    step_size: float = math.nan
    n_active: int = 0
    score: float = math.nan
    extras: dict[str, float] = field(default_factory=dict)
    status: Status | None = None
    stop: Stop = Stop.NONE

    def settles(self, tol: float) -> bool:
        """Return whether there is a certificate that decides about the point."""
        return self.certificate is not None and self.certificate.settles(tol)

    @classmethod
    def certified(cls, problem: Problem, components: FloatArray, multipliers: Multipliers | None = None) -> Self:
        """Return a step with the problem's certificate of its point and multipliers, which must be finite."""
        arrays = [components] if multipliers is None or isinstance(multipliers, Dual) else [components, multipliers]
        if not all(np.isfinite(array).all() for array in arrays):
            raise OverflowError("components or multipliers are too large for floats")
        return cls.of_certificate(components, problem.certify(components, dual=multipliers), multipliers)

    @classmethod
    def of_certificate(
        cls, components: FloatArray, certificate: Certificate, multipliers: Multipliers | None = None
    ) -> Self:
        """Make a step with the bounds of a certificate of its point."""
        return cls(
            components,
            objective=certificate.objective,
            lower_bound=certificate.lower_bound,
            multipliers=None if multipliers is None else lambda: multipliers,
            certificate=certificate,
            n_active=certificate.n_active,
        )


def within(steps: Iterator[Step], budget: Budget) -> Iterator[Step]:
    """Yield the steps up to a deadline that comes before that of the solve."""
    try:
        while True:
            with deadline(budget.deadline):
                step = next(steps)
            yield step
    except (BudgetSpent, StopIteration):
        return


def until_closed(steps: Iterator[Step], tol: float) -> Iterator[tuple[Step, Step]]:
    """Yield the best point so far and the step with the best bound, until the two close the gap."""
    best = bound = None
    for step in steps:
        best = step if best is None or step.objective <= best.objective else best
        bound = step if bound is None or step.lower_bound > bound.lower_bound else bound
        yield best, bound
        if relative_gap(best.objective, bound.lower_bound) <= tol:
            return
