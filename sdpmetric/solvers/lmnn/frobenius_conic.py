"""The exact layer's solver of LMNN with a Frobenius term: constraint generation, judged on the full problem."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from sdpmetric.core.certificate import relative_gap
from sdpmetric.core.run import Budget, BudgetSpent, Step
from sdpmetric.core.solution import Dual
from sdpmetric.formulations.frobenius import ReducedProgram
from sdpmetric.formulations.lmnn import all_triplets, list_triplets
from sdpmetric.linalg import psd
from sdpmetric.problems.frobenius import FrobeniusLMNNProblem
from sdpmetric.solvers.backend import SETTINGS, BackendOptions, check_backend, run_backend
from sdpmetric.solvers.lmnn import frobenius
from sdpmetric.triplets.margins import margins
from sdpmetric.triplets.triplets import Triplets

FloatArray = NDArray[np.float64]

# Up to so many triplets all of them are stated at once.
SMALL = 2000
# Otherwise those nearest to their kink are free: so many, and this many more for each dimension of the cone.
FREE, FREE_PER_DIMENSION = 500, 0.5
# Relative gap of the cheap solution at which the roles of the triplets are first taken.
START_TOLERANCE = 1e-4
# Rounds without a better gap before giving up.
PATIENCE = 4


def steps(
    problem: FrobeniusLMNNProblem,
    budget: Budget,
    tol: float,
    *,
    backend: str = "CLARABEL",
    start: FloatArray | None = None,
    backend_options: BackendOptions | None = None,
) -> Iterator[Step]:
    """Solve the problem exactly: reduced programs, an exhaustive search after each, until no replacement is wrong.

    Parameters
    ----------
    problem : FrobeniusLMNNProblem
    budget : Budget
        Spent once for every program.
    tol : float
        Relative gap to prove.
    backend : str, default "CLARABEL"
        Any installed CVXPY solver for semidefinite programs.
    start : (r, d) array, optional
        Components of a cheap solution; default: one of solver "dual". Only the roles of the triplets are taken from it.
    backend_options : mapping, optional
        Passed to the backend, over the defaults that proofs need.

    Raises
    ------
    ValueError
        If the backend is not installed or has no semidefinite cone.
    """
    name = check_backend(backend)
    settings = [own | dict(backend_options or {}) for own in SETTINGS.get(name, [{}])]
    base, d = problem.base, problem.X.shape[1]
    zero = np.zeros((0, d))
    if base.push_weight == 0.0 or base.source.size == 0:
        certificate = problem.certify(zero)
        yield Step(zero, certificate.objective, certificate.lower_bound, certificate=certificate)
        return
    yield Step(zero)
    L = _cheap(problem, budget) if start is None else start
    free, violated = _roles(problem, L)
    best_gap, patience = np.inf, PATIENCE
    while patience > 0 and settings:
        scale = float(np.sum(L**2)) or 1.0
        reduced = ReducedProgram.of(problem, free, violated, scale)
        budget.spend()
        run_backend(reduced.program, name, budget, settings[0])
        if reduced.program.value is None or not np.isfinite(reduced.program.value):
            settings = settings[1:]
            continue
        dual = reduced.dual
        points = [psd.factor(reduced.metric), problem.dual_point(dual).components]
        L = min(points, key=lambda point: problem.objective(point))
        certificate = problem.certify(L, dual=dual)
        yield Step(
            L,
            certificate.objective,
            certificate.lower_bound,
            partial(_given, dual),
            certificate,
            n_active=certificate.n_active,
        )
        patience = PATIENCE if certificate.relative_gap < 0.8 * best_gap else patience - 1
        best_gap = min(best_gap, certificate.relative_gap)
        solved = len(free)
        free, violated = _mend(problem, L, free, violated)
        if len(free) == solved:  # no replacement was wrong: only the accuracy is left
            settings = settings[1:]


def _given(dual: Dual) -> Dual:
    return dual


def _both(*parts: Triplets) -> Triplets:
    return Triplets.from_array(np.concatenate([part.to_array() for part in parts]))


def _cheap(problem: FrobeniusLMNNProblem, budget: Budget) -> FloatArray:
    own = Budget(None if np.isinf(budget.max_time) else max(0.3 * budget.remaining, 1e-3))
    best: Step | None = None
    bound = -np.inf
    try:
        for step in frobenius.steps(problem, own, START_TOLERANCE):
            best = step if best is None or step.objective < best.objective else best
            bound = max(bound, step.lower_bound)
            if relative_gap(best.objective, bound) <= START_TOLERANCE:
                break
    except BudgetSpent:
        budget.spend()
    return np.zeros((0, problem.X.shape[1])) if best is None else best.components


def _roles(problem: FrobeniusLMNNProblem, L: FloatArray) -> tuple[Triplets, Triplets]:
    """The triplets nearest to their kink are free, and of the others those beyond it violated."""
    base, d = problem.base, problem.X.shape[1]
    if base.source.size <= SMALL:
        every = all_triplets(base)
        return every, every[np.zeros(0, dtype=np.int64)]
    listed = _listed(problem, L, 0.5)
    u = 1.0 - margins(base.embed(L), listed)
    order = np.argsort(np.abs(u), kind="stable")
    n_free = FREE + int(FREE_PER_DIMENSION * d * (d + 1) / 2)
    rest = order[n_free:]
    return listed[order[:n_free]], listed[rest[u[rest] > 0]]


def _listed(problem: FrobeniusLMNNProblem, L: FloatArray, widen: float) -> Triplets:
    base = problem.base
    Z = base.embed(L)
    parts = [list_triplets(block) for block in base.push.near(Z, widen=widen)]
    every = _both(*parts) if parts else Triplets.from_array(np.zeros((0, 3), np.int32))
    return every[base.source.weights_of(every) > 0.0]


def _mend(
    problem: FrobeniusLMNNProblem, L: FloatArray, free: Triplets, violated: Triplets
) -> tuple[Triplets, Triplets]:
    """Free the triplets whose replacement is wrong at the new point: violated with slack, or silent and violated."""
    n, Z = len(problem.X), problem.base.embed(L)
    now = _listed(problem, L, 0.0)
    now = now[1.0 - margins(Z, now) > 0]
    known = np.concatenate([free.keys(n), violated.keys(n)])
    wrong = 1.0 - margins(Z, violated) < 0
    return _both(free, now[~np.isin(now.keys(n), known)], violated[wrong]), violated[~wrong]
