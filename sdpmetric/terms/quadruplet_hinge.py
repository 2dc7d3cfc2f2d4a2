"""Hinges over quadruplets: one pair is to be nearer than another one by a margin."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sdpmetric.core import validation
from sdpmetric.terms.comparison import Comparison
from sdpmetric.terms.losses import find_loss
from sdpmetric.terms.margins import item_weights
from sdpmetric.terms.targets import check_term_pairs

IndexArray = NDArray[np.int32]


@dataclass(frozen=True, eq=False, repr=False)
class QuadrupletHinge(Comparison):
    """``sum_t w_t l(margin + D(u, v) - D(w, x))`` over quadruplets (u, v, w, x).

    Comparisons of two pairs that need not share an example, such as "these two are more alike than those two".

    Parameters
    ----------
    quadruplets : (t, 4) integer array
        Row numbers of X: the near pair, then the far pair.
    margin : float, default 1
    loss : {"hinge", "squared_hinge", "smooth_hinge", "logistic"}, default "hinge"
    weights : (t,) array, optional
        ``w_t >= 0``; default 1.
    sample_weight : (n,) array, optional
        Weights of examples; each quadruplet is multiplied by that of its first row.
    weight : float, default 1
    """

    quadruplets: ArrayLike | None = None

    name: ClassVar[str] = "quadruplet_hinge"

    def bind(self, X: NDArray[np.floating]) -> Self:
        """Check the quadruplets against data."""
        margin = validation.check_number("margin", self.margin, 0.0)
        find_loss(self.loss, type(self).__name__)
        given = validation.rectangular("quadruplets", [] if self.quadruplets is None else self.quadruplets)
        if given.ndim != 2 or given.shape[1] != 4 or not len(given):
            raise ValueError(
                f"{self.name}: quadruplets must be an integer array of shape (t, 4) with at least one row, the near "
                f"pair and then the far pair, got shape {given.shape}."
            )
        rows = np.concatenate([check_term_pairs(self.name, given[:, side], len(X)) for side in (NEAR, FAR)], axis=1)
        w = item_weights(self.name, self.weights, self.sample_weight, rows[:, 0], len(X))
        return replace(self, quadruplets=rows, margin=margin, weights=w, sample_weight=None)

    def describe(self) -> str:
        """Say in a few words what the term is."""
        margin = "" if self.margin == 1.0 else f" with margin {self.margin:g}"
        return f"{self.scalar.name} over {self.size:,} quadruplets{margin}"

    @cached_property
    def _rows(self) -> IndexArray:
        return np.asarray(self.quadruplets, dtype=np.int32)

    def distance_pairs(self) -> IndexArray:
        """The near pairs, then the far ones."""
        return np.concatenate([self._rows[:, NEAR], self._rows[:, FAR]])

    def roles(self) -> dict[str, IndexArray]:
        """Row numbers by role."""
        return dict(zip(("near_first", "near_second", "far_first", "far_second"), self._rows.T, strict=True))


NEAR, FAR = slice(0, 2), slice(2, 4)
