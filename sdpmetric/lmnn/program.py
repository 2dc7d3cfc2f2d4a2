"""LMNN as a CVXPY program, as the paper states it (section 3.4, and Eq. 16 for several metrics)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import cast

import numpy as np
import scipy.sparse as sp

from sdpmetric.arrays import FloatArray, IndexArray
from sdpmetric.core import validation
from sdpmetric.core.certificate import Dual
from sdpmetric.core.registry import formulation
from sdpmetric.core.triplets import Triplets
from sdpmetric.lazy import cvxpy as cp
from sdpmetric.linalg.distances import adjoint
from sdpmetric.lines import Lines
from sdpmetric.lmnn.costs import Push
from sdpmetric.lmnn.problem import LargeMarginProblem
from sdpmetric.lmnn.written import MARGINS, SLACKS, chosen_triplets, lines, metric_names
from sdpmetric.programs.atoms import metric_variable, squared_distances, triplet_margins
from sdpmetric.programs.exact_program import ExactProgram, Point, named, printed

# Names of the parameters.
PUSH_WEIGHT, RIDGE = "push_weight", "ridge"


@formulation(LargeMarginProblem)
def state(problem: LargeMarginProblem, *, triplets: Triplets | None = None, parametric: bool = False) -> ExactProgram:
    chosen = chosen_triplets(problem.push, triplets)
    program = _program(problem, chosen, parametric)

    def read() -> Point:
        metrics = np.stack([named(program)[name].value for name in metric_names(problem.push)])
        return Point(problem.squeeze(metrics), dual_of(program, chosen))

    return ExactProgram(program, read)


def _program(problem: LargeMarginProblem, chosen: Triplets, parametric: bool) -> cp.Problem:
    X, push = problem.centered, problem.push
    mu: cp.Parameter | float = problem.push_weight
    rho: cp.Parameter | float = problem.ridge
    if parametric:
        mu = _push_weight()(name=PUSH_WEIGHT, value=mu, nonneg=True)
        rho = cp.Parameter(name=RIDGE, value=rho, nonneg=True)
    metrics, cones = zip(*(metric_variable(X.shape[1], name) for name in metric_names(push)), strict=True)
    loss, constraints = hinges(metrics, [X] * len(metrics), push, chosen)
    # (1 - mu) sum_ij w_i (x_i - x_j)' M (x_i - x_j), ridge, and mu sum_ijl (1 - y_il) xi_ijl
    objective = mu * loss
    (first, second), pull_weights = problem.target_pairs, push.source.target_weights()
    for region, M in enumerate(metrics):
        m = push.regions[second] == region
        objective += (1 - mu) * cp.trace(adjoint(X, first[m], second[m], pull_weights[m]) @ M)
        if parametric or problem.ridge:
            objective += rho * cp.trace(M)

    def shown() -> Lines:
        weight, ridge = (float(w.value) if isinstance(w, cp.Parameter) else w for w in (mu, rho))
        return lines(replace(push, weight=weight), ridge, chosen)

    return printed(cp.Minimize(objective), [*constraints, *cones], shown)  # (3) M is PSD


@cache
def _push_weight() -> type[cp.Parameter]:
    class PushWeight(cp.Parameter):
        """A parameter between 0 and 1; CVXPY does not check bounds of parameters whose sign is known."""

        @property
        def value(self) -> float | None:
            return cast(float | None, cp.Parameter.value.fget(self))

        @value.setter
        def value(self, value: float | None) -> None:
            if value is not None:
                validation.check_share(PUSH_WEIGHT, value)
            cp.Parameter.value.fset(self, value)

    return PushWeight


def dual_of(program: cp.Problem, triplets: Triplets) -> Dual | None:
    margins = [c for c in program.constraints if c.label == MARGINS]
    return Dual(triplets, np.ravel(margins[0].dual_value)) if margins else None


def hinges(
    metrics: Sequence[cp.Expression], points: Sequence[FloatArray], push: Push, triplets: Triplets
) -> tuple[cp.Expression, list[cp.Constraint]]:
    """The loss of some triplets over slacks named ``xi``, push weight left out, and the constraints on the slacks."""
    if not len(triplets):
        return cp.Constant(0.0), []
    xi, weights = cp.Variable(len(triplets), name="xi"), push.source.weights_of(triplets)
    loss = cp.sum_squares(cp.multiply(np.sqrt(weights), xi)) if push.squared else weights @ xi
    if push.n_regions == 1:
        margins = triplet_margins(metrics[0], points[0], triplets)
    else:
        pairs = (triplets.anchors, triplets.impostors), (triplets.anchors, triplets.targets)
        impostor_D, target_D = (_distances(metrics, points, push.regions, *pair) for pair in pairs)
        margins = impostor_D - target_D
    return loss, [
        # (1) (x_i - x_l)' M (x_i - x_l) - (x_i - x_j)' M (x_i - x_j) >= 1 - xi_ijl
        (margins >= 1 - xi).set_label(MARGINS),
        (xi >= 0).set_label(SLACKS),  # (2) xi_ijl >= 0
    ]


def _distances(
    metrics: Sequence[cp.Expression],
    points: Sequence[FloatArray],
    regions: IndexArray,
    first: IndexArray,
    second: IndexArray,
) -> cp.Expression:
    """Squared distance of every pair under the metric of its second member's region."""
    by_region = []
    for region, (M, X) in enumerate(zip(metrics, points, strict=True)):
        rows = np.flatnonzero(regions[second] == region)
        if len(rows):
            pairs, column = np.unique(np.stack([first[rows], second[rows]], axis=1), axis=0, return_inverse=True)
            pick = sp.csr_array((np.ones(len(rows)), (rows, column.ravel())), shape=(len(first), len(pairs)))
            by_region.append(pick @ squared_distances(M, X, pairs))
    return cp.sum(by_region)
