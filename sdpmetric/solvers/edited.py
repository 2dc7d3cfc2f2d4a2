"""Programs with constraints of a user's own: solved as they are, certified on the data and by `sdpmetric.bound`."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from sdpmetric.core.certificate import DualityCertificate
from sdpmetric.core.problem import Problem
from sdpmetric.core.run import Budget, Step
from sdpmetric.formulations import formulate, named
from sdpmetric.lazy import cvxpy as cp
from sdpmetric.linalg import psd
from sdpmetric.programs.bound import ProgramBound, bound
from sdpmetric.programs.canonical import SOLVERS
from sdpmetric.programs.enclosure import OverSizeError
from sdpmetric.solvers.backend import Backend

REBUILD = (
    "build it as cvxpy.Problem(p.objective, p.constraints + [...]) from p = sdpmetric.to_cvxpy(problem), and leave "
    "variables and labels as they are."
)
# Names of what a metric is made of: it itself, factors of it, weights, and parts of it.
METRICS = ("M", "A", "N", "w", "M0")
# Relative differences of numbers of two programs that are rounding.
ROUNDING = 1e-9


def solved(problem: Problem, program: cp.Problem, chosen: Backend, budget: Budget, radius: float | None) -> Step:
    """Solve a program made from `sdpmetric.to_cvxpy` by adding constraints, and certify its metric on the data.

    The lower bound is the program's own, of grade "rounding" because CVXPY's rows are rounded products of the data; or
    that of the problem without further constraints, where it is as good, or nothing else is proven. A bound that rests
    on `radius` stands beside it. The primal residual includes the violation of the further constraints.
    """
    exact, found = formulate(problem), named(program)
    if not {*METRICS} & {*found}:
        raise ValueError(
            f"the program of {type(problem).__name__} has no metric as its variable; sdpmetric.bound proves between "
            "which numbers its optimum lies."
        )
    variables, constraints = _matched(exact.program, program)
    budget.spend()
    for _, theirs in variables:
        theirs.save_value(None)
    status = chosen.run(program, budget, chosen.settings[0])
    if not all(theirs.value is not None and np.isfinite(theirs.value).all() for _, theirs in variables):
        raise ValueError(
            f"{chosen.name} found no solution of program (status {status}); check that the "
            "program is feasible, give it more time, or try another backend."
        )
    own = _bound(program, chosen.name, radius)
    for variable, theirs in variables:
        variable.save_value(theirs.value)
    for constraint, solved_one in constraints:
        for dual, value in zip(constraint.dual_variables, solved_one.dual_variables, strict=True):
            dual.save_value(value.value)
    point = exact.read()
    components = psd.factor(point.metric)
    outside = 0.0
    for M in (found[name] for name in METRICS[:2] if name in found):
        values = np.linalg.eigvalsh(np.asarray(M.value))
        outside = max(-float(values[0]), 0.0) / max(float(values[-1]), np.finfo(float).tiny)
        M.save_value(components.T @ components)
    kept = {id(stated) for _, stated in constraints}
    further = [c for c in program.constraints if id(c) not in kept]
    violation = max((float(np.max(c.violation())) for c in further), default=0.0)
    tries = [problem.certify(components, dual=dual) for dual in {id(a): a for a in (None, point.dual)}.values()]
    certificate = max(tries, key=lambda tried: tried.lower_bound)
    if not isinstance(certificate, DualityCertificate):
        raise ValueError("without your constraints the problem has no solution; solve it without program= first.")
    certificate = replace(
        certificate,
        primal_residual=max(outside, violation),
        program=f"{certificate.program} with {len(further)} further constraint{'' if len(further) == 1 else 's'}",
        resolution=0.0,  # an infimum of 0 may be out of reach
    )
    if own.lower_bound > certificate.lower_bound:
        if own.rigor in ("float", "compiled"):
            least = min(own.lower_bound, certificate.objective)
            certificate = replace(certificate, lower_bound=least, rigor="rounding")
        else:
            info = {**certificate.info, "assumed_lower_bound": own.lower_bound}
            certificate = replace(certificate, rigor=own.rigor, assumption=own.assumption, info=info)
    return Step(components, certificate.objective, certificate.lower_bound, certificate=certificate)


def _matched(
    stated: cp.Problem, program: cp.Problem
) -> tuple[list[tuple[cp.Variable, cp.Variable]], list[tuple[cp.Constraint, cp.Constraint]]]:
    """The variables and constraints of a statement, each with that of an edited program, which still has to state it.

    Objective and constraints are compared where the variables have generic values.
    """
    if not program.is_dcp():
        raise ValueError("program is not convex by CVXPY's rules; add only constraints that are (program.is_dcp()).")
    theirs, labeled = defaultdict(list), {c.label: c for c in program.constraints}
    for variable in program.variables():
        theirs[variable.name()].append(variable)
    variables = []
    for variable in stated.variables():
        match = next((v for v in theirs[variable.name()] if v.shape == variable.shape), None)
        if match is None:
            raise ValueError(f"program lacks the variable {variable.name()}, {variable.shape}; {REBUILD}")
        theirs[variable.name()].remove(match)
        variables.append((variable, match))
    if missing := [c.label for c in stated.constraints if c.label not in labeled]:
        raise ValueError(f"program lacks the constraints {', '.join(map(str, missing))}; {REBUILD}")
    constraints = [(c, labeled[c.label]) for c in stated.constraints]
    known, rng = {v.id for _, v in variables}, np.random.default_rng(0)
    same = isinstance(program.objective, cp.Minimize)
    same &= {v.id for v in program.objective.variables()} <= known
    for sign in (1.0, -1.0) if same else ():
        for variable, match in variables:
            value = rng.uniform(0.5, 1.5, variable.shape)
            value = value.T @ value if variable.is_symmetric() and variable.ndim == 2 else sign * value
            variable.save_value(value)
            match.save_value(value)
        with np.errstate(all="ignore"):
            same &= _alike([stated.objective.expr], [program.objective.expr])
            alike = all(_alike(c.args, other.args) for c, other in constraints)
        if not alike:
            raise ValueError(f"a constraint of program is not the problem's; {REBUILD}")
    if not same:
        raise ValueError(f"the objective of program is not the problem's, and nothing could be proven; {REBUILD}")
    return variables, constraints


def _alike(some: Iterable[cp.Expression], others: Iterable[cp.Expression]) -> bool:
    each = [(np.asarray(a.value), np.asarray(b.value)) for a, b in zip(some, others, strict=True)]
    return all(
        a.shape == b.shape and np.allclose(a, b, ROUNDING, ROUNDING * np.abs(a).max(initial=0.0), equal_nan=True)
        for a, b in each
    )


def _bound(program: cp.Problem, backend: str, radius: float | None) -> ProgramBound:
    """What is proven about the program itself; it may be nothing."""
    try:
        own = bound(program, backend if backend in SOLVERS else None, radius)
    except OverSizeError:
        return ProgramBound.nothing()
    if own.lower_bound == math.inf:
        raise ValueError("program is proven to be infeasible; drop or relax some of its further constraints.")
    return own
