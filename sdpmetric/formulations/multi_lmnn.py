"""Multi-metric LMNN as a CVXPY program, Eq. 16 of Weinberger and Saul (2009)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sdpmetric.formulations.atoms import metric_variable, squared_distances
from sdpmetric.formulations.lmnn import MARGINS, MAX_ENTRIES, MAX_ROWS, SLACKS, all_triplets
from sdpmetric.linalg.distances import adjoint
from sdpmetric.problems.multi_lmnn import MultiMetricLMNNProblem
from sdpmetric.triplets.triplets import Triplets

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class MultiMetricProgram:
    """A program with the variables that solvers read.

    Attributes
    ----------
    program : cvxpy.Problem
    metrics : list of cvxpy.Variable
        M0, M1 and so on, one for each region.
    margins : cvxpy.Constraint or None
        Its dual values are the multipliers of the triplets.
    """

    program: cp.Problem
    metrics: list[cp.Variable]
    margins: cp.Constraint | None


def multi_lmnn_program(problem: MultiMetricLMNNProblem, triplets: Triplets | None = None) -> cp.Problem:
    """Eq. 16 of the paper in the data's own coordinates; see `sdpmetric.to_cvxpy`."""
    X, mu, n_metrics = problem.tied.centered, problem.push_weight, problem.n_regions
    d = X.shape[1]
    rows = problem.source.size if triplets is None else len(triplets)
    if rows > MAX_ROWS or rows * d * (d + 1) > MAX_ENTRIES:
        raise ValueError(
            f"the program would have {rows:,} triplets with up to {d * (d + 1):,} entries each; it is stated up to "
            f"{MAX_ROWS:,} triplets and {MAX_ENTRIES:,} entries. Pass triplets= with fewer of them, reduce the "
            "dimension, or use solve(problem, solver='conic'), which finds the triplets that matter."
        )
    kept = all_triplets(problem.tied) if triplets is None else triplets
    first, second = problem.target_pairs
    own = [problem.regions[second] == region for region in range(n_metrics)]
    pulls = [adjoint(X, first[o], second[o], np.ones(int(o.sum()))) for o in own]
    costs = [(1 - mu) * pull + problem.ridge * np.eye(d) for pull in pulls]
    return stated([X] * n_metrics, costs, problem, kept, push_weight=mu).program


def stated(
    points: Sequence[FloatArray],
    costs: Sequence[FloatArray],
    problem: MultiMetricLMNNProblem,
    triplets: Triplets,
    *,
    push_weight: float,
    unit: float = 1.0,
) -> MultiMetricProgram:
    """The program over some triplets, in given coordinates of each region.

    Parameters
    ----------
    points : sequence of (n, rank) arrays
    costs : sequence of (rank, rank) arrays
        Matrices C of the linear cost ``<C, M>``.
    problem : MultiMetricLMNNProblem
        Gives the regions and the loss.
    triplets : Triplets
    push_weight : float
    unit : float, default 1
        The variables are the metrics divided by this.
    """
    variables, cones = zip(*(metric_variable(P.shape[1], f"M{region}") for region, P in enumerate(points)), strict=True)
    # (1 - mu) sum_ij (x_i - x_j)' M^(r_j) (x_i - x_j), and the ridge
    objective = cp.sum([unit * cp.trace(C @ M) for C, M in zip(costs, variables, strict=True)])
    constraints, margins = [], None
    if len(triplets):
        xi = cp.Variable(len(triplets), name="xi")
        objective += push_weight * (cp.sum_squares(xi) if problem.squared else cp.sum(xi))
        # (x_i - x_l)' M^(r_l) (x_i - x_l) - (x_i - x_j)' M^(r_j) (x_i - x_j) >= 1 - xi_ijl
        far = _distances(variables, points, problem.regions, triplets.anchors, triplets.impostors)
        near = _distances(variables, points, problem.regions, triplets.anchors, triplets.targets)
        margins = (unit * (far - near) >= 1 - xi).set_label(MARGINS)
        constraints += [margins, (xi >= 0).set_label(SLACKS)]
    return MultiMetricProgram(cp.Problem(cp.Minimize(objective), [*constraints, *cones]), list(variables), margins)


def _distances(
    variables: Sequence[cp.Variable],
    points: Sequence[FloatArray],
    regions: NDArray[np.int32],
    first: NDArray[np.int32],
    second: NDArray[np.int32],
) -> cp.Expression:
    """Squared distance of every pair under the metric of its second member's region."""
    parts = []
    for region, (M, X) in enumerate(zip(variables, points, strict=True)):
        rows = np.flatnonzero(regions[second] == region)
        if len(rows):
            pairs, place = np.unique(np.stack([first[rows], second[rows]], axis=1), axis=0, return_inverse=True)
            pick = sp.csr_array((np.ones(len(rows)), (rows, place.ravel())), shape=(len(first), len(pairs)))
            parts.append(pick @ squared_distances(M, X, pairs))
    return cp.sum(parts)
