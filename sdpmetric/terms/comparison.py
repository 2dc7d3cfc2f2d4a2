"""Losses of differences of two distances: the shared part of triplets and quadruplets."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sdpmetric.terms.losses import ScalarLoss, find_loss
from sdpmetric.terms.margins import MarginLoss

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Comparison(MarginLoss):
    """``sum_t w_t l(margin + D(near) - D(far))``; a bound one lists all near pairs, then all far ones.

    Attributes
    ----------
    margin : float
    loss : str
    """

    margin: float = 1.0
    loss: str = "hinge"

    @property
    def scalar(self) -> ScalarLoss:
        """The loss of a triplet."""
        return find_loss(self.loss, self.name)

    @property
    def unit(self) -> float:
        """The margin."""
        return self.margin or 1.0

    @property
    def offset(self) -> FloatArray:
        """The margin, for every triplet."""
        return np.full(self.size, self.margin)

    @cached_property
    def combination(self) -> sp.csr_array:
        """``D(i, j) - D(i, l)``."""
        one = sp.eye_array(self.size, format="csr")
        return sp.csr_array(sp.hstack([one, -one], format="csr"))
