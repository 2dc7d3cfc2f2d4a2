"""LMNN as a CVXPY program (section 3.4 of the paper, and Eq. 16 for several metrics), with rows for some triplets.

A *free* triplet has a slack, and its multiplier is solved for. One *at its bound* has the hinge ``[u]_+`` replaced by
``u = 1 - <B_t, M>``; its multiplier is ``mu w_t``. The hinges of all others are replaced by 0, and so are their
multipliers. Neither replacement is ever above the hinge, and the optimum is that of the full program once no hinge
differs from what replaces it. Metrics ``Q N Q^T`` on a *face* Q are fewer still: the face is enough once the full dual
slack is PSD.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import cast

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from sdpmetric.arrays import FloatArray, IndexArray
from sdpmetric.core import validation
from sdpmetric.core.certificate import Dual
from sdpmetric.core.registry import formulation
from sdpmetric.core.triplets import Triplets
from sdpmetric.engine.lazy import cached
from sdpmetric.lazy import cvxpy as cp
from sdpmetric.linalg import psd
from sdpmetric.linalg.distances import adjoint
from sdpmetric.lines import Lines
from sdpmetric.lmnn.costs import Push, list_triplets
from sdpmetric.lmnn.impostors import TooManyCandidates, collect
from sdpmetric.lmnn.problem import LargeMarginProblem
from sdpmetric.lmnn.solvers.hinges import Hinges
from sdpmetric.lmnn.written import MARGINS, SLACKS, chosen_triplets, lines, metric_names
from sdpmetric.programs.atoms import metric_variable, squared_distances, triplet_margins
from sdpmetric.programs.exact_program import ExactProgram, Point, named, printed

# Names of the parameters.
PUSH_WEIGHT, RIDGE = "push_weight", "ridge"


@formulation(LargeMarginProblem)
def state(problem: LargeMarginProblem, *, triplets: Triplets | None = None, parametric: bool = False) -> ExactProgram:
    X, push, chosen = problem.centered, problem.push, chosen_triplets(problem.push, triplets)
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

    program = printed(cp.Minimize(objective), [*constraints, *cones], shown)  # (3) M is PSD

    def read() -> Point:
        return Point(problem.squeeze(np.stack([M.value for M in metrics])), dual_of(program, chosen))

    return ExactProgram(program, read)


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
    """Return the loss of some triplets over slacks ``xi``, without the push weight, and the slacks' constraints."""
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
    """Return the squared distance of every pair under the metric of its second member's region."""
    by_region = []
    for region, (M, X) in enumerate(zip(metrics, points, strict=True)):
        rows = np.flatnonzero(regions[second] == region)
        if len(rows):
            pairs, column = np.unique(np.stack([first[rows], second[rows]], axis=1), axis=0, return_inverse=True)
            pick = sp.csr_array((np.ones(len(rows)), (rows, column.ravel())), shape=(len(first), len(pairs)))
            by_region.append(pick @ squared_distances(M, X, pairs))
    return cp.sum(by_region)


@dataclass(frozen=True)
class ReductionOptions:
    """How large the first reduced programs are; searches add what they lack."""

    small: int = 2000  # most triplets that are all free
    # Otherwise this number to begin with, and more for each dimension of the cones: the optimal multipliers strictly
    # inside their box are about as many as the dimension of the optimal face, which is less.
    free: int = 500
    free_per_dimension: float = 0.5
    full_cone: int = 64  # cones up to this dimension are stated without a face
    face_margin: int = 22  # directions of a face beyond the rank of the metric
    slope_width: float = 0.01  # smoothing width, in margins, of the slopes that find the first free triplets


OPTIONS = ReductionOptions()


def violated(
    problem: LargeMarginProblem, Z: FloatArray, groups: IndexArray | None = None, widen: float = 0.0
) -> Triplets:
    """Search for the triplets with a hinge that may be active at embedded points, or nearly so, up to the limit.

    Impostors are of the anchor's group, (c n,), or any if None.
    """
    push = problem.push
    try:
        search = (block for _, block in push.blocks_by_region(Z, groups, widen=widen))
        blocks = collect(search, push.source.capacity)
    except TooManyCandidates as many:  # the rest is for later rounds
        blocks = many.blocks
    triplets = Triplets.join(*(list_triplets(block) for block in blocks))
    return triplets[push.source.weights_of(triplets) > 0]


