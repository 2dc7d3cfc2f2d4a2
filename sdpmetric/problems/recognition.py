"""Sums of terms that are a shipped statement, whose solvers and certificate are faster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sdpmetric.bounds.domains import Domain
from sdpmetric.core.certificate import Dual, DualityCertificate
from sdpmetric.linalg.rigorous import above, below
from sdpmetric.problems.lmnn import LMNNProblem
from sdpmetric.terms.base import Term
from sdpmetric.terms.comparisons import TripletHinge
from sdpmetric.terms.linear import Pull, Trace
from sdpmetric.triplets.triplets import Triplets

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Recognized:
    """A statement that is a sum of terms, but for a factor."""

    problem: LMNNProblem
    factor: float
    shares: tuple[float, float]

    def certificate(self, certificate: DualityCertificate) -> DualityCertificate:
        """The certificate of the sum from that of the problem, rounded outward."""
        least, most = self.shares
        objective = above(most * certificate.objective, 3)
        bound = below(least * max(0.0, certificate.lower_bound), 3)
        program, resolution = f"sum of terms, which is {certificate.program}", least * certificate.resolution
        return replace(certificate, objective=objective, lower_bound=bound, program=program, resolution=resolution)

    def listed(self, dual: Dual, roles: Mapping[str, IndexArray]) -> FloatArray:
        """Multipliers of all triplets of the term, in their order, from those of some of them."""
        n = len(self.problem.X)
        keys = Triplets(*roles.values()).keys(n)
        order = np.argsort(keys)
        a = np.zeros(len(keys))
        a[order[np.searchsorted(keys[order], dual.triplets.keys(n))]] = self.factor * dual.values
        return a


def recognize(X: NDArray[np.floating], terms: tuple[Term, ...], domain: Domain) -> Recognized | None:
    """LMNN of labels: one pull over target pairs, one push over all their triplets, and perhaps the trace."""
    pulls = [term for term in terms if isinstance(term, Pull)]
    pushes = [term for term in terms if isinstance(term, TripletHinge)]
    ridge = sum(term.weight for term in terms if isinstance(term, Trace))
    rest = len(terms) - len(pulls) - len(pushes) - sum(isinstance(term, Trace) for term in terms)
    if rest or len(pulls) != 1 or len(pushes) != 1 or not domain.whole:
        return None
    (pull,), (push,) = pulls, pushes
    if push.chosen is None or push.index is None or push.margin != 1.0 or push.loss not in ("hinge", "squared_hinge"):
        return None
    anchors, slots = np.nonzero(push.chosen >= 0)
    rows, costs = pull.pair_costs()
    if not np.array_equal(rows, np.stack([anchors, push.chosen[anchors, slots]], axis=1)) or np.ptp(costs) > 0.0:
        return None
    factor = float(costs[0]) + push.weight
    if not 0.0 < push.weight / factor < 1.0:
        return None
    problem = LMNNProblem.from_labels(
        X,
        push.index,
        push_weight=push.weight / factor,
        target_neighbors=push.chosen,
        ridge=ridge / factor,
        loss="hinge" if push.loss == "hinge" else "squared_hinge",
    )
    mu = Fraction(problem.push_weight)
    each = np.asarray(pull.weights, dtype=np.float64)
    weights = [(Fraction(pull.weight) * Fraction(w), 1 - mu) for w in (float(each.min()), float(each.max()))]
    weights += [(Fraction(push.weight), mu)]
    weights += [
        (sum((Fraction(t.weight) for t in terms if isinstance(t, Trace)), Fraction(0)), Fraction(problem.ridge))
    ]
    found = [float(own / other) for own, other in weights if other]
    return Recognized(problem, factor, (below(min(found), 2), above(max(found), 2)))
