"""The proof of an MMC solution: a point, weights of dissimilar pairs, and the multiplier of the budget."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from sdpmetric.arrays import FloatArray
from sdpmetric.core.certificate import Multipliers
from sdpmetric.core.proof import Proof
from sdpmetric.linalg import psd
from sdpmetric.linalg.distances import adjoint
from sdpmetric.linalg.rigorous import above, sum_above
from sdpmetric.sums.fenchel import Proven
from sdpmetric.sums.proof import ROOM, of_sum

if TYPE_CHECKING:
    from sdpmetric.relatives.mmc import MMCProblem


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