@dataclass(frozen=True, eq=False)
class ReducedProgram:
    """A reduced program of LMNN; a point is factors, (c, r, rank), of metrics in whitened coordinates.

    It is in units that divide M by `unit` and the objective by the push weight: there the multipliers lie between
    0 and their weights, which is what a solver's absolute tolerances are made for.
    """

    problem: LargeMarginProblem
    free: Triplets
    at_bound: Triplets
    faces: Sequence[FloatArray]  # (rank, q) each: a metric is ``Q N Q^T``
    unit: float = 1.0

    @classmethod
    def around(cls, problem: LargeMarginProblem, L: FloatArray) -> ReducedProgram:
        """Free the triplets nearest to their kink at a point; the rest beyond the kink is at its bound."""
        push, Z, entries = problem.push, _embedded(problem, L), L.shape[2] * (L.shape[2] + 1) // 2
        is_small, at_bound = push.source.size <= OPTIONS.small, Triplets.join()
        free = violated(problem, 0.0 * Z if is_small else Z, problem.null_groups, 0.5)
        u = 1.0 - push.margins(Z, free)
        if len(free) > OPTIONS.small and not push.squared:
            order = np.argsort(np.abs(u), kind="stable")
            nearest, beyond = np.split(order, [OPTIONS.free + int(OPTIONS.free_per_dimension * len(L) * entries)])
            free, at_bound, u = free[nearest], free[beyond[u[beyond] > 0]], u[nearest]
        # The slopes of smoothed hinges stand for the multipliers.
        shares = np.concatenate([np.clip(u / OPTIONS.slope_width, 0.0, 1.0), np.ones(len(at_bound))])
        triplets = Triplets.join(free, at_bound)
        return cls(problem, free, at_bound, _faces(problem, L, Dual(triplets, push.ceilings(triplets) * shares)))

    def separated(self, L: FloatArray, dual: Dual) -> ReducedProgram:
        """Free the triplets whose hinge is not its replacement: at the bound but inactive, or left out but violated."""
        push, n, Z, stated = self.problem.push, len(self.problem.X), _embedded(self.problem, L), self._triplets
        new = violated(self.problem, Z, self.problem.null_groups)
        new = new[(push.margins(Z, new) < 1.0) & ~np.isin(new.keys(n), stated.keys(n))]
        inactive = push.margins(Z, self.at_bound) > 1.0
        free = Triplets.join(self.free, new, self.at_bound[inactive])
        return replace(self, free=free, at_bound=self.at_bound[~inactive], faces=_faces(self.problem, L, dual))

    def freed(self, L: FloatArray) -> ReducedProgram:
        """Free triplets at their bound, those first that are the least violated at a point."""
        order = np.argsort(1.0 - self.problem.push.margins(_embedded(self.problem, L), self.at_bound), kind="stable")
        freed, bounded = np.split(order, [max(OPTIONS.small, 2 * len(self.free))])
        free = Triplets.join(self.free, self.at_bound[freed])
        return replace(self, free=free, at_bound=self.at_bound[bounded])

    @cached
    def program(self) -> cp.Problem:
        push, points = self.problem.push, self.problem.points
        if push.squared and len(self.at_bound):
            raise ValueError("multipliers of the squared hinge have no upper bound; make the triplets free.")
        weights = push.source.weights_of(self.at_bound)
        margin_sums = Hinges.of_triplets(push, points, self.at_bound).margin_sums(weights[:, None])
        stated = (metric_variable(Q.shape[1], name) for Q, name in zip(self.faces, metric_names(push), strict=True))
        variables, cones = zip(*stated, strict=True)
        # trace(M) + mu sum_at_bound w_t (1 - <B_t, M>) + mu sum_free w_t xi_t, over mu
        points_on_faces = [P @ Q for P, Q in zip(np.split(points, push.n_regions), self.faces, strict=True)]
        loss, constraints = hinges([self.unit * N for N in variables], points_on_faces, push, self.free)
        objective = loss + float(weights.sum())
        for N, Q, B in zip(variables, self.faces, margin_sums, strict=True):
            objective += cp.trace(self.unit * (Q.T @ (np.eye(len(B)) / push.weight - B) @ Q) @ N)
        return cp.Problem(cp.Minimize(objective), [*constraints, *cones])

    @property
    def _triplets(self) -> Triplets:
        return Triplets.join(self.free, self.at_bound)

    @property
    def has_whole_cones(self) -> bool:
        return all(len(Q) == Q.shape[1] for Q in self.faces)

    @property
    def factors(self) -> FloatArray:
        """The solved metrics, as the solver left them."""
        metrics = [named(self.program)[name].value for name in metric_names(self.problem.push)]
        return psd.stack(
            [psd.factor(Q @ (self.unit * np.asarray(N)) @ Q.T) for Q, N in zip(self.faces, metrics, strict=True)]
        )

    @property
    def dual(self) -> Dual:
        """The multipliers of free triplets, as the solver left them, and of those at their bound."""
        push, solved = self.problem.push, dual_of(self.program, self.free)
        values = [] if solved is None else [push.weight * solved.values]
        return Dual(self._triplets, np.concatenate([*values, push.ceilings(self.at_bound)]))


def _embedded(problem: LargeMarginProblem, L: FloatArray) -> FloatArray:
    return problem.push.blocks.times(problem.points, np.swapaxes(L, 1, 2)).astype(np.float64, copy=False)


def _faces(problem: LargeMarginProblem, L: FloatArray, dual: Dual) -> list[FloatArray]:
    """Return the subspaces that the next metrics may use: the whole spaces if that is cheap."""
    if L.shape[2] <= OPTIONS.full_cone:
        return [np.eye(L.shape[2])] * len(L)
    margin_sums = Hinges.of_triplets(problem.push, problem.points, dual.triplets).margin_sums(dual.values[:, None])
    return [_face(factor, B) for factor, B in zip(L, margin_sums, strict=True)]


def _face(L: FloatArray, margin_sum: FloatArray) -> FloatArray:
    """Return the range of the metric, and the directions of the smallest dual slack, ``I - sum_t a_t B_t``.

    Where the slack has negative eigenvalues the metric has too little.
    """
    _, sigma, rows = np.linalg.svd(L, full_matrices=False)
    used = rows[sigma > 3e-3 * sigma.max(initial=0.0)].T
    rank = len(margin_sum)
    _, vectors = scipy.linalg.eigh(margin_sum, subset_by_index=(max(0, rank - OPTIONS.face_margin), rank - 1))
    # Even a small component of such a direction outside the range turns the subspace.
    return np.asarray(np.linalg.qr(np.concatenate([used, vectors], axis=1))[0])
