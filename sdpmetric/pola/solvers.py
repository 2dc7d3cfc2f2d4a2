"""POLA: batch on its dual, as a sum, by the paper's batch conversion, and online.

The primal point of multipliers is repaired by the problem. See ``docs/pola.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

import numpy as np

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation
from sdpmetric.core.certificate import InfeasibilityCertificate, relative_gap
from sdpmetric.core.registry import solver
from sdpmetric.core.run import Budget, Step
from sdpmetric.linalg import psd
from sdpmetric.pola import loops as pola
from sdpmetric.pola.problem import POLAProblem
from sdpmetric.pola.stream import POLAStream
from sdpmetric.sums import conic, feasibility
from sdpmetric.sums.dual import PROVEN, SumDual

# Evaluations of L-BFGS-B before Newton's method, how many times as many each round has, and the most.
FIRST_ORDER, MORE, LONGEST = 150, 3, 1350
# Rounds after which the solver stops by its own measure, if the gap is not proven.
ROUNDS = 60
# Up to so many entries of the metric times pairs the exact program follows the first round.
FEW = 3 * 10**5
# Updates, or pairs of a stream, between two looks at the clock; lines of a stream's trace, if it is short.
CHUNK, ROWS = 5000, 20


@solver(POLAProblem, "dual", tol=1e-6, rank=1)
def steps(problem: POLAProblem, budget: Budget, tol: float) -> Iterator[Step]:
    """Solve batch POLA on its dual, or where pairs contradict each other and are few, its exact program."""
    step = Step.certified(problem, problem.zero, problem.repeated)
    yield step
    if _contradiction(step):
        return
    d, a, most = problem.X.shape[1], np.zeros(len(problem.pairs)), FIRST_ORDER
    dual = SumDual(problem.as_sum().total, problem.as_sum().domain)
    few = len(a) * d * (d + 1) <= 2 * FEW
    # A round of active-set steps solves most problems; for contradicting pairs active sets change for very long.
    for _ in range(1 if few else ROUNDS):
        before = a
        start, _ = dual.ascend(a, budget, 0.0, most, False)
        most = min(MORE * most, LONGEST)
        for a, here in dual.newton(start, budget):
            L = problem.repair(psd.factor(here.metric[:-1, :-1]))[0]  # the threshold is the last entry
            proof, objective = _proof(problem, a, np.maximum(a - start, 0.0)), problem.objective(L)
            step = Step(L, objective=objective, lower_bound=min(here.value, objective), multipliers=partial(np.copy, a))
            proven = relative_gap(objective, step.lower_bound) <= PROVEN * tol
            if proof is not None or proven or not math.isfinite(objective):
                step = Step.certified(problem, L, a if proof is None else proof)
            yield step
            if _contradiction(step):
                return
            if proven:
                break
        if np.array_equal(a, before):
            break
    if few:
        yield from conic.steps(problem, budget, tol)


def _proof(problem: POLAProblem, *duals: FloatArray) -> FloatArray | None:
    """Multipliers that prove a contradiction."""
    for dual in duals:
        if (proven := feasibility.contradiction(problem.as_sum().dual, [dual])) is not None:
            return proven.multipliers[0]
    return None


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
    validation.check_positive("beta", beta)
    step = Step.certified(problem, problem.zero, problem.repeated)
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
        proof = _proof(problem, taken)
        step = Step.certified(problem, problem.repair(psd.factor(A))[0], taken.copy() if proof is None else proof)
        yield step
        if counts[pola.UPDATES] == before or _contradiction(step):
            return


@solver(POLAProblem, "online", tol=1e-6, stream=True)
def online_steps(problem: POLAProblem, budget: Budget, tol: float, *, gamma: float | None = None) -> Iterator[Step]:
    """Online POLA, once over the problem's pairs in their order; see `sdpmetric.pola.stream.POLAStream`.

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
        yield Step.of_certificate(
            stream.components,
            certificate,
            n_active=stream.n_updates,
            extras={"threshold": stream.threshold, "mistakes": stream.mistakes},
        )
        if size_here < min(size, n_pairs - first):  # the iterations are used up: the next chunk says so
            budget.spend()
