"""Proofs of LMNN in all its forms, as `sdpmetric.check` verifies them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray
from sdpmetric.core.certificate import Dual, Multipliers, check_triplet_multipliers
from sdpmetric.core.proof import Part, Proof
from sdpmetric.core.triplets import Triplets
from sdpmetric.linalg.distances import adjoint
from sdpmetric.linalg.rigorous import above, sum_above, sum_below
from sdpmetric.lmnn.triplets.sources import LabeledTriplets
from sdpmetric.sums.proof import ROOM, ROUNDING, Lists, as_they_appear, finite, frobenius_slope
from sdpmetric.sums.terms.comparisons import TripletHinge
from sdpmetric.sums.terms.frobenius import Frobenius
from sdpmetric.sums.terms.linear import Trace, pull_part

if TYPE_CHECKING:
    from sdpmetric.lmnn.frobenius import FrobeniusLMNNProblem
    from sdpmetric.lmnn.problem import LargeMarginProblem

NO_MULTIPLIERS = "there is no proof to write: this solution has no multipliers; use another solver."


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
    return finite(Proof(*claims, {"domain": "all"}, parts, data, arrays))
