"""POLA's solvers: batch on its dual as a sum, by the paper's batch conversion, and online; see docs/methods.md."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

import numpy as np

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation
from sdpmetric.core.certificate import InfeasibilityCertificate, relative_gap
from sdpmetric.core.registry import solver
from sdpmetric.core.steps import Budget, Step
from sdpmetric.engine.threads import BudgetSpent
from sdpmetric.linalg import psd
from sdpmetric.linalg.search import GAP_SHARE, Stop
from sdpmetric.pola import loops
from sdpmetric.pola.problem import POLAProblem
from sdpmetric.pola.stream import POLAStream
from sdpmetric.sums import conic, feasibility
from sdpmetric.sums.dual import DualPoint, SumDual


@dataclass(frozen=True)
class POLAOptions:
    probe: int = 10  # evaluations of L-BFGS-B that tell whether the exact program is faster, with slacks
    soft_evaluations: int = 25  # half the entries of the metric, at least these: of L-BFGS-B, then Newton, with slacks
    max_soft_evaluations: int = 50  # the same, at most
    first_evaluations: int = 150  # of L-BFGS-B before Newton's method, with hard margins
    growth: int = 3  # of the evaluations from round to round
    max_evaluations: int = 1350  # of a round
    rounds: int = 60  # after which the solver stops, if the gap is not proven
    rounds_before_conic: int = 3  # after which the exact program follows, if it is tried
    divergence: float = 2.0  # growth of multipliers without a feasible point: then they may contradict each other
    infeasible_steps: int = 2  # of Newton's method without a point that keeps the hard margins, before one is sought
    whitened_steps: int = 40  # most steps of Newton's method in search of a feasible point
    max_entries: int = 3 * 10**5  # most entries of the metric times pairs for the exact program
    few_entries: int = 60  # most entries of the metric to begin with the exact program
    pairs_per_entry: float = 10.0  # pairs for each of these, at least, to begin with it with hard margins
    gap_share: float = 4.7  # over the entries of the metric: the share of the gap that the probe has to close, or else
    largest_gap_share: float = 0.35  # the same, at most: the exact program comes first
    chunk: int = 5000  # updates, or pairs of a stream, between two looks at the clock
    trace_rows: int = 20  # of a short stream


OPTIONS = POLAOptions()


@solver(POLAProblem, "dual", tol=1e-6, rank=1)
def steps(problem: POLAProblem, budget: Budget, tol: float) -> Iterator[Step]:
    """Solve batch POLA on its dual, or by its exact program if few pairs contradict each other.

    Multipliers are as large as the objective, which depends on the units of the features. Where the first
    steps do not keep the hard margins, such a point is sought in coordinates that give pairs a unit second moment.
    """
    step = Step.certified(problem, problem.zero, problem.repeated)
    yield step
    if _is_infeasible(step):
        return
    n_pairs, n_entries = len(problem.pairs), math.comb(problem.X.shape[1] + 1, 2)
    is_small = n_pairs * n_entries <= OPTIONS.max_entries
    a, evaluations = np.zeros(n_pairs), OPTIONS.first_evaluations
    is_conic_first = is_small and n_entries <= OPTIONS.few_entries and n_pairs >= OPTIONS.pairs_per_entry * n_entries
    if problem.slack_weight is not None:
        (a, is_conic_first), evaluations = _probe(problem, budget, n_entries), 0
    if is_conic_first:
        for step in conic.steps(problem, budget, tol):
            yield step
            if _is_infeasible(step):
                return
    is_feasible, n_infeasible = math.isfinite(step.objective), 0
    # A round of active-set steps solves most problems.
    for _ in range(OPTIONS.rounds_before_conic if is_small and not is_conic_first else OPTIONS.rounds):
        before = a
        for step, multipliers in _round(problem, budget, tol, before, evaluations):
            yield step
            if _is_infeasible(step):
                return
            a, is_feasible = multipliers, is_feasible or math.isfinite(step.objective)
            n_infeasible += not is_feasible
            if not is_feasible and n_infeasible == OPTIONS.infeasible_steps:
                yield from _feasible_steps(problem, budget, tol)
        evaluations = min(max(OPTIONS.first_evaluations, OPTIONS.growth * evaluations), OPTIONS.max_evaluations)
        if np.array_equal(a, before):
            break
    if is_small and not is_conic_first:
        yield from conic.steps(problem, budget, tol)


def _probe(problem: POLAProblem, budget: Budget, n_entries: int) -> tuple[FloatArray, bool]:
    """Return multipliers to start from, and whether active sets seem to change for longer than the exact program takes.

    They do if many pairs contradict each other; a gap that stays large is a sign of it. The more entries the metric
    has, the longer the exact program takes.
    """
    n_pairs, dual = len(problem.pairs), SumDual(problem.as_sum().total)
    share = min(OPTIONS.gap_share / n_entries, OPTIONS.largest_gap_share)
    evaluations = min(max(OPTIONS.soft_evaluations, n_entries // 2), OPTIONS.max_soft_evaluations)
    may_be_slow = n_entries <= OPTIONS.few_entries and n_pairs * n_entries <= OPTIONS.max_entries
    slow = (OPTIONS.probe, 1.0 - share) if may_be_slow else (0, 1.0)
    return dual.ascend(np.zeros(n_pairs), budget, evaluations, slow=slow).multipliers, dual.gave_up


def _feasible_steps(problem: POLAProblem, budget: Budget, tol: float) -> Iterator[Step]:
    """Yield points that keep hard margins, from a round in coordinates that give pairs a unit second moment."""
    whitened, T = _whitened(problem)
    rounds = _round(whitened, budget, tol, np.zeros(len(problem.pairs)), OPTIONS.first_evaluations)
    for step, _ in islice(rounds, OPTIONS.whitened_steps):
        if math.isfinite(step.objective):
            yield Step.certified(problem, step.components @ T.T)
        if _is_infeasible(step):
            return


def _round(
    problem: POLAProblem, budget: Budget, tol: float, a: FloatArray, evaluations: int
) -> Iterator[tuple[Step, FloatArray]]:
    """Yield steps of L-BFGS-B and then Newton's method from multipliers on, with the multipliers of each."""
    dual, is_feasible = SumDual(problem.as_sum().total), problem.slack_weight is not None
    try:
        start = dual.ascend(a, budget, evaluations).multipliers
        tried = 0.0
        for point in dual.newton(start, budget):
            a, step, proof = point.multipliers, _step(problem, point), None
            is_feasible |= math.isfinite(step.objective)
            if not is_feasible and float(a.max()) > OPTIONS.divergence * tried:  # else they do not diverge
                tried = float(a.max())
                proof = _contradiction(problem, a, np.maximum(a - start, 0.0))
            is_proven = relative_gap(step.objective, step.lower_bound) <= GAP_SHARE * tol
            if proof is not None or is_proven:
                step = Step.certified(problem, step.components, a if proof is None else proof)
            yield replace(step, stop=Stop.TOLERANCE if is_proven else Stop.NONE), a
            if is_proven:
                return
    except (BudgetSpent, KeyboardInterrupt):
        if dual.best is not None:
            yield _step(problem, dual.best), dual.best.multipliers
        raise


