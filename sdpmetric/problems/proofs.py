"""Proofs of LMNN, POLA and MMC as `sdpmetric.check` verifies them: points and multipliers, feasible with room."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray
from sdpmetric.core.multipliers import Multipliers, check_triplet_multipliers
from sdpmetric.core.proof import Proof
from sdpmetric.linalg import psd
from sdpmetric.linalg.distances import adjoint
from sdpmetric.linalg.rigorous import above, sum_above, sum_below
from sdpmetric.triplets.sources import LabeledTriplets

if TYPE_CHECKING:
    from sdpmetric.problems.lmnn import LMNNProblem
    from sdpmetric.problems.mmc import MMCProblem
    from sdpmetric.problems.pola import POLAProblem

# Room that is left to constraints, relatively, so that they hold exactly and can be checked in floats: for at most so
# many examples, and for more.
FEW, ROOM, MORE_ROOM = 500, 1e-10, 1e-8


def lmnn(problem: LMNNProblem, components: FloatArray, dual: Multipliers | None) -> Proof:
    """Multipliers a little below what `certify` takes, so that the slack matrix is positive definite."""
    source = problem.source
    if not isinstance(source, LabeledTriplets):
        raise ValueError("proof files of LMNN are about labelled data; state the problem by LMNNProblem.from_labels.")
    _refuse_weights("LMNN", source.example_weights)
    if dual is None:
        raise ValueError(
            "this solution has no multipliers to prove a lower bound with; solve with 'factored' or 'conic'."
        )
    L = np.asarray(components, dtype=np.float64)
    feasible = problem.feasible_dual(check_triplet_multipliers(dual))
    mu, room = problem.push_weight, ROOM if len(problem.X) <= FEW else MORE_ROOM
    a = (1.0 - room) * feasible.values
    a = a if problem.squared else np.minimum(a, mu)
    lost = above(sum_above(a**2) / (4.0 * mu), 4) if problem.squared else 0.0
    return Proof(
        "LMNN",
        problem.certify(L, dual=dual).objective,
        max(0.0, sum_below(a) - lost),
        {"push_weight": mu, "ridge": problem.ridge, "squared": problem.squared},
        {"X": problem.X, "y": _as_they_appear(source.labels)},
        {
            "components": L,
            "targets": source.targets,
            "triplets": feasible.triplets.to_array(),
            "multipliers": a,
            "coordinates": problem.cone.images.map,
        },
    )


def pola(problem: POLAProblem, components: FloatArray, dual: Multipliers | None) -> Proof:
    """A point and the best multiple of the multipliers; a hard margin is exceeded by a little."""
    _refuse_weights("POLA", problem.pair_weights)
    if dual is None:
        raise ValueError("this solution has no multipliers to prove a lower bound with; solve with 'dual' or 'conic'.")
    L, b = problem.repair(np.asarray(components, dtype=np.float64))
    if problem.slack_weight is None:
        L, b = math.sqrt(1.0 + ROOM) * L, (1.0 + ROOM) * b
    a = problem.proven_multipliers(L, dual)
    claims = problem.certify(L, dual=a, threshold=b)
    return Proof(
        "POLA",
        claims.objective,
        claims.lower_bound,
        {
            "threshold": b,
            "initial_threshold": problem.initial_threshold,
            "slack_weight": problem.slack_weight,
        },
        {"X": problem.X, "pairs": problem.pairs, "similar": problem.similar},
        {"components": L, "multipliers": a},
    )


def mmc(problem: MMCProblem, components: FloatArray, dual: Multipliers | None) -> Proof:
    """A point that spends a little less than 1, weights, and how much of the similar pairs' cost they stay below."""
    _refuse_weights("MMC", problem.pair_weights)
    L, total = np.asarray(components, dtype=np.float64), problem.total
    L = L * math.sqrt((1.0 - ROOM) / max(1.0, problem.spent(L)))
    given = problem.read_dual(problem.multipliers(L) if dual is None else dual)[0]
    w, costs = np.maximum(given / given.max(), 1e-12), len(total.costs[1])
    T = problem.dual.slack.coordinates(total.pair_weights([0.0 * w]), None)[0]
    Y, (first, second) = problem.centered @ T, total.pairs[costs:].T
    top = psd.largest_eigenvalue(adjoint(Y, first, second, w))
    w = 0.5 * math.sqrt(float((1.0 / w).sum()) / top) * w
    theta = (1.0 + ROOM) * psd.largest_eigenvalue(adjoint(Y, first, second, w))
    return Proof(
        "MMC",
        problem.certify(L, dual=problem.state_dual([w])).objective,
        -above(theta + sum_above(0.25 / w), 3),
        {"theta": theta},
        {"X": problem.X, "pairs": problem.pairs, "similar": problem.similar},
        {"components": L, "weights": w, "coordinates": T},
    )


def _as_they_appear(labels: NDArray[np.integer]) -> NDArray[np.int64]:
    """Classes numbered in the order of their first examples, which is the same whatever the labels are called."""
    seen: dict[int, int] = {}
    return np.array([seen.setdefault(label, len(seen)) for label in labels.tolist()], dtype=np.int64)


def _refuse_weights(name: str, weights: FloatArray | None) -> None:
    if weights is not None:
        raise ValueError(f"proof files of {name} have no weights of examples or pairs; state the problem without them.")
