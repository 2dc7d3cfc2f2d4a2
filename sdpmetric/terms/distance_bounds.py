"""Bounds on distances, hard or with a loss."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from sdpmetric.terms.log_ratio import LogRatio
from sdpmetric.terms.losses import Hard, ScalarLoss, find_loss
from sdpmetric.terms.margins import MarginLoss, item_weights
from sdpmetric.terms.targets import check_term_pairs

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.int32]


@dataclass(frozen=True, eq=False, repr=False)
class DistanceBounds(MarginLoss):
    """``sum_p w_p l(D(p) - at_most) + sum_p w_p l(at_least - D(p))``, or hard constraints.

    With ``loss="log_ratio"`` the loss is the divergence ``r - log r - 1`` of the slack from the bound, r being their
    ratio, as in ITML [DKJSD2007].

    Parameters
    ----------
    pairs : (p, 2) integer array
        Row numbers of X.
    at_most : number or (p,) array, optional
        Upper bounds; infinite ones are left out.
    at_least : number or (p,) array, optional
        Lower bounds; those of 0 are left out.
    loss : {"hard", "log_ratio", "hinge", "squared_hinge", "smooth_hinge", "logistic"}, default "hard"
        The weight of the term has no effect on hard bounds.
    weights : (p,) array, optional
        ``w_p >= 0``; default 1. Hard bounds of weight 0 are left out.
    sample_weight : (n,) array, optional
        Weights of examples; each pair is multiplied by that of its first row.
    weight : float, default 1

    Attributes
    ----------
    sides : (m,) array
        Of a bound term, 1 for upper and -1 for lower bounds; upper ones come first.
    bounds : (m,) array
    """

    pairs: ArrayLike | None = None
    at_most: ArrayLike | None = None
    at_least: ArrayLike | None = None
    loss: str = "hard"
    sides: FloatArray | None = None
    bounds: FloatArray | None = None

    name: ClassVar[str] = "distance_bounds"

    def bind(self, X: NDArray[np.floating]) -> Self:
        """Check pairs and bounds against data."""
        rows = check_term_pairs(self.name, self.pairs, len(X))
        if self.loss not in ("hard", "log_ratio"):
            find_loss(self.loss, type(self).__name__)
        upper = self._given("at_most", self.at_most, len(rows), np.inf)
        lower = self._given("at_least", self.at_least, len(rows), 0.0)
        crossed = np.flatnonzero(lower > upper)
        if len(crossed):
            p = crossed[0]
            raise ValueError(
                f"{self.name}: pair {rows[p].tolist()} has at_least {lower[p]:g} above at_most {upper[p]:g}; "
                "bounds must be in order."
            )
        w = item_weights(self.name, self.weights, self.sample_weight, rows[:, 0], len(X))
        used = (w > 0.0) | (self.loss != "hard")
        bounded = [np.flatnonzero(np.isfinite(upper) & used), np.flatnonzero((lower > 0.0) & used)]
        if not len(bounded[0]) + len(bounded[1]):
            which = "" if used.all() else ", of a pair whose weight is not 0"
            raise ValueError(f"{self.name} needs at_most= or at_least=, with a bound that is not infinite or 0{which}.")
        if self.loss == "log_ratio" and not (upper[bounded[0]] > 0.0).all():
            raise ValueError(f"{self.name}: at_most must be positive with loss='log_ratio', which divides by it.")
        same = (X[rows[bounded[1], 0]] == X[rows[bounded[1], 1]]).all(axis=1)
        if same.any():
            raise ValueError(
                f"{self.name}: pair {rows[bounded[1]][same][0].tolist()} has two equal examples, whose distance is 0 "
                f"under every metric and below at_least ({int(same.sum())} such pairs); leave it out."
            )
        sides = np.repeat([1.0, -1.0], [len(bounded[0]), len(bounded[1])])
        found, every = np.concatenate([upper[bounded[0]], lower[bounded[1]]]), np.concatenate(bounded)
        bare = replace(self, at_most=None, at_least=None, sample_weight=None)
        return replace(bare, pairs=rows[every], weights=w[every], sides=sides, bounds=found)

    def _given(self, what: str, given: ArrayLike | None, p: int, default: float) -> FloatArray:
        values = np.asarray(default if given is None else given, dtype=np.float64)
        if values.shape not in ((), (p,)) or not (values >= 0.0).all():
            raise ValueError(f"{self.name}: {what} must be a number or {p} numbers of at least 0.")
        return np.array(np.broadcast_to(values, p))

    def describe(self) -> str:
        """Say in a few words what the term is."""
        upper = int(np.count_nonzero(self._sides > 0))
        kinds = [(upper, "upper"), (self.size - upper, "lower")]
        words = " and ".join(f"{count:,} {kind}" for count, kind in kinds if count)
        return f"{self.scalar.name} {'' if self.scalar.hard else 'over '}{words} bounds on distances"

    @property
    def _sides(self) -> FloatArray:
        return np.asarray(self.sides, dtype=np.float64)

    @property
    def _bounds(self) -> FloatArray:
        return np.asarray(self.bounds, dtype=np.float64)

    @cached_property
    def scalar(self) -> ScalarLoss:
        """The loss of a bound."""
        if self.loss == "log_ratio":
            return LogRatio(self._sides, self._bounds)
        return Hard() if self.loss == "hard" else find_loss(self.loss, self.name)

    @cached_property
    def unit(self) -> float:
        """The median bound."""
        return float(np.median(self._bounds[self._bounds > 0.0])) if self._bounds.any() else 1.0

    @property
    def offset(self) -> FloatArray:
        """Minus the upper bounds, and the lower ones."""
        return -self._sides * self._bounds

    def distance_pairs(self) -> IndexArray:
        """The pair of each bound."""
        return np.asarray(self.pairs, dtype=np.int32)

    @cached_property
    def combination(self) -> sp.csr_array:
        """``D`` for upper bounds and ``-D`` for lower ones."""
        return sp.csr_array(sp.diags_array(self._sides))

    def roles(self) -> dict[str, IndexArray]:
        """Row numbers by role."""
        return dict(zip(("first", "second"), self.distance_pairs().T, strict=True))
