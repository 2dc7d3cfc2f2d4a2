"""NCA and MLKR by L-BFGS-B, with all sums in full, and the scale of its start."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation
from sdpmetric.core.named import Init, named_components
from sdpmetric.core.registry import solver
from sdpmetric.core.status import Status
from sdpmetric.core.steps import Budget, Step
from sdpmetric.engine.threads import BudgetSpent
from sdpmetric.linalg.search import Stop, lbfgs
from sdpmetric.nca.soft_neighbors import SoftNeighborProblem

# Mean squared norms of the embedding among which a start is scaled.
SIZES = tuple(0.5 * 4.0**k for k in range(7))


def start_of(problem: SoftNeighborProblem) -> FloatArray:
    """Return components by the rules of scikit-learn, at the scale of `rescaled`."""
    validation.check_spread(problem.X)  # before it is centered
    how: Init = "identity" if problem.diagonal else "auto"
    L = named_components(how, problem.rows, problem.row_classes, problem.n_components)
    return rescaled(problem, L)


def unsaturated(problem: SoftNeighborProblem, components: FloatArray) -> FloatArray:
    """Return components as they are, or rescaled if the softmax of every sampled example is saturated.

    Then the gradient vanishes, and descent cannot improve a start.
    """
    deciding = sample_of(problem)

    def is_saturated(L: FloatArray) -> bool:
        return not problem.stationarity(L, problem.value_and_gradient(L, deciding)[1]) > 1e-5

    if not is_saturated(components) or not (problem.rows @ components.T).any():
        return components
    rescaled_components = rescaled(problem, components)
    return components if is_saturated(rescaled_components) else rescaled_components


def sample_of(problem: SoftNeighborProblem) -> NDArray[np.integer]:
    """Return up to 500 examples that represent all for the choice of a start."""
    return np.random.default_rng(0).permutation(len(problem.X))[:500]


def rescaled(problem: SoftNeighborProblem, components: FloatArray) -> FloatArray:
    """Return the components at a scale that lets descent get far.

    If distances are small, all neighbors are equally likely; if they are large, only the nearest neighbor counts, and
    descent stops at once. The smallest scale that yields most of the best scale's gain is chosen.
    """
    size = float(np.mean(np.sum((problem.rows @ components.T) ** 2, axis=1)))
    deciding = sample_of(problem)
    scaled = [np.sqrt(wanted / size) * components for wanted in SIZES]
    values = np.array([problem.value_and_gradient(factor, deciding)[0] for factor in [0.0 * components, *scaled]])
    # The smallest scale is taken that gains at least this share of the largest gain over a factor of zeros.
    acceptable = values[0] - 0.75 * max(values[0] - values.min(), 0.0)
    best: FloatArray = scaled[int(np.argmax(values[1:] <= acceptable))]
    return best


@solver(SoftNeighborProblem, "lbfgs", tol=1e-5, rank=1)
def steps(
    problem: SoftNeighborProblem,
    budget: Budget,
    tol: float,
    *,
    init: FloatArray | None = None,
    iterations: int | None = None,
    accuracy: float = 1e-9,
    on_iteration: Callable[[FloatArray, float], None] | None = None,
) -> Iterator[Step]:
    L = start_of(problem) if init is None else init
    yield Step(L)
    shape, best, reached, stationarity = L.shape, np.inf, L, np.inf

    def free_entries(factor: FloatArray) -> FloatArray:
        return np.diag(factor).copy() if problem.diagonal else factor.ravel()

    def factor_of(entries: FloatArray) -> FloatArray:
        return np.diag(entries) if problem.diagonal else entries.reshape(shape).copy()

    def evaluate(flat: FloatArray) -> tuple[float, FloatArray]:
        nonlocal best, reached, stationarity
        budget.spend()
        factor = factor_of(flat)
        if not np.isfinite(factor).all():
            raise OverflowError("components are too large for floats")
        value, gradient = problem.value_and_gradient(factor)
        if value <= best:
            best, reached, stationarity = value, factor, problem.stationarity(factor, gradient)
        return value, free_entries(gradient)

    def stop(flat: FloatArray, value: float) -> Stop:
        if on_iteration is not None:
            on_iteration(factor_of(flat).ravel(), best)
        return Stop.TOLERANCE if iterations is None and stationarity <= tol else Stop.NONE

    idle, limit = 0, 50
    while idle < 2:  # rounds without progress
        before = best
        options: dict[str, float] = {"maxiter": limit, "maxfun": 20 * limit}
        if iterations is not None:
            options = {"maxiter": iterations, "maxcor": 10, "ftol": accuracy, "gtol": accuracy}
        try:
            minimum, reason = lbfgs(evaluate, free_entries(L), stop=stop, **options)
        except (BudgetSpent, KeyboardInterrupt):
            yield Step(reached, objective=best)
            raise
        if iterations is not None:
            ended = Status.STATIONARY if minimum.success else Status.USER_LIMIT if minimum.status == 1 else None
            factor = factor_of(minimum.x)
            yield Step(factor, objective=float(minimum.fun), status=ended)
            return
        L = reached  # a line search may end in a flat region although it has evaluated a better point
        yield Step(L, objective=best, stop=reason)
        if stationarity <= tol:
            return
        idle = idle + 1 if best >= before - 1e-15 * abs(before) else 0
        limit *= 2
