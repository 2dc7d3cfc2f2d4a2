"""Problems that are smooth in a factor: limited-memory BFGS (L-BFGS) in whitened coordinates, and certificates."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.optimize import minimize

from sdpmetric.arrays import FloatArray
from sdpmetric.core.problem import SmoothProblem
from sdpmetric.core.registry import solver
from sdpmetric.core.run import Budget, BudgetSpent, Step

# Iterations before the first certificate, and the factor by which each next round is longer.
FIRST, GROWTH = 25, 2
# Of the largest eigenvalue of given components, what each of the others gets at least: descent cannot leave rank 0.
FLOOR = 1e-3
# Rounds without progress after which the solver stops.
PATIENCE = 2


@solver(SmoothProblem, "factored", tol=1e-6, default=True)
def steps(problem: SmoothProblem, budget: Budget, tol: float, *, start: FloatArray | None = None) -> Iterator[Step]:
    """Minimise in the factor, ``M = L^T L``, and have the problem certify the point after ever more iterations.

    With a square factor of full rank to begin with, the smooth problems of this package, convex in M, have no local
    minimum in L that is not global; whether one was reached is what the certificate says.
    """
    factor = problem.start() if start is None else _factor_near(problem, start)
    shape = factor.shape
    yield _certified(problem, factor)
    iterations, idle, best = FIRST, 0, np.inf

    def evaluate(flat: FloatArray) -> tuple[float, FloatArray]:
        budget.spend()
        value, gradient = problem.smooth(flat.reshape(shape))
        if value < lowest[0]:
            lowest[0], reached[:] = value, flat
        return value, gradient.ravel()

    while idle < PATIENCE:
        lowest, reached = [np.inf], factor.ravel().copy()
        options = {"maxiter": iterations, "maxfun": 20 * iterations, "maxcor": 30, "ftol": 0.0, "gtol": 0.0}
        try:
            found = minimize(evaluate, factor.ravel(), jac=True, method="L-BFGS-B", options=options)
            factor, value = found.x.reshape(shape), float(found.fun)
        except BudgetSpent:
            yield _certified(problem, reached.reshape(shape))
            raise
        idle = idle + 1 if value >= best - 1e-15 * abs(best) else 0
        best = min(best, value)
        iterations *= GROWTH
        yield _certified(problem, factor)


def _certified(problem: SmoothProblem, factor: FloatArray) -> Step:
    components = problem.lift(factor)
    return Step.certified(problem, components, problem.multipliers(components))


def _factor_near(problem: SmoothProblem, start: FloatArray) -> FloatArray:
    """A square factor of full rank, in the solver's coordinates, near to given components.

    ``lift`` is taken to be linear up to the scale, with further rows for null directions, as it is for the statements
    of this package; of another one this is a start like any other.
    """
    own = problem.start()
    lifted = problem.lift(np.eye(len(own)))[: len(own)]
    factor = np.linalg.lstsq(lifted.T, start.T, rcond=None)[0].T
    eigenvalues, vectors = np.linalg.eigh(factor.T @ factor)
    if not (eigenvalues > 0.0).any():
        return own
    near: FloatArray = np.sqrt(np.maximum(eigenvalues, FLOOR * eigenvalues[-1]))[:, None] * vectors.T
    return near
