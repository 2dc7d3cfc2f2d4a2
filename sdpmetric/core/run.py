"""The one loop around every solver: budget, trace, best point, interruption, status, and the problem's certificate."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation
from sdpmetric.core.certificate import (
    Certificate,
    Dual,
    DualityCertificate,
    Multipliers,
    RelaxationCertificate,
    relative_gap,
)
from sdpmetric.core.problem import Problem
from sdpmetric.core.solution import Solution
from sdpmetric.core.status import Status
from sdpmetric.core.trace import Frame, Trace, TraceRow
from sdpmetric.engine import threads
from sdpmetric.engine.interface import BudgetSpent as BudgetSpent
from sdpmetric.engine.interface import Threads, TooLittleMemory, deadline, hurried, using

# At most this many points are kept, and this many numbers in all.
MOST, NUMBERS = 16, 1 << 21


class Budget:
    """Time and iterations that a solve may take."""

    def __init__(self, max_time: float | None = None, max_iter: int | None = None) -> None:
        if max_time is not None and not validation.positive(max_time):
            raise ValueError(f"max_time must be positive or None (no limit), got {max_time!r}.")
        if max_iter is not None and not (validation.is_integer(max_iter) and max_iter > 0):
            raise ValueError(f"max_iter must be a positive integer or None (no limit), got {max_iter!r}.")
        self.max_time = math.inf if max_time is None else float(max_time)
        self.max_iter = math.inf if max_iter is None else int(max_iter)
        self.spent, self.reserve = 0, 0.0
        self._began = time.perf_counter()

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self._began

    @property
    def remaining(self) -> float:
        """Seconds left, possibly infinite."""
        return max(self.max_time - self.elapsed, 0.0)

    @property
    def ends(self) -> float:
        """When the steps have to end, on the clock of ``time.perf_counter``; possibly infinity."""
        return self._began + min(self.max_time, max(self.last - self._began - self.reserve, 0.0))

    @property
    def last(self) -> float:
        """When the certificate has to be there, on the same clock; the rest is for that of the zero metric."""
        return self._began + 1.1 * self.max_time + 0.5

    def spend(self, iterations: int = 1) -> None:
        """Count iterations."""
        if self.spent >= self.max_iter or time.perf_counter() >= self.ends:
            raise BudgetSpent
        self.spent += iterations

    def check_reserve(self) -> None:
        """Raise `BudgetSpent` where not even a quarter of the reserve, which is generous, is left for a certificate."""
        if time.perf_counter() + 0.25 * self.reserve > self.last:
            raise BudgetSpent


Callback = Callable[[TraceRow], bool | None]
Score = Callable[[FloatArray], float]


@dataclass(frozen=True)
class Step:
    """What a solver reports after some of its iterations; what it does not know is left out."""

    components: FloatArray  # (r, d), or (c, r, d) for c metrics: the point, in the data's own coordinates
    objective: float = math.inf  # infinity where the solver has not searched all triplets at this point
    lower_bound: float = -math.inf  # as the solver watches it
    dual: Callable[[], Multipliers] | None = None  # the multipliers behind the lower bound, frozen at this step
    certificate: Certificate | None = None  # the problem's, of this point, where the solver asked for it
    step: float = math.nan  # step size or smoothing width
    n_active: int = 0  # active triplets or pairs
    extras: dict[str, float] = field(default_factory=dict)  # what only some solvers know
    score: float = math.nan  # on validation examples
    status: Status | None = None  # how the solve ended, if it ends by itself here and the certificate does not say

    @classmethod
    def certified(
        cls,
        problem: Problem,
        components: FloatArray,
        dual: Multipliers | None = None,
        step: float = math.nan,
    ) -> Self:
        """A step with the problem's certificate of its point and multipliers, which must be finite."""
        given = [components, *([] if dual is None or isinstance(dual, Dual) else [dual])]
        if not all(np.isfinite(part).all() for part in given):
            raise OverflowError("components or multipliers are too large for floats")
        made = problem.certify(components, dual=dual)
        frozen = None if dual is None else lambda: dual
        return cls(components, made.objective, made.lower_bound, frozen, made, step, made.n_active)


# Sees each step and its row of the trace.
Watch = Callable[[Step, TraceRow], None]


