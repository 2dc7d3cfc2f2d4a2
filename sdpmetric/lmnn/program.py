"""LMNN as a CVXPY program, as the paper states it (section 3.4, and Eq. 16 for several metrics)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from sdpmetric.arrays import FloatArray, IndexArray
from sdpmetric.core import validation
from sdpmetric.core.certificate import Dual
from sdpmetric.core.registry import formulation
from sdpmetric.core.triplets import Triplets
from sdpmetric.lazy import cvxpy as cp
from sdpmetric.linalg.distances import adjoint
from sdpmetric.lmnn.problem import LargeMarginProblem
from sdpmetric.lmnn.push import Push
from sdpmetric.lmnn.readable import PUSH, is_readable, readable_program
from sdpmetric.programs.atoms import metric_variable, squared_distances, triplet_margins
from sdpmetric.programs.exact_program import ExactProgram, Point, named

# Beyond either size a program with one row per triplet raises an error: rows, and stored entries of the margin matrix.
MAX_ROWS = 500_000
MAX_ENTRIES = 100_000_000

# Labels of the constraints, the paper's numbers in section 3.4 beside them.
MARGINS, SLACKS = "margins", "slacks"
# Names of the parameters.
PUSH_WEIGHT, RIDGE = "push_weight", "ridge"


@formulation(LargeMarginProblem)
def state(problem: LargeMarginProblem, *, triplets: Triplets | None = None, parametric: bool = False) -> ExactProgram:
    chosen = chosen_triplets(problem, triplets)
    program = _program(problem, chosen, parametric)

    def read() -> Point:
        metrics = np.stack([named(program)[name].value for name in _names(problem)])
        return Point(problem.squeeze(metrics), dual_of(program, chosen))

    return ExactProgram(program, read)


def _program(problem: LargeMarginProblem, chosen: Triplets, parametric: bool) -> cp.Problem:
    X = problem.centered
    mu, rho = _weight(PUSH_WEIGHT, problem.push_weight, parametric), _weight(RIDGE, problem.ridge, parametric)
    names = _names(problem)
    metrics, cones = zip(*(metric_variable(X.shape[1], name) for name in names), strict=True)
    if is_readable(chosen):
        return readable_program(problem.push, chosen, metrics, cones, {PUSH_WEIGHT: mu, RIDGE: rho})
    loss, constraints = hinges(metrics, [X] * len(metrics), problem.push, chosen)
    # (1 - mu) sum_ij w_i (x_i - x_j)' M (x_i - x_j), ridge, and mu sum_ijl (1 - y_il) xi_ijl
    objective = mu * loss
    (first, second), pull_weights = problem.target_pairs, problem.push.source.target_weights()
    for region, M in enumerate(metrics):
        m = problem.push.regions[second] == region
        objective += (1 - mu) * cp.trace(adjoint(X, first[m], second[m], pull_weights[m]) @ M)
        if parametric or problem.ridge:
            objective += rho * cp.trace(M)
    return cp.Problem(cp.Minimize(objective), [*constraints, *cones])  # (3) M is PSD


def _names(problem: LargeMarginProblem) -> list[str]:
    return ["M"] if problem.tied is problem else [f"M{region}" for region in range(problem.n_regions)]


def dual_of(program: cp.Problem, triplets: Triplets) -> Dual | None:
    margins = [c for c in program.constraints if c.label and (c.label == MARGINS or c.label.startswith(f"{PUSH}["))]
    return Dual(triplets, np.concatenate([np.ravel(c.dual_value) for c in margins])) if margins else None


def chosen_triplets(problem: LargeMarginProblem, triplets: Triplets | None) -> Triplets:
    d, rows = problem.X.shape[1], problem.push.source.size if triplets is None else len(triplets)
    entries = min(problem.n_regions, 2) * d * (d + 1) // 2
    if rows > MAX_ROWS or rows * entries > MAX_ENTRIES:
        raise ValueError(
            f"the program would have {rows:,} triplets with {entries:,} entries each; it is stated up to "
            f"{MAX_ROWS:,} triplets and {MAX_ENTRIES:,} entries. Pass triplets= with fewer of them, reduce the "
            "dimension, or use solve(problem, solver='conic'), which finds the triplets that matter."
        )
    return problem.push.all_triplets() if triplets is None else _check_members(problem, triplets)


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


def _weight(name: str, value: float, parametric: bool) -> cp.Parameter | float:
    return cp.Parameter(nonneg=True, name=name, value=value) if parametric else value


def _check_members(problem: LargeMarginProblem, triplets: Triplets) -> Triplets:
    n = len(problem.X)
    triplets = validation.check_triplets(triplets, n)
    if len(np.unique(triplets.keys(n))) < len(triplets):
        raise ValueError("triplets names a triplet twice; give each once.")
    foreign = problem.push.source.weights_of(triplets) == 0
    if foreign.any():
        i, j, l = triplets.to_array()[foreign][0].tolist()
        raise ValueError(f"triplet (anchor {i}, target {j}, impostor {l}) has no weight in the problem; leave it out.")
    return triplets
