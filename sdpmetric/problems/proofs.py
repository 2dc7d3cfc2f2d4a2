"""Proofs of statements that are sums, and of LMNN in all its forms, as `sdpmetric.check` verifies them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray
from sdpmetric.bounds.domains import Domain
from sdpmetric.bounds.fenchel import Proven
from sdpmetric.core.certificate import Dual, Multipliers, check_triplet_multipliers
from sdpmetric.core.proof import Part, Proof
from sdpmetric.linalg import psd
from sdpmetric.linalg.distances import adjoint
from sdpmetric.linalg.rigorous import above, sum_above, sum_below
from sdpmetric.terms.base import Regularizer, Term
from sdpmetric.terms.comparisons import TripletHinge
from sdpmetric.terms.frobenius import Frobenius
from sdpmetric.terms.linear import Trace, pull_part
from sdpmetric.terms.log_det import LogDet
from sdpmetric.triplets.sources import LabeledTriplets
from sdpmetric.triplets.triplets import Triplets

if TYPE_CHECKING:
    from sdpmetric.problems.frobenius import FrobeniusLMNNProblem
    from sdpmetric.problems.lmnn import LargeMarginProblem
    from sdpmetric.problems.metric_problem import MetricProblem
    from sdpmetric.problems.mmc import MMCProblem
    from sdpmetric.problems.pola import POLAProblem

# Room that is left to constraints, relatively, so they hold exactly; to slack matrices; rounding of claims.
ROOM, INSIDE, ROUNDING = 1e-10, 1e-12, 1e-12
NO_MULTIPLIERS = "there is no proof to write: this solution has no multipliers; use another solver."

Lists = Mapping[str, NDArray[np.generic]]


def of_sum(problem: MetricProblem, components: FloatArray, proven: Proven, data: Lists | None = None) -> Proof:
    """A sum of terms at a point, with multipliers that are proven to be feasible."""
    a, (slopes, lost) = iter(proven.multipliers), _slopes(problem, proven)
    parts = [
        term.part(slopes[term] if term in slopes else next(a) if term.losses else np.zeros(0)) for term in problem.terms
    ]
    bound = proven.value - lost - ROUNDING * abs(proven.value)
    objective = problem.certify(components, dual=problem.state_dual(proven.multipliers)).objective
    arrays = {"components": _point(problem.domain, components)}
    return _proof(problem, (objective, bound), parts, arrays, data)


def of_contradiction(problem: MetricProblem, proven: Proven, data: Lists | None = None) -> Proof:
    """Hard constraints that contradict each other, by multipliers of these alone."""
    hard = [(term, a) for term, a in zip(_losing(problem), proven.multipliers, strict=True) if term.losses[0].hard]
    arrays = {"components": _point(problem.domain, problem.total.centered[:1])}
    return _proof(problem, (None, None), [term.part(a) for term, a in hard], arrays, data)


def _losing(problem: MetricProblem) -> list[Term]:
    return [term for term in problem.terms if term.losses]


def _proof(
    problem: MetricProblem,
    claims: tuple[float | None, float | None],
    parts: Sequence[Part],
    arrays: Lists,
    data: Lists | None,
) -> Proof:
    domain = problem.domain
    about, shares = {"domain": "diagonal" if domain.diagonal else "all"}, np.ones((len(problem.X), 1))
    P = np.eye(np.shape(arrays["components"])[2])
    held: dict[str, NDArray[np.generic]] = {"X": problem.X, **({} if data is None else data)}
    if domain.blocks and domain.tasks is not None:
        shares = np.insert(np.eye(len(domain.blocks) - 1)[domain.tasks], 0, domain.sharing, axis=1)
        held |= {"X": problem.X[:, : len(domain.blocks[0])], "tasks": as_they_appear(domain.tasks)}
    elif not domain.plain:
        P = domain.basis.T
    for name in ("y", "pairs", "similar", "triplets", "quadruplets"):
        lists = [part.data[name] for part in parts if name in part.data]
        alike = all(np.array_equal(lists[0], other) for other in lists)
        if name == "y" and not alike:
            raise ValueError("proof files hold one label of each example; terms of this sum have different ones.")
        if lists and alike and (name == "y" or data is None):
            held[name] = as_they_appear(lists[0]) if name == "y" else lists[0]
    if "pairs" not in held or "similar" not in held:
        held = {name: array for name, array in held.items() if name not in ("pairs", "similar")}
    return _finite(Proof(*claims, about, parts, held, {**arrays, "shares": shares, "map": P}))


def _finite(proof: Proof) -> Proof:
    if any(claim is not None and not math.isfinite(claim) for claim in (proof.objective, proof.lower_bound)):
        raise ValueError("objective or lower bound of this solution are infinite: a proof file would prove nothing.")
    return proof


def _point(domain: Domain, components: FloatArray) -> FloatArray:
    """A factor for each metric of a domain, in its own coordinates, of a metric that is exactly in it."""
    if domain.diagonal:
        return np.diag(np.sqrt(domain.combination(components.T @ components)))[None]
    return np.stack([components[:, part] for part in domain.parts])


def _coordinates(problem: MetricProblem, proven: Proven) -> None:
    """Refuse bounds whose slack matrix is not proven to be positive definite where pairs differ."""
    if proven.coordinates is None and not problem.domain.diagonal:
        raise ValueError(
            "the lower bound of this solution is that of a slack matrix that is PSD as a sum of squares, in directions "
            "that cost next to nothing; a proof file holds none of these: add terms.Trace(), or drop such features."
        )


def _slopes(problem: MetricProblem, proven: Proven) -> tuple[dict[Term, FloatArray], float]:
    """Slopes of all regularizers with which the slack matrix is PSD with room, and what the room costs."""
    dual, domain = problem.dual, problem.domain
    slopes = [psd.symmetrize(U) for U in proven.slopes]
    found: dict[Term, FloatArray] = dict(zip(dual.others, slopes, strict=True))
    final: Regularizer | None = dual.final
    if final is None:
        _coordinates(problem, proven)
        return found, 0.0
    S = dual.total.slack_matrix(proven.multipliers) + sum(found.values(), np.zeros((dual.d, dual.d)))
    k, pinched = len(domain.basis), (lambda A: np.diag(np.diag(A))) if domain.diagonal else domain.pinched
    if isinstance(final, Frobenius):
        found[final], lost = frobenius_slope(S, final, domain.basis, pinched)
    elif isinstance(final, LogDet):
        K, w = final.inverse_root @ final.inverse_root, final.weight
        values = np.linalg.eigvalsh(pinched(K + S / w))
        room = max(INSIDE, 1e-14 * k * float(values[-1] / values[0]))
        found[final] = psd.symmetrize(w * (K - (1.0 - room) * pinched(K + S / w)))
        lost = 2.0 * w * k * room
    else:
        raise ValueError(f"proof files support the regularizers of this package; {final.name} is not one of them.")
    return found, lost


def frobenius_slope(
    S: FloatArray, term: Frobenius, B: FloatArray, pinched: Callable[[FloatArray], FloatArray]
) -> tuple[FloatArray, float]:
    """``w (M - M0)`` at the metric with the least ``<S, M> + w/2 |M - M0|^2``, with room; and what that costs."""
    weight, target = term.weight, term.target
    A = pinched(B @ (target - S / weight) @ B.T)
    L = psd.factor(psd.symmetrize(A)) @ B
    room = INSIDE * len(A) * weight * float(np.abs(A).max(initial=0.0))
    U = psd.symmetrize(weight * (L.T @ L - target)) + room * np.eye(len(target))
    return U, 2.0 * room * float(np.sum(L * L)) + room * room * len(target) / weight


def as_they_appear(labels: NDArray[np.generic]) -> NDArray[np.int64]:
    """Classes numbered in the order of their first examples, which is the same whatever the labels are called."""
    seen: dict[object, int] = {}
    return np.array([seen.setdefault(label, len(seen)) for label in labels.tolist()], dtype=np.int64)


# -- statements with solvers and certificates of their own ------------------------------------------------------------


def large_margin(problem: LargeMarginProblem, components: FloatArray, dual: Multipliers | None) -> Proof:
    """Multipliers a little below what `certify` takes, so the slack matrices are positive definite."""
    feasible, squared = problem.feasible_dual(_triplets(dual)), problem.squared
    parts, a, w = _push(problem, feasible, ROOM)
    lost = above(sum_above(a**2 / w) / (4.0 * problem.push_weight), 4) if squared and len(a) else 0.0
    claims = problem.certify(components, dual=dual).objective, sum_below(a) - lost
    return _labeled(problem, claims, parts, problem.stack(components))


def frobenius_lmnn(problem: FrobeniusLMNNProblem, components: FloatArray, dual: Multipliers | None) -> Proof:
    """As for LMNN, with a slope of the Frobenius term that makes the slack matrix positive definite."""
    base, weight = problem.base, problem.frobenius
    parts, a, _ = _push(base, feasible := problem.feasible_dual(_triplets(dual)), 0.0)
    T = feasible.triplets
    first, second = np.concatenate([T.anchors, T.anchors]), np.concatenate([T.impostors, T.targets])
    term = Frobenius(weight=weight).bind(base.X)
    S = problem.linear_cost + adjoint(base.centered, first, second, np.concatenate([-a, a]))
    U, _ = frobenius_slope(S, term, np.eye(len(S)), lambda A: A)
    bound = sum_below(a) - (1.0 + 1e-11) * float(np.sum(U * U)) / (2.0 * weight)
    parts.append(term.part(U))
    claims = problem.certify(components, dual=dual).objective, bound - ROUNDING * abs(bound)
    return _labeled(base, claims, parts, components[None])


def _triplets(dual: Multipliers | None) -> Dual:
    if dual is None:
        raise ValueError(NO_MULTIPLIERS)
    return check_triplet_multipliers(dual)


def _push(problem: LargeMarginProblem, feasible: Dual, room: float) -> tuple[list[Part], FloatArray, FloatArray]:
    """The terms of LMNN, with multipliers of triplets, and the weights of these."""
    mu, source, T = problem.push_weight, problem.source, feasible.triplets
    w, pull = source.weights_of(T), [1.0, -mu]
    a = (1.0 - room) * feasible.values
    a = a if problem.squared else np.minimum(a, (1.0 - 1e-15) * mu * w)
    ridge = [Trace(weight=problem.ridge).part(a)] if problem.ridge else []
    if isinstance(source, LabeledTriplets):
        loss = "squared hinge" if problem.squared else "hinge"
        about = {"term": "labels", "loss": loss, "weight": mu, "pull": pull, "offset": 1.0}
        arrays: Lists = {
            "targets": source.targets,
            "weights": source.scales,
            "triplets": T.to_array(),
            "multipliers": a,
        }
        return [Part(about, arrays, {"y": as_they_appear(source.labels)}), *ridge], a, w
    pairs, pulls = np.stack(source.target_pairs(), axis=1), source.target_weights()
    C, n = source.candidates, len(problem.X)
    counts = np.diff(C.indptr)
    listed = Triplets(np.repeat(C.anchors, counts), np.repeat(C.targets[:, 0], counts), C.impostors)
    loss = "squared_hinge" if problem.squared else "hinge"
    push = TripletHinge(listed, loss=loss, weights=source.weights_of(listed), weight=mu).bind(problem.X)
    values, order = np.zeros(len(listed)), np.argsort(listed.keys(n))
    values[order[np.searchsorted(listed.keys(n)[order], T.keys(n))]] = a
    return [pull_part(pairs, np.ones(len(pairs)) if pulls is None else pulls, pull), push.part(values), *ridge], a, w


def _labeled(
    problem: LargeMarginProblem,
    claims: tuple[float, float],
    parts: Sequence[Part],
    components: FloatArray,
) -> Proof:
    data: dict[str, NDArray[np.generic]] = {"X": problem.X}
    for part in parts:
        data |= part.data
    shares = np.eye(problem.n_regions)[problem.push.regions] if problem.n_regions > 1 else np.ones((len(problem.X), 1))
    arrays = {"components": components, "shares": shares, "map": np.eye(components.shape[2])}
    return _finite(Proof(*claims, {"domain": "all"}, parts, data, arrays))


def pola(problem: POLAProblem, components: FloatArray, dual: Multipliers | None) -> Proof:
    """As the sum that it is; see `sdpmetric.problems.pair_margins.as_sum`. A hard margin is exceeded by a little."""
    data, own = {"X": problem.X, "pairs": problem.pairs, "similar": problem.similar}, problem.as_sum
    L, b = problem.repair(components)
    if problem.slack_weight is None:
        L, b = math.sqrt(1.0 + ROOM) * L, (1.0 + ROOM) * b
    lifted = np.zeros((len(L) + 1, L.shape[1] + 1))
    lifted[:-1, :-1], lifted[-1, -1] = L, math.sqrt(b - 1.0)
    if (found := problem.proven_contradiction(components, dual)) is not None:
        proof = of_contradiction(own, found, data)
    else:
        proof = of_sum(own, lifted, own.dual.prove([problem.proven_multipliers(L, dual)], own.zero), data)
    return Proof(proof.objective, proof.lower_bound, {"domain": "threshold"}, proof.terms, proof.data, proof.arrays)


def mmc(problem: MMCProblem, components: FloatArray, dual: Multipliers | None) -> Proof:
    """A point that spends a little less than 1, weights, and how much of the similar pairs' cost they stay below."""
    L, total, own = components, problem.total, problem.budgeted
    L = L * math.sqrt((1.0 - ROOM) / max(1.0, problem.spent(L)))
    given = problem.read_dual(problem.multipliers(L) if dual is None else dual)[0]
    a, w, costs = (
        np.maximum(given / given.max(), 1e-12),
        np.asarray(problem.terms[1].part(given).arrays["weights"], dtype=np.float64),
        len(total.costs[1]),
    )
    T = problem.dual.slack.coordinates(total.pair_weights([0.0 * a]), None)[0]
    Y, (first, second) = problem.centered @ T, total.pairs[costs:].T
    B = adjoint(Y, first, second, a)
    largest = float(np.diag(B).max()) if problem.domain.diagonal else psd.largest_eigenvalue(B)
    scale = 0.5 * math.sqrt(float((w * w / a).sum()) / largest)
    a, theta = scale * a, (1.0 + ROOM) * scale * largest
    value = -above(theta + sum_above(0.25 * w * w / a), 6)
    data = {"X": problem.X, "pairs": problem.pairs, "similar": problem.similar}
    return of_sum(own, L, Proven(value, [a, np.array([theta])], coordinates=T), data)
