"""`sdpmetric.solve`, and the one loop around every solver: budget, trace, best point, interruption, certificate."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray, allow_underflow
from sdpmetric.core import validation
from sdpmetric.core.certificate import Certificate, DualityCertificate, Multipliers, RelaxationCertificate, relative_gap
from sdpmetric.core.printer import Printer
from sdpmetric.core.problem import InSpan, Problem
from sdpmetric.core.registry import Solver, solvers_to_try
from sdpmetric.core.solution import Solution
from sdpmetric.core.status import Status
from sdpmetric.core.steps import Budget, Callback, Score, Step, Trace, TraceRow
from sdpmetric.engine import threads
from sdpmetric.engine.threads import BudgetSpent, client_of, deadline, using

if TYPE_CHECKING:
    from distributed import Client


# Errors of a solver with numbers that are too large or small for floats; a division by zero is a mistake in it.
BREAKDOWNS = (FloatingPointError, OverflowError, np.linalg.LinAlgError)


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

    Steps are points of the problem, or of the one in the span of few rows that its solvers work on.

    `take` keeps the best points and bounds of the steps, and ends the solve if a certificate closes the gap. After the
    steps, and after any interruption of them, `finish` certifies the best point, which no limit cuts short.
    """

    problem: Problem
    budget: Budget
    tol: float
    span: InSpan[Problem] | None = None
    callbacks: Sequence[Callback] = ()
    score: Score | None = None
    early_stopping: EarlyStopping | None = None
    stream: bool = False  # The last step is the answer, not the best
    relaxed: bool = False  # The steps bound a larger set; the lower bound is that of a relaxation
    solver: str = field(default="", init=False)  # Of the last steps
    trace: Trace = field(default_factory=Trace, init=False)
    status: Status | None = field(default=None, init=False)
    best: Step | None = field(default=None, init=False)  # Of the smallest objective; of a stream, the last
    best_nonzero: Step | None = field(default=None, init=False)  # The same among metrics other than zero
    tightest: Step | None = field(default=None, init=False)  # Of the largest lower bound
    aim: float = field(init=False)  # The relative gap, by the steps' own estimates, at which the best is certified

    def __post_init__(self) -> None:
        self.aim = self.tol

    @np.errstate(all="ignore")  # trial points may be as large as floats are
    def over(self, steps: Iterable[Step]) -> Solution:
        """Take steps until the gap is closed, the budget is spent, or they end; then certify the best point."""
        try:
            try:
                with threads.one_pool(), deadline(self.budget.deadline):
                    for step in steps:
                        if self.take(step):
                            break
            except (BudgetSpent, MemoryError):
                self.status = Status.USER_LIMIT
            except BREAKDOWNS:
                self.status = Status.NUMERICAL_ERROR
            return self.finish()
        except KeyboardInterrupt:  # a second one ends at once
            self.status = Status.INTERRUPTED
            return self.finish()

    def take(self, step: Step) -> bool:
        """Take a step into account and show it to the callbacks; return whether the solve ends with it."""
        finite = bool(np.isfinite(step.components).all())
        if not finite or math.isnan(step.objective) or math.isnan(step.lower_bound):
            self.status = Status.NUMERICAL_ERROR
            return True
        if self.score is not None:
            step = replace(step, score=float(self.score(self.lifted(step.components))))
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
            stop=step.stop,
        )
        self.trace.rows.append(row)
        stops = [callback(row) for callback in self.callbacks]
        out_of_patience = self.early_stopping is not None and self.early_stopping(step)
        self.status = step.status or self.status
        if self._is_proven(step):
            # No later step can raise the score either.
            is_earlier = self.early_stopping is not None and self.early_stopping.steps_without_progress > 0
            self.status = Status.STOPPED_EARLY if is_earlier else self.status
            return True
        if any(stops):
            self.status = Status.USER_LIMIT
            return True
        if out_of_patience:
            self.status = Status.STOPPED_EARLY
        return out_of_patience

    def _rank(self, step: Step) -> None:
        """Keep the step if it is the best by a measure: the latest of equals, one with evidence before others."""
        if self.best is None or self.stream or step.objective <= self.best.objective:
            self.best = step
        nonzero = self.best_nonzero
        if step.components.any() and (nonzero is None or step.objective <= nonzero.objective):
            self.best_nonzero = step

        def evidence(step: Step) -> tuple[float, bool, bool]:
            return step.lower_bound, step.certificate is not None, step.multipliers is not None

        if self.tightest is None or evidence(step) >= evidence(self.tightest):
            self.tightest = step

    def _is_proven(self, step: Step) -> bool:
        """Return whether a certificate settles the solve; certify the best point if the steps' own estimates close it.

        If the certificate proves less, its numbers replace the estimates, and the solver goes on to half the gap before
        another one is made.
        """
        certificate = self._certificate_of(step)
        if certificate is not None and certificate.settles(self.tol):
            return True
        best, tightest = self.best, self.tightest
        if self.stream or best is None or tightest is None:
            return False
        # An objective below a lower bound is an estimate by too few constraints, which no later one would replace.
        if best.objective >= tightest.lower_bound and relative_gap(best.objective, tightest.lower_bound) > self.aim:
            return False
        certified = self.best = self._certified(best)
        assert certified.certificate is not None
        if certified.certificate.settles(self.tol):
            return True
        self.tightest, self.aim = certified, 0.5 * self.aim
        return False

    def lifted(self, components: FloatArray) -> FloatArray:
        """Return components of the problem, which those of a step may be already."""
        return components if self.span is None or self._is_lifted(components) else self.span.lifted(components)

    def within(self, components: FloatArray) -> FloatArray:
        """Return components of the problem that the solvers work on."""
        is_lifted = self._is_lifted(components)
        return self.span.coordinates(components) if self.span is not None and is_lifted else components

    def _is_lifted(self, components: FloatArray) -> bool:
        return bool(components.shape[-1] == self.problem.X.shape[1])

    def _certificate_of(self, step: Step) -> Certificate | None:
        """Return a certificate of the step by the problem, not by the one in the span."""
        return step.certificate if self.span is None or self._is_lifted(step.components) else None

    def finish(self) -> Solution:
        """Return the best point with its certificate, in the data's dtype, and the status."""
        self.problem.check_unchanged()
        with threads.one_pool(), deadline(math.inf), using(None):  # workers may not answer any more
            answer = self._answer()
        assert answer.certificate is not None
        status = self.status
        if status is None or answer.certificate.settles(self.tol):
            status = answer.certificate.status(self.tol)
        components = in_dtype(answer.components, self.problem.X.dtype)
        return Solution(
            components=components,
            certificate=answer.certificate,
            status=status,
            solver=self.solver,
            dual=None if answer.multipliers is None else answer.multipliers(),
            trace=self.trace,
            n_iter=self.budget.spent,
            seconds=self.budget.elapsed,
            problem=self.problem,
            extras=self.problem.beside(np.asarray(components, dtype=np.float64)) | answer.extras,
        )

    def _answer(self) -> Step:
        """Certify the best point; after a limit not the zero metric, nor, if possible, one of an infinite objective."""
        best = self.best if self.early_stopping is None else self.early_stopping.best
        is_limited = self.status in (Status.USER_LIMIT, Status.INTERRUPTED) and not self.stream
        if best is None or (is_limited and not (best.components.any() or best.settles(self.tol))):
            best = self.best_nonzero or Step(self.problem.start)
        answer = self._certified(best)
        if is_limited and answer.objective == math.inf and not answer.settles(self.tol):
            answer = min(answer, self._certified(Step(self.problem.start)), key=lambda step: step.objective)
        return answer

    def _certified(self, step: Step) -> Step:
        """Return a step with the certificate of its point in the data's dtype, by the best multipliers so far."""
        certificate, multipliers = self._certificate_of(step), step.multipliers
        if self.stream and certificate is not None:  # only the learner of a stream can make it
            return step
        is_proven = certificate is not None and certificate.proves_optimal(self.tol)
        bound = step if is_proven or self.tightest is None else self.tightest
        lifted = self.lifted(step.components)
        components = np.asarray(in_dtype(lifted, self.problem.X.dtype), dtype=np.float64)
        if certificate is None or bound is not step or not np.array_equal(components, step.components):
            dual = None if bound.multipliers is None else bound.multipliers()
            certificate = self._certificate(components, dual, certificate, self._certificate_of(bound))
            multipliers = None if dual is None else lambda: dual
        return replace(Step.of_certificate(components, certificate), multipliers=multipliers, extras=step.extras)

    def _certificate(
        self, components: FloatArray, dual: Multipliers | None, before: Certificate | None, bound: Certificate | None
    ) -> Certificate:
        """Certify a point; its certificate `before` rounding, and that of the best bound, add what they prove."""
        try:
            certificate = self.problem.certify(components, dual=dual)
        except BREAKDOWNS as error:
            raise ValueError(
                f"the point found cannot be certified, as its numbers are too large or too small ({error}); scale the "
                "features, for example to [0, 1], and choose weights nearer to 1."
            ) from error
        # A lower bound that the problem has proven at one point holds for all.
        proofs = [proof for proof in (certificate, before, bound) if proof is not None]
        certificate = replace(certificate, lower_bound=max(proof.lower_bound for proof in proofs))
        if before is not None:  # of the solver's program
            return certificate.with_origin(before)
        if self.relaxed and isinstance(certificate, DualityCertificate):
            return RelaxationCertificate.of(certificate)
        return certificate


