"""The certificate of LMNN with several metrics: what a point costs over all triplets, and what multipliers prove."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import FloatArray, IndexArray
from sdpmetric.bounds.push_dual import DualCandidate, PushSums
from sdpmetric.bounds.triplet_constraints import triplet_constraints, violated_in
from sdpmetric.core.certificate import DualityCertificate
from sdpmetric.core.constraints import Constraints
from sdpmetric.core.multipliers import Dual, Multipliers, check_triplet_multipliers
from sdpmetric.linalg.distances import distances
from sdpmetric.linalg.rigorous import Form, Images, above
from sdpmetric.triplets.bounds import inactive_beyond, scatter_form, unit_hinges, with_rest
from sdpmetric.triplets.margins import slope_pairs
from sdpmetric.triplets.totals import impostor_counts

if TYPE_CHECKING:
    from sdpmetric.problems.multi_lmnn import MultiMetricLMNNProblem


def certificate(
    problem: MultiMetricLMNNProblem,
    components: FloatArray,
    primal_residual: float,
    dual: Multipliers | None,
    metrics: FloatArray | None = None,
) -> DualityCertificate:
    """The certificate of a checked point; see `MultiMetricLMNNProblem.certify`."""
    costs, meant = problem.pull_costs, [None] * len(components) if metrics is None else metrics
    images = [
        Images.of(problem.X, problem.tied.centered, L.T, metric=M) for L, M in zip(components, meant, strict=True)
    ]
    cost = sum(each.bound(L, own) for each, L, own in zip(costs, components, images, strict=True))
    return _push_sums(problem, images, slopes=dual is None).certificate(
        problem.cones,
        above(cost, problem.n_regions),
        [cone.whitened(L) for cone, L in zip(problem.cones, components, strict=True)],
        None if dual is None else candidate(problem, check_triplet_multipliers(dual)),
        primal_residual=primal_residual,
        null_dimension=sum(each.coordinates.null.shape[1] for each in costs),
        free=lambda: _free(problem),
        program="Multi-metric LMNN",
    )


def _free(problem: MultiMetricLMNNProblem) -> bool:
    """Whether directions that cost nothing separate the members of each region from all examples of other classes."""
    counts = (
        impostor_counts(problem.source.labels, cone.apart, problem.regions == region)
        for region, cone in enumerate(problem.cones)
    )
    return not any((problem.source.target_counts @ each).any() for each in counts)


def candidate(problem: MultiMetricLMNNProblem, dual: Dual) -> DualCandidate:
    """Repaired multipliers and what they prove."""
    return DualCandidate.of(problem.push, dual, problem.cones, problem.regions)


def constraints(problem: MultiMetricLMNNProblem, components: FloatArray, dual: Multipliers | None) -> Constraints:
    """The violated triplets and those with a positive multiplier."""
    embedded = problem.embed(components)
    near = problem.near(embedded)

    def distance(first: IndexArray, second: IndexArray) -> FloatArray:
        D = np.empty(len(first))
        for region, Z in enumerate(embedded):
            own = problem.regions[second] == region
            D[own] = distances(Z, first[own], second[own])
        return D

    violated = [
        violated_in(embedded[r], part, problem.squared, near[part.anchors]) for r, part in problem.found(embedded, near)
    ]
    trace = float(np.sum(components**2))
    return triplet_constraints(problem.push, distance, violated, dual, problem.feasible_dual, trace)


def _push_sums(problem: MultiMetricLMNNProblem, images: list[Images], *, slopes: bool) -> PushSums:
    """One exhaustive pass; slopes of the targets, which may belong to another metric, are summed up at its end."""
    mu, n = problem.push_weight, len(problem.X)
    embedded = [own.points for own in images]
    near, highest = problem.near(embedded), _highest(problem, images)
    sums = PushSums(problem.push, [cone.rank for cone in problem.cones], slopes=slopes)
    whole, furthest = np.zeros(n, dtype=np.int32), float(highest.max(initial=0.0))
    for active in ([whole] * problem.n_regions, problem.null_groups):
        if all(unit_hinges(own, group, furthest) for own, group in zip(images, active, strict=True)):
            _add_unit_hinges(problem, sums, active, furthest)
            return sums
    pull, most = np.zeros((len(sums.forms), *near.shape)), 0
    widen = max(inactive_beyond(own) for own in images)
    for region, found in problem.found(embedded, near, widen=widen):
        cone, own = problem.cones[region], (near[found.anchors], highest[found.anchors])
        for g, part, values in sums.add(images[region], found, cone.groups, own):
            first, second, weights = slope_pairs(part, values)
            push = weights > 0
            form = cone.images.form(first[push], second[push], weights[push], roundings=near.shape[1])
            sums.forms[g][region] += form.times(mu)
            rows = part.anchors[part.rows]
            most += int(np.bincount(rows).max(initial=0)) if g == 0 else 0
            for k in range(near.shape[1]):
                pull[g, :, k] += np.bincount(rows, values[:, k], minlength=n)
    row, slot = np.nonzero(problem.source.targets >= 0)
    for forms, weights in zip(sums.forms, pull, strict=True):
        parts = _by_region(
            problem, row, problem.source.targets[row, slot], weights[row, slot], roundings=most + problem.n_regions
        )
        forms[:] = [form - part.times(mu) for form, part in zip(forms, parts, strict=True)]
    return sums


def _add_unit_hinges(problem: MultiMetricLMNNProblem, sums: PushSums, active: list[IndexArray], highest: float) -> None:
    """Sums over all triplets where those within the given groups of each metric have hinges of 1, the others 0."""
    source = problem.source
    forms, totals, n_active = [], np.zeros(3), 0
    pull = np.zeros(len(problem.X))
    for region, cone in enumerate(problem.cones):
        members, groups = problem.regions == region, (active[region], cone.groups, problem.push.duplicate_groups)
        impostors = np.stack([source.impostor_weights(each, members) for each in groups])
        totals += impostors @ source.pulls
        pull += source.scales * impostors[1]
        n_active += int(source.target_counts @ impostor_counts(source.labels, groups[0], members))
        forms.append(scatter_form(cone.images, source.labels, cone.groups, source.pulls, source.scales * members))
    slope = sums.add_unit_hinges((float(totals[0]), n_active), float(totals[1]), float(totals[2]), highest)
    if len(sums.forms):
        first, second = problem.target_pairs
        targets = _by_region(problem, first, second, pull[first], roundings=len(pull) + problem.n_regions + 4)
        sums.forms[0] = [(push - own).times(slope) for push, own in zip(forms, targets, strict=True)]


def _highest(problem: MultiMetricLMNNProblem, images: list[Images]) -> FloatArray:
    """Upper bounds of the squared distances to the target neighbors, (n, K), padded with -1; see `near`."""
    targets = problem.source.targets
    highest = np.full(targets.shape, -1.0)
    row, slot = np.nonzero(targets >= 0)
    region = problem.regions[targets[row, slot]]
    for r, own in enumerate(images):
        i, k = row[region == r], slot[region == r]
        highest[i, k] = with_rest(own.distances(i, targets[i, k])[1], max(each.rest for each in images))
    return highest


def _by_region(
    problem: MultiMetricLMNNProblem,
    first: NDArray[np.integer],
    second: IndexArray,
    weights: FloatArray,
    *,
    roundings: int = 0,
) -> list[Form]:
    """``D*(w)`` of pairs, each under the metric of its second member, in the coordinates of its dual cone."""
    parts = []
    for region, cone in enumerate(problem.cones):
        own = problem.regions[second] == region
        parts.append(cone.images.form(first[own], second[own], weights[own], roundings=roundings))
    return parts
