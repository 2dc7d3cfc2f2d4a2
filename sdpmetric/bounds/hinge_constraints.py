"""The one hinge of a sum of terms as constraints whose multipliers have a meaning, for `explain`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from sdpmetric.bounds.bound_terms import BoundTerms
from sdpmetric.core.constraints import Constraints
from sdpmetric.linalg.distances import distances
from sdpmetric.losses import Weighted
from sdpmetric.terms.margins import MarginLoss

FloatArray = NDArray[np.float64]


def hinge_constraints(
    total: BoundTerms, loss: MarginLoss, components: FloatArray, a: FloatArray, sums: Mapping[str, float]
) -> Constraints:
    """The violated constraints of a hinge and those with a positive multiplier."""
    D = distances(total.centered @ components.T, total.pairs[:, 0], total.pairs[:, 1])
    excess, own, K = total.excess(components, D)[0], len(total.costs[0]), loss.combination
    rows, columns = total.pairs[own:], K.indices.reshape(loss.size, -1)
    listed = np.flatnonzero((a > 0.0) | (excess > 0.0))
    stretch = [
        (*rows[column[listed]].T, -sign[listed] * D[own:][column[listed]])
        for column, sign in zip(columns.T, K.data.reshape(columns.shape).T, strict=True)
    ]
    return Constraints(
        dual=a,
        roles={role: index[listed] for role, index in loss.roles().items()},
        multipliers=a[listed],
        excess=excess[listed],
        loss=Weighted(loss.scalar, loss.item_weights[listed]),
        stretch=stretch,
        sums=sums,
        slopes=sums,
    )
