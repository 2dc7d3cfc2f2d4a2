"""The push term of LMNN, hinges over triplets: its exhaustive search, its loss, and multipliers in their boxes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sdpmetric.arrays import BoolArray, FloatArray, IndexArray
from sdpmetric.core.multipliers import Dual
from sdpmetric.linalg.distances import distances
from sdpmetric.triplets.impostors import SearchMethod
from sdpmetric.triplets.limits import listed
from sdpmetric.triplets.margins import hinge_slopes
from sdpmetric.triplets.sources import TripletSource
from sdpmetric.triplets.totals import unit_hinges
from sdpmetric.triplets.triplets import Candidates, Triplets


@dataclass(frozen=True, eq=False)
class ClippedMultipliers:
    """Multipliers in their boxes, each triplet once, none of them 0.

    Attributes
    ----------
    values, weights : (t,) arrays
        The multipliers, and the weights of their hinges.
    violation : float
        How far the given ones were from their boxes, relative to the weight of the push term.
    """

    triplets: Triplets
    values: FloatArray
    weights: FloatArray
    violation: float


@dataclass(frozen=True, eq=False)
class Push:
    """``weight * sum_t w_t h(1 - <B_t, M>)`` over triplets, with h the hinge or its square.

    Attributes
    ----------
    X : (n, d) array
        The exact data.
    source : TripletSource
        The triplets and their weights ``w_t``.
    weight : float
        The push weight ``mu``.
    search : {"auto", "brute", "ball_tree"}
        How impostors are searched for.
    """

    X: NDArray[np.floating]
    source: TripletSource
    weight: float
    squared: bool
    search: SearchMethod

    @cached_property
    def duplicate_groups(self) -> IndexArray:
        """A number for each place that examples lie at, (n,): equal rows of X have equal numbers."""
        number: dict[bytes, int] = {}
        return np.array([number.setdefault(row.tobytes(), len(number)) for row in self.X + 0.0], dtype=np.int32)

    def near(
        self,
        Z: NDArray[np.floating],
        groups: IndexArray | None = None,
        *,
        widen: float = 0.0,
        among: IndexArray | None = None,
    ) -> Iterator[Candidates]:
        """Yield, block by block, all candidates that can violate their margin; see `LabeledTriplets.near`."""
        own = np.zeros(len(Z), dtype=np.int32) if groups is None else groups
        return self.source.near(Z, own, widen=widen, among=among, method=self.search)

    def candidates(
        self,
        Z: NDArray[np.floating],
        groups: IndexArray | None = None,
        *,
        widen: float = 0.0,
        among: IndexArray | None = None,
        most: float = math.inf,
    ) -> Candidates:
        """All blocks of `near` in one."""
        blocks = listed(self.near(Z, groups, widen=widen, among=among), most)
        return Candidates.concatenate(blocks) if blocks else Candidates.none()

    def loss(self, Z: FloatArray, among: IndexArray | None = None) -> float:
        """``sum_t w_t h(1 - <B_t, M>)`` at embedded points, over all anchors or some; the push weight is left out."""
        near = float(distances(Z, *self.source.target_pairs()).max(initial=0.0))
        if among is None and unit_hinges(Z, np.zeros(len(Z), dtype=np.int32), near):
            return self.source.total_weight
        return sum(hinge_slopes(Z, block, 0.0, self.squared)[0].loss for block in self.near(Z, among=among))

    def ceilings(self, triplets: Triplets) -> FloatArray:
        """The upper ends of the boxes of the hinge's multipliers, (t,); 0 for foreign triplets."""
        return self.weight * self.source.weights_of(triplets)

    def clipped(self, dual: Dual, separated: Callable[[Triplets], BoolArray] | None = None) -> ClippedMultipliers:
        """Repair multipliers: each triplet once, in its box."""
        values = np.asarray(dual.values, dtype=np.float64)
        given = dual.triplets.to_array()
        if values.shape != (len(given),) or not np.isfinite(values).all():
            raise ValueError(f"dual has {values.size} values for {len(given)} triplets; both must match, all finite.")
        if given.size and (given.min() < 0 or given.max() >= len(self.X)):
            raise ValueError(f"dual names rows outside 0..{len(self.X) - 1}.")
        _, first, inverse = np.unique(dual.triplets.keys(len(self.X)), return_index=True, return_inverse=True)
        triplets = dual.triplets[first]
        values = np.bincount(inverse.ravel(), values, minlength=len(first)).astype(np.float64)
        weights = self.source.weights_of(triplets)
        if separated is not None:
            weights[separated(triplets)] = 0.0
        ceiling = np.inf * np.ones(len(weights)) if self.squared else self.weight * weights
        ceiling[weights == 0] = 0.0
        clipped = np.clip(values, 0.0, ceiling)
        excess = float(np.abs(values - clipped).max(initial=0.0))
        violation = excess / self.weight if self.weight > 0 else np.inf if excess > 0 else 0.0
        used = clipped > 0
        return ClippedMultipliers(triplets[used], clipped[used], weights[used], violation)

    def coincident(self, triplets: Triplets) -> BoolArray:
        """Whether anchor and impostor lie at the very same place."""
        same: BoolArray = self.duplicate_groups[triplets.anchors] == self.duplicate_groups[triplets.impostors]
        return same
