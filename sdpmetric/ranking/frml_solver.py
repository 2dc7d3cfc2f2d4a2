"""FRML by stochastic gradient steps on matrices of fixed rank, or from its convex relaxation, cut to that rank.

Steps stop early by the rankings of queries held out. The relaxation is solved with a proof and improved after the cut.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sdpmetric import ranking
from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation
from sdpmetric.core.certificate import Multipliers
from sdpmetric.core.registry import formulation, solver
from sdpmetric.core.status import Status
from sdpmetric.core.steps import Budget, Step, until_closed
from sdpmetric.engine.threads import BudgetSpent
from sdpmetric.linalg import psd
from sdpmetric.linalg.distances import mean_squared_distance
from sdpmetric.lmnn.solvers import factored, low_rank
from sdpmetric.lmnn.solvers.reduced_program import state
from sdpmetric.programs.exact_program import ExactProgram
from sdpmetric.ranking.frml import FRMLProblem
from sdpmetric.ranking.frml_stream import FRMLStream
from sdpmetric.ranking.relevance import Relevance


@solver(FRMLProblem, "riemannian", tol=1e-2, rank=1)
def steps(
    problem: FRMLProblem,
    budget: Budget,
    tol: float,
    *,
    step: float = 10.0,
    decay: float = 0.1,
    batch_size: int = 5,
    passes: int = 50,
    validation_share: float = 0.1,
    stop_after: int = 5,
    init: FloatArray | None = None,
    random_state: int | None = None,
) -> Iterator[Step]:
    """Run `FRMLStream` over the problem's own queries, pass after pass, and keep the metric that ranks best."""
    share = validation.check_number("validation_share", validation_share, 0.0, 0.9)
    for name, value in (("step", step), ("decay", decay)):
        validation.check_number(name, value, 0.0)
    for name, count in (("batch_size", batch_size), ("passes", passes), ("stop_after", stop_after)):
        validation.check_integer(name, count)
    # Fourth powers of distances occur: a power of two as the unit keeps them in range and changes no digit.
    unit = 2.0 ** round(math.log2(validation.check_spread(problem.X)) / 2)
    X = np.asarray(problem.X, dtype=np.float64) / unit
    Q = None if problem.queries is None else np.asarray(problem.queries, dtype=np.float64) / unit
    training, held_out = _split(problem.relevance, share, 0 if random_state is None else random_state)
    items = training if Q is None else np.arange(len(X))
    related = problem.relevance.subset(training, items)
    spread = mean_squared_distance(X)
    # By 20 margins, mean squared, two items differ at the start: hinges of near items only are positive.
    stream = FRMLStream(
        X.shape[1],
        problem.n_components,
        loss=problem.loss,
        gamma=problem.gamma,
        regularization=problem.regularization,
        step=step / spread / spread,
        decay=decay * batch_size / max(1, len(related.queries)),
        batch_size=batch_size,
        scale=problem.scale,
        init=principal(X, problem.n_components, 20.0) if init is None else unit * np.asarray(init),
        random_state=random_state,
    )
    ranked = problem.relevance.subset(held_out, items) if len(held_out) else None
    best, best_score, idle = stream.components.copy(), -math.inf, 0
    for number in range(passes + 1):
        if number:
            evaluations = stream.n_evaluations
            try:
                stream.partial_fit(X[items], related, None if Q is None else Q[training])
            except (BudgetSpent, KeyboardInterrupt):
                if number == 1:  # in the first pass, before anything has ranked the metric
                    yield Step(stream.components / unit)
                raise
            budget.spend(stream.n_evaluations - evaluations)
        score = math.nan
        if ranked is not None:
            from_rows = X[held_out] if Q is None else Q[held_out]
            score = ranking.evaluate(X[items], ranked, from_rows, components=stream.components, ks=()).map
        idle = 0 if not score <= best_score else idle + 1
        if idle == 0:
            best, best_score = stream.components.copy(), score
        ended = Status.STOPPED_EARLY if idle >= stop_after else Status.USER_LIMIT if number == passes else None
        length = stream.step / (1.0 + stream.decay * stream.n_updates) / unit**2 / unit**2
        extras: dict[str, float] = {"mistakes": stream.mistakes}
        yield Step(best / unit, step_size=length, extras=extras, score=score, status=ended)
        if ended is Status.STOPPED_EARLY:
            return


def _split(relevance: Relevance, share: float, random_state: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return rows of the queries to learn from and of those held out, both increasing."""
    # Queries that are held out at most: ranking them takes time, and their mean is known well enough.
    count = min(500, int(share * relevance.n_queries))
    order = validation.generator(random_state).permutation(relevance.n_queries)
    return np.sort(order[count:]), np.sort(order[:count])


def principal(X: ArrayLike, n_components: int, size: float) -> FloatArray:
    """Return the leading principal components, an orthogonal factor of full rank, scaled to a mean squared distance."""
    data = np.asarray(X, dtype=np.float64)
    _, vectors = np.linalg.eigh(np.cov(data, rowvar=False).reshape(data.shape[1], data.shape[1]))
    L = np.ascontiguousarray(vectors.T[::-1][:n_components])
    mean_distance = mean_squared_distance(data @ L.T)
    return math.sqrt(size / mean_distance) * L if mean_distance > 0.0 else L


# Relative gap of the relaxation's solution: a larger gap is then due to the rank.
RELAXATION_TOLERANCE = 1e-4


@solver(FRMLProblem, "relaxed", tol=1e-3, takes=lambda problem: problem.loss == "auc" and problem.regularization > 0)
def relaxed_steps(problem: FRMLProblem, budget: Budget, tol: float) -> Iterator[Step]:
    """Solve `FRMLProblem.relaxation`, take its leading eigenvectors, then descend in the factor by L-BFGS.

    The relaxation has this problem's objective at every metric, so LMNN with a metric of bounded rank (LMNN-R,
    `sdpmetric.lmnn.solvers.low_rank`) is this problem, and the relaxation's lower bound holds for it.
    """

    def leading(components: FloatArray) -> FloatArray:
        return np.asarray(psd.leading(components, problem.n_components), dtype=np.float64)

    def slopes_at(components: FloatArray) -> Callable[[], Multipliers]:
        return lambda: problem.relaxation.constraints(components, None).dual

    # Wherever a limit comes, slopes prove a lower bound.
    yield Step(problem.start, multipliers=slopes_at(problem.start))
    convex = problem.relaxation
    for best, bound in until_closed(factored.steps(convex, budget, RELAXATION_TOLERANCE), RELAXATION_TOLERANCE):
        multipliers = bound.multipliers or slopes_at(best.components)
        yield Step(leading(best.components), lower_bound=bound.lower_bound, multipliers=multipliers)
    L = leading(best.components)
    yield Step(L, objective=problem.objective(L), lower_bound=bound.lower_bound, multipliers=bound.multipliers)
    if len(best.components) > problem.n_components and not convex.coordinates.null.shape[1]:
        yield from low_rank.descend_at_rank(convex, budget, best, bound, problem.n_components)


@formulation(FRMLProblem, exact=False)
def state_relaxation(problem: FRMLProblem) -> ExactProgram:
    """Return the program of FRML's relaxation, for the AUC loss."""
    return state(problem.relaxation)
