"""The divergence of a slack from its bound, the loss of ITML."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from sdpmetric.linalg.rigorous import log1p_bounds
from sdpmetric.terms.base import Expression
from sdpmetric.terms.losses import ScalarLoss

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LogRatio(ScalarLoss):
    """``r - log r - 1`` of ``r = 1 + s [u]_+``, the divergence of a slack from its bound in ITML [DKJSD2007].

    Its conjugate is ``-s a - log(1 - s a)`` for ``a >= 0``, and below 1 where s is 1.

    Attributes
    ----------
    sides : (m,) array
        s: 1 where u is the relative excess over an upper bound, -1 where it is the shortfall below a lower one.
    """

    sides: FloatArray

    name = "log ratio"

    @property
    def highest(self) -> FloatArray:
        """1, exclusive, for upper bounds."""
        return np.where(self.sides > 0, 1.0 - 1e-15, np.inf)

    def values(self, u: FloatArray) -> FloatArray:
        """``r - log r - 1``; infinity where a distance is 0 that should be large."""
        more = self.sides * np.maximum(u, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(more > -1.0, more - np.log1p(np.maximum(more, -1.0)), np.inf)

    def values_above(self, u: FloatArray) -> FloatArray:
        """With all roundings."""
        return _divergence_above(self.sides * np.maximum(u, 0.0))

    def slopes(self, u: FloatArray, width: float) -> FloatArray:
        """``[u]_+ / r``; there is no kink."""
        up = np.maximum(u, 0.0)
        return np.asarray(up / np.maximum(1.0 + self.sides * up, 1e-100))

    def conjugates(self, s: FloatArray) -> FloatArray:
        """``-s a - log(1 - s a)``."""
        with np.errstate(divide="ignore"):
            return np.asarray(-self.sides * s - np.log1p(-self.sides * s))

    def conjugates_above(self, s: FloatArray) -> FloatArray:
        """With all roundings."""
        return _divergence_above(-self.sides * s)

    def expression(self, u: Expression, cp: ModuleType) -> tuple[Expression | None, list[object]]:
        """``r - log r - 1`` with ``s (r - 1) >= u``."""
        r = cp.Variable(len(self.sides))
        return r - cp.log(r) - 1.0, [cp.multiply(self.sides, r - 1.0) >= u]


def _divergence_above(x: FloatArray) -> FloatArray:
    """Floats not below ``x - log(1 + x)``; infinity where x is not above -1."""
    inside = x > -1.0
    found = np.nextafter(x - log1p_bounds(np.where(inside, x, 0.0))[0], np.inf)
    return np.where(inside, np.where(x == 0.0, 0.0, found), np.inf)
