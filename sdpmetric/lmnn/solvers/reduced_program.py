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
import scipy.sparse as sp

from sdpmetric.arrays import FloatArray, IndexArray
from sdpmetric.core import validation
from sdpmetric.core.certificate import Dual
from sdpmetric.core.registry import formulation
from sdpmetric.core.triplets import Triplets
from sdpmetric.engine.lazy import cached
from sdpmetric.lazy import cvxpy as cp
from sdpmetric.linalg.distances import adjoint
from sdpmetric.lines import Lines
from sdpmetric.lmnn.costs import Push, list_triplets
from sdpmetric.lmnn.impostors import TooManyCandidates
from sdpmetric.lmnn.problem import LargeMarginProblem
from sdpmetric.lmnn.solvers.active_set import Coordinates
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


@dataclass(frozen=True, eq=False)
class ReducedProgram:
    """A reduced program of LMNN or a relative.

    It is in units that divide M by `unit` and the objective by the push weight: there the multipliers lie between
    0 and their weights, which is what a solver's absolute tolerances are made for.
    """

    free: Triplets
    at_bound: Triplets
    program: cp.Problem
    variables: Sequence[cp.Variable]  # N, the metrics divided by `unit`, on the faces
    unit: float
    push: Push
    faces: Sequence[FloatArray]  # (rank, q) each: a metric is ``Q N Q^T``

    @property
    def value(self) -> float:
        return self.push.weight * float(self.program.value)

    @property
    def metrics(self) -> list[FloatArray]:
        """The solved metrics, (rank, rank) each, as the solver left them."""
        return [Q @ (self.unit * np.asarray(N.value)) @ Q.T for Q, N in zip(self.faces, self.variables, strict=True)]

    @property
    def dual(self) -> Dual:
        """The multipliers of free triplets, as the solver left them, and of those at their bound."""
        margins = [c for c in self.program.constraints if c.label == MARGINS]
        solved = [self.push.weight * np.ravel(c.dual_value) for c in margins]
        triplets = Triplets.join(self.free, self.at_bound)
        return Dual(triplets, np.concatenate([*solved, self.push.ceilings(self.at_bound)]))