@dataclass
class Recorder:
    """Keeps every first, second, fourth or so point: twice as sparse whenever there are too many."""

    frames: list[Frame] = field(default_factory=list)
    stride: int = 1
    seen: int = 0

    def see(self, components: NDArray[np.floating]) -> None:
        """Take note of the point of the next row."""
        row, self.seen = self.seen, self.seen + 1
        if row % self.stride:
            return
        self.frames.append(Frame(row, components))
        while len(self.frames) > 1 and (
            len(self.frames) > MOST or sum(frame.components.size for frame in self.frames) > NUMBERS
        ):
            self.stride *= 2
            self.frames = [frame for frame in self.frames if frame.row % self.stride == 0]


@dataclass
class EarlyStopping:
    """Ends a solve after `patience` steps without a better score; the answer is the best step, the latest of equals."""

    patience: int
    best: Step | None = None
    idle: int = 0

    def __call__(self, step: Step) -> bool:
        """See a step; whether the solve ends with it."""
        self.idle = 0 if self.best is None or step.score > self.best.score else self.idle + 1
        if self.best is None or not step.score < self.best.score:
            self.best = step
        return self.idle >= self.patience


@dataclass
class _Seen:
    """The best of the steps so far, by each measure, and why the solve ends."""

    status: Status | None = None
    best: Step | None = None
    bound: Step | None = None
    certified: Step | None = None  # the best of those that have a certificate

    def take(self, step: Step, *, last: bool) -> Step:
        """Take a step, which `last` makes the best one whatever its objective; return the best one."""
        if self.best is None or last or step.objective <= self.best.objective:  # the latest of equals
            self.best = step
        proven = step.lower_bound, step.certificate is not None  # of equal bounds, a certified one
        if self.bound is None or proven > (self.bound.lower_bound, self.bound.certificate is not None):
            self.bound = step
        if step.certificate is not None and (self.certified is None or step.objective <= self.certified.objective):
            self.certified = step
        return self.best


def run(
    problem: Problem,
    steps: Iterator[Step],
    budget: Budget,
    *,
    solver: str,
    tol: float,
    watches: Sequence[Watch] = (),
    callback: Callback | None = None,
    early: EarlyStopping | None = None,
    score: Score | None = None,
    stream: bool = False,
    relaxed: bool = False,
) -> Solution:
    """Run a solver until its own gap is small enough, the budget is spent, or it ends; then certify the best point."""
    check_tolerance(tol)
    trace, seen = Trace(), _Seen()

    def end() -> Solution:
        given = seen.best if early is None or early.best is None else early.best
        best, (components, certificate, dual), status = _answer(problem, seen, given, budget, tol, stream)
        if relaxed and isinstance(certificate, DualityCertificate):
            certificate = RelaxationCertificate.of(certificate)
        if status is None or certificate.settles(tol):
            status = certificate.status(tol)
        spent = budget.spent, budget.elapsed
        extras = problem.beside(np.asarray(components, dtype=np.float64)) | best.extras
        return Solution(components, certificate, status, solver, dual, trace, *spent, problem, extras)

    try:
        try:
            with threads.one_pool(), deadline(budget.ends, budget.last):
                seen.status = None if early is None else Status.STOPPED_EARLY
                for step in steps:
                    if _sees(step, seen, trace, budget, tol, stream, score, watches, callback, early):
                        break
        except TooLittleMemory:  # of a worker, before any work
            raise
        except (BudgetSpent, MemoryError):
            seen.status = Status.USER_LIMIT
        except (ArithmeticError, np.linalg.LinAlgError):  # numbers that are too large or too small for floats
            seen.status = Status.NUMERICAL_ERROR
        return end()
    except KeyboardInterrupt:  # a second one ends at once
        seen.status = Status.INTERRUPTED
        return end()


def _sees(
    step: Step,
    seen: _Seen,
    trace: Trace,
    budget: Budget,
    tol: float,
    stream: bool,
    score: Score | None,
    watches: Sequence[Watch],
    callback: Callback | None,
    early: EarlyStopping | None,
) -> bool:
    """Take a step into account and show it to those who watch; whether the solve ends with it."""
    finite = bool(np.isfinite(step.components).all())
    if not finite or math.isnan(step.objective) or math.isnan(step.lower_bound):
        seen.status = Status.NUMERICAL_ERROR
        return True
    if score is not None:
        step = replace(step, score=float(score(step.components)))
    best = seen.take(step, last=stream)
    numbers = (step.objective, step.lower_bound, step.step, step.n_active)
    row = TraceRow(budget.spent, budget.elapsed, *numbers, int(step.extras.get("mistakes", 0)), step.score)
    trace.rows.append(row)
    for watch in watches:
        watch(step, row)
    idle = early is not None and early(step)
    seen.status = step.status or seen.status
    if not stream and seen.bound is not None and relative_gap(best.objective, seen.bound.lower_bound) <= tol:
        return True
    if step.certificate is not None and step.certificate.proves_optimal(tol):
        return True
    if callback is not None and callback(row):
        seen.status = Status.USER_LIMIT
        return True
    return idle


