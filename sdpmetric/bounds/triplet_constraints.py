"""Triplets as constraints with multipliers, for `explain`: those that a metric violates and those of a dual point."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sdpmetric.bounds.push import Push
from sdpmetric.core.constraints import Constraints
from sdpmetric.core.multipliers import Dual, Multipliers, check_triplet_multipliers
from sdpmetric.losses import Hinge, SquaredHinge, Weighted
from sdpmetric.triplets.margins import hinge_slopes
from sdpmetric.triplets.triplets import Candidates, Triplets

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.int32]


def violated_in(Z: FloatArray, part: Candidates, squared: bool, near: FloatArray | None = None) -> Triplets:
    """The candidates with a positive hinge and a positive weight; arguments as in `hinge_slopes`."""
    return part.triplets(hinge_slopes(Z, part, 0.0, squared, near)[1])[0]


def triplet_constraints(
    push: Push,
    distance: Callable[[IndexArray, IndexArray], FloatArray],
    violated: list[Triplets],
    dual: Multipliers | None,
    feasible: Callable[[Dual], Dual],
    trace: float,
) -> Constraints:
    """The hinges of a push term at a metric, or at several."""
    loss = SquaredHinge() if push.squared else Hinge()
    active = Triplets.join(Triplets.from_array(np.zeros((0, 3), np.int32)), *violated)
    if dual is None:
        excess = 1.0 - (distance(active.anchors, active.impostors) - distance(active.anchors, active.targets))
        dual = Dual(active, Weighted(loss, push.ceilings(active)).slopes(excess))
    repaired = feasible(check_triplet_multipliers(dual))
    both = Triplets.join(active, repaired.triplets)
    _, first, inverse = np.unique(both.keys(len(push.X)), return_index=True, return_inverse=True)
    triplets, given = both[first], np.concatenate([np.zeros(len(active)), repaired.values])
    far, near = distance(triplets.anchors, triplets.impostors), distance(triplets.anchors, triplets.targets)
    excess, weights = 1.0 - (far - near), push.source.weights_of(triplets)
    hinges, pulled = float(Weighted(loss, weights).values(excess).sum()), push.source.target_weights()
    pulls = distance(*push.source.target_pairs())
    pull = float(pulls.sum() if pulled is None else pulls @ pulled)
    return Constraints(
        dual=repaired,
        roles={"anchor": triplets.anchors, "target": triplets.targets, "impostor": triplets.impostors},
        multipliers=np.bincount(inverse.ravel(), given, minlength=len(first)).astype(np.float64),
        excess=excess,
        loss=Weighted(loss, push.weight * weights),
        stretch=[(triplets.anchors, triplets.impostors, far), (triplets.anchors, triplets.targets, -near)],
        weights=weights,
        sums={"pull": pull, "push": hinges, "trace": trace},
        slopes={"push_weight": hinges - pull, "ridge": trace},
        margin=True,
    )