@dataclass(frozen=True, eq=False)
class Reduction:
    """Reduced programs of LMNN; a point is factors, (c, r, rank), of metrics in whitened coordinates."""

    problem: LargeMarginProblem
    whitened: bool = True

    @property
    def push(self) -> Push:
        return self.problem.push

    @cached
    def coordinates(self) -> Coordinates:
        return Coordinates(self.problem, self.whitened)

    def program(
        self, unit: float, free: Triplets, at_bound: Triplets, faces: Sequence[FloatArray] | None = None
    ) -> ReducedProgram:
        push, points = self.push, self.coordinates.points
        if push.squared and len(at_bound):
            raise ValueError("multipliers of the squared hinge have no upper bound; make the triplets free.")
        weights = push.source.weights_of(at_bound)
        margin_sums = push.adjoint(points, at_bound, weights)
        faces = [np.eye(points.shape[1])] * push.n_regions if faces is None else faces
        stated = (metric_variable(Q.shape[1], name) for Q, name in zip(faces, metric_names(push), strict=True))
        variables, cones = zip(*stated, strict=True)
        # <C, M> + mu sum_at_bound w_t (1 - <B_t, M>) + mu sum_free w_t xi_t, over mu
        points_on_faces = [P @ Q for P, Q in zip(np.split(points, push.n_regions), faces, strict=True)]
        loss, constraints = hinges([unit * N for N in variables], points_on_faces, push, free)
        objective = loss + float(weights.sum())
        for N, Q, C, B in zip(variables, faces, self.coordinates.costs, margin_sums, strict=True):
            objective += cp.trace(unit * (Q.T @ (C / push.weight - B) @ Q) @ N)
        program = cp.Problem(cp.Minimize(objective), [*constraints, *cones])
        return ReducedProgram(free, at_bound, program, variables, unit, push, faces)

    def excess(self, L: FloatArray, triplets: Triplets) -> FloatArray:
        """Return ``u = 1 - <B_t, M>`` of triplets, (t,)."""
        return 1.0 - self.push.margins(self.coordinates.embed(L), triplets)

    def violated(self, L: FloatArray, widen: float = 0.0) -> Triplets:
        """Search for the triplets with a hinge that may be active at a point, or nearly so, up to the limit."""
        push, everybody = self.push, np.arange(len(self.problem.X), dtype=np.int32)
        try:
            max_pairs = push.source.capacity(everybody)
            blocks = [
                push.candidates(self.coordinates.embed(L), self.coordinates.groups, widen=widen, max_pairs=max_pairs)
            ]
        except TooManyCandidates as many:  # the rest is for later rounds
            blocks = many.blocks
        triplets = Triplets.join(*(list_triplets(push.as_examples(block)) for block in blocks))
        return triplets[push.source.weights_of(triplets) > 0]

    def index_sets(self, L: FloatArray) -> tuple[Triplets, Triplets]:
        """Free the triplets nearest to their kink; the rest beyond the kink is at its bound."""
        push, rank = self.push, self.coordinates.points.shape[1]
        none = Triplets.join()
        if push.source.size <= OPTIONS.small:
            return self.violated(np.zeros((len(L), 1, L.shape[2]))), none
        triplets = self.violated(L, 0.5)
        if len(triplets) <= OPTIONS.small or push.squared:
            return triplets, none
        u = self.excess(L, triplets)
        order = np.argsort(np.abs(u), kind="stable")
        n_free = OPTIONS.free + int(OPTIONS.free_per_dimension * len(L) * rank * (rank + 1) / 2)
        beyond = order[n_free:]
        return triplets[order[:n_free]], triplets[beyond[u[beyond] > 0]]

    def separate(self, L: FloatArray, free: Triplets, at_bound: Triplets) -> tuple[Triplets, Triplets]:
        """Free the triplets whose hinge is not its replacement: at the bound but inactive, or left out but violated."""
        n, violated = len(self.problem.X), self.violated(L)
        violated = violated[self.excess(L, violated) > 0]
        inactive = self.excess(L, at_bound) < 0
        new = violated[~np.isin(violated.keys(n), np.concatenate([free.keys(n), at_bound.keys(n)]))]
        return Triplets.join(free, new, at_bound[inactive]), at_bound[~inactive]

    def first_faces(self, L: FloatArray, free: Triplets, at_bound: Triplets) -> list[FloatArray] | None:
        """Return faces to begin with: the slopes of smoothed hinges stand for the multipliers."""
        slopes = np.clip(self.excess(L, free) / OPTIONS.slope_width, 0.0, 1.0)
        triplets = Triplets.join(free, at_bound)
        shares = np.concatenate([slopes, np.ones(len(at_bound))])
        return self.faces(L, Dual(triplets, self.push.ceilings(triplets) * shares))

    def faces(self, L: FloatArray, dual: Dual) -> list[FloatArray] | None:
        """Return the subspaces that the next metrics may use, or None for all of them, if that is cheap."""
        if L.shape[2] <= OPTIONS.full_cone:
            return None
        margin_sums = self.push.adjoint(self.coordinates.points, dual.triplets, dual.values)
        return [_face(factor, np.eye(len(B)) - B) for factor, B in zip(L, margin_sums, strict=True)]


def _face(L: FloatArray, S: FloatArray) -> FloatArray:
    """Return the range of the metric, and the directions of the smallest dual slack S.

    Where S has negative eigenvalues the metric has too little.
    """
    _, sigma, rows = np.linalg.svd(L, full_matrices=False)
    used = rows[sigma > 3e-3 * sigma.max(initial=0.0)].T
    _, vectors = np.linalg.eigh(S)
    # Even a small component of such a direction outside the subspace turns the subspace.
    outside = vectors[:, : OPTIONS.face_margin] - used @ (used.T @ vectors[:, : OPTIONS.face_margin])
    outside /= np.linalg.norm(outside, axis=0)
    outside -= used @ (used.T @ outside)
    added, sizes, _ = np.linalg.svd(outside, full_matrices=False)
    return np.concatenate([used, added[:, sizes > 1e-3]], axis=1)