def after(full: Solution, steps: Iterator[Step]) -> Iterator[Step]:
    """Steps that go on from another solve, only the first one where that was interrupted."""
    for step in steps:
        yield step
        if full.status is Status.INTERRUPTED:
            raise KeyboardInterrupt


def check_calls(callback: Callback | None, score: Score | None, patience: int | None) -> None:
    """Refuse a callback or a score that cannot be called, and a patience that is no count or has no score."""
    for name, given in (("callback", callback), ("score", score)):
        if given is not None and not callable(given):
            raise TypeError(f"{name} must be a function or None, got {given!r}.")
    whole = validation.is_integer(patience)
    if patience is not None and not (score is not None and whole and patience >= 1):
        raise ValueError(f"patience must be a positive number of steps, and needs score=, got {patience!r}.")


def check_tolerance(tol: float) -> None:
    """Refuse a tolerance that is not positive by a ValueError."""
    if not validation.positive(tol):
        raise ValueError(f"tol must be a positive relative gap, got {tol!r}.")


Certified = tuple[NDArray[np.floating], Certificate, Multipliers | None]


def _answer(
    problem: Problem, seen: _Seen, best: Step | None, budget: Budget, tol: float, stream: bool
) -> tuple[Step, Certified, Status | None]:
    """The step that is the answer, its certificate, and why the solve ended."""
    bound, status = seen.bound, seen.status
    if best is None or bound is None:
        best = bound = Step(problem.zero)
    if stream and best.certificate is not None:  # of the stream; only its learner knows it
        return best, (in_dtype(best.components, problem.X.dtype), best.certificate, None), status
    try:
        with threads.one_pool(), deadline(budget.last, budget.last):
            if best.certificate is None:
                budget.check_reserve()
            return best, _certified(problem, best, bound, tol), status
    except BudgetSpent:
        pass
    except MemoryError:
        status = Status.USER_LIMIT
    # A certified point needs no search, nor does the zero metric, and workers may still be at work on the last one.
    best = Step(problem.zero) if seen.certified is None else seen.certified
    with threads.one_pool(), using(Threads()), hurried():
        return best, _certified(problem, best, best, tol), status


def _certified(problem: Problem, best: Step, bound: Step, tol: float) -> Certified:
    """The certificate of the best point, in the data's dtype, with the best lower bound."""
    if best.certificate is not None and best.certificate.proves_optimal(tol):
        bound = best
    components = in_dtype(best.components, problem.X.dtype)
    dual = None if bound.dual is None else bound.dual()
    if best is bound and best.certificate is not None and components.dtype == best.components.dtype:
        certificate = best.certificate
    else:
        try:
            certificate = problem.certify(components, dual=dual)
        except (ArithmeticError, np.linalg.LinAlgError) as error:
            raise ValueError(
                f"the point found cannot be certified, as its numbers are too large or too small ({error}); scale the "
                "features, for example to [0, 1], and choose weights nearer to 1."
            ) from error
    for step in (best, bound):  # a bound that the problem proved at another point holds for this one too
        if step.certificate is not None and step.certificate.lower_bound > certificate.lower_bound:
            certificate = replace(certificate, lower_bound=step.certificate.lower_bound)
    if best.certificate is not None:  # what the solver's program was, and whose lower bound that is
        certificate = certificate.with_origin(best.certificate)
    return components, certificate, dual


def in_dtype(components: NDArray[np.floating], dtype: np.dtype[np.floating]) -> NDArray[np.floating]:
    """Components in a dtype, for example that of the data; an error where they are too large for it."""
    with np.errstate(over="ignore"):
        cast: NDArray[np.floating] = components.astype(dtype)
    if not np.isfinite(cast).all() and np.isfinite(components).all():
        raise ValueError(
            f"the metric is too large for {dtype} (components of {float(np.abs(components).max()):.3g}); scale the "
            "features, for example to [0, 1], or pass float64."
        )
    return cast
