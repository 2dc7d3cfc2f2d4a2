"""The proof of a POLA solution, which is that of the sum that it is."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from sdpmetric.arrays import FloatArray
from sdpmetric.core.certificate import Multipliers
from sdpmetric.core.proof import Proof
from sdpmetric.sums.proof import ROOM, of_contradiction, of_sum

if TYPE_CHECKING:
    from sdpmetric.pola.problem import POLAProblem


def pola(problem: POLAProblem, components: FloatArray, dual: Multipliers | None) -> Proof:
    """As the sum that it is; see `sdpmetric.pola.as_sum.as_sum`. A hard margin is exceeded by a little."""
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
