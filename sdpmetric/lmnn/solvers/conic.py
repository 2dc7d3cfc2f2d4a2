"""The exact layer for LMNN, semidefinite programs in CVXPY, by constraint generation: state, solve, certify, separate.

A cheap solution says which triplets are near their kink. A reduced program (`sdpmetric.lmnn.solvers.reduced_program`)
is solved, its metric searched exhaustively, and triplets with a hinge that differs from its replacement become free,
until there are none.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sdpmetric.arrays import FloatArray
from sdpmetric.core.certificate import Dual, DualityCertificate, relative_gap
from sdpmetric.core.registry import solver
from sdpmetric.core.status import Status
from sdpmetric.core.steps import Budget, Step, until_closed, within
from sdpmetric.core.triplets import Triplets
from sdpmetric.lazy import cvxpy as cp
from sdpmetric.linalg import psd
from sdpmetric.lmnn.problem import LargeMarginProblem
from sdpmetric.lmnn.solvers import factored
from sdpmetric.lmnn.solvers.factored import solved_by_zero
from sdpmetric.lmnn.solvers.reduced_program import ReducedProgram, state, violated
from sdpmetric.lmnn.solvers.refinement import refined_dual
from sdpmetric.lmnn.written import metric_names
from sdpmetric.programs.bound import bound
from sdpmetric.programs.canonical import check
from sdpmetric.programs.exact_program import Backend, BackendOptions, named


@dataclass(frozen=True)
class ConicOptions:
    start_tol: float = 1e-4  # relative gap of the cheap solution
    start_time: float = 0.3  # its share of the time
    start_iterations: int = 1000  # its evaluations at most: on problems on which it stalls it is of little use
    small_cones: int = 210  # most entries of the metrics, 20 features, for the solver to follow "factored"
    few_examples: int = 5000  # and examples
    patience: int = 4  # rounds without a better gap before giving up,
    better: float = 0.8  # a better one being at most this share of the best
    start_width: float = 0.5  # margins within which triplets count as near their kink at a cheap solution
    negligible: float = 0.1  # share of the tolerance that triplets may cost that are left out


OPTIONS = ConicOptions()
# Statuses of a backend with values of the variables.
SOLVED = ("optimal", "optimal_inaccurate")
# A function of one or several matrix variables in CVXPY that lists constraints.
Constraining = Callable[..., Sequence[object]]


def turn(problem: LargeMarginProblem) -> int:
    """Come after "factored" if Clarabel takes seconds; else only by name."""
    d = problem.X.shape[1]
    is_small = problem.n_regions * d * (d + 1) // 2 <= OPTIONS.small_cones and len(problem.X) <= OPTIONS.few_examples
    return 2 if is_small else 0


@solver(LargeMarginProblem, "conic", tol=1e-6, rank=turn)
def steps(
    problem: LargeMarginProblem,
    budget: Budget,
    tol: float,
    *,
    backend: str = "CLARABEL",
    init: FloatArray | None = None,
    backend_options: BackendOptions | None = None,
    polish: bool = True,
    constraints: Constraining | None = None,
) -> Iterator[Step]:
    """Solve LMNN exactly, by constraint generation; `polish` refines multipliers that prove too little.

    ``constraints(M)``, of several metrics ``constraints(M_1, M_2, ..)``, lists constraints in CVXPY that the metric has
    to satisfy, too; see `generate_within`.
    """
    chosen = Backend.of(backend, backend_options)
    if constraints is not None:
        yield from generate_within(problem, init, constraints, chosen, budget, tol)
        return
    if (trivial := solved_by_zero(problem, tol)) is not None:
        yield trivial
        return
    components = yield from _cheap_point(problem, budget, problem.euclidean if init is None else init, init)
    yield from generate(problem, problem.whitened(components), chosen, budget, tol, polish=polish)


def _cheap_point(
    problem: LargeMarginProblem, budget: Budget, first: FloatArray, init: FloatArray | None
) -> Generator[Step, None, FloatArray]:
    """Yield components from a fast solver, for index sets.

    They are yielded without an objective, so they are the answer only if time ends before the first program.
    """
    best = Step(first)
    yield best
    seconds = None if np.isinf(budget.max_time) else max(OPTIONS.start_time * budget.remaining, 1e-3)
    cheap = Budget(seconds, OPTIONS.start_iterations)
    steps = within(factored.steps(problem, cheap, OPTIONS.start_tol, init=init), cheap)
    for best, _ in until_closed(steps, OPTIONS.start_tol):
        yield Step(best.components)
    return best.components


def generate(
    problem: LargeMarginProblem, L: FloatArray, backend: Backend, budget: Budget, tol: float, *, polish: bool
) -> Iterator[Step]:
    """Solve reduced programs, an exhaustive search after each, until no hinge differs from its replacement."""
    components = problem.lift(L)
    certificate = problem.certify(components)
    if np.isfinite(budget.max_time):  # the answer if time ends before the first program does
        yield Step(components, lower_bound=certificate.lower_bound, certificate=certificate)
    settings, objective = list(backend.settings), certificate.objective
    reduced, best_gap, patience = ReducedProgram.around(problem, L), np.inf, OPTIONS.patience
    while patience > 0 and settings:
        # State and solve.
        # In whitened coordinates the trace is the cost, and that of an optimal metric is below every objective.
        reduced = replace(reduced, unit=objective or 1.0)
        budget.spend()
        status = backend.run(reduced.program, budget, settings[0])
        if "unbounded" in status and len(reduced.at_bound):
            # The point is so far from the optimum that too many triplets were taken to be at their bound.
            reduced = reduced.freed(L)
            continue
        if reduced.program.value is None or not np.isfinite(reduced.program.value):
            settings = settings[1:]
            continue
        # Certify.
        L, dual = reduced.factors, reduced.dual
        step = _certified(problem, L, dual, tol, polish)
        yield step
        gap = relative_gap(step.objective, step.lower_bound)
        patience = OPTIONS.patience if gap < OPTIONS.better * best_gap else patience - 1
        best_gap, objective = min(best_gap, gap), min(objective, step.objective)
        # Separate: the backend's own multipliers show which directions the faces lack.
        n_free, has_whole_cones = len(reduced.free), reduced.has_whole_cones
        reduced = reduced.separated(L, dual)
        if len(reduced.free) == n_free and has_whole_cones:  # it is the full program: only accuracy is missing
            settings = settings[1:]
    if patience == OPTIONS.patience and best_gap == np.inf:  # no program was solved
        yield replace(Step.of_certificate(components, certificate), n_active=0, status=Status.SOLVER_ERROR)


def generate_within(
    problem: LargeMarginProblem,
    init: FloatArray | None,
    constraints: Constraining,
    backend: Backend,
    budget: Budget,
    tol: float,
) -> Iterator[Step]:
    """Solve programs with further constraints and listed triplets, until others would cost less than the tolerance.

    The problem does not know the constraints, so `bound` makes the certificate: the lower bound of the last program is
    one of the whole program, since more hinges cost there, and a feasible point of it has the certified objective. A
    solve that is interrupted returns an earlier metric, with a certificate of the problem without the constraints.
    """
    push, n = problem.push, len(problem.X)
    start = factored.steps(problem, Budget(), OPTIONS.start_tol, init=init)
    *_, (best, _) = until_closed(start, OPTIONS.start_tol)
    L = problem.stack(best.components)
    free = violated(problem, problem.embed(best.components), widen=OPTIONS.start_width)
    while True:
        stated = state(problem, triplets=free).program
        metrics = [named(stated)[name] for name in metric_names(push)]
        further = list(constraints(*metrics))
        program = cp.Problem(stated.objective, [*stated.constraints, *further])
        check(program)
        budget.spend()
        if not any(backend.run(program, budget, setting) in SOLVED for setting in backend.settings):
            traces = cp.Problem(cp.Minimize(sum(map(cp.trace, metrics))), [*(M >> 0 for M in metrics), *further])
            if bound(traces).lower_bound == np.inf:
                raise ValueError("no metric satisfies the constraints of constraints=, which is proven; drop one.")
            break
        L = psd.stack([psd.factor(np.asarray(M.value)) for M in metrics])
        yield Step(problem.squeeze(L))
        Z = problem.embed(L)
        triplets = violated(problem, Z)
        excess = np.maximum(1.0 - push.margins(Z, triplets), 0.0)
        is_new = ~np.isin(triplets.keys(n), free.keys(n)) & (excess > 0.0)
        cost = push.ceilings(triplets) @ np.where(is_new, excess**2 if problem.squared else excess, 0.0)
        if cost <= OPTIONS.negligible * tol * abs(program.value):
            break
        free = Triplets.join(free, triplets[is_new])
    proven = bound(program)
    if proven.point is not None:
        L = psd.stack([psd.factor(proven.point[name]) for name in metric_names(push)])
    components = problem.squeeze(L)
    certificate = problem.certify(components)
    assert isinstance(certificate, DualityCertificate)
    certificate = replace(
        certificate,
        objective=np.inf if proven.point is None else certificate.objective,
        lower_bound=max(proven.lower_bound, certificate.lower_bound),
        program=f"{problem.title} with constraints of one's own",
        rigor=proven.rigor,
        weakness=proven.reason or None,
    )
    yield Step.of_certificate(components, certificate)


def _certified(problem: LargeMarginProblem, L: FloatArray, dual: Dual, tol: float, polish: bool) -> Step:
    """Certify with the backend's own multipliers, and with refined multipliers only if these do not prove `tol`."""
    components = problem.lift(L)
    step = Step.certified(problem, components, dual)
    backend_bound = step.lower_bound
    if polish and relative_gap(step.objective, backend_bound) > tol:
        refined = Step.certified(problem, components, refined_dual(problem, L, dual))
        step = refined if refined.lower_bound > backend_bound else step
    certificate = step.certificate
    assert isinstance(certificate, DualityCertificate)
    info = {"backend_lower_bound": backend_bound, "polished": step.lower_bound > backend_bound}
    return replace(step, certificate=replace(certificate, info={**certificate.info, **info}))
