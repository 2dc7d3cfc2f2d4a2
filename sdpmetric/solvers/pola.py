"""Batch POLA on its dual: L-BFGS-B to find the pairs that matter, semismooth Newton on those to prove the gap.

The dual is concave and once differentiable, with a bound on each multiplier and nothing else, so that every iterate is
dual feasible. The primal point is ``A(a), b(a)``, repaired by the problem. See ``docs/pola.md``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from sdpmetric._loops import pola
from sdpmetric.core.certificate import InfeasibilityCertificate, relative_gap
from sdpmetric.core.registry import solver
from sdpmetric.core.run import Budget, Step
from sdpmetric.linalg import psd
from sdpmetric.problems import contradiction
from sdpmetric.problems.pola import POLAProblem
from sdpmetric.solvers.bounded import ascend
from sdpmetric.streams.pola import POLAStream

FloatArray = NDArray[np.float64]

# Evaluations of L-BFGS-B between two visits of Newton's method, and steps of Newton's method at a time.
FIRST_ORDER, NEWTON = 150, 20
# More free multipliers than this, and Newton's dense equations cost more than they bring.
MAX_FREE = 4000
# Newton's equations, scaled to a diagonal of at most 1, are damped by these, each where the one before brought no
# ascent; each direction is tried at this many lengths.
DAMPINGS, SHORTER = (1e-12, 1e-6, 1e-2), 6
# Multipliers within this share of the largest one of a bound may count as at it.
NEAR = 1e-3
# Dual values are compared up to this share of the numbers they are the difference of.
ROUNDING = 1e-14
# Rounds after which the solver stops by its own measure, if the gap is not proven.
ROUNDS = 60
# Updates, or pairs of a stream, between two looks at the clock; lines of a stream's trace, if it is short.
CHUNK, ROWS = 5000, 20


@dataclass(frozen=True)
class _Evaluation:
    """The dual at one point: value, gradient, and the eigenvalues behind its curvature."""

    value: float
    gradient: FloatArray
    values: FloatArray
    vectors: FloatArray
    moving: bool  # whether the threshold is above 1, so that it moves with the multipliers


@solver(POLAProblem, "dual", tol=1e-6, default=True)
def steps(problem: POLAProblem, budget: Budget, tol: float) -> Iterator[Step]:
    """Solve batch POLA on its dual.

    Parameters
    ----------
    problem : POLAProblem
    budget : Budget
        One iteration for each evaluation of the dual.
    tol : float
        Relative gap to prove.

    Yields
    ------
    Step
        Repaired points, with the multipliers they came from. Contradicting pairs end the solve.
    """
    step = _judged(problem, contradiction.repeated(problem.differences, problem.signs))
    yield step
    if _contradiction(step):
        return
    a = np.zeros(len(problem.pairs))
    for _ in range(ROUNDS):
        before = a
        a = _first_order(problem, a, budget)
        step = _judged(problem, _proof(problem, a))
        yield step
        if _contradiction(step):
            return
        for _ in range(NEWTON):
            found = _newton(problem, a, budget)
            if found is None:
                break
            a, direction = found
            step = _judged(problem, _proof(problem, a, direction))
            yield step
            if _contradiction(step):
                return
            if relative_gap(step.objective, step.lower_bound) <= tol:
                break
        if np.array_equal(a, before):
            return


def _judged(problem: POLAProblem, a: FloatArray, point: tuple[FloatArray, float] | None = None) -> Step:
    """The problem's word on a point, repaired, by default the one that minimizes the Lagrangian at the multipliers."""
    if point is None:
        dual_point = problem.dual_point(a)
        thresholds = [dual_point.threshold, None] if problem.slack_weight is not None else [dual_point.threshold]
        repaired = [problem.repair(dual_point.components, b) for b in thresholds]
        components, threshold = min(repaired, key=lambda point: problem.objective(point[0], threshold=point[1]))
    else:
        components, threshold = problem.repair(psd.factor(point[0]), point[1])
    return Step.certified(problem, components, a.copy(), {"threshold": threshold})


