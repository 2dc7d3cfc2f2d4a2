"""The one loop around every solver: budget, trace, best point, interruption, status, and the problem's certificate."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from sdpmetric.core import validation
from sdpmetric.core.certificate import (
    Certificate,
    DualityCertificate,
    Multipliers,
    RelaxationCertificate,
    relative_gap,
)
from sdpmetric.core.problem import Problem
from sdpmetric.core.solution import Solution
from sdpmetric.core.status import Status
from sdpmetric.core.steps import Budget, Callback, Score, Step, Watch
from sdpmetric.core.trace import Trace, TraceRow
from sdpmetric.engine import threads
from sdpmetric.engine.interface import BudgetSpent, Threads, TooLittleMemory, deadline, hurried, using
from sdpmetric.linalg.distances import mean_squared_distance


@dataclass
class EarlyStopping:
    """Ends a solve after `patience` steps without a better score; the answer is the best step, the latest of equals."""

    patience: int
    best: Step | None = None
    steps_without_progress: int = 0

    def __call__(self, step: Step) -> bool:
        """See a step; whether the solve ends with it."""
        improves = self.best is None or step.score > self.best.score
        self.steps_without_progress = 0 if improves else self.steps_without_progress + 1
        if self.best is None or not step.score < self.best.score:
            self.best = step
        return self.steps_without_progress >= self.patience


@dataclass
class Run:
    """One solve as it goes on: ``Run(problem, budget, tol).over(steps)`` is its solution.

    Each step is taken into account by `take`, which says whether the solve ends with it; `finish` certifies the best
    point. Both hold after any interruption.

    Attributes
    ----------
    problem, budget, tol
        What is solved, within which limits, and to which relative gap.
    watches, callback, score, early_stopping
        Who sees the steps: see `sdpmetric.solve`.
    stream : bool
        Whether the last step is the answer, as for a stream, and not the best.
    relaxed : bool
        Whether the steps bound another, larger set, whose lower bound is then that of a relaxation.
    rank : int or None
        The largest rank of the answer; None: any.
    best : Step or None
        Of the smallest objective; of a stream, the last.
    tightest : Step or None
        Of the largest lower bound.
    best_certified : Step or None
        Of the smallest objective among those with a certificate.
    """

    problem: Problem
    budget: Budget
    tol: float
    watches: Sequence[Watch] = ()
    callback: Callback | None = None
    score: Score | None = None
    early_stopping: EarlyStopping | None = None
    stream: bool = False
    relaxed: bool = False
    rank: int | None = None
    trace: Trace = field(default_factory=Trace, init=False)
    status: Status | None = field(default=None, init=False)
    best: Step | None = field(default=None, init=False)
    tightest: Step | None = field(default=None, init=False)
    best_certified: Step | None = field(default=None, init=False)

    def over(self, steps: Iterable[Step]) -> Solution:
        """Take steps until the gap is closed, the budget is spent, or they end; then certify the best point."""
        self.status = None if self.early_stopping is None else Status.STOPPED_EARLY
        try:
            try:
                with threads.one_pool(), deadline(self.budget.deadline, self.budget.last):
                    for step in steps:
                        if self.take(step):
                            break
            except TooLittleMemory:  # of a worker, before any work
                raise
            except (BudgetSpent, MemoryError):
                self.status = Status.USER_LIMIT
            except (ArithmeticError, np.linalg.LinAlgError):  # numbers that are too large or too small for floats
                self.status = Status.NUMERICAL_ERROR
            return self.finish()
        except KeyboardInterrupt:  # a second one ends at once
            self.status = Status.INTERRUPTED
            return self.finish()

    def take(self, step: Step) -> bool:
        """Take a step into account and show it to those who watch; whether the solve ends with it."""
        finite = bool(np.isfinite(step.components).all())
        if not finite or math.isnan(step.objective) or math.isnan(step.lower_bound):
            self.status = Status.NUMERICAL_ERROR
            return True
        if self.score is not None:
            step = replace(step, score=float(self.score(step.components)))
        self._rank(step)
        row = TraceRow(
            iteration=self.budget.spent,
            seconds=self.budget.elapsed,
            objective=step.objective,
            lower_bound=step.lower_bound,
            step_size=step.step_size,
            n_active=step.n_active,
            mistakes=int(step.extras.get("mistakes", 0)),
            score=step.score,
        )
        self.trace.rows.append(row)
        for watch in self.watches:
            watch(step, row)
        out_of_patience = self.early_stopping is not None and self.early_stopping(step)
        self.status = step.status or self.status
        if not self.stream and self._gap() <= self.tol:
            return True
        if step.certificate is not None and step.certificate.proves_optimal(self.tol):
            return True
        if self.callback is not None and self.callback(row):
            self.status = Status.USER_LIMIT
            return True
        return out_of_patience

    def _rank(self, step: Step) -> None:
        """Keep the step where it is the best by a measure: the latest of equals, a certified one before others."""
        if self.best is None or self.stream or step.objective <= self.best.objective:
            self.best = step

        def evidence(step: Step) -> tuple[float, bool]:
            return step.lower_bound, step.certificate is not None

        if self.tightest is None or evidence(step) > evidence(self.tightest):
            self.tightest = step
        certified = self.best_certified
        if step.certificate is not None and (certified is None or step.objective <= certified.objective):
            self.best_certified = step

    def _gap(self) -> float:
        if self.best is None or self.tightest is None:
            return math.inf
        return relative_gap(self.best.objective, self.tightest.lower_bound)

    def finish(self) -> Solution:
        """The best point with its certificate, in the data's dtype, and the status."""
        self.problem.check_unchanged()
        best, (components, certificate, multipliers) = self._answer()
        if self.relaxed and best.certificate is None and isinstance(certificate, DualityCertificate):
            certificate = RelaxationCertificate.of(certificate)
        status = self.status
        if status is None or certificate.settles(self.tol):
            status = certificate.status(self.tol)
        return Solution(
            components=components,
            certificate=certificate,
            status=status,
            solver="",
            dual=multipliers,
            trace=self.trace,
            n_iter=self.budget.spent,
            seconds=self.budget.elapsed,
            problem=self.problem,
            extras=self.problem.beside(np.asarray(components, dtype=np.float64)) | best.extras,
        )

    def _answer(self) -> tuple[Step, Certified]:
        """The step that is the answer, and its certificate; where time or memory is short, of a certified step."""
        best, tightest, budget = self.best, self.tightest, self.budget
        if self.early_stopping is not None and self.early_stopping.best is not None:
            best = self.early_stopping.best
        start = Step(self.problem.start)
        if best is None or (best.objective == math.inf and start.components.any() and not best.components.any()):
            best = start
        if self.status is Status.USER_LIMIT and not best.components.any() and not self.stream:
            best = self.best_certified = self._start_or_identity() or best
        if tightest is None:
            tightest = best
        if self.stream and best.certificate is not None:  # of the stream; only its learner knows it
            return best, (in_dtype(best.components, self.problem.X.dtype), best.certificate, None)
        try:
            with threads.one_pool(), deadline(budget.last, budget.last):
                if best.certificate is None:
                    budget.check_reserve()
                return best, _certified(self.problem, best, tightest, self.tol)
        except BudgetSpent:
            pass
        except MemoryError:
            self.status = Status.USER_LIMIT
        # A certified point needs no search, nor does the start, and workers may be busy with the last search.
        best = start if self.best_certified is None else self.best_certified
        with threads.one_pool(), using(Threads()), hurried():
            return best, _certified(self.problem, best, best, self.tol)

    def _start_or_identity(self) -> Step | None:
        """The start, or the identity by the mean squared distance; None where that is infinite or takes long."""
        (n, d), shape, start = self.problem.X.shape, self.problem.zero.shape, self.problem.start
        # Products of two rows' entries, over all pairs: 0.01 s of a search, about 1 s of divergences.
        if not start.any() and n * n * d > 1e8:
            return None
        try:
            last = self.budget.last
            with threads.one_pool(), using(Threads()), hurried(), deadline(last, last):
                if not start.any():
                    X = np.asarray(self.problem.X, dtype=np.float64)
                    rank = shape[-1] if self.rank is None else self.rank
                    features = np.sort(np.argsort(-np.ptp(X, axis=0), kind="stable")[:rank])  # all, or the widest
                    identity = np.eye(shape[-1])[features]
                    spread = mean_squared_distance(X)
                    start = np.broadcast_to(identity, (*shape[:-2], *identity.shape))
                    start = start / np.sqrt(spread if spread > 0.0 else 1.0)
                step = Step.certified(self.problem, start)
                return step if step.objective < math.inf else None
        except (BudgetSpent, MemoryError, ArithmeticError, ValueError, np.linalg.LinAlgError):
            return None


