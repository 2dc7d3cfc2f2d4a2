"""Sums of terms that have no minimum, and hard constraints that contradict each other."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, linprog, minimize

from sdpmetric.bounds.bound_terms import BoundTerms
from sdpmetric.bounds.contradiction import simplest
from sdpmetric.bounds.fenchel import NULL, FenchelDual, Proven
from sdpmetric.core.certificate import InfeasibilityCertificate
from sdpmetric.linalg.distances import adjoint
from sdpmetric.linalg.rigorous import sum_below

FloatArray = NDArray[np.float64]
Lists = list[FloatArray]

# Parts of multipliers added where constraints pull together, so a proof of a contradiction bears rounding.
MORE = (0.0, 1e-9, 1e-6, 1e-3)
# Multipliers below this share of the largest are left out of the list of constraints that contradict each other.
NEGLIGIBLE = 1e-6
# Weights of the trace that is gained, in coordinates of moderate size, where proofs are searched for.
GAINED = (0.0, 1e-3)
# Entries of a factor there, where the trace is gained without end; half squares of violations that count as none.
FURTHEST, SATISFIED = 1e3, 1e-12
# What slacks of weights have to leave beside multipliers with sum 1, in units of what losses add to them.
LEFT = (1e-9, 0.0)
# Whole numbers up to this are added exactly.
EXACT = 2.0**53
# Constraints of a proof that are tried to be left out one at a time, and steps of each of these tries.
MANY, STEPS = 50, 500


def unbounded(dual: FenchelDual) -> int:
    """In how many directions a term may gain without end at no cost; 0 where the sum is bounded from below."""
    gaining = [loss for loss in dual.total.losses if not loss.nonnegative]
    if not gaining or dual.total.regularizers:
        return 0
    anchors = [loss.anchor(loss.clip(np.ones(loss.size))) for loss in dual.total.losses]
    null = dual.slack.coordinates(dual.total.pair_weights(anchors), None)[1]
    Y = dual.total.centered @ dual.slack.domain.basis.T @ null
    rows = np.concatenate([loss.distance_pairs() for loss in gaining])
    parts = Y[rows[:, 0]] - Y[rows[:, 1]]
    sizes = np.linalg.svd(parts[np.abs(parts).max(axis=1, initial=0.0) > NULL], compute_uv=False)
    return int(np.count_nonzero(sizes > NULL))


def contradiction(dual: FenchelDual, a: Lists) -> Proven | None:
    """Multipliers, loss by loss, that prove that no metric satisfies all hard constraints; None where these do not.

    Where some metric does, the sum of the hard constraints alone has the minimum 0, and nothing above is proven.
    """
    total, own = dual.total, _alone(dual)
    found = [part if loss.hard else np.zeros_like(part) for loss, part in zip(total.losses, a, strict=True)]
    size = max((float(part.max(initial=0.0)) for part in found), default=0.0)
    if not 0.0 < size < math.inf:
        return None
    scaled = [part / size for loss, part in zip(total.losses, found, strict=True) if loss.hard]
    for more in MORE:
        raised = [
            np.where(part > 0.0, part + more * (loss.anchor(part) > 0.0), 0.0)
            for loss, part in zip(own.total.losses, scaled, strict=True)
        ]
        for proven in (own.prove(raised, np.zeros((0, dual.d))), own.unmoved(raised)):
            if proven.value > 0.0:
                return replace(proven, multipliers=_whole(total, found, proven.multipliers))
    simple = _simple(scaled)
    value = _cancelled(own.total, simple)
    return Proven(value, _whole(total, found, simple)) if value > 0.0 else None


def _whole(total: BoundTerms, a: Lists, hard: Lists) -> Lists:
    """Multipliers of all losses, those of hard constraints replaced."""
    parts = iter(hard)
    return [next(parts) if loss.hard else part for loss, part in zip(total.losses, a, strict=True)]


def _simple(a: Lists) -> Lists:
    """Multipliers in simple ratios near given ones."""
    flat = np.concatenate(a)
    used = flat > NEGLIGIBLE * flat.max()
    flat = np.where(used, flat, 0.0)
    flat[used] = simplest(flat[used])
    return np.split(flat, np.cumsum([len(part) for part in a[:-1]]))


def _cancelled(total: BoundTerms, a: Lists) -> float:
    """What whole multipliers prove because no pair is left with a negative weight, exactly; 0 where one is.

    Comparisons that go round in a circle add up to 0 on each pair, where rounding leaves no room for other proofs.
    """
    signs = [np.abs(loss.combination.data) == 1.0 for loss in total.losses]
    flat = np.concatenate(a)
    if total.entrywise or not np.concatenate(signs).all() or (flat != np.round(flat)).any() or flat.sum() >= EXACT:
        return 0.0
    _, pair = np.unique(np.sort(total.pairs, axis=1), axis=0, return_inverse=True)
    if np.bincount(pair.ravel(), total.pair_weights(a)).min() < 0.0:
        return 0.0
    values = [loss.dual_value(part) for loss, part in zip(total.losses, a, strict=True)]
    return sum_below(np.array(values))


def certificate(dual: FenchelDual, components: FloatArray, given: Lists | None) -> InfeasibilityCertificate | None:
    """Proof that hard constraints contradict each other, by given multipliers or by the violations at a point.

    Without any one of the constraints that it names the others are not proven to contradict each other.
    """
    total = dual.total
    if not any(loss.hard for loss in total.losses):
        return None
    if (found := proof(dual, components, given)) is None:
        return None
    a = np.concatenate(found.multipliers)
    return InfeasibilityCertificate(
        program="sum of terms",
        constraints="hard constraints",
        contradiction=tuple(int(i) for i in _irreducible(dual, _used(a, a))),
        rigor=total.rigor,
    )


def proof(dual: FenchelDual, components: FloatArray, given: Lists | None) -> Proven | None:
    """What `certificate` goes by; None where nothing is proven."""
    tries = [] if given is None else [given]
    found = (contradiction(dual, a) for a in (*tries, _violations(dual.total, components)))
    return next((proven for proven in found if proven is not None), None)


def _alone(dual: FenchelDual) -> FenchelDual:
    """The hard constraints without the other terms."""
    total = replace(dual.total, terms=tuple(loss for loss in dual.total.losses if loss.hard))
    return FenchelDual(total, replace(dual.slack, total=total))


def _violations(total: BoundTerms, components: FloatArray) -> Lists:
    """By how much hard constraints are violated, relative to the squares of their units."""
    parts = zip(total.losses, total.excess(components), strict=True)
    return [np.maximum(u, 0.0) / loss.unit**2 if loss.hard else np.zeros_like(u) for loss, u in parts]


def _used(found: FloatArray, order: FloatArray) -> NDArray[np.intp]:
    """The constraints that a proof uses, those with the largest multipliers first."""
    rows = np.flatnonzero(found > NEGLIGIBLE * found.max())
    return rows[np.argsort(-order[rows], kind="stable")]


def _irreducible(dual: FenchelDual, rows: NDArray[np.intp]) -> NDArray[np.intp]:
    """Constraints among given ones, sorted, that are proven to contradict each other, but not without any one of them.

    The first few are tried, then more; then all but one at a time.
    """
    few = 2
    while few < len(rows):
        if (found := _proof(dual, rows[:few])) is not None:
            rows = found
        few *= 2
    for row in rows[::-1] if len(rows) <= MANY else ():
        if row in rows and (found := _proof(dual, rows[rows != row])) is not None:
            rows = found
    return np.sort(rows)


def _proof(dual: FenchelDual, rows: NDArray[np.intp]) -> NDArray[np.intp] | None:
    """Those of given constraints that are proven to contradict each other; None where nothing is.

    The violations at a metric with the least sum of their squares are such multipliers: there its slope, the slack
    matrix, is PSD, and products with the metric are 0. Where a little trace is gained beside them, it is positive in
    all directions, if there are such multipliers, and bears rounding.
    """
    if dual.slack.domain.diagonal:
        return _proof_over_weights(dual, rows)
    total, T, chosen = dual.total, dual.slack.descent_coordinates, np.zeros(dual.total.n_multipliers)
    chosen[rows] = 1.0
    moved, domain, kept = T.T @ dual.slack.domain.basis, dual.slack.domain, total.split(chosen)
    first, second = total.pairs.T
    parts = np.stack([T[part].any(axis=0) for part in domain.parts])
    free = parts.T @ parts

    def evaluate(flat: FloatArray, gained: float) -> tuple[float, FloatArray]:
        F = np.where(free, flat.reshape(free.shape), 0.0)
        a = [keep * part for keep, part in zip(kept, _violations(total, F @ moved), strict=True)]
        S = adjoint(total.centered, first, second, total.pair_weights(a, costs=False)) + total.entry_matrix(a)
        value = sum(float(np.sum((loss.unit * part) ** 2)) for loss, part in zip(total.losses, a, strict=True))
        slope = moved @ S @ moved.T - gained * np.eye(len(moved))
        return 0.5 * value - gained * float(np.sum(F * F)), np.where(free, 2.0 * F @ slope, 0.0).ravel()

    options, F = {"maxiter": STEPS, "ftol": 1e-16, "gtol": 0.0}, np.eye(len(free))
    for gained in GAINED:
        ends = Bounds(-FURTHEST, FURTHEST) if gained else None
        least = minimize(evaluate, F.ravel(), (gained,), method="L-BFGS-B", jac=True, bounds=ends, options=options)
        F = np.where(free, least.x.reshape(free.shape), 0.0)
        a = [keep * part for keep, part in zip(kept, _violations(total, F @ moved), strict=True)]
        if (found := contradiction(dual, a)) is not None:
            return _used(np.concatenate(found.multipliers), np.concatenate(a))
        if least.fun <= SATISFIED:
            return None
    return None


def _proof_over_weights(dual: FenchelDual, rows: NDArray[np.intp]) -> NDArray[np.intp] | None:
    """The same by a linear program: ``T^T a >= 0`` where the excess at the zero metric, weighted by a, is positive."""
    total = dual.total
    T = dual.slack.table(rows, np.arange(len(dual.slack.domain.basis)))
    offset = np.concatenate([np.zeros(0), *(loss.offset for loss in total.losses)])[rows]
    sizes = np.abs(T).max(axis=0, initial=0.0)
    T = T[:, sizes > 0.0] / sizes[sizes > 0.0]
    for gained in LEFT if len(rows) else ():
        least = np.full(T.shape[1], -gained)
        found = linprog(-offset, -T.T, least, np.ones((1, len(rows))), [1.0], method="highs-ds")
        if found.x is None or not -found.fun > 0.0:
            continue
        a = np.zeros(total.n_multipliers)
        a[rows] = np.maximum(found.x, 0.0)
        if contradiction(dual, total.split(a)) is not None:
            return _used(a, a)
    return None
