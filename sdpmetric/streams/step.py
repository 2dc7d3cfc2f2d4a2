"""One step of a stream's metric, from which an index follows it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class MetricStep:
    """One rank-one step of a factor: ``G_new = G + outer(left, right)``.

    Attributes
    ----------
    left : (r,) array
        In the space that the factor maps to.
    right : (d,) array
        In the space of the examples.
    """

    left: FloatArray
    right: FloatArray

    def apply(self, components: FloatArray) -> FloatArray:
        """Return the factor after the step.

        Parameters
        ----------
        components : (r, d) array
        """
        moved: FloatArray = components + np.outer(self.left, self.right)
        return moved
