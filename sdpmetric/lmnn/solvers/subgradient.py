"""The projected subgradient method of Weinberger and Saul 2009, as printed and in a convergent form: its start.

The loop is in `sdpmetric.lmnn.solvers.gradient_projection`. See ``docs/lmnn_solvers.md``.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Literal

import numpy as np

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation
from sdpmetric.core.certificate import relative_gap
from sdpmetric.core.registry import solver
from sdpmetric.core.steps import Budget, Step
from sdpmetric.linalg import psd
from sdpmetric.lmnn.problem import LargeMarginProblem
from sdpmetric.lmnn.solvers.active_set import Coordinates
from sdpmetric.lmnn.solvers.factored import solved_by_zero
from sdpmetric.lmnn.solvers.gradient_projection import PaperStep, PolyakStep, gradient_projection

StepName = Literal["polyak", "paper"]

# Several metrics start from a single one that is proven to be within this relative gap.
TIED_GAP = 1e-2


@solver(LargeMarginProblem, "subgradient", tol=1e-3)
def steps(
    problem: LargeMarginProblem,
    budget: Budget,
    tol: float,
    *,
    step: StepName = "polyak",
    init: FloatArray | None = None,
    check_every: int | None = None,
) -> Iterator[Step]:
    """Projected subgradients with an active set (Weinberger and Saul 2009, Algorithm 1) [WS2009]."""
    validation.check_choice("step", step, ("polyak", "paper"))
    if check_every is not None:
        validation.check_integer("check_every", check_every)
    start = init if init is not None and init.any() else None  # every triplet is active at the zero metric
    if step == "paper":
        first = problem.euclidean if start is None else start
        yield Step(first)  # line 1
        data = Coordinates(problem, whitened=False)
        yield from gradient_projection(data, problem.stack(first), budget, PaperStep(check_every))
    elif (trivial := solved_by_zero(problem, tol)) is not None:
        yield trivial
    else:
        L = yield from _begin(problem, budget, start)
        yield from gradient_projection(Coordinates(problem), L, budget, PolyakStep(check_every))


def _begin(problem: LargeMarginProblem, budget: Budget, start: FloatArray | None) -> Generator[Step, None, FloatArray]:
    """Factors to start from: a given metric or the whitened one, rescaled; of several a roughly solved single one."""
    tied = problem.tied
    if tied is problem:
        L = np.eye(tied.coordinates.rank) if start is None else tied.pull_cost.whitened(start)
        components = tied.lift(L)
        yield Step(components)
        return tied.best_scale(components) * L[None]
    components = problem.euclidean if start is None else start
    for single in steps(tied, budget, TIED_GAP) if start is None else ():
        components = psd.stack([single.components] * problem.n_regions)
        yield Step(components)
        if relative_gap(single.objective, single.lower_bound) <= TIED_GAP:
            break
    return problem.whitened(components)
