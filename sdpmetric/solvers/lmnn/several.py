"""Multi-metric LMNN: the factored solver of the single metric, over blocks and started from the single metric."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from sdpmetric.arrays import FloatArray, IndexArray
from sdpmetric.core.registry import solver
from sdpmetric.core.run import Budget, BudgetSpent, Step
from sdpmetric.linalg import psd
from sdpmetric.problems.multi_lmnn import MultiMetricLMNNProblem
from sdpmetric.solvers.lmnn import factored
from sdpmetric.solvers.lmnn.descent import NEGLIGIBLE, Slow, State, descend
from sdpmetric.solvers.lmnn.regional import OneRegion, solved_by_zero
from sdpmetric.solvers.lmnn.start import scaled_start
from sdpmetric.solvers.lmnn.working_set import WorkingSet

# Smoothing width of the early level, which leaves the single metric, and the share of that one that the metrics keep
# after it: along directions that a factor does not have its gradient is 0.
EARLY_WIDTH, SINGLE_SHARE = 0.2, 0.1


@solver(MultiMetricLMNNProblem, "factored", tol=1e-3, default=True, engines=True)
def factored_steps(
    problem: MultiMetricLMNNProblem,
    budget: Budget,
    tol: float,
    *,
    start: FloatArray | None = None,
    random_state: int = 0,
) -> Iterator[Step]:
    """L-BFGS in the factors of all metrics, with a proof; see `sdpmetric.solvers.lmnn.factored`."""
    if (trivial := solved_by_zero(problem, tol)) is not None:
        yield trivial
        return
    rng = np.random.default_rng(random_state)
    anchors = np.arange(len(problem.X), dtype=np.int32)
    # The points of all metrics together do not stay in the caches: single precision, where that is good enough.
    working = WorkingSet(problem, anchors, np.float32 if tol >= factored.SINGLE else np.float64)
    state = State(np.zeros((problem.n_regions, 1, problem.regional_points[0].shape[1])))
    try:
        yield from _begin(problem, state, budget, start, rng)
        if start is None:
            _leave_single(problem, state, anchors, budget)
            yield Step(problem.lift_regional(state.L), step=EARLY_WIDTH)
        yield from factored.refine_until_proven(problem, state, working, budget, tol)
    except (BudgetSpent, KeyboardInterrupt):
        yield factored.last_step(problem, state, working, budget)
        raise


def _begin(
    problem: MultiMetricLMNNProblem, state: State, budget: Budget, start: FloatArray | None, rng: np.random.Generator
) -> Iterator[Step]:
    """Set the factors to start from: what is given, or a single metric, solved roughly or as far as the budget goes."""
    if start is not None:
        L, _ = problem.check_point(start, None)
        state.L = problem.whitened(L)
        return
    tied = problem.tied
    single = State(scaled_start(tied, None, rng)[0][None])
    try:
        if single.L.size:
            for step in factored.approach(OneRegion(tied), single, budget, rng):
                yield replace(step, components=psd.stack([step.components] * problem.n_regions))
    finally:
        state.L = problem.whitened(psd.stack([tied.lift(single.L[0])] * problem.n_regions))


def _leave_single(problem: MultiMetricLMNNProblem, state: State, anchors: IndexArray, budget: Budget) -> None:
    """From one metric for all regions roughly to one for each."""
    single, working = state.L, WorkingSet(problem, anchors, np.float32)
    factored.search(state, working, 0.3, budget)
    descend(state, working, EARLY_WIDTH, budget, Slow(1e-3))
    both = [math.sqrt(1.0 - SINGLE_SHARE) * state.L, math.sqrt(SINGLE_SHARE) * single]
    _, sigma, rows = np.linalg.svd(np.concatenate(both, axis=1), full_matrices=False)
    rank = max(1, int((sigma > NEGLIGIBLE[working.dtype] * sigma.max(axis=1, keepdims=True)).sum(axis=1).max()))
    state.L = np.ascontiguousarray((sigma[:, :, None] * rows)[:, :rank])