def _step(problem: POLAProblem, point: DualPoint) -> Step:
    L = problem.repair(psd.factor(point.metric[:-1, :-1]))[0]  # the threshold is the last entry
    objective, multipliers = problem.objective(L), partial(np.copy, point.multipliers)
    return Step(L, objective=objective, lower_bound=min(point.value, objective), multipliers=multipliers)


def _whitened(problem: POLAProblem) -> tuple[POLAProblem, FloatArray]:
    """Restate pairs as differences from 0, in coordinates T, (d, k), in which their second moment is the identity."""
    V = problem.differences
    sizes = np.sqrt(np.mean(V**2, axis=0))
    sizes[sizes == 0.0] = 1.0
    _, sigma, rows = np.linalg.svd(V / sizes, full_matrices=False)
    sizable = sigma > psd.RANK_TOLERANCE * sigma.max(initial=0.0)
    T = (rows[sizable].T / sigma[sizable]) * math.sqrt(len(V)) / sizes[:, None]
    points = np.concatenate([V @ T, np.zeros((1, T.shape[1]))])
    pairs = np.column_stack([np.arange(len(V)), np.full(len(V), len(V))])
    return POLAProblem(points, pairs, problem.similar, None, problem.initial_threshold), T


def _contradiction(problem: POLAProblem, *candidates: FloatArray) -> FloatArray | None:
    """Return multipliers that prove that the pairs contradict each other, from the first candidates that do."""
    for multipliers in candidates:
        if (proven := feasibility.contradiction(problem.as_sum().dual, [multipliers])) is not None:
            return proven.multipliers[0]
    return None