def check_calls(callback: Callback | None, score: Score | None, patience: int | None) -> None:
    """Refuse a callback or a score that cannot be called, and a patience that is no count or has no score."""
    for name, function in (("callback", callback), ("score", score)):
        if function is not None and not callable(function):
            raise TypeError(f"{name} must be a function or None, got {function!r}.")
    if patience is not None and not (score is not None and validation.is_integer(patience) and patience >= 1):
        raise ValueError(f"patience must be a positive number of steps, and needs score=, got {patience!r}.")


def in_dtype(components: NDArray[np.floating], dtype: np.dtype[np.floating]) -> NDArray[np.floating]:
    """Return components in a dtype, for example that of the data; raise an error if they are too large for it."""
    with np.errstate(over="ignore"):
        converted: NDArray[np.floating] = components.astype(dtype)
    if not np.isfinite(converted).all() and np.isfinite(components).all():
        raise ValueError(
            f"the metric is too large for {dtype} (components of {float(np.abs(components).max()):.3g}); scale the "
            "features, for example to [0, 1], or pass float64."
        )
    return converted


def attempts(run: Run, solvers: Sequence[Solver], options: Mapping[str, object]) -> Iterator[Step]:
    """Yield steps of the first solver for a run, and of the next if a solver ends before the gap is closed.

    A later solver starts from the best components and multipliers that the run has, if it has options for them
    (``init``, ``multipliers``). Its failure says nothing about the answer of an earlier solver.
    """
    step: Step | None = None
    for solver in solvers:
        if step is not None and step.certificate is not None and step.certificate.settles(run.tol):
            return  # what is proven, for example a contradiction, leaves nothing to another solver
        run.solver, is_later = solver.name, run.best is not None and solver is not solvers[0]
        solver_options = {name: value for name, value in options.items() if name in solver.options}
        if run.best is not None and run.best.components.any() and "init" in solver.options:
            solver_options["init"] = run.within(run.best.components)
        if run.tightest is not None and run.tightest.multipliers is not None and "multipliers" in solver.options:
            solver_options["multipliers"] = run.tightest.multipliers()
        try:
            problem = run.problem if run.span is None else run.span.problem
            for step in solver.steps(problem, run.budget, run.tol, **solver_options):
                yield replace(step, status=None) if is_later else step
        except BREAKDOWNS:
            if solver is solvers[-1] and (run.best is None or run.best.certificate is None):
                raise


