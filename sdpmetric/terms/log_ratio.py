"""The divergence of a slack from its bound, the loss of ITML."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from sdpmetric.linalg.rigorous import all_above, log1p_bounds
from sdpmetric.terms.base import Expression
from sdpmetric.terms.losses import ScalarLoss

FloatArray = NDArray[np.float64]

# Slacks, as shares of their bounds, are taken as at least the first where slopes are asked for, at most the second.
SMALLEST, LARGEST = 1e-100, 1e300


@dataclass(frozen=True, eq=False)
class LogRatio(ScalarLoss):
    """``r - log r - 1`` of ``r = 1 + s [u]_+ / b``, the divergence of a slack from its bound in ITML [DKJSD2007].

    Its conjugate is ``-s a b - log(1 - s a b)`` for ``a >= 0``, and below ``1 / b`` where s is 1.

    Attributes
    ----------
    sides : (m,) array
        s: 1 where u is the excess over an upper bound, -1 where it is the shortfall below a lower one.
    bounds : (m,) array
        b, positive.
    """

    sides: FloatArray
    bounds: FloatArray

    name = "log ratio"
    boxed = False

    @property
    def highest(self) -> FloatArray:
        """``1 / b``, exclusive, for upper bounds."""
        return np.where(self.sides > 0, (1.0 - 4e-15) / self.bounds, np.inf)

    def _more(self, u: FloatArray) -> FloatArray:
        """``r - 1``, and -1 where the exact one is that or below it."""
        with np.errstate(over="ignore"):
            return np.clip(self.sides * np.maximum(u, 0.0) / self.bounds, -1.0, LARGEST)

    def values(self, u: FloatArray) -> FloatArray:
        """``r - log r - 1``; infinity where a distance is 0 that should be large."""
        more = self._more(u)
        with np.errstate(divide="ignore"):
            return np.asarray(more - np.log1p(more))

    def values_above(self, u: FloatArray) -> FloatArray:
        """With all roundings; it grows with ``[u]_+``."""
        return _divergence_above(self.sides * all_above(np.maximum(u, 0.0) / self.bounds))

    def slopes(self, u: FloatArray, width: float) -> FloatArray:
        """``[u]_+ / (b^2 r)``; there is no kink."""
        more = self._more(u)
        with np.errstate(over="ignore"):
            return np.minimum(np.abs(more) / np.maximum(1.0 + more, SMALLEST) / self.bounds, LARGEST)

    def conjugates(self, s: FloatArray) -> FloatArray:
        """``-s a b - log(1 - s a b)``."""
        less = -self.sides * s * self.bounds
        with np.errstate(divide="ignore"):
            return np.asarray(less - np.log1p(less))

    def conjugates_above(self, s: FloatArray) -> FloatArray:
        """With all roundings; it grows with a."""
        return _divergence_above(-self.sides * all_above(s * self.bounds))

    def expression(self, u: Expression, cp: ModuleType) -> tuple[Expression | None, list[object]]:
        """``r - log r - 1`` with ``s (r - 1) >= u / b``."""
        r = cp.Variable(len(self.sides))
        return r - cp.log(r) - 1.0, [cp.multiply(self.sides, r - 1.0) >= cp.multiply(1.0 / self.bounds, u)]


def _divergence_above(x: FloatArray) -> FloatArray:
    """Floats not below ``x - log(1 + x)``; infinity where x is not above -1, or infinite."""
    found = np.where((x > -1.0) & (x < np.inf), 0.0, np.inf)
    some = (found == 0.0) & (x != 0.0)
    found[some] = np.nextafter(x[some] - log1p_bounds(x[some])[0], np.inf)
    return found