def check_calls(callback: Callback | None, score: Score | None, patience: int | None) -> None:
    """Refuse a callback or a score that cannot be called, and a patience that is no count or has no score."""
    for name, function in (("callback", callback), ("score", score)):
        if function is not None and not callable(function):
            raise TypeError(f"{name} must be a function or None, got {function!r}.")
    if patience is not None and not (score is not None and validation.is_integer(patience) and patience >= 1):
        raise ValueError(f"patience must be a positive number of steps, and needs score=, got {patience!r}.")


def check_tolerance(tol: float) -> None:
    if not validation.positive(tol):
        raise ValueError(f"tol must be a positive relative gap, got {tol!r}.")


Certified = tuple[NDArray[np.floating], Certificate, Multipliers | None]


def _certified(problem: Problem, best: Step, bound: Step, tol: float) -> Certified:
    """The certificate of the best point, in the data's dtype, with the best lower bound."""
    if best.certificate is not None and best.certificate.proves_optimal(tol):
        bound = best
    components = in_dtype(best.components, problem.X.dtype)
    dual = None if bound.multipliers is None else bound.multipliers()
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
        converted: NDArray[np.floating] = components.astype(dtype)
    if not np.isfinite(converted).all() and np.isfinite(components).all():
        raise ValueError(
            f"the metric is too large for {dtype} (components of {float(np.abs(components).max()):.3g}); scale the "
            "features, for example to [0, 1], or pass float64."
        )
    return converted
