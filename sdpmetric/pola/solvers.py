"""POLA's solvers: batch on its dual as a sum, by the paper's batch conversion, and online; see docs/methods.md."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

import numpy as np

from sdpmetric.arrays import FloatArray
from sdpmetric.core import validation
from sdpmetric.core.certificate import InfeasibilityCertificate, relative_gap
from sdpmetric.core.registry import solver
from sdpmetric.core.steps import Budget, Step
from sdpmetric.linalg import psd
from sdpmetric.linalg.search import GAP_SHARE, Stop
from sdpmetric.pola import loops
from sdpmetric.pola.interior import InteriorPoint
from sdpmetric.pola.problem import POLAProblem
from sdpmetric.pola.stream import POLAStream
from sdpmetric.sums import conic, feasibility
from sdpmetric.sums.dual import SumDual
from sdpmetric.sums.dual import steps as sum_steps


@dataclass(frozen=True)
class POLAOptions:
    small_gap: float = 0.5  # at the largest multipliers, if a slack costs little: most are optimal
    evaluations: int = 25  # of L-BFGS-B then
    newton_steps: int = 10  # after these, at most
    max_entries: int = 10**6  # pairs times entries of the metric for the interior point method; then rounds are faster
    max_hard_entries: int = 4 * 10**6  # the same with hard margins, which may contradict each other
    few_entries: int = 3 * 10**5  # of this table, for the exact program
    interior_steps: int = 60  # at most, of this method
    least_step: float = 1e-6  # share of a step, below which the method stalls
    rounding: float = 1e-11  # of the summands: multipliers may prove a contradiction if their sum is PSD up to this
    chunk: int = 5000  # updates, or pairs of a stream, between two looks at the clock
    trace_rows: int = 20  # of a short stream


OPTIONS = POLAOptions()


@solver(POLAProblem, "dual", tol=1e-6, rank=1)
def steps(problem: POLAProblem, budget: Budget, tol: float) -> Iterator[Step]:
    """Solve batch POLA as a sum on its dual: by an interior point method, or by L-BFGS-B and Newton's method.

    These two come first if a slack costs so little that most multipliers are at their bounds, and alone for many pairs
    of many features. If they prove too little, the exact program comes last.
    """
    is_hard, dual = problem.slack_weight is None, SumDual(problem.as_sum().total)
    yield Step.certified(problem, problem.zero, problem.repeated) if is_hard else _zero(problem)
    if not is_hard and dual.evaluate(problem.ceilings).gap <= OPTIONS.small_gap:
        a = dual.ascend(problem.ceilings, budget, OPTIONS.evaluations, GAP_SHARE * tol).multipliers
        for n_steps, point in enumerate(islice(dual.newton(a, budget), OPTIONS.newton_steps), 1):
            step = _step(problem, point.metric, point.value, point.multipliers)
            yield replace(step, stop=_reason(step, tol, n_steps == OPTIONS.newton_steps))
    n_entries = len(problem.pairs) * math.comb(len(dual.target) + 1, 2)
    if n_entries <= (OPTIONS.max_hard_entries if is_hard else OPTIONS.max_entries):
        is_better = yield from _interior_steps(problem, dual, budget, tol)
        if not is_better:
            yield from _whitened_steps(problem, budget, tol)
    for step in sum_steps(problem.as_sum(), budget, tol):
        yield _of_sum(problem, step)
    if n_entries <= OPTIONS.few_entries:  # features of very different scales leave Newton's method without a proof
        for step in conic.steps(problem, budget, tol):
            yield replace(step, status=None)


def _whitened_steps(problem: POLAProblem, budget: Budget, tol: float) -> Iterator[Step]:
    """Yield points of small losses, or a contradiction, from coordinates that give pairs unit second moments."""
    V = problem.differences
    sizes = np.sqrt(np.mean(V**2, axis=0))
    sizes[sizes == 0.0] = 1.0
    _, sigma, rows = np.linalg.svd(V / sizes, full_matrices=False)
    sizable = sigma > psd.RANK_TOLERANCE * sigma.max(initial=0.0)
    if not sizable.any():  # all pairs are of equal examples
        return
    T = (rows[sizable].T / sigma[sizable]) * math.sqrt(len(V)) / sizes[:, None]
    points = np.concatenate([V @ T, np.zeros((1, T.shape[1]))])
    pairs = np.column_stack([np.arange(len(V)), np.full(len(V), len(V))])
    weights = problem.slack_weight, problem.initial_threshold, problem.pair_weights
    whitened = POLAProblem(points, pairs, problem.similar, *weights)
    for step in _interior_steps(whitened, SumDual(whitened.as_sum().total), budget, tol):
        if math.isfinite(step.objective):
            yield Step.certified(problem, step.components @ T.T)
        elif _is_infeasible(step) and step.multipliers is not None:  # a contradiction holds in all coordinates
            yield Step.certified(problem, problem.zero, step.multipliers())


def _of_sum(problem: POLAProblem, step: Step) -> Step:
    """Return a step of the sum as one of the problem."""
    components = problem.repair(step.components[:, :-1])[0]  # the threshold is the last entry
    if _is_infeasible(step) and step.multipliers is not None:
        proven = feasibility.contradiction(problem.as_sum().dual, [np.asarray(step.multipliers())])
        return Step.certified(problem, components, None if proven is None else proven.multipliers[0])
    objective = problem.objective(components)
    bound = min(step.lower_bound, objective)
    return replace(step, components=components, objective=objective, lower_bound=bound, certificate=None)


def _zero(problem: POLAProblem) -> Step:
    return Step(problem.zero, objective=problem.objective(problem.zero))


def _interior_steps(problem: POLAProblem, dual: SumDual, budget: Budget, tol: float) -> Generator[Step, None, bool]:
    """Yield points near the central path, and a proof if multipliers diverge since pairs contradict each other.

    Return whether a point is better than the zero metric, as those are that keep hard margins.
    """
    point, step = InteriorPoint(dual, problem.signs), _zero(problem)
    objective_of_zero, is_better = step.objective, False
    for n_steps in range(1, OPTIONS.interior_steps + 1):
        budget.spend()
        a = point.multipliers
        try:
            share = point.advance()
        except np.linalg.LinAlgError:
            yield replace(step, stop=Stop.STALLED)
            break
        step = _step(problem, point.metric, point.lower_bound, point.multipliers)
        is_better |= step.objective < objective_of_zero
        may_contradict = problem.slack_weight is None and not is_better
        for candidate in (point.multipliers, np.maximum(point.multipliers - a, 0.0)) if may_contradict else ():
            if (proof := _contradiction(problem, dual, candidate)) is not None:
                yield Step.certified(problem, step.components, proof)
                return False
        is_stalled = share < OPTIONS.least_step
        yield replace(step, stop=Stop.STALLED if is_stalled else _reason(step, tol, n_steps == OPTIONS.interior_steps))
        if is_stalled:
            break
    return is_better


def _reason(step: Step, tol: float, is_last: bool) -> Stop:
    """Return why steps end here, if they do."""
    if relative_gap(step.objective, step.lower_bound) <= GAP_SHARE * tol:
        return Stop.TOLERANCE
    return Stop.LIMIT if is_last else Stop.NONE


def _contradiction(problem: POLAProblem, dual: SumDual, a: FloatArray) -> FloatArray | None:
    """Return multipliers that prove that the pairs contradict each other, if those given about do."""
    if not np.linalg.eigvalsh(dual.matrix(a))[0] >= -OPTIONS.rounding * float((a / dual.units).max()):
        return None
    proven = feasibility.contradiction(problem.as_sum().dual, [a])
    return None if proven is None else proven.multipliers[0]


def _step(problem: POLAProblem, lifted: FloatArray, value: float, multipliers: FloatArray) -> Step:
    L, b = problem.repair(psd.factor(lifted[:-1, :-1]))  # the threshold is the last entry
    objective = problem.objective(L, threshold=b)
    return Step(L, objective=objective, lower_bound=min(value, objective), multipliers=partial(np.copy, multipliers))


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
    yield Step.certified(problem, problem.zero, problem.repeated)
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
        if ended:
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
