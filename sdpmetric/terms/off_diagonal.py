"""The l1 norm off the diagonal: sparse metrics."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import ModuleType
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sdpmetric.linalg.distances import mean_squared_distance
from sdpmetric.linalg.rigorous import above, product_above, sum_above
from sdpmetric.terms.base import Expression, Loss

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class OffDiagonal(Loss):
    """``sum_{j != k} |M_jk|``: features that do not interact get an entry of 0, as in SDML [QTZCZ2009].

    Parameters
    ----------
    weight : float, default 1

    Attributes
    ----------
    d : int
        Number of features, of a bound term.
    unit : float
        A large entry: the inverse of the mean squared distance of the data.
    """

    d: int = 0
    unit: float = 1.0

    name: ClassVar[str] = "off_diagonal"
    entrywise: ClassVar[bool] = True

    def bind(self, X: NDArray[np.floating]) -> Self:
        """Note the number of features."""
        return replace(self, d=X.shape[1], unit=1.0 / (mean_squared_distance(X) or 1.0))

    def describe(self) -> str:
        """Say in a few words what the term is."""
        return "l1 norm off the diagonal"

    @property
    def kinked(self) -> bool:
        """True: slopes jump, or are infinite, at 0."""
        return True

    @property
    def size(self) -> int:
        """The entries above the diagonal."""
        return self.d * (self.d - 1) // 2

    @property
    def offset(self) -> FloatArray:
        """0."""
        return np.zeros(self.size)

    def entries(self, M: FloatArray) -> FloatArray:
        """The entries above the diagonal, row by row."""
        return np.asarray(M[np.triu_indices(self.d, 1)])

    def matrix(self, a: FloatArray) -> FloatArray:
        """Half of each multiplier above and below the diagonal."""
        A = np.zeros((self.d, self.d))
        A[np.triu_indices(self.d, 1)] = 0.5 * a
        return A + A.T

    def value(self, u: FloatArray) -> float:
        """Twice the weighted sum of absolute values."""
        return 2.0 * self.weight * float(np.abs(u).sum())

    def highest(self, low: FloatArray, high: FloatArray) -> float:
        """See `Loss.highest`."""
        return above(product_above(2.0, self.weight, sum_above(np.maximum(np.abs(low), np.abs(high)))), 4)

    def smoothed(self, u: FloatArray, width: float, center: FloatArray | None = None) -> tuple[float, FloatArray]:
        """See `Loss.smoothed`."""
        c, g = 2.0 * self.weight, width * self.unit
        middle = np.zeros(self.size) if center is None else center / c
        s = np.clip(u / g + middle, -1.0, 1.0)
        return c * float(np.sum(s * u - 0.5 * g * (s - middle) ** 2)), c * s

    def conjugates(self, a: FloatArray) -> FloatArray:
        """0."""
        return np.zeros_like(a)

    def clip(self, a: FloatArray) -> FloatArray:
        """Between minus and plus twice the weight."""
        return np.clip(a, -2.0 * self.weight, 2.0 * self.weight)

    def ceiling(self, a: FloatArray, step: FloatArray) -> float:
        """The largest t with ``|a + t step|`` at most twice the weight."""
        moving = step != 0
        rooms = (2.0 * self.weight - np.sign(step[moving]) * a[moving]) / np.abs(step[moving])
        return max(0.0, float(rooms.min(initial=np.inf)))

    def expression(self, u: Expression, cp: ModuleType) -> tuple[Expression | float, list[object]]:
        """Twice the weighted sum of absolute values."""
        return 2.0 * self.weight * cp.sum(cp.abs(u)), []

    def entry_expression(self, M: Expression, cp: ModuleType) -> Expression:
        """The entries above the diagonal."""
        row, column = np.triu_indices(self.d, 1)
        return M[row.astype(np.int32), column.astype(np.int32)]
