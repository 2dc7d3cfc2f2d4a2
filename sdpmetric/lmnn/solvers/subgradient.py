"""The projected subgradient method of Weinberger and Saul 2009, as printed and so that it converges: where it starts.

The loop is in `sdpmetric.lmnn.solvers.gradient_projection`. See ``docs/lmnn_solvers.md``.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation
from sdpmetric.core.certificate import relative_gap
from sdpmetric.core.registry import solver
from sdpmetric.core.steps import Budget, Step
from sdpmetric.linalg import psd
from sdpmetric.linalg.distances import distances
from sdpmetric.lmnn.problem import LargeMarginProblem, LMNNProblem, without_frobenius
from sdpmetric.lmnn.solvers.active_set import Coordinates
from sdpmetric.lmnn.solvers.factored import solved_by_zero
from sdpmetric.lmnn.solvers.gradient_projection import PaperStep, PolyakStep, gradient_projection
from sdpmetric.lmnn.triplets.margins import hinge_slopes

StepName = Literal["polyak", "paper"]


@dataclass(frozen=True)
class StartOptions:
    """Where the loop starts."""

    tied_gap: float = 1e-2  # several metrics start from a single one that is proven to be within this relative gap
    first_distance: float = 8.0  # the scale search begins with targets this far apart, in margins: few hinges there
    anchors: int = 500  # that the scale search looks at


OPTIONS = StartOptions()


@solver(LargeMarginProblem, "subgradient", tol=1e-3, takes=without_frobenius)
def steps(
    problem: LargeMarginProblem,
    budget: Budget,
    tol: float,
    *,
    step: StepName = "polyak",
    init: ArrayLike | None = None,
    check_every: int | None = None,
) -> Iterator[Step]:
    """Projected subgradients with an active set (Weinberger and Saul 2009, Algorithm 1) [WS2009]."""
    validation.check_choice("step", step, ("polyak", "paper"))
    if check_every is not None:
        validation.check_integer("check_every", check_every)
    start = None if init is None else problem.check_point(init, None)[0]
    if start is not None and not start.any():  # every triplet is active at the zero metric
        start = None
    return _steps(problem, budget, tol, step, start, check_every)


def _steps(
    problem: LargeMarginProblem,
    budget: Budget,
    tol: float,
    step: StepName,
    start: FloatArray | None,
    check_every: int | None,
) -> Iterator[Step]:
    first = problem.euclidean if start is None else start
    if step == "paper":
        yield Step(first)  # line 1
        yield from gradient_projection(
            Coordinates.of_data(problem), problem.stack(first), budget, PaperStep(check_every)
        )
    elif (trivial := solved_by_zero(problem, tol)) is not None:
        yield trivial
    else:
        L = yield from _begin(problem, budget, start)
        yield from gradient_projection(Coordinates.whitened(problem), L, budget, PolyakStep(check_every))


def _begin(problem: LargeMarginProblem, budget: Budget, start: FloatArray | None) -> Generator[Step, None, FloatArray]:
    """Factors to start from: a given metric or the whitened one, rescaled; of several a roughly solved single one."""
    tied = problem.tied
    if tied is problem:
        L = np.eye(tied.coordinates.rank) if start is None else tied.pull_cost.whitened(start)
        yield Step(tied.lift(L))
        return _rescaled(tied, L, budget, keep=start is not None)[None]
    components = problem.euclidean if start is None else start
    for single in steps(tied, budget, OPTIONS.tied_gap) if start is None else ():
        components = psd.stack([single.components] * problem.n_regions)
        yield Step(components)
        if relative_gap(single.objective, single.lower_bound) <= OPTIONS.tied_gap:
            break
    return problem.whitened(components)


def _rescaled(problem: LMNNProblem, L: FloatArray, budget: Budget, *, keep: bool) -> FloatArray:
    """The multiple of a factor that costs least, found on some of the anchors."""
    Z = problem.points @ L.T
    anchors = np.unique(problem.target_pairs[0])
    among = anchors[:: -(-len(anchors) // OPTIONS.anchors)]
    share = len(among) / len(anchors)
    reference = float(distances(Z, *problem.target_pairs).mean()) or float(np.square(Z).sum(axis=1).mean())
    if reference == 0:
        return L

    def objective(log_scale: float) -> float:
        budget.spend(0)
        scale = math.exp(log_scale)
        embedded = Z * math.sqrt(scale)
        sums, _ = hinge_slopes(embedded, problem.candidates(embedded, among=among), 0.0, problem.squared)
        return scale * share * float(np.sum(L * L)) + problem.push_weight * sums.loss

    # From large to small: small metrics make every triplet active.
    first = math.log(OPTIONS.first_distance / reference)
    values = {first: objective(first)}
    for direction in (math.log(2), -math.log(2)):
        scale = first
        while len(values) < 60:
            values[scale + direction] = objective(scale + direction)
            if values[scale + direction] >= values[scale]:
                break
            scale += direction
        if scale != first:
            break
    lowest = min(values, key=values.__getitem__)
    bracket = lowest - math.log(2), lowest + math.log(2)
    best = minimize_scalar(objective, bounds=bracket, method="bounded", options={"xatol": 0.01})
    if keep and objective(0.0) <= 1.01 * best.fun:
        return L
    return L * math.exp(0.5 * float(best.x))
