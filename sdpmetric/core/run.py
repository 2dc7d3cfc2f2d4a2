"""The one loop around every solver: budget, trace, best point, interruption, status, and the problem's certificate."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation
from sdpmetric.core.certificate import Certificate, DualityCertificate, RelaxationCertificate, relative_gap
from sdpmetric.core.multipliers import Multipliers
from sdpmetric.core.printer import Printer
from sdpmetric.core.problem import Extras, Problem
from sdpmetric.core.recorder import Recorder
from sdpmetric.core.solution import Solution
from sdpmetric.core.status import Status
from sdpmetric.core.trace import Trace, TraceRow
from sdpmetric.engine import threads
from sdpmetric.triplets.limits import BudgetSpent as BudgetSpent
from sdpmetric.triplets.limits import deadline

Callback = Callable[[TraceRow], bool | None]
Score = Callable[[FloatArray], float]


class Budget:
    """Time and iterations that a solve may take.

    Parameters
    ----------
    max_time : float or None
        Seconds; None: no limit.
    max_iter : int or None
        Iterations (evaluations of the objective and its gradient); None: no limit.

    Attributes
    ----------
    spent : int
        Iterations so far.
    reserve : float
        Seconds that the certificate is expected to take. A solve ends early enough for it to be made within 1.2 times
        the time limit and a second.
    """

    def __init__(self, max_time: float | None = None, max_iter: int | None = None) -> None:
        for name, limit in (("max_time", max_time), ("max_iter", max_iter)):
            if limit is not None and not validation.positive(limit):
                raise ValueError(f"{name} must be positive or None (no limit), got {limit!r}.")
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
        """Count iterations.

        Raises
        ------
        BudgetSpent
            If the time is over or the iterations are used up.
        """
        if self.spent >= self.max_iter or time.perf_counter() >= self.ends:
            raise BudgetSpent
        self.spent += iterations

    def check_reserve(self) -> None:
        """Raise `BudgetSpent` where not even a quarter of the reserve, which is generous, is left for a certificate."""
        if time.perf_counter() + 0.25 * self.reserve > self.last:
            raise BudgetSpent


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
    extras : Extras
        What only some statements or solvers know.
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
    extras: Extras = field(default_factory=Extras)
    score: float = math.nan
    status: Status | None = None

    @classmethod
    def certified(
        cls,
        problem: Problem,
        components: FloatArray,
        dual: Multipliers | None = None,
        extras: Extras | None = None,
        step: float = math.nan,
    ) -> Self:
        """A step with the problem's certificate of its point and multipliers.

        Parameters
        ----------
        problem : Problem
        components : (r, d) array, or (c, r, d) for c metrics
        dual : Dual or (p,) array, optional
        extras, step
            As in the attributes.
        """
        rest = Extras() if extras is None else extras
        certificate = problem.certify_with(rest, components, dual=dual)
        return cls(
            components,
            certificate.objective,
            certificate.lower_bound,
            None if dual is None else lambda: dual,
            certificate,
            step,
            certificate.n_active,
            rest,
        )


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
    """Run a solver until its own gap is small enough, the budget is spent, or it ends; then certify the best point.

    Parameters
    ----------
    problem : Problem
    steps : iterator of Step
        The solver; it ends when it can do no more. Its first step must come before anything expensive.
    budget : Budget
        Shared with the solver, which spends it.
    solver : str
        Name for the solution.
    tol : float
        Relative gap to prove.
    callback : callable, optional
        Called with each `TraceRow`; returning True stops the solve.
    stream : bool, default False
        Whether the steps follow a stream: the last one is the answer, with the certificate that it carries.
    score : callable, optional
        Of components, larger is better; written into the trace for each step.
    patience : int, optional
        Early stopping: the answer is the step with the best score, the latest of equals, and the solve ends after so
        many steps without a better one.
    relaxed : bool, default False
        Whether the steps obey a bound on the rank, of which the problem is the relaxation.
    printer : Printer, optional
        Writes each row that is due, and how the solve ended.
    """
    check_tolerance(tol)
    check_patience(patience, score)
    trace, passed = Trace(), Recorder()
    best: Step | None = None
    bound: Step | None = None
    certified: Step | None = None  # the best of those that have a certificate
    favourite, idle = None, 0  # the step with the best score, and how many did not better it
    status = None if patience is None else Status.STOPPED_EARLY
    try:
        with threads.one_pool(), deadline(budget.ends):
            for step in steps:
                if not np.isfinite(step.components).all() or math.isnan(step.objective) or math.isnan(step.lower_bound):
                    status = Status.NUMERICAL_ERROR
                    break
                if score is not None:
                    step = replace(step, score=float(score(step.components)))
                    idle = idle + 1 if favourite is not None and not step.score > favourite.score else 0
                    favourite = step if favourite is None or not step.score < favourite.score else favourite
                if best is None or stream or step.objective <= best.objective:  # the latest of equals
                    best = step
                proven = step.lower_bound, step.certificate is not None  # of equal bounds, a certified one
                if bound is None or proven > (bound.lower_bound, bound.certificate is not None):
                    bound = step
                if step.certificate is not None and (certified is None or step.objective <= certified.objective):
                    certified = step
                seen = (step.objective, step.lower_bound, step.step, step.n_active)
                rest = (step.extras.get("screened", math.nan), step.extras.get("mistakes", 0), step.score)
                row = TraceRow(budget.spent, budget.elapsed, *seen, *rest)
                passed.see(len(trace), step.components)
                trace.rows.append(row)
                if printer is not None:
                    printer(row)
                status = step.status or status
                if not stream and relative_gap(best.objective, bound.lower_bound) <= tol:
                    break
                if step.certificate is not None and step.certificate.proves_optimal(tol):
                    break
                if callback is not None and callback(row):
                    status = Status.USER_LIMIT
                    break
                if patience is not None and idle >= patience:
                    break
    except BudgetSpent:
        status = Status.USER_LIMIT
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
    except (ArithmeticError, np.linalg.LinAlgError):  # numbers that are too large or too small for floats
        status = Status.NUMERICAL_ERROR
    if patience is not None and favourite is not None:
        best = favourite
    if best is None or bound is None:
        best = bound = Step(problem.zero)
    if stream and best.certificate is not None:  # of the stream; only its learner knows it
        components, certificate, dual = in_dtype(best.components, problem.X.dtype), best.certificate, None
    else:
        try:
            with threads.one_pool(), deadline(budget.last):
                if best.certificate is None:
                    budget.check_reserve()
                components, certificate, dual = _certified(problem, best, bound, tol)
        except BudgetSpent:  # a certified point needs no search, nor does the zero metric
            best = bound = Step(problem.zero) if certified is None else certified
            components, certificate, dual = _certified(problem, best, bound, tol)
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
        extras=best.extras,
        frames=tuple(passed.frames),
    )
    if printer is not None:
        printer.end(solution)
    return solution


def check_tolerance(tol: float) -> None:
    """Refuse a tolerance that is not positive by a ValueError."""
    if not validation.positive(tol):
        raise ValueError(f"tol must be a positive relative gap, got {tol!r}.")


def check_patience(patience: int | None, score: Score | None) -> None:
    """Refuse a patience that is not a positive integer, or without a score, by a ValueError."""
    whole = validation.is_integer(patience)
    if patience is not None and not (score is not None and whole and patience >= 1):
        raise ValueError(f"patience must be a positive number of steps, and needs score=, got {patience!r}.")


def _certified(
    problem: Problem, best: Step, bound: Step, tol: float
) -> tuple[NDArray[np.floating], Certificate, Multipliers | None]:
    """The certificate of the best point, in the data's dtype, with the best lower bound."""
    if best.certificate is not None and best.certificate.proves_optimal(tol):
        bound = best
    components = in_dtype(best.components, problem.X.dtype)
    dual = None if bound.dual is None else bound.dual()
    if best is bound and best.certificate is not None and components.dtype == best.components.dtype:
        certificate = best.certificate
    else:
        try:
            certificate = problem.certify_with(best.extras, components, dual=dual)
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
