"""Sums of scalar losses, whose numbers, multipliers and their bounds solvers take as one array."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from sdpmetric.arrays import FloatArray
from sdpmetric.engine.cached import cached
from sdpmetric.sums.bound_terms import BoundTerms
from sdpmetric.sums.terms.margins import MarginLoss


class MarginSum:
    """The losses of a sum, and of all of them the excess at the zero metric, and the interval of multipliers, (m,)."""

    def __init__(self, total: BoundTerms) -> None:
        self.total = total
        self.losses = [loss for loss in total.losses if isinstance(loss, MarginLoss)]
        self.offset = concatenated(total.offset(loss) for loss in self.losses)
        self.low, self.high = (concatenated(loss.box[side] for loss in self.losses) for side in (0, 1))

    @cached
    def conjugate_curvatures(self) -> FloatArray:
        """The second derivatives of the conjugates in the middle of the interval, (m,)."""
        return concatenated(loss.conjugate_curvatures(0.5 * loss.item_weights) for loss in self.losses)


def concatenated(values_by_loss: Iterable[FloatArray]) -> FloatArray:
    return np.concatenate([np.zeros(0), *values_by_loss])
