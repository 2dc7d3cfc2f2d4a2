"""The exact layer: a sum as a CVXPY program, and the solver "conic", which certifies any statement's exact program.

Every term writes its own part on one vector of distances.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import numpy as np

from sdpmetric.core import validation
from sdpmetric.core.certificate import DualityCertificate, InfeasibilityCertificate
from sdpmetric.core.problem import Problem
from sdpmetric.core.registry import formulation, has_exact_program, solver
from sdpmetric.core.status import Status
from sdpmetric.core.steps import Budget, Step
from sdpmetric.lazy import cvxpy as cp
from sdpmetric.linalg import psd
from sdpmetric.programs.atoms import CONE, check_compilation, metric_variable, squared_distances
from sdpmetric.programs.exact_program import Backend, BackendOptions, ExactProgram, Point, formulate, printed
from sdpmetric.sums.bound_terms import ROOM, ROOM_SINGLE
from sdpmetric.sums.problem import MetricProblem


@formulation(MetricProblem)
def state(problem: MetricProblem, *, scaled: bool = False) -> ExactProgram:
    """State a sum of terms.

    Variables ``M``, or ``w`` of the domain (``M = sum_j w_j b_j b_j'``), and for each loss its excess, with ``_excess``
    behind the name of the term. An equality with that name ties it to the metric; its dual values are the multipliers
    of the certificate. Constraints of a loss are labeled with ``_loss`` behind the name.
    """
    domain, X, pairs = problem.domain, problem.centered, problem.total.pairs
    T = problem.descent_start[0] if scaled else np.zeros((0, 0))
    T = T if T.size else np.eye(len(domain.basis))  # it is empty if all examples are equal
    if domain.diagonal:
        w = cp.Variable(len(domain.basis), name="w")
        cones = [(w >= 0).set_label(CONE)]
        sizes = np.diag(T) ** 2
        N = cp.diag(cp.multiply(sizes, w))
        M = N if domain.has_identity_basis else domain.basis.T @ N @ domain.basis
        check_compilation(len(pairs) * len(sizes))
        D = (sizes * problem.dual.slack.squared_products(pairs)) @ w
    else:
        N, cone = metric_variable(T.shape[1], "M")
        M = N if np.array_equal(T, np.eye(len(T))) else T @ N @ T.T
        D = squared_distances(N, X @ T, pairs)
        cones = [cone]
    n_costs = len(problem.total.costs[0])
    objective = problem.total.costs[1] @ D[:n_costs] if n_costs else cp.Constant(0.0)
    in_cone = problem.total.barrier and not domain.diagonal
    constraints: list[cp.Constraint] = [] if in_cone else [*cones]
    if problem.total.ridge:
        objective += problem.total.ridge * cp.trace(M)
    losses, ties = problem.total.losses, list[cp.Constraint]()
    named = [name for name, term in zip(problem.names, problem.terms, strict=True) for _ in term.losses]
    for name, loss, pair_slice in zip(named, losses, problem.total.pair_slices, strict=True):
        u = cp.Variable(loss.size, name=f"{name}_excess")
        linear = loss.entry_expression(M, cp) if loss.depends_on_entries else loss.combination @ D[pair_slice]
        room = (ROOM if problem.X.dtype == np.float64 else ROOM_SINGLE) if scaled and loss.hard else 0.0
        ties.append((linear + (loss.offset + room * loss.unit) == u).set_label(name))
        value, own_constraints = loss.expression(u, cp)
        objective += value
        for number, constraint in enumerate(cast(list[cp.Constraint], own_constraints), 1):
            constraint.set_label(f"{name}_loss" if number == 1 else f"{name}_loss_{number}")
        constraints += [ties[-1], *own_constraints]
    for regularizer in problem.total.regularizers:
        objective += regularizer.expression(M, cp)
    program = printed(cp.Minimize(objective), constraints, problem.lines)

    def read() -> Point:
        a = problem.state_dual([np.ravel(tie.dual_value) for tie in ties])
        if domain.diagonal:
            weights = np.maximum(np.asarray(w.value), 0.0) * sizes
            metric = (domain.basis.T * weights) @ domain.basis
        else:
            L = psd.factor(np.asarray(N.value)) @ T.T
            with np.errstate(over="ignore", invalid="ignore"):
                metric = L.T @ L
        if not np.abs(metric).max(initial=0.0) <= validation.RANGES.largest_of_metric:
            metric = np.zeros_like(metric)  # it overflows, along features that are next to nothing
        return Point(metric, np.where(np.isfinite(a), a, 0.0))

    hard = [k for k, loss in enumerate(problem.total.losses) if loss.hard]
    if not hard:
        return ExactProgram(program, read)
    # Where the constraints contradict each other: the least violation t that some metric attains, as a share of bounds.
    t = cp.Variable(name="violation")
    u = {v.name(): v for v in program.variables()}
    units = [np.where(losses[k].offset, np.abs(losses[k].offset), losses[k].unit) for k in hard]
    violations = [u[f"{named[k]}_excess"] <= t * unit for k, unit in zip(hard, units, strict=True)]
    feasibility = cp.Problem(cp.Minimize(t), [*cones, *(ties[k] for k in hard), *violations, t >= 0])

    def read_contradiction() -> Point:
        multipliers = [np.zeros(loss.size) for loss in losses]
        for k, constraint in zip(hard, violations, strict=True):
            multipliers[k] = np.maximum(np.ravel(constraint.dual_value), 0.0)
        d = problem.X.shape[1]
        return Point(np.zeros((d, d)), problem.state_dual(multipliers))

    return ExactProgram(program, read, ExactProgram(feasibility, read_contradiction))


def turn(problem: Problem) -> int:
    """Come last for a small sum of terms; for other statements only by name."""
    if not isinstance(problem, MetricProblem):
        return 0
    d = len(problem.domain.basis)
    # Of a sum, entries of the metric times multipliers that Clarabel takes seconds for: 5 for 210 entries and 480
    # triplets.
    return 9 if d * (d + 1) // 2 * problem.total.n_multipliers <= 100_000 else 0


@solver(has_exact_program, "conic", tol=1e-6, rank=turn)
def steps(
    problem: Problem,
    budget: Budget,
    tol: float,
    *,
    backend: str = "CLARABEL",
    backend_options: BackendOptions | None = None,
) -> Iterator[Step]:
    """Solve the exact program of a statement as a whole."""
    chosen = Backend.of(backend, backend_options)
    exact, has_answer = formulate(problem, scaled=True), False
    for settings in chosen.settings:
        budget.spend()
        for stated in (exact, exact.infeasibility):
            answers = (cp.OPTIMAL, cp.OPTIMAL_INACCURATE, cp.USER_LIMIT)
            if stated is None or chosen.run(stated.program, budget, settings) not in answers:
                continue
            point, has_answer = stated.read(), True
            step = Step.certified(problem, psd.factor(point.metric), point.dual)
            yield step
            if isinstance(step.certificate, InfeasibilityCertificate):
                return
            if step.certificate is not None and not step.certificate.settles(tol):
                yield Step.certified(problem, step.components)  # slopes there may be closer than the multipliers
            if isinstance(step.certificate, DualityCertificate) and step.certificate.resolution:
                yield Step.certified(problem, problem.zero, point.dual)  # perhaps it attains the 0
            if np.isfinite(step.objective):
                break  # a feasible point is found
    if not has_answer:
        yield Step(problem.zero, status=Status.SOLVER_ERROR)