def _proof(problem: POLAProblem, *duals: FloatArray) -> FloatArray:
    """Of several multipliers those that prove a contradiction, or nearly do and can be sharpened; else the first."""
    if problem.slack_weight is None:
        for a in duals:
            proof = contradiction.sharpen(problem.differences, problem.signs, a)
            if proof is not None:
                return proof
    return duals[0]


def _contradiction(step: Step) -> bool:
    return isinstance(step.certificate, InfeasibilityCertificate)


def _ceiling(problem: POLAProblem) -> float:
    return np.inf if problem.slack_weight is None else problem.slack_weight


def _units(problem: POLAProblem) -> FloatArray:
    """Units of the multipliers in which the curvature along each is at most 1."""
    units: FloatArray = 1.0 / np.sqrt(np.sum(problem.differences**2, axis=1) ** 2 + 1.0)
    return units


def _evaluate(problem: POLAProblem, budget: Budget, a: FloatArray) -> _Evaluation:
    budget.spend()
    values, vectors = np.linalg.eigh(problem.matrix(-a))
    kept = values > 0.0
    total = float(a @ problem.signs)
    b = max(1.0, problem.initial_threshold + total)
    q = np.sum((problem.differences @ (vectors[:, kept] * np.sqrt(values[kept]))) ** 2, axis=1)
    value = float(a.sum() - 0.5 * np.sum(values[kept] ** 2)) + 0.5 * (b - problem.initial_threshold) ** 2 - total * b
    return _Evaluation(value, 1.0 - problem.signs * (b - q), values, vectors, b > 1.0)


def _first_order(problem: POLAProblem, a: FloatArray, budget: Budget) -> FloatArray:
    def function(a: FloatArray) -> tuple[float, FloatArray]:
        here = _evaluate(problem, budget, a)
        return here.value, here.gradient

    ceilings = np.full(len(a), _ceiling(problem))
    return ascend(function, a, _units(problem), ceilings, evaluations=FIRST_ORDER, memory=30)


def _newton(problem: POLAProblem, a: FloatArray, budget: Budget) -> tuple[FloatArray, FloatArray] | None:
    """One projected semismooth Newton step: the new multipliers, and the direction that led there; None: no ascent."""
    here = _evaluate(problem, budget, a)
    ceiling = _ceiling(problem)
    every = _units(problem)
    # Multipliers that are near a bound and pushed there go there, lest clipping bend the direction (Bertsekas 1982).
    ascent = np.clip(a + every**2 * here.gradient, 0.0, ceiling) - a
    near = min(NEAR * float((a / every).max()), float(np.linalg.norm(ascent / every))) * every
    down, up = (a <= near) & (here.gradient <= 0.0), (a >= ceiling - near) & (here.gradient >= 0.0)
    free = np.flatnonzero(~(down | up))
    if not 0 < len(free) <= MAX_FREE:
        return None
    K = _curvature(problem, here, free)
    unit = every[free]
    K *= np.outer(unit, unit)
    rounding = ROUNDING * (abs(here.value) + float(a.sum()))
    for damping in DAMPINGS:
        equations = K + damping * np.eye(len(K))
        try:
            change = unit * scipy.linalg.cho_solve(scipy.linalg.cho_factor(equations), unit * here.gradient[free])
        except scipy.linalg.LinAlgError:
            continue
        direction = np.where(down, -a, np.where(up, ceiling - a, 0.0))
        direction[free] = change
        for shorter in range(SHORTER):
            new = np.clip(a + 0.3**shorter * direction, 0.0, ceiling)
            promised = float(here.gradient @ (new - a))
            if promised > 0.0 and _evaluate(problem, budget, new).value >= here.value + 1e-4 * promised - rounding:
                return new, np.maximum(direction, 0.0)
    return None


def _curvature(problem: POLAProblem, here: _Evaluation, free: NDArray[np.intp]) -> FloatArray:
    """The negative Hessian of the dual on some multipliers (one element of the generalized Hessian)."""
    signs = problem.signs[free]
    row, column, slopes = psd.projection_slopes(here.values)
    U = problem.differences[free] @ here.vectors
    features = (signs[:, None] * np.sqrt(slopes)) * U[:, row] * U[:, column]
    K: FloatArray = features @ features.T
    return K + np.outer(signs, signs) if here.moving else K


