"""The certificate of LMNN: what a point costs over all triplets, and what multipliers prove."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from sdpmetric.arrays import FloatArray, IndexArray
from sdpmetric.bounds.push_dual import DualCandidate, PushSums
from sdpmetric.bounds.triplet_constraints import triplet_constraints, violated_in
from sdpmetric.core.certificate import DualityCertificate
from sdpmetric.core.constraints import Constraints
from sdpmetric.core.multipliers import Dual, Multipliers, check_triplet_multipliers
from sdpmetric.engine.deadline import is_late
from sdpmetric.linalg.distances import distances
from sdpmetric.linalg.rigorous import Images, above
from sdpmetric.problems.lmnn_shard import add_all_triplets
from sdpmetric.triplets.bounds import unit_groups, with_rest

if TYPE_CHECKING:
    from sdpmetric.problems.lmnn import LMNNProblem


def certificate(
    problem: LMNNProblem,
    components: FloatArray,
    primal_residual: float,
    dual: Multipliers | None,
    metric: FloatArray | None = None,
) -> DualityCertificate:
    """The certificate of a checked point; see `LMNNProblem.certify`."""
    if is_late() and not components.any() and "coordinates" not in vars(problem.pull_cost):
        return _nothing(problem)
    images = Images.of(problem.X, problem.centered, components.T, metric=metric)
    return _push_sums(problem, images, slopes=dual is None).certificate(
        [problem.cone],
        problem.pull_cost.bound(components, images),
        [problem.cone.whitened(components)],
        None if dual is None else candidate(problem, check_triplet_multipliers(dual)),
        primal_residual=primal_residual,
        null_dimension=problem.coordinates.null.shape[1],
        free=lambda: problem.source.totals_within(problem.cone.apart)[1] == 0,
    )


def _nothing(problem: LMNNProblem) -> DualityCertificate:
    """Of the zero metric, under which every hinge is 1, where not even coordinates were made in time."""
    return DualityCertificate(
        objective=above(problem.push_weight * problem.source.total_weight, 2 * len(problem.X) + problem.source.size),
        lower_bound=0.0,
        primal_residual=0.0,
        dual_residual=0.0,
        complementarity=1.0,
        n_active=problem.source.size,
        program="LMNN",
        rigor="float",
        weakness="time was over before more than 0 was proven",
    )


def candidate(problem: LMNNProblem, dual: Dual) -> DualCandidate:
    """Repaired multipliers and what they prove."""
    return DualCandidate.of(problem.push, dual, [problem.cone], np.zeros(len(problem.X), dtype=np.int32))


def constraints(
    problem: LMNNProblem, feasible: Callable[[Dual], Dual], components: FloatArray, dual: Multipliers | None
) -> Constraints:
    """The violated triplets and those with a positive multiplier."""
    Z = problem.embed(components)

    def distance(first: IndexArray, second: IndexArray) -> FloatArray:
        return distances(Z, first, second)

    violated = [violated_in(Z, part, problem.squared) for part in problem.push.near(Z)]
    return triplet_constraints(problem.push, distance, violated, dual, feasible, float(np.sum(components**2)))


def _push_sums(problem: LMNNProblem, images: Images, *, slopes: bool) -> PushSums:
    """Sums over all triplets at a point: in closed form where every hinge is 1 or 0, else by a search."""
    push, cone = problem.push, problem.cone
    sums = PushSums(push, [cone.rank], slopes=slopes)
    highest = float(with_rest(images.distances(*problem.target_pairs)[1], images.rest).max(initial=0.0))
    active = unit_groups(images, problem.null_groups, highest)
    if active is not None:
        totals = [problem.source.totals_within(each) for each in (active, cone.groups, push.duplicate_groups)]
        slope = sums.add_unit_hinges(totals[0], totals[1][0], totals[2][0], highest)
        if slopes:
            sums.forms[0][0] = problem.source.form_within(cone.images, cone.groups).times(slope)
        return sums
    add_all_triplets(sums, problem, images, cone.images, cone.groups, slopes=slopes)
    return sums
