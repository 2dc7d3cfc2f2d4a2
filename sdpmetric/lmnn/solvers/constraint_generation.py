"""Constraint generation, the loop of the exact layer for LMNN and its relatives: state, solve, certify, separate."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sdpmetric.arrays import FloatArray, IndexArray
from sdpmetric.core.certificate import Dual, DualityCertificate, relative_gap
from sdpmetric.core.problem import Problem
from sdpmetric.core.run import Budget, BudgetSpent, Step
from sdpmetric.core.status import Status
from sdpmetric.core.triplets import Triplets
from sdpmetric.engine.interface import deadline
from sdpmetric.linalg import psd
from sdpmetric.lmnn.program import ReducedProgram, list_triplets
from sdpmetric.lmnn.push import Push
from sdpmetric.lmnn.triplets.impostors import TooManyCandidates
from sdpmetric.programs.backend import Backend

# Up to so many triplets all of them are free.
SMALL = 2000
# Otherwise so many to begin with, and more for each dimension of the cones: the optimal multipliers strictly inside
# their box are about as many as the dimension of the optimal face, which is less.
FREE, FREE_PER_DIMENSION = 500, 0.5
# Cones up to this dimension are stated whole; larger ones on a face that grows until the full dual slack is PSD.
WHOLE_CONE = 64
# Directions of the face beyond the rank of the metric, and the smoothing width that finds the first ones.
FACE_MARGIN, SLOPE_WIDTH = 22, 0.01
# Rounds without a better gap before giving up.
PATIENCE = 4
# Relative gap of the cheap solution from which the first index sets are taken.
START_TOLERANCE = 1e-4


@dataclass(frozen=True, eq=False)
class Reduction:
    """What constraint generation asks of a statement; here LMNN with one metric or several, in whitened coordinates."""

    problem: Problem  # certifies
    push: Push
    points: FloatArray  # the data in the coordinates of each metric, (c n, rank); a point is factors, (c, r, rank)
    groups: IndexArray | None  # null directions separate impostors of another group, (c n,); None: of none
    lift: Callable[[FloatArray], FloatArray]  # from a point to components
    polished: Callable[[FloatArray, Dual], Dual] | None = None  # multipliers that prove more than the backend's

    def program(
        self, L: FloatArray, objective: float, free: Triplets, at_bound: Triplets, faces: Sequence[FloatArray] | None
    ) -> ReducedProgram:
        """State a reduced program; the point L and its objective say how large the optimal metric may be."""
        unit = objective or 1.0  # the trace is the cost, and that of an optimal metric is below every objective
        return ReducedProgram.of(self.push, self.points, free, at_bound, unit=unit, faces=faces)

    def point(self, solved: ReducedProgram) -> FloatArray:
        """The point of a solved program."""
        return psd.stack([psd.factor(M) for M in solved.metrics])

    def embed(self, L: FloatArray) -> FloatArray:
        """All examples under each metric, (c n, r)."""
        return self.push.blocks.times(self.points, np.swapaxes(L, 1, 2)).astype(np.float64, copy=False)

    def hinges(self, L: FloatArray, triplets: Triplets) -> FloatArray:
        """``u = 1 - <B_t, M>`` of triplets, (t,)."""
        return 1.0 - self.push.margins(self.embed(L), triplets)

    def near(self, L: FloatArray, widen: float = 0.0) -> Triplets:
        """Search for the triplets whose hinge may be active at a point, or nearly so; as many as may be held."""
        push, everybody = self.push, np.arange(len(self.problem.X), dtype=np.int32)
        try:
            most = push.source.capacity(everybody)
            found = [push.candidates(self.embed(L), self.groups, widen=widen, max_pairs=most)]
        except TooManyCandidates as many:  # the others are for later rounds
            found = many.blocks
        listed = Triplets.join(*(list_triplets(push.as_examples(part)) for part in found))
        return listed[push.source.weights_of(listed) > 0]

    def index_sets(self, L: FloatArray) -> tuple[Triplets, Triplets]:
        """The triplets nearest to their kink are free; of the others, those beyond it are at their bound."""
        push, rank = self.push, self.points.shape[1]
        none = Triplets.join()
        if push.source.size <= SMALL:
            return self.near(np.zeros((len(L), 1, L.shape[2]))), none
        listed = self.near(L, 0.5)
        if len(listed) <= SMALL or push.squared:
            return listed, none
        u = self.hinges(L, listed)
        order = np.argsort(np.abs(u), kind="stable")
        n_free = FREE + int(FREE_PER_DIMENSION * len(L) * rank * (rank + 1) / 2)
        rest = order[n_free:]
        return listed[order[:n_free]], listed[rest[u[rest] > 0]]

    def separate(self, L: FloatArray, free: Triplets, at_bound: Triplets) -> tuple[Triplets, Triplets]:
        """Free the triplets whose hinge is not its replacement: at the bound but inactive, or left out but violated."""
        n, now = len(self.problem.X), self.near(L)
        now = now[self.hinges(L, now) > 0]
        wrong = self.hinges(L, at_bound) < 0
        new = now[~np.isin(now.keys(n), np.concatenate([free.keys(n), at_bound.keys(n)]))]
        return Triplets.join(free, new, at_bound[wrong]), at_bound[~wrong]

    def first_faces(self, L: FloatArray, free: Triplets, at_bound: Triplets) -> list[FloatArray] | None:
        """Faces to begin with: the slopes of smoothed hinges stand for the multipliers."""
        slopes = np.clip(self.hinges(L, free) / SLOPE_WIDTH, 0.0, 1.0)
        dual = Triplets.join(free, at_bound)
        share = np.concatenate([slopes, np.ones(len(at_bound))])
        return self.faces(L, Dual(dual, self.push.ceilings(dual) * share))

    def faces(self, L: FloatArray, dual: Dual) -> list[FloatArray] | None:
        """The subspaces that the next metrics may use, or None for all of them, if that is cheap."""
        if L.shape[2] <= WHOLE_CONE:
            return None
        sums = self.push.adjoint(self.points, dual.triplets, dual.values)
        return [_face(factor, np.eye(len(B)) - B) for factor, B in zip(L, sums, strict=True)]


def _face(L: FloatArray, S: FloatArray) -> FloatArray:
    """What the metric at hand uses, and beside it the directions in which the dual slack S is least.

    Where S has negative eigenvalues the metric has too little.
    """
    _, sigma, rows = np.linalg.svd(L, full_matrices=False)
    own = rows[sigma > 3e-3 * sigma.max(initial=0.0)].T
    _, vectors = np.linalg.eigh(S)
    # Even a small part of such a direction outside the subspace turns the subspace.
    beside = vectors[:, :FACE_MARGIN] - own @ (own.T @ vectors[:, :FACE_MARGIN])
    beside /= np.linalg.norm(beside, axis=0)
    beside -= own @ (own.T @ beside)
    more, sizes, _ = np.linalg.svd(beside, full_matrices=False)
    return np.concatenate([own, more[:, sizes > 1e-3]], axis=1)


def cheap_point(
    steps: Callable[[Budget], Iterator[Step]], budget: Budget, first: FloatArray
) -> Generator[Step, None, FloatArray]:
    """Components from a fast solver, for index sets.

    They are yielded without an objective, so they are the answer only if time ends before the first program.
    """
    yield Step(first)
    own = Budget(None if np.isinf(budget.max_time) else max(0.3 * budget.remaining, 1e-3))
    best, bound = Step(first), -np.inf
    try:
        with deadline(own.ends):
            for step in steps(own):
                best = step if step.objective <= best.objective else best
                bound = max(bound, step.lower_bound)
                if relative_gap(best.objective, bound) <= START_TOLERANCE:
                    break
    except BudgetSpent:
        pass
    except KeyboardInterrupt:
        yield Step(best.components)
        raise
    budget.reserve = max(budget.reserve, own.reserve)
    yield Step(best.components)
    return best.components


def generate(reduction: Reduction, L: FloatArray, backend: Backend, budget: Budget, tol: float) -> Iterator[Step]:
    """Reduced programs, an exhaustive search after each, until no hinge differs from what replaces it."""
    components = reduction.lift(L)
    certificate = reduction.problem.certify(components)
    if np.isfinite(budget.max_time):  # the answer if time ends before the first program does
        yield Step(components, lower_bound=certificate.lower_bound, certificate=certificate)
    settings, objective = list(backend.settings), certificate.objective
    free, at_bound = reduction.index_sets(L)
    faces = reduction.first_faces(L, free, at_bound)
    best_gap, patience = np.inf, PATIENCE
    while patience > 0 and settings:
        # State and solve.
        reduced = reduction.program(L, objective, free, at_bound, faces)
        budget.spend()
        status = backend.run(reduced.program, budget, settings[0])
        if "unbounded" in status and len(at_bound):
            # The point is so far from the optimum that too many triplets were taken to be at their bound.
            order = np.argsort(reduction.hinges(L, at_bound), kind="stable")
            few, rest = np.split(order, [max(SMALL, 2 * len(free))])
            free, at_bound = Triplets.join(free, at_bound[few]), at_bound[rest]
            continue
        if reduced.program.value is None or not np.isfinite(reduced.program.value):
            settings = settings[1:]
            continue
        # Certify.
        L, dual = reduction.point(reduced), reduced.dual
        step = _certified(reduction, L, dual, tol)
        yield step
        gap = relative_gap(step.objective, step.lower_bound)
        patience = PATIENCE if gap < 0.8 * best_gap else patience - 1
        best_gap, objective = min(best_gap, gap), min(objective, step.objective)
        # Separate.
        solved = len(free)
        free, at_bound = reduction.separate(L, free, at_bound)
        whole = faces is None or all(len(Q) == Q.shape[1] for Q in faces)
        if len(free) == solved and whole:  # the reduced program is the full one: only accuracy is missing
            settings = settings[1:]
        faces = reduction.faces(L, dual)  # the backend's own multipliers show which directions the faces lack
    if patience == PATIENCE and best_gap == np.inf:  # no program was solved
        bound = certificate.lower_bound
        yield Step(
            components,
            objective=certificate.objective,
            lower_bound=bound,
            certificate=certificate,
            status=Status.SOLVER_ERROR,
        )


def _certified(reduction: Reduction, L: FloatArray, dual: Dual, tol: float) -> Step:
    """Certify with the backend's own multipliers, and with polished ones only where those do not prove `tol`."""
    components = reduction.lift(L)
    step = Step.certified(reduction.problem, components, dual)
    own = step.lower_bound
    if reduction.polished is not None and relative_gap(step.objective, own) > tol:
        better = Step.certified(reduction.problem, components, reduction.polished(L, dual))
        step = better if better.lower_bound > own else step
    certificate = step.certificate
    assert isinstance(certificate, DualityCertificate)
    info = {**certificate.info, "backend_lower_bound": own, "polished": step.lower_bound > own}
    return replace(step, certificate=replace(certificate, info=info))
