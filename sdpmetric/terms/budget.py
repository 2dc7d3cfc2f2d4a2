"""A budget: a weighted sum of distances is to be at most a bound."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from sdpmetric.core import validation
from sdpmetric.terms.losses import Hard
from sdpmetric.terms.margins import MarginLoss, item_weights
from sdpmetric.terms.targets import check_term_pairs

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.int32]


@dataclass(frozen=True, eq=False, repr=False)
class Budget(MarginLoss):
    """The constraint ``sum_p c_p D(p) <= bound``, as in MMC [XNJR2002], which sets the scale of a metric.

    Parameters
    ----------
    pairs : (p, 2) integer array
        Row numbers of X.
    bound : float, default 1
        Positive.
    costs : (p,) array, optional
        ``c_p >= 0``; default 1.
    weight : float, default 1
        Without effect.
    """

    pairs: ArrayLike | None = None
    bound: float = 1.0
    costs: ArrayLike | None = None

    name: ClassVar[str] = "budget"

    def bind(self, X: NDArray[np.floating]) -> Self:
        """Check pairs and bound against data."""
        rows = check_term_pairs(self.name, self.pairs, len(X))
        if validation.check_number(f"bound of {self.name}", self.bound, 0.0) == 0.0:
            raise ValueError(f"the bound of {self.name} must be positive.")
        costs = item_weights(self.name, self.costs, None, rows[:, 0], len(X))
        return replace(self, pairs=rows, costs=costs, weights=np.ones(1), sample_weight=None)

    def describe(self) -> str:
        """Say in a few words what the term is."""
        return f"at most {self.bound:g} for the sum of {len(self.distance_pairs()):,} distances"

    @property
    def scalar(self) -> Hard:
        """A hard constraint."""
        return Hard()

    @property
    def offset(self) -> FloatArray:
        """-1, relative to the bound."""
        return np.full(1, -1.0)

    def distance_pairs(self) -> IndexArray:
        """The pairs."""
        return np.asarray(self.pairs, dtype=np.int32)

    @cached_property
    def combination(self) -> sp.csr_array:
        """The weighted sum over the bound."""
        return sp.csr_array(np.asarray(self.costs, dtype=np.float64)[None] / self.bound)

    def roles(self) -> dict[str, IndexArray]:
        """None: it is one constraint."""
        return {}
