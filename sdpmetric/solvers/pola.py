"""POLA: batch on its dual, by the paper's batch conversion, and online.

The primal point of multipliers is ``A(a), b(a)``, repaired by the problem. See ``docs/pola.md``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sdpmetric._loops import pola
from sdpmetric.arrays import FloatArray
from sdpmetric.bounds import contradiction
from sdpmetric.core.certificate import InfeasibilityCertificate, relative_gap
from sdpmetric.core.registry import solver
from sdpmetric.core.run import Budget, Step
from sdpmetric.linalg import psd
from sdpmetric.problems.pola import POLAProblem
from sdpmetric.solvers import pola_interior
from sdpmetric.solvers.dual_newton import BoxDual, Evaluation
from sdpmetric.streams.pola import POLAStream

# Evaluations of L-BFGS-B before Newton's method, and the pairs of steps and gradients that it keeps.
FIRST_ORDER, MEMORY = 150, 30
# Rounds after which the solver stops by its own measure, if the gap is not proven.
ROUNDS = 60
# Updates, or pairs of a stream, between two looks at the clock; lines of a stream's trace, if it is short.
CHUNK, ROWS = 5000, 20


@dataclass(frozen=True)
class _Evaluation(Evaluation):
    """The dual of POLA at some multipliers."""

    moving: bool  # whether the threshold is above 1, so that it moves with the multipliers


@dataclass(frozen=True, eq=False)
class _Dual(BoxDual[_Evaluation]):
    """The dual of batch POLA."""

    problem: POLAProblem

    @cached_property
    def ceilings(self) -> FloatArray:
        return self.problem.margins.ceilings

    @cached_property
    def units(self) -> FloatArray:
        units: FloatArray = 1.0 / np.sqrt(np.sum(self.problem.differences**2, axis=1) ** 2 + 1.0)
        return units

    def at(self, a: FloatArray) -> _Evaluation:
        problem = self.problem
        values, vectors = np.linalg.eigh(problem.matrix(-a))
        positive = values > 0.0
        total, start = float(a @ problem.signs), problem.initial_threshold
        b = max(1.0, start + total)
        q = np.sum((problem.differences @ (vectors[:, positive] * np.sqrt(values[positive]))) ** 2, axis=1)
        value = float(a.sum() - 0.5 * np.sum(values[positive] ** 2)) + 0.5 * (b - start) ** 2 - total * b
        return _Evaluation(value, 1.0 - problem.signs * (b - q), values, vectors, b > 1.0)

    def curvature_root(self, here: _Evaluation, free: NDArray[np.intp]) -> FloatArray:
        row, column, slopes = psd.projection_slopes(here.values)
        U = self.problem.differences[free] @ here.vectors
        scale = (self.problem.signs * self.units)[free, None]
        F: FloatArray = scale * np.sqrt(slopes) * U[:, row] * U[:, column]
        return np.concatenate([F, scale], axis=1) if here.moving else F


@solver(POLAProblem, "dual", tol=1e-6, default=True)
def steps(problem: POLAProblem, budget: Budget, tol: float) -> Iterator[Step]:
    """Solve batch POLA on its dual."""
    step = _certified(problem, contradiction.repeated(problem.differences, problem.signs))
    yield step
    if _contradiction(step):
        return
    dual, a = _Dual(problem), np.zeros(len(problem.pairs))
    # A round of active-set steps solves most problems; contradicting pairs need the interior-point method.
    for _ in range(1 if pola_interior.fits(problem) else ROUNDS):
        before = a
        start = dual.ascend(a, budget, evaluations=FIRST_ORDER, memory=MEMORY)
        for a, _ in dual.newton(start, budget):
            step = _certified(problem, _proof(problem, a, np.maximum(a - start, 0.0)))
            yield step
            if _contradiction(step):
                return
            if relative_gap(step.objective, step.lower_bound) <= tol:
                break
        if np.array_equal(a, before):
            break
    if pola_interior.fits(problem):
        for a, A in pola_interior.iterates(problem, budget):
            step = _certified(problem, _proof(problem, a), (A, None))
            yield step
            if _contradiction(step):
                return


def _certified(problem: POLAProblem, a: FloatArray, point: tuple[FloatArray, float | None] | None = None) -> Step:
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
            proof = contradiction.sharpen(problem.differences, problem.signs, a, problem.difference_rests)
            if proof is not None:
                return proof
    return duals[0]


def _contradiction(step: Step) -> bool:
    return isinstance(step.certificate, InfeasibilityCertificate)


@solver(POLAProblem, "batch", tol=1e-3, when=lambda problem: problem.slack_weight is None)
def batch_steps(problem: POLAProblem, budget: Budget, tol: float, *, beta: float = 1e-3) -> Iterator[Step]:
    """The paper's batch conversion: online updates, pair after pair, until no loss exceeds `beta`.

    Theorem 1 bounds the number of updates by `POLAProblem.update_bound` at that loss; `Solution.n_iter` is the number
    it took. The sums of the steps on each pair are the multipliers that it proves its bound with; they are not optimal.
    """
    if problem.slack_weight is not None:
        raise ValueError("solver 'batch' repeats online updates until all margins hold; pass slack_weight=None for it.")
    if not 0.0 < beta < np.inf:
        raise ValueError(f"beta must be a positive loss, got {beta!r}.")
    step = _certified(problem, contradiction.repeated(problem.differences, problem.signs))
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
        step = _certified(problem, _proof(problem, taken), (psd.symmetrize(A), float(state[pola.THRESHOLD])))
        yield step
        if counts[pola.UPDATES] == before or _contradiction(step):
            return


@solver(POLAProblem, "online", tol=1e-6, stream=True)
def online_steps(problem: POLAProblem, budget: Budget, tol: float, *, gamma: float | None = None) -> Iterator[Step]:
    """Online POLA, once over the problem's pairs in their order; see `sdpmetric.streams.pola.POLAStream`.

    The objective of a step is the cumulative loss so far, the squared hinges before each update. The slack weight plays
    no part.
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
        certificate = problem.certify_stream(stream.cumulative_loss, taken, stream.n_updates)
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
