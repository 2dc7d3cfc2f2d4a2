"""POLA's solvers: batch on its dual as a sum, by the paper's batch conversion, and online; see docs/pola.md."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation
from sdpmetric.core.certificate import InfeasibilityCertificate, relative_gap
from sdpmetric.core.registry import solver
from sdpmetric.core.run import Budget, Step
from sdpmetric.linalg import psd
from sdpmetric.pola import loops
from sdpmetric.pola.problem import POLAProblem
from sdpmetric.pola.stream import POLAStream
from sdpmetric.sums import conic, feasibility
from sdpmetric.sums.dual import SumDual
from sdpmetric.sums.progress import GAP_SHARE


@dataclass(frozen=True)
class POLAOptions:
    """Constants of POLA's solvers."""

    first_evaluations: int = 150  # of L-BFGS-B, before Newton's method
    growth: int = 3  # of the evaluations from round to round
    max_evaluations: int = 1350  # of a round
    rounds: int = 60  # after which the solver stops, if the gap is not proven
    max_entries: int = 3 * 10**5  # of the metric times pairs, up to which the exact program follows the first round
    chunk: int = 5000  # updates, or pairs of a stream, between two looks at the clock
    trace_rows: int = 20  # of a short stream


OPTIONS = POLAOptions()


@solver(POLAProblem, "dual", tol=1e-6, rank=1)
def steps(problem: POLAProblem, budget: Budget, tol: float) -> Iterator[Step]:
    """Solve batch POLA on its dual, or where pairs contradict each other and are few, its exact program."""
    step = Step.certified(problem, problem.zero, problem.repeated)
    yield step
    if _is_infeasible(step):
        return
    d, a, evaluations = problem.X.shape[1], np.zeros(len(problem.pairs)), OPTIONS.first_evaluations
    dual = SumDual(problem.as_sum().total, problem.as_sum().domain)
    is_small = len(a) * d * (d + 1) <= 2 * OPTIONS.max_entries
    # A round of active-set steps solves most problems; for contradicting pairs active sets change for very long.
    for _ in range(1 if is_small else OPTIONS.rounds):
        before = a
        start = dual.ascend(a, budget, evaluations).multipliers
        evaluations = min(OPTIONS.growth * evaluations, OPTIONS.max_evaluations)
        for point in dual.newton(start, budget):
            a = point.multipliers
            L = problem.repair(psd.factor(point.metric[:-1, :-1]))[0]  # the threshold is the last entry
            proof, objective = _contradiction(problem, a, np.maximum(a - start, 0.0)), problem.objective(L)
            multipliers = partial(np.copy, a)
            step = Step(L, objective=objective, lower_bound=min(point.value, objective), multipliers=multipliers)
            is_proven = relative_gap(objective, step.lower_bound) <= GAP_SHARE * tol
            if proof is not None or is_proven or not math.isfinite(objective):
                step = Step.certified(problem, L, a if proof is None else proof)
            yield step
            if _is_infeasible(step):
                return
            if is_proven:
                break
        if np.array_equal(a, before):
            break
    if is_small:
        yield from conic.steps(problem, budget, tol)


def _contradiction(problem: POLAProblem, *candidates: FloatArray) -> FloatArray | None:
    """Multipliers that prove that the pairs contradict each other, from the first candidates that do."""
    for multipliers in candidates:
        if (proven := feasibility.contradiction(problem.as_sum().dual, [multipliers])) is not None:
            return proven.multipliers[0]
    return None


def _is_infeasible(step: Step) -> bool:
    return isinstance(step.certificate, InfeasibilityCertificate)


@solver(POLAProblem, "batch", tol=1e-3, when=lambda problem: problem.slack_weight is None)
def batch_steps(problem: POLAProblem, budget: Budget, tol: float, *, beta: float = 1e-3) -> Iterator[Step]:
    """The paper's batch conversion: online updates, pair after pair, until no loss exceeds `beta`.

    Theorem 1 bounds the number of updates by `POLAProblem.update_bound` at that loss; `Solution.n_iter` is the number
    it took. The sums of the steps on each pair are the multipliers that it proves its bound with; they are not optimal.
    """
    if problem.slack_weight is not None:
        raise ValueError("solver 'batch' repeats online updates until all margins hold; pass slack_weight=None for it.")
    validation.check_positive("beta", beta)
    step = Step.certified(problem, problem.zero, problem.repeated)
    yield step
    if _is_infeasible(step):
        return
    n_pairs, state = len(problem.pairs), loops.new_state(problem.X.shape[1], problem.initial_threshold)
    losses, multipliers, counts = np.zeros(n_pairs), np.zeros(n_pairs), state[3]
    stream = problem.X, problem.pairs, problem.similar, state, losses, multipliers
    while True:
        first, updates_before = 0, int(counts[loops.UPDATES])
        while first < n_pairs:
            updates = int(counts[loops.UPDATES])
            limit = int(min(OPTIONS.chunk, max(1, budget.max_iter - budget.spent)))
            first = loops.run(*stream, first=first, max_updates=limit, beta=beta)
            if counts[loops.UPDATES] > updates:
                budget.spend(int(counts[loops.UPDATES]) - updates)
        proof = _contradiction(problem, multipliers)
        L = problem.repair(psd.factor(state[0]))[0]
        step = Step.certified(problem, L, multipliers.copy() if proof is None else proof)
        yield step
        if counts[loops.UPDATES] == updates_before or _is_infeasible(step):
            return


@solver(POLAProblem, "online", tol=1e-6, stream=True)
def online_steps(problem: POLAProblem, budget: Budget, tol: float, *, gamma: float | None = None) -> Iterator[Step]:
    """Online POLA, once over the problem's pairs in their order; see `sdpmetric.pola.stream.POLAStream`.

    The objective of a step is the cumulative loss so far, the squared hinges before each update. The slack weight plays
    no part.
    """
    stream = POLAStream(problem.X.shape[1], problem.initial_threshold, gamma)
    n_pairs = len(problem.pairs)
    chunk = max(1, min(OPTIONS.chunk, -(-n_pairs // OPTIONS.trace_rows)))
    for first in range(0, n_pairs, chunk):
        size = int(min(chunk, n_pairs - first, max(1, budget.max_iter - budget.spent)))
        budget.spend(size)
        pairs = slice(first, first + size)
        stream.partial_fit(problem.X, problem.pairs[pairs], problem.similar[pairs])
        certificate = problem.certify_stream(stream.cumulative_loss, first + size, stream.n_updates)
        yield Step.of_certificate(
            stream.components,
            certificate,
            n_active=stream.n_updates,
            extras={"threshold": stream.threshold, "mistakes": stream.mistakes},
        )
        if size < min(chunk, n_pairs - first):  # the iterations are used up: the next chunk says so
            budget.spend()
