"""A problem class of your own
===========================

The smallest metric under which some pairs are at least 1 apart, as a class with a solver, a
certificate and a program.

With D the squared distances of the pairs, ``tr M + w sum_p [1 - D_p]_+`` is minimized. For
multipliers ``0 <= a_p <= w`` with ``sum_p a_p v_p v_p' <= I``, where v is the difference of a
pair, every metric has an objective of at least ``sum_p a_p``. Any multipliers become dual
feasible when they are clipped and divided by the largest eigenvalue of that sum. The picture
shows optima and proven bounds along the weight.
"""

from dataclasses import dataclass
from functools import cached_property

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

import sdpmetric as sm
from sdpmetric.core.certificate import check_multipliers
from sdpmetric.core.constraints import Constraints
from sdpmetric.core.steps import Step
from sdpmetric.losses import Hinge, Weighted
from sdpmetric.programs import ExactProgram, Point

WIDTH = 1e-4  # of the smoothed hinge


@dataclass(eq=False, repr=False)
class ApartProblem(sm.Problem):
    """Pairs at least 1 apart, by the smallest metric."""

    X: np.ndarray
    pairs: np.ndarray
    weight: float = 1.0

    statement = "apart"
    weights = ("weight",)

    @cached_property
    def differences(self):
        return self.centered[self.pairs[:, 0]] - self.centered[self.pairs[:, 1]]

    def describe(self):
        return (
            f"Apart: {len(self.X)} examples, {len(self.pairs)} pairs, weight {self.weight:g}"
        )

    def distances(self, L):
        return np.sum((self.differences @ L.T) ** 2, axis=1)

    def objective(self, components=None, *, metric=None):
        L, _ = self.check_point(components, metric)
        return float(
            np.sum(L**2) + self.weight * np.maximum(1.0 - self.distances(L), 0.0).sum()
        )

    def certify(self, components=None, *, metric=None, dual=None):
        L, residual = self.check_point(components, metric)
        given = (
            self.multipliers(L)
            if dual is None
            else check_multipliers(dual, (len(self.pairs),), "multipliers")
        )
        a = np.clip(given, 0.0, self.weight)
        top = np.linalg.eigvalsh((self.differences.T * a) @ self.differences)[-1] * (
            1.0 + 1e-12
        )
        a = a / max(top, 1.0)
        return sm.DualityCertificate(
            objective=self.objective(L),
            lower_bound=float(a.sum()),
            program="Apart",
            primal_residual=residual,
            n_active=int(np.count_nonzero(self.distances(L) < 1.0)),
            constraints="pairs",
        )

    def multipliers(self, components):
        return self.weight * np.clip((1.0 - self.distances(components)) / WIDTH, 0.0, 1.0)

    def smooth(self, flat):
        L = flat.reshape(-1, self.X.shape[1])
        u, a = 1.0 - self.distances(L), self.multipliers(L)
        value = np.sum(L**2) + float(a @ u) - 0.5 * WIDTH * float(a @ a) / self.weight
        return float(value), 2.0 * (
            L - L @ ((self.differences.T * a) @ self.differences)
        ).ravel()

    # for explain
    def constraints(self, components, dual):
        a = np.clip(self.multipliers(components) if dual is None else dual, 0.0, self.weight)
        a = a / max(
            np.linalg.eigvalsh((self.differences.T * a) @ self.differences)[-1], 1.0
        )  # as in certify
        D, (first, second) = self.distances(components), self.pairs.T
        return Constraints(
            dual=a,
            roles={"first": first, "second": second},
            multipliers=a,
            excess=1.0 - D,
            loss=Weighted(Hinge(), np.full(len(a), self.weight)),
            stretch=[
                (first, second, D)
            ],  # distances that are to be larger; -D for smaller ones
            slopes={"weight": float(np.maximum(1.0 - D, 0.0).sum())},
            margin=True,
        )


# a solver: after ever more iterations the problem certifies the point and its multipliers
@sm.solver(ApartProblem, "factored", tol=1e-6, rank=1)
def descend(problem, budget, tol):
    L, iterations = np.eye(problem.X.shape[1]), 25
    while True:
        yield Step.certified(problem, L, problem.multipliers(L))
        budget.spend()
        L = minimize(
            problem.smooth,
            L.ravel(),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": iterations},
        ).x
        L, iterations = L.reshape(-1, problem.X.shape[1]), 2 * iterations


# for the solver "conic", and for to_cvxpy
@sm.formulation(ApartProblem)
def program(problem, *, scaled=False):
    M, cone = sm.metric_variable(problem.X.shape[1])
    xi = cp.Variable(len(problem.pairs), name="xi")
    margins = sm.squared_distances(M, problem.X, problem.pairs) >= 1 - xi
    objective = cp.Minimize(cp.trace(M) + problem.weight * cp.sum(xi))
    stated = cp.Problem(objective, [margins, xi >= 0, cone])
    return ExactProgram(stated, lambda: Point(M.value, np.ravel(margins.dual_value)))


# %%
# Solve it by both solvers, verify another metric, and explain the answer.
rng = np.random.default_rng(0)
problem = ApartProblem(rng.normal(size=(40, 3)), rng.integers(0, 40, size=(30, 2)), weight=0.1)
fast = sm.solve(problem, tol=1e-3)
exact = sm.solve(problem, solver="conic")
print(sm.compare(fast, exact).verdict)
print(sm.verify(problem, metric=np.eye(3), rescale=True))
print(sm.explain(exact))

# %%
# The optimum against the weight.
weights = [0.02, 0.05, 0.1, 0.2, 0.4]
solutions = sm.path(problem, weight=weights, tol=1e-3)
_, axis = plt.subplots(figsize=(6, 3.4), layout="constrained")
axis.plot(weights, [solution.objective for solution in solutions], "o-", label="objective")
axis.plot(
    weights, [solution.lower_bound for solution in solutions], "--", label="proven bound"
)
axis.set(xlabel="weight of the hinges", ylabel="optimum")
axis.legend()
plt.show()
