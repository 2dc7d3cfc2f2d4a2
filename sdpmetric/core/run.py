"""The one loop around every solver: budget, trace, best point, interruption, status, and the problem's certificate."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation
from sdpmetric.core.budget import Budget as Budget
from sdpmetric.core.certificate import Certificate, DualityCertificate, RelaxationCertificate, relative_gap
from sdpmetric.core.multipliers import Multipliers
from sdpmetric.core.printer import Printer
from sdpmetric.core.problem import Problem
from sdpmetric.core.recorder import Recorder
from sdpmetric.core.solution import Solution
from sdpmetric.core.status import Status
from sdpmetric.core.trace import Trace, TraceRow
from sdpmetric.engine import threads
from sdpmetric.engine.deadline import hurried
from sdpmetric.engine.interface import Threads, TooLittleMemory, using
from sdpmetric.triplets.limits import BudgetSpent as BudgetSpent
from sdpmetric.triplets.limits import deadline

Callback = Callable[[TraceRow], bool | None]
Score = Callable[[FloatArray], float]


@dataclass(frozen=True)
class Step:
    """What a solver reports after some of its iterations.

    Attributes
    ----------
    components : (r, d) array, or (c, r, d) for c metrics
        The point, in the data's own coordinates.
    objective : float
        Over all triplets, or infinity where the solver has not searched them all at this point.
    lower_bound : float
        As the solver watches it; -inf without evidence.
    dual : callable returning multipliers, or None
        The multipliers behind the lower bound, frozen at this step.
    certificate : Certificate or None
        The problem's certificate of this point with these multipliers, where the solver asked for it.
    step : float
        Step size or smoothing width.
    n_active : int
        Active triplets or pairs.
    extras : dict of str to float
        What only some solvers know.
    score : float
        Score on validation examples.
    status : Status or None
        How the solve ended, if it ends by itself after this step and the problem's certificate does not say.
    """

    components: FloatArray
    objective: float = math.inf
    lower_bound: float = -math.inf
    dual: Callable[[], Multipliers] | None = None
    certificate: Certificate | None = None
    step: float = math.nan
    n_active: int = 0
    extras: dict[str, float] = field(default_factory=dict)
    score: float = math.nan
    status: Status | None = None

    @classmethod
    def certified(
        cls,
        problem: Problem,
        components: FloatArray,
        dual: Multipliers | None = None,
        step: float = math.nan,
    ) -> Self:
        """A step with the problem's certificate of its point and multipliers.

        Parameters
        ----------
        problem : Problem
        components : (r, d) array, or (c, r, d) for c metrics
        dual : Dual or (p,) array, optional
        step : float
        """
        certificate = problem.certify(components, dual=dual)
        return cls(
            components,
            certificate.objective,
            certificate.lower_bound,
            None if dual is None else lambda: dual,
            certificate,
            step,
            certificate.n_active,
        )


@dataclass
class _Seen:
    """The best of the steps so far, by each measure, and why the solve ends."""

    status: Status | None
    best: Step | None = None
    bound: Step | None = None
    certified: Step | None = None
    """The best of those that have a certificate."""
    favourite: Step | None = None
    """The step with the best score, the latest of equals."""
    idle: int = 0
    """How many steps did not better that score."""

    @property
    def lower_bound(self) -> float:
        """The best one."""
        return -math.inf if self.bound is None else self.bound.lower_bound

    def take(self, step: Step, *, last: bool) -> Step:
        """Take a step, which `last` makes the best one whatever its objective; return the best one."""
        self.idle = self.idle + 1 if self.favourite is not None and not step.score > self.favourite.score else 0
        if self.favourite is None or not step.score < self.favourite.score:
            self.favourite = step
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
    callback: Callback | None = None,
    stream: bool = False,
    score: Score | None = None,
    patience: int | None = None,
    relaxed: bool = False,
    printer: Printer | None = None,
) -> Solution:
    """Run a solver until its own gap is small enough, the budget is spent, or it ends; then certify the best point."""
    check_tolerance(tol)
    check_calls(callback, score, patience)
    trace, passed = Trace(), Recorder()
    seen = _Seen(None if patience is None else Status.STOPPED_EARLY)

    def end() -> Solution:
        given = seen.best if patience is None or seen.favourite is None else seen.favourite
        best, (components, certificate, dual), status = _answer(problem, seen, given, budget, tol, stream)
        if relaxed and isinstance(certificate, DualityCertificate):
            certificate = RelaxationCertificate.of(certificate)
        if status is None or certificate.settles(tol):
            status = certificate.status(tol)
        solution = Solution(
            components=components,
            certificate=certificate,
            status=status,
            solver=solver,
            dual=dual,
            trace=trace,
            n_iter=budget.spent,
            seconds=budget.elapsed,
            problem=problem,
            extras=problem.beside(np.asarray(components, dtype=np.float64)) | best.extras,
            frames=tuple(passed.frames),
        )
        if printer is not None:
            printer.end(solution)
        return solution

    try:
        try:
            with threads.one_pool(), deadline(budget.ends, budget.last):
                for step in steps:
                    finite = bool(np.isfinite(step.components).all())
                    if not finite or math.isnan(step.objective) or math.isnan(step.lower_bound):
                        seen.status = Status.NUMERICAL_ERROR
                        break
                    if score is not None:
                        step = replace(step, score=float(score(step.components)))
                    best = seen.take(step, last=stream)
                    numbers = (step.objective, step.lower_bound, step.step, step.n_active)
                    rest = (step.extras.get("screened", math.nan), int(step.extras.get("mistakes", 0)), step.score)
                    row = TraceRow(budget.spent, budget.elapsed, *numbers, *rest)
                    passed.see(len(trace), step.components)
                    trace.rows.append(row)
                    if printer is not None:
                        printer(row)
                    seen.status = step.status or seen.status
                    if not stream and relative_gap(best.objective, seen.lower_bound) <= tol:
                        break
                    if step.certificate is not None and step.certificate.proves_optimal(tol):
                        break
                    if callback is not None and callback(row):
                        seen.status = Status.USER_LIMIT
                        break
                    if patience is not None and seen.idle >= patience:
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


def after(full: Solution, steps: Iterator[Step]) -> Iterator[Step]:
    """Steps that go on from another solve, only the first one where that was interrupted."""
    for step in steps:
        yield step
        if full.status is Status.INTERRUPTED:
            raise KeyboardInterrupt


def check_calls(callback: Callback | None, score: Score | None, patience: int | None = None) -> None:
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
