"""The minimum over the metric in the dual value of a sum, along a segment of multipliers.

Multipliers ``a(t)`` that are affine in t have a dual slack matrix ``S(t)`` that is affine in t, and

    m(t) = min over the metrics M of the domain of  <S(t), M> + r(M)

is concave in t, as a minimum of functions that are affine in t. Without a regularizer r it is 0 where S(t) is positive
semidefinite on the domain, and minus infinity elsewhere; `Regularizer.minimum` gives it in closed form otherwise.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Protocol

from sdpmetric.arrays import FloatArray
from sdpmetric.linalg.rigorous.forms import Form, Images


class SlackSegment(Protocol):
    """``S(t)`` as regularizers see it; see `sdpmetric.sums.segment.Segment`."""

    def matrix(self, t: float) -> FloatArray:
        """``S(t)`` in floats, (d, d)."""

    def images(self, T: FloatArray) -> Images:
        """The data in coordinates T, (d, k)."""

    def form(self, images: Images, t: float) -> Form:
        """``T^T S(t) T`` in the coordinates of images, with a bound of its error."""


class InnerMinimum(ABC):
    """``m(t)`` of one segment: in floats where the best t is sought, with all roundings where something is claimed.

    Attributes
    ----------
    nearest, furthest : float
        Between these m is finite, as floats see it.
    """

    nearest: float = 0.0
    furthest: float = math.inf

    @abstractmethod
    def value(self, t: float) -> float:
        """``m(t)`` up to a constant, in floats."""

    @abstractmethod
    def proven(self, t: float) -> tuple[float, float]:
        """Some s, t itself or near it, and a float not above the exact ``m(s)``; minus infinity where none is shown."""
