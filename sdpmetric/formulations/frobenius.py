"""LMNN with a Frobenius term as a CVXPY program: as it stands, and the reduced ones of constraint generation."""

from __future__ import annotations

from dataclasses import dataclass

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

from sdpmetric.core.solution import Dual
from sdpmetric.formulations.atoms import metric_variable, triplet_margins
from sdpmetric.formulations.lmnn import MARGINS, SLACKS, lmnn_program
from sdpmetric.formulations.stated import named
from sdpmetric.linalg import psd
from sdpmetric.problems.frobenius import FrobeniusLMNNProblem
from sdpmetric.triplets.margins import margin_adjoint
from sdpmetric.triplets.triplets import Triplets

FloatArray = NDArray[np.float64]


def frobenius_program(problem: FrobeniusLMNNProblem, triplets: Triplets | None = None) -> cp.Problem:
    """The program of LMNN with ``lam / 2 ||M||_F^2`` added; names and labels as there. See `sdpmetric.to_cvxpy`."""
    plain = lmnn_program(problem.base, triplets)
    M = named(plain)["M"]
    return cp.Problem(
        cp.Minimize(plain.objective.expr + 0.5 * problem.frobenius * cp.sum_squares(M)), plain.constraints
    )


@dataclass(frozen=True, eq=False)
class ReducedProgram:
    """The program with every triplet in one of three roles; its optimum is a lower bound of the full one.

    A *free* triplet has its slack. A *violated* one has the hinge ``[u]_+`` replaced by ``u = 1 - <B_t, M>``, a
    *silent* one by 0; both are never above the hinge. Only free triplets need rows.

    Attributes
    ----------
    free, violated : Triplets
        All others are silent.
    program : cvxpy.Problem
        With M divided by `scale` and the objective by `units`.
    scale : float
    units : float
        The push weight.
    ceilings : (t,) array
        Push weight times weight of the violated triplets, their multipliers.
    """

    free: Triplets
    violated: Triplets
    program: cp.Problem
    scale: float
    units: float
    ceilings: FloatArray

    @classmethod
    def of(cls, problem: FrobeniusLMNNProblem, free: Triplets, violated: Triplets, scale: float) -> ReducedProgram:
        """State it; the push weight must be positive.

        Parameters
        ----------
        problem : FrobeniusLMNNProblem
        free, violated : Triplets
            Without a triplet in common.
        scale : float
            About the size of the optimal metric.
        """
        X, mu = problem.base.centered, problem.base.push_weight
        ceilings = mu * problem.base.source.weights_of(violated)
        N, cone = metric_variable(X.shape[1])
        # <C, M> + sum_violated mu w_t (1 - <B_t, M>) + lam / 2 ||M||_F^2, over mu
        linear = (scale / mu) * (problem.linear_cost - margin_adjoint(X, violated, ceilings))
        objective = cp.trace(linear @ N) + ceilings.sum() / mu
        objective += 0.5 * problem.frobenius * scale**2 / mu * cp.sum_squares(N)
        constraints = []
        if len(free):
            xi = cp.Variable(len(free), name="xi")
            objective += problem.base.source.weights_of(free) @ xi
            margins = triplet_margins(scale * N, X, free)
            constraints += [(margins >= 1 - xi).set_label(MARGINS), (xi >= 0).set_label(SLACKS)]
        constraints.append(cone)
        return cls(free, violated, cp.Problem(cp.Minimize(objective), constraints), scale, mu, ceilings)

    @property
    def metric(self) -> FloatArray:
        """The solved M, (d, d), as the solver left it."""
        N: FloatArray = np.asarray(named(self.program)["M"].value)
        return psd.symmetrize(self.scale * N)

    @property
    def dual(self) -> Dual:
        """The multipliers of free and violated triplets, as the solver left them."""
        triplets = Triplets.from_array(np.concatenate([self.free.to_array(), self.violated.to_array()]))
        solved = self.units * np.ravel(named(self.program)[MARGINS].dual_value) if len(self.free) else np.zeros(0)
        return Dual(triplets, np.concatenate([solved, self.ceilings]))
