"""Maps of queries by Newton steps in a trust region, whose equations are solved by conjugate gradients.

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

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from sdpmetric.arrays import FloatArray
from sdpmetric.core.registry import solver
from sdpmetric.core.steps import Budget, Step
from sdpmetric.engine.interface import check_deadline
from sdpmetric.losses import SmoothHinge
from sdpmetric.relatives.query import QueryProblem


@dataclass(frozen=True)
class QueryOptions:
    max_widths: int = 100  # calls of SciPy's method
    steps: int = 200  # Newton steps of a call at most
    width_ratio: float = 0.2  # T falls to this share of itself
    inner_gap: float = 0.1  # once the gap of the smooth sum is at most this share of that of the sum
    conjugate_steps: int = 20  # of conjugate gradients for each unknown; in exact arithmetic 1 suffices


OPTIONS = QueryOptions()


@dataclass
class SmoothSum:
    """The sum with ``T l(u / T + s)``, in coordinates Z, ``W = W0 + Q (scale * Z) R^T``, where curvatures are about 1.

    The last evaluation is in `value`, `objective`, `gap` and `slopes`.
    """

    problem: QueryProblem
    width: float
    center: FloatArray

    def __post_init__(self) -> None:
        problem, self.weights = self.problem, self.problem.terms[0].item_weights
        loss, (q, x), w = problem.terms[0].scalar, problem.pairs, self.weights
        self.scalar = SmoothHinge() if loss.kinked else loss
        self.curvature = 1.0 / (self.width * float(self.scalar.conjugate_curvatures(np.full(1, 0.5))[0]))
        query_moments, self.Q = np.linalg.eigh((q * w[:, None]).T @ q)
        item_moments, self.R = np.linalg.eigh((x * w[:, None]).T @ x)
        products = np.maximum(np.outer(query_moments, item_moments), 0.0) / max(float(w.sum()), 1e-300)
        self.scale = 1.0 / np.sqrt(problem.frobenius + self.curvature * products)
        self.queries, self.items = q @ self.Q, x @ self.R
        self.offset = problem.margin - np.einsum("ij,ij->i", q @ problem.to, x)

    def map(self, z: FloatArray) -> FloatArray:
        return np.asarray(self.problem.to + self.Q @ (self.scale * z.reshape(self.scale.shape)) @ self.R.T)

    def coordinates(self, W: FloatArray) -> FloatArray:
        return np.asarray((self.Q.T @ (W - self.problem.to) @ self.R / self.scale).ravel())

    def similarities(self, Z: FloatArray) -> FloatArray:
        """``<H_t, W - W0>`` of each triplet, (t,), from ``scale * Z``."""
        return np.asarray(np.einsum("ij,ij->i", self.queries @ Z, self.items))

    def weighted(self, Z: FloatArray, multipliers: FloatArray) -> FloatArray:
        """``f (W - W0) - sum_t a_t H_t`` in the coordinates of ``scale * Z``."""
        return np.asarray(self.problem.frobenius * Z - (self.queries * multipliers[:, None]).T @ self.items)

    def evaluate(self, z: FloatArray) -> tuple[float, FloatArray]:
        f, Z = self.problem.frobenius, self.scale * z.reshape(self.scale.shape)
        self.point, self.n_products = z.copy(), 0
        self.excess = self.offset - self.similarities(Z)
        argument, half = self.excess / self.width + self.center, 0.5 * f * float(np.sum(Z * Z))
        self.slopes = self.scalar.slopes(argument, 0.0)
        values = self.scalar.values(argument) - 0.5 * self.center**2
        G = self.weighted(Z, self.weights * self.slopes)
        self.value, self.gap = self.width * float(self.weights @ values) + half, float(np.sum(G * G)) / (2.0 * f)
        self.objective = self.problem.terms[0].value(self.excess) + half
        return self.value, (self.scale * G).ravel()

    def hessian_product(self, z: FloatArray, direction: FloatArray) -> FloatArray:
        check_deadline()
        if not np.array_equal(z, self.point):
            self.evaluate(z)
        self.n_products += 1
        if self.n_products > OPTIONS.conjugate_steps * len(z):
            raise FloatingPointError("conjugate gradients do not converge in floating point")
        Z = self.scale * direction.reshape(self.scale.shape)
        product = np.asarray((self.scale * self.weighted(Z, -self.second_derivatives * self.similarities(Z))).ravel())
        if not np.isfinite(product).all():
            raise OverflowError("second derivatives are too large for floats")
        return product

    @property
    def second_derivatives(self) -> FloatArray:
        """How fast the multipliers rise with the excess, (t,)."""
        curved = (self.slopes > 0.0) & (self.slopes < self.scalar.highest)
        derivatives = np.zeros_like(self.slopes)
        derivatives[curved] = self.weights[curved] / self.scalar.conjugate_curvatures(self.slopes[curved]) / self.width
        return derivatives

    def descend(self, z: FloatArray, budget: Budget, tol: float) -> tuple[FloatArray, FloatArray, bool]:
        """The best Z of a call of SciPy's method, its multipliers, and whether the gap is small enough."""
        best: tuple[float, FloatArray, FloatArray, bool] = (math.inf, z, np.zeros_like(self.offset), False)

        def evaluate(z: FloatArray) -> tuple[float, FloatArray]:
            nonlocal best
            budget.spend()
            value, gradient = self.evaluate(z)
            if not math.isfinite(self.objective + self.gap + float(np.abs(gradient).max(initial=0.0))):
                raise OverflowError("maps or their slopes are too large for floats")
            if value < best[0]:
                sufficient = OPTIONS.inner_gap * max(tol * abs(self.objective), self.objective - value + self.gap)
                best = value, z.copy(), self.weights * self.slopes, self.gap <= sufficient
            return value, gradient

        def stop(intermediate_result: OptimizeResult) -> None:
            if best[3]:
                raise StopIteration

        evaluate(z)  # the first radius: as far as the excess of all triplets goes, at the largest curvature
        radius = math.sqrt(self.curvature * float(self.weights @ self.excess**2)) or 1.0
        options = {
            "initial_trust_radius": radius,
            "max_trust_radius": 1e6 * radius,
            "gtol": 0.0,
            "maxiter": OPTIONS.steps,
        }
        product = self.hessian_product
        try:
            minimize(evaluate, z, jac=True, hessp=product, method="trust-ncg", callback=stop, options=options)
        except FloatingPointError:  # SciPy's inner loop cannot reach its tolerance in floats: keep the best point
            pass
        except ValueError as error:  # SciPy's norms refuse numbers that are not finite
            raise OverflowError("steps are too large for floats") from error
        return best[1:]


@solver(QueryProblem, "newton", tol=1e-4, rank=1)
def steps(problem: QueryProblem, budget: Budget, tol: float, *, init: FloatArray | None = None) -> Iterator[Step]:
    """Solve a map of queries by Newton's method in a trust region."""
    yield Step(problem.zero, objective=problem.objective(problem.zero))
    loss, W = problem.terms[0], problem.to if init is None else init.T
    size, last_width = float(np.abs(problem.margin - problem.more_similar(W.T)).mean()), 0.0 if loss.kinked else 1.0
    width = 1.0 if math.isinf(loss.scalar.highest) else max(size, last_width, 1e-300)
    center = np.zeros(loss.size)
    for _ in range(OPTIONS.max_widths):
        smooth = SmoothSum(problem, width, center)
        z, a, converged = smooth.descend(smooth.coordinates(W), budget, tol)
        W = smooth.map(z)
        yield Step.certified(problem, W.T, a)
        if converged:
            width = max(last_width, OPTIONS.width_ratio * width)
            if loss.kinked:
                center = a / np.maximum(loss.item_weights, 1e-300)
