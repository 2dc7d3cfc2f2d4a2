"""Proof files of LMNN in all its forms, as `sdpmetric.check` verifies them.

A file holds the terms ``pull``, ``push`` and, if there is one, ``ridge``, each with multipliers. These stay a little
below what `LargeMarginProblem.certify` takes, so the slack matrices ``S = C - sum_t a_t B_t`` are positive definite for
a program that rounds differently.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray
from sdpmetric.core.certificate import Dual
from sdpmetric.core.files import Proof, ProofTerm
from sdpmetric.core.triplets import Triplets
from sdpmetric.linalg.rigorous.directed import above, sum_above, sum_below
from sdpmetric.lmnn.push import Push
from sdpmetric.lmnn.triplets.sources import LabeledTriplets
from sdpmetric.sums.terms.comparisons import TripletHinge
from sdpmetric.sums.terms.linear import Trace, pull_part
from sdpmetric.sums.written import CONSTRAINT_SLACK, Arrays, check_finite, number_labels


def of_dual(push: Push, ridge: float, feasible: Dual, objective: float, components: FloatArray) -> Proof:
    """A proof of the lower bound ``sum a``, or with squared hinges ``sum a - sum a^2 / (4 mu w)``."""
    terms, a, w = _terms(push, ridge, feasible)
    conjugates = above(sum_above(a * (a / w)) / (4.0 * push.weight), 4) if push.squared and len(a) else 0.0
    return _proof(push, (objective, sum_below(a) - conjugates), terms, components)


def _terms(push: Push, ridge: float, feasible: Dual) -> tuple[list[ProofTerm], FloatArray, FloatArray]:
    """The terms of LMNN, the multipliers of triplets in them, and the weights of these."""
    mu, source, T = push.weight, push.source, feasible.triplets
    w, pull = source.weights_of(T), [1.0, -mu]
    a = (1.0 - CONSTRAINT_SLACK) * feasible.values
    a = a if push.squared else np.minimum(a, (1.0 - 1e-15) * mu * w)
    traces = [Trace(weight=ridge).proof_term(a)] if ridge else []
    if isinstance(source, LabeledTriplets):
        loss = "squared hinge" if push.squared else "hinge"
        description = {"term": "labels", "loss": loss, "weight": mu, "pull": pull, "offset": 1.0}
        arrays: Arrays = {
            "targets": source.targets,
            "weights": source.scales,
            "triplets": T.to_array(),
            "multipliers": a,
        }
        return [ProofTerm(description, arrays, {"y": number_labels(source.labels)}), *traces], a, w
    C, n = source.candidates, len(push.X)
    counts = np.diff(C.indptr)
    triplets = Triplets(np.repeat(C.anchors, counts), np.repeat(C.targets[:, 0], counts), C.impostors)
    loss = "squared_hinge" if push.squared else "hinge"
    hinges = TripletHinge(triplets, loss=loss, weights=source.weights_of(triplets), weight=mu).bind(push.X)
    values, order = np.zeros(len(triplets)), np.argsort(triplets.keys(n))
    values[order[np.searchsorted(triplets.keys(n)[order], T.keys(n))]] = a
    pulls = pull_part(np.stack(source.target_pairs(), axis=1), source.target_weights(), pull)
    return [pulls, hinges.proof_term(values), *traces], a, w


def _proof(push: Push, claims: tuple[float, float], terms: Sequence[ProofTerm], components: FloatArray) -> Proof:
    data: dict[str, NDArray[np.generic]] = {"X": push.X}
    for term in terms:
        data |= term.data
    shares = np.eye(push.n_regions)[push.regions] if push.n_regions > 1 else np.ones((len(push.X), 1))
    arrays = {"components": components, "shares": shares, "map": np.eye(components.shape[2])}
    check_finite(*claims)
    return Proof(*claims, {"domain": "all"}, terms, data, arrays)
