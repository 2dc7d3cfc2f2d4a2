"""LMNN with a metric of bounded rank: L-BFGS on the rectangular factor, from the full metric's leading eigenvectors."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from sdpmetric.core.registry import rank_bound
from sdpmetric.core.run import Budget, Step
from sdpmetric.core.solution import Solution
from sdpmetric.linalg import psd
from sdpmetric.problems.lmnn import LMNNProblem
from sdpmetric.solvers.lmnn.factored import Slow, State, descend
from sdpmetric.solvers.lmnn.working_set import WorkingSet

# Smoothing widths of a metric of bounded rank, and how often each is tried with more candidates.
WIDTHS, TRIES = (0.1, 0.1, 0.03, 0.03, 0.01, 0.003, 0.001), 4


def _check(problem: LMNNProblem) -> None:
    if free := problem.coordinates.null.shape[1]:
        raise ValueError(
            f"n_components has no meaning here: {free} directions have no pull cost, and the metric needs them all; "
            "reduce the dimension first, for example by PCA, or pass a small ridge, before bounding the rank."
        )


@rank_bound(LMNNProblem, _check)
def steps(problem: LMNNProblem, budget: Budget, full: Solution, n_components: int) -> Iterator[Step]:
    """LMNN with a metric of bounded rank (Weinberger and Saul 2009, section 5.4), from the full solution.

    The leading eigenvectors of the full solution come first (LMNN-S there), then L-BFGS on the rectangular factor
    (LMNN-R). The problem is not convex; the full problem's lower bound bounds it all the same. Eigenvectors are those
    in the problem's whitened coordinates, `problem.points`, where what is cut off is weighed by its pull cost; those of
    `Solution.leading` are in the coordinates of the data, as in the paper, and differ.
    """
    dual = full.dual
    working = WorkingSet(problem, np.arange(len(problem.X), dtype=np.int32))
    whitened = problem.whitened(np.asarray(full.components, dtype=np.float64))[0]
    state = State(np.asarray(psd.leading(whitened, n_components), dtype=np.float64)[None])

    def search(widen: float) -> None:
        working.accepted = None  # a metric between two of them would be of higher rank
        state.L = working.search(state.L, widen)

    def step(gamma: float) -> Step:
        search(0.3)
        value = working.value(state.L, 1.0 if math.isnan(gamma) else gamma)
        return Step(
            problem.lift(state.L),
            value.objective,
            full.lower_bound,
            None if dual is None else lambda: dual,
            step=gamma,
            n_active=value.n_active,
        )

    yield step(math.nan)
    for gamma in WIDTHS if state.L.size else ():
        before, value, widen = state.L, working.value(state.L, gamma).smoothed, 0.3
        for _ in range(TRIES):
            descend(state, working, gamma, budget, Slow(1e-6))
            row = step(gamma)
            if working.value(state.L, gamma).smoothed < value:
                yield row
                break
            # The step went beyond the candidates of its search: once more, with those that it met and a wider margin.
            state.L, widen = before, 2.0 * widen
            search(widen)