def _is_infeasible(step: Step) -> bool:
    return isinstance(step.certificate, InfeasibilityCertificate)


@solver(POLAProblem, "batch", tol=1e-3, takes=lambda problem: problem.slack_weight is None)
def batch_steps(problem: POLAProblem, budget: Budget, tol: float, *, beta: float = 1e-3) -> Iterator[Step]:
    """Yield the paper's batch conversion: online updates, pair after pair, until no loss exceeds `beta`.

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
    (losses, multipliers), totals = np.zeros((2, n_pairs)), state.totals
    data = problem.X, problem.pairs, problem.similar
    while True:
        first, updates_before = 0, int(totals[loops.UPDATES])
        while first < n_pairs:
            updates = int(totals[loops.UPDATES])
            limit = int(min(OPTIONS.chunk, max(1, budget.max_iter - budget.spent)))
            first = loops.run(data, first, limit, 0.0, beta, state, losses, multipliers)
            if totals[loops.UPDATES] > updates:
                budget.spend(int(totals[loops.UPDATES]) - updates)
        ended = totals[loops.UPDATES] == updates_before
        step = Step.certified(problem, problem.repair(psd.factor(state.metric))[0], multipliers.copy())
        yield replace(step, stop=Stop.CONVERGED if ended else Stop.NONE)
        if ended or _is_infeasible(step):
            return


@solver(POLAProblem, "online", tol=1e-6, stream=True)
def online_steps(problem: POLAProblem, budget: Budget, tol: float, *, gamma: float | None = None) -> Iterator[Step]:
    """Yield online POLA, once over the problem's pairs in their order; see `sdpmetric.pola.stream.POLAStream`.

    The objective of a step is the cumulative loss so far, the squared hinges before each update. The slack weight plays
    no part.
    """
    stream = POLAStream(problem.X.shape[1], problem.initial_threshold, gamma)
    n_pairs = len(problem.pairs)
    chunk = max(1, min(OPTIONS.chunk, -(-n_pairs // OPTIONS.trace_rows)))
    for first in range(0, n_pairs, chunk):
        size = int(min(chunk, n_pairs - first, max(1, budget.max_iter - budget.spent)))
        if first:
            budget.spend(size)
        else:  # the first chunk is taken even if there is no time, as the stream starts from the zero metric
            budget.spent += size
        pairs = slice(first, first + size)
        stream.partial_fit(problem.X, problem.pairs[pairs], problem.similar[pairs])
        certificate = problem.certify_stream(stream.cumulative_loss, first + size, stream.n_updates)
        extras = {"threshold": stream.threshold, "mistakes": stream.mistakes}
        step = Step.of_certificate(stream.components, certificate)
        yield replace(step, n_active=stream.n_updates, extras=extras)
        if size < min(chunk, n_pairs - first):  # the iterations are used up: the next chunk says so
            budget.spend()
