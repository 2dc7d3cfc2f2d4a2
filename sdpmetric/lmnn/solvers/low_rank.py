"""LMNN with a metric of bounded rank: L-BFGS on the rectangular factor, from the full metric's leading eigenvectors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation
from sdpmetric.core.certificate import DualityCertificate, Multipliers
from sdpmetric.core.registry import solver
from sdpmetric.core.run import Run
from sdpmetric.core.solution import Solution
from sdpmetric.core.status import Status
from sdpmetric.core.steps import Budget, Step
from sdpmetric.engine.interface import BudgetSpent
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
    """LMNN with a metric of bounded rank (Weinberger and Saul 2009, section 5.4), from the full solution.

    The leading eigenvectors of the full solution come first (LMNN-S there), then L-BFGS on the rectangular factor
    (LMNN-R). The problem is not convex; the full problem's lower bound bounds it all the same. Eigenvectors are those
    in the problem's whitened coordinates, `problem.points`, where what is cut off is weighed by its pull cost; those of
    `Solution.leading` are in the coordinates of the data, as in the paper, and differ. Without `full`, the problem is
    solved first by "factored", from `init`.
    """
    validation.check_integer("n_components", n_components, high=problem.X.shape[1])
    if null_dimension := problem.coordinates.null.shape[1]:
        raise ValueError(
            f"n_components has no meaning here: {null_dimension} directions have no pull cost, and the metric needs "
            "them all; reduce the dimension first, for example by PCA, or pass a small ridge, before bounding the rank."
        )
    interrupted = False
    if full is None:
        run = Run(problem, budget, tol)
        full = run.over(factored.steps(problem, budget, tol, init=init, random_state=random_state))
        interrupted = run.status is Status.INTERRUPTED  # also where the point is proven all the same
    elif init is not None:
        raise ValueError("full= is the solution to start from: leave it or init= out.")
    elif (
        full.problem is None
        or full.problem.fingerprint() != problem.fingerprint()
        or full.certificate.kind != DualityCertificate.kind
    ):
        raise ValueError("full= must solve this problem, with the same data and parameters and no bound on the rank.")
    if len(full.components) > n_components:
        descent = descend_at_rank(problem, budget, full, n_components)
    else:
        components = np.asarray(full.components, dtype=np.float64)
        descent = iter([Step.of_certificate(components, full.certificate, full.dual)])
    yield from unless_interrupted(interrupted, descent)


def unless_interrupted(interrupted: bool, steps: Iterator[Step]) -> Iterator[Step]:
    """Steps that go on from a solve; the first one alone where that was interrupted, as a point of its rank."""
    try:
        for step in steps:
            yield step
            if interrupted:
                raise KeyboardInterrupt
    except BudgetSpent:
        if interrupted:
            raise KeyboardInterrupt from None
        raise


def multipliers_of(solution: Solution) -> Callable[[], Multipliers] | None:
    dual = solution.dual
    return None if dual is None else lambda: dual


def descend_at_rank(problem: LMNNProblem, budget: Budget, full: Solution, n_components: int) -> Iterator[Step]:
    """LMNN-S, then LMNN-R at ever smaller smoothing widths."""
    working = WorkingSet(problem)
    whitened = problem.whitened(np.asarray(full.components, dtype=np.float64))[0]
    L = np.asarray(psd.leading(whitened, n_components), dtype=np.float64)[None]
    state = State(problem, budget, L)

    def search(widen: float) -> None:
        working.accepted = None  # a metric between two of them would be of higher rank
        state.L = working.search(state.L, widen)

    def step(gamma: float) -> Step:
        search(0.3)
        value = working.value(state.L, 1.0 if math.isnan(gamma) else gamma)
        return Step(
            state.components,
            objective=value.objective,
            lower_bound=full.lower_bound,
            multipliers=multipliers_of(full),
            step_size=gamma,
            n_active=value.n_active,
        )

    yield step(math.nan)
    for gamma in OPTIONS.widths if state.L.size else ():
        start, value, widen = state.L, working.value(state.L, gamma).smoothed, 0.3
        for _ in range(OPTIONS.attempts):
            descend(state, working, gamma, SlowDecrease(1e-6))
            searched_step = step(gamma)
            if working.value(state.L, gamma).smoothed < value:
                yield searched_step
                break
            # The step went beyond the candidates of its search: once more, with those that it met and a wider margin.
            state.L, widen = start, 2.0 * widen
            search(widen)
