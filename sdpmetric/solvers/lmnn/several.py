"""Multi-metric LMNN: the three solvers of the single metric, over blocks and started from the single metric."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from sdpmetric.core.multipliers import Dual
from sdpmetric.core.registry import solver
from sdpmetric.core.run import Budget, BudgetSpent, Step
from sdpmetric.linalg import psd
from sdpmetric.problems.multi_lmnn import MultiMetricLMNNProblem
from sdpmetric.problems.push_dual import best_multiple_bound
from sdpmetric.solvers.lmnn import factored
from sdpmetric.solvers.lmnn.factored import State
from sdpmetric.solvers.lmnn.working_set import OneRegion, WorkingSet

FloatArray = NDArray[np.float64]

# Share of anchors and smoothing width of the early levels, which leave the single metric; first width over all anchors.
LEVELS, FIRST_WIDTH = ((1 / 8, 0.3), (1 / 2, 0.03)), 0.02
# Subgradient: iterations of the first stage, growth of the stages, and the margin of their candidates.
STAGE, LONGER, WIDEN = 30, 1.1, 1.0


@solver(MultiMetricLMNNProblem, "factored", tol=1e-3, default=True)
def factored_steps(
    problem: MultiMetricLMNNProblem,
    budget: Budget,
    tol: float,
    *,
    start: FloatArray | None = None,
    random_state: int = 0,
) -> Iterator[Step]:
    """L-BFGS in the factors of all metrics, with a proof; see `sdpmetric.solvers.lmnn.factored`.

    Parameters
    ----------
    problem : MultiMetricLMNNProblem
    budget : Budget
    tol : float
        Relative gap to prove.
    start : (c, r, d) array, optional
        Components to start from; default: the single metric for every region.
    random_state : int, default 0
        Of the single-metric solve.

    Yields
    ------
    Step
    """
    trivial = _trivial(problem, tol)
    if trivial is not None:
        yield trivial
        return
    rng = np.random.default_rng(random_state)
    working = WorkingSet(problem, np.arange(len(problem.X), dtype=np.int32))
    state = State(np.zeros((problem.n_regions, 1, problem.regional_points[0].shape[1])))
    try:
        yield from _begin(problem, state, budget, start, rng)
        if start is None:
            yield from factored.approach(problem, state, budget, rng, LEVELS)
        yield from factored.refine_until_proven(problem, state, working, budget, tol, FIRST_WIDTH)
    except (BudgetSpent, KeyboardInterrupt):
        yield factored.last_step(problem, state, working)
        raise


def _trivial(problem: MultiMetricLMNNProblem, tol: float) -> Step | None:
    """The answer where nothing pushes, or where null directions of the costs remove every hinge."""
    rank = problem.regional_points[0].shape[1]
    nothing = problem.push_weight == 0.0 or problem.source.size == 0 or rank == 0
    if not nothing and not any(cost.coordinates.null.shape[1] for cost in problem.pull_costs):
        return None
    zero = problem.lift_regional(np.zeros((problem.n_regions, 0, rank)))
    certificate = problem.certify(zero)
    if not nothing and certificate.relative_gap > tol:
        return None
    return Step(zero, certificate.objective, certificate.lower_bound, certificate=certificate)


def _begin(
    problem: MultiMetricLMNNProblem, state: State, budget: Budget, start: FloatArray | None, rng: np.random.Generator
) -> Iterator[Step]:
    """Set the factors to start from: what is given, or a single metric, solved roughly or as far as the budget goes."""
    if start is not None:
        L, _ = problem.check_point(start, None)
        state.L = problem.whitened(L)
        return
    tied = problem.tied
    single = State(factored.scaled_start(tied, None, rng)[0][None])
    try:
        if single.L.size:
            for step in factored.approach(OneRegion(tied), single, budget, rng):
                yield replace(step, components=psd.stack([step.components] * problem.n_regions))
    finally:
        state.L = problem.whitened(psd.stack([tied.lift(single.L[0])] * problem.n_regions))


@solver(MultiMetricLMNNProblem, "subgradient", tol=1e-3)
def subgradient_steps(
    problem: MultiMetricLMNNProblem, budget: Budget, tol: float, *, start: FloatArray | None = None
) -> Iterator[Step]:
    """Projected subgradients with Polyak steps, and averaged slopes for the bound, in stages.

    The slopes of a stage, on the candidates of the search that begins it, are averaged with the steps as weights; the
    average proves a lower bound, and the next stage begins afresh (``docs/subgradient.md``).

    Parameters
    ----------
    problem : MultiMetricLMNNProblem
    budget : Budget
    tol : float
    start : (c, r, d) array, optional
        Components to start from; default: the single metric for every region.

    Yields
    ------
    Step
    """
    trivial = _trivial(problem, tol)
    if trivial is not None:
        yield trivial
        return
    yield Step(psd.stack([np.eye(problem.X.shape[1])] * problem.n_regions))
    working = WorkingSet(problem, np.arange(len(problem.X), dtype=np.int32))
    state = State(np.zeros((problem.n_regions, 1, problem.regional_points[0].shape[1])))
    yield from _begin(problem, state, budget, start, np.random.default_rng(0))
    L = state.L
    M, identity = np.swapaxes(L, 1, 2) @ L, np.eye(L.shape[2])
    lower_bound, best, length = 0.0, math.inf, float(STAGE)
    chosen: Dual | None = None
    while True:
        working.search(L, WIDEN)
        values = np.zeros((len(working.candidates.impostors), working.candidates.targets.shape[1]))
        matrix, weight = np.zeros_like(M), 0.0
        objective = math.inf
        for iteration in range(int(length)):
            budget.spend()
            a = working.multipliers(L, 0.0)
            objective = float(np.trace(M, axis1=1, axis2=2).sum()) + a.loss
            if iteration == 0:
                best = min(best, objective)
                dual = chosen
                yield Step(
                    problem.lift_regional(L),
                    objective,
                    lower_bound,
                    None if dual is None else partial(_given, dual),
                    n_active=round(float((a.values > 0).sum())),
                )
            G = identity - a.matrix
            square = float(np.sum(G * G))
            eta = max(objective - lower_bound, 0.0) / square if square > 0 else 0.0
            values += eta * a.values
            matrix += eta * a.matrix
            weight += eta
            if eta == 0.0:
                break
            L = _projected(M - eta * G)
            M = np.swapaxes(L, 1, 2) @ L
        if weight == 0.0:
            return
        values, matrix = values / weight, matrix / weight
        squares = float(np.sum(values**2)) if problem.squared else None
        bound, _ = best_multiple_bound(
            float(values.sum()), squares, float(np.linalg.eigvalsh(matrix).max()), problem.push_weight
        )
        if bound > lower_bound:
            lower_bound, chosen = bound, working.dual(values)
        length *= LONGER


def _projected(M: FloatArray) -> FloatArray:
    """Factors of the PSD parts, (c, rank, rank)."""
    values, vectors = np.linalg.eigh(M)
    L: FloatArray = np.sqrt(np.maximum(values, 0.0))[:, :, None] * np.swapaxes(vectors, 1, 2)
    return L


def _given(dual: Dual) -> Dual:
    return dual
