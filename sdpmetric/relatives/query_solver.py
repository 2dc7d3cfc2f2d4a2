"""Maps of queries, by Newton steps in a trust region, or by L-BFGS where the map has many entries.

With ``H_t = q_t (x_t - z_t)^T`` the losses are ``w_t l(margin - <H_t, W>)``. Where l is linear far from 0, the search
begins with ``T l(u / T)`` for a large T, and T falls to 1. A hinge is replaced by ``T h(u / T + s_t) - T s_t^2 / 2``
with the smooth hinge h and slopes ``s_t`` of the step before: the method of multipliers. Slopes a at W are multipliers
that bound the optimum of the smooth sum by ``||f (W - W0) - sum_t a_t H_t||_F^2 / (2 f)`` below its value, as the sum
is strongly convex with modulus f.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from sdpmetric.arrays import FloatArray
from sdpmetric.core.registry import solver
from sdpmetric.core.run import Budget, Step
from sdpmetric.losses import SmoothHinge
from sdpmetric.relatives.query import QueryProblem

# Iterations of the first call of SciPy's method and of the longest; each after an unfinished one has twice as many.
FIRST_ITERATIONS = 25
MOST_ITERATIONS = 1600
# Calls after which the solver gives up, several times what any data measured so far took.
CALLS = 100
# T falls to this share once the gap of the smooth sum is at most `INNER_GAP` of the gap of the sum.
WIDTH_RATIO = 0.2
INNER_GAP = 0.1
# Entries of a map up to which Newton's equations are solved, in 70 ms for 900 entries and 600 triplets.
NEWTON_ENTRIES = 1024
# Pairs of steps and gradients that L-BFGS keeps.
MEMORY = 20


@dataclass
class SmoothSum:
    """The sum with ``T l(u / T + s)``, in coordinates Z, ``W = W0 + Q (scale * Z) R^T``, where curvatures are about 1.

    The last evaluation is in `value`, `objective`, `gap` and `slopes`.
    """

    problem: QueryProblem
    width: float
    center: FloatArray

    def __post_init__(self) -> None:
        problem, w = self.problem, self.problem.terms[0].item_weights
        loss, (q, x) = problem.terms[0].scalar, problem.pairs
        self.scalar = SmoothHinge() if loss.kinked else loss
        self.curvature = 1.0 / (self.width * float(self.scalar.conjugate_curvatures(np.full(1, 0.5))[0]))
        query_moments, self.Q = np.linalg.eigh((q * w[:, None]).T @ q)
        item_moments, self.R = np.linalg.eigh((x * w[:, None]).T @ x)
        products = np.maximum(np.outer(query_moments, item_moments), 0.0) / max(float(w.sum()), 1e-300)
        self.scale = 1.0 / np.sqrt(problem.frobenius + self.curvature * products)
        self.queries, self.items = q @ self.Q, x @ self.R
        self.offset = problem.margin - np.einsum("ij,ij->i", q @ problem.to, x)

    @cached_property
    def rows(self) -> FloatArray:
        """The ``H_t`` in coordinates Z, (t, d^2)."""
        products = self.queries[:, :, None] * self.items[:, None, :] * self.scale
        return np.asarray(products.reshape(len(products), -1))

    def map(self, z: FloatArray) -> FloatArray:
        """W."""
        return np.asarray(self.problem.to + self.Q @ (self.scale * z.reshape(self.scale.shape)) @ self.R.T)

    def coordinates(self, W: FloatArray) -> FloatArray:
        """Z of a map."""
        return np.asarray((self.Q.T @ (W - self.problem.to) @ self.R / self.scale).ravel())

    def at(self, z: FloatArray) -> tuple[float, FloatArray]:
        """The sum and its gradient."""
        loss, f, Z = self.problem.terms[0], self.problem.frobenius, self.scale * z.reshape(self.scale.shape)
        self.excess = self.offset - np.einsum("ij,ij->i", self.queries @ Z, self.items)
        argument, half = self.excess / self.width + self.center, 0.5 * f * float(np.sum(Z * Z))
        self.slopes = self.scalar.slopes(argument, 0.0)
        values = self.scalar.values(argument) - 0.5 * self.center**2
        G = f * Z - (self.queries * (loss.item_weights * self.slopes)[:, None]).T @ self.items
        self.value, self.gap = self.width * float(loss.item_weights @ values) + half, float(np.sum(G * G)) / (2.0 * f)
        self.objective = loss.value(self.excess) + half
        return self.value, (self.scale * G).ravel()

    def hessian(self, z: FloatArray) -> FloatArray:
        """The second derivatives, (d^2, d^2)."""
        self.at(z)
        bent = (self.slopes > 0.0) & (self.slopes < self.scalar.highest)
        rates = self.problem.terms[0].item_weights[bent] / self.scalar.conjugate_curvatures(self.slopes[bent])
        rows = self.rows[bent]
        H = (rows * (rates / self.width)[:, None]).T @ rows
        H[np.diag_indices(len(H))] += self.problem.frobenius * self.scale.ravel() ** 2
        return np.asarray(H)

    def descend(
        self, z: FloatArray, budget: Budget, tol: float, iterations: int
    ) -> tuple[FloatArray, FloatArray, bool]:
        """The best Z of a call of SciPy's method, its multipliers, and whether the gap is small enough."""
        best: tuple[float, FloatArray, FloatArray, bool] = (math.inf, z, np.zeros_like(self.offset), False)

        def evaluate(z: FloatArray) -> tuple[float, FloatArray]:
            nonlocal best
            budget.spend()
            with np.errstate(over="ignore", invalid="ignore"):
                value, gradient = self.at(z)
            if not math.isfinite(self.objective + self.gap):
                raise OverflowError("maps or their slopes are too large for floats")
            if value < best[0]:
                enough = INNER_GAP * max(tol * abs(self.objective), self.objective - value + self.gap)
                best = value, z.copy(), self.problem.terms[0].item_weights * self.slopes, self.gap <= enough
            return value, gradient

        def stop(intermediate_result: OptimizeResult) -> None:
            if best[3]:
                raise StopIteration

        evaluate(z)
        if z.size <= NEWTON_ENTRIES:  # as far as the excess of all triplets goes, at the largest curvature
            weights = self.problem.terms[0].item_weights
            radius = math.sqrt(self.curvature * float(weights @ self.excess**2)) or 1.0
            options = {"initial_trust_radius": radius, "max_trust_radius": 1e6 * radius, "gtol": 0.0}
            method = {"method": "trust-exact", "hess": self.hessian}
        else:
            options = {"maxfun": iterations, "maxcor": MEMORY, "ftol": 0.0, "gtol": 0.0}
            method = {"method": "L-BFGS-B"}
        minimize(evaluate, z, jac=True, callback=stop, options={"maxiter": iterations, **options}, **method)
        return best[1:]


@solver(QueryProblem, "newton", tol=1e-4, rank=1)
def steps(problem: QueryProblem, budget: Budget, tol: float, *, init: FloatArray | None = None) -> Iterator[Step]:
    """Solve a map of queries by Newton's method in a trust region, or by L-BFGS for more than 1,024 entries."""
    yield Step(problem.zero, objective=problem.objective(problem.zero))
    loss, W = problem.terms[0], problem.to if init is None else init.T
    size, last_width = float(np.abs(problem.margin - problem.more_similar(W.T)).mean()), 0.0 if loss.kinked else 1.0
    width = 1.0 if math.isinf(loss.scalar.highest) else max(size, last_width, 1e-300)
    center, iterations = np.zeros(loss.size), FIRST_ITERATIONS
    for _ in range(CALLS):
        smooth = SmoothSum(problem, width, center)
        z, a, settled = smooth.descend(smooth.coordinates(W), budget, tol, iterations)
        W = smooth.map(z)
        yield Step.certified(problem, W.T, a)
        if settled:
            width = max(last_width, WIDTH_RATIO * width)
            if loss.kinked:
                center = a / np.maximum(loss.item_weights, 1e-300)
        else:
            iterations = min(2 * iterations, MOST_ITERATIONS)
