"""What solvers of scalar losses share: multipliers of all losses as one array, and when rounds stop."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from sdpmetric.arrays import FloatArray
from sdpmetric.engine.lazy import cached
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


# Share of the tolerance below which a gap estimated in floats is proven.
GAP_SHARE = 0.8


@dataclass
class Progress:
    """The smallest gap between objective and bound so far, and how many rounds in a row left 0.9 of it or more."""

    smallest_gap: float = math.inf
    idle_rounds: int = 0

    def record(self, gap: float) -> None:
        """Take the gap of another round into account."""
        self.idle_rounds = 0 if gap < 0.9 * self.smallest_gap else self.idle_rounds + 1
        self.smallest_gap = min(self.smallest_gap, gap)
