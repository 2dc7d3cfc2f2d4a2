"""LMNN with a metric of bounded rank: L-BFGS on the rectangular factor, from the full metric's leading eigenvectors."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation
from sdpmetric.core.certificate import DualityCertificate
from sdpmetric.core.registry import solver
from sdpmetric.core.solution import Solution
from sdpmetric.core.steps import Budget, Step, until_closed
from sdpmetric.linalg import psd
from sdpmetric.lmnn.problem import LMNNProblem
from sdpmetric.lmnn.solvers import factored
from sdpmetric.lmnn.solvers.factored import SlowDecrease, State, descend
from sdpmetric.lmnn.solvers.working_set import WorkingSet


@dataclass(frozen=True)
class LowRankOptions:
    """Levels of the descent in a rectangular factor."""

    widths: tuple[float, ...] = (0.1, 0.1, 0.03, 0.03, 0.01, 0.003, 0.001)  # of the smoothing, in margins
    attempts: int = 4  # at each width, with more candidates each time


OPTIONS = LowRankOptions()


@solver(LMNNProblem, "low_rank", tol=1e-3, relaxed=True, engines=True)
def steps(
    problem: LMNNProblem,
    budget: Budget,
    tol: float,
    *,
    n_components: int = 1,
    full: Solution | None = None,
    init: FloatArray | None = None,
    random_state: int = 0,
) -> Iterator[Step]:
    """Solve LMNN with a metric of bounded rank (Weinberger and Saul 2009, section 5.4), from the full solution.

    The leading eigenvectors of the full solution come first (LMNN-S there), then L-BFGS on the rectangular factor
    (LMNN-R). The problem is not convex; the full problem's lower bound bounds it all the same. Eigenvectors are those
    in the problem's whitened coordinates, `problem.points`, which weigh the omitted part by its pull cost; those of
    `Solution.leading` are in the coordinates of the data, as in the paper, and differ. Without `full`, the problem is
    solved first by "factored", from `init`.
    """
    validation.check_integer("n_components", n_components, high=problem.X.shape[1])
    if null_dimension := problem.coordinates.null.shape[1]:
        raise ValueError(
            f"n_components has no meaning here: {null_dimension} directions have no pull cost, and the metric needs "
            "them all; reduce the dimension first, for example by PCA, or pass a small ridge, before bounding the rank."
        )
    if full is None:
        of_all_ranks = factored.steps(problem, budget, tol, init=init, random_state=random_state)
        for best, bound in until_closed(of_all_ranks, tol):
            cut = problem.lift(_leading(problem, best.components, n_components))
            yield Step(cut, lower_bound=bound.lower_bound, multipliers=bound.multipliers)
    elif init is not None:
        raise ValueError("full= is the solution to start from: leave it or init= out.")
    elif (
        full.problem is None
        or full.problem.fingerprint() != problem.fingerprint()
        or full.certificate.kind != DualityCertificate.kind
    ):
        raise ValueError("full= must solve this problem, with the same data and parameters and no bound on the rank.")
    else:
        components = np.asarray(full.components, dtype=np.float64)
        best = bound = Step.of_certificate(components, full.certificate, full.dual)
    if len(best.components) > n_components:
        yield from descend_at_rank(problem, budget, best, bound, n_components)
    elif best.certificate is not None:
        yield best
    else:
        yield Step.certified(problem, best.components, None if bound.multipliers is None else bound.multipliers())


def _leading(problem: LMNNProblem, components: FloatArray, n_components: int) -> FloatArray:
    """Return the leading eigenvectors on the problem's points, (1, r, rank)."""
    return np.asarray(psd.leading(problem.whitened(components)[0], n_components), dtype=np.float64)[None]


def descend_at_rank(problem: LMNNProblem, budget: Budget, best: Step, bound: Step, n_components: int) -> Iterator[Step]:
    """Descend in LMNN-S, then LMNN-R at ever smaller smoothing widths, from the best point of unbounded rank."""
    working = WorkingSet(problem)
    state = State(problem, budget, _leading(problem, best.components, n_components))

    def step(gamma: float) -> Step:
        state.L = working.search(state.L, 0.3)
        value = working.value(state.L, 1.0 if math.isnan(gamma) else gamma)
        return Step(
            state.components,
            objective=value.objective,
            lower_bound=bound.lower_bound,
            multipliers=bound.multipliers,
            step_size=gamma,
            n_active=value.n_active,
        )

    yield step(math.nan)
    for gamma in OPTIONS.widths if state.L.size else ():
        start, value, widen = state.L, working.value(state.L, gamma).smoothed, 0.3
        for _ in range(OPTIONS.attempts):
            reason = descend(state, working, gamma, SlowDecrease(1e-6))
            searched_step = replace(step(gamma), stop=reason)
            if working.value(state.L, gamma).smoothed < value:
                yield searched_step
                break
            # The step went beyond the candidates of its search: once more, with those that it met and a wider margin.
            widen *= 2.0
            state.L = working.search(start, widen)