@solver(POLAProblem, "batch", tol=1e-3, when=lambda problem: problem.slack_weight is None)
def batch_steps(problem: POLAProblem, budget: Budget, tol: float, *, beta: float = 1e-3) -> Iterator[Step]:
    """The paper's batch conversion: online updates, pair after pair, until no loss exceeds `beta`.

    Theorem 1 bounds the number of updates by `POLAProblem.update_bound` at that loss; `Solution.n_iter` is the number
    it took. The sums of the steps on each pair are the multipliers that it proves its bound with; they are not optimal.

    Parameters
    ----------
    problem : POLAProblem
        With the hard margin.
    budget : Budget
        One iteration for each update.
    tol : float
    beta : float, default 1e-3
        Largest loss that is left, > 0.

    Raises
    ------
    ValueError
        If the problem has a soft margin, or `beta` is not positive.
    """
    if problem.slack_weight is not None:
        raise ValueError("solver 'batch' repeats online updates until all margins hold; pass slack_weight=None for it.")
    if not 0.0 < beta < np.inf:
        raise ValueError(f"beta must be a positive loss, got {beta!r}.")
    step = _judged(problem, contradiction.repeated(problem.differences, problem.signs))
    yield step
    if _contradiction(step):
        return
    d = problem.X.shape[1]
    A, B, losses = np.zeros((d, d)), np.zeros((d, d)), np.zeros(len(problem.pairs))
    state, counts = np.zeros(pola.N_STATE), np.zeros(pola.N_COUNTS, dtype=np.int64)
    state[pola.THRESHOLD] = problem.initial_threshold
    taken = np.zeros(len(problem.pairs))
    while True:
        first, before = 0, int(counts[pola.UPDATES])
        while first < len(problem.pairs):
            limit = int(min(CHUNK, max(1, budget.max_iter - budget.spent)))
            seen = int(counts[pola.UPDATES])
            first = pola.run(
                problem.X, problem.pairs, problem.similar, first, limit, 0.0, beta, A, B, state, counts, losses, taken
            )
            if counts[pola.UPDATES] > seen:
                budget.spend(int(counts[pola.UPDATES]) - seen)
        step = _judged(problem, _proof(problem, taken), (psd.symmetrize(A), float(state[pola.THRESHOLD])))
        yield step
        if counts[pola.UPDATES] == before or _contradiction(step):
            return


@solver(POLAProblem, "online", tol=1e-6, stream=True)
def online_steps(problem: POLAProblem, budget: Budget, tol: float, *, gamma: float | None = None) -> Iterator[Step]:
    """Online POLA, once over the problem's pairs in their order; see `sdpmetric.streams.pola.POLAStream`.

    The objective of a step is the cumulative loss so far, the squared hinges before each update. The slack weight plays
    no part.

    Parameters
    ----------
    problem : POLAProblem
    budget : Budget
        One iteration for each pair.
    tol : float
        Ignored: a stream has nothing to prove.
    gamma : float, optional
        Of the inseparable version.
    """
    stream = POLAStream(problem.X.shape[1], problem.initial_threshold, gamma)
    n_pairs = len(problem.pairs)
    # Some twenty lines of trace, and a look at the clock every now and then.
    size = max(1, min(CHUNK, -(-n_pairs // ROWS)))
    for first in range(0, n_pairs, size):
        size_here = int(min(size, n_pairs - first, max(1, budget.max_iter - budget.spent)))
        budget.spend(size_here)
        taken = first + size_here
        some = slice(first, taken)
        stream.partial_fit(problem.X, problem.pairs[some], problem.similar[some])
        certificate = problem.judge_stream(stream.cumulative_loss, taken, stream.n_updates)
        yield Step(
            stream.components,
            certificate.objective,
            certificate.lower_bound,
            certificate=certificate,
            n_active=stream.n_updates,
            extras={"threshold": stream.threshold, "mistakes": stream.mistakes},
        )
        if size_here < min(size, n_pairs - first):  # the iterations are used up: the next chunk says so
            budget.spend()