@allow_underflow
def solve(
    problem: Problem,
    solver: str = "auto",
    *,
    tol: float | None = None,
    max_iter: int | None = None,
    max_time: float | None = None,
    callback: Callback | None = None,
    verbose: bool = False,
    random_state: int | None = None,
    score: Score | None = None,
    patience: int | None = None,
    engine: Client | str | None = None,
    **options: object,
) -> Solution:
    """Solve a problem and certify the answer.

    Parameters
    ----------
    problem : Problem
        Any statement of this package, or one of your own.
    solver : str, default "auto"
        By name; `sdpmetric.solvers_of` lists those of a problem. "auto" begins with the first that takes the options;
        if one stalls at a gap above `tol`, the next goes on from its point, and `Solution.solver` names the last.
        For LMNN: "factored", a continuation method in the factor; "subgradient", Algorithm 1 of Weinberger and Saul
        (2009) [WS2009] with Polyak steps and an ergodic dual; "conic", the exact semidefinite program in CVXPY, by
        constraint generation; "low_rank", a metric of bounded rank (LMNN-R, section 5.4), with ``n_components=``.
    tol : float, optional
        Relative gap to prove; default that of the solver, 1e-6 for "conic" and 1e-3 for most other solvers.
    max_iter : int, optional
        Largest number of evaluations of objective and gradient; default: no limit.
    max_time : float, optional
        Seconds after which the solver ends, at its next step; default: no limit. The best metric that it has evaluated
        is then certified, which has no limit. If there is none but zero, `Problem.start` is.
    callback : callable, optional
        Called with each `TraceRow`; returning True stops the solve.
    verbose : bool, default False
        Log progress, and how the solve ended, as information of the logger "sdpmetric": on standard error, unless the
        program has configured logging.
    random_state : int, optional
        Seed of the solvers that draw at random; default 0. The others use no randomness.
    score : callable, optional
        ``score(components)``, larger is better, for example the accuracy on held-out examples; written into the trace
        for each step.
    patience : int, optional
        Early stopping: return the step with the best `score` (the last if tied), with its own certificate, and stop
        after this many steps without a better one.
    engine : dask.distributed.Client or "threads", optional
        Where exhaustive searches run, for LMNN's solvers "factored" and "low_rank": default the threads of this
        process; or the workers of a Dask cluster. See ``docs/deploy.md``.
    **options
        Options of the solver, for example ``init=`` (components to start from), ``step="paper"`` of "subgradient",
        ``backend="SCS"`` and ``constraints=lambda M: [..]`` of LMNN's "conic", or ``n_components=2`` and ``full=`` (the
        solution without a bound on the rank) of "low_rank"; see the docstring of the solver.

    Returns
    -------
    Solution
        With `status` ``optimal`` only if the relative gap is proven to be at most `tol`, or the optimum to be 0 or
        less and the gap to be at most the certificate's `resolution`; ``stalled`` if no solver could do more and the
        gap is above ten times `tol`.

    Raises
    ------
    TypeError
        If the solver does not take an option, or a cluster is passed to one that runs on threads only.
    ValueError
        If the solver is unknown, or an option is out of range.

    See Also
    --------
    certify, compare, path, solvers_of, verify

    Examples
    --------
    >>> import sdpmetric as sm
    >>> from sklearn.datasets import load_iris
    >>> problem = sm.LMNNProblem.from_labels(*load_iris(return_X_y=True))
    >>> sm.solve(problem, tol=1e-3).status.word
    'optimal'
    """
    span = problem.in_span
    solvers = solvers_to_try(problem if span is None else span.problem, solver, options)
    entry = solvers[0]
    span = None if entry.stream else span  # a stream is about its own updates
    tol = entry.tol if tol is None else tol
    validation.check_limit("tol", tol, "relative gap")
    check_calls(callback, score, patience)
    options = _check_options(problem, entry, options, random_state)
    if span is not None and "init" in options:
        options["init"] = span.coordinates(np.asarray(options["init"]))
    if engine is not None and not entry.engines:
        raise TypeError(
            f"solver {entry.name!r} of {type(problem).__name__} runs on the threads of this process; leave engine= out."
        )
    printer = Printer(stream=entry.stream) if verbose else None
    budget = Budget(max_time, max_iter)
    with using(client_of(engine)):
        run = Run(
            problem,
            budget,
            tol,
            span,
            callbacks=[see for see in (printer, callback) if see is not None],
            score=score,
            early_stopping=None if patience is None else EarlyStopping(patience),
            stream=entry.stream,
            relaxed=entry.relaxed,
        )
        solution = run.over(attempts(run, solvers, options))
    if printer is not None:
        printer.write_end(solution)
    return solution


def _check_options(
    problem: Problem, entry: Solver, options: dict[str, object], random_state: int | None
) -> dict[str, object]:
    validation.check_known(f"solver {entry.name!r}", options, entry.options)
    checked = {name: value for name, value in options.items() if value is not None}
    if random_state is not None:
        checked["random_state"] = validation.check_integer("random_state", random_state, 0)
    if "init" in checked:
        try:
            checked["init"] = problem.check_start(np.asarray(checked["init"]))
        except ValueError as error:
            raise ValueError(str(error).replace("components", "init")) from error
    return checked
