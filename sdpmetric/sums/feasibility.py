"""Proofs about the infimum of a sum: it is at most 0, it is minus infinity, or hard constraints contradict each other.

Small gaps need not be relative to an optimum that is at most 0.

Multipliers ``a >= 0`` of hard constraints ``u_i = c_i + <A_i, M> <= 0`` prove that no metric satisfies all of them
if ``sum_i a_i A_i`` is PSD on the domain and ``sum_i a_i c_i > 0``: then ``sum_i a_i u_i > 0`` at every metric. In
other words, the sum of the hard constraints alone has a lower bound above 0 (`FenchelDual`), which no metric attains.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from sdpmetric.arrays import FloatArray
from sdpmetric.core.certificate import InfeasibilityCertificate
from sdpmetric.linalg import exact, psd
from sdpmetric.linalg.distances import adjoint
from sdpmetric.linalg.exact import separated
from sdpmetric.linalg.rigorous.directed import U, sum_below
from sdpmetric.linalg.rigorous.forms import Form
from sdpmetric.linalg.search import lbfgs
from sdpmetric.sums.bound_terms import BoundTerms
from sdpmetric.sums.domains import ByLoss, Domain
from sdpmetric.sums.fenchel import NULL_TOLERANCE, FenchelDual, Proven

# Where the optimum is at most 0, gaps of this share of what the lightest constraint costs, missed by its margin, count
# as closed.
RESOLUTION = 1e-9


def resolution(X: NDArray[np.floating], total: BoundTerms, domain: Domain) -> float:
    """See `sdpmetric.DualityCertificate`; return 0 unless the optimum is proven to be at most 0.

    That is shown at the zero metric, at the target of the only regularizer, or along a direction without a difference
    of a pulled pair.
    """
    is_free = total.upper_bound(X, np.zeros((0, X.shape[1]))) <= 0.0
    if not is_free and not domain.diagonal:
        is_free = _free_at_target(X, total) if total.regularizers else _free_in_null_directions(X, total)
    return RESOLUTION * smallest_cost(total) if is_free else 0.0


def smallest_cost(total: BoundTerms) -> float:
    """Return the cost of the lightest summand when it is missed by its margin, or 0 if nothing sets a scale."""
    distances, traces = [loss.distance_scale for loss in total.losses], list[float]()
    for target in (regularizer.zero for regularizer in total.regularizers):
        if target.any():
            lengths = total.distances(psd.factor(target))
            distances.append(float(lengths[lengths > 0.0].min(initial=np.inf)))
            traces.append(float(np.trace(target)))
    if min([*distances, *traces], default=np.inf) == np.inf:
        return 0.0
    distance, squared_range = min(1.0, *distances), float(np.sum(np.ptp(total.centered, axis=0) ** 2))
    trace = min(1.0, *traces, distance / squared_range if squared_range else 1.0)
    return min(term.smallest_cost(distance, trace) for term in total.terms)


def _free_at_target(X: NDArray[np.floating], total: BoundTerms) -> bool:
    """Return whether the target of the one regularizer is a metric, and everything else costs nothing there."""
    target = total.regularizers[0].zero
    if len(total.regularizers) != 1 or (total.span is not None and not psd.is_diagonal(target)):
        return False
    values, vectors = np.linalg.eigh(target)
    if not (values[0] > 0.0 and Form.congruent(target, vectors / np.sqrt(values)).smallest_eigenvalue > 0.0):
        return False
    losses = replace(total, terms=tuple(term for term in total.terms if not term.regularizers))
    L = psd.factor(target)
    # In a span no metric of all features can be given; roots of a diagonal are rounded once.
    errors, metric = (None, target) if total.span is None else (2.0 * U * L, None)
    return not losses.terms or losses.upper_bound(X, L, errors, metric) <= 0.0


def _free_in_null_directions(X: NDArray[np.floating], total: BoundTerms) -> bool:
    """Return whether distances along directions without a difference of a pulled pair reduce all losses to 0."""
    if total.ridge or total.depends_on_entries:
        return False
    pulled = [loss.pulled_pairs() for loss in total.losses]
    pairs = np.concatenate([total.costs[0][total.costs[1] != 0.0], *pulled])
    groups = separated(X, pairs[:, 0], pairs[:, 1])
    return all(loss.vanishes(groups) for loss in total.losses)


@dataclass(frozen=True)
class ContradictionOptions:
    """Of the search for multipliers that prove a contradiction, and for few of them."""

    negligible: float = 1e-6  # shares that are left out: of the largest multiplier, and of the largest share of a proof
    max_simple: int = 60  # multipliers, beyond which ratios are not made simple
    max_denominator: int = 1000  # of simple ratios
    max_squares_in_fractions: tuple[int, int] = (100, 60)  # differences and features: 0.06 s at most
    max_irreducible: int = 50  # most constraints to try leaving out one by one
    descent_steps: int = 500  # of each of these tries


OPTIONS = ContradictionOptions()
# Whole numbers up to this are added exactly.
EXACT = 2.0**50


def unbounded(dual: FenchelDual) -> int:
    """Return the number of directions of unbounded gain at no cost, 0 if the sum is bounded from below."""
    gaining = [loss for loss in dual.total.losses if not loss.nonnegative]
    if not gaining or dual.total.regularizers:
        return 0
    anchors = [loss.anchor(loss.clip(np.ones(loss.size))) for loss in dual.total.losses]
    Y = dual.slack.points @ dual.slack.coordinates(dual.total.pair_weights(anchors), None)[1]
    i, j = np.concatenate([loss.distance_pairs() for loss in gaining]).T
    differences = Y[i] - Y[j]
    differences = differences[np.abs(differences).max(axis=1, initial=0.0) > NULL_TOLERANCE]
    return int(np.count_nonzero(np.linalg.svd(differences, compute_uv=False) > NULL_TOLERANCE))


def certificate(
    dual: FenchelDual, components: FloatArray, multipliers: ByLoss | None
) -> InfeasibilityCertificate | None:
    """Prove that hard constraints contradict each other, by given multipliers or by the violations at a point.

    Each constraint that it names is needed: the rest is not proven contradictory.
    """
    if not any(loss.hard for loss in dual.total.losses):
        return None
    if (proven := proof(dual, components, multipliers)) is None:
        return None
    return InfeasibilityCertificate(
        program="sum of terms",
        constraints="hard constraints",
        contradiction=tuple(_irreducible(dual, proven).tolist()),
        rigor=dual.total.rigor,
    )


def proof(dual: FenchelDual, components: FloatArray, multipliers: ByLoss | None) -> Proven | None:
    """Return the multipliers of `certificate`, or None if nothing is proven."""
    candidates = [] if multipliers is None else [multipliers]
    proofs = (contradiction(dual, a) for a in (*candidates, _violations(dual.total, components)))
    return next((proven for proven in proofs if proven is not None), None)


def contradiction(dual: FenchelDual, a: ByLoss) -> Proven | None:
    """Return multipliers, loss by loss, that prove the hard constraints contradictory, or None if these do not.

    They are tried as they are; then at any ratio of those of constraints that pull to all others; then rounded to whole
    numbers with about the same ratios, in exact arithmetic.
    """
    total = dual.total
    hard = [x if loss.hard else np.zeros_like(x) for loss, x in zip(total.losses, a, strict=True)]
    size = max((float(x.max(initial=0.0)) for x in hard), default=0.0)
    if not 0.0 < size < math.inf:
        return None
    constraints = replace(total, terms=tuple(loss for loss in total.losses if loss.hard))
    of_constraints = FenchelDual(constraints, replace(dual.slack, total=constraints))

    def proofs() -> Iterator[Proven]:
        multipliers = [x for loss, x in zip(total.losses, hard, strict=True) if loss.hard]
        scaled = [x / size for x in multipliers]
        yield Proven(_exact_bound(of_constraints, multipliers), multipliers)
        yield of_constraints.prove_unmoved(scaled)
        yield of_constraints.prove(scaled, np.zeros((0, dual.slack.d)))
        yield Proven(_exact_bound(of_constraints, simple := _simple(multipliers)), simple)

    proven = next((proven for proven in proofs() if proven.value > 0.0), None)
    if proven is None:
        return None
    proven_multipliers = iter(proven.multipliers)
    by_loss = [next(proven_multipliers) if loss.hard else x for loss, x in zip(total.losses, hard, strict=True)]
    return replace(proven, multipliers=by_loss)


def used(dual: FenchelDual, proven: Proven) -> NDArray[np.intp]:
    """Return the constraints with positive multipliers, the largest shares of the proof first.

    Leave out those of small shares if the rest is proven contradictory without them. The share of a constraint is its
    multiplier times the squared differences of its pairs, for data of unit variance: a
    multiplier by itself may be tiny and needed, as it grows with the inverse of these squares.
    """
    total = dual.total
    V = dual.slack.points @ dual.slack.basis[0]
    squares = np.sum((V[total.pairs[:, 0]] - V[total.pairs[:, 1]]) ** 2, axis=1)
    by_loss = zip(total.losses, total.pair_slices, proven.multipliers, strict=True)
    shares = np.concatenate([a * (abs(loss.combination) @ squares[pairs]) for loss, pairs, a in by_loss])
    a = np.concatenate(proven.multipliers)
    is_kept = shares > OPTIONS.negligible * shares.max()
    if (a[~is_kept] > 0.0).any() and (fewer := contradiction(dual, total.split(np.where(is_kept, a, 0.0)))):
        a = np.concatenate(fewer.multipliers)
    rows = np.flatnonzero(a > 0.0)
    return rows[np.argsort(-shares[rows], kind="stable")]


def _simple(a: ByLoss) -> ByLoss:
    """Return whole multipliers with about the ratios of the given multipliers, if these are few."""
    flat = np.concatenate(a)
    rows, integers = np.flatnonzero(flat > OPTIONS.negligible * flat.max()), np.zeros_like(flat)
    ratios = [Fraction(float(value / flat.max())).limit_denominator(OPTIONS.max_denominator) for value in flat[rows]]
    common = math.lcm(*(ratio.denominator for ratio in ratios)) if len(rows) <= OPTIONS.max_simple else 1
    integers[rows] = [float(ratio * common) for ratio in ratios]
    return np.split(integers, np.cumsum([len(x) for x in a[:-1]]))


def _exact_bound(dual: FenchelDual, a: ByLoss) -> float:
    """Return the value that whole multipliers with an exactly PSD slack matrix prove, or 0 if that is not shown.

    Comparisons that go round in a circle, for example, leave no difference with a negative weight, and the matrix may
    be singular, so rounding leaves no room for other proofs.
    """
    total, flat = dual.total, np.concatenate(a)
    is_signed = [np.abs(loss.combination.data) == 1.0 for loss in total.losses]
    is_whole = np.concatenate(is_signed).all() and (flat == np.round(flat)).all() and flat.sum() < EXACT
    if total.depends_on_entries or not is_whole:
        return 0.0
    weights: FloatArray = total.pair_weights(a)
    pairs = np.flatnonzero(weights)
    V, residuals = exact.differences(dual.slack.X, *total.pairs[pairs].T)
    group, differ = exact.alike(V, residuals), V.any(axis=1)
    sums = np.zeros(int(group.max(initial=-1)) + 1)
    np.add.at(sums, group[differ], weights[pairs][differ])
    nonzero, first = np.flatnonzero(sums), np.unique(group, return_index=True)[1]
    V, residuals, sums = V[first[nonzero]], residuals[first[nonzero]], sums[nonzero]
    if (sums < 0.0).any():
        max_differences, max_features = OPTIONS.max_squares_in_fractions
        if len(V) > max_differences or V.shape[1] > max_features or not exact.is_psd(V, residuals, sums):
            return 0.0
    return sum_below(np.array([loss.dual_value(x) for loss, x in zip(total.losses, a, strict=True)]))


def _violations(total: BoundTerms, components: FloatArray) -> ByLoss:
    """Return by how much hard constraints are violated, relative to the squares of their units."""
    losses = zip(total.losses, total.excess(components), strict=True)
    return [np.maximum(u, 0.0) / loss.unit**2 if loss.hard else np.zeros_like(u) for loss, u in losses]


# -- few constraints --------------------------------------------------------------------------------------------


def _irreducible(dual: FenchelDual, proven: Proven) -> NDArray[np.intp]:
    """Return constraints of a proof, sorted, that are proven to contradict each other, but not without any one of them.

    The first two are tried, then twice as many; then all but one at a time.
    """
    a, rows, count = np.concatenate(proven.multipliers), used(dual, proven), 2
    while count < len(rows):
        if (subset := _contradicting(dual, a, rows[:count])) is not None:
            rows = subset
        count *= 2
    for row in rows[::-1] if len(rows) <= OPTIONS.max_irreducible else ():
        if row in rows and (subset := _contradicting(dual, a, rows[rows != row])) is not None:
            rows = subset
    return np.sort(rows)


def _contradicting(dual: FenchelDual, a: FloatArray, rows: NDArray[np.intp]) -> NDArray[np.intp] | None:
    """Return those of given constraints that are proven to contradict each other; None if nothing is proven.

    Multipliers of a proof of more constraints are tried, then those of these constraints alone.
    """
    is_chosen = np.isin(np.arange(len(a)), rows)
    proven = contradiction(dual, dual.total.split(np.where(is_chosen, a, 0.0)))
    if proven is None:
        candidate = of_linear_program if dual.slack.domain.diagonal else _of_least_violations
        multipliers = candidate(dual, rows)
        proven = None if multipliers is None else contradiction(dual, multipliers)
    return None if proven is None else used(dual, proven)


def _of_least_violations(dual: FenchelDual, rows: NDArray[np.intp]) -> ByLoss:
    """Return the violations of constraints at a metric with the smallest sum of their squares.

    There its slope, the slack matrix, is PSD, and products with the metric are 0.
    """
    total, domain, T = dual.total, dual.slack.domain, dual.slack.descent_coordinates
    is_chosen = np.zeros(total.n_multipliers)
    is_chosen[rows] = 1.0
    chosen, transform = total.split(is_chosen), T.T @ domain.basis
    i, j = total.pairs.T

    def violations(F: FloatArray) -> ByLoss:
        return [mask * x for mask, x in zip(chosen, _violations(total, F @ transform), strict=True)]

    def evaluate(flat: FloatArray) -> tuple[float, FloatArray]:
        F = flat.reshape(len(transform), -1)
        a = violations(F)
        S = adjoint(total.centered, i, j, total.pair_weights(a, costs=False)) + total.entry_matrix(a)
        value = sum(float(np.sum((loss.unit * x) ** 2)) for loss, x in zip(total.losses, a, strict=True))
        return 0.5 * value, (2.0 * F @ (transform @ S @ transform.T)).ravel()

    F = np.eye(len(transform))
    minimum, _ = lbfgs(evaluate, F.ravel(), maxiter=OPTIONS.descent_steps, maxcor=10, ftol=1e-16)
    return violations(minimum.x.reshape(F.shape))


def of_linear_program(dual: FenchelDual, rows: NDArray[np.intp]) -> ByLoss | None:
    """Return a with ``T^T a >= 0`` and the largest excess at the zero metric, weighted by a, of weights of features."""
    total = dual.total
    T = dual.slack.table(rows, np.arange(len(dual.slack.domain.basis)))
    offset = np.concatenate([np.zeros(0), *(loss.offset for loss in total.losses)])[rows]
    sizes = np.abs(T).max(axis=0, initial=0.0)
    T = T[:, sizes > 0.0] / sizes[sizes > 0.0]
    if not len(rows):
        return None
    minimum = linprog(-offset, -T.T, np.zeros(T.shape[1]), np.ones((1, len(rows))), [1.0], method="highs-ds")
    if minimum.x is None or not -minimum.fun > 0.0:
        return None
    a = np.zeros(total.n_multipliers)
    a[rows] = np.maximum(minimum.x, 0.0)
    return total.split(a)
