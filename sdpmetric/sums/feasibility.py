"""Sums of terms that have no minimum, and hard constraints that contradict each other."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import Bounds, linprog, minimize

from sdpmetric.core.certificate import InfeasibilityCertificate
from sdpmetric.linalg import exact, psd
from sdpmetric.linalg.distances import adjoint
from sdpmetric.linalg.rigorous import sum_below
from sdpmetric.sums.bound_terms import BoundTerms
from sdpmetric.sums.fenchel import NULL_TOLERANCE, FenchelDual, Proven

FloatArray = NDArray[np.float64]
Lists = list[FloatArray]

# Parts of multipliers added where constraints pull together, so a proof of a contradiction bears rounding.
MORE = (0.0, 1e-9, 1e-6, 1e-3)
# Below this share counts as nearly zero there: multipliers, and eigenvalues of the slack matrix, which are brought to
# these; Newton steps, and the most entries of their equations.
NEARLY, GOALS, ROUNDS, LARGEST = 1e-4, (1e-6, 1e-9, 0.0), 12, 10**6
# Multipliers below this share of the largest are left out of the list of constraints that contradict each other.
NEGLIGIBLE = 1e-6
# Weights of the trace that is gained, in coordinates of moderate size, where proofs are searched for.
GAINED = (0.0, 1e-3)
# Entries of a factor there, where the trace is gained without end; half squares of violations that count as none.
FURTHEST, SATISFIED = 1e3, 1e-12
# What slacks of weights have to leave beside multipliers with sum 1, in units of what losses add to them.
LEFT = (1e-9, 0.0)
# Whole numbers up to this are added exactly.
EXACT = 2.0**50
# Simple ratios: how many multipliers at most, and their largest denominator. Largest numbers of differences and
# features of sums of squares that are checked in fractions.
FEW, DENOMINATOR, IN_FRACTIONS = 60, 1000, (60, 14)
# Constraints of a proof that are tried to be left out one at a time, and steps of each of these tries.
MANY, STEPS = 50, 500


def unbounded(dual: FenchelDual) -> int:
    """In how many directions a term may gain without end at no cost; 0 where the sum is bounded from below."""
    gaining = [loss for loss in dual.total.losses if not loss.nonnegative]
    if not gaining or dual.total.regularizers:
        return 0
    anchors = [loss.anchor(loss.clip(np.ones(loss.size))) for loss in dual.total.losses]
    null = dual.slack.coordinates(dual.total.pair_weights(anchors), None)[1]
    Y = dual.slack.points @ null
    rows = np.concatenate([loss.distance_pairs() for loss in gaining])
    parts = Y[rows[:, 0]] - Y[rows[:, 1]]
    sizes = np.linalg.svd(parts[np.abs(parts).max(axis=1, initial=0.0) > NULL_TOLERANCE], compute_uv=False)
    return int(np.count_nonzero(sizes > NULL_TOLERANCE))


def contradiction(dual: FenchelDual, a: Lists) -> Proven | None:
    """Multipliers, loss by loss, that prove that no metric satisfies all hard constraints; None where these do not.

    Where some metric does, the sum of the hard constraints alone has the minimum 0, and nothing above is proven.
    """
    total, own = dual.total, _alone(dual)
    found = [part if loss.hard else np.zeros_like(part) for loss, part in zip(total.losses, a, strict=True)]
    size = max((float(part.max(initial=0.0)) for part in found), default=0.0)
    if not 0.0 < size < math.inf:
        return None
    given = [part for loss, part in zip(total.losses, found, strict=True) if loss.hard]
    for tried in _near(own, given, size):
        proven = Proven(_exactly(own, tried), tried)
        proven = proven if proven.value > 0.0 else own.prove_unmoved(tried)
        if proven.value > 0.0:
            return replace(proven, multipliers=_whole(total, found, proven.multipliers))
    return None


def _near(own: FenchelDual, a: Lists, size: float) -> Iterator[Lists]:
    """Given multipliers, and others near by that bear rounding; none where those are far from feasible.

    Constraints that pull are raised; then Newton's method goes on in the eigenvalues of the slack matrix that should be
    0 or just above: the least relative change of multipliers that brings them there is a step.
    """
    total, domain, flat = own.total, own.slack.domain, np.concatenate(a) / size
    ends = np.cumsum([len(part) for part in a[:-1]])
    pulls = np.concatenate([loss.anchor(np.ones(loss.size)) > 0.0 for loss in total.losses])
    if size < EXACT and all((part == np.round(part)).all() for part in a):
        yield a
    for more in MORE if pulls.any() else ():
        yield np.split(np.where(flat > 0.0, flat + more * pulls, 0.0), ends)
    used, K = np.flatnonzero(flat > NEARLY * flat.max()), sp.block_diag([loss.combination for loss in total.losses])
    K, x, proof = sp.csr_array(K)[used], flat[used] / float(flat[used].sum()), np.zeros_like(flat)
    pairs = np.unique(K.indices)
    if domain.diagonal or total.depends_on_entries or len(pairs) * total.centered.shape[1] > LARGEST:
        yield _simple(a)
        return
    V = total.centered[total.pairs[pairs, 0]] - total.centered[total.pairs[pairs, 1]]
    K = K[:, pairs]
    count = abs(K).T @ x
    _, sigma, Vt = np.linalg.svd(np.sqrt(count)[:, None] * V, full_matrices=False)
    sizable = sigma > psd.RANK_TOLERANCE * sigma.max(initial=0.0)
    U = V @ (Vt[sizable].T / sigma[sizable])  # in which the slack matrix is between -I and I
    for _ in range(ROUNDS if np.isfinite(U).all() else 0):
        values, vectors = np.linalg.eigh(psd.symmetrize((U * (K.T @ x)[:, None]).T @ U))
        nearly = values < NEARLY
        if (values < -NEARLY).any():
            return
        W = U @ vectors[:, nearly]
        row, column = np.triu_indices(W.shape[1])
        if len(row) * len(x) > LARGEST:
            return
        proof[used] = x / float(x.max())
        yield from (np.split(proof.copy(), ends), _simple(np.split(proof, ends)))
        products = (K @ (W[:, row] * W[:, column])).T
        system = np.concatenate([products, np.ones((1, len(x)))]) * x
        for goal in GOALS:
            missing = np.append(goal * (row == column) - products @ x, 0.0)
            moved = np.maximum(x * (1.0 + np.linalg.lstsq(system, missing, rcond=1e-12)[0]), 0.0)
            if not 0.0 < float(moved.sum()) < math.inf:
                return
            proof[used] = moved / float(moved.max())
            if goal:
                yield np.split(proof.copy(), ends)
        x = moved / float(moved.sum())


def _whole(total: BoundTerms, a: Lists, hard: Lists) -> Lists:
    """Multipliers of all losses, those of hard constraints replaced."""
    parts = iter(hard)
    return [next(parts) if loss.hard else part for loss, part in zip(total.losses, a, strict=True)]


def _simple(a: Lists) -> Lists:
    """Whole multipliers whose ratios are about those of given ones, if these are few."""
    flat = np.concatenate(a)
    used = np.flatnonzero(flat > NEGLIGIBLE * flat.max())
    whole = np.zeros_like(flat)
    ratios = [Fraction(float(value / flat.max())).limit_denominator(DENOMINATOR) for value in flat[used]]
    common = math.lcm(*(ratio.denominator for ratio in ratios)) if len(used) <= FEW else 1
    whole[used] = [float(ratio * common) for ratio in ratios]
    return np.split(whole, np.cumsum([len(part) for part in a[:-1]]))


def _exactly(dual: FenchelDual, a: Lists) -> float:
    """What whole multipliers prove whose slack matrix is exactly PSD; 0 where that is not shown.

    Comparisons that go round in a circle, for example, leave no difference with a negative weight, and the matrix may
    be singular, where rounding leaves no room for other proofs.
    """
    total, flat = dual.total, np.concatenate(a)
    signs = [np.abs(loss.combination.data) == 1.0 for loss in total.losses]
    if (
        total.depends_on_entries
        or not np.concatenate(signs).all()
        or (flat != np.round(flat)).any()
        or flat.sum() >= EXACT
    ):
        return 0.0
    weights: FloatArray = total.pair_weights(a)
    used = np.flatnonzero(weights)
    V, rests = exact.differences(dual.slack.X, *total.pairs[used].T)
    group, differ = exact.alike(V, rests), V.any(axis=1)
    sums = np.zeros(int(group.max(initial=-1)) + 1)
    np.add.at(sums, group[differ], weights[used][differ])
    left, first = np.flatnonzero(sums), np.unique(group, return_index=True)[1]
    V, rests, sums = V[first[left]], rests[first[left]], sums[left]
    small = len(V) <= IN_FRACTIONS[0] and V.shape[1] <= IN_FRACTIONS[1]
    if (sums < 0.0).any() and not (small and exact.is_psd(V, rests, sums)):
        return 0.0
    return sum_below(np.array([loss.dual_value(part) for loss, part in zip(total.losses, a, strict=True)]))


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
        contradiction=tuple(int(i) for i in _irreducible(dual, used(a, a))),
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


def used(found: FloatArray, order: FloatArray | None = None) -> NDArray[np.intp]:
    """The constraints that a proof uses, on request those with the largest of other multipliers first."""
    rows = np.flatnonzero(found > NEGLIGIBLE * found.max())
    return rows if order is None else rows[np.argsort(-order[rows], kind="stable")]


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
    parts = np.stack([T[part].any(axis=0) for part in domain.all_blocks])
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
            return used(np.concatenate(found.multipliers), np.concatenate(a))
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
            return used(a, a)
    return None
