"""The push term: impostors are to be further than target neighbors by a margin."""

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
from sdpmetric.terms.targets import labelled_triplets, target_pairs
from sdpmetric.triplets.triplets import Triplets

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.int32]


@dataclass(frozen=True, eq=False, repr=False)
class TripletHinge(Comparison):
    """``sum_t w_t l(margin + D(i, j) - D(i, l))`` over triplets (i, j, l), the push term of LMNN [WS2009].

    With the squared hinge it is that of Schultz and Joachims's and of many later methods. A triplet says "i
    is nearer to j than to l"; it may come from any source.

    Parameters
    ----------
    triplets : (t, 3) integer array or Triplets, optional
        Columns anchor i, target j, impostor l: three different row numbers of X.
    margin : float, default 1
    loss : {"hinge", "squared_hinge", "smooth_hinge", "logistic"}, default "hinge"
    weights : (t,) array, optional
        ``w_t >= 0``; default 1.
    labels : (n,) array, optional
        In place of triplets: all triplets of an example, one of its `n_neighbors` target neighbors (the nearest of its
        class), and an example of another class.
    n_neighbors : int, default 3
    target_neighbors : (n, k) integer array, optional
        In place of the nearest of the class, with `labels`.
    sample_weight : (n,) array, optional
        Weights of examples; each triplet is multiplied by that of its anchor.
    weight : float, default 1

    Attributes
    ----------
    index : (n,) int32 array or None
        Of a bound term of labels without weights, the class of each example.
    chosen : (n, k) int32 array or None
        And the target neighbors; its triplets are listed when they are asked for.
    """

    triplets: ArrayLike | Triplets | None = None
    labels: ArrayLike | None = None
    n_neighbors: int = 3
    target_neighbors: ArrayLike | None = None
    index: IndexArray | None = None
    chosen: IndexArray | None = None

    name: ClassVar[str] = "triplet_hinge"

    def bind(self, X: NDArray[np.floating]) -> Self:
        """Check the triplets against data, or list those of labels."""
        margin = validation.check_number("margin", self.margin, 0.0)
        find_loss(self.loss, type(self).__name__)
        if (self.triplets is None) == (self.labels is None):
            raise ValueError("TripletHinge takes either triplets= or labels=; pass exactly one of the two.")
        if self.labels is not None:
            index, targets = target_pairs(self.name, X, self.labels, self.n_neighbors, self.target_neighbors)
            if self.weights is None and self.sample_weight is None:
                bound = replace(self, margin=margin, index=index, chosen=targets)
                return replace(bound, labels=None, target_neighbors=None)
            listed = labelled_triplets(self.name, index, targets)
        else:
            given = self.triplets if isinstance(self.triplets, Triplets) else np.asarray(self.triplets)
            try:
                listed, _ = validation.check_triplets(given, None, len(X))
            except ValueError as error:
                raise ValueError(f"{self.name}: {error}") from error
            if not len(listed):
                raise ValueError(f"{self.name}: triplets is empty; pass at least one triplet of row numbers of X.")
        w = item_weights(self.name, self.weights, self.sample_weight, listed.anchors, len(X))
        bound = replace(self, triplets=listed.to_array(), margin=margin, weights=w, sample_weight=None)
        return replace(bound, labels=None, target_neighbors=None)

    def describe(self) -> str:
        """Say in a few words what the term is."""
        margin = "" if self.margin == 1.0 else f" with margin {self.margin:g}"
        return f"{self.scalar.name} over {self.size:,} triplets{margin}"

    @property
    def size(self) -> int:
        """The number of triplets."""
        if self.chosen is None or self.index is None:
            return len(self.item_weights)
        others = len(self.index) - np.bincount(self.index)[self.index]
        return int(np.sum((self.chosen >= 0).sum(axis=1) * others))

    @cached_property
    def item_weights(self) -> FloatArray:
        """``weight * w_t``."""
        return self.weight * (np.ones(self.size) if self.weights is None else np.asarray(self.weights))

    @cached_property
    def _rows(self) -> IndexArray:
        if self.chosen is None or self.index is None:
            return np.asarray(self.triplets, dtype=np.int32)
        return labelled_triplets(self.name, self.index, self.chosen).to_array()

    def distance_pairs(self) -> IndexArray:
        """Anchors with targets, then anchors with impostors."""
        return np.concatenate([self._rows[:, :2], self._rows[:, ::2]])

    def roles(self) -> dict[str, IndexArray]:
        """Row numbers by role."""
        return dict(zip(("anchor", "target", "impostor"), self._rows.T, strict=True))
