"""The spread of pairs: the sum of their distances, without squares, is to be large."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from types import ModuleType
from typing import ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from sdpmetric.linalg.rigorous import above, below, sum_above, sum_below
from sdpmetric.terms.base import Expression, Loss
from sdpmetric.terms.margins import item_weights
from sdpmetric.terms.targets import check_term_pairs

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.int32]

# Share of the mean distance that is added to all of them where the roots are smoothed, and the smallest multiplier.
SHARE, SMALLEST = 1e-3, 1e-150


@dataclass(frozen=True, eq=False, repr=False)
class Spread(Loss):
    """``-sum_p w_p sqrt(D(p))``, the objective of MMC [XNJR2002]; some other term has to bound it.

    Parameters
    ----------
    pairs : (p, 2) integer array
        Row numbers of X.
    weights : (p,) array, optional
        ``w_p >= 0``; default 1.
    weight : float, default 1
    """

    pairs: ArrayLike | None = None
    weights: ArrayLike | None = None

    name: ClassVar[str] = "spread"
    nonnegative: ClassVar[bool] = False
    rough: ClassVar[bool] = True

    def bind(self, X: NDArray[np.floating]) -> Self:
        """Check the pairs against data; pairs of equal examples, whose distance is always 0, are left out."""
        rows = check_term_pairs(self.name, self.pairs, len(X))
        w = item_weights(self.name, self.weights, None, rows[:, 0], len(X))
        distinct = (w > 0.0) & (X[rows[:, 0]] != X[rows[:, 1]]).any(axis=1)
        if not distinct.any():
            raise ValueError(f"{self.name}: all pairs coincide or have weight 0; check the data.")
        return replace(self, pairs=rows[distinct], weights=w[distinct])

    def describe(self) -> str:
        """Say in a few words what the term is."""
        return f"minus the sum of {self.size:,} distances"

    @cached_property
    def item_weights(self) -> FloatArray:
        """``weight * w_p``."""
        return self.weight * np.asarray(self.weights, dtype=np.float64)

    @property
    def size(self) -> int:
        """The number of pairs."""
        return len(self.distance_pairs())

    @property
    def offset(self) -> FloatArray:
        """0."""
        return np.zeros(self.size)

    def distance_pairs(self) -> IndexArray:
        """The pairs."""
        return np.asarray(self.pairs, dtype=np.int32)

    @cached_property
    def combination(self) -> sp.csr_array:
        """Minus the squared distances."""
        return -sp.eye_array(self.size, format="csr")

    def value(self, u: FloatArray) -> float:
        """Minus the weighted sum of roots."""
        return -float(self.item_weights @ np.sqrt(np.maximum(-u, 0.0)))

    def highest(self, low: FloatArray, high: FloatArray) -> float:
        """Minus the sum of the lowest roots; see `Loss.highest`."""
        return -below(sum_below(self.item_weights * np.sqrt(np.maximum(-high, 0.0))), 4)

    def smoothed(self, u: FloatArray, width: float, center: FloatArray | None = None) -> tuple[float, FloatArray]:
        """With a share of the mean added to each squared distance, so that slopes are finite."""
        D, shares = np.maximum(-u, 0.0), SHARE * min(width, 1.0) ** 2 * self.item_weights / self.item_weights.sum()
        roots = np.sqrt(D + float(shares @ D))
        slopes = 0.5 * self.item_weights / np.maximum(roots, SMALLEST)
        return -float(self.item_weights @ roots), slopes + float(slopes.sum()) * shares

    def conjugates(self, a: FloatArray) -> FloatArray:
        """``w^2 / (4 a)``; infinity where a is 0."""
        with np.errstate(divide="ignore", over="ignore"):
            return np.asarray(0.25 * self.item_weights**2 / a)

    def dual_value(self, a: FloatArray) -> float:
        """Minus the conjugates of a itself, rounded; see `Loss.dual_value`."""
        return -above(sum_above(self.conjugates(a)), 10) if (a > 0.0).all() else -np.inf

    def clip(self, a: FloatArray) -> FloatArray:
        """At least a tiny share of the largest; 0 where none is positive."""
        top = float(a.max(initial=0.0))
        return np.maximum(a, max(1e-12 * top, SMALLEST) if top > 0.0 else 0.0)

    def ceiling(self, a: FloatArray, step: FloatArray) -> float:
        """Any multiple, as long as the multipliers are positive."""
        down = step < 0
        return max(0.0, float((a[down] / -step[down]).min(initial=np.inf)))

    def expression(self, u: Expression, cp: ModuleType) -> tuple[Expression | float, list[object]]:
        """Minus the weighted sum of roots."""
        return -cp.sum(cp.multiply(self.item_weights, cp.sqrt(-u))), []
