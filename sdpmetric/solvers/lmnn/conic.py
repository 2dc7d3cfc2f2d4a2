"""The exact layer's solver: semidefinite programs in CVXPY, by constraint generation, judged on the full problem."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

from sdpmetric.core.run import Budget, Step
from sdpmetric.core.solution import Dual
from sdpmetric.formulations.lmnn import ReducedProgram, all_triplets, list_triplets
from sdpmetric.linalg import psd
from sdpmetric.problems.lmnn import LMNNProblem
from sdpmetric.solvers.backend import SETTINGS, BackendOptions, check_backend, run_backend, timed
from sdpmetric.solvers.lmnn.edited import EditedProgram
from sdpmetric.solvers.lmnn.refinement import refined_dual
from sdpmetric.triplets.margins import margin_adjoint, margins
from sdpmetric.triplets.triplets import Triplets

FloatArray = NDArray[np.float64]

# Up to so many triplets all of them are stated at once.
SMALL = 2000
# Free triplets to begin with, for each dimension of the cone: the optimal multipliers strictly inside their box are
# about as many as the dimension of the optimal face, which is less.
FREE_PER_DIMENSION = 0.5
# Cones up to this dimension are stated whole; larger ones on a face that grows until the full dual slack is PSD.
WHOLE_CONE = 64
# Directions of the face beyond the rank of the metric, and the smoothing width that finds the first ones.
FACE_MARGIN, SLOPE_WIDTH = 22, 0.01
# Rounds without a better gap before giving up.
PATIENCE = 4


def steps(
    problem: LMNNProblem,
    budget: Budget,
    tol: float,
    *,
    backend: str = "CLARABEL",
    program: cp.Problem | None = None,
    start: FloatArray | None = None,
    backend_options: BackendOptions | None = None,
    sweep: Sweep | None = None,
) -> Iterator[Step]:
    """Solve LMNN exactly: reduced programs, an exhaustive search after each, until none of its replacements is wrong.

    Parameters
    ----------
    problem : LMNNProblem
    budget : Budget
        Spent once for every program; its time limit is passed on to the backends that take one.
    tol : float
        Relative gap to prove.
    backend : str, default "CLARABEL"
        Any installed CVXPY solver for semidefinite programs.
    program : cvxpy.Problem, optional
        An edited `sdpmetric.to_cvxpy` program, to be solved as it is instead.
    start : (r, d) array, optional
        Components of a cheap solution. Only the roles of the triplets are taken from it.
    backend_options : mapping, optional
        Passed to the backend, over the defaults that proofs need.
    sweep : Sweep, optional
        Programs to share with problems that differ in their weights only.

    Yields
    ------
    Step
        One for each program, with the problem's certificate.

    Raises
    ------
    ValueError
        If the backend is not installed or has no semidefinite cone, or an edited program has no solution.
    """
    name = check_backend(backend)
    settings = [own | dict(backend_options or {}) for own in SETTINGS.get(name, [{}])]
    if program is not None:
        edited = EditedProgram.of(problem, program)
        budget.spend()
        yield edited.solve(name, timed(name, budget, settings[0]))
        return
    rank = problem.coordinates.rank
    idle = problem.push_weight == 0.0 or problem.source.size == 0
    if idle or rank == 0:
        zero = np.zeros((0, problem.X.shape[1])) if idle else problem.lift(np.zeros((0, rank)))
        certificate = problem.certify(zero)
        yield Step(zero, certificate.objective, certificate.lower_bound, certificate=certificate)
        return
    inverse = problem.coordinates.inverse[:rank]
    L = psd.factor(inverse @ inverse.T) if start is None else start @ inverse.T
    yield Step(problem.lift(L))
    free, violated = _first_roles(problem, L) if sweep is None else sweep.roles_at(problem, L)
    slopes = np.clip((1.0 - margins(problem.points @ L.T, free)) / SLOPE_WIDTH, 0.0, 1.0)
    guess = Dual(_both(free, violated), np.concatenate([slopes, np.ones(len(violated))]))
    values = problem.push.ceilings(guess.triplets) * guess.values
    face = _face(problem, L, guess.triplets, values)
    best_gap, patience = np.inf, PATIENCE
    while patience > 0 and settings:
        state = ReducedProgram.of if sweep is None or face.shape[1] < rank else sweep.state
        reduced = state(problem, free, violated, face)
        budget.spend()
        status = run_backend(reduced.program, name, budget, settings[0])
        if "unbounded" in status and len(violated):
            # A metric far from the optimum took too many triplets for violated.
            order = np.argsort(1.0 - margins(problem.points @ L.T, violated), kind="stable")
            freed = order[: max(SMALL, 2 * len(free))]
            free, violated = _both(free, violated[freed]), violated[np.setdiff1d(order, freed)]
            continue
        if reduced.program.value is None or not np.isfinite(reduced.program.value):
            settings = settings[1:]
            continue
        L = psd.factor(reduced.metric)
        components = problem.lift(L)
        raw = reduced.dual
        dual = refined_dual(problem, L, raw)
        certificate = problem.certify(components, dual=dual)
        yield Step(
            components,
            certificate.objective,
            certificate.lower_bound,
            partial(_given, dual),
            certificate,
            n_active=certificate.n_active,
        )
        patience = PATIENCE if certificate.relative_gap < 0.8 * best_gap else patience - 1
        best_gap = min(best_gap, certificate.relative_gap)
        solved = len(free)
        free, violated = _mend(problem, L, free, violated)
        if len(free) == solved and face.shape[1] == rank:  # no replacement was wrong: only the accuracy is left
            settings = settings[1:]
        face = _face(problem, L, raw.triplets, raw.values)  # before its repair it points to what the face lacks


@dataclass(eq=False)
class Sweep:
    """The programs of problems that differ in their weights only, compiled again only where triplets change roles.

    The cone is stated whole, so that a program serves all weights; those on a face are stated anew.

    Attributes
    ----------
    n_stated : int
        Programs that were stated, each to be compiled once.
    """

    n_stated: int = 0
    _problem: LMNNProblem | None = None
    _program: ReducedProgram | None = None

    def fits(self, problem: LMNNProblem) -> bool:
        """Whether the last program states this problem, too, once its weights are set."""
        known = self._problem
        if known is None or (known.X is not problem.X or known.source is not problem.source):
            return False
        return known.loss == problem.loss and known.coordinates.rank == problem.coordinates.rank

    def roles_at(self, problem: LMNNProblem, L: FloatArray) -> tuple[Triplets, Triplets]:
        """Free and violated triplets of the last program where it fits and none is wrong at a metric, else others."""
        if self._program is not None and self.fits(problem):
            own = self._program.free, self._program.violated
            if len(_mend(problem, L, *own)[0]) == len(own[0]):
                return own
        return _first_roles(problem, L)

    def state(self, problem: LMNNProblem, free: Triplets, violated: Triplets, face: FloatArray) -> ReducedProgram:
        """The program with these roles: the last one where it has them, else a new one."""
        known, stated = self._program, self._problem
        if known is None or stated is None or known.free is not free or known.violated is not violated:
            known, stated = ReducedProgram.of(problem, free, violated, face, parametric=True), problem
            self._program, self._problem, self.n_stated = known, stated, self.n_stated + 1
        return known.at(problem, stated)


def _given(dual: Dual) -> Dual:
    return dual


def _both(*parts: Triplets) -> Triplets:
    return Triplets.from_array(np.concatenate([part.to_array() for part in parts]))


def _near(problem: LMNNProblem, L: FloatArray) -> Triplets:
    return list_triplets(problem.candidates(problem.points @ L.T, widen=0.5))


def _first_roles(problem: LMNNProblem, L: FloatArray) -> tuple[Triplets, Triplets]:
    return _roles(
        problem, L, all_triplets(problem, problem.null_groups) if problem.source.size <= SMALL else _near(problem, L)
    )


def _roles(problem: LMNNProblem, L: FloatArray, listed: Triplets) -> tuple[Triplets, Triplets]:
    """The triplets nearest to their kink are free, and of the others those beyond it violated."""
    if len(listed) <= SMALL or problem.squared:
        return listed, listed[np.zeros(0, dtype=np.int64)]
    rank = problem.coordinates.rank
    u = 1.0 - margins(problem.points @ L.T, listed)
    order = np.argsort(np.abs(u), kind="stable")
    n_free = SMALL // 4 + int(FREE_PER_DIMENSION * rank * (rank + 1) / 2)
    rest = order[n_free:]
    return listed[order[:n_free]], listed[rest[u[rest] > 0]]


def _mend(problem: LMNNProblem, L: FloatArray, free: Triplets, violated: Triplets) -> tuple[Triplets, Triplets]:
    """Free the triplets whose replacement is wrong at the new point: violated with slack, or silent and violated."""
    n = len(problem.X)
    Z = problem.points @ L.T
    now = list_triplets(problem.candidates(Z))
    now = now[(1.0 - margins(Z, now) > 0) & (problem.source.weights_of(now) > 0)]
    known = np.concatenate([free.keys(n), violated.keys(n)])
    wrong = 1.0 - margins(Z, violated) < 0
    freed = _both(now[~np.isin(now.keys(n), known)], violated[wrong])
    return (_both(free, freed), violated[~wrong]) if len(freed) else (free, violated)


def _face(problem: LMNNProblem, L: FloatArray, triplets: Triplets, values: FloatArray) -> FloatArray:
    """The subspace that the next metric may use: all of it where that is cheap.

    Else what the metric at hand uses, and beside it the directions in which the dual slack is least: negative ones are
    where the metric has too little.
    """
    rank = problem.coordinates.rank
    if rank <= WHOLE_CONE:
        return np.eye(rank)
    S = np.eye(rank) - margin_adjoint(problem.points, triplets, values)
    _, sigma, rows = np.linalg.svd(L, full_matrices=False)
    own = rows[sigma > 3e-3 * sigma[0]].T
    _, vectors = np.linalg.eigh(S)
    # However little of such a direction lies outside, that part is what turns the subspace.
    beside = vectors[:, :FACE_MARGIN] - own @ (own.T @ vectors[:, :FACE_MARGIN])
    beside /= np.linalg.norm(beside, axis=0)
    beside -= own @ (own.T @ beside)
    more, sizes, _ = np.linalg.svd(beside, full_matrices=False)
    return np.concatenate([own, more[:, sizes > 1e-3]], axis=1)
